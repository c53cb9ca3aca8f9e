/* native-fixture.h - the native engine over stacks and CFI made by hand.
 *
 * The module's functions, each 0x80 bytes; pc is vaddr + 0x400000:
 *   0x1000 small   CFA = rsp + 16                    0x1400 rooted  return address undefined
 *   0x1080 saves   CFA = rsp + 32, rbp at CFA - 16   0x1480 leaps   CFA = r10
 *   0x1100 framed  CFA = rbp + 16, rbp at CFA - 16   0x1500 by_rbx  CFA = rbx + 8
 *   0x1180 popped  CFA = rbp + 32, rbp at CFA - 32   0x1580 keeper  CFA = rsp + 24, rbx at CFA - 16
 *   0x1640 signal  'S': CFA = [rsp + 32], registers from rsp on (put_signal)
 *   0x1700 damaged a program that ends in the middle
 *   0x1780 vforks  CFA = rsp, return address in rdi
 *   0x17c0 left    CFA = rsp + 8, rbp at [rbp], as a compiler states it behind a leave
 *   0x1800 nothing is stated
 *   0x1880 block   CFA = rbx, rbp, rsp and the return address at CFA + 8, + 16, + 24
 *   0x1a00 still   CFA = rsp + 8, as the CIE states it, and nothing more
 *   0x1c00 goes    the same as Go's linker states it
 *   0x1c80 goes_pushing  by it, too, from byte 0x30 on CFA = rsp + 16
 *   0x1d00 goes_home  by it, CFA = rsp + 32
 *   0x1e00 tries   as OCaml's compiler states it: CFA = rsp + 16, from byte 0x14 on + 32, 0x34 + 16, 0x44 + 8, 0x45 + 16
 *   0x1e80 raises  its runtime: CFA = rsp + 8, from byte 8 on rsp, from 9 rsp - 8
 *   0x1d80 runs    CFA = rsp, rbp at CFA + 16392, return address at CFA + 16432, rsp + 16440: as GHC's StgRun has it
 *   0x1a80 emptied CFA = rsp + 8, rbp and rbx at CFA - 16 and - 24: behind its pops, which no CFI describes
 *   0x1b00 bare    CFA = rsp + 24, rbp at CFA - 16, and no epilogue in the CFI
 *   0x1b80 bare_fp CFA = rbp + 16, rbp at CFA - 16, the same
 *   0x1900 lands   saves rax and rdx; CFA = rbp + 16, from byte 0xc0 on rcx + 8, from 0xc3 on rsp + 8 */
#pragma once

#include "tests/unit/unwinder/native-stack.h"

enum {
	SMALL = 0x401000,
	SAVES = 0x401080,
	FRAMED = 0x401100,
	POPPED = 0x401180,
	ROOTED = 0x401400,
	LEAPS = 0x401480,
	BY_RBX = 0x401500,
	KEEPER = 0x401580,
	SIGNAL = 0x401640,
	VFORKS = 0x401780,
	LEFT = 0x4017c0,
	DAMAGED = 0x401700,
	SILENT = 0x401800,
	BLOCK = 0x401880,
	LANDS = 0x401900,
	STILL = 0x401a00,
	EMPTIED = 0x401a80,
	BARE = 0x401b00,
	BARE_FP = 0x401b80,
	GOES = 0x401c00,
	GOES_PUSHING = 0x401c80,
	GOES_HOME = 0x401d00,
	RUNS = 0x401d80,
	TRIES = 0x401e00,
	RAISES = 0x401e80,
	JIT = 0x600000,
};

/* Process memory: our stack, and code. */
struct fake {
	struct uw_memory memory;
	uint64_t stack[WORDS];
	uint8_t code[0x100];  /* at JIT */
	uint8_t still[0x80];  /* at STILL */
	uint8_t bare[0x100];  /* at BARE, and BARE_FP */
	uint8_t goes[0x100];  /* at GOES, and GOES_PUSHING */
	uint8_t tries[0x100]; /* at TRIES, and RAISES */
	uint8_t small[0x20];  /* at SMALL, */
	bool has_small;	      /* ... if it can be read */
	unsigned n_reads;
};

struct fixture {
	struct fake fake;
	struct uw_module *module;
	struct uw_map maps[2];
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], frames[FRAMES];
	struct uw_snapshot snapshot;
	struct uw_result res;
};

/* The stack is whole and has these frames, innermost first. */
UNUSED static void expect(const struct fixture *f, const uint64_t *frames, size_t n)
{
	assert_result(f, UW_WHOLE, UW_OK, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(f->frames[i], frames[i]);
}
#define EXPECT(f, ...) \
	expect(f, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static ssize_t fake_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fake *f = container_of(memory, struct fake, memory);
	const void *from = f->stack;
	uint64_t start = SP, size = sizeof(f->stack);

	f->n_reads++;
	if (address >= JIT && address < JIT + sizeof(f->code)) {
		from = f->code;
		start = JIT;
		size = sizeof(f->code);
	}
	if (address >= STILL && address < STILL + sizeof(f->still)) {
		from = f->still;
		start = STILL;
		size = sizeof(f->still);
	}
	if (address >= BARE && address < BARE + sizeof(f->bare)) {
		from = f->bare;
		start = BARE;
		size = sizeof(f->bare);
	}
	if (address >= GOES && address < GOES + sizeof(f->goes)) {
		from = f->goes;
		start = GOES;
		size = sizeof(f->goes);
	}
	if (address >= TRIES && address < TRIES + sizeof(f->tries)) {
		from = f->tries;
		start = TRIES;
		size = sizeof(f->tries);
	}
	if (f->has_small && address >= SMALL && address < SMALL + sizeof(f->small)) {
		from = f->small;
		start = SMALL;
		size = sizeof(f->small);
	}
	if (address < start || address >= start + size)
		return -1;
	len = min_u64(len, start + size - address);
	memcpy(to, (const uint8_t *)from + (address - start), len);
	return (ssize_t)len;
}

/* rip, rbp, rbx at [rsp], [rsp + 8], [rsp + 16]; rsp at [rsp + 32]. */
static size_t put_signal(struct bytes *eh)
{
	static const uint8_t program[] = {
		DEF_CFA_EXPRESSION, 3,	 0x77, 32,   0x06, EXPRESSION, RIP, 2, 0x77, 0,
		EXPRESSION,	    RBP, 2,    0x77, 8,	   EXPRESSION, RBX, 2, 0x77, 16,
	};

	return put_fde(eh, put_cie(eh, "zRS"), SIGNAL - CFI_BIAS, 0x80, program, sizeof(program));
}

UNUSED static struct uw_module *module_make(void)
{
	struct bytes eh = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	uint64_t pairs[][2] = {
		{SMALL, PUT_FDE(&eh, cie, SMALL - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 16, EPILOGUE)},
		{SAVES, PUT_FDE(&eh, cie, SAVES - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 32, OFFSET | RBP,
				2, EPILOGUE)},
		{FRAMED, PUT_FDE(&eh, cie, FRAMED - CFI_BIAS, 0x80, DEF_CFA, RBP, 16, OFFSET | RBP,
				 2, EPILOGUE)},
		{POPPED, PUT_FDE(&eh, cie, POPPED - CFI_BIAS, 0x80, DEF_CFA, RBP, 32, OFFSET | RBP,
				 4, EPILOGUE)},
		{ROOTED, PUT_FDE(&eh, cie, ROOTED - CFI_BIAS, 0x80, UNDEFINED, RIP)},
		{LEAPS, PUT_FDE(&eh, cie, LEAPS - CFI_BIAS, 0x80, DEF_CFA, R10, 0)},
		{BY_RBX, PUT_FDE(&eh, cie, BY_RBX - CFI_BIAS, 0x80, DEF_CFA, RBX, 8)},
		{KEEPER, PUT_FDE(&eh, cie, KEEPER - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 24,
				 OFFSET | RBX, 2, EPILOGUE)},
		{SIGNAL, put_signal(&eh)},
		{DAMAGED, PUT_FDE(&eh, cie, DAMAGED - CFI_BIAS, 0x80, 0x3f, 0x3f, 0x3f)},
		{VFORKS, PUT_FDE(&eh, cie, VFORKS - CFI_BIAS, 0x40, DEF_CFA_OFFSET, 0, IN_REGISTER,
				 RIP, RDI)},
		{LEFT, PUT_FDE(&eh, cie, LEFT - CFI_BIAS, 0x40, DEF_CFA_OFFSET, 8, EXPRESSION, RBP,
			       2, 0x76, 0)},
		{BLOCK, PUT_FDE(&eh, cie, BLOCK - CFI_BIAS, 0x80, DEF_CFA, RBX, 0, OFFSET_SF, RBP,
				0x7f, OFFSET_SF, RSP, 0x7e, OFFSET_SF, RIP, 0x7d)},
		{LANDS, PUT_FDE(&eh, cie, LANDS - CFI_BIAS, 0x100, DEF_CFA, RBP, 16, OFFSET | RBP,
				2, OFFSET | RAX, 4, OFFSET | RDX, 3, ADVANCE | 0x30, ADVANCE | 0x30,
				ADVANCE | 0x30, ADVANCE | 0x30, RESTORE | RBP, DEF_CFA, RCX, 8,
				ADVANCE | 3, DEF_CFA, RSP, 8)},
		{STILL, PUT_FDE(&eh, cie, STILL - CFI_BIAS, 0x80, 0, 0, 0)},
		{EMPTIED,
		 PUT_FDE(&eh, cie, EMPTIED - CFI_BIAS, 0x80, OFFSET | RBP, 2, OFFSET | RBX, 3)},
		{BARE,
		 PUT_FDE(&eh, cie, BARE - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 24, OFFSET | RBP, 2)},
		{BARE_FP,
		 PUT_FDE(&eh, cie, BARE_FP - CFI_BIAS, 0x80, DEF_CFA, RBP, 16, OFFSET | RBP, 2)},
		{GOES, PUT_FDE(&eh, cie, GOES - CFI_BIAS, 0x80, DEF_CFA_OFFSET_SF, 0x7f, ADVANCE1,
			       0x7f, 0)},
		{GOES_PUSHING, PUT_FDE(&eh, cie, GOES_PUSHING - CFI_BIAS, 0x80, DEF_CFA_OFFSET_SF,
				       0x7f, ADVANCE1, 0x30, DEF_CFA_OFFSET_SF, 0x7e, 0)},
		{GOES_HOME,
		 PUT_FDE(&eh, cie, GOES_HOME - CFI_BIAS, 0x80, DEF_CFA_OFFSET_SF, 0x7c, 0)},
		{RUNS, PUT_FDE(&eh, cie, RUNS - CFI_BIAS, 0x60, ADVANCE | 0x25, DEF_CFA, RSP, 0,
			       OFFSET_SF, RBP, 0xff, 0x6f, OFFSET_SF, RIP, 0xfa, 0x6f,
			       VAL_EXPRESSION, RSP, 4, 0x77, 0xb8, 0x80, 1)},
		{TRIES,
		 PUT_FDE(&eh, cie, TRIES - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 16, ADVANCE | 0x14,
			 DEF_CFA_OFFSET, 32, ADVANCE | 0x20, DEF_CFA_OFFSET, 16, ADVANCE | 0x10,
			 DEF_CFA_OFFSET, 8, ADVANCE | 1, DEF_CFA_OFFSET, 16)},
		{RAISES, PUT_FDE(&eh, cie, RAISES - CFI_BIAS, 0x80, ADVANCE | 8, DEF_CFA_OFFSET_SF,
				 0, ADVANCE | 1, DEF_CFA_OFFSET_SF, 1)},
	};

	return module_of_functions(&eh, pairs, ARRAY_SIZE(pairs));
}

UNUSED static void fixture_space(struct fixture *f, uint32_t key, struct uw_memory *memory)
{
	space_renew(&f->space, f->maps, key, memory, &f->snapshot);
}

UNUSED static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->fake.memory.read = fake_read;
	f->module = module_make();
	f->maps[0] = text_of(f->module);
	f->maps[1] = (struct uw_map){.start = JIT, .end = JIT + 0x1000};
	f->snapshot = (struct uw_snapshot){
		.regs = f->regs,
		.arch = UW_ARCH_X86_64,
		.stack = (uint8_t *)f->stack,
		.stack_len = sizeof(f->stack),
	};
	fixture_space(f, 5, NULL);
	f->regs[UW_X86_SP] = SP;
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	*state = f;
	return 0;
}

UNUSED static int teardown(void **state)
{
	struct fixture *f = *state;

	uw_engine_free(f->engine);
	uw_space_unref(f->space);
	uw_module_unref(f->module);
	free(f);
	return 0;
}

UNUSED static void run(struct fixture *f, uint64_t pc)
{
	f->regs[UW_X86_IP] = pc;
	f->res = (struct uw_result){.frames = f->frames,
				    .max_frames = f->res.max_frames ? f->res.max_frames : FRAMES};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
