/* test-trace-check.c - which configs can be run without a tracing service, and with which words the
 * others are refused. */
#include "tests/unit/cmocka.h"

#include "tests/unit/tracing/check-fixture.h"

#include "tracing/trace-session.h"

#define GOOD "buffers { size_kb: 64 name: 'one' } data_sources { config { name: 'linux.perf' } } "

/* "": it can be run. */
static const char *check(const char *text)
{
	return checked(text, trace_check);
}

static void test_fields(void **state)
{
	(void)state;
	assert_string_equal(check(GOOD), "");
	/* fields for other services */
	assert_string_equal(check(GOOD "lockdown_mode: LOCKDOWN_CLEAR producers { } "
				       "enable_extra_guardrails: true bugreport_score: 3 "
				       "statsd_metadata { } trigger_config { } exclusive_prio: 1 "
				       "session_semaphores { name: 'x' }"),
			    "");
	assert_string_equal(check(GOOD "deferred_start: false"), "");
	assert_string_equal(check(GOOD "deferred_start: true"),
			    "deferred_start: it needs a unique_session_name, by which it is "
			    "started");
	assert_string_equal(check(GOOD "deferred_start: true unique_session_name: 'x'"), "");
	assert_string_equal(check(GOOD "deferred_start: true unique_session_name: 'x' "
				       "trigger_config { trigger_mode: STOP_TRACING }"),
			    "deferred_start: it excludes trigger_config");
	assert_string_equal(check(GOOD "trigger_config { trigger_mode: STOP_TRACING }"),
			    "trigger_config.trigger_timeout_ms: the wait for a trigger needs an "
			    "end");
	assert_string_equal(check(GOOD "activate_triggers: 'x'"),
			    "activate_triggers: triggers go to a tracing service, and there is "
			    "none here");
	assert_string_equal(check(GOOD "cmd_trace_start_delay { min_delay_ms: 1 }"),
			    "cmd_trace_start_delay: traces begin immediately here");
	assert_string_equal(check(GOOD "lockdown_mode: LOCKDOWN_SET"),
			    "lockdown_mode: there is no tracing service here to be locked");
	assert_string_equal(check(GOOD "trace_filter { }"),
			    "trace_filter: the trace would hold data that it excludes");
	assert_string_equal(check(GOOD "compression { zstd { } }"),
			    "compression.zstd: only deflate is written");
	assert_string_equal(check(GOOD "compression { deflate { } }"), "");
	assert_string_equal(check(GOOD "builtin_data_sources { primary_trace_clock: "
				       "BUILTIN_CLOCK_MONOTONIC }"),
			    "builtin_data_sources.primary_trace_clock: it is "
			    "BUILTIN_CLOCK_BOOTTIME here");
	assert_string_equal(check(GOOD "builtin_data_sources { primary_trace_clock: "
				       "BUILTIN_CLOCK_BOOTTIME }"),
			    "");
}

static void test_buffers(void **state)
{
	struct config *c;

	(void)state;
	assert_string_equal(check(""), "buffers: there are 0, and 1 to 128 are needed");
	assert_string_equal(check("buffers { }"), "buffers[0].size_kb: a buffer needs a size");
	assert_string_equal(check("buffers { size_kb: 4 name: 'x' } buffers { size_kb: 4 } "
				  "buffers { size_kb: 4 name: 'x' }"),
			    "buffers[2].name: buffers[0] is called 'x' too");
	(void)check("buffers { size_kb: 4294967295 } buffers { size_kb: 4294967295 } "
		    "buffers { size_kb: 4294967295 } buffers { size_kb: 4294967295 }");
	assert_non_null(strstr(error, ".size_kb: 4294967295 KiB: this machine has "));
	c = parse("buffers { size_kb: 4 }");
	c->message->buffers[0]->has_fill_policy = true;
	c->message->buffers[0]->fill_policy =
		(Pb__TraceConfig__BufferConfig__FillPolicy)7; /* of a later day */
	assert_int_equal(trace_check(c->message, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "buffers[0].fill_policy: there is no policy 7");
	(void)config_free(c);
}

static void test_targets(void **state)
{
	struct config *c = parse("buffers { size_kb: 4 name: 'first' } buffers { size_kb: 4 } "
				 "buffers { size_kb: 4 name: 'third' } "
				 "data_sources { } data_sources { config { target_buffer: 1 } } "
				 "data_sources { config { target_buffer_name: 'third' } } "
				 "data_sources { config { target_buffer: 2 "
				 "target_buffer_name: 'third' } } "
				 "data_sources { config { target_buffer: 1 "
				 "target_buffer_name: 'third' } } "
				 "data_sources { config { target_buffer_name: 'thrid' } } "
				 "data_sources { config { target_buffer: 3 } }");
	static const size_t expected[] = {0, 1, 2, 2};
	size_t buffer;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_int_equal(trace_check_target(c->message, i, &buffer, error, sizeof(error)),
				 0);
		assert_int_equal(buffer, expected[i]);
	}
	assert_int_equal(trace_check_target(c->message, 4, &buffer, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "data_sources[4].config.target_buffer: 1 is not the one of "
				   "target_buffer_name");
	assert_int_equal(trace_check_target(c->message, 5, &buffer, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "data_sources[5].config.target_buffer_name: no buffer is called "
				   "'thrid'; did you mean third?");
	assert_int_equal(trace_check_target(c->message, 6, &buffer, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "data_sources[6].config.target_buffer: 3: the config has 3 "
				   "(counted from 0)");
	(void)config_free(c);
}

static void test_sources(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"config { name: 'linux.perf' }", NULL},
		{"config { name: 'linux.ftrace' }", "only linux.perf is here"},
		{"config { name: 'linux.perf.x' }", "only linux.perf is here"},
		{"config { }", "only linux.perf is here"},
		{"", "only linux.perf is here"},
		{"config { name: 'linux.perf' } producer_name_filter: 'perfetto.traced_perf'",
		 NULL},
		{"config { name: 'linux.perf' } producer_name_filter: ['x', 'perfwind']", NULL},
		{"config { name: 'linux.perf' } producer_name_filter: 'x'",
		 "it is asked of another producer"},
		{"config { name: 'linux.perf' } producer_name_regex_filter: "
		 "'.*traced_(perf|probes)'",
		 NULL},
		{"config { name: 'linux.perf' } producer_name_regex_filter: 'perfetto'",
		 "it is asked of another producer"},
		{"config { name: 'linux.perf' } producer_name_regex_filter: '('",
		 "it is asked of another producer"},
		{"config { name: 'linux.perf' } producer_name_regex_filter: '(p{1000}){1000}'",
		 "it is asked of another producer"},
		{"config { name: 'linux.perf' } machine_name_filter: 'host'", NULL},
		{"config { name: 'linux.perf' } machine_name_filter: 'guest'",
		 "it is asked of another machine"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[512];
		struct config *c;
		const char *why;

		(void)snprintf(text, sizeof(text), "data_sources { %s }", cases[i].text);
		c = parse(text);
		assert_int_equal(trace_check_is_ours(c->message, 0, &why), !cases[i].why);
		if (cases[i].why)
			assert_string_equal(why, cases[i].why);
		(void)config_free(c);
	}
	assert_string_equal(check("buffers { size_kb: 4 } data_sources { config { name: 'x' } }"),
			    "data_sources: none is a linux.perf for this machine, so there is "
			    "nothing to record");
	/* a wrong buffer is reported for any source */
	assert_string_equal(check(GOOD "data_sources { config { name: 'x' target_buffer: 1 } }"),
			    "data_sources[1].config.target_buffer: 1: the config has 1 (counted "
			    "from 0)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_sources),
	};

	return cmocka_run_group_tests_name("trace-check", tests, NULL, NULL);
}
