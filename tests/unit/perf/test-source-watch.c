/* test-source-watch.c - the reader of a sideband ring wakes up when a watched task, or a child of it, runs. */
#include "tests/unit/perf/source-fixture.h"

static void watch(struct perf_options *options)
{
	options->watch = true;
}

/* Samples of the sideband rings; the fixture accepts none, so they are read here. */
static size_t watch_records(struct fixture *f)
{
	struct merge *merge = perf_source_merge(f->source);
	struct merge_item item;
	size_t n = 0;

	merge_finish(merge);
	assert_int_equal(merge_begin(merge, 0), 0);
	while (merge_next(merge, &item) == 0) {
		const struct perf_ring *ring = perf_source_ring(f->source, item.ring);
		struct record_sample sample;

		if (item.record->type == PERF_RECORD_SAMPLE && ring->sideband) {
			assert_int_equal(record_parse_sample(&ring->layout, item.record, &sample),
					 0);
			assert_true(sample.pid != 0);
			n++;
		}
		merge_put(merge, item.ring, item.position);
	}
	return n;
}

static void check_wakes(void (*what)(void))
{
	struct fixture f;
	struct child child;

	fixture_follow(&f, &child, what, watch);
	assert_true(perf_source_can_watch(f.source));
	assert_true(perf_source_task_fd(f.source, 0) >= 0);
	assert_int_equal(perf_source_task_fd(f.source, 1), -1);
	assert_int_equal(perf_source_enable(f.source), 0);
	assert_int_equal(perf_source_watch(f.source, true), 0);
	child_go(&child);
	assert_true(fixture_poll(&f, true, 20000) > 0);
	assert_int_equal(perf_source_watch(f.source, false), 0);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	assert_true(watch_records(&f) > 0);
	fixture_deinit(&f);
}

/* Of the task itself and of a child that inherited its events. */
static void test_wakes(void **state)
{
	(void)state;
	check_wakes(child_spins);
	check_wakes(child_spins_in_child);
}

static void test_off(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	fixture_follow(&f, &child, child_spins, watch);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	assert_int_equal(watch_records(&f), 0);
	fixture_deinit(&f);
}

static void test_not_wanted(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	fixture_follow(&f, &child, child_spins, NULL);
	assert_false(perf_source_can_watch(f.source));
	fixture_finish(&f, &child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wakes),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_not_wanted),
	};

	return cmocka_run_group_tests_name("source-watch", tests, NULL, NULL);
}
