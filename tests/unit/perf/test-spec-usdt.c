/* test-spec-usdt.c - an ELF file with notes of static probes, put together by hand; each of its bytes damaged in turn. */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "perf/spec-elf.h"
#include "perf/spec-usdt.h"
#include "tests/unit/cmocka.h"

enum { NOTES = 0x200, BASE = 0x300, NAMES = 0x340, SECTIONS = 0x400, SIZE = 0x600 };

static size_t put_note(uint8_t *to, uint64_t pc, uint64_t semaphore, const char *texts, size_t len)
{
	const uint64_t words[3] = {pc, 0x5000, semaphore};
	const Elf64_Nhdr head = {8, (uint32_t)(sizeof(words) + len), 3};

	memcpy(to, &head, sizeof(head));
	memcpy(to + 12, "stapsdt", 8);
	memcpy(to + 20, words, sizeof(words));
	memcpy(to + 44, texts, len);
	return (44 + len + 3) & ~3ul;
}

/* .stapsdt.base is 0x10 above what the notes state. */
static void make_file(uint8_t file[SIZE])
{
	static const char names[] = "\0.note.stapsdt\0.stapsdt.base\0.shstrtab";
	Elf64_Ehdr head = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = 64,
		.e_shoff = SECTIONS,
		.e_ehsize = 64,
		.e_phentsize = 56,
		.e_phnum = 1,
		.e_shentsize = 64,
		.e_shnum = 4,
		.e_shstrndx = 3,
	};
	const Elf64_Phdr load = {.p_type = PT_LOAD,
				 .p_offset = 0x1000,
				 .p_vaddr = 0x2000,
				 .p_filesz = 0x4000,
				 .p_memsz = 0x4000};
	Elf64_Shdr s[4] = {
		[1] = {.sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = NOTES, .sh_addralign = 4},
		[2] = {.sh_name = 15,
		       .sh_type = SHT_PROGBITS,
		       .sh_addr = 0x5010,
		       .sh_offset = BASE,
		       .sh_size = 1},
		[3] = {.sh_name = 29,
		       .sh_type = SHT_STRTAB,
		       .sh_offset = NAMES,
		       .sh_size = sizeof(names)},
	};
	size_t at = NOTES;

	memset(file, 0, SIZE);
	at += put_note(file + at, 0x2100, 0, "a\0one\0008@%rdi", 13);
	at += put_note(file + at, 0x2200, 0x2300, "b\0two\0", 7);
	at += put_note(file + at, 0x9000, 0, "b\0outside of the segment\0", 26);
	at += put_note(file + at, 0x2200, 0, "b\0endless", 9);
	s[1].sh_size = at - NOTES;
	memcpy(file, &head, sizeof(head));
	memcpy(file + 64, &load, sizeof(load));
	memcpy(file + NAMES, names, sizeof(names));
	memcpy(file + SECTIONS, s, sizeof(s));
}

struct found {
	struct usdt_probe probes[8];
	size_t n;
};

static int keep(void *arg, const struct usdt_probe *probe)
{
	struct found *f = arg;

	assert_true(strnlen(probe->name, USDT_NAME_MAX) < USDT_NAME_MAX);
	if (f->n < 8)
		f->probes[f->n++] = *probe;
	return 0;
}

static int look(const uint8_t *file, size_t size, struct found *found)
{
	char path[] = "/tmp/test-spec-usdt-XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, size), (ssize_t)size);
	close(fd);
	*found = (struct found){0};
	r = spec_usdt_each(path, keep, found);
	unlink(path);
	return r;
}

static void test_probes(void **state)
{
	uint8_t file[SIZE];
	struct found f;

	(void)state;
	make_file(file);
	assert_int_equal(look(file, SIZE, &f), 0);
	assert_int_equal(f.n, 2);
	assert_string_equal(f.probes[0].provider, "a");
	assert_string_equal(f.probes[0].name, "one");
	assert_string_equal(f.probes[0].arguments, "8@%rdi");
	assert_int_equal(f.probes[0].offset, 0x1110);
	assert_int_equal(f.probes[0].semaphore, 0);
	assert_string_equal(f.probes[1].name, "two");
	assert_string_equal(f.probes[1].arguments, "");
	assert_int_equal(f.probes[1].offset, 0x1210);
	assert_int_equal(f.probes[1].semaphore, 0x1310);
}

static void test_damaged(void **state)
{
	uint8_t file[SIZE];
	struct found f;

	(void)state;
	make_file(file);
	assert_int_equal(look(file, 3, &f), -ENOEXEC);
	assert_int_equal(look((const uint8_t *)"#!/bin/sh\n", 10, &f), -ENOEXEC);
	assert_int_equal(spec_usdt_each("/", keep, &f), -ENOEXEC);
	assert_int_equal(spec_usdt_each("/does/not/exist", keep, &f), -ENOENT);
	for (size_t i = 0; i<SECTIONS + 256; i += i> NOTES + 200 && i < SECTIONS ? 8 : 1)
		for (unsigned k = 0; k < 2; k++) {
			make_file(file);
			file[i] = (uint8_t)(k ? 0xff : file[i] + 1);
			assert_true(look(file, SIZE, &f) <= 0);
		}
	for (size_t size = 0; size < SIZE; size += 16) {
		make_file(file);
		assert_true(look(file, size, &f) <= 0);
	}
}

/* Where a uprobe of a function goes: the offset in the file, of this program's own too. */
static void test_elf_offset(void **state)
{
	struct nearest nearest = {.wanted = "no_such_function"};
	uint64_t offset = 0;

	(void)state;
	assert_int_equal(spec_elf_offset("/proc/self/exe", "main", &nearest, &offset), 0);
	assert_true(offset > 0);
	assert_int_equal(spec_elf_offset("/proc/self/exe", "no_such_function", &nearest, &offset),
			 -ENOENT);
	assert_int_equal(spec_elf_offset("/proc/self/status", "main", &nearest, &offset), -ENOEXEC);
	assert_int_equal(spec_elf_offset("/nonexistent", "main", &nearest, &offset), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probes),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_elf_offset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
