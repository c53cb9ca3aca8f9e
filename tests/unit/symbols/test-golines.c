/* test-golines.c - inlined calls and lines out of tables of Go 1.18 and 1.20 made by hand, and damaged ones. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fail-calls.h"

#include "symbols/gopclntab.h"

enum {
	TEXT = 0x401000,
	TABLE = 0x500000, /* .gopclntab */
	DATA = 0x600000,  /* .noptrdata */
	TREES = 0x700000, /* go:func.* */
	TABLE_SIZE = 0x400,
	DATA_SIZE = 0x200,
	TREES_SIZE = 0x80,
	TABLE_AT = 0x400,
	DATA_AT = TABLE_AT + TABLE_SIZE,
	TREES_AT = DATA_AT + DATA_SIZE,
	IMAGE_SIZE = TREES_AT + TREES_SIZE,
};

static uint8_t image[IMAGE_SIZE];

static void put(size_t at, uint64_t value, size_t size)
{
	memcpy(image + at, &value, size);
}

static void put_bytes(size_t at, const void *bytes, size_t len)
{
	memcpy(image + at, bytes, len);
}

static void put_image(void)
{
	static const char names[] = "\0.gopclntab\0.noptrdata\0.shstrtab";
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_name = 1,
		 .sh_type = SHT_PROGBITS,
		 .sh_addr = TABLE,
		 .sh_offset = TABLE_AT,
		 .sh_size = TABLE_SIZE},
		{.sh_name = 12,
		 .sh_type = SHT_PROGBITS,
		 .sh_addr = DATA,
		 .sh_offset = DATA_AT,
		 .sh_size = DATA_SIZE},
		{.sh_name = 23,
		 .sh_type = SHT_STRTAB,
		 .sh_offset = 0x300,
		 .sh_size = sizeof(names)},
	};
	const Elf64_Phdr load = {.p_type = PT_LOAD,
				 .p_offset = TREES_AT,
				 .p_vaddr = TREES,
				 .p_filesz = TREES_SIZE,
				 .p_memsz = TREES_SIZE};
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_EXEC,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_phoff = 0x280,
				 .e_phentsize = sizeof(load),
				 .e_phnum = 1,
				 .e_shoff = 64,
				 .e_ehsize = sizeof(head),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = 4,
				 .e_shstrndx = 3};

	memset(image, 0, sizeof(image));
	put_bytes(0, &head, sizeof(head));
	put_bytes(64, sections, sizeof(sections));
	put_bytes(0x280, &load, sizeof(load));
	put_bytes(0x300, names, sizeof(names));
}

/* main.f at TEXT, 0x40 bytes: lines 10 (0x10 bytes), 20 (0x10), 30.  In the second piece main.g of b.go is inlined, and in it
 * main.h of a.go. */
static void put_go(bool new)
{
	/* zigzag differences from -1, then bytes; the file: 0; 1 in the second piece; 0 */
	static const uint8_t lines[] = {22, 0x10, 20, 0x10, 20, 0x20, 0},
			     files[] = {2, 0x10, 2, 0x10, 1, 0x20, 0},
			     inlined[] = {0, 0x10, 6, 0x10, 5, 0x20, 0};
	size_t head = new ? 40 : 36, at = TABLE_AT, entry = at + 0x200;

	put_image();
	put(at, new ? 0xfffffff1 : 0xfffffff0, 4);
	put(at + 6, 1, 1);
	put(at + 7, 8, 1);
	put(at + 8, 1, 8);	/* functions */
	put(at + 24, TEXT, 8);	/* runtime.text */
	put(at + 32, 0x60, 8);	/* names */
	put(at + 40, 0xa0, 8);	/* units */
	put(at + 48, 0xc0, 8);	/* files */
	put(at + 56, 0x100, 8); /* values */
	put(at + 64, 0x1f0, 8); /* list */
	put_bytes(at + 0x61, "main.f\0main.g\0main.h", 21);
	put(at + 0xa4, 1, 4); /* unit 1: its files 0 and 1 */
	put(at + 0xa8, 8, 4);
	put_bytes(at + 0xc1, "/a.go", 6);
	put_bytes(at + 0xc8, "/b.go", 6);
	put_bytes(at + 0x110, lines, sizeof(lines));
	put_bytes(at + 0x120, files, sizeof(files));
	put_bytes(at + 0x130, inlined, sizeof(inlined));
	put(at + 0x1f0, 0, 4);	  /* the list: main.f */
	put(at + 0x1f4, 0x10, 4); /* its entry */
	put(at + 0x1f8, 0x40, 4); /* the end */
	put(entry + 4, 1, 4);
	put(entry + 20, 0x20, 4);
	put(entry + 24, 0x10, 4);
	put(entry + 28, 3, 4);
	put(entry + 32, 1, 4);
	put(entry + head + 3, 4, 1);
	put(entry + head + 4 + 8, 0x30, 4);	  /* pcdata[2] */
	put(entry + head + 4 + 12 + 12, 0x10, 4); /* funcdata[3] */
	put(DATA_AT + 0x10, TABLE, 8);		  /* moduledata */
	put(DATA_AT + 0x10 + 22 * 8, TEXT, 8);
	put(DATA_AT + 0x10 + (new ? 40 : 38) * 8, TREES, 8);
	/* The tree: 0 nothing, 1 main.g at line 31 of a.go, 2 main.h in it at line 21 of b.go. */
	for (uint32_t i = 1; i < 3; i++) {
		size_t call = TREES_AT + 0x10 + i * (new ? 16u : 20u);

		if (new) {
			put(call + 4, i == 1 ? 8 : 15, 4);
			put(call + 8, i == 1 ? 0x20 : 0x8, 4);
			continue;
		}
		put(call, i == 1 ? UINT16_MAX : 1, 2);
		put(call + 4, i == 1 ? 0 : 1, 4);
		put(call + 8, i == 1 ? 31 : 21, 4);
		put(call + 12, i == 1 ? 8 : 15, 4);
	}
}

static char seen[256];

static void note(void *arg, const struct uw_line *line)
{
	size_t len = strlen(seen);

	(void)arg;
	(void)snprintf(seen + len, sizeof(seen) - len, "%s %s:%u;", line->function,
		       line->file ? line->file : "-", line->line);
}

static const char *lines_at(const struct uw_golines *lines, uint64_t vaddr)
{
	seen[0] = 0;
	(void)uw_golines_at(lines, vaddr, note, NULL);
	return seen;
}

static int open_lines(struct uw_golines **ret_lines)
{
	struct uw_elf elf = {.fd = -1};
	int r;

	assert_int_equal(uw_elf_open_bytes(&elf, image, sizeof(image)), 0);
	r = uw_golines_new(&elf, ret_lines);
	uw_elf_close(&elf);
	return r;
}

static void test_1_18(void **state)
{
	struct uw_golines *lines;

	(void)state;
	put_go(false);
	assert_int_equal(open_lines(&lines), 0);
	assert_string_equal(lines_at(lines, TEXT), "main.f /a.go:10;");
	assert_string_equal(lines_at(lines, TEXT + 0x1f),
			    "main.h /b.go:20;main.g /b.go:21;main.f /a.go:31;");
	assert_string_equal(lines_at(lines, TEXT + 0x3f), "main.f /a.go:30;");
	assert_string_equal(lines_at(lines, TEXT + 0x40), "");
	assert_string_equal(lines_at(lines, TEXT - 1), "");
	assert_true(uw_golines_bytes(lines) > TABLE_SIZE);
	(void)uw_golines_free(lines);
}

/* The call sites are addresses: that of main.h is in the first piece, where nothing is inlined. */
static void test_1_20(void **state)
{
	struct uw_golines *lines;

	(void)state;
	put_go(true);
	assert_int_equal(open_lines(&lines), 0);
	assert_string_equal(lines_at(lines, TEXT + 0xf), "main.f /a.go:10;");
	assert_string_equal(lines_at(lines, TEXT + 0x10), "main.h /b.go:20;main.f /a.go:10;");
	assert_string_equal(lines_at(lines, TEXT + 0x20), "main.f /a.go:30;");
	(void)uw_golines_free(lines);
	/* Without moduledata there are lines, but no inlined calls. */
	put(DATA_AT + 0x10, 0, 8);
	assert_int_equal(open_lines(&lines), 0);
	assert_string_equal(lines_at(lines, TEXT + 0x10), "main.f /b.go:20;");
	(void)uw_golines_free(lines);
}

static void test_others(void **state)
{
	struct uw_golines *lines;

	(void)state;
	put_go(true);
	put(TABLE_AT, 0xfffffffa, 4); /* 1.16 */
	assert_int_equal(open_lines(&lines), -ENOENT);
	put_go(true);
	put(TABLE_AT + 24, 0, 8); /* relocated */
	assert_int_equal(open_lines(&lines), -ENOENT);
}

/* Each byte changed: no read outside, no end of time. */
static void test_damage(void **state)
{
	static const uint8_t changes[] = {0xff, 0x80, 0x01};

	(void)state;
	for (unsigned new = 0; new < 2; new ++) {
		for (size_t at = TABLE_AT; at < IMAGE_SIZE; at++) {
			for (size_t i = 0; i < sizeof(changes); i++) {
				struct uw_golines *lines;

				put_go(new);
				image[at] ^= changes[i];
				if (open_lines(&lines) < 0)
					continue;
				for (uint64_t pc = TEXT; pc < TEXT + 0x41; pc += 8)
					(void)lines_at(lines, pc);
				(void)uw_golines_free(lines);
			}
		}
	}
}

static int make_lines(void *arg)
{
	struct uw_elf elf = {.fd = -1};
	struct uw_golines *lines;
	int r = uw_elf_open_bytes(&elf, image, sizeof(image));

	(void)arg;
	if (r >= 0)
		r = uw_golines_new(&elf, &lines);
	uw_elf_close(&elf);
	assert_true(r == 0 || r == -ENOMEM);
	if (r < 0)
		return r;
	assert_string_equal(lines_at(lines, TEXT + 0x1f),
			    "main.h /b.go:20;main.g /b.go:21;main.f /a.go:31;");
	(void)uw_golines_free(lines);
	return 0;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void test_calls(void **state)
{
	(void)state;
	put_go(false);
	calls_sweep(&(struct calls_made){"lines", make_lines, nothing, NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_1_18),   cmocka_unit_test(test_1_20),
		cmocka_unit_test(test_others), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
