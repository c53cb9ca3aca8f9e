/* test-native-ocaml.c - raises of OCaml, and calls behind the code of its functions: code as its compiler writes it. */
#include "tests/unit/unwinder/native-fixture.h"

enum { RAISE = TRIES + 0x20, HANDLER = TRIES + 0x34, CALL_RETURN = TRIES + 0x55 };

static const char inlined[] =
	"\x49\x8b\x66\x10\x41\x8f\x46\x10\x41\x5b\x41\xff\xe3"; /* mov, pop, pop, jmp */

static void begin(struct fixture *f, uint32_t key)
{
	memset(f->fake.tries, 0x90, sizeof(f->fake.tries));
	memcpy(f->fake.tries + 0x18, "\x0f\x82\x32\0\0\0", 6); /* jb +0x50, in the try */
	memcpy(f->fake.tries + 0x20, inlined, sizeof(inlined) - 1);
	f->fake.tries[0x50] = 0xe8;
	memcpy(f->fake.tries + 0x80, "\x49\x8b\x66\x10\x41\x8f\x46\x10\xc3", 9);
	memset(f->stack, 0x11, sizeof(f->stack));
	fixture_space(f, key, &f->fake.memory);
	uw_engine_forget(f->engine, NULL);
}

/* The record of the handler at rsp + 8 * @words; behind it what TRIES has there: a word, and its return address. */
static void put_record(struct fixture *f, size_t words)
{
	f->stack[words] = SP + 0x80;
	f->stack[words + 1] = HANDLER;
	f->stack[words + 3] = ROOTED + 1;
}

/* By the function that handles it itself: one frame, wherever the raise is. */
static void test_inlined(void **state)
{
	struct fixture *f = *state;

	begin(f, 6);
	put_record(f, 0);
	for (int round = 0; round < 2; round++) { /* found out, then kept */
		run(f, RAISE + 4);
		EXPECT(f, RAISE + 4, CALLED(ROOTED + 1));
	}
	f->stack[0] = HANDLER;
	f->stack[2] = ROOTED + 1;
	run(f, RAISE + 8);
	EXPECT(f, RAISE + 8, CALLED(ROOTED + 1));
	f->stack[0] = 0x11;
	f->stack[1] = ROOTED + 1;
	f->stack[2] = 0x11;
	f->regs[UW_X86_R8 + 3] = HANDLER;
	run(f, RAISE + 10);
	EXPECT(f, RAISE + 10, CALLED(ROOTED + 1));
	f->regs[UW_X86_R8 + 3] = 0x12; /* no code */
	run(f, RAISE + 10);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
	/* At the mov the frame is that of the CFI. */
	f->stack[3] = ROOTED + 1;
	run(f, RAISE);
	EXPECT(f, RAISE, CALLED(ROOTED + 1));
}

/* By the runtime: the function of the handler is next. */
static void test_other_function(void **state)
{
	struct fixture *f = *state;

	begin(f, 7);
	put_record(f, 0);
	run(f, RAISES + 4);
	EXPECT(f, RAISES + 4, HANDLER, CALLED(ROOTED + 1));
	f->stack[0] = HANDLER;
	f->stack[1] = 0x11;
	f->stack[2] = ROOTED + 1;
	run(f, RAISES + 8);
	EXPECT(f, RAISES + 8, HANDLER, CALLED(ROOTED + 1));
	f->snapshot.stack_len = 0;
	run(f, RAISES + 8);
	assert_int_equal(f->res.outcome, UW_CUT);
}

/* Other code: the CFI stands. */
static void test_other_code(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 8; i++) {
		begin(f, 8 + (uint32_t)i);
		f->fake.tries[0x20 + i] ^= 1;
		f->stack[3] = ROOTED + 1;
		run(f, RAISE + 4);
		EXPECT(f, RAISE + 4, CALLED(ROOTED + 1));
	}
}

/* Code that cannot be read now: at the next sample it can. */
static void test_unreadable(void **state)
{
	struct fixture *f = *state;

	begin(f, 20);
	put_record(f, 0);
	fixture_space(f, 20, NULL);
	run(f, RAISE + 4);
	assert_int_equal(f->res.n_frames, 2); /* by CFI */
	f->stack[3] = SAVES + 1;
	f->stack[7] = ROOTED + 1;
	fixture_space(f, 20, &f->fake.memory);
	run(f, RAISES + 4);
	EXPECT(f, RAISES + 4, HANDLER, CALLED(SAVES + 1), CALLED(ROOTED + 1));
}

/* A call behind the code has the row of the jump that leads to it. */
static void test_out_of_line(void **state)
{
	struct fixture *f = *state;

	begin(f, 21);
	f->stack[1] = CALL_RETURN;   /* of SMALL */
	f->stack[2 + 1] = SAVES + 1; /* the function's end has CFA = rsp + 16 */
	f->stack[2 + 3] = ROOTED + 1;
	for (int round = 0; round < 2; round++) {
		run(f, SMALL + 0x10);
		EXPECT(f, SMALL + 0x10, CALLED(CALL_RETURN), CALLED(ROOTED + 1));
	}
	/* No jump leads there. */
	begin(f, 22);
	f->fake.tries[0x1a] = 0x33;
	f->stack[1] = CALL_RETURN;
	f->stack[2 + 1] = ROOTED + 1;
	run(f, SMALL + 0x10);
	EXPECT(f, SMALL + 0x10, CALLED(CALL_RETURN), CALLED(ROOTED + 1));
	/* No call is before it. */
	begin(f, 23);
	f->fake.tries[0x50] = 0x90;
	f->stack[1] = CALL_RETURN;
	f->stack[2 + 1] = ROOTED + 1;
	run(f, SMALL + 0x10);
	EXPECT(f, SMALL + 0x10, CALLED(CALL_RETURN), CALLED(ROOTED + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_inlined),    TEST(test_other_function), TEST(test_other_code),
		TEST(test_unreadable), TEST(test_out_of_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
