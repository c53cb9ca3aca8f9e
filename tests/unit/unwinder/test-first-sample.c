/* test-first-sample.c - the first sample in a very big program costs what its frames cost: nothing is
 * read but the unwind sections, no more is made than an index of an eighth of the search
 * table, and only the records of the frames are looked at.  Counted, not timed.
 *
 * The program, a file mostly of holes: 400,000 functions of 640 bytes.
 *
 *   0          ELF header, program headers         0x1000000   the functions, 256 MB
 *   0x1000     .eh_frame_hdr, 3.2 MB
 *   0x400000   .eh_frame: one CIE, 400,000 FDEs, 8 MB.  Function i has CFA = rsp + 16 + 8 * (i % 4) */
#include "tests/unit/cmocka.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/module.h"
#include "unwinder/unwinder.h"

enum {
	FUNCTIONS = 400000,
	FUNCTION = 640,
	HDR_AT = 0x1000,
	HDR_SIZE = 12 + 8 * FUNCTIONS,
	EH_AT = 0x400000,
	CIE_SIZE = 24,
	FDE_SIZE = 20,
	EH_SIZE = CIE_SIZE + FDE_SIZE * FUNCTIONS + 4,
	TEXT_AT = 0x1000000,
	TEXT_SIZE = FUNCTIONS * FUNCTION,
	BIAS = 0x40000000,
	SP = 0x7fff0000,
	DEPTH = 12,
	WORDS = DEPTH * 5,
};

struct fixture {
	int fd;
	struct uw_module *module;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], frames[UW_MAX_FRAMES];
	struct uw_result res;
};

static void put32(uint8_t *to, uint64_t value)
{
	memcpy(to, &(uint32_t){(uint32_t)value}, 4);
}

static uint64_t vaddr_of(uint64_t function)
{
	return TEXT_AT + function * FUNCTION;
}

static uint64_t frame_words(uint64_t function)
{
	return 2 + function % 4;
}

/* "zR": code 1, data -8, ra 16, pcrel sdata4; CFA = rsp + 8, ra at CFA - 8. */
static void put_eh_frame(uint8_t *eh)
{
	static const uint8_t cie[CIE_SIZE] = {CIE_SIZE - 4, 0, 0, 0,	0,  0, 0,    0,	   1, 'z',
					      'R',	    0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8,
					      0x90,	    1};

	memcpy(eh, cie, sizeof(cie));
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		uint64_t at = CIE_SIZE + i * FDE_SIZE;

		put32(eh + at, FDE_SIZE - 4);
		put32(eh + at + 4, at + 4);
		put32(eh + at + 8, vaddr_of(i) - (EH_AT + at + 8));
		put32(eh + at + 12, FUNCTION);
		eh[at + 17] = 0x0e; /* DW_CFA_def_cfa_offset */
		eh[at + 18] = (uint8_t)(8 * frame_words(i));
	}
}

static void put_hdr(uint8_t *hdr)
{
	memcpy(hdr, (uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
	put32(hdr + 4, EH_AT - (HDR_AT + 4));
	put32(hdr + 8, FUNCTIONS);
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		put32(hdr + 12 + 8 * i, vaddr_of(i) - HDR_AT);
		put32(hdr + 16 + 8 * i, EH_AT + CIE_SIZE + i * FDE_SIZE - HDR_AT);
	}
}

static void put_headers(uint8_t *to)
{
	const Elf64_Ehdr eh = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = 1,
		.e_phoff = 64,
		.e_ehsize = 64,
		.e_phentsize = 56,
		.e_phnum = 3,
	};
	const Elf64_Phdr ph[3] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_filesz = EH_AT + EH_SIZE,
		 .p_memsz = EH_AT + EH_SIZE},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = TEXT_AT,
		 .p_vaddr = TEXT_AT,
		 .p_filesz = TEXT_SIZE,
		 .p_memsz = TEXT_SIZE},
		{.p_type = PT_GNU_EH_FRAME,
		 .p_offset = HDR_AT,
		 .p_vaddr = HDR_AT,
		 .p_filesz = HDR_SIZE,
		 .p_memsz = HDR_SIZE},
	};

	memcpy(to, &eh, sizeof(eh));
	memcpy(to + 64, ph, sizeof(ph));
}

static int program_make(void)
{
	int fd = memfd_create("big", MFD_CLOEXEC);
	uint8_t *head = calloc(1, EH_AT + EH_SIZE);

	assert_true(fd >= 0);
	assert_non_null(head);
	put_headers(head);
	put_hdr(head + HDR_AT);
	put_eh_frame(head + EH_AT);
	assert_int_equal(ftruncate(fd, TEXT_AT + TEXT_SIZE), 0);
	assert_int_equal(write(fd, head, EH_AT + EH_SIZE), EH_AT + EH_SIZE);
	free(head);
	return fd;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct uw_map map = {
		.start = BIAS + TEXT_AT, .end = BIAS + TEXT_AT + TEXT_SIZE, .offset = TEXT_AT};

	assert_non_null(f);
	f->fd = program_make();
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/big", NULL, &f->module), 0);
	map.module = f->module;
	assert_int_equal(uw_space_new(&map, 1, 1, NULL, &f->space), 0);
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	uw_engine_free(f->engine);
	uw_space_unref(f->space);
	uw_module_unref(f->module);
	fd_close(f->fd);
	free(f);
	return 0;
}

static void load(struct fixture *f)
{
	struct uw_source source = {.fd = f->fd};

	assert_true(uw_module_want_unwind(f->module));
	assert_int_equal(uw_module_load_unwind(f->module, &source), 0);
}

/* Frame i is somewhere in a function of its own, all over the program; the last returns to 0. */
static void unwind(struct fixture *f)
{
	struct uw_snapshot snapshot = {
		.space = f->space,
		.regs = f->regs,
		.arch = UW_ARCH_X86_64,
		.stack_len = sizeof(f->stack),
		.stack = (const uint8_t *)f->stack,
	};
	uint64_t functions[DEPTH], at = 0;

	for (uint64_t i = 0; i < DEPTH; i++)
		functions[i] = (i * 123457 + 399999) % FUNCTIONS;
	f->regs[UW_X86_SP] = SP;
	f->regs[UW_X86_IP] = BIAS + vaddr_of(functions[0]) + 7;
	for (uint64_t i = 0; i < DEPTH; i++) {
		at += frame_words(functions[i]);
		f->stack[at - 1] = i + 1 < DEPTH ? BIAS + vaddr_of(functions[i + 1]) + 7 : 0;
	}
	f->res = (struct uw_result){.frames = f->frames, .max_frames = UW_MAX_FRAMES};
	assert_int_equal(uw_unwind_batch(f->engine, &snapshot, 1, &f->res), 0);
	for (uint64_t i = 0; f->res.outcome == UW_WHOLE && i < DEPTH; i++)
		assert_int_equal(f->frames[i],
				 (BIAS + vaddr_of(functions[i]) + 7) | (i ? UW_FRAME_CALLER : 0));
}

static void test_counts(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats before, after;

	unwind(f);
	assert_int_equal(f->res.outcome, UW_PENDING);
	uw_engine_stats(f->engine, &before);
	assert_int_equal(before.fdes_read, 0);
	load(f);
	/* Copies of the two sections, and the index of the search table. */
	assert_in_range(uw_module_bytes(f->module), HDR_SIZE + EH_SIZE,
			HDR_SIZE + EH_SIZE + HDR_SIZE / 8 + 4096);
	unwind(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.n_frames, DEPTH);
	uw_engine_stats(f->engine, &after);
	assert_in_range(after.fdes_read, 1, DEPTH);
	assert_int_equal(after.cies_read, 1);
	assert_in_range(after.cfi_runs, 1, DEPTH);
	/* Nothing was made meanwhile, in the engine or for the module, and names can wait. */
	assert_int_equal(after.cache_bytes, before.cache_bytes);
	assert_true(uw_module_bytes(f->module) <= HDR_SIZE + EH_SIZE + HDR_SIZE / 8 + 4096);
	assert_int_equal(uw_module_symbol_state(f->module), UW_MODULE_NEW);
	/* The same again needs no record at all. */
	unwind(f);
	uw_engine_stats(f->engine, &before);
	assert_int_equal(before.fdes_read, after.fdes_read);
	assert_int_equal(before.cfi_runs, after.cfi_runs);
}

/* Bytes that this thread has read so far, of files and pipes (proc(5), io).  0: this kernel does not
 * count them. */
static uint64_t bytes_read(void)
{
	_cleanup_(freep) char *text = NULL;
	const char *at;

	if (read_file("/proc/thread-self/io", 4096, &text, NULL) < 0)
		return 0;
	at = strstr(text, "rchar: ");
	return at ? strtoull(at + strlen("rchar: "), NULL, 10) : 0;
}

static void test_reads(void **state)
{
	struct fixture *f = *state;
	uint64_t before = bytes_read(), read;

	if (!before)
		skip();
	load(f);
	unwind(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	read = bytes_read() - before;
	assert_in_range(read, HDR_SIZE + EH_SIZE, HDR_SIZE + EH_SIZE + (64 << 10));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_counts),
		TEST(test_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
