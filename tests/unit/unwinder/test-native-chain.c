/* test-native-chain.c - callchains of the kernel, checked against CFI: which are whole, where they are lost. */
#include "tests/unit/unwinder/native-fixture.h"

static int setup_chain(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	uw_engine_free(f->engine);
	assert_int_equal(uw_engine_new(UW_ENGINE_FP, &f->engine), 0);
	f->snapshot.check_chain = true;
	return 0;
}

static void run_chain(struct fixture *f, const uint64_t *chain, size_t n)
{
	f->snapshot.chain = chain;
	f->snapshot.n_chain = (uint32_t)n;
	f->snapshot.regs = NULL;
	f->snapshot.arch = UW_ARCH_NONE;
	f->res = (struct uw_result){.frames = f->frames,
				    .max_frames = f->res.max_frames ? f->res.max_frames : FRAMES};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}
#define RUN(f, ...)                                     \
	run_chain((f), (const uint64_t[]){__VA_ARGS__}, \
		  sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void test_root(void **state)
{
	struct fixture *f = *state;

	RUN(f, FRAMED, FRAMED + 9, ROOTED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[0], FRAMED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 9));
	/* Words behind the root are not frames. */
	RUN(f, FRAMED, ROOTED + 9, FRAMED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_false(f->res.unchecked);
	/* Code without CFI proves nothing: neither that a caller is missing nor that none is. */
	RUN(f, JIT, JIT + 9, SILENT + 9);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_true(f->res.unchecked);
	RUN(f, JIT);
	assert_result(f, UW_WHOLE, UW_OK, 1);
	assert_true(f->res.unchecked);
	RUN(f, FRAMED, SILENT + 9);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_true(f->res.unchecked);
	RUN(f, JIT, ROOTED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_false(f->res.unchecked);
	f->snapshot.check_chain = false;
	RUN(f, SMALL, 0x1234);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_true(f->res.unchecked);
	f->snapshot.n_chain = 0;
	run_chain(f, NULL, 0);
	assert_result(f, UW_FAILED, UW_NO_USER_STATE, 0);
}

/* A function without a frame pointer: the next frame is not its caller. */
static void test_lost(void **state)
{
	struct fixture *f = *state;

	RUN(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	RUN(f, SMALL, SAVES + 9);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
	assert_int_equal(f->res.stopped_at, SMALL);
	RUN(f, FRAMED, SMALL + 9, FRAMED + 9, SAVES + 9);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 4);
	assert_int_equal(f->res.stopped_at, SMALL + 9);
	assert_int_equal(f->frames[1], CALLED(SMALL + 9));
	assert_int_equal(f->frames[2], CALLED(FRAMED + 9) | UW_FRAME_GUESSED);
	/* It reaches the root all the same: whole, by guesses. */
	RUN(f, SMALL, FRAMED + 9, ROOTED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(FRAMED + 9) | UW_FRAME_GUESSED);
	/* A word that is not an address of code. */
	RUN(f, FRAMED, 0x1234, FRAMED + 9);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1);
	assert_int_equal(f->res.stopped_at, 0x1234);
	RUN(f, 0x1234, FRAMED + 9);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1);
	/* The last function has a caller: the kernel's callchain was full, or a page was missing. */
	RUN(f, FRAMED, FRAMED + 9);
	assert_result(f, UW_CUT, UW_OK, 2);
	f->res.max_frames = 2;
	RUN(f, FRAMED, FRAMED + 9, ROOTED + 9);
	assert_result(f, UW_CUT, UW_TOO_DEEP, 2);
}

/* The C library's first function has no frame pointer: it is learned from callchains that keep theirs. */
static void test_learned_end(void **state)
{
	struct fixture *f = *state;

	RUN(f, SMALL, STILL + 0x41); /* not known yet */
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
	RUN(f, SMALL, FRAMED + 9, STILL + 0x41);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[2], CALLED(STILL + 0x41) | UW_FRAME_GUESSED);
	RUN(f, SMALL, STILL + 0x41);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* In another process; and words behind it are not frames. */
	fixture_space(f, 7, NULL);
	RUN(f, SMALL, STILL + 0x41, FRAMED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* Another call in the same function is not an end. */
	RUN(f, SMALL, STILL + 0x51);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
}

static void test_states(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	RUN(f, FRAMED, SMALL + 9);
	assert_int_equal(f->res.outcome, UW_PENDING);
	assert_ptr_equal(f->res.pending, f->module);
	atomic_store(&f->module->unwind_state, UW_MODULE_UNREADABLE);
	RUN(f, SMALL, SMALL + 9);
	assert_result(f, UW_WHOLE, UW_OK, 2); /* nothing is known */
	assert_true(f->res.unchecked);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	fixture_space(f, 0, NULL); /* no cache */
	for (unsigned i = 0; i < 2; i++) {
		RUN(f, SMALL, SMALL + 9);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
	}
}

/* The program's file is gone, the C library is there: whole as far as is known, and unchecked. */
static void test_unread(void **state)
{
	struct fixture *f = *state;
	struct uw_module *gone;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/gone", NULL, &gone), 0);
	uw_module_set_unreadable(gone);
	f->maps[1].module = gone;
	fixture_space(f, 11, NULL);
	RUN(f, JIT, JIT + 9, STILL + 0x41);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_true(f->res.unchecked);
	/* It ends at a root, or a known function loses its caller. */
	RUN(f, JIT, JIT + 9, ROOTED + 9);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_false(f->res.unchecked);
	RUN(f, JIT, SMALL + 9, JIT + 9);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 3);
	/* Nothing was learned of its end. */
	RUN(f, SMALL, STILL + 0x41);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
	(void)uw_module_unref(gone);
	f->maps[1].module = NULL;
	fixture_space(f, 0, NULL);
}

int main(void)
{
#define CHAIN(name) cmocka_unit_test_setup_teardown(name, setup_chain, teardown)
	const struct CMUnitTest tests[] = {
		CHAIN(test_root),   CHAIN(test_lost),	CHAIN(test_learned_end),
		CHAIN(test_states), CHAIN(test_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
