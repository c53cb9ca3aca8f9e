/* test-profile-end.c - is all of a file there?  By its first and last packet, built by hand. */
#include "profile/profile.h"
#include "profile/trace-stats.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

enum { STATS = 60001, BEGIN = 4, END = 5 };

static struct buffer trace;

static int set_up(void **state)
{
	(void)state;
	trace = (struct buffer){0};
	return 0;
}

static void put_begin(uint32_t behind_ms)
{
	struct buffer packet = {0}, stats = {0}, begin = {0};

	if (behind_ms)
		put_number(&begin, 1, behind_ms);
	put_message(&stats, BEGIN, &begin);
	put_message(&packet, STATS, &stats);
	put_message(&trace, 1, &packet);
}

static void put_end(uint64_t packets, bool full)
{
	struct buffer packet = {0}, stats = {0}, end = {0};

	put_number(&end, 1, packets);
	put_number(&end, 2, 1);
	if (full)
		put_number(&end, 3, 1);
	put_message(&stats, END, &end);
	put_message(&packet, STATS, &stats);
	put_message(&trace, 1, &packet);
}

static void put_two(void)
{
	put_defaults(&trace, 1, 6, 1, 0, 99);
	put_sample(&trace, &(struct test_sample){.sequence = 1, .flags = 2, .time = 1}, NULL);
}

static uint64_t count_of(const struct profile *p, enum trace_stat stat)
{
	for (size_t i = 0; i < p->n_counts; i++)
		if (p->counts[i].stat == (uint32_t)stat)
			return p->counts[i].value;
	return 0;
}

/* What is reported of the trace that was put together; it is let go. */
static void check(const char *expected, uint64_t cut, uint64_t missing)
{
	char error[200], printed[200] = "?";
	struct profile p;

	assert_int_equal(profile_parse(trace.data, trace.len, &p, error, sizeof(error)), 0);
	assert_int_equal(profile_end_text(&p, printed, sizeof(printed)), *expected != 0);
	assert_string_equal(printed, expected);
	assert_int_equal(count_of(&p, STAT_perfwind_end_missing), cut);
	assert_int_equal(count_of(&p, STAT_perfwind_packets_missing), missing);
	assert_int_equal(profile_is_damaged(&p), cut || missing || p.truncated_at);
	profile_deinit(&p);
	buffer_deinit(&trace);
}

static const char cut_by_1300[] = "ended without its end mark: up to about 1.3 s may be missing "
				  "(more if the file was cut or damaged later)";
static const char cut_unknown[] = "ended without its end mark: how much is missing is not known";

/* Of a tracing service, or of an older perfwind: no end was promised. */
static void test_others(void **state)
{
	(void)state;
	put_two();
	check("", 0, 0);
}

static void test_whole(void **state)
{
	struct profile p;
	char error[200];

	(void)state;
	put_begin(1300);
	put_two();
	put_end(2, false);
	check("", 0, 0);
	/* What a tool puts behind it, or in it, is not a loss. */
	put_begin(1300);
	put_two();
	put_two();
	put_end(2, false);
	put_two();
	check("", 0, 0);
	/* Without the first packet the second still counts. */
	put_two();
	put_end(2, false);
	check("", 0, 0);
	put_begin(0);
	put_two();
	put_end(2, true);
	assert_int_equal(profile_parse(trace.data, trace.len, &p, error, sizeof(error)), 0);
	assert_true(p.end.full);
	profile_deinit(&p);
	check("", 0, 0);
}

static void test_cut(void **state)
{
	(void)state;
	put_begin(1300);
	put_two();
	check(cut_by_1300, 1, 0);
	put_begin(0);
	put_two();
	check(cut_unknown, 1, 0);
	put_begin(1300);
	check(cut_by_1300, 1, 0);
	/* Within the end mark. */
	put_begin(1300);
	put_two();
	put_end(2, false);
	trace.len--;
	check(cut_by_1300, 1, 0);
}

/* A hole that ends where a packet begins, as a file system may leave it after a crash. */
static void test_hole(void **state)
{
	(void)state;
	put_begin(1300);
	put_two();
	put_end(1005, false);
	check("1,003 packets are missing: the end mark counts more", 0, 1003);
	put_two();
	put_end(3, false);
	check("1 packet is missing: the end mark counts more", 0, 1);
	put_end(UINT64_MAX, false);
	check("18,446,744,073,709,551,615 packets are missing: the end mark counts more", 0,
	      UINT64_MAX);
	put_end(UINT64_MAX, false);
	put_end(3, false);
	check("18,446,744,073,709,551,615 packets are missing: the end mark counts more", 0,
	      UINT64_MAX);
}

/* Files one behind the other: each for itself; the longest time is reported. */
static void test_several(void **state)
{
	(void)state;
	put_begin(1300);
	put_two();
	put_end(2, false);
	put_begin(500);
	put_two();
	put_end(2, false);
	check("", 0, 0);
	put_begin(1300);
	put_two();
	put_begin(500);
	put_two();
	put_end(2, false);
	check(cut_by_1300, 1, 0);
	put_begin(500);
	put_two();
	put_begin(1300);
	put_two();
	check(cut_by_1300, 2, 0);
	put_begin(500);
	put_two();
	put_begin(0);
	check(cut_unknown, 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup(t, set_up)
		EACH(test_others), EACH(test_whole),   EACH(test_cut),
		EACH(test_hole),   EACH(test_several),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
