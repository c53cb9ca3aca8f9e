/* test-control-summary.c - a daemon's words about a recording, as a summary: every number in its
 * place, and more than there is room for left out. */
#include <string.h>

#include "daemon/control/control-summary.h"
#include "tests/unit/cmocka.h"

#define SET(field, value) (m.has_##field = true, m.field = (value))

static void test_record(void **state)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	Pb__ControlSummary__Module one = PB__CONTROL_SUMMARY__MODULE__INIT, *list[] = {&one};
	uint64_t failed[UW_REASON_COUNT] = {0}, skipped[SKIP_COUNT] = {0};
	struct session_summary *s = calloc(1, sizeof(*s));
	static char path[] = "/lib/x.so", id[] = "00ff";

	(void)state;
	SET(duration_s, 1.5);
	SET(cpu_accounted, 0.25);
	SET(self_cpu_s, 0.125);
	SET(self_us_per_sample, 12);
	SET(self_peak_rss_kb, 1000);
	SET(user_only, true);
	SET(received, 21);
	SET(emitted, 20);
	SET(whole, 19);
	SET(cut, 18);
	SET(frames, 17);
	SET(lost_records, 16);
	SET(lost_sideband_records, 15);
	SET(throttled_ns, 14);
	SET(lost_samples, 13);
	SET(lost_sideband, 12);
	SET(lost_exact, true);
	failed[UW_REASON_COUNT - 1] = 11;
	skipped[SKIP_COUNT - 1] = 10;
	m.failed = failed;
	m.n_failed = UW_REASON_COUNT;
	m.skipped = skipped;
	m.n_skipped = SKIP_COUNT;
	one.path = path;
	one.build_id = id;
	one.samples = 9;
	m.without_symbols = list;
	m.n_without_symbols = 1;
	control_summary_read(&m, s);
	assert_true(s->duration_s == 1.5 && s->cpu_accounted == 0.25 && s->self_cpu_s == 0.125);
	assert_true(s->self_us_per_sample == 12 && s->user_only && s->counts.lost_exact);
	assert_int_equal(s->self_peak_rss_kb, 1000);
	assert_int_equal(s->account.received, 21);
	assert_int_equal(s->account.emitted, 20);
	assert_int_equal(s->account.whole, 19);
	assert_int_equal(s->account.cut, 18);
	assert_int_equal(s->account.frames, 17);
	assert_int_equal(s->account.lost_records, 16);
	assert_int_equal(s->account.lost_sideband_records, 15);
	assert_int_equal(s->account.throttled_ns, 14);
	assert_int_equal(s->counts.lost_samples, 13);
	assert_int_equal(s->counts.lost_sideband, 12);
	assert_int_equal(s->account.failed[UW_REASON_COUNT - 1], 11);
	assert_int_equal(s->account.skipped[SKIP_COUNT - 1], 10);
	assert_int_equal(s->n_unsymbolized, 1);
	assert_string_equal(s->unsymbolized[0].path, "/lib/x.so");
	assert_string_equal(s->unsymbolized[0].build_id, "00ff");
	assert_int_equal(s->unsymbolized[0].samples, 9);
	free(s);
}

static void test_too_much(void **state)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	Pb__ControlSummary__Module one = PB__CONTROL_SUMMARY__MODULE__INIT, *list[300];
	struct session_summary *s = calloc(1, sizeof(*s));
	uint64_t many[200];
	char path[2000];

	(void)state;
	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = 0;
	one.path = path;
	for (size_t i = 0; i < 300; i++)
		list[i] = &one;
	for (size_t i = 0; i < 200; i++)
		many[i] = 5;
	m.without_symbols = list;
	m.n_without_symbols = 300;
	m.failed = m.skipped = many;
	m.n_failed = m.n_skipped = 200;
	control_summary_read(&m, s);
	assert_int_equal(s->n_unsymbolized, ARRAY_SIZE(s->unsymbolized));
	assert_int_equal(strlen(s->unsymbolized[0].path), sizeof(s->unsymbolized[0].path) - 1);
	assert_string_equal(s->unsymbolized[0].build_id, ""); /* not told */
	assert_int_equal(s->account.failed[0], 5);
	assert_int_equal(s->account.skipped[SKIP_COUNT - 1], 5);
	free(s);
}

static void test_trace(void **state)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	struct trace_session_summary s;
	uint64_t skipped = 4;

	(void)state;
	SET(n_sources, 1);
	SET(duration_s, 2.5);
	SET(emitted, 3);
	SET(lost_samples, 5);
	SET(overwritten, 6);
	SET(discarded, 7);
	SET(full, true);
	control_summary_read_trace(&m, &s);
	assert_int_equal(s.skipped, 0); /* not told */
	m.skipped = &skipped;
	m.n_skipped = 1;
	control_summary_read_trace(&m, &s);
	assert_int_equal(s.n_sources, 1);
	assert_true(s.duration_s == 2.5 && s.full);
	assert_int_equal(s.samples, 3);
	assert_int_equal(s.skipped, 4);
	assert_int_equal(s.lost, 5);
	assert_int_equal(s.overwritten, 6);
	assert_int_equal(s.discarded, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
