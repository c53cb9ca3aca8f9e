/* test-profile-follower.c - counts that come with the samples: sums over CPUs, or threads, of counts that
 * run since a group was opened. */
#include "profile/profile.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

static struct profile profile;
static struct buffer trace;

static int set_up(void **state)
{
	(void)state;
	trace = (struct buffer){0};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	profile_deinit(&profile);
	return 0;
}

/* Defaults of @sequence: cpu-clock with two followers, page faults of users and a tracepoint by the name
 * "mine"; with @lone only the first. */
static void put_group(uint32_t sequence, bool lone)
{
	struct buffer packet = {0}, defaults = {0}, sample = {0}, timebase = {0}, follower = {0},
		      tracepoint = {0};

	put_number(&timebase, 2, 99);
	put_number(&timebase, 4, 1);
	put_message(&sample, 1, &timebase);
	put_number(&follower, 1, 2); /* SW_PAGE_FAULTS */
	put_number(&follower, 5, 1); /* COUNT_USERSPACE */
	put_message(&sample, 4, &follower);
	if (!lone) {
		put_text(&tracepoint, 1, "sched:sched_switch");
		put_message(&follower, 2, &tracepoint);
		put_text(&follower, 4, "mine");
		put_message(&sample, 4, &follower);
	}
	put_number(&defaults, 58, 6);
	put_message(&defaults, 12, &sample);
	put_number(&packet, 10, sequence);
	put_number(&packet, 13, 1);
	put_message(&packet, 59, &defaults);
	put_message(&trace, 1, &packet);
}

static void put_counts(uint32_t sequence, uint64_t time, uint32_t cpu, uint32_t tid, uint64_t first,
		       uint64_t second)
{
	struct buffer packet = {0}, sample = {0};

	put_number(&packet, 8, time);
	put_number(&packet, 10, sequence);
	put_number(&packet, 13, 2);
	put_number(&sample, 1, cpu);
	put_number(&sample, 2, 7);
	put_number(&sample, 3, tid);
	put_number(&sample, 6, time);
	put_number(&sample, 7, first);
	put_number(&sample, 7, second);
	put_message(&packet, 66, &sample);
	put_message(&trace, 1, &packet);
}

static void put_stat(const char *name, double value)
{
	struct buffer packet = {0}, stats = {0}, stat = {0};

	put_text(&stat, 1, name);
	buffer_varint(&stat, 2 << 3 | 1);
	buffer_append(&stat, &value, sizeof(value));
	put_message(&stats, 1, &stat);
	put_number(&packet, 10, 1);
	put_message(&packet, 60001, &stats);
	put_message(&trace, 1, &packet);
}

static void read_all(void)
{
	char error[256];

	assert_int_equal(profile_parse(trace.data, trace.len, &profile, error, sizeof(error)), 0);
	buffer_deinit(&trace);
}

static void assert_follower(size_t i, const char *name, uint64_t count)
{
	assert_true(i < profile.n_followers);
	assert_string_equal(string_table_text(&profile.strings, profile.followers[i].name), name);
	assert_int_equal(profile.followers[i].count, count);
}

/* Each CPU counts for itself; the thread that ran there does not matter.  The file's order is not the time's. */
static void test_cpus(void **state)
{
	(void)state;
	put_group(1, false);
	put_counts(1, 1000, 0, 7, 5, 100);
	put_counts(1, 3000, 0, 7, 9, 130);
	put_counts(1, 2000, 0, 8, 6, 110);
	put_counts(1, 2500, 1, 8, 1000, 0);
	put_counts(1, 4000, 1, 7, 1002, 1);
	read_all();
	assert_int_equal(profile.n_followers, 2);
	assert_follower(0, "page-faults:u", 9 + 1002);
	assert_follower(1, "mine", 130 + 1);
}

/* A group that was opened again (another size of copies) begins at 0. */
static void test_restarted(void **state)
{
	(void)state;
	put_group(1, false);
	put_counts(1, 1000, 0, 7, 50, 5);
	put_counts(1, 2000, 0, 7, 3, 7);
	put_counts(1, 3000, 0, 7, 4, 8);
	read_all();
	assert_follower(0, "page-faults:u", 50 + 3 + 1);
	assert_follower(1, "mine", 5 + 2 + 1);
}

/* Where threads are sampled each thread counts for itself, on each CPU. */
static void test_threads(void **state)
{
	(void)state;
	put_group(1, false);
	put_counts(1, 1000, 0, 7, 500, 1);
	put_counts(1, 2000, 0, 8, 10, 1);
	put_counts(1, 3000, 0, 7, 501, 2);
	put_counts(1, 4000, 0, 8, 20, 2);
	put_counts(1, 5000, 1, 8, 3, 3);
	put_stat("followers.by_thread", 1);
	read_all();
	assert_follower(0, "page-faults:u", 501 + 20 + 3);
	assert_follower(1, "mine", 2 + 2 + 3);
}

/* Two sequences of one event, as of two producers: their sums add up. */
static void test_sequences(void **state)
{
	(void)state;
	put_group(1, false);
	put_group(2, false);
	put_counts(1, 1000, 0, 7, 5, 1);
	put_counts(2, 1500, 0, 7, 100, 2);
	put_counts(1, 2000, 0, 7, 6, 3);
	put_counts(2, 2500, 0, 7, 101, 4);
	read_all();
	assert_int_equal(profile.n_followers, 2);
	assert_follower(0, "page-faults:u", 6 + 101);
	assert_follower(1, "mine", 3 + 4);
}

/* Samples with more counts than followers were announced, and none at all. */
static void test_more_than_announced(void **state)
{
	(void)state;
	put_group(1, true);
	put_counts(1, 1000, 0, 7, 5, 99);
	read_all();
	assert_int_equal(profile.n_followers, 1);
	assert_follower(0, "page-faults:u", 5);
	profile_deinit(&profile);
	put_defaults(&trace, 1, 6, 1, 0, 99);
	put_counts(1, 1000, 0, 7, 5, 99);
	read_all();
	assert_int_equal(profile.n_followers, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_cpus),      EACH(test_restarted),	      EACH(test_threads),
		EACH(test_sequences), EACH(test_more_than_announced),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
