/* test-profile-choose.c - a trace of several data sources: weights of different events never meet.
 */
#include <errno.h>

#include "profile/profile.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

enum { CPU_CLOCK = 1, PAGE_FAULTS = 2, CYCLES = 10 };

static void put_samples(struct buffer *trace, uint32_t sequence, uint64_t n, uint64_t each)
{
	for (uint64_t i = 1; i <= n; i++)
		put_sample(trace,
			   &(struct test_sample){.sequence = sequence,
						 .flags = 2,
						 .time = 100 * i + sequence,
						 .pid = 7,
						 .tid = 7,
						 .count = i * each},
			   NULL);
}

static struct profile parse(struct buffer *trace)
{
	struct profile p;
	char error[256] = "";

	assert_false(trace->bad);
	assert_int_equal(profile_parse(trace->data, trace->len, &p, error, sizeof(error)), 0);
	buffer_deinit(trace);
	return p;
}

static void expect(const struct profile *p, const char *name, const char *unit, size_t n,
		   uint64_t weight)
{
	uint64_t sum = 0, last = 0;

	assert_string_equal(p->event_name, name);
	assert_string_equal(p->weight_unit, unit);
	assert_int_equal(p->n_samples, n);
	for (size_t i = 0; i < p->n_samples; i++) {
		assert_true(p->samples[i].time >= last);
		last = p->samples[i].time;
		sum += p->samples[i].weight;
	}
	assert_int_equal(sum, weight);
}

/* Two sequences count page faults, one counts time: two events. */
static void test_several(void **state)
{
	struct buffer trace = {0};
	char error[256] = "";
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, PAGE_FAULTS, 10, 0);
	put_defaults(&trace, 4, 6, CPU_CLOCK, 1000, 0);
	put_defaults(&trace, 5, 6, PAGE_FAULTS, 10, 0);
	put_samples(&trace, 3, 4, 10);
	put_samples(&trace, 4, 3, 1000);
	put_samples(&trace, 5, 2, 10);
	p = parse(&trace);
	assert_int_equal(p.n_events, 2);
	assert_string_equal(p.events[0].name, "page-faults");
	assert_int_equal(p.events[0].n_samples, 6);
	assert_string_equal(p.events[1].name, "cpu-clock");
	assert_int_equal(p.events[1].n_samples, 3);
	expect(&p, "cpu-clock", "ns", 3, 3000); /* none requested: time */
	assert_int_equal(profile_choose_event(&p, "page-faults", error, sizeof(error)), 0);
	expect(&p, "page-faults", "events", 6, 60);
	assert_int_equal(profile_choose_event(&p, NULL, error, sizeof(error)), 0);
	expect(&p, "page-faults", "events", 6, 60);
	assert_int_equal(profile_choose_event(&p, "page", error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "the trace has no event page; it has: page-faults cpu-clock");
	expect(&p, "page-faults", "events", 6, 60);
	assert_int_equal(profile_choose_event(&p, "cpu-clock", error, sizeof(error)), 0);
	expect(&p, "cpu-clock", "ns", 3, 3000);
	profile_deinit(&p);
}

/* None is time: the first in the file.  One without samples is none. */
static void test_first(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, CPU_CLOCK, 1000, 0);
	put_defaults(&trace, 4, 6, PAGE_FAULTS, 10, 0);
	put_defaults(&trace, 5, 6, CYCLES, 50, 0);
	put_samples(&trace, 5, 2, 50);
	put_samples(&trace, 4, 3, 10);
	p = parse(&trace);
	assert_int_equal(p.n_events, 2);
	expect(&p, "cpu-cycles", "cycles", 2, 100);
	profile_deinit(&p);
}

/* ":u" may be left out, where that is clear; a name that has it already does not get it twice. */
static void check_modifiers(const char *name)
{
	struct buffer trace = {0}, packet = {0}, defaults = {0}, sample = {0}, timebase = {0};
	char error[256] = "";
	struct profile p;

	put_number(&timebase, 1, 10);
	put_number(&timebase, 4, PAGE_FAULTS);
	if (name)
		put_text(&timebase, 10, name);
	put_number(&timebase, 12, 1); /* user space */
	put_message(&sample, 1, &timebase);
	put_message(&defaults, 12, &sample);
	put_number(&packet, 10, 3);
	put_number(&packet, 13, 1);
	put_message(&packet, 59, &defaults);
	put_message(&trace, 1, &packet);
	put_samples(&trace, 3, 2, 10);
	put_defaults(&trace, 4, 6, CPU_CLOCK, 1000, 0);
	put_samples(&trace, 4, 1, 1000);
	p = parse(&trace);
	assert_int_equal(profile_choose_event(&p, "page-faults", error, sizeof(error)), 0);
	expect(&p, "page-faults:u", "events", 2, 20);
	profile_deinit(&p);
}

static void test_modifiers(void **state)
{
	(void)state;
	check_modifiers(NULL);
	check_modifiers("page-faults");
	check_modifiers("page-faults:u");
}

static void test_none(void **state)
{
	struct buffer trace = {0};
	char error[256] = "";
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, CPU_CLOCK, 1000, 0);
	p = parse(&trace);
	assert_int_equal(p.n_events, 0);
	assert_string_equal(p.event_name, "cpu-clock");
	assert_int_equal(profile_choose_event(&p, "cycles", error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "the trace has no event cycles; it has: no samples");
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_modifiers),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
