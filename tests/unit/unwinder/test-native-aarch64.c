/* test-native-aarch64.c - the native engine over aarch64 stacks and CFI made by hand, on any host.
 *
 * The module's functions, each 0x80 bytes; pc is vaddr + 0x400000:
 *   0x1000 leaf    CFA = sp, nothing saved             0x1180 only    CFA = sp + 32, x30 at CFA -
 * 32 0x1080 pair    CFA = sp + 48, x29, x30 at CFA - 48 0x1200 apart   x29 at CFA - 16, x30 at CFA
 * - 8k 0x1100 framed  CFA = x29 + 64, x29, x30 at CFA - 64, negate_ra_state 0x1280 rooted  return
 * address undefined            0x1300 in x9   CFA = sp, x30 in x9 0x1380 signal  'S', as the vDSO
 * has it: CFA = x29, x29 and x30 at CFA 0x1400 by x19  CFA = x19 + 16, x29, x30 at CFA - 16 0x1500
 * nothing is stated
 *   0x1600 lands   0x180 bytes: CFA = sp + 160, x0 to x3, x19 to x30 from there on; at 0xc0 two
 *                  instructions with all of that given back */
#include "tests/unit/unwinder/native-stack.h"

enum {
	LEAF = 0x401000,
	PAIR = 0x401080,
	FRAMED = 0x401100,
	ONLY = 0x401180,
	APART = 0x401200,
	ROOTED_ARM = 0x401280,
	IN_X9 = 0x401300,
	TRAMPOLINE = 0x401380,
	BY_X19 = 0x401400,
	SILENT = 0x401500,
	LANDS = 0x401600,
};
enum { X9 = 9, X19 = 19, X29 = 29, X30, XSP, PC };

enum { OFFSET_EXTENDED = 0x05, IN_REGISTER_OP = 0x09, NEGATE_RA_STATE = 0x2d };
#define GUESSED(pc) ((pc) | UW_FRAME_CALLER | UW_FRAME_GUESSED)
#define SIGNED(pc) ((pc) | 0x2aull << 48) /* with bits 49, 51 and 53 of a signature */

struct fixture {
	struct uw_memory memory; /* SILENT's code */
	uint32_t code[32];
	struct uw_module *module;
	struct uw_map maps[2];
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_ARM64_COUNT], stack[WORDS], frames[FRAMES];
	struct uw_snapshot snapshot;
	struct uw_result res;
};

static ssize_t code_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fixture *f = container_of(memory, struct fixture, memory);

	if (address < CFI_BIAS + TEXT_AT || address + len > CFI_BIAS + TEXT_END)
		return -1;
	memset(to, 0, len);
	if (address <= ROOTED_ARM && address + len >= ROOTED_ARM + 4) /* bl: rooted calls */
		memcpy((uint8_t *)to + (ROOTED_ARM - address), &(uint32_t){0x94000000}, 4);
	for (size_t i = 0; i < len; i++)
		if (address + i >= SILENT && address + i < SILENT + sizeof(f->code))
			((uint8_t *)to)[i] = ((const uint8_t *)f->code)[address + i - SILENT];
	return (ssize_t)len;
}

/* Version 1, "zR" or "zRS", code 4, data -8, ra x30, pcrel sdata4; CFA = sp. */
static size_t put_cie_arm(struct bytes *to, const char *augmentation)
{
	size_t at = record_begin(to);

	put32(to, 0);
	put8(to, 1);
	put(to, augmentation, strlen(augmentation) + 1);
	put(to, (uint8_t[]){4, 0x78, X30, 1, 0x1b, DEF_CFA, XSP, 0}, 8);
	record_end(to, at);
	return at;
}

static struct uw_module *module_make(void)
{
	struct bytes eh = {.n = 0};
	size_t cie = put_cie_arm(&eh, "zR"), signal = put_cie_arm(&eh, "zRS");
#define FDE(cie, begin, ...) {begin, PUT_FDE(&eh, cie, (begin)-CFI_BIAS, 0x80, __VA_ARGS__)}
	uint64_t pairs[][2] = {
		FDE(cie, LEAF, 0),
		FDE(cie, PAIR, DEF_CFA_OFFSET, 48, OFFSET | X29, 6, OFFSET | X30, 5),
		FDE(cie, FRAMED, NEGATE_RA_STATE, DEF_CFA, X29, 64, OFFSET | X29, 8, OFFSET | X30,
		    7),
		FDE(cie, ONLY, DEF_CFA_OFFSET, 32, OFFSET | X30, 4),
		FDE(cie, APART, DEF_CFA_OFFSET, 48, OFFSET | X29, 2, OFFSET | X30, 6),
		FDE(cie, ROOTED_ARM, UNDEFINED, X30),
		FDE(cie, IN_X9, IN_REGISTER_OP, X30, X9),
		FDE(signal, TRAMPOLINE, DEF_CFA, X29, 0, OFFSET_EXTENDED, X29, 0, OFFSET_EXTENDED,
		    X30, 0x7f),
		FDE(cie, BY_X19, DEF_CFA, X19, 16, OFFSET | X29, 2, OFFSET | X30, 1),
		{LANDS, 0},
	};

#define SAVED(reg, slot) OFFSET | (reg), slot
#define GIVEN(reg) RESTORE | (reg)
	pairs[ARRAY_SIZE(pairs) - 1][1] =
		PUT_FDE(&eh, cie, LANDS - CFI_BIAS, 0x180, DEF_CFA_OFFSET, 0xa0, 1, SAVED(X29, 20),
			SAVED(X30, 19), SAVED(0, 18), SAVED(1, 17), SAVED(2, 16), SAVED(3, 15),
			SAVED(X19, 14), SAVED(20, 13), SAVED(21, 12), SAVED(22, 11), SAVED(23, 10),
			SAVED(24, 9), SAVED(25, 8), SAVED(26, 7), SAVED(27, 6), SAVED(28, 5),
			ADVANCE | 0x30, REMEMBER, GIVEN(X29), GIVEN(X30), GIVEN(0), GIVEN(1),
			GIVEN(2), GIVEN(3), GIVEN(X19), GIVEN(20), GIVEN(21), GIVEN(22),
			DEF_CFA_OFFSET, 0, ADVANCE | 2, 0x0b);
	return module_of_functions(&eh, pairs, ARRAY_SIZE(pairs));
}

static void fixture_space(struct fixture *f, struct uw_memory *memory)
{
	static uint32_t key;

	space_renew(&f->space, f->maps, ++key, memory, &f->snapshot);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->memory.read = code_read;
	f->module = module_make();
	f->module->image->arch = UW_ARCH_AARCH64;
	f->maps[0] = text_of(f->module);
	f->maps[1] = (struct uw_map){.start = 0xffff80000000, .end = 0xffff80001000};
	f->snapshot = (struct uw_snapshot){
		.regs = f->regs,
		.arch = UW_ARCH_AARCH64,
		.stack = (uint8_t *)f->stack,
		.stack_len = sizeof(f->stack),
	};
	fixture_space(f, NULL);
	f->regs[XSP] = SP;
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
	free(f);
	return 0;
}

static void run(struct fixture *f, uint64_t pc)
{
	f->regs[PC] = pc;
	f->res = (struct uw_result){.frames = f->frames, .max_frames = FRAMES};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}

/* leaf -> pair -> framed -> only -> rooted */
static void put_plain(struct fixture *f, uint64_t (*sign)(uint64_t))
{
	f->regs[X30] = sign(PAIR + 8);
	f->regs[X29] = 0xbad; /* pair restores it */
	f->stack[0] = SP + 8 * 20;
	f->stack[1] = sign(FRAMED + 12);
	f->stack[20] = 0x1234; /* CFA is word 28 */
	f->stack[21] = sign(ONLY + 4);
	f->stack[28] = sign(ROOTED_ARM + 4);
}

static uint64_t unsigned_address(uint64_t address)
{
	return address;
}

static uint64_t signed_address(uint64_t address)
{
	return SIGNED(address);
}

static void assert_plain(struct fixture *f)
{
	assert_result(f, UW_WHOLE, UW_OK, 5);
	assert_int_equal(f->frames[0], LEAF + 4);
	assert_int_equal(f->frames[1], CALLED(PAIR + 8));
	assert_int_equal(f->frames[2], CALLED(FRAMED + 12));
	assert_int_equal(f->frames[3], CALLED(ONLY + 4));
	assert_int_equal(f->frames[4], CALLED(ROOTED_ARM + 4));
}

static void test_plain(void **state)
{
	struct fixture *f = *state;

	for (unsigned round = 0; round < 2; round++) { /* cold, and out of the cache */
		put_plain(f, unsigned_address);
		run(f, LEAF + 4);
		assert_plain(f);
	}
}

static void test_signed(void **state)
{
	struct fixture *f = *state;

	for (unsigned round = 0; round < 2; round++) {
		put_plain(f, signed_address);
		run(f, LEAF + 4);
		assert_plain(f);
	}
	f->stack[1] |= 1ull << 55; /* the kernel's half: no signature */
	run(f, LEAF + 4);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 2);
}

/* A 39-bit kernel signs from bit 39 on. */
static void test_signed_39(void **state)
{
	struct fixture *f = *state;

	f->maps[1] = (struct uw_map){.start = 0x7fff000000, .end = 0x7fff001000};
	fixture_space(f, NULL);
	put_plain(f, unsigned_address);
	f->regs[X30] |= 0xffffull << 39;
	f->stack[1] |= 0x5555ull << 39;
	run(f, LEAF + 4);
	assert_plain(f);
}

/* A return address in x30 is that of an interrupted function only. */
static void test_live_link(void **state)
{
	struct fixture *f = *state;

	f->regs[X30] = LEAF + 0x20;
	run(f, LEAF + 4);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 2);
	f->regs[X30] = ROOTED_ARM + 4;
	run(f, LEAF + 4);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	f->regs[X30] = 0;
	run(f, LEAF + 4);
	assert_result(f, UW_WHOLE, UW_OK, 1);
}

static void test_slow(void **state)
{
	struct fixture *f = *state;

	/* x29 and x30 apart; x29 comes back. */
	f->stack[0] = FRAMED + 4;
	f->stack[4] = SP + 8 * 30;
	f->stack[31] = SIGNED(ROOTED_ARM + 4);
	run(f, APART + 8);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[2], CALLED(ROOTED_ARM + 4));
	/* In x9, which an interrupted function has. */
	f->regs[X9] = SIGNED(ROOTED_ARM + 4);
	run(f, IN_X9 + 4);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* By x19, which apart's caller still has. */
	f->stack[0] = BY_X19 + 4;
	f->regs[X19] = SP + 8 * 40;
	f->stack[41] = ROOTED_ARM + 4;
	run(f, APART + 8);
	assert_result(f, UW_WHOLE, UW_OK, 3);
}

/* Numbers that would lead outside the copy, by wrapping around too. */
static void test_bounds(void **state)
{
	struct fixture *f = *state;

	put_plain(f, unsigned_address);
	f->snapshot.stack_full = true;
	f->snapshot.stack_len = 16;
	run(f, PAIR + 4);
	assert_result(f, UW_CUT, UW_OK, 2);
	f->snapshot.stack_len = 15;
	run(f, PAIR + 4);
	assert_result(f, UW_CUT, UW_OK, 1);
	f->snapshot.stack_len = sizeof(f->stack);
	f->regs[XSP] = 0;
	f->regs[X29] = (uint64_t)0 - 8; /* the CFA is 56, the record at -8: popped */
	f->regs[X30] = 0x10;
	run(f, FRAMED + 4);
	assert_int_equal(f->res.n_frames, 1);
	f->regs[XSP] = UINT64_MAX - 15;
	run(f, PAIR + 4);
	assert_int_equal(f->res.outcome, UW_FAILED);
}

/* siginfo, ucontext (regs at 184, sp, pc), and a frame record behind; as the kernel writes them. */
static void put_signal_frame(struct fixture *f, size_t word, uint64_t pc)
{
	size_t regs = word + (128 + 184) / 8, record = regs + 40;

	for (size_t i = 0; i < 31; i++)
		f->stack[regs + i] = 1000 + i;
	f->stack[regs + X29] = SP + 8 * 300;
	f->stack[regs + X30] = PAIR + 8;
	f->stack[regs + XSP] = SP + 8 * 200;
	f->stack[regs + PC] = pc;
	f->stack[record] = SP + 8 * 300;
	f->stack[record + 1] = PAIR + 8;
	/* pair's frame */
	f->stack[200] = 0;
	f->stack[201] = ROOTED_ARM + 4;
	f->regs[X29] = SP + 8 * record;
}

static void assert_signal(struct fixture *f, uint64_t trampoline)
{
	assert_result(f, UW_WHOLE, UW_OK, 5);
	assert_int_equal(f->frames[0], ONLY + 8);
	assert_int_equal(f->frames[1], trampoline); /* not a caller: its first byte counts */
	assert_int_equal(f->frames[2], (LEAF + 0x40) | UW_FRAME_SIGNAL);
	assert_int_equal(f->frames[3], CALLED(PAIR + 8)); /* out of the x30 it had */
	assert_int_equal(f->frames[4], CALLED(ROOTED_ARM + 4));
}

static void test_signal(void **state)
{
	struct fixture *f = *state;

	/* handler (only) -> trampoline with the vDSO's CFI -> leaf, interrupted -> pair */
	f->stack[0] = TRAMPOLINE + 4;
	put_signal_frame(f, 4, LEAF + 0x40);
	run(f, ONLY + 8);
	assert_signal(f, TRAMPOLINE + 4);
	/* the same without CFI and without code: only by the stack */
	f->stack[0] = 0xffff80000100;
	run(f, ONLY + 8);
	assert_signal(f, 0xffff80000100);
	/* and as the first of its mapping, so that the byte before has no function */
	f->stack[0] = 0xffff80000000;
	run(f, ONLY + 8);
	assert_signal(f, 0xffff80000000);
	/* by its code; a handler without a frame record */
	f->code[16] = 0xd2801168; /* mov x8, #139 */
	f->code[17] = 0xd4000001; /* svc #0 */
	fixture_space(f, &f->memory);
	f->stack[0] = SILENT + 64;
	f->regs[X29] = 0;
	run(f, ONLY + 8);
	assert_signal(f, SILENT + 64);
}

static void test_guess(void **state)
{
	struct fixture *f = *state;

	/* A caller without CFI: the frame record.  Its address need not follow a call as long as
	 * the code cannot be read. */
	f->stack[0] = SILENT + 8;
	f->regs[X29] = SP + 8 * 20;
	f->stack[20] = 0;
	f->stack[21] = SIGNED(ROOTED_ARM + 4);
	run(f, ONLY + 8);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[2], GUESSED(ROOTED_ARM + 4));
	/* A leaf without CFI is not a reader of the stack. */
	f->regs[X30] = SIGNED(ROOTED_ARM + 4);
	f->regs[X29] = 0;
	run(f, SILENT + 16);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], GUESSED(ROOTED_ARM + 4));
	/* Where the code shows that it has a frame, x30 is left over from a call. */
	f->code[0] = 0xa9bf7bfd; /* stp x29, x30, [sp, #-16]! */
	f->code[1] = 0x910003fd; /* mov x29, sp */
	f->code[2] = 0x94000000; /* bl */
	f->code[3] = 0xd503201f; /* nop */
	fixture_space(f, &f->memory);
	f->regs[X30] = SILENT + 12;
	f->regs[X29] = SP + 8 * 20;
	f->stack[21] = ROOTED_ARM + 4;
	run(f, SILENT + 16);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], GUESSED(ROOTED_ARM + 4));
	/* Between the two instructions the record is at sp. */
	f->stack[0] = 0;
	f->stack[1] = ROOTED_ARM + 4;
	f->regs[X29] = 0xbad;
	run(f, SILENT + 4);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* A caller that follows no call is none. */
	f->regs[X30] = SILENT + 8;
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
}

/* Both machines in one batch. */
static void test_mixed(void **state)
{
	struct fixture *f = *state;
	static uint64_t frames[4][FRAMES];
	uint64_t x86[UW_X86_COUNT] = {[UW_X86_IP] = LEAF + 4, [UW_X86_SP] = SP};
	struct uw_snapshot snapshots[4];
	struct uw_result results[4];

	put_plain(f, unsigned_address);
	f->regs[PC] = LEAF + 4;
	for (size_t i = 0; i < 4; i++) {
		snapshots[i] = f->snapshot;
		results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
	}
	snapshots[1].arch = UW_ARCH_X86_64; /* of which the module's code is data */
	snapshots[1].regs = x86;
	snapshots[2].arch = UW_ARCH_NONE;
	assert_int_equal(uw_unwind_batch(f->engine, snapshots, 4, results), 0);
	assert_int_equal(results[0].outcome, UW_WHOLE);
	assert_int_equal(results[0].n_frames, 5);
	assert_int_equal(results[1].outcome, UW_FAILED);
	assert_int_equal(results[1].n_frames, 1);
	assert_int_equal(results[2].reason, UW_ABI);
	assert_int_equal(results[3].outcome, UW_WHOLE);
	assert_int_equal(results[3].n_frames, 5);
}

/* Where a function goes to a landing pad, its caller may be another's: before and in the epilogue, and
 * at the function's end, where a jump leads back to it. */
static void test_landing(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint64_t at;
		bool guessed;
	} cases[] = {
		{0, false},	    {0xc0 - 96 - 4, false}, {0xc0 - 96, true}, {0xbc, true},
		{0xc0, true},	    {0xc4, true},	    {0xc8, false},     {0x180 - 52, false},
		{0x180 - 48, true}, {0x17c, true},
	};

	f->stack[1] = ROOTED_ARM + 4;
	f->regs[X30] = ROOTED_ARM + 4;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) { /* cold, and out of the cache */
		run(f, LANDS + cases[i / 2].at);
		assert_result(f, UW_WHOLE, UW_OK, 2);
		assert_int_equal(f->frames[1], cases[i / 2].guessed ? GUESSED(ROOTED_ARM + 4)
								    : CALLED(ROOTED_ARM + 4));
	}
	/* From what it called: the same. */
	f->stack[1] = LANDS + 0xbc;
	f->stack[6 + 1] = ROOTED_ARM + 4;
	run(f, PAIR);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(LANDS + 0xbc));
	assert_int_equal(f->frames[2], GUESSED(ROOTED_ARM + 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signed_39, setup, teardown),
		cmocka_unit_test_setup_teardown(test_live_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guess, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mixed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_landing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
