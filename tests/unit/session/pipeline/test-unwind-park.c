/* test-unwind-park.c - flushes and verdicts: what they wait for, and what does not wait for them.
 */
#define FIXTURE_WAIT_MS 500
#include "tests/unit/session/pipeline/unwind-fixture.h"

static void push_flush(struct fixture *f, uint64_t number, uint64_t wait_ms)
{
	push(f, &(struct entry){
			.kind = ENTRY_FLUSH,
			.info = {.count = number,
				 .time = clock_ns(CLOCK_MONOTONIC) + wait_ms * NSEC_PER_MSEC},
		});
}

static void expect_flushed(struct fixture *f, uint64_t number)
{
	const struct outcome *o = next(f);

	assert_int_equal(o->kind, OUTCOME_FLUSHED);
	assert_int_equal(o->info.count, number);
}

/* A kernel thread's: answered at once. */
static void push_plain(struct fixture *f, uint32_t tid)
{
	push(f, &(struct entry){.kind = ENTRY_SAMPLE, .info.tid = tid});
}

/* Behind what came before it, whatever comes after. */
static void test_flush_in_order(void **state)
{
	struct fixture *f = *state;

	push_plain(f, 1);
	push_flush(f, 10, 1000);
	push_flush(f, 11, 1000);
	push_plain(f, 2);
	go(f);
	assert_int_equal(next(f)->info.tid, 1);
	for (int i = 0, flushed = 0; i < 3; i++) {
		const struct outcome *o = next(f);

		if (o->kind == OUTCOME_FLUSHED)
			assert_int_equal(o->info.count, 10 + flushed++);
		else
			assert_int_equal(o->info.tid, 2);
	}
	expect_nothing(f);
}

/* A sample that waits for its mappings holds up the flush behind it, not the one before it. */
static void test_flush_waits_for_parked(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	load_own_text(f);
	push_flush(f, 1, 10000);
	push_sample(f, 2, NULL, 7);
	push_flush(f, 2, 10000);
	go(f);
	expect_flushed(f, 1);
	expect_nothing(f);
	push(f, &(struct entry){
			.kind = ENTRY_SPACE,
			.info = {.process = process_number(2), .space = f->space},
		});
	go(f);
	o = next(f);
	assert_int_equal(o->info.tid, 7);
	assert_int_equal(o->skipped, SKIP_NONE);
	(void)uw_space_unref(o->info.space);
	expect_flushed(f, 2);
}

/* ... and not longer than the flush allows. */
static void test_flush_has_a_bound(void **state)
{
	struct fixture *f = *state;

	push_sample(f, 2, NULL, 7);
	push_flush(f, 3, 0);
	go(f);
	expect_flushed(f, 3);
	assert_int_equal(next(f)->skipped, SKIP_MAPS_TIMEOUT);
}

static void push_undecided(struct fixture *f, uintptr_t process, uint32_t tid, bool user)
{
	push(f, &(struct entry){
			.kind = ENTRY_SAMPLE,
			.undecided = true,
			.user_state = user,
			.arch = UW_ARCH_X86_64,
			.regs = user ? f->regs : NULL,
			.stack = (const uint8_t *)f->stack,
			.info = {.process = process_number(process),
				 .space = user ? uw_space_ref(f->space) : NULL,
				 .tid = tid,
				 .stack_len = sizeof(f->stack)},
		});
}

static void push_space(struct fixture *f, uintptr_t process, bool undecided, bool left_out)
{
	push(f, &(struct entry){
			.kind = ENTRY_SPACE,
			.undecided = undecided,
			.skip = left_out,
			.info = {.process = process_number(process), .space = f->space},
		});
	go(f);
}

/* All of a process waits for the verdict on it, with and without a user part, also where the
 * mappings are known. */
static void test_verdict(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	load_own_text(f);
	push_undecided(f, 1, 1, true);
	push_undecided(f, 1, 2, false);
	push_undecided(f, 2, 3, true);
	go(f);
	expect_nothing(f);
	push_space(f, 1, true, false); /* mappings, but no verdict yet */
	expect_nothing(f);
	push_space(f, 1, false, false);
	for (uint32_t i = 0, seen = 0; i < 2; i++) {
		o = next(f);
		assert_int_equal(o->skipped, SKIP_NONE);
		assert_int_equal(o->n_user, o->info.tid == 1 ? 1 : 0);
		seen |= 1u << o->info.tid;
		assert_int_equal(i ? seen : 6, 6);
		(void)uw_space_unref(o->info.space);
	}
	push_space(f, 2, false, true);
	o = next(f);
	assert_int_equal(o->info.tid, 3);
	assert_int_equal(o->skipped, SKIP_NOT_IN_SCOPE);
	(void)uw_space_unref(o->info.space);
	push_undecided(f, 3, 4, true); /* a verdict that never comes */
	go(f);
	o = next(f);
	assert_int_equal(o->skipped, SKIP_MAPS_TIMEOUT);
	(void)uw_space_unref(o->info.space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_flush_in_order),
		TEST(test_flush_waits_for_parked),
		TEST(test_flush_has_a_bound),
		TEST(test_verdict),
	};

	return cmocka_run_group_tests_name("unwind-park", tests, NULL, NULL);
}
