/* test-native-miss.c - walks side by side with rules that are not known yet: each gives what it gives alone. */
#include "tests/unit/unwinder/native-fixture.h"

enum { N = 40, DEPTH = 6 };

struct stacks {
	uint64_t words[N][2 * DEPTH + 2], regs[N][UW_X86_COUNT], frames[N][FRAMES];
	struct uw_snapshot snapshots[N];
	struct uw_result results[N];
};

static uint64_t pc_of(size_t stack, size_t frame)
{
	return SMALL + 1 + (stack * DEPTH + frame) % 0x70;
}

/* Each of N stacks has DEPTH callers in small, others than the next one's, and the root. */
static struct stacks *stacks_make(const struct fixture *f)
{
	struct stacks *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	for (size_t i = 0; i < N; i++) {
		for (size_t frame = 1; frame <= DEPTH; frame++)
			s->words[i][2 * frame - 1] =
				frame < DEPTH ? pc_of(i, frame) + 1 : ROOTED + 1;
		s->regs[i][UW_X86_IP] = pc_of(i, 0);
		s->regs[i][UW_X86_SP] = SP;
		s->snapshots[i] = f->snapshot;
		s->snapshots[i].regs = s->regs[i];
		s->snapshots[i].stack = (uint8_t *)s->words[i];
		s->snapshots[i].stack_len = sizeof(s->words[i]);
	}
	return s;
}

static void stacks_run(const struct fixture *f, struct stacks *s)
{
	for (size_t i = 0; i < N; i++) {
		s->snapshots[i].space = f->space;
		s->results[i] = (struct uw_result){.frames = s->frames[i], .max_frames = FRAMES};
	}
	assert_int_equal(uw_unwind_batch(f->engine, s->snapshots, N, s->results), 0);
}

static void assert_whole(const struct stacks *s, size_t i)
{
	assert_int_equal(s->results[i].outcome, UW_WHOLE);
	assert_int_equal(s->results[i].n_frames, DEPTH + 1);
	assert_int_equal(s->frames[i][0], pc_of(i, 0));
	for (size_t frame = 1; frame < DEPTH; frame++)
		assert_int_equal(s->frames[i][frame], CALLED(pc_of(i, frame) + 1));
	assert_int_equal(s->frames[i][DEPTH], CALLED(ROOTED + 1));
}

static struct uw_engine_stats stats_of(const struct fixture *f)
{
	struct uw_engine_stats stats;

	uw_engine_stats(f->engine, &stats);
	return stats;
}

/* All addresses are new at first, then known of the module, then of the process. */
static void test_side_by_side(void **state)
{
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);

	for (uint32_t key = 5; key <= 6; key++) {
		fixture_space(f, key, NULL);
		for (unsigned round = 0; round < 2; round++) {
			stacks_run(f, s);
			for (size_t i = 0; i < N; i++)
				assert_whole(s, i);
		}
	}
	/* 0x70 addresses in small, and the root's. */
	assert_int_equal(stats_of(f).cfi_runs, 0x71);
	assert_int_equal(stats_of(f).cache_misses, 2 * 0x71);
	assert_int_equal(stats_of(f).shared_hits, 0x71);
	free(s);
}

/* Sixteen miss one rule: it is found once. */
static void test_one_for_all(void **state)
{
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);

	for (size_t i = 0; i < N; i++) {
		s->regs[i][UW_X86_IP] = SMALL + 2;
		s->words[i][1] = ROOTED + 1;
	}
	stacks_run(f, s);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(s->results[i].outcome, UW_WHOLE);
		assert_int_equal(s->results[i].n_frames, 2);
	}
	assert_int_equal(stats_of(f).cache_misses, 2);
	assert_int_equal(stats_of(f).cfi_runs, 2);
	free(s);
}

/* Some walks end at their first frame; new ones begin in their places. */
static void test_ends(void **state)
{
	static const uint64_t pcs[] = {DAMAGED + 1, ROOTED + 1, 0x123456, 0};
	static const enum uw_outcome outcomes[] = {UW_FAILED, UW_WHOLE, UW_FAILED, UW_WHOLE};
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);

	for (size_t i = 0; i < N; i++)
		if (pcs[i % 4])
			s->regs[i][UW_X86_IP] = pcs[i % 4];
	for (unsigned round = 0; round < 2; round++) {
		stacks_run(f, s);
		for (size_t i = 0; i < N; i++) {
			assert_int_equal(s->results[i].outcome, outcomes[i % 4]);
			if (!pcs[i % 4])
				assert_whole(s, i);
			else
				assert_int_equal(s->results[i].n_frames, 1);
		}
	}
	free(s);
}

/* Nothing is kept for key 0; a module without a search table. */
static void test_others(void **state)
{
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);
	struct uw_image *image = f->module->image;

	fixture_space(f, 0, NULL);
	for (unsigned round = 0; round < 2; round++) {
		stacks_run(f, s);
		for (size_t i = 0; i < N; i++)
			assert_whole(s, i);
	}
	assert_int_equal(stats_of(f).cfi_runs, 0x71);
	uw_engine_forget(f->engine, NULL);
	image->table.n = 0;
	fixture_space(f, 7, NULL);
	stacks_run(f, s);
	for (size_t i = 0; i < N; i++)
		assert_whole(s, i);
	assert_int_equal(stats_of(f).cfi_runs, 2 * 0x71);
	free(s);
}

/* The module waits for its loading: so do all its stacks. */
static void test_pending(void **state)
{
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);

	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	stacks_run(f, s);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(s->results[i].outcome, UW_PENDING);
		assert_ptr_equal(s->results[i].pending, f->module);
	}
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	stacks_run(f, s);
	for (size_t i = 0; i < N; i++)
		assert_whole(s, i);
	free(s);
}

/* A return address of 1 is looked up at 0, where nothing is: not at the place that an earlier batch found in advance. */
static void test_address_one(void **state)
{
	struct fixture *f = *state;
	struct stacks *s = stacks_make(f);

	stacks_run(f, s);
	free(s);
	fixture_space(f, 6, NULL); /* the mappings of the other one are gone */
	f->stack[1] = 1;
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_FAILED);
	assert_int_equal(f->res.reason, UW_NO_MODULE);
	assert_int_equal(f->res.stopped_at, 1);
	assert_int_equal(f->res.n_frames, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_side_by_side), TEST(test_one_for_all), TEST(test_ends),
		TEST(test_others),	 TEST(test_pending),	 TEST(test_address_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
