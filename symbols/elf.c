/* elf.c - see elf.h.
 *
 * Every number in an image is a claim.  A claim of size is compared with the size of the file
 * before memory is taken for it, so that a few bytes cannot ask for gigabytes; a file that shrinks
 * meanwhile gives short reads, which are -EBADMSG; one that is rewritten gives other bytes, which
 * are checked like all others. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#ifndef ELFCOMPRESS_ZSTD /* glibc before 2.37 */
#define ELFCOMPRESS_ZSTD 2
#endif
#endif

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf.h"

/* ---- compressed sections ----
 *
 *   SHF_COMPRESSED    gABI: an Elf64_Chdr, then the data
 *   .zdebug_X         GNU's earlier form: "ZLIB", the size as 8 big-endian bytes, then the data
 *
 * The size in the header is a claim: memory is allocated within the caller's limit and within the
 * largest gain of the method for that many bytes, and the data must fill it exactly. */

enum { GNU_HEADER = 12 };

#ifdef HAVE_LIBDEFLATE
static int inflate_all(const uint8_t *from, size_t from_len, uint8_t *to, size_t len)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	enum libdeflate_result status;

	if (!d)
		return fail(-ENOMEM);
	status = libdeflate_zlib_decompress(d, from, from_len, to, len,
					    NULL); /* NULL: exactly @len */
	libdeflate_free_decompressor(d);
	return status == LIBDEFLATE_SUCCESS ? 0 : fail(-EBADMSG);
}
#else
static int inflate_all(const uint8_t *from, size_t from_len, uint8_t *to, size_t len)
{
	uLongf done = len;
	int status = uncompress(to, &done, from, from_len);

	if (status == Z_MEM_ERROR)
		return fail(-ENOMEM);
	return status == Z_OK && done == len ? 0 : fail(-EBADMSG);
}
#endif

#ifdef HAVE_ZSTD
static int unpack_zstd(const uint8_t *from, size_t from_len, uint8_t *to, size_t len)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t done;

	if (!context)
		return fail(-ENOMEM);
	done = ZSTD_decompressDCtx(context, to, len, from, from_len);
	(void)ZSTD_freeDCtx(context);
	return !ZSTD_isError(done) && done == len ? 0 : fail(-EBADMSG);
}
#endif

/* The largest gain of a method: deflate about 1032 to 1, zstd a block of 128 KiB from 4 bytes. */
struct method {
	uint64_t gain;
	int (*unpack)(const uint8_t *from, size_t from_len, uint8_t *to, size_t len);
};

static const struct method methods[] = {
	[ELFCOMPRESS_ZLIB] = {1100, inflate_all},
#ifdef HAVE_ZSTD
	[ELFCOMPRESS_ZSTD] = {(128 << 10) / 4, unpack_zstd},
#endif
};

static int unpack_by(uint32_t type, uint64_t len, const uint8_t *from, size_t from_len,
		     uint64_t max, uint8_t **ret_data)
{
	_cleanup_(freep) uint8_t *data = NULL;
	int r;

	if (type >= ARRAY_SIZE(methods) || !methods[type].unpack)
		return fail(-EOPNOTSUPP);
	if (len > max || len / methods[type].gain > from_len)
		return fail(-EFBIG);
	data = malloc(len ? len : 1);
	if (!data)
		return fail(-ENOMEM);
	r = methods[type].unpack(from, from_len, data, len);
	if (r < 0)
		return trace(r);
	*ret_data = take(data);
	return 0;
}

int uw_elf_unpack(const struct uw_section *packed, uint64_t max, struct uw_section *ret_section)
{
	uint8_t *data;
	Elf64_Chdr ch;
	int r;

	if (packed->size < sizeof(ch))
		return fail(-EBADMSG);
	memcpy(&ch, packed->data, sizeof(ch));
	r = unpack_by(ch.ch_type, ch.ch_size, packed->data + sizeof(ch), packed->size - sizeof(ch),
		      max, &data);
	if (r < 0)
		return trace(r);
	*ret_section =
		(struct uw_section){.data = data, .size = ch.ch_size, .vaddr = packed->vaddr};
	return 0;
}

int uw_elf_unpack_gnu(const struct uw_section *packed, uint64_t max, struct uw_section *ret_section)
{
	uint64_t len = 0;
	uint8_t *data;
	int r;

	if (packed->size < GNU_HEADER || memcmp(packed->data, "ZLIB", 4) != 0)
		return fail(-EBADMSG);
	for (unsigned i = 4; i < GNU_HEADER; i++)
		len = len << 8 | packed->data[i];
	r = unpack_by(ELFCOMPRESS_ZLIB, len, packed->data + GNU_HEADER, packed->size - GNU_HEADER,
		      max, &data);
	if (r < 0)
		return trace(r);
	*ret_section = (struct uw_section){.data = data, .size = len, .vaddr = packed->vaddr};
	return 0;
}

/* ---- the image ---- */

static int read_memory(struct uw_memory *memory, uint64_t address, uint8_t *to, size_t len)
{
	while (len) {
		ssize_t n = memory->read(memory, address, to, len);

		if (n < 0)
			return trace((int)n);
		if (n == 0 || (size_t)n > len)
			return fail(-EBADMSG);
		address += (size_t)n;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_file_at(int fd, uint64_t offset, uint8_t *to, size_t len)
{
	ssize_t n = read_fd_at(fd, to, len, offset);

	if (n < 0)
		return trace((int)n);
	return (size_t)n == len ? 0 : fail(-EBADMSG);
}

static bool fits(const struct uw_elf *elf, uint64_t offset, uint64_t len)
{
	return offset <= elf->size && len <= elf->size - offset;
}

int uw_elf_read(const struct uw_elf *elf, uint64_t offset, void *to, size_t len)
{
	if (!fits(elf, offset, len))
		return fail(-EBADMSG);
	if (!len)
		return 0;
	if (elf->data) {
		memcpy(to, elf->data + offset, len);
		return 0;
	}
	if (elf->memory)
		return read_memory(elf->memory, elf->start + offset, to, len);
	return read_file_at(elf->fd, offset, to, len);
}

const Elf64_Phdr *uw_elf_phdr(const struct uw_elf *elf, uint32_t type)
{
	for (size_t i = 0; i < elf->n_phdrs; i++)
		if (elf->phdrs[i].p_type == type)
			return &elf->phdrs[i];
	return NULL;
}

const Elf64_Phdr *uw_elf_load_at(const struct uw_elf *elf, uint64_t vaddr)
{
	for (size_t i = 0; i < elf->n_phdrs; i++) {
		const Elf64_Phdr *p = &elf->phdrs[i];

		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_memsz)
			return p;
	}
	return NULL;
}

uint64_t uw_elf_vaddr_of(const struct uw_elf *elf, uint64_t address)
{
	return address - elf->start + elf->first_vaddr;
}

int uw_elf_read_vaddr(const struct uw_elf *elf, uint64_t vaddr, void *to, size_t len)
{
	const Elf64_Phdr *p = uw_elf_load_at(elf, vaddr);
	uint64_t at;

	if (!p || len > p->p_memsz - (vaddr - p->p_vaddr))
		return fail(-EBADMSG);
	at = vaddr - p->p_vaddr;
	if (elf->memory) /* the segments of an image keep their distances */
		return read_memory(elf->memory, elf->start + (vaddr - elf->first_vaddr), to, len);
	if (at > p->p_filesz || len > p->p_filesz - at || p->p_offset > UINT64_MAX - at)
		return fail(-EBADMSG);
	return uw_elf_read(elf, p->p_offset + at, to, len);
}

static int load_phdrs(struct uw_elf *elf, const Elf64_Ehdr *eh)
{
	if (!eh->e_phnum)
		return 0; /* an object file, or a debug file of no use: sections only */
	if (eh->e_phnum > UW_ELF_PHDRS_MAX || eh->e_phentsize != sizeof(Elf64_Phdr))
		return fail(-EBADMSG);
	elf->phdrs = calloc(eh->e_phnum, sizeof(*elf->phdrs));
	if (!elf->phdrs)
		return fail(-ENOMEM);
	elf->n_phdrs = eh->e_phnum;
	return uw_elf_read(elf, eh->e_phoff, elf->phdrs, elf->n_phdrs * sizeof(*elf->phdrs));
}

static int load_phdrs_32(struct uw_elf *elf)
{
	Elf32_Ehdr eh;
	int r;

	r = uw_elf_read(elf, 0, &eh, sizeof(eh));
	if (r < 0)
		return trace(r);
	if (eh.e_phnum > UW_ELF_PHDRS_MAX || (eh.e_phnum && eh.e_phentsize != sizeof(Elf32_Phdr)))
		return fail(-EBADMSG);
	elf->phdrs = calloc(eh.e_phnum + 1u, sizeof(*elf->phdrs));
	if (!elf->phdrs)
		return fail(-ENOMEM);
	for (size_t i = 0; i < eh.e_phnum; i++) {
		Elf32_Phdr p;

		r = uw_elf_read(elf, eh.e_phoff + i * sizeof(p), &p, sizeof(p));
		if (r < 0)
			return trace(r);
		elf->phdrs[elf->n_phdrs++] = (Elf64_Phdr){
			.p_type = p.p_type,
			.p_flags = p.p_flags,
			.p_offset = p.p_offset,
			.p_vaddr = p.p_vaddr,
			.p_filesz = p.p_filesz,
			.p_memsz = p.p_memsz,
			.p_align = p.p_align,
		};
	}
	return 0;
}

/* Section headers are not needed to run, so they may be missing or wrong: then there are none. */
static int load_shdrs(struct uw_elf *elf, const Elf64_Ehdr *eh)
{
	uint64_t size = eh->e_shnum * sizeof(Elf64_Shdr);
	const Elf64_Shdr *names;

	if (!eh->e_shnum || eh->e_shnum >= SHN_LORESERVE || eh->e_shstrndx >= eh->e_shnum ||
	    eh->e_shentsize != sizeof(Elf64_Shdr) || !fits(elf, eh->e_shoff, size))
		return 0;
	elf->shdrs = malloc(size);
	if (!elf->shdrs)
		return fail(-ENOMEM);
	if (uw_elf_read(elf, eh->e_shoff, elf->shdrs, size) < 0)
		return 0;
	names = &elf->shdrs[eh->e_shstrndx];
	if (names->sh_type == SHT_NOBITS || !names->sh_size || names->sh_size > (1 << 20) ||
	    !fits(elf, names->sh_offset, names->sh_size))
		return 0;
	elf->names = malloc(names->sh_size);
	if (!elf->names)
		return fail(-ENOMEM);
	elf->names_len = names->sh_size;
	if (uw_elf_read(elf, names->sh_offset, elf->names, elf->names_len) < 0)
		return 0;
	elf->names[elf->names_len - 1] = 0;
	elf->n_shdrs = eh->e_shnum;
	return 0;
}

static enum uw_arch arch_of(const Elf64_Ehdr *eh)
{
	switch (eh->e_machine) {
	case EM_X86_64:
		return UW_ARCH_X86_64;
	case EM_AARCH64:
		return UW_ARCH_AARCH64;
	default:
		return UW_ARCH_NONE;
	}
}

/* The virtual address of the image's first byte, from the segment that begins at offset 0. */
static int find_first_vaddr(struct uw_elf *elf)
{
	for (size_t i = 0; i < elf->n_phdrs; i++) {
		const Elf64_Phdr *p = &elf->phdrs[i];

		if (p->p_type != PT_LOAD || p->p_offset >= 4096)
			continue;
		elf->first_vaddr = p->p_vaddr - p->p_offset;
		return 0;
	}
	return fail(-EBADMSG);
}

static int open_headers(struct uw_elf *elf)
{
	Elf64_Ehdr eh;
	int r;

	if (elf->size < sizeof(Elf32_Ehdr))
		return fail(-ENOEXEC);
	memset(&eh, 0, sizeof(eh));
	r = uw_elf_read(elf, 0, &eh, min_u64(sizeof(eh), elf->size));
	if (r < 0)
		return trace(r);
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(-ENOEXEC);
	if (eh.e_ident[EI_CLASS] == ELFCLASS32) {
		r = load_phdrs_32(elf);
	} else if (eh.e_ident[EI_CLASS] == ELFCLASS64) {
		elf->wide = true;
		elf->arch = arch_of(&eh);
		r = load_phdrs(elf, &eh);
		if (r >= 0 && !elf->memory)
			r = load_shdrs(elf, &eh);
	} else {
		r = fail(-ENOEXEC);
	}
	if (r >= 0 && elf->memory)
		r = find_first_vaddr(elf);
	return trace(r);
}

static int open_checked(struct uw_elf *elf)
{
	int r = open_headers(elf);

	if (r < 0)
		uw_elf_close(elf);
	return r;
}

int uw_elf_open_fd(struct uw_elf *elf, int fd)
{
	struct stat st;

	*elf = (struct uw_elf){.fd = fd};
	if (fstat(fd, &st) < 0)
		return fail(-errno);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return fail(-ENOEXEC);
	elf->size = (uint64_t)st.st_size;
	return trace(open_checked(elf));
}

int uw_elf_open_bytes(struct uw_elf *elf, const uint8_t *data, size_t len)
{
	*elf = (struct uw_elf){.fd = -1, .data = data, .size = len};
	return trace(open_checked(elf));
}

int uw_elf_open(struct uw_elf *elf, struct uw_source *source)
{
	if (source->fd >= 0)
		return trace(uw_elf_open_fd(elf, source->fd));
	*elf = (struct uw_elf){.fd = -1, .memory = source->memory, .start = source->start};
	if (!source->memory || source->end <= source->start)
		return fail(-EINVAL);
	elf->size = source->end - source->start;
	return trace(open_checked(elf));
}

void uw_elf_close(struct uw_elf *elf)
{
	free(elf->phdrs);
	free(elf->shdrs);
	free(elf->names);
	*elf = (struct uw_elf){.fd = -1};
}

const Elf64_Shdr *uw_elf_section(const struct uw_elf *elf, const char *name)
{
	for (size_t i = 0; i < elf->n_shdrs; i++) {
		const Elf64_Shdr *s = &elf->shdrs[i];

		if (s->sh_name < elf->names_len &&
		    !strcmp((const char *)elf->names + s->sh_name, name))
			return s;
	}
	return NULL;
}

int uw_elf_load_section(const struct uw_elf *elf, const Elf64_Shdr *shdr, uint64_t max,
			struct uw_section *ret_section)
{
	_cleanup_(uw_section_deinit) struct uw_section section = {0};
	int r;

	if (shdr->sh_type == SHT_NOBITS || !fits(elf, shdr->sh_offset, shdr->sh_size))
		return fail(-EBADMSG);
	if (shdr->sh_size > max)
		return fail(-EFBIG);
	section.data = malloc(shdr->sh_size ? shdr->sh_size : 1);
	if (!section.data)
		return fail(-ENOMEM);
	section.size = shdr->sh_size;
	section.vaddr = shdr->sh_addr;
	r = uw_elf_read(elf, shdr->sh_offset, section.data, section.size);
	if (r < 0)
		return trace(r);
	if (shdr->sh_flags & SHF_COMPRESSED)
		return trace(uw_elf_unpack(&section, max, ret_section));
	*ret_section = section;
	section.data = NULL;
	return 0;
}

int uw_elf_load_vaddr(const struct uw_elf *elf, uint64_t vaddr, uint64_t len, uint64_t max,
		      struct uw_section *ret_section)
{
	_cleanup_(freep) uint8_t *data = NULL;
	int r;

	if (len > max)
		return fail(-EFBIG);
	if (!elf->memory && len > elf->size)
		return fail(-EBADMSG);
	data = malloc(len ? len : 1);
	if (!data)
		return fail(-ENOMEM);
	r = uw_elf_read_vaddr(elf, vaddr, data, len);
	if (r < 0)
		return trace(r);
	*ret_section = (struct uw_section){.data = take(data), .size = len, .vaddr = vaddr};
	return 0;
}

/* Notes: u32 name size, u32 descriptor size, u32 type, name, descriptor, each padded to @align. */
static bool find_build_id(const uint8_t *notes, size_t len, size_t align, struct uw_build_id *id)
{
	struct cursor c = cursor_of(notes, len);

	while (cursor_left(&c) >= 12) {
		uint32_t name_len = cursor_u32(&c), desc_len = cursor_u32(&c),
			 type = cursor_u32(&c);
		const char *name = cursor_bytes(&c, name_len);
		const uint8_t *desc;

		(void)cursor_bytes(&c, -(size_t)name_len & (align - 1));
		desc = cursor_bytes(&c, desc_len);
		if (c.bad)
			return false;
		if (type == NT_GNU_BUILD_ID && name_len == 4 && !memcmp(name, "GNU", 4) &&
		    desc_len) {
			id->len = (uint8_t)min_u64(desc_len, UW_BUILD_ID_MAX);
			memcpy(id->bytes, desc, id->len);
			return true;
		}
		(void)cursor_bytes(&c, -(size_t)desc_len & (align - 1));
	}
	return false;
}

void uw_elf_build_id(const struct uw_elf *elf, struct uw_build_id *ret_id)
{
	uint8_t notes[UW_ELF_NOTE_MAX]; /* no allocation: its failure would look like a file without
					   an id */

	*ret_id = (struct uw_build_id){0};
	for (size_t i = 0; i < elf->n_phdrs; i++) {
		const Elf64_Phdr *p = &elf->phdrs[i];
		size_t len = min_u64(p->p_filesz, sizeof(notes));
		int r;

		if (p->p_type != PT_NOTE)
			continue;
		r = elf->memory ? uw_elf_read_vaddr(elf, p->p_vaddr, notes, len)
				: uw_elf_read(elf, p->p_offset, notes, len);
		if (r >= 0 && find_build_id(notes, len, p->p_align == 8 ? 8 : 4, ret_id))
			return;
	}
	for (size_t i = 0; i < elf->n_shdrs; i++) {
		const Elf64_Shdr *s = &elf->shdrs[i];

		if (s->sh_type == SHT_NOTE && s->sh_size <= sizeof(notes) &&
		    uw_elf_read(elf, s->sh_offset, notes, s->sh_size) >= 0 &&
		    find_build_id(notes, s->sh_size, s->sh_addralign == 8 ? 8 : 4, ret_id))
			return;
	}
}
