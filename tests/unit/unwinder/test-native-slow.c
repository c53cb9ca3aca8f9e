/* test-native-slow.c - frames that no packed rule describes: full registers, signal frames, other stacks, landings. */
#include "tests/unit/unwinder/native-fixture.h"

static void test_slow(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_R8 + 2] = SP + 64; /* leaps: CFA = r10 */
	f->stack[7] = ROOTED + 1;
	run(f, LEAPS);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* rbx is changed and kept by keeper; its caller's CFA needs the old one: walked again from
	 * the leaf. */
	f->regs[UW_X86_BX] = 0xbad;
	f->stack[1] = KEEPER + 1;      /* small */
	f->stack[2 + 1] = SP + 8 * 20; /* keeper: rbx */
	f->stack[2 + 2] = BY_RBX + 1;
	f->stack[20] = ROOTED + 1; /* CFA = rbx + 8 */
	for (unsigned round = 0; round < 2; round++) {
		run(f, SMALL);
		assert_result(f, UW_WHOLE, UW_OK, 4);
		assert_int_equal(f->frames[2], CALLED(BY_RBX + 1));
		assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	}
	f->stack[2 + 1] = SP; /* CFA below: no progress */
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 3);
	f->stack[2 + 1] = SP + 8 * WORDS;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_MEMORY, 3);
	f->regs[UW_X86_R8 + 2] = SP + 64; /* r10 does not live through a call */
	f->stack[1] = LEAPS + 1;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 2);
}

/* Its stack pointer is its caller's: allowed to what was interrupted, never to what was called. */
static void test_return_address_in_register(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_DI] = SMALL + 1;
	f->stack[1] = ROOTED + 1;
	run(f, VFORKS);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(SMALL + 1));
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1));
	f->regs[UW_X86_DI] = VFORKS + 1;
	run(f, VFORKS);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 2); /* rdi is not known in a caller */
}

static void put_signal_frame(struct fixture *f, size_t word, uint64_t pc, uint64_t bp, uint64_t sp)
{
	f->stack[word] = pc;
	f->stack[word + 1] = bp;
	f->stack[word + 4] = sp;
}

static void test_signal(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = 1;
	f->stack[1] = SIGNAL; /* small was called by the kernel: the trampoline's first byte */
	put_signal_frame(f, 2, SMALL, 0, SP + 8 * 30);
	f->stack[31] = ROOTED + 1;
	run(f, SMALL + 7);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO,
		      2); /* SIGNAL - 1 has no function: no trampoline looks so */
	f->regs[UW_X86_BP] =
		0; /* rbp cleared in code without CFI: how the ABI marks the first frame */
	run(f, SMALL + 7);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	f->stack[1] = SIGNAL + 1;
	run(f, SMALL + 7);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_int_equal(f->frames[1], SIGNAL + 1); /* not a return address */
	assert_int_equal(f->frames[2], SMALL | UW_FRAME_SIGNAL);
	assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	/* In the kernel at the system call that is the trampoline's last instruction. */
	f->regs[UW_X86_SP] = SP;
	put_signal_frame(f, 0, ROOTED, 0, SP + 8 * 30);
	run(f, SIGNAL + 0x80);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], ROOTED | UW_FRAME_SIGNAL);
}

/* A handler on an alternate stack: the interrupted one is elsewhere. */
static void test_other_stack(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_SP] = SP + 8 * 100;
	f->snapshot.stack = (uint8_t *)&f->stack[100];
	f->snapshot.stack_len = 8 * 100;
	put_signal_frame(f, 100, SMALL, 0, SP + 8); /* below the copy */
	f->stack[2] = SMALL + 1;
	f->stack[4] = ROOTED + 1;
	run(f, SIGNAL);
	assert_result(f, UW_FAILED, UW_MEMORY, 2);
	assert_int_equal(f->res.stopped_at, SP + 16);
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	fixture_space(f, 5, &f->fake.memory);
	run(f, SIGNAL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	put_signal_frame(f, 100, SMALL, 0,
			 SP + 8 * 110); /* upwards, within the copy: the plain road again */
	f->stack[111] = ROOTED + 1;
	run(f, SIGNAL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	put_signal_frame(f, 100, SIGNAL, 0, SP + 8 * 100); /* an endless loop */
	run(f, SIGNAL);
	assert_result(f, UW_CUT, UW_TOO_DEEP, FRAMES);
}

/* Behind a leave rbp is the caller's already, and what an expression makes of it is not: here 0. */
static void test_left(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 8 * 20;
	f->stack[0] = FRAMED + 1;
	f->stack[20] = 0;
	f->stack[21] = FRAMED + 1;
	run(f, LEFT);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 3);
	assert_int_equal(f->frames[2], CALLED(FRAMED + 1));
	f->stack[20] = SP + 8 * 30;
	f->stack[31] = ROOTED + 1;
	run(f, LEFT);
	assert_result(f, UW_WHOLE, UW_OK, 4);
}

/* Behind pops without CFI rows: the registers have the saved values, and below rsp is any data. */
static void test_emptied(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BX] = SP + 8 * 20; /* by_rbx: CFA = rbx + 8 */
	f->stack[0] = BY_RBX + 1;
	f->stack[20] = FRAMED + 1;
	f->regs[UW_X86_BP] = SP + 8 * 30;
	f->stack[31] = ROOTED + 1;
	run(f, EMPTIED + 5);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_int_equal(f->frames[2], CALLED(FRAMED + 1));
	assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
}

/* A block of registers, as glibc's setcontext() has: it lies below the stack, which is nothing
 * popped. */
static void test_block(void **state)
{
	struct fixture *f = *state;
	const uint64_t block[] = {0, SP + 8 * 20, SP + 8 * 10, SAVES + 1};

	fixture_space(f, 6, &f->fake.memory);
	memcpy(f->fake.code, block, sizeof(block));
	f->regs[UW_X86_BX] = JIT;
	f->stack[10 + 2] = SP + 8 * 30; /* saves: CFA = rsp + 32 */
	f->stack[10 + 3] = FRAMED + 1;
	f->stack[31] = ROOTED + 1;
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	run(f, BLOCK);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_int_equal(f->frames[1], CALLED(SAVES + 1));
	assert_int_equal(f->frames[2], CALLED(FRAMED + 1));
}

/* A register is needed behind a frame without CFI: the second walk passes it in each of its forms. */
static void test_behind_guess(void **state)
{
	static const struct {
		const char *code;
		size_t len;
		size_t ra; /* in the stack */
	} cases[] = {
		{"\x48\x83\xc4\x10\x5d\xc3", 6, 3}, /* add $16,%rsp; pop %rbp; ret */
		{"\xc3", 1, 0},			    /* ret */
		{"\x48\x89\xe5\x5d\xc3", 5, 1},	    /* mov %rsp,%rbp, the push is behind */
		{"\x0f\x0b", 2, 9},		    /* no answer: the callchain */
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t *at = &f->stack[cases[i].ra];

		fixture_space(f, (uint32_t)(20 + i), &f->fake.memory);
		memset(f->fake.code, 0x90, sizeof(f->fake.code));
		memcpy(f->fake.code + 0x40, cases[i].code, cases[i].len);
		memset(f->stack, 0, sizeof(f->stack));
		f->regs[UW_X86_BP] = SP + 64;
		f->regs[UW_X86_BX] = 0xbad;
		at[0] = KEEPER + 1;
		at[1 + 1] = SP + 8 * 40; /* keeper: rbx */
		at[1 + 2] = BY_RBX + 1;
		f->stack[40] = ROOTED + 1; /* CFA = rbx + 8 */
		for (unsigned round = 0; round < 2; round++) {
			run(f, JIT + 0x40);
			assert_result(f, UW_WHOLE, UW_OK, 4);
			assert_int_equal(f->frames[1], CALLED(KEEPER + 1) | UW_FRAME_GUESSED);
			assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
		}
	}
}

/* Where a function goes to a landing pad, the caller that it had may have been written over: it
 * is marked as a guess, on each of the three paths. */
static void test_landing(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint64_t at;
		uint64_t guessed;
	} cases[] = {
		{LANDS, 0},
		{LANDS + 0x1f, 0},
		{LANDS + 0x20, UW_FRAME_GUESSED},
		{LANDS + 0xbf, UW_FRAME_GUESSED},
		{LANDS + 0xc0, UW_FRAME_GUESSED},
		{LANDS + 0xc3, UW_FRAME_GUESSED},
		{LANDS + 0xff, UW_FRAME_GUESSED},
	};

	f->regs[UW_X86_BP] = SP + 8 * 8;
	f->regs[UW_X86_CX] = SP + 8 * 20;
	f->stack[0] = f->stack[9] = f->stack[20] = ROOTED + 1;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) { /* cold, and out of the cache */
		run(f, cases[i / 2].at);
		assert_result(f, UW_WHOLE, UW_OK, 2);
		assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | cases[i / 2].guessed);
	}
	fixture_space(f, 6, &f->fake.memory);
	f->stack[9] = JIT + 0x31; /* follows no call */
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	run(f, LANDS + 0x20);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_slow),	 TEST(test_return_address_in_register),
		TEST(test_signal),	 TEST(test_other_stack),
		TEST(test_left),	 TEST(test_emptied),
		TEST(test_block),	 TEST(test_landing),
		TEST(test_behind_guess),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
