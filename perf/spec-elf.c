/* spec-elf.c - see spec-elf.h.
 *
 * The user names the file, and it may hold anything: libelf checks its bounds, and reads (does not
 * map) it.  Symbols hold addresses; the program header that loads an address gives its offset. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/spec-elf.h"

static void elf_endp(Elf **elf)
{
	if (*elf)
		(void)elf_end(*elf);
}

static int offset_of(Elf *elf, uint64_t address, uint64_t *ret_offset)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) != 0)
		return fail(-ENOEXEC);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(elf, (int)i, &header))
			return fail(-ENOEXEC);
		if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
		    address - header.p_vaddr < header.p_filesz) {
			*ret_offset = address - header.p_vaddr + header.p_offset;
			return 0;
		}
	}
	return fail(-ENOEXEC);
}

/* True and the address when the section has @symbol; its other functions are offered. */
static bool find_in(Elf *elf, Elf_Scn *section, const char *symbol, struct nearest *nearest,
		    uint64_t *ret_address)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Shdr header;
	GElf_Sym sym;

	if (!data || !gelf_getshdr(section, &header))
		return false;
	for (int i = 0; gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(elf, header.sh_link, sym.st_name);
		unsigned int type = GELF_ST_TYPE(sym.st_info);

		if (!name || !*name || sym.st_shndx == SHN_UNDEF ||
		    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
			continue;
		if (strcmp(name, symbol) == 0) {
			*ret_address = sym.st_value;
			return true;
		}
		nearest_offer(nearest, name);
	}
	return false;
}

int spec_elf_offset(const char *path, const char *symbol, struct nearest *nearest,
		    uint64_t *ret_offset)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(elf_endp) Elf *elf = NULL;
	bool symbols = false;
	struct stat st;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return fail(-ENOEXEC);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail(-errno);
	if (fstat(fd, &st) < 0)
		return fail(-errno);
	if (!S_ISREG(st.st_mode)) /* a fifo would make us wait */
		return fail(-ENOEXEC);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return fail(-ENOEXEC);
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		uint64_t address;

		if (!gelf_getshdr(section, &header) ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		symbols = true;
		if (find_in(elf, section, symbol, nearest, &address))
			return trace(offset_of(elf, address, ret_offset));
	}
	return fail(symbols ? -ENOENT : -ENOEXEC);
}
