/* test-statistics.c - a summary as named statistics: which names, which values, and which are left out. */
#include <string.h>

#include "session/statistics.h"
#include "tests/unit/cmocka.h"

static double value_of(const struct stats *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!strcmp(list->stats[i].name, name))
			return list->stats[i].value;
	}
	return -1000;
}

static void test_of(void **state)
{
	struct session_summary *s = calloc(1, sizeof(*s));
	struct stats *list = calloc(1, sizeof(*list));
	char name[64];

	(void)state;
	s->account.emitted = 100;
	s->account.whole = 90;
	s->account.cut = 7;
	s->account.failed[UW_REASON_COUNT - 1] = 3;
	s->account.skipped[SKIP_COUNT - 2] = 2;
	s->account.skipped[SKIP_THINNED] = 11;
	s->account.lost_records = 40;
	s->account.lost_sideband_records = 2;
	s->account.throttled_ns = 500000000;
	s->account.idle = 6;
	s->account.frames = 1200;
	s->account.guessed_frames = 9;
	s->account.lacks_functions = 14;
	s->account.lacks_at_start = 8;
	s->account.freed_functions = 15;
	s->n_unsymbolized = 3;
	strcpy(s->unsymbolized[0].path, UW_PYTHON_PATH);
	strcpy(s->unsymbolized[1].path, UW_JS_PATH);
	strcpy(s->unsymbolized[2].path, UW_RUBY_PATH);
	for (uint64_t i = 0; i < 3; i++)
		s->unsymbolized[i].samples = 100 + i;
	s->account.memory_reads[1] = 12;
	s->account.memory_reads[ACCOUNT_READS - 1] = 13;
	s->counts.lost_samples = 41;
	s->counts.lost_sideband = 3;
	s->counts.lost_exact = true;
	s->cpu_accounted = 0.5;
	s->duration_s = 2;
	stats_of(s, list);
	assert_true(value_of(list, "samples") == 100);
	assert_true(value_of(list, "stacks.whole") == 90);
	assert_true(value_of(list, "stacks.cut") == 7);
	(void)snprintf(name, sizeof(name), "stacks.failed.%s", uw_reason_name(UW_REASON_COUNT - 1));
	assert_true(value_of(list, name) == 3);
	(void)snprintf(name, sizeof(name), "stacks.failed.%s", uw_reason_name((enum uw_reason)0));
	assert_true(value_of(list, name) == -1000); /* none failed so */
	(void)snprintf(name, sizeof(name), "skipped.%s", skip_reason_name(SKIP_COUNT - 2));
	assert_true(value_of(list, name) == 2);
	assert_true(value_of(list, "thinned") == 11);
	assert_true(value_of(list, "skipped.thinned") == -1000);
	assert_true(value_of(list, "lost.samples") == 41);
	assert_true(value_of(list, "lost.sideband") == 3);
	assert_true(value_of(list, "lost.records_seen") == 42);
	assert_true(value_of(list, "lost.throttled_s") == 0.5);
	assert_true(value_of(list, "idle") == 6);
	assert_true(value_of(list, "cpu_accounted") == 0.5);
	assert_true(value_of(list, "duration_s") == 2);
	assert_true(value_of(list, "frames") == 1200);
	assert_true(value_of(list, "frames.guessed") == 9);
	assert_true(value_of(list, "stacks.lacking_functions") == 14);
	assert_true(value_of(list, "stacks.lacking_at_start") == 8);
	assert_true(value_of(list, "functions.freed") == 15);
	assert_true(value_of(list, "stacks.with_freed") == 202);
	assert_true(value_of(list, "memory_reads.below_50us") == -1000);
	assert_true(value_of(list, "memory_reads.below_100us") == 12);
	assert_true(value_of(list, "memory_reads.later") == 13);
	/* Without exact counts, the counts of the records; an unknown value is left out. */
	memset(list, 0, sizeof(*list));
	s->counts.lost_exact = false;
	s->cpu_accounted = -1;
	stats_of(s, list);
	assert_true(value_of(list, "lost.samples") == 40);
	assert_true(value_of(list, "cpu_accounted") == -1000);
	free(list);
	free(s);
}

/* What has no room is left out, a long name is cut. */
static void test_room(void **state)
{
	struct stats *list = calloc(1, sizeof(*list));

	(void)state;
	stats_add(list, 1, "%0100d", 7);
	assert_int_equal(strlen(list->stats[0].name), sizeof(list->names[0]) - 1);
	for (int i = 1; i < 100; i++)
		stats_add(list, i, "n%d", i);
	assert_int_equal(list->n, 80);
	assert_true(value_of(list, "n79") == 79);
	assert_true(value_of(list, "n80") == -1000);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
