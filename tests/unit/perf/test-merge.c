/* test-merge.c - merge.h on fake rings: order, what is held back, records
 * without time, damage. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/perf/fake-machine.h"

static void test_order_and_limit(void **state)
{
	(void)state;
	machine_start(3, 512); /* ring 1 stays empty and holds nothing back */
	ADD({0, 10, 1}, {0, 30, 2}, {2, 20, 3}, {2, 40, 4}, {2, 50, 5});
	machine.clock = 40;
	begin();
	EXPECT({0, 10, 1}, {2, 20, 3}, {0, 30, 2});
	expect_done(); /* 40 is not before 40 */
	ADD({0, 45, 6});
	machine.clock = 41;
	begin();
	expect_next(2, 40, 4);
	expect_done();
	machine.clock = 60;
	begin();
	EXPECT({0, 45, 6}, {2, 50, 5});
	expect_done();
	assert_int_equal(merge_violations(machine.merge), 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fake_ring_tail(&machine.fake[i]), machine.fake[i].head);
		assert_int_equal(ring_held(machine.ring[i]), 0);
	}
	machine_stop();
}

static void test_finish(void **state)
{
	(void)state;
	machine_start(2, 512);
	ADD({0, 5000, 1}, {1, 6000, 2});
	begin();
	expect_done();
	merge_finish(machine.merge);
	assert_int_equal(merge_begin(machine.merge, 1), 0); /* T is ignored */
	EXPECT({0, 5000, 1}, {1, 6000, 2});
	expect_done();
	machine_stop();
}

/* A time of the future, damaged or of a clock that was set back, holds up no
 * ring: the record comes with the one before it. */
static void test_future(void **state)
{
	(void)state;
	machine_start(2, 512);
	machine.clock = 100;
	ADD({0, 50, 1}, {0, 100 + 2 * NSEC_PER_SEC, 2}, {0, UINT64_MAX, 3}, {0, 60, 4}, {1, 55, 5});
	begin();
	EXPECT({0, 50, 1}, {0, 50, 2}, {0, 50, 3}, {1, 55, 5}, {0, 60, 4});
	expect_done();
	assert_int_equal(ring_held(machine.ring[0]), 0);
	/* A little ahead is only later. */
	ADD({0, 100 + NSEC_PER_MSEC, 6});
	begin();
	expect_done();
	machine.clock = 101 + NSEC_PER_MSEC;
	begin();
	expect_next(0, 100 + NSEC_PER_MSEC, 6);
	expect_done();
	assert_int_equal(merge_violations(machine.merge), 0);
	machine_stop();
}

/* Times that step back inside a ring are sorted, by a little and by much; equal
 * ones keep their order. */
static void test_back_steps(void **state)
{
	enum { N = 2000 };

	(void)state;
	machine_start(2, 65536);
	ADD({0, 10, 1}, {0, 14, 2}, {0, 12, 3}, {0, 12, 4}, {1, 13, 5});
	machine.clock = 13;
	begin();
	EXPECT({0, 10, 1}, {0, 12, 3}, {0, 12, 4});
	expect_done();
	add_sample(0, 13, 6, 0); /* older than what waits */
	publish_all();
	machine.clock = 20;
	begin();
	EXPECT({0, 13, 6}, {1, 13, 5}, {0, 14, 2});
	expect_done();
	/* All the wrong way round: more than insertion is given. */
	for (uint64_t i = 0; i < N; i++)
		assert_true(add_sample(0, 1000000 - i / 2, i, 0));
	publish_all();
	machine.clock = 2000000;
	begin();
	for (uint64_t i = N; i-- > 0;)
		expect_next(0, 1000000 - i / 2, i ^ 1);
	expect_done();
	assert_int_equal(merge_violations(machine.merge), 0);
	machine_stop();
}

static void test_equal_times_across_rings(void **state)
{
	struct merge_item item;

	(void)state;
	machine_start(3, 512);
	add_sample(0, 10, 1, 0);
	add_sample(1, 10, 2, 0);
	add_comm(2, 10); /* a sample may depend on it */
	publish_all();
	begin();
	assert_int_equal(merge_next(machine.merge, &item), 0);
	assert_int_equal(item.record->type, PERF_RECORD_COMM);
	assert_int_equal(item.time, 10);
	merge_put(machine.merge, item.ring, item.position);
	EXPECT({0, 10, 1}, {1, 10, 2});
	expect_done();
	machine_stop();
}

/* A ring without times holds nothing back and waits for nothing; in a ring with
 * times, a record that has none stays behind the one before it. */
static void test_untimed(void **state)
{
	const struct record_layout no_trailer = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME};
	static struct fake_record record;
	struct merge_item item;

	(void)state;
	machine_start(1, 512);
	add_ring(512, &untimed);
	add_ring(512, &no_trailer);
	add_sample(0, 10, 1, 0);
	add_sample(1, 999999, 2, 0); /* not a time: the layout has none */
	add_sample(1, 5, 3, 0);
	add_sample(2, 15, 4, 0);
	fake_begin(&record, PERF_RECORD_LOST, 0);
	fake_word(&record, 1);
	fake_word(&record, 1);
	fake_ring_add(&machine.fake[2], &record);
	add_sample(2, 12, 5, 0);
	fake_ring_add(&machine.fake[2], &record); /* behind 12, but also behind 15 */
	publish_all();
	begin();
	EXPECT({1, 0, 2}, {1, 0, 3}, {0, 10, 1}, {2, 12, 5}, {2, 15, 4});
	for (int i = 0; i < 2; i++) {
		assert_int_equal(merge_next(machine.merge, &item), 0);
		assert_int_equal(item.record->type, PERF_RECORD_LOST);
		assert_int_equal(item.time, 15);
		merge_put(machine.merge, item.ring, item.position);
	}
	expect_done();
	ADD({1, 0, 6});
	machine.clock = 0;
	begin();
	expect_done(); /* 0 is not before 0 */
	machine.clock = 1;
	begin();
	expect_next(1, 0, 6);
	assert_int_equal(merge_violations(machine.merge), 0);
	machine_stop();
}

/* What comes too late is counted and still given. */
static void test_violations(void **state)
{
	(void)state;
	machine_start(2, 512);
	ADD({0, 100, 1});
	begin();
	expect_next(0, 100, 1);
	ADD({1, 99, 2}, {1, 100, 3}, {0, 98, 4});
	begin();
	EXPECT({0, 98, 4}, {1, 99, 2});
	expect_next(1, 100, 3); /* as late as the latest is not too late */
	expect_done();
	assert_int_equal(merge_violations(machine.merge), 2);
	machine_stop();
}

/* A round that was left early goes on in the next. */
static void test_left_early(void **state)
{
	(void)state;
	machine_start(2, 512);
	for (uint64_t i = 0; i < 10; i++)
		ADD({i % 2, 10 + i, i});
	begin();
	EXPECT({0, 10, 0}, {1, 11, 1}, {0, 12, 2});
	begin();
	ADD({0, 20, 10});
	begin();
	for (uint32_t i = 3; i < 11; i++)
		expect_next(i % 2, 10 + i, i);
	expect_done();
	machine_stop();
}

static void test_damaged(void **state)
{
	const struct perf_event_header headers[] = {
		{.type = PERF_RECORD_SAMPLE, .size = 0},  /* no size */
		{.type = PERF_RECORD_SAMPLE, .size = 64}, /* passes the head */
		{.type = PERF_RECORD_SAMPLE, .size = 8},  /* no room for its time */
		{.type = PERF_RECORD_COMM, .size = 8},	  /* no room for its trailer */
		{.type = 64, .size = 8},		  /* not of the kernel */
	};
	struct merge_item item;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		machine_start(2, 512);
		add_sample(0, 10, 1, 0);
		fake_ring_write(&machine.fake[1], &headers[i], sizeof(headers[i]));
		publish_all();
		for (int again = 0; again < 2; again++)
			assert_int_equal(merge_begin(machine.merge, machine.clock), -EBADMSG);
		assert_int_equal(merge_next(machine.merge, &item), MERGE_DONE);
		machine_stop();
	}
	machine_start(2, 512);
	fake_ring_meta(&machine.fake[1])->data_head = 0;
	assert_int_equal(merge_begin(machine.merge, machine.clock), -EBADMSG);
	machine_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_limit),
		cmocka_unit_test(test_finish),
		cmocka_unit_test(test_future),
		cmocka_unit_test(test_back_steps),
		cmocka_unit_test(test_equal_times_across_rings),
		cmocka_unit_test(test_untimed),
		cmocka_unit_test(test_violations),
		cmocka_unit_test(test_left_early),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
