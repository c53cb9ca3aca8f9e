/* test-control-summary.c - the summary of a recording in a daemon's message: every number in its place, and more
 * than there is room for left out; what is sent is what is read. */
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
	SET(code, FRAMES_USER);
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
	assert_true(s->self_us_per_sample == 12 && s->code == FRAMES_USER && s->counts.lost_exact);
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
	assert_string_equal(s->unsymbolized[0].build_id, ""); /* not in the message */
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
	assert_int_equal(s.skipped, 0); /* not in the message */
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

/* The message that is queued in @out. */
static Pb__ControlSummary *queued(struct control_stream *out)
{
	struct control_stream in = {.fd = -1, .max = CONTROL_REPLY_MAX, .in = out->out};
	const uint8_t *data;
	uint32_t type;
	size_t len;

	assert_int_equal(control_next(&in, &type, &data, &len), 0);
	assert_int_equal(type, CONTROL_DONE);
	return control_summary_unpack(data, len);
}

static void test_sent(void **state)
{
	struct session_summary *s = calloc(1, sizeof(*s)), *back = calloc(1, sizeof(*back));
	struct control_stream out = {.fd = -1};
	Pb__ControlSummary *m;

	(void)state;
	*s = (struct session_summary){
		.duration_s = 1.5,
		.cpu_accounted = 0.25,
		.self_cpu_s = 0.125,
		.self_us_per_sample = 12,
		.self_peak_rss_kb = 1000,
		.code = FRAMES_USER,
		.at_sample = true,
		.counts = {.lost_samples = 13, .lost_sideband = 12, .lost_exact = true},
		.account = {.received = 21,
			    .emitted = 20,
			    .whole = 19,
			    .by_fp = 5,
			    .completed = 4,
			    .lacks_functions = 9,
			    .lacks_at_start = 8,
			    .freed_functions = 22,
			    .cut = 18,
			    .too_deep = 8,
			    .switched = 6,
			    .page_absent = 3,
			    .frames = 17,
			    .lost_records = 16,
			    .lost_sideband_records = 15,
			    .throttled_ns = 14},
	};
	s->account.failed[0] = 11;
	s->account.skipped[SKIP_COUNT - 1] = 10;
	s->n_unsymbolized = ARRAY_SIZE(s->unsymbolized);
	for (size_t i = 0; i < s->n_unsymbolized; i++) {
		(void)snprintf(s->unsymbolized[i].path, sizeof(s->unsymbolized[i].path), "/%zu", i);
		s->unsymbolized[i].samples = 100 + i;
	}
	assert_int_equal(control_summary_send(&out, CONTROL_DONE, s, 7, 8), 0);
	m = queued(&out);
	assert_non_null(m);
	assert_int_equal(m->lost_packets, 7);
	assert_int_equal(m->stream_bytes, 8);
	control_summary_read(m, back);
	assert_true(back->n_unsymbolized > 0 && back->n_unsymbolized <= s->n_unsymbolized);
	/* The message names no more modules than it has room for. */
	memset(&s->unsymbolized[back->n_unsymbolized], 0,
	       (s->n_unsymbolized - back->n_unsymbolized) * sizeof(s->unsymbolized[0]));
	s->n_unsymbolized = back->n_unsymbolized;
	assert_memory_equal(&back->account, &s->account, sizeof(s->account));
	assert_memory_equal(back->unsymbolized, s->unsymbolized, sizeof(s->unsymbolized));
	assert_true(back->duration_s == 1.5 && back->cpu_accounted == 0.25 &&
		    back->self_cpu_s == 0.125 && back->self_us_per_sample == 12);
	assert_int_equal(back->self_peak_rss_kb, 1000);
	assert_true(back->code == FRAMES_USER && back->at_sample && back->counts.lost_exact);
	assert_int_equal(back->counts.lost_samples, 13);
	assert_int_equal(back->counts.lost_sideband, 12);
	pb__control_summary__free_unpacked(m, NULL);
	control_stream_deinit(&out);
	free(back);
	free(s);
}

static void test_trace_sent(void **state)
{
	const struct trace_session_summary s = {.n_sources = 1,
						.duration_s = 2.5,
						.samples = 3,
						.skipped = 4,
						.lost = 5,
						.overwritten = 6,
						.discarded = 7,
						.full = true};
	struct trace_session_summary back;
	struct control_stream out = {.fd = -1};
	Pb__ControlSummary *m;

	(void)state;
	assert_int_equal(control_summary_send_trace(&out, CONTROL_DONE, &s, 9), 0);
	m = queued(&out);
	assert_non_null(m);
	assert_int_equal(m->stream_bytes, 9);
	control_summary_read_trace(m, &back);
	assert_int_equal(back.n_sources, 1);
	assert_true(back.duration_s == 2.5 && back.full);
	assert_int_equal(back.samples, 3);
	assert_int_equal(back.skipped, 4);
	assert_int_equal(back.lost, 5);
	assert_int_equal(back.overwritten, 6);
	assert_int_equal(back.discarded, 7);
	pb__control_summary__free_unpacked(m, NULL);
	control_stream_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),	   cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_trace),	   cmocka_unit_test(test_sent),
		cmocka_unit_test(test_trace_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
