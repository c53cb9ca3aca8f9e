/* test-source-rate.c - a rate that changes while whole CPUs are sampled: each sample has the period of its rate, and the sum of
 * all is the time. */
#include "tests/unit/perf/source-fixture.h"

static void test_rates(void **state)
{
	const uint64_t rates[] = {2000, 500, 100, 1000};
	uint64_t time[ARRAY_SIZE(rates) + 1], weight = 0, used;
	cpu_set_t all, one;
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.frequency = 2000;
	f.options.n_cpus = 1;
	f.options.stack_bytes = 0; /* the ring holds all */
	f.options.ring_bytes = 8 << 20;
	assert_int_equal(fixture_open(&f), 0);
	/* busy there: the timer of an idle CPU stands still */
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(f.cpus[0], &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		time[i] = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(perf_source_set_frequency(f.source, rates[i]), 0);
		assert_int_equal(perf_source_options(f.source)->frequency, rates[i]);
		fixture_spin(200);
	}
	time[ARRAY_SIZE(rates)] = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(perf_source_disable(f.source), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	fixture_drain(&f, true);
	for (size_t k = 0; k < f.n_samples; k++) {
		const struct seen_sample *s = &f.samples[k];
		bool known = false;

		if (perf_source_is_double(f.source, s->ring, s->id, s->time))
			continue;
		/* The change itself takes a while: there it is of either rate. */
		for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
			known |= s->period == NSEC_PER_SEC / rates[i] && s->time >= time[i] &&
				 (i + 1 == ARRAY_SIZE(rates) ||
				  s->time < time[i + 1] + 50 * NSEC_PER_MSEC);
		assert_true(known);
		weight += s->period;
	}
	used = time[ARRAY_SIZE(rates)] - time[0];
	/* Each event owes less than a period. */
	assert_in_range(weight, used - used / 10 - 20 * NSEC_PER_MSEC, used + used / 100);
	fixture_deinit(&f);
}

static void test_refused(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_set_frequency(f.source, 100), -EOPNOTSUPP);
	fixture_deinit(&f);
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_set_frequency(f.source, 0), -EINVAL);
	fixture_deinit(&f);
	fixture_init(&f);
	f.options.frequency = 0;
	f.options.period = 1000000;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_set_frequency(f.source, 100), -EOPNOTSUPP);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
