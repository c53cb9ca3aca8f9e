/* lines.c - see lines.h.
 *
 * The libdw handle is opened at the first question and kept.  It reads the debug sections whole into
 * our memory, so their sum is bounded.  libdw would open a supplementary file (.gnu_debugaltlink) by
 * itself, and map it: we give it ours, or report that there is none.
 *
 * libdw ends the process when memory is short if the handler does not leave in another way: hence the
 * longjmp. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <setjmp.h>
#include <string.h>

#include "base/error.h"
#include "symbols/calls.h"
#include "symbols/cxx-names.h"
#include "symbols/debugfile.h"
#include "symbols/gopclntab.h"
#include "symbols/lines.h"
#include "symbols/demangle.h"

/* Within the 256 MiB that the process may use, with room for the rest. */
#define DEBUG_BYTES_MAX (144ull << 20)
enum {
	UNPACKED_MAX = 16,
	NAME_BYTES = 2048,
	SYMBOLS_BYTES_MAX = 1 << 20,
	ROWS_MAX = 1 << 16,
};

struct dwarf_file {
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	uint8_t *unpacked[UNPACKED_MAX]; /* contents of sections, which elf borrows */
	size_t n_unpacked;
};

/* The units of a file by address.  Built at the first question. */
struct uw_cu_index {
	struct uw_cu_range *ranges; /* sorted by low */
	size_t n, room;
	bool built;
};

struct uw_lines {
	struct uw_golines *go;	     /* in place of DWARF; NULL: none */
	struct dwarf_file main, alt; /* main.dwarf NULL: there is none, and no use to look again */
	struct uw_cu_index units;
	struct uw_calls calls;
	struct uw_names names;
	size_t bytes;
};

/* ---- the unit of an address, for files without .debug_aranges ----
 *
 * Units of sound files do not overlap; in other files the nearest one below the address is used. */

enum { UNIT_RANGES_MAX = 1 << 20, UNITS_MAX = 1 << 18 };

struct uw_cu_range {
	uint64_t low, high;
	Dwarf_Off die;
};

static void uw_cu_index_deinit(struct uw_cu_index *index)
{
	free(index->ranges);
	*index = (struct uw_cu_index){0};
}

static bool add_unit_range(struct uw_cu_index *index, uint64_t low, uint64_t high, Dwarf_Off die)
{
	if (low >= high || !low) /* address 0: code that the linker threw away */
		return true;
	if (index->n == index->room &&
	    (index->room * 2 > UNIT_RANGES_MAX || !array_grow(index->ranges, index->room, 256)))
		return false;
	index->ranges[index->n++] = (struct uw_cu_range){low, high, die};
	return true;
}

static int by_unit_low(const void *left, const void *right)
{
	const struct uw_cu_range *a = left, *b = right;

	return ascend(a->low, b->low);
}

/* Where the line table of a unit without addresses (`perf inject --jit`) begins: the unit goes on to the next one. */
static bool first_row(Dwarf_Die *cu, Dwarf_Addr *ret_low)
{
	Dwarf_Lines *rows;
	size_t n;

	return dwarf_getsrclines(cu, &rows, &n) == 0 && n &&
	       dwarf_lineaddr(dwarf_onesrcline(rows, 0), ret_low) == 0;
}

/* Units that cannot be read are left out: some lines are better than none. */
static void build_units(struct uw_cu_index *index, Dwarf *dwarf)
{
	Dwarf_Off at = 0, next;
	size_t header;

	index->built = true;
	for (unsigned i = 0;
	     i < UNITS_MAX && dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0; i++) {
		Dwarf_Addr base, low, high;
		ptrdiff_t step = 0;
		Dwarf_Die cu;

		if (dwarf_offdie(dwarf, at + header, &cu) &&
		    dwarf_tag(&cu) == DW_TAG_compile_unit) {
			while ((step = dwarf_ranges(&cu, step, &base, &low, &high)) > 0)
				if (!add_unit_range(index, low, high, at + header))
					break;
			if (!dwarf_hasattr(&cu, DW_AT_low_pc) &&
			    !dwarf_hasattr(&cu, DW_AT_ranges) && first_row(&cu, &low))
				(void)add_unit_range(index, low, UINT64_MAX, at + header);
		}
		at = next;
	}
	if (index->n)
		qsort(index->ranges, index->n, sizeof(*index->ranges), by_unit_low);
}

static bool uw_cu_index_find(struct uw_cu_index *index, Dwarf *dwarf, uint64_t address,
			     Dwarf_Die *ret_cu)
{
	size_t low;

	if (!index->built)
		build_units(index, dwarf);
	low = bisect(i, index->n, index->ranges[i].low <= address);
	return low && address < index->ranges[low - 1].high &&
	       dwarf_offdie(dwarf, index->ranges[low - 1].die, ret_cu);
}

/* Narrows @span to the side of @low to @high where @address is; false: it is between them. */
static bool narrow(struct uw_span *span, uint64_t address, uint64_t low, uint64_t high)
{
	if (high <= address)
		span->low = max_u64(span->low, high);
	else if (low > address)
		span->high = min_u64(span->high, low);
	return high <= address || low > address;
}

/* Around an address that no unit has: code without DWARF (of libgcc, or in assembly).  false: it cannot be known. */
static bool between_units(struct uw_cu_index *index, Dwarf *dwarf, uint64_t address,
			  struct uw_span *ret_span)
{
	struct uw_span span = {.high = UINT64_MAX};
	Dwarf_Aranges *aranges;
	size_t n;

	if (!index->built)
		build_units(index, dwarf);
	for (size_t i = 0; i < index->n; i++)
		if (!narrow(&span, address, index->ranges[i].low, index->ranges[i].high))
			return false;
	if (dwarf_getaranges(dwarf, &aranges, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		Dwarf_Addr low;
		Dwarf_Word len;

		if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &low, &len, NULL) != 0 ||
		    !narrow(&span, address, low, low + len))
			return false;
	}
	*ret_span = span;
	return true;
}

static _Thread_local jmp_buf *oom_jump;

static void __attribute__((noreturn)) on_oom(void)
{
	longjmp(*oom_jump, 1);
}

/* ---- opening ---- */

static void file_close(struct dwarf_file *file)
{
	if (file->dwarf)
		dwarf_end(file->dwarf);
	if (file->elf)
		elf_end(file->elf);
	while (file->n_unpacked)
		free(file->unpacked[--file->n_unpacked]);
	file->fd = fd_close(file->fd);
	file->dwarf = NULL;
	file->elf = NULL;
}

struct uw_lines *uw_lines_free(struct uw_lines *lines)
{
	if (!lines)
		return NULL;
	(void)uw_golines_free(lines->go);
	uw_cu_index_deinit(&lines->units);
	uw_calls_deinit(&lines->calls);
	file_close(&lines->main);
	file_close(&lines->alt);
	uw_names_deinit(&lines->names);
	free(lines);
	return NULL;
}

static void lines_freep(struct uw_lines **lines)
{
	uw_lines_free(*lines);
}

/* Is a section of this name needed? Places of variables, macros and look-ups by name are a third of
 * all DWARF. */
static bool is_needed(const char *name)
{
	static const char *const others[] = {"loc",	"macro", "macinfo", "pub",
					     "gnu_pub", "names", "frame"};

	if (strncmp(name, ".debug_", 7) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strncmp(name + 7, others[i], strlen(others[i])))
			return false;
	return true;
}

static bool is_debug_section(const struct uw_elf *elf, const Elf64_Shdr *shdr)
{
	return shdr->sh_name < elf->names_len && shdr->sh_type != SHT_NOBITS &&
	       is_needed((const char *)elf->names + shdr->sh_name);
}

/* The bytes that libdw will hold; 0: no DWARF. The old .zdebug_ sections are not used. */
static uint64_t debug_bytes(const struct uw_elf *elf)
{
	const Elf64_Shdr *info = uw_elf_section(elf, ".debug_info");
	uint64_t sum = 0;

	if (!info || info->sh_type == SHT_NOBITS || !elf->wide)
		return 0;
	for (size_t i = 0; i < elf->n_shdrs; i++) {
		const Elf64_Shdr *s = &elf->shdrs[i];
		Elf64_Chdr ch = {.ch_size = 0};

		if (!is_debug_section(elf, s))
			continue;
		if (s->sh_size > DEBUG_BYTES_MAX)
			return UINT64_MAX;
		if ((s->sh_flags & SHF_COMPRESSED) &&
		    uw_elf_read(elf, s->sh_offset, &ch, sizeof(ch)) < 0)
			return 0;
		if (ch.ch_size > DEBUG_BYTES_MAX)
			return UINT64_MAX;
		sum += s->sh_size + ch.ch_size;
	}
	return sum;
}

/* Gives a section that is not needed no bytes, in our copy of its header: libdw would read and
 * inflate it. */
static void hide_section(Elf_Scn *scn, GElf_Shdr *shdr)
{
	shdr->sh_type = SHT_NOBITS;
	shdr->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
	(void)gelf_update_shdr(scn, shdr);
}

/* Unpacks a section in place of libelf, with libdeflate in half of zlib's time.  Where that fails libelf
 * does it, or fails as well. */
static void unpack_section(struct dwarf_file *file, Elf_Scn *scn, GElf_Shdr *shdr)
{
	Elf_Data *data = elf_getdata(scn, NULL); /* as packed; libdw takes its data from here */
	struct uw_section section;

	if (!data || !data->d_buf || file->n_unpacked == UNPACKED_MAX ||
	    uw_elf_unpack(&(struct uw_section){.data = data->d_buf, .size = data->d_size},
			  DEBUG_BYTES_MAX, &section) < 0)
		return;
	file->unpacked[file->n_unpacked++] = section.data;
	shdr->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
	shdr->sh_size = section.size;
	if (!gelf_update_shdr(scn, shdr))
		return;
	data->d_buf = section.data;
	data->d_size = section.size;
	data->d_type = ELF_T_BYTE;
}

/* libdw 0.188 assumes that its string sections end in a NUL. The data is our copy, so we write one.
 */
static void end_string(Elf_Scn *scn)
{
	Elf_Data *data = elf_getdata(scn, NULL);

	if (data && data->d_buf && data->d_size)
		((char *)data->d_buf)[data->d_size - 1] = 0;
}

/* @opened: libdw has its sections. */
static void adjust_sections(struct dwarf_file *file, bool opened)
{
	Elf *elf = file->elf;
	size_t names;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		const char *name =
			gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;

		if (!name || strncmp(name, ".debug_", 7) != 0)
			continue;
		if (!opened && !is_needed(name))
			hide_section(scn, &shdr);
		else if (!opened && shdr.sh_flags & SHF_COMPRESSED && shdr.sh_type != SHT_NOBITS)
			unpack_section(file, scn, &shdr);
		if (opened && (!strcmp(name, ".debug_str") || !strcmp(name, ".debug_line_str")))
			end_string(scn);
	}
}

/* The libraries report it only by their messages. */
static bool is_no_memory(void)
{
	int elf = elf_errno(), dwarf = dwarf_errno();

	return (elf && !strcmp(elf_errmsg(elf), "out of memory")) ||
	       (dwarf && !strcmp(dwarf_errmsg(dwarf), "out of memory"));
}

/* Consumes @fd.  -ENOMEM; -EBADMSG, -ENOEXEC: it has no DWARF that can be read. */
static int file_open(struct dwarf_file *file, int fd)
{
	*file = (struct dwarf_file){.fd = fd};
	(void)is_no_memory(); /* of earlier calls */
	if (elf_version(EV_CURRENT) == EV_NONE)
		return fail(-ENOEXEC);
	file->elf = elf_begin(fd, ELF_C_READ, NULL); /* not ..._MMAP: see module.h */
	if (file->elf)
		adjust_sections(file, false);
	if (file->elf)
		file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!file->dwarf) {
		bool no_memory = is_no_memory();

		file_close(file);
		return fail(no_memory ? -ENOMEM : -EBADMSG);
	}
	(void)dwarf_new_oom_handler(file->dwarf, on_oom);
	adjust_sections(file, true);
	return 0;
}

/* The file with the DWARF of an image: itself, or a separate one.  -1: there is none; -ENOMEM: also out of descriptors. */
static int find_file(const struct uw_elf *elf, const char *path, struct uw_source *source,
		     uint64_t *ret_bytes)
{
	_cleanup_(uw_elf_close) struct uw_elf debug = {.fd = -1};
	_cleanup_(fd_closep) int fd = -1;
	int r;

	*ret_bytes = debug_bytes(elf);
	if (*ret_bytes) {
		fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0 && is_shortage(-errno))
			return fail(-ENOMEM);
		return take_fd(fd);
	}
	r = uw_debugfile_open(elf, path, source, &fd);
	if (r == 0)
		r = uw_elf_open_fd(&debug, fd);
	if (r != 0)
		return r == -ENOMEM ? trace(r) : -1;
	*ret_bytes = debug_bytes(&debug);
	return *ret_bytes ? take_fd(fd) : -1;
}

static int open_alt(struct uw_lines *lines, struct uw_source *source)
{
	const char *path;
	struct uw_build_id id = {0};
	const void *bytes;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(lines->main.dwarf, &path, &bytes);
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	int fd = -1, r;

	if (len <= 0)
		return 0;
	if (len <= UW_BUILD_ID_MAX) {
		id.len = (uint8_t)len;
		memcpy(id.bytes, bytes, id.len);
		fd = uw_debugfile_open_id(&id, path, source);
	}
	r = fd >= 0 ? uw_elf_open_fd(&elf, fd) : fd;
	if (r >= 0 && debug_bytes(&elf) && debug_bytes(&elf) <= DEBUG_BYTES_MAX - lines->bytes) {
		lines->bytes += debug_bytes(&elf);
		r = file_open(&lines->alt, fd);
	} else {
		fd_close(fd);
	}
	/* libdw's own mark for "looked for and not found" */
	dwarf_setalt(lines->main.dwarf, lines->alt.dwarf ? lines->alt.dwarf : (Dwarf *)-1);
	return r == -ENOMEM ? trace(r) : 0;
}

int uw_lines_new(const struct uw_elf *elf, const char *path, struct uw_source *source,
		 struct uw_lines **ret_lines)
{
	_cleanup_(lines_freep) struct uw_lines *lines = calloc(1, sizeof(*lines));
	uint64_t bytes = 0;
	int fd, r = 0;

	if (!lines)
		return fail(-ENOMEM);
	lines->main.fd = lines->alt.fd = -1;
	fd = find_file(elf, path, source, &bytes);
	if (fd == -ENOMEM)
		return trace(fd);
	if (fd >= 0 && bytes <= DEBUG_BYTES_MAX) {
		lines->bytes = bytes;
		r = file_open(&lines->main, fd);
		if (r >= 0)
			r = open_alt(lines, source);
	} else {
		fd_close(fd);
	}
	if (r == -ENOMEM)
		return trace(r);
	if (!lines->main.dwarf && uw_golines_new(elf, &lines->go) == -ENOMEM)
		return fail(-ENOMEM);
	lines->bytes += lines->go ? uw_golines_bytes(lines->go) : 0;
	*ret_lines = take(lines);
	return 0;
}

size_t uw_lines_bytes(const struct uw_lines *lines)
{
	return lines->bytes + lines->names.bytes + lines->names.room * sizeof(*lines->names.list);
}

/* ---- looking up ---- */

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &value) == 0 && value <= UINT32_MAX
		       ? (uint32_t)value
		       : 0;
}

/* The source line of the call that @inlined replaced. */
static const char *call_site(Dwarf_Die *cu, Dwarf_Die *inlined, uint32_t *ret_line)
{
	uint32_t file = number_of(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t n;

	*ret_line = number_of(inlined, DW_AT_call_line);
	if (dwarf_getsrcfiles(cu, &files, &n) != 0 || file >= n)
		return NULL;
	return dwarf_filesrc(files, file, NULL, NULL);
}

static const char *line_of(Dwarf_Die *cu, uint64_t address, uint32_t *ret_line)
{
	Dwarf_Line *line = dwarf_getsrc_die(cu, address);
	int number = 0;

	*ret_line = 0;
	if (!line)
		return NULL;
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		*ret_line = (uint32_t)number;
	return dwarf_linesrc(line, NULL, NULL);
}

/* Narrows @span to the row of the line table. */
static bool narrow_to_row(Dwarf_Die *cu, uint64_t address, struct uw_span *span)
{
	Dwarf_Lines *rows;
	size_t low = 0, high;
	Dwarf_Addr at;

	if (dwarf_getsrclines(cu, &rows, &high) != 0)
		return false;
	while (low < high) { /* the first that begins beyond the address */
		size_t mid = low + (high - low) / 2;

		if (dwarf_lineaddr(dwarf_onesrcline(rows, mid), &at) != 0)
			return false;
		if (at <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || dwarf_lineaddr(dwarf_onesrcline(rows, low - 1), &at) != 0)
		return false;
	span->low = max_u64(span->low, at);
	if (dwarf_lineaddr(dwarf_onesrcline(rows, low), &at) == 0)
		span->high = min_u64(span->high, at);
	return true;
}

/* Compilers are often given relative names; the unit has the directory. */
static const char *absolute(Dwarf_Die *cu, const char *file, char *to, size_t size)
{
	Dwarf_Attribute attr;
	const char *dir;
	int n;

	if (!file || file[0] == '/')
		return file;
	dir = dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &attr));
	if (!dir)
		return file;
	n = snprintf(to, size, "%s/%s", dir, file);
	return n >= 0 && (size_t)n < size ? to : file;
}

static bool find_unit(struct uw_lines *lines, uint64_t address, Dwarf_Die *ret_cu)
{
	/* .debug_aranges first; clang writes none, and a file linked of both has them in part */
	return dwarf_addrdie(lines->main.dwarf, address, ret_cu) ||
	       uw_cu_index_find(&lines->units, lines->main.dwarf, address, ret_cu);
}

/* A compiler splits a function and inlines one part into the other: no call in the source. */
static bool same_function(Dwarf_Die *outer, Dwarf_Die *inner)
{
	Dwarf_Attribute attr;
	Dwarf_Die a, b;

	return dwarf_formref_die(dwarf_attr(outer, DW_AT_abstract_origin, &attr), &a) &&
	       dwarf_formref_die(dwarf_attr(inner, DW_AT_abstract_origin, &attr), &b) &&
	       dwarf_dieoffset(&a) == dwarf_dieoffset(&b);
}

/* The function at @address by the symbols of the file, if they are few: each address is looked for in all of them. */
static bool name_by_symbols(struct uw_lines *lines, uint64_t address, char *to, size_t size)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(lines->main.elf, scn))) {
		GElf_Shdr shdr;
		Elf_Data *data;
		GElf_Sym sym;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB ||
		    shdr.sh_flags & SHF_COMPRESSED || shdr.sh_size > SYMBOLS_BYTES_MAX)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &sym); i++) {
			const char *name;

			if (GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
			    address - sym.st_value >= sym.st_size)
				continue;
			name = elf_strptr(lines->main.elf, shdr.sh_link, sym.st_name);
			if (!name || !*name)
				continue;
			uw_demangle(name, to, size);
			return true;
		}
	}
	return false;
}

/* The last row at or below @address.  In a jitdump, and in what perf makes of it, "\xff" is the file of the row before; the last row is the
 * end of the table. */
static const char *last_row(Dwarf_Die *cu, uint64_t address, uint32_t *ret_line)
{
	const char *file = NULL, *name;
	Dwarf_Lines *rows;
	Dwarf_Addr at;
	int number;
	size_t n;

	if (dwarf_getsrclines(cu, &rows, &n) != 0)
		return NULL;
	for (size_t i = 0; i < min_u64(n, ROWS_MAX); i++) {
		Dwarf_Line *row = dwarf_onesrcline(rows, i);

		if (dwarf_lineaddr(row, &at) != 0 || at > address)
			break;
		name = dwarf_linesrc(row, NULL, NULL);
		if (name && strcmp(name, "\xff") != 0)
			file = name;
		*ret_line = dwarf_lineno(row, &number) == 0 && number > 0 ? (uint32_t)number : 0;
	}
	return file;
}

/* Code without a function in DWARF: that of a JIT compiler (`perf inject --jit`), or assembly. */
static int find_row(struct uw_lines *lines, Dwarf_Die *cu, uint64_t vaddr,
		    void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	struct uw_line line = {.function = NULL};
	char name[NAME_BYTES], path[PATH_MAX];

	line.file = absolute(cu, last_row(cu, vaddr, &line.line), path, sizeof(path));
	if (!line.file || !name_by_symbols(lines, vaddr, name, sizeof(name)))
		return 0;
	line.function = name;
	add(arg, &line);
	return 1;
}

static int find_lines(struct uw_lines *lines, uint64_t vaddr,
		      void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	struct uw_line line = {.function = NULL};
	Dwarf_Die cu, calls[UW_CALLS_MAX];
	char name[NAME_BYTES], path[PATH_MAX];
	const char *file;
	size_t n, n_same = 0;

	if (!find_unit(lines, vaddr, &cu))
		return 0;
	n = uw_calls_find(&lines->calls, lines->main.dwarf, &cu, vaddr, calls);
	if (!n)
		return find_row(lines, &cu, vaddr, add, arg);
	file = line_of(&cu, vaddr, &line.line);
	for (size_t i = n; i > 0; i--) {
		if (i < n && same_function(&calls[i - 1], &calls[i])) {
			n_same++;
			continue;
		}
		uw_names_get(&lines->names, &calls[i - 1], name, sizeof(name));
		line.function = name[0] ? name : "??";
		line.file = absolute(&cu, file, path, sizeof(path));
		add(arg, &line);
		if (i > 1)
			file = call_site(&cu, &calls[i - 1], &line.line);
	}
	return (int)(n - n_same);
}

static bool find_span(struct uw_lines *lines, uint64_t vaddr, struct uw_span *ret_span)
{
	Dwarf *dwarf = lines->main.dwarf;
	struct uw_span span;
	Dwarf_Die cu;

	if (!find_unit(lines, vaddr, &cu))
		return between_units(&lines->units, dwarf, vaddr, ret_span);
	if (!uw_calls_span(&lines->calls, dwarf, &cu, vaddr, &span) ||
	    !narrow_to_row(&cu, vaddr, &span))
		return false;
	*ret_span = span;
	return span.low <= vaddr && vaddr < span.high;
}

bool uw_lines_span(struct uw_lines *lines, uint64_t vaddr, struct uw_span *ret_span)
{
	jmp_buf jump;

	if (!lines->main.dwarf)
		return false;
	oom_jump = &jump;
	if (setjmp(jump))
		return false;
	return find_span(lines, vaddr, ret_span);
}

int uw_lines_at(struct uw_lines *lines, uint64_t vaddr,
		void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	jmp_buf jump;

	if (lines->go)
		return uw_golines_at(lines->go, vaddr, add, arg);
	if (!lines->main.dwarf)
		return -ENODATA;
	oom_jump = &jump;
	if (setjmp(jump))
		return fail(-ENOMEM);
	return find_lines(lines, vaddr, add, arg);
}
