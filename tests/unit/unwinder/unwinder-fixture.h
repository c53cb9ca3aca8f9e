/* unwinder-fixture.h - images for the tests of modules: one laid out by hand, and real ones made by the
 * compiler.
 *
 * The hand-made image (every number below is stated, none is computed by the code under test):
 *
 *   0x0000 ELF header              0x0040 program headers, 4:
 *                                         LOAD r--  0x0000 at 0x400000, 0x600 bytes
 *                                         LOAD r-x  0x1000 at 0x402000, 0x200 bytes
 *   0x0200 note: build id 01..14
 *   0x0300 .eh_frame_hdr           0x0340 .eh_frame, 16 bytes of 0xe0, e1, ...
 *   0x1000 .text
 *   0x1400 .symtab                 0x1600 .strtab             0x1800 names
 *   0x2000 section headers         0x2200 end */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "symbols/image.h"

#define UNUSED __attribute__((unused))

enum { IMAGE_SIZE = 0x2200, IMAGE_SECTIONS = 6, IMAGE_SYMBOLS = 8 };

UNUSED static void image_symbols(uint8_t *image)
{
	static const char strings[] = "\0alpha\0beta\0gamma\0__alpha\0delta\0$x.1\0object";
	const Elf64_Sym symbols[IMAGE_SYMBOLS] = {
		{0},
		{.st_name = 1,
		 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		 .st_shndx = 1,
		 .st_value = 0x402010,
		 .st_size = 0x20},
		{.st_name = 7,
		 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		 .st_shndx = 1,
		 .st_value = 0x402040,
		 .st_size = 0x10},
		{.st_name = 12,
		 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
		 .st_shndx = 1,
		 .st_value = 0x402080},
		{.st_name = 18,
		 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		 .st_shndx = 1,
		 .st_value = 0x402010,
		 .st_size = 0x20},
		{.st_name = 26,
		 .st_info = ELF64_ST_INFO(STB_WEAK, STT_GNU_IFUNC),
		 .st_shndx = 1,
		 .st_value = 0x402100,
		 .st_size = 8},
		{.st_name = 32,
		 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE),
		 .st_shndx = 1,
		 .st_value = 0x402044},
		{.st_name = 37,
		 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		 .st_shndx = 1,
		 .st_value = 0x402110,
		 .st_size = 8},
	};

	memcpy(image + 0x1400, symbols, sizeof(symbols));
	memcpy(image + 0x1600, strings, sizeof(strings));
}

UNUSED static void image_sections(uint8_t *image)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.eh_frame\0.shstrtab";
	const Elf64_Shdr sections[IMAGE_SECTIONS] = {
		{0},
		{.sh_name = 1,
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		 .sh_addr = 0x402000,
		 .sh_offset = 0x1000,
		 .sh_size = 0x200},
		{.sh_name = 7,
		 .sh_type = SHT_SYMTAB,
		 .sh_offset = 0x1400,
		 .sh_size = IMAGE_SYMBOLS * sizeof(Elf64_Sym),
		 .sh_link = 3,
		 .sh_entsize = sizeof(Elf64_Sym)},
		{.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = 0x1600, .sh_size = 44},
		{.sh_name = 23,
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = SHF_ALLOC,
		 .sh_addr = 0x400340,
		 .sh_offset = 0x340,
		 .sh_size = 16},
		{.sh_name = 33,
		 .sh_type = SHT_STRTAB,
		 .sh_offset = 0x1800,
		 .sh_size = sizeof(names)},
	};

	memcpy(image + 0x1800, names, sizeof(names));
	memcpy(image + 0x2000, sections, sizeof(sections));
}

UNUSED static void image_make(uint8_t *image)
{
	const Elf64_Ehdr eh = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = 1,
		.e_phoff = 0x40,
		.e_shoff = 0x2000,
		.e_ehsize = 64,
		.e_phentsize = 56,
		.e_phnum = 4,
		.e_shentsize = 64,
		.e_shnum = IMAGE_SECTIONS,
		.e_shstrndx = 5,
	};
	const Elf64_Phdr ph[4] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_offset = 0,
		 .p_vaddr = 0x400000,
		 .p_filesz = 0x600,
		 .p_memsz = 0x600},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = 0x1000,
		 .p_vaddr = 0x402000,
		 .p_filesz = 0x200,
		 .p_memsz = 0x200},
		{.p_type = PT_NOTE,
		 .p_offset = 0x200,
		 .p_vaddr = 0x400200,
		 .p_filesz = 36,
		 .p_memsz = 36,
		 .p_align = 4},
		{.p_type = PT_GNU_EH_FRAME,
		 .p_offset = 0x300,
		 .p_vaddr = 0x400300,
		 .p_filesz = 12,
		 .p_memsz = 12},
	};
	/* version, pcrel|sdata4, udata4, datarel|sdata4; 0x400304 + 0x3c = 0x400340 */
	static const uint8_t hdr[12] = {1, 0x1b, 0x03, 0x3b, 0x3c};
	const uint32_t note[3] = {4, 20, NT_GNU_BUILD_ID};

	memset(image, 0, IMAGE_SIZE);
	memcpy(image, &eh, sizeof(eh));
	memcpy(image + 0x40, ph, sizeof(ph));
	memcpy(image + 0x200, note, sizeof(note));
	memcpy(image + 0x20c, "GNU", 4);
	for (unsigned i = 0; i < 20; i++)
		image[0x210 + i] = (uint8_t)(i + 1);
	memcpy(image + 0x300, hdr, sizeof(hdr));
	for (unsigned i = 0; i < 16; i++)
		image[0x340 + i] = (uint8_t)(0xe0 + i);
	image_symbols(image);
	image_sections(image);
}

UNUSED static struct uw_build_id image_id(void)
{
	struct uw_build_id id = {.len = 20};

	for (unsigned i = 0; i < 20; i++)
		id.bytes[i] = (uint8_t)(i + 1);
	return id;
}

UNUSED static int memfd_of(const void *data, size_t len)
{
	int fd = memfd_create("fixture", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	return fd;
}

/* ---- memory that stands for a process's ---- */

struct fake_memory {
	struct uw_memory memory;
	uint64_t start;
	const uint8_t *bytes;
	size_t len;
};

UNUSED static ssize_t fake_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fake_memory *f = container_of(memory, struct fake_memory, memory);

	if (address < f->start || address - f->start >= f->len)
		return -EFAULT;
	len = min_u64(len, f->len - (address - f->start));
	memcpy(to, f->bytes + (address - f->start), len);
	return (ssize_t)len;
}

/* Our own. */
UNUSED static ssize_t self_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t n = pread(fd, to, len, (off_t)address);

	(void)memory;
	return n < 0 ? -errno : n;
}

/* ---- files made by the compiler ---- */

extern char **environ;

/* Runs a shell command; true when it ends with 0. */
UNUSED static bool shell(const char *format, ...)
{
	char command[4096];
	char *const argv[] = {(char *)"sh", (char *)"-c", command, NULL};
	va_list ap;
	pid_t pid;
	int status;

	va_start(ap, format);
	assert_in_range(vsnprintf(command, sizeof(command), format, ap), 1, sizeof(command) - 1);
	va_end(ap);
	if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) != 0)
		return false;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return status == 0;
}

UNUSED static bool have(const char *tool)
{
	if (shell("command -v %s >/dev/null 2>&1", tool))
		return true;
	print_message("skipped: no %s here\n", tool);
	return false;
}

/* A new directory under /tmp; removed by dir_remove(). */
UNUSED static void dir_make(char dir[64])
{
	strncpy(dir, "/tmp/perfwind-test-XXXXXX", 64);
	assert_non_null(mkdtemp(dir));
}

UNUSED static void dir_remove(const char *dir)
{
	assert_true(shell("rm -rf '%s'", dir));
}

/* Setup and teardown of tests that share one folder. */
static char fixture_dir[64];

UNUSED static int fixture_dir_make(void **state)
{
	(void)state;
	dir_make(fixture_dir);
	return 0;
}

UNUSED static int fixture_dir_remove(void **state)
{
	(void)state;
	dir_remove(fixture_dir);
	return 0;
}

/* A JIT module @name with the symbols of @data. */
UNUSED static struct uw_module *jit_module_of(const char *name, const void *data, size_t len)
{
	struct uw_source source = {.fd = memfd_of(data, len)};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, name, NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	fd_close(source.fd);
	return m;
}

/* The symbol at @at is @name; NULL: there is none. */
UNUSED static void expect_symbol(const struct uw_module *m, uint64_t at, const char *name)
{
	struct uw_symbol s;

	if (!name) {
		assert_false(uw_module_symbol(m, at, &s));
		return;
	}
	assert_true(uw_module_symbol(m, at, &s));
	assert_string_equal(s.name, name);
}

UNUSED static void file_write(const char *path, const void *data, size_t len)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
}

UNUSED static int open_or_die(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}
