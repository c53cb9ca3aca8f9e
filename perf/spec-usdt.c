/* spec-usdt.c - see spec-usdt.h.
 *
 * A probe is a note in section .note.stapsdt (SystemTap wiki, UserSpaceProbeImplementation): name "stapsdt", type 3, and
 *
 *   word pc   word base   word semaphore   provider NUL   name NUL   arguments NUL
 *
 * in words of the ELF class.  A linker that moves sections (prelink) leaves the note as it was: the address of section .stapsdt.base
 * minus base is by how much.  The file may hold anything: libelf checks its own bounds, the description is read within its size. */
#include "perf/spec-usdt.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { NOTE_STAPSDT = 3 };

struct usdt_file {
	Elf *elf;
	size_t names;  /* section of the sections' names */
	uint64_t base; /* address of .stapsdt.base; 0: none */
	size_t word;
};

static void elf_endp(Elf **elf)
{
	if (*elf)
		(void)elf_end(*elf);
}

/* False: no segment of the file holds @address. */
static bool offset_of(Elf *elf, uint64_t address, uint64_t *ret_offset)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr h;

		if (!gelf_getphdr(elf, (int)i, &h))
			return false;
		if (h.p_type == PT_LOAD && address >= h.p_vaddr &&
		    address - h.p_vaddr < h.p_filesz) {
			*ret_offset = address - h.p_vaddr + h.p_offset;
			return true;
		}
	}
	return false;
}

static uint64_t read_word(const uint8_t *at, size_t word)
{
	uint64_t wide;
	uint32_t narrow;

	if (word == 8) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

/* The text at *@at, which ends before @end, into @to; false: it does not end or is too long. */
static bool read_text(const char **at, const char *end, char *to, size_t size)
{
	const char *nul = memchr(*at, 0, (size_t)(end - *at));

	if (!nul || (size_t)(nul - *at) >= size)
		return false;
	memcpy(to, *at, (size_t)(nul - *at) + 1);
	*at = nul + 1;
	return true;
}

static bool parse_note(const struct usdt_file *f, const uint8_t *data, size_t len,
		       struct usdt_probe *ret_probe)
{
	const char *at = (const char *)data + 3 * f->word, *end = (const char *)data + len;
	struct usdt_probe probe = {0};
	uint64_t moved, semaphore;

	if (len < 3 * f->word)
		return false;
	moved = f->base ? f->base - read_word(data + f->word, f->word) : 0;
	semaphore = read_word(data + 2 * f->word, f->word);
	if (!read_text(&at, end, probe.provider, sizeof(probe.provider)) ||
	    !read_text(&at, end, probe.name, sizeof(probe.name)) ||
	    !read_text(&at, end, probe.arguments, sizeof(probe.arguments)) || !probe.provider[0] ||
	    !probe.name[0] || !offset_of(f->elf, read_word(data, f->word) + moved, &probe.offset) ||
	    (semaphore && !offset_of(f->elf, semaphore + moved, &probe.semaphore)))
		return false;
	*ret_probe = probe;
	return true;
}

static int each_note(const struct usdt_file *f, Elf_Scn *section,
		     int (*each)(void *arg, const struct usdt_probe *probe), void *arg)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t at = 0, next, name, desc;
	struct usdt_probe probe;
	GElf_Nhdr note;
	int r = 0;

	for (; data && r == 0 && (next = gelf_getnote(data, at, &note, &name, &desc)); at = next) {
		const uint8_t *bytes = data->d_buf;

		if (note.n_type != NOTE_STAPSDT || note.n_namesz != sizeof("stapsdt") ||
		    name > data->d_size || note.n_namesz > data->d_size - name ||
		    memcmp(bytes + name, "stapsdt", sizeof("stapsdt")) != 0 ||
		    desc > data->d_size || note.n_descsz > data->d_size - desc)
			continue;
		if (parse_note(f, bytes + desc, note.n_descsz, &probe))
			r = each(arg, &probe);
	}
	return r;
}

static bool is_called(const struct usdt_file *f, const GElf_Shdr *header, const char *wanted)
{
	const char *name = elf_strptr(f->elf, f->names, header->sh_name);

	return name && !strcmp(name, wanted);
}

static int each_section(struct usdt_file *f, int (*each)(void *arg, const struct usdt_probe *probe),
			void *arg)
{
	GElf_Shdr header;
	int r = 0;

	for (Elf_Scn *s = NULL; (s = elf_nextscn(f->elf, s));)
		if (gelf_getshdr(s, &header) && is_called(f, &header, ".stapsdt.base"))
			f->base = header.sh_addr;
	for (Elf_Scn *s = NULL; r == 0 && (s = elf_nextscn(f->elf, s));)
		if (gelf_getshdr(s, &header) && header.sh_type == SHT_NOTE &&
		    is_called(f, &header, ".note.stapsdt"))
			r = each_note(f, s, each, arg);
	return r;
}

int spec_usdt_each(const char *path, int (*each)(void *arg, const struct usdt_probe *probe),
		   void *arg)
{
	const char host = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(elf_endp) Elf *elf = NULL;
	struct usdt_file f = {0};
	const char *ident;
	struct stat st;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return fail(-ENOEXEC);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(-errno);
	if (!S_ISREG(st.st_mode)) /* a fifo would make us wait */
		return fail(-ENOEXEC);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	ident = elf && elf_kind(elf) == ELF_K_ELF ? elf_getident(elf, NULL) : NULL;
	if (!ident || ident[EI_DATA] != host || elf_getshdrstrndx(elf, &f.names) != 0)
		return fail(-ENOEXEC);
	f.elf = elf;
	f.word = ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	return each_section(&f, each, arg);
}
