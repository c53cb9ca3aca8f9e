/* test-gopclntab.c - the tables of four versions of Go, laid out by hand: whole, cut off at each byte,
 * and with each byte changed. */
#include "tests/unit/fail-calls.h"

#include "tests/unit/unwinder/unwinder-fixture.h"

#include <elf.h>

#include "symbols/gopclntab.h"

enum { TEXT = 0x401000, TABLE = 0x500000, IMAGE_MAX = 4096, TABLE_AT = 1024 };

struct table {
	uint8_t bytes[1024];
	size_t len;
};

static void put(struct table *t, size_t at, uint64_t value, size_t size)
{
	assert_true(at + size <= sizeof(t->bytes));
	memcpy(t->bytes + at, &value, size);
	if (at + size > t->len)
		t->len = at + size;
}

static void put_name(struct table *t, size_t at, const char *name)
{
	memcpy(t->bytes + at, name, strlen(name) + 1);
	if (at + strlen(name) + 1 > t->len)
		t->len = at + strlen(name) + 1;
}

static void put_head(struct table *t, uint32_t magic)
{
	*t = (struct table){.len = 0};
	put(t, 0, magic, 4);
	put(t, 6, 1, 1);
	put(t, 7, 8, 1);
	put(t, 8, 2, 8); /* functions */
}

/* main.one at TEXT, 0x40 bytes; main.(*T).two behind it, 0x80 bytes. */
static void make_1_2(struct table *t)
{
	put_head(t, 0xfffffffb);
	put(t, 16, TEXT, 8);
	put(t, 24, 0x80, 8);
	put(t, 32, TEXT + 0x40, 8);
	put(t, 40, 0xa0, 8);
	put(t, 48, TEXT + 0xc0, 8);
	put(t, 0x80, TEXT, 8);
	put(t, 0x88, 0x100, 4);
	put(t, 0xa0, TEXT + 0x40, 8);
	put(t, 0xa8, 0x110, 4);
	put_name(t, 0x100, "main.one");
	put_name(t, 0x110, "main.(*T).two");
}

static void make_1_16(struct table *t)
{
	put_head(t, 0xfffffffa);
	put(t, 8 + 2 * 8, 0x60, 8);  /* names */
	put(t, 8 + 6 * 8, 0x100, 8); /* list */
	put_name(t, 0x61, "main.one");
	put_name(t, 0x70, "main.(*T).two");
	put(t, 0x100, TEXT, 8);
	put(t, 0x108, 0x40, 8);
	put(t, 0x110, TEXT + 0x40, 8);
	put(t, 0x118, 0x60, 8);
	put(t, 0x120, TEXT + 0xc0, 8);
	put(t, 0x140, TEXT, 8);
	put(t, 0x148, 1, 4);
	put(t, 0x160, TEXT + 0x40, 8);
	put(t, 0x168, 0x10, 4);
}

static void make_1_18(struct table *t)
{
	put_head(t, 0xfffffff0);
	put(t, 8 + 2 * 8, TEXT, 8);
	put(t, 8 + 3 * 8, 0x60, 8);  /* names */
	put(t, 8 + 7 * 8, 0x100, 8); /* list */
	put_name(t, 0x61, "main.one");
	put_name(t, 0x70, "main.(*T).two");
	put(t, 0x100, 0, 4);
	put(t, 0x104, 0x40, 4);
	put(t, 0x108, 0x40, 4);
	put(t, 0x10c, 0x60, 4);
	put(t, 0x110, 0xc0, 4);
	put(t, 0x140, 0, 4);
	put(t, 0x144, 1, 4);
	put(t, 0x160, 0x40, 4);
	put(t, 0x164, 0x10, 4);
}

static void make_1_20(struct table *t)
{
	make_1_18(t);
	t->bytes[0] = 0xf1;
}

/* ---- an image with that table, and what it names ---- */

static const char section_names[] = "\0.gopclntab\0.text\0.rela.dyn\0.shstrtab\0.data.rel.ro\0"
				    ".go.buildinfo";
enum {
	NAME_TABLE = 1,
	NAME_TEXT = 12,
	NAME_RELA = 18,
	NAME_STRINGS = 28,
	NAME_DATA = 38,
	NAME_BUILDINFO = 51
};

static Elf64_Shdr section_of(uint32_t name, uint32_t type, uint64_t vaddr, uint64_t offset,
			     uint64_t size)
{
	return (Elf64_Shdr){.sh_name = name,
			    .sh_type = type,
			    .sh_addr = vaddr,
			    .sh_offset = offset,
			    .sh_size = size};
}

/* @rela: a relocation of the word at this offset of the table, to address 0x700000; 0: none. */
static size_t make_image(uint8_t *image, const uint8_t *table, size_t len, uint32_t name,
			 uint64_t rela)
{
	const Elf64_Rela relocation = {.r_offset = TABLE + rela,
				       .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE),
				       .r_addend = 0x700000};
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		section_of(name, SHT_PROGBITS, TABLE, TABLE_AT, len),
		section_of(NAME_TEXT, SHT_PROGBITS, TEXT, TABLE_AT, 0x10),
		section_of(NAME_RELA, rela ? SHT_RELA : SHT_NULL, 0, 900, sizeof(relocation)),
		section_of(NAME_BUILDINFO, SHT_PROGBITS, 0, TABLE_AT, 0),
		section_of(NAME_STRINGS, SHT_STRTAB, 0, 600, sizeof(section_names)),
	};
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_EXEC,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_shoff = 64,
				 .e_ehsize = 64,
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = ARRAY_SIZE(sections),
				 .e_shstrndx = ARRAY_SIZE(sections) - 1};

	memset(image, 0, IMAGE_MAX);
	memcpy(image, &head, sizeof(head));
	memcpy(image + 64, sections, sizeof(sections));
	memcpy(image + 600, section_names, sizeof(section_names));
	memcpy(image + 900, &relocation, sizeof(relocation));
	memcpy(image + TABLE_AT, table, len);
	return TABLE_AT + len;
}

static struct uw_symbols *names_of(const uint8_t *table, size_t len, uint32_t name, uint64_t rela)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	struct uw_symbols_builder b = {.layout = NULL};
	struct uw_symbols *symbols;
	uint8_t image[IMAGE_MAX];
	size_t size = make_image(image, table, len, name, rela);

	assert_int_equal(uw_elf_open_bytes(&elf, image, size), 0);
	assert_int_equal(uw_gopclntab_add(&b, &elf), 0);
	assert_int_equal(uw_symbols_build(&b, &symbols), 0);
	return symbols;
}

static void expect(const struct uw_symbols *symbols, uint64_t text)
{
	struct uw_symbol s;

	assert_true(uw_symbols_find(symbols, text + 0x3f, &s));
	assert_string_equal(s.name, "main.one");
	assert_int_equal(s.start, text);
	assert_int_equal(s.size, 0x40);
	assert_true(uw_symbols_find(symbols, text + 0xbf, &s));
	assert_string_equal(s.name, "main.(*T).two");
	assert_false(uw_symbols_find(symbols, text + 0xc0, &s));
	assert_false(uw_symbols_find(symbols, text - 1, &s));
}

static void (*const makers[])(struct table *) = {make_1_2, make_1_16, make_1_18, make_1_20};

static void test_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		struct uw_symbols *symbols;
		struct table t;

		makers[i](&t);
		symbols = names_of(t.bytes, t.len, NAME_TABLE, 0);
		expect(symbols, TEXT);
		uw_symbols_free(symbols);
	}
}

/* Where the loader writes the address of the text: a relocation, or the start of .text. */
static void test_movable(void **state)
{
	struct uw_symbols *symbols;
	struct table t;

	(void)state;
	make_1_20(&t);
	put(&t, 8 + 2 * 8, 0, 8);
	symbols = names_of(t.bytes, t.len, NAME_TABLE, 0);
	expect(symbols, TEXT);
	uw_symbols_free(symbols);
	symbols = names_of(t.bytes, t.len, NAME_TABLE, 24);
	expect(symbols, 0x700000);
	uw_symbols_free(symbols);
	symbols = names_of(t.bytes, t.len, NAME_TABLE, 32); /* of another word */
	expect(symbols, TEXT);
	uw_symbols_free(symbols);
}

/* A C linker has put it into a section with other data. */
static void test_in_data(void **state)
{
	struct uw_symbols *symbols;
	uint8_t data[2048] = {0};
	struct table t;

	(void)state;
	make_1_20(&t);
	memcpy(data + 32, t.bytes, 8); /* a head without a table */
	memcpy(data + 320, t.bytes, t.len);
	symbols = names_of(data, 320 + t.len, NAME_DATA, 0);
	expect(symbols, TEXT);
	uw_symbols_free(symbols);
}

/* Sizes of frames: 0 and 24 bytes of one, 0 and 4096 of two. */
static void put_frames(struct table *t)
{
	static const uint8_t one[] = {2, 10, 48, 51, 47, 3, 0}, two[] = {2, 1, 0x80, 0x40, 0x7f, 0};

	put(t, 8 + 6 * 8, 0x180, 8); /* values */
	put(t, 0x150, 1, 4);
	put(t, 0x170, 16, 4);
	for (size_t i = 0; i < sizeof(one); i++)
		put(t, 0x181 + i, one[i], 1);
	for (size_t i = 0; i < sizeof(two); i++)
		put(t, 0x190 + i, two[i], 1);
}

static int frames_of(const struct table *t, struct uw_section *frame)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	uint8_t image[IMAGE_MAX];
	size_t size = make_image(image, t->bytes, t->len, NAME_TABLE, 0);

	assert_int_equal(uw_elf_open_bytes(&elf, image, size), 0);
	return uw_gopclntab_frames(&elf, frame);
}

/* As Go's linker writes .debug_frame. */
static void test_frames(void **state)
{
	static const uint8_t expected[] = {
		16,
		0,
		0,
		0,
		0xff,
		0xff,
		0xff,
		0xff,
		3,
		0,
		1,
		0x7c,
		16,
		12,
		7,
		8,
		5,
		16,
		2,
		0,
		/* one: CFA = rsp + 8; from 10 on + 32; from 61 on + 8 */
		36,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x10,
		0x40,
		0,
		0,
		0,
		0,
		0,
		64,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x13,
		0x7e,
		0x4a,
		0x13,
		0x78,
		0x73,
		0x13,
		0x7e,
		0x43,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		/* two: + 8; from 1 on + 4104 */
		28,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x40,
		0x10,
		0x40,
		0,
		0,
		0,
		0,
		0,
		0x80,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x13,
		0x7e,
		0x41,
		0x13,
		0xfe,
		0x77,
		2,
		0x7f,
	};
	struct uw_section frame = {0};
	struct table t;

	(void)state;
	for (size_t i = 2; i < ARRAY_SIZE(makers); i++) {
		makers[i](&t);
		assert_int_equal(frames_of(&t, &frame), 0); /* none is stated */
		put_frames(&t);
		assert_int_equal(frames_of(&t, &frame), 1);
		assert_int_equal(frame.size, sizeof(expected));
		assert_memory_equal(frame.data, expected, sizeof(expected));
		uw_section_deinit(&frame);
	}
	make_1_16(&t);
	assert_int_equal(frames_of(&t, &frame), 0);
}

/* Of the second function: @code at offset 32, @back at 48. */
static int add_frames_of_switch(const char *name, const char *code, const char *back,
				struct uw_section *frame)
{
	enum { PHDR_AT = 520, TEXT_OFFSET = 2048 };
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	const Elf64_Phdr phdr = {.p_type = PT_LOAD,
				 .p_offset = TEXT_OFFSET,
				 .p_vaddr = TEXT,
				 .p_filesz = 0xc0,
				 .p_memsz = 0xc0};
	uint8_t image[IMAGE_MAX];
	Elf64_Ehdr head;
	struct table t;

	make_1_20(&t);
	put_frames(&t);
	put_name(&t, 0x70, name);
	(void)make_image(image, t.bytes, t.len, NAME_TABLE, 0);
	memcpy(&head, image, sizeof(head));
	head.e_phoff = PHDR_AT;
	head.e_phnum = 1;
	head.e_phentsize = sizeof(phdr);
	memcpy(image, &head, sizeof(head));
	memcpy(image + PHDR_AT, &phdr, sizeof(phdr));
	memset(image + TEXT_OFFSET, 0x90, 0xc0);
	memcpy(image + TEXT_OFFSET + 0x40 + 32, code, strlen(code));
	memcpy(image + TEXT_OFFSET + 0x40 + 48, back, strlen(back));
	assert_int_equal(uw_elf_open_bytes(&elf, image, TEXT_OFFSET + 0xc0), 0);
	return uw_gopclntab_frames(&elf, frame);
}

static void frames_of_switch(const char *name, const char *code, const char *back,
			     struct uw_section *frame)
{
	assert_int_equal(add_frames_of_switch(name, code, back, frame), 1);
}

enum { PROGRAM_AT = 20 + 40 + 24 }; /* the CIE, one's FDE, the head of two's */
static const uint8_t there[] = {0x13, 0x7e, 0x41, 0x13, 0xfe, 0x77, 0x5f, 7, 16, 2, 0x60};
static const char mcall[] = "\x50\x4c\x8b\x22\x41\xff\xd4";

/* Functions that go to the thread's own stack: no return address from there on. */
static void test_switches(void **state)
{
	static const uint8_t there_and_back[] = {0x13, 0x7e, 0x41, 0x13, 0xfe, 0x77, 0x5f, 7,
						 16,   0x54, 5,	   16,	 2,    2,    0x4c};
	static const uint8_t cgo[] = {0x13, 0x7e, 0x41, 0x13, 0xfe, 0x77, 0x5f, 7,
				      16,   0x53, 5,	16,   2,    2,	  0x4d};
	static const uint8_t neither[] = {0x13, 0x7e, 0x41, 0x13, 0xfe, 0x77, 2, 0x7f};
	struct uw_section frame = {0};

	(void)state;
	frames_of_switch("runtime.systemstack", "\x48\x89\xfa\x48\x8b\x3f\xff\xd7",
			 "\x48\x8b\x60\x38", &frame);
	assert_true(frame.size >= PROGRAM_AT + sizeof(there_and_back));
	assert_memory_equal(frame.data + PROGRAM_AT, there_and_back, sizeof(there_and_back));
	uw_section_deinit(&frame);
	frames_of_switch("runtime.asmcgocall", "\x66\x38", "\x48\x89\xf4", &frame);
	assert_memory_equal(frame.data + PROGRAM_AT, cgo, sizeof(cgo));
	uw_section_deinit(&frame);
	frames_of_switch("runtime.mcall", mcall, "", &frame);
	assert_memory_equal(frame.data + PROGRAM_AT, there, sizeof(there));
	uw_section_deinit(&frame);
	frames_of_switch("runtime.rt0_go", "\x48\x83\xe4\xf0", "", &frame);
	assert_memory_equal(frame.data + PROGRAM_AT, there, sizeof(there));
	uw_section_deinit(&frame);
	/* Other code of that name, and that code with another name. */
	frames_of_switch("runtime.mcall", "\x50", "", &frame);
	assert_memory_equal(frame.data + PROGRAM_AT, neither, sizeof(neither));
	uw_section_deinit(&frame);
	frames_of_switch("runtime.mcal", mcall, "", &frame);
	assert_memory_equal(frame.data + PROGRAM_AT, neither, sizeof(neither));
	uw_section_deinit(&frame);
}

/* Behind the linker's .debug_frame, which stays: a CIE, and these functions alone. */
static void test_switches_behind(void **state)
{
	struct uw_section frame = {0}, own = {0};
	uint32_t cie;

	(void)state;
	frames_of_switch("runtime.mcal", mcall, "", &own);
	frames_of_switch("runtime.mcal", mcall, "", &frame);
	assert_int_equal(add_frames_of_switch("runtime.mcal", mcall, "", &frame), 0);
	assert_int_equal(frame.size, own.size);
	frames_of_switch("runtime.mcall", mcall, "", &frame);
	assert_true(frame.size > own.size + 20 + 24);
	assert_memory_equal(frame.data, own.data, own.size);
	assert_memory_equal(frame.data + own.size, own.data, 20);
	memcpy(&cie, frame.data + own.size + 20 + 4, sizeof(cie));
	assert_int_equal(cie, own.size);
	assert_int_equal(frame.data[own.size + 20 + 8], 0x40); /* two's begin */
	assert_memory_equal(frame.data + own.size + 20 + 24, there, sizeof(there));
	uw_section_deinit(&own);
	uw_section_deinit(&frame);
}

/* Bytes that a hostile program has there: work and memory have bounds, and a function ends where the next one begins. */
static void test_hostile_frames(void **state)
{
	struct uw_section frame = {0};
	struct table t, damaged;

	(void)state;
	make_1_20(&t);
	put_frames(&t);
	put(&t, 0x182, 0xffffff7f, 4); /* one would have 2^28 bytes */
	assert_int_equal(frames_of(&t, &frame), 1);
	assert_int_equal(frame.data[36], 0x40);
	uw_section_deinit(&frame);
	put_frames(&t);
	for (size_t at = 0; at < t.len; at++)
		for (unsigned value = 0; value < 256; value += 51) {
			damaged = t;
			damaged.bytes[at] = (uint8_t)value;
			if (frames_of(&damaged, &frame) == 1)
				assert_in_range(frame.size, 20, 64 << 20);
			uw_section_deinit(&frame);
		}
}

static void test_damage(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct uw_symbol s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		struct table t, damaged;

		makers[i](&t);
		for (size_t at = 0; at < t.len; at++) {
			/* of its own size, so that a read past it is found */
			uint8_t *exact = malloc(at + 1);
			struct uw_symbols *symbols;

			memcpy(exact, t.bytes, at);
			symbols = names_of(exact, at, NAME_TABLE, 0);
			(void)uw_symbols_find(symbols, TEXT, &s);
			uw_symbols_free(symbols);
			free(exact);
			for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
				damaged = t;
				damaged.bytes[at] = values[k];
				symbols = names_of(damaged.bytes, t.len, NAME_TABLE, 0);
				(void)uw_symbols_find(symbols, TEXT, &s);
				uw_symbols_free(symbols);
			}
		}
	}
}

/* ---- calls that fail ---- */

struct job {
	uint8_t image[IMAGE_MAX], frames[1024];
	size_t size, n_frames; /* n_frames 0: not known yet */
};

static int make_names(void *arg)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	struct uw_symbols_builder b = {.layout = NULL};
	const struct job *job = arg;
	struct uw_symbols *symbols;
	int r = uw_elf_open_bytes(&elf, job->image, job->size);

	if (r >= 0)
		r = uw_gopclntab_add(&b, &elf);
	if (r >= 0)
		r = uw_symbols_build(&b, &symbols);
	uw_symbols_builder_deinit(&b);
	assert_true(r == 0 || r == -ENOMEM);
	if (r < 0)
		return r;
	expect(symbols, TEXT);
	uw_symbols_free(symbols);
	return 0;
}

static int make_frame(void *arg)
{
	_cleanup_(uw_section_deinit) struct uw_section frame = {.size = 0};
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	struct job *job = arg;
	int r = uw_elf_open_bytes(&elf, job->image, job->size);

	if (r >= 0)
		r = uw_gopclntab_frames(&elf, &frame);
	assert_true(r == 1 || (r == -ENOMEM && !frame.data));
	if (r < 0)
		return r;
	if (!job->n_frames)
		memcpy(job->frames, frame.data, frame.size);
	job->n_frames = job->n_frames ? job->n_frames : frame.size;
	assert_int_equal(frame.size, job->n_frames);
	assert_memory_equal(job->frames, frame.data, frame.size);
	return r;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void test_calls(void **state)
{
	uint8_t data[2048] = {0};
	static struct job job;
	struct table t;

	(void)state;
	make_1_20(&t);
	memcpy(data + 320, t.bytes, t.len);
	job.size = make_image(job.image, data, 320 + t.len, NAME_DATA, 0);
	calls_sweep(&(struct calls_made){"names in data", make_names, nothing, &job});
	job.size = make_image(job.image, t.bytes, t.len, NAME_TABLE, 0);
	calls_sweep(&(struct calls_made){"names", make_names, nothing, &job});
	put_frames(&t);
	job.size = make_image(job.image, t.bytes, t.len, NAME_TABLE, 0);
	calls_sweep(&(struct calls_made){"frames", make_frame, nothing, &job});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),	cmocka_unit_test(test_movable),
		cmocka_unit_test(test_in_data),		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_frames),		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_switches_behind), cmocka_unit_test(test_hostile_frames),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
