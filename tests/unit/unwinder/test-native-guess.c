/* test-native-guess.c - frames without CFI: chains, what the code says, what stops a guess. */
#include "tests/unit/unwinder/native-fixture.h"

static void test_unreadable(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->module->unwind_state, UW_MODULE_UNREADABLE);
	f->regs[UW_X86_BP] = 1;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_UNREADABLE, 1);
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = 0;
	f->stack[3] = FRAMED + 3;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2); /* rbp 0 ends the chain */
	assert_int_equal(f->frames[1], CALLED(FRAMED + 3) | UW_FRAME_GUESSED);
	/* What was guessed is not believed once the module can be read. */
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	uw_engine_forget(f->engine, f->module);
	f->stack[1] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
}

static void test_guess(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = SP + 32;
	f->stack[3] = JIT + 0x25;
	f->stack[4] = 0;
	f->stack[5] = ROOTED + 1;
	run(f, JIT + 0x10); /* no code to read: the mapping has to do */
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	f->regs[UW_X86_BP] = SP + 17;
	f->stack[0] = 1;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	f->regs[UW_X86_BP] = SP + 8 * WORDS;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
	/* A leaf in assembly without CFI: [rsp]. */
	f->stack[0] = ROOTED + 1;
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
}

static void test_guess_code(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	f->fake.code[0x40] = 0x55; /* push %rbp */
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[0] = JIT + 0x25;
	f->stack[2] = SP + 32;
	f->stack[3] = JIT + 0x25;
	f->stack[4] = 0;
	f->stack[5] = 0;
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	run(f, JIT + 0x40); /* before the push: the return address is at [rsp] */
	assert_result(f, UW_WHOLE, UW_OK, 3);
	f->stack[0] = 0;
	f->stack[3] = JIT + 0x31; /* that follows no call */
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10);
		assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
		assert_int_equal(f->res.stopped_at, JIT + 0x31);
	}
	f->fake.n_reads = 0; /* all that was read is remembered */
	run(f, JIT + 0x10);
	assert_int_equal(f->fake.n_reads, 0);
}

/* What the code says from the pc on to its ret: where return address and rbp are. */
static void test_guess_walk(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8;				    /* a call ends at 0x25 */
	memcpy(f->fake.code + 0x40, "\x48\x83\xc4\x10\x5d\xc3", 6); /* add $16; pop %rbp; ret */
	f->regs[UW_X86_BP] = SP + 64;				    /* a chain that skips a frame */
	f->stack[8] = 0;
	f->stack[9] = JIT + 0x25;
	f->stack[2] = SP + 40; /* popped into rbp */
	f->stack[3] = JIT + 0x25;
	f->stack[5] = SP + 64;
	f->stack[6] = JIT + 0x25;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x40);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 4);
		assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	}
	f->stack[3] = 0; /* no return address there: the chain, as before */
	run(f, JIT + 0x40);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
}

/* The first instructions of a program, without CFI: argc, argv, NULL. */
static void test_start(void **state)
{
	struct fixture *f = *state;

	f->stack[0] = 2;
	f->stack[1] = SP + 256;
	f->stack[2] = SP + 264;
	f->stack[3] = 0;
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 1);
	f->stack[3] = 1; /* argv does not end */
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	f->stack[3] = 0;
	f->stack[1] = SP + 8; /* no pointer to a string above */
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_unreadable), TEST(test_guess), TEST(test_guess_code),
		TEST(test_guess_walk), TEST(test_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
