/* test-fallback.c - a module with unwind information that fails is switched to frame pointers, if these reach the known root. */
#include "tests/unit/unwinder/native-fixture.h"

enum { LEAST = 20, EACH = 16 }; /* unwinder.c */

static int setup_fallback(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	uw_engine_set(f->engine, &(struct uw_settings){.fallback = true});
	f->snapshot.thread = 7;
	return 0;
}

/* framed, called by @caller, called by rooted; by frame pointers. */
static void put_frames(struct fixture *f, uint64_t caller)
{
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = SP + 48;
	f->stack[3] = caller;
	f->stack[6] = 0;
	f->stack[7] = ROOTED + 1;
}

static void run_whole(struct fixture *f)
{
	put_frames(f, FRAMED + 9);
	run(f, FRAMED + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_false(f->res.by_fp);
}

/* Its unwind information is damaged: true where frame pointers completed it. */
static bool run_damaged(struct fixture *f)
{
	put_frames(f, FRAMED + 9);
	run(f, DAMAGED + 0x10);
	if (!f->res.by_fp) {
		assert_int_equal(f->res.outcome, UW_FAILED);
		return false;
	}
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[0], DAMAGED + 0x10);
	assert_int_equal(f->frames[1], CALLED(FRAMED + 9) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	return true;
}

static void test_switch(void **state)
{
	struct fixture *f = *state;

	run_whole(f);
	for (unsigned i = 1; i < LEAST; i++)
		assert_false(run_damaged(f));
	assert_true(run_damaged(f));
	assert_true(run_damaged(f));
	run_whole(f);
	/* Another thread of the process ends at the same root; another process has none yet. */
	f->snapshot.thread = 8;
	assert_true(run_damaged(f));
	fixture_space(f, 9, NULL);
	assert_false(run_damaged(f));
}

/* No stack of the process was whole: nothing is known of its root. */
static void test_no_root(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3 * LEAST; i++)
		assert_false(run_damaged(f));
}

/* Frame pointers lead elsewhere: more than one in twenty. */
static void test_not_proved(void **state)
{
	struct fixture *f = *state;

	run_whole(f);
	for (unsigned i = 0; i < 3 * LEAST; i++) {
		put_frames(f, i % 10 ? FRAMED + 9 : SAVES + 9);
		if (i % 10 == 0)
			f->stack[7] = SAVES + 9;
		run(f, DAMAGED + 0x10);
		assert_int_equal(f->res.outcome, UW_FAILED);
	}
	/* After the switch, too, each stack has to reach the root itself. */
	for (unsigned i = 0; i < 60 * LEAST; i++)
		(void)run_damaged(f);
	assert_true(run_damaged(f));
	put_frames(f, SAVES + 9);
	f->stack[7] = SAVES + 9;
	run(f, DAMAGED + 0x10);
	assert_int_equal(f->res.outcome, UW_FAILED);
}

/* The first stacks were judged by a root that the thread has no more (of ld.so): the last ones decide. */
static void test_late(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;

	run_whole(f);
	for (unsigned i = 0; i < 10 * LEAST; i++) {
		put_frames(f, SAVES + 9);
		f->stack[7] = SAVES + 9;
		run(f, DAMAGED + 0x10);
		assert_int_equal(f->res.outcome, UW_FAILED);
	}
	while (n < 20 * LEAST && !run_damaged(f))
		n++;
	assert_in_range(n, LEAST, 15 * LEAST);
}

/* Its callers keep no frame pointer: one frame is by the frame pointer, and these are by their unwind information. */
static void test_one(void **state)
{
	struct fixture *f = *state;

	run_whole(f);
	for (unsigned i = 0; i <= LEAST; i++) {
		memset(f->stack, 0, sizeof(f->stack));
		f->stack[1] = DAMAGED + 9; /* of small */
		f->regs[UW_X86_BP] = SP + 32;
		f->stack[4] = 77; /* the caller's rbp: a number */
		f->stack[5] = KEEPER + 9;
		f->stack[8] = ROOTED + 1;
		run(f, SMALL + 0x10);
	}
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_true(f->res.by_fp);
	assert_int_equal(f->frames[1], CALLED(DAMAGED + 9));
	assert_int_equal(f->frames[2], CALLED(KEEPER + 9) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[3], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
}

/* One stack in twenty, or fewer: the module stays as it is. */
static void test_rare(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2 * LEAST; i++) {
		for (unsigned k = 0; k < 2 * EACH; k++)
			run_whole(f);
		assert_false(run_damaged(f));
	}
}

/* Off by default. */
static void test_off(void **state)
{
	struct fixture *f = *state;

	uw_engine_set(f->engine, &(struct uw_settings){.fallback = false});
	run_whole(f);
	for (unsigned i = 0; i < 3 * LEAST; i++)
		assert_false(run_damaged(f));
}

int main(void)
{
#define FALLBACK(name) cmocka_unit_test_setup_teardown(name, setup_fallback, teardown)
	const struct CMUnitTest tests[] = {
		FALLBACK(test_switch), FALLBACK(test_no_root), FALLBACK(test_not_proved),
		FALLBACK(test_late),   FALLBACK(test_one),     FALLBACK(test_rare),
		FALLBACK(test_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
