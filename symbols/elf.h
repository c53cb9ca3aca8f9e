/* elf.h - reads an ELF image without trusting it.  Private to symbols/.  Thread: loader.
 *
 * One reader for three sources: a file (pread, never mapped), bytes in our memory (an unpacked
 * .gnu_debugdata) and the memory of a process (no section headers there: everything by address).
 * libelf is not used, so that the three share every check and each allocation has a limit of ours. */
#pragma once

#include <elf.h>

#include "base/unshared.h"
#include "symbols/image.h"

enum {
	UW_ELF_PHDRS_MAX = 1024,
	UW_ELF_NOTE_MAX = 64 << 10,
};

struct uw_elf {
	int fd;			  /* borrowed; -1: not a file */
	const uint8_t *data;	  /* borrowed; NULL: not bytes */
	struct uw_memory *memory; /* borrowed; NULL: not a process */
	uint64_t start;		  /* memory: the address of the image's first byte */
	uint64_t first_vaddr;	  /* memory: the virtual address, as in the image, of that byte */
	uint64_t size;		  /* of the file, the bytes, or what is readable from start */
	bool wide;	   /* 64-bit.  Of a 32-bit image only program headers and notes are read */
	enum uw_arch arch; /* NONE: not one that is unwound */
	Elf64_Phdr *phdrs;
	size_t n_phdrs;
	Elf64_Shdr *shdrs; /* NULL: stripped, unreadable, or process memory */
	size_t n_shdrs;
	uint8_t *names; /* the section name table; its last byte is NUL */
	size_t names_len;
};

/* Each: -ENOEXEC when it is not a little-endian ELF image, -EBADMSG when it is damaged. */
int uw_elf_open(struct uw_elf *elf, struct uw_source *source);
int uw_elf_open_fd(struct uw_elf *elf, int fd);
int uw_elf_open_bytes(struct uw_elf *elf, const uint8_t *data, size_t len);
void uw_elf_close(struct uw_elf *elf);

/* Exactly @len bytes or -EBADMSG.  @offset is a file offset; in process memory only what lies
 * before elf->size can be read so. */
int uw_elf_read(const struct uw_elf *elf, uint64_t offset, void *to, size_t len);
/* The same by virtual address, through the program headers. */
int uw_elf_read_vaddr(const struct uw_elf *elf, uint64_t vaddr, void *to, size_t len);
/* Of process memory: the virtual address of an address. */
uint64_t uw_elf_vaddr_of(const struct uw_elf *elf, uint64_t address);

/* The PT_LOAD that holds [@vaddr, @vaddr + 1), or NULL. */
const Elf64_Phdr *uw_elf_load_at(const struct uw_elf *elf, uint64_t vaddr);
const Elf64_Phdr *uw_elf_phdr(const struct uw_elf *elf, uint32_t type);
const Elf64_Shdr *uw_elf_section(const struct uw_elf *elf, const char *name);
/* Contents of a section, unpacked when SHF_COMPRESSED.  -EFBIG over @max. */
int uw_elf_load_section(const struct uw_elf *elf, const Elf64_Shdr *shdr, uint64_t max,
			struct uw_section *ret_section);
/* Unpacks SHF_COMPRESSED contents.  -EOPNOTSUPP: the method is not known, or is zstd and perfwind was
 * built without it. */
int uw_elf_unpack(const struct uw_section *packed, uint64_t max, struct uw_section *ret_section);
/* The same for the contents of a .zdebug_ section. */
int uw_elf_unpack_gnu(const struct uw_section *packed, uint64_t max,
		      struct uw_section *ret_section);
/* @len bytes at @vaddr. */
int uw_elf_load_vaddr(const struct uw_elf *elf, uint64_t vaddr, uint64_t len, uint64_t max,
		      struct uw_section *ret_section);
static inline void uw_section_deinit(struct uw_section *section)
{
	if (section->unshared)
		unshared_free(section->data, section->size);
	else
		free(section->data);
	*section = (struct uw_section){0};
}

/* NT_GNU_BUILD_ID, by program headers, else by sections.  len 0: none. */
void uw_elf_build_id(const struct uw_elf *elf, struct uw_build_id *ret_id);
