/* test-native.c - the native engine's plain road: packed rules, bounds, ends, batches, modules that come and go. */
#include "tests/unit/unwinder/native-fixture.h"

static void test_plain(void **state)
{
	struct fixture *f = *state;

	for (unsigned round = 0; round < 2; round++) { /* cold, and out of the cache */
		f->regs[UW_X86_BP] = SP + 8 * 8;
		f->stack[1] = SAVES + 5;       /* small, 16 bytes */
		f->stack[2 + 2] = SP + 8 * 10; /* saves: rbp, ra at words 4 and 5 */
		f->stack[2 + 3] = FRAMED + 9;
		f->stack[10] = 0x1234; /* framed by that rbp */
		f->stack[11] = ROOTED + 1;
		run(f, SMALL);
		assert_result(f, UW_WHOLE, UW_OK, 4);
		assert_int_equal(f->frames[0], SMALL);
		assert_int_equal(f->frames[1], CALLED(SAVES + 5));
		assert_int_equal(f->frames[2], CALLED(FRAMED + 9));
		assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	}
	f->stack[11] = 0; /* a return address of 0 is a root, too */
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
}

/* A return address may be the first byte of the next function: what counts is the call before it.
 */
static void test_call_at_end(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = SAVES; /* belongs to small: 16 bytes more */
	f->stack[3] = ROOTED + 1;
	run(f, SMALL + 3);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(SAVES));
	f->stack[3] = ROOTED + 1; /* the leaf itself is not stepped back: saves, 32 bytes */
	run(f, SAVES);
	assert_result(f, UW_WHOLE, UW_OK, 2);
}

static void test_popped(void **state)
{
	struct fixture *f = *state;

	/* rbp + 32 is the CFA, rbp is stated to be at [rbp], which is below rsp: the register counts.
	 */
	f->regs[UW_X86_BP] = SP - 8;
	f->stack[2] = FRAMED + 1;
	f->stack[3] = 0;
	run(f, POPPED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 2); /* framed by rbp SP - 8: CFA below rsp */
	f->regs[UW_X86_BP] = SP + 8;
	f->stack[1] = SP + 8 * 8; /* at or above rsp it is loaded */
	f->stack[4] = FRAMED + 1;
	f->stack[9] = ROOTED + 1;
	run(f, POPPED);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	/* CFA 16, so rbp is stated to be at -16: below rsp, not at the end of all addresses. */
	f->regs[UW_X86_SP] = 8;
	f->regs[UW_X86_BP] = (uint64_t)0 - 16;
	f->stack[0] = FRAMED + 1;
	run(f, POPPED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 2);
	assert_int_equal(f->res.stopped_at, 0);
}

static void test_bounds(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = SMALL + 1;
	f->stack[3] = ROOTED + 1;
	f->snapshot.stack_len = 32;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	f->snapshot.stack_len = 31;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_MEMORY, 2);
	assert_int_equal(f->res.stopped_at, SP + 24);
	f->snapshot.stack_full = true;
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 2);
	assert_int_equal(f->res.stopped_at, SP + 24);
	f->snapshot.stack_len = 0;
	f->snapshot.stack = NULL;
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 1);
	/* The kernel could copy nothing: the page of sp is touched for the first time. */
	f->snapshot.stack_full = false;
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 1);
	assert_int_equal(f->res.stopped_at, SP + 8);
	/* Below sp no copy has anything. */
	f->regs[UW_X86_BP] = SP - 64;
	run(f, FRAMED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 1);
}

static void test_ends(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = 0x1234567;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1); /* that was not a caller */
	assert_int_equal(f->res.stopped_at, 0x1234567);
	f->stack[1] = 0xffffffff81000000;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1);
	run(f, 0x1234567);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1); /* but this is where it was */
	run(f, 0);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 0);
	run(f, DAMAGED);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 1);
	f->regs[UW_X86_BP] = SP - 64;
	run(f, FRAMED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 1);
	f->snapshot.regs = NULL;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_USER_STATE, 0);
	f->snapshot.regs = f->regs;
	f->snapshot.arch = UW_ARCH_NONE;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_ABI, 0);
}

static void test_too_deep(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 1; i < WORDS; i += 2)
		f->stack[i] = SMALL + 1;
	for (uint32_t max = 1; max <= FRAMES; max++) {
		f->res.max_frames = max;
		run(f, SMALL);
		assert_result(f, UW_CUT, UW_TOO_DEEP, max);
	}
}

static void test_pending(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = ROOTED + 1;
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_result(f, UW_PENDING, UW_OK, 1);
	assert_ptr_equal(f->res.pending, f->module);
	atomic_store(&f->module->unwind_state, UW_MODULE_WANTED);
	run(f, SMALL);
	assert_result(f, UW_PENDING, UW_OK, 1);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_null(f->res.pending);
}

/* A module that is dropped to save memory: what was found out stays; what needs its sections waits.
 */
static void test_dropped(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_R8 + 2] = SP + 64; /* leaps: CFA = r10 */
	f->stack[1] = ROOTED + 1;
	f->stack[7] = ROOTED + 1;
	run(f, SMALL);
	run(f, LEAPS);
	uw_engine_forget(f->engine, f->module);
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	run(f, LEAPS);
	assert_result(f, UW_PENDING, UW_OK, 1);
	assert_ptr_equal(f->res.pending, f->module);
	run(f, SAVES); /* not met before */
	assert_result(f, UW_PENDING, UW_OK, 1);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, LEAPS);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* The same where the stack is walked again for a register (test_slow). */
	f->regs[UW_X86_BX] = 0xbad;
	f->stack[1] = KEEPER + 1;
	f->stack[2 + 1] = SP + 8 * 20;
	f->stack[2 + 2] = BY_RBX + 1;
	f->stack[20] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_PENDING);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
}

/* What has no CFI in the image has it in a debug file, perhaps: that is asked for, once. */
static void test_more(void **state)
{
	struct fixture *f = *state;

	f->module->image->has_separate = true;
	f->stack[0] = f->stack[1] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_false(uw_module_wants_separate(f->module));
	for (unsigned round = 0; round < 2; round++) {
		run(f, SILENT);
		assert_result(f, UW_PENDING, UW_OK, 1);
		assert_ptr_equal(f->res.pending, f->module);
		assert_true(uw_module_wants_separate(f->module));
	}
	f->module->image->has_separate = false; /* loaded again, and nothing was there */
	uw_engine_renew(f->engine, f->module);
	assert_int_equal(uw_module_unwind_state(f->module), UW_MODULE_READY);
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	f->module->image->has_separate = true;
	uw_engine_renew(f->engine, f->module);
	assert_int_equal(uw_module_unwind_state(f->module), UW_MODULE_NEW);
	uw_engine_renew(f->engine, f->module); /* there is nothing to drop */
	assert_int_equal(uw_module_unwind_state(f->module), UW_MODULE_NEW);
}

/* What the engine has found out stays, except where its module has other unwinding information. */
static void test_adopt(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats before, after;

	f->stack[0] = f->stack[1] = ROOTED + 1;
	for (unsigned turn = 0; turn < 4; turn++) {
		uw_engine_stats(f->engine, &before);
		run(f, SMALL);
		uw_engine_stats(f->engine, &after);
		assert_int_equal(after.cache_misses > before.cache_misses, turn != 2);
		atomic_store(&f->module->has_jit_cfi, turn > 0);
		atomic_store(&f->module->first_cfi, turn == 2);
		if (turn == 0)
			uw_engine_forget(f->engine, NULL);
		uw_engine_adopt(f->engine, f->module);
	}
}

static void deep_make(struct fixture *f)
{
	for (size_t i = 1; i < 101; i += 2)
		f->stack[i] = SMALL + 1;
	f->stack[101] = ROOTED + 1;
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	f->snapshot.stack_len = 256;
	f->snapshot.stack_full = true;
}

static void test_deep(void **state)
{
	struct fixture *f = *state;

	deep_make(f);
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 17); /* no memory to go on in */
	fixture_space(f, 5, &f->fake.memory);
	memset(&f->stack[32], 0xee, sizeof(f->stack) - 256);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 52);
	assert_int_equal(f->frames[50], CALLED(SMALL + 1));
	assert_int_equal(f->frames[51], CALLED(ROOTED + 1));
	assert_true(f->fake.n_reads <= 16);
	f->fake.stack[31]++; /* it ran on: the copy is all there is */
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 17);
	assert_int_equal(f->res.stopped_at, SP + 33 * 8);
}

/* The copy ends in the frame, and what it has of it has changed: the return address that stands in
 * the process is used if a call of this function is before it, and the frame is marked as guessed.
 */
static void test_same_frame(void **state)
{
	struct fixture *f = *state;
	int32_t to = FRAMED - (JIT + 0x25);

	memset(f->stack, 1, 64);
	memset(f->fake.stack, 2, 64);
	f->snapshot.stack_len = 64;
	f->regs[UW_X86_BP] = SP + 8 * 20;
	f->fake.stack[20] = SP + 8 * 30;
	f->fake.stack[21] = JIT + 0x25;
	f->fake.stack[31] = ROOTED + 1;
	f->fake.code[0x20] = 0xe8;
	memcpy(f->fake.code + 0x21, &to, 4);
	fixture_space(f, 7, &f->fake.memory);
	run(f, FRAMED + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	to++; /* of another function */
	memcpy(f->fake.code + 0x21, &to, 4);
	run(f, FRAMED + 0x10);
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
}

/* Key 0 promises nothing: two spaces of it must not share rules. */
static void test_keys(void **state)
{
	struct fixture *f = *state;
	struct uw_map moved = f->maps[0];
	struct uw_space *other;

	moved.offset += 0x80; /* small's place is now saves' */
	f->stack[1] = ROOTED + 1;
	f->stack[3] = ROOTED + 1 - 0x80;
	for (uint32_t key = 0; key < 2; key++) {
		fixture_space(f, key * 100, NULL);
		assert_int_equal(uw_space_new(&moved, 1, key * 200, NULL, &other), 0);
		for (unsigned round = 0; round < 2; round++) {
			f->snapshot.space = f->space;
			run(f, SMALL);
			assert_result(f, UW_WHOLE, UW_OK, 2);
			assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
			f->snapshot.space = other;
			run(f, SMALL);
			assert_result(f, UW_WHOLE, UW_OK, 2);
			assert_int_equal(f->frames[1], CALLED(ROOTED + 1 - 0x80));
		}
		uw_space_unref(other);
	}
}

static void assert_stats(const struct fixture *f, uint64_t misses, uint64_t shared, uint64_t cfi)
{
	struct uw_engine_stats stats;

	uw_engine_stats(f->engine, &stats);
	assert_int_equal(stats.cache_misses, misses);
	assert_int_equal(stats.shared_hits, shared);
	assert_int_equal(stats.cfi_runs, cfi);
}

/* What one process's misses found out serves all processes that have the module, also with key 0. */
static void test_processes(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = ROOTED + 1;
	for (uint32_t key = 5; key <= 6; key++) {
		fixture_space(f, key, NULL);
		for (unsigned round = 0; round < 2; round++) {
			run(f, SMALL);
			assert_result(f, UW_WHOLE, UW_OK, 2);
			assert_stats(f, key == 5 ? 2 : 4, key == 5 ? 0 : 2, 2);
		}
	}
	fixture_space(f, 5, NULL);
	run(f, SMALL + 1); /* one more address, in the first again */
	assert_stats(f, 5, 2, 3);
	fixture_space(f, 0, NULL);
	run(f, SMALL + 1);
	assert_stats(f, 7, 4, 3);
}

static void test_processes_without_key(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = ROOTED + 1;
	fixture_space(f, 0, NULL);
	run(f, SMALL);
	assert_stats(f, 2, 0, 2);
	run(f, SMALL);
	assert_stats(f, 4, 2, 2);
	fixture_space(f, 5, NULL);
	run(f, SMALL);
	assert_stats(f, 6, 4, 2);
}

static void test_batch(void **state)
{
	enum { N = 100 };
	struct fixture *f = *state;
	static uint64_t frames[N][FRAMES], regs[N][UW_X86_COUNT];
	struct uw_snapshot snapshots[N];
	struct uw_result results[N];
	struct uw_engine_stats stats;

	/* Every stack of another depth: i calls of small, then the root; each seventh cannot be
	 * unwound. */
	for (size_t i = 1; i < WORDS; i += 2)
		f->stack[i] = SMALL + 1;
	f->stack[2 * 50 + 1] = ROOTED + 1;
	for (size_t i = 0; i < N; i++) {
		size_t depth = i % 50;

		memcpy(regs[i], f->regs, sizeof(f->regs));
		regs[i][UW_X86_IP] = SMALL;
		regs[i][UW_X86_SP] = SP + 16 * (50 - depth);
		snapshots[i] = f->snapshot;
		snapshots[i].regs = i % 7 == 6 ? NULL : regs[i];
		snapshots[i].stack = (uint8_t *)f->stack + 16 * (50 - depth);
		snapshots[i].stack_len = (uint32_t)(sizeof(f->stack) - 16 * (50 - depth));
		results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
	}
	assert_int_equal(uw_unwind_batch(f->engine, snapshots, N, results), 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(results[i].outcome, i % 7 == 6 ? UW_FAILED : UW_WHOLE);
		assert_int_equal(results[i].n_frames, i % 7 == 6 ? 0 : i % 50 + 2);
	}
	uw_engine_stats(f->engine, &stats);
	assert_int_equal(stats.cache_misses,
			 2); /* small (the same address as a leaf and as a caller), rooted */
	assert_int_equal(stats.cfi_runs, 2);
	assert_true(stats.frames > 1000);
	assert_int_equal(stats.cache_hits, stats.frames - 2);
	assert_int_equal(uw_unwind_batch(f->engine, snapshots, 0, results), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_plain),     TEST(test_call_at_end),
		TEST(test_popped),    TEST(test_bounds),
		TEST(test_ends),      TEST(test_too_deep),
		TEST(test_adopt),     TEST(test_pending),
		TEST(test_dropped),   TEST(test_more),
		TEST(test_deep),      TEST(test_same_frame),
		TEST(test_keys),      TEST(test_batch),
		TEST(test_processes), TEST(test_processes_without_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
