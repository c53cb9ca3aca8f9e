/* lines.c - inlined calls and source lines of one address, by libdw.
 *
 * The handle is opened at the first question and kept (uw_module_drop_lines lets go of it).  It
 * reads the debug sections whole into our memory, so their sum is bounded.  libdw would open a
 * supplementary file
 * (.gnu_debugaltlink) by itself, and map it: it is given ours, or told that there is none.
 *
 * Which calls hold an address: calls.c.  libdw ends the process when memory is short unless the
 * handler leaves otherwise: hence the longjmp. */
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
#include "symbols/cuindex.h"
#include "symbols/debugfile.h"
#include "symbols/names.h"
#include "symbols/parts.h"

/* Within the 256 MiB that the process gives itself (DESIGN.md 8), with room for the rest. */
#define DEBUG_BYTES_MAX (144ull << 20)
enum { NAME_BYTES = 2048 };

struct dwarf_file {
	int fd;
	Elf *elf;
	Dwarf *dwarf;
};

struct uw_lines {
	struct dwarf_file main, alt; /* main.dwarf NULL: there is none, and no use to look again */
	struct uw_cu_index units;
	struct uw_calls calls;
	size_t bytes;
};

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
	file->fd = fd_close(file->fd);
	file->dwarf = NULL;
	file->elf = NULL;
}

struct uw_lines *uw_lines_free(struct uw_lines *lines)
{
	if (!lines)
		return NULL;
	uw_cu_index_deinit(&lines->units);
	uw_calls_deinit(&lines->calls);
	file_close(&lines->main);
	file_close(&lines->alt);
	free(lines);
	return NULL;
}

static void lines_freep(struct uw_lines **lines)
{
	uw_lines_free(*lines);
}

/* Is a section of this name asked for anything here?  Where variables live, what macros there are
 * and look-ups by name are a third of all DWARF. */
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

/* What libdw will hold of it; 0: no DWARF.  The old .zdebug_ sections are not taken. */
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

/* What is not needed is said to have no bytes, in our copy of its header: libdw would read and
 * inflate it. */
static void hide_section(Elf_Scn *scn, GElf_Shdr *shdr)
{
	shdr->sh_type = SHT_NOBITS;
	shdr->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
	(void)gelf_update_shdr(scn, shdr);
}

/* libdw 0.188 takes it that its string sections end in a NUL.  The data is our copy: make it so. */
static void end_string(Elf_Scn *scn)
{
	Elf_Data *data = elf_rawdata(scn, NULL);

	if (data && data->d_buf && data->d_size)
		((char *)data->d_buf)[data->d_size - 1] = 0;
}

/* @opened: libdw has its sections. */
static void adjust_sections(Elf *elf, bool opened)
{
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
		if (opened && (!strcmp(name, ".debug_str") || !strcmp(name, ".debug_line_str")))
			end_string(scn);
	}
}

/* Consumes @fd. */
static int file_open(struct dwarf_file *file, int fd)
{
	*file = (struct dwarf_file){.fd = fd};
	if (elf_version(EV_CURRENT) == EV_NONE)
		return fail(-ENOEXEC);
	file->elf = elf_begin(fd, ELF_C_READ, NULL); /* not ..._MMAP: see module.h */
	if (file->elf)
		adjust_sections(file->elf, false);
	if (file->elf)
		file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!file->dwarf) {
		file_close(file);
		return fail(-EBADMSG);
	}
	(void)dwarf_new_oom_handler(file->dwarf, on_oom);
	adjust_sections(file->elf, true);
	return 0;
}

/* The file with the DWARF of an image: itself, or a separate one. */
static int find_file(const struct uw_elf *elf, const char *path, struct uw_source *source,
		     uint64_t *ret_bytes)
{
	_cleanup_(uw_elf_close) struct uw_elf debug = {.fd = -1};
	_cleanup_(fd_closep) int fd = -1;

	*ret_bytes = debug_bytes(elf);
	if (*ret_bytes)
		return fcntl(elf->fd, F_DUPFD_CLOEXEC, 3);
	if (uw_debugfile_open(elf, path, source, &fd) != 0 || uw_elf_open_fd(&debug, fd) < 0)
		return -1;
	*ret_bytes = debug_bytes(&debug);
	return *ret_bytes ? take_fd(fd) : -1;
}

static void open_alt(struct uw_lines *lines, struct uw_source *source)
{
	const char *path;
	struct uw_build_id id = {0};
	const void *bytes;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(lines->main.dwarf, &path, &bytes);
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	int fd = -1;

	if (len <= 0)
		return;
	if (len <= UW_BUILD_ID_MAX) {
		id.len = (uint8_t)len;
		memcpy(id.bytes, bytes, id.len);
		fd = uw_debugfile_open_id(&id, path, source);
	}
	if (fd >= 0 && uw_elf_open_fd(&elf, fd) >= 0 && debug_bytes(&elf) &&
	    debug_bytes(&elf) <= DEBUG_BYTES_MAX - lines->bytes) {
		lines->bytes += debug_bytes(&elf);
		(void)file_open(&lines->alt, fd);
	} else {
		fd_close(fd);
	}
	/* libdw's own mark for "looked for and not found" */
	dwarf_setalt(lines->main.dwarf, lines->alt.dwarf ? lines->alt.dwarf : (Dwarf *)-1);
}

static int lines_new(struct uw_module *module, struct uw_source *source,
		     struct uw_lines **ret_lines)
{
	_cleanup_(lines_freep) struct uw_lines *lines = calloc(1, sizeof(*lines));
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	const struct uw_layout *layout;
	uint64_t bytes = 0;
	int r, fd = -1;

	if (!lines)
		return fail(-ENOMEM);
	lines->main.fd = lines->alt.fd = -1;
	r = uw_elf_open(&elf, source);
	if (r >= 0)
		r = uw_module_check(module, &elf, &layout);
	if (r < 0)
		return trace(r);
	fd = find_file(&elf, module->path, source, &bytes);
	if (fd >= 0 && bytes <= DEBUG_BYTES_MAX) {
		lines->bytes = bytes;
		if (file_open(&lines->main, fd) >= 0)
			open_alt(lines, source);
	} else {
		fd_close(fd);
	}
	*ret_lines = take(lines);
	return 0;
}

/* ---- looking up ---- */

static void function_name(Dwarf_Die *die, char *to, size_t size)
{
	static const unsigned names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};

	to[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !to[0]; i++) {
		Dwarf_Attribute attr;
		const char *name = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));

		if (name)
			uw_demangle(name, to, size);
	}
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &value) == 0 && value <= UINT32_MAX
		       ? (uint32_t)value
		       : 0;
}

/* Where the call stands that @inlined replaced. */
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

/* Compilers are often given relative names; what they are relative to is the unit's. */
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

static int look_up(struct uw_lines *lines, uint64_t vaddr,
		   void (*line)(void *arg, const char *function, const char *file, uint32_t line),
		   void *arg)
{
	Dwarf_Die cu, calls[UW_CALLS_MAX];
	char name[NAME_BYTES], path[PATH_MAX];
	const char *file;
	uint32_t number;
	size_t n;

	n = find_unit(lines, vaddr, &cu)
		    ? uw_calls_find(&lines->calls, lines->main.dwarf, &cu, vaddr, calls)
		    : 0;
	if (!n)
		return 0;
	file = line_of(&cu, vaddr, &number);
	for (size_t i = n; i > 0; i--) {
		function_name(&calls[i - 1], name, sizeof(name));
		line(arg, name[0] ? name : "??", absolute(&cu, file, path, sizeof(path)), number);
		if (i > 1)
			file = call_site(&cu, &calls[i - 1], &number);
	}
	return (int)n;
}

void uw_module_drop_lines(struct uw_module *module)
{
	module->lines = uw_lines_free(module->lines);
	atomic_store_explicit(&module->lines_bytes, 0, memory_order_relaxed);
}

int uw_module_lines(struct uw_module *module, struct uw_source *source, uint64_t vaddr,
		    void (*line)(void *arg, const char *function, const char *file, uint32_t line),
		    void *arg)
{
	jmp_buf jump;
	int r;

	if (module->kind == UW_MODULE_JIT)
		return 0;
	if (!module->lines) {
		r = lines_new(module, source, &module->lines);
		if (r < 0)
			return trace(r);
		atomic_store_explicit(&module->lines_bytes, module->lines->bytes,
				      memory_order_relaxed);
	}
	if (!module->lines->main.dwarf)
		return -ENODATA;
	oom_jump = &jump;
	if (setjmp(jump)) {
		uw_module_drop_lines(module);
		return fail(-ENOMEM);
	}
	return look_up(module->lines, vaddr, line, arg);
}
