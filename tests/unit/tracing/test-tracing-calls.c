/* test-tracing-calls.c - each allocation and system call with which a flight recorder, a buffer, the tables of tasks, or a trace
 * session is made fails once. */
#include <errno.h>

#include "perf/probe.h"
#include "tests/unit/fail-calls.h"
#include "tracing/recorder.h"
#include "tracing/system-counters.h"
#include "tracing/task-ends.h"
#include "tracing/task-polls.h"
#include "tracing/task-table.h"
#include "tracing/trace-buffer.h"
#include "tracing/trace-clones.h"
#include "tracing/trace-session.h"

static struct loop loop;

struct recorders {
	struct recorder *recorder;
	struct sink *in;
};
static int make_recorder(void *arg)
{
	const struct recorder_options options = {.bytes = RECORDER_BYTES_MIN,
						 .clock = CLOCK_MONOTONIC,
						 .tasks = true,
						 .polls = true};
	struct recorders *made = arg;
	int r = recorder_new(&options, &made->recorder, &made->in);

	if (r >= 0) {
		recorder_poll_tasks(made->recorder);
		r = recorder_begin(made->recorder, &loop);
		if (r < 0)
			(void)recorder_free(made->recorder);
	}
	return r;
}
static void end_recorder(void *arg)
{
	(void)recorder_free(((struct recorders *)arg)->recorder);
}

struct buffers {
	struct trace_buffer *buffer;
	struct sink *in;
};
static int make_buffer(void *arg)
{
	struct buffers *made = arg;
	int r = trace_buffer_new(&(struct trace_buffer_options){.size = 1 << 20}, &made->buffer);

	if (r >= 0) {
		r = trace_buffer_sink_new(made->buffer, 1, &made->in);
		if (r < 0)
			(void)trace_buffer_free(made->buffer);
	}
	return r;
}
static void end_buffer(void *arg)
{
	(void)sink_free(((struct buffers *)arg)->in);
	(void)trace_buffer_free(((struct buffers *)arg)->buffer);
}

struct tables {
	struct task_table *table;
	struct task_polls *polls;
};
static int make_tables(void *arg)
{
	struct tables *made = arg;
	int r = task_table_new("", &made->table);

	if (r >= 0) {
		r = task_polls_new(made->table, &made->polls);
		if (r < 0)
			(void)task_table_free(made->table);
	}
	return r;
}
static void end_tables(void *arg)
{
	(void)task_polls_free(((struct tables *)arg)->polls);
	(void)task_table_free(((struct tables *)arg)->table);
}

static int make_counters(void *arg)
{
	return system_counters_new("", arg);
}
static void end_counters(void *arg)
{
	(void)system_counters_free(*(struct system_counters **)arg);
}

static int make_clones(void *arg)
{
	static const struct trace_clone_calls calls;

	return trace_clones_new(&calls, &loop, arg);
}
static void end_clones(void *arg)
{
	(void)trace_clones_free(*(struct trace_clones **)arg);
}

static int make_ends(void *arg)
{
	static struct sink *to;

	return task_ends_new(&loop, &to, arg);
}
static void end_ends(void *arg)
{
	(void)task_ends_free(*(struct task_ends **)arg);
}

struct traces {
	struct trace_session_options options;
	struct trace_session *trace;
	char error[512];
};
/* One line states why. */
static int make_trace(void *arg)
{
	struct traces *made = arg;
	int r;

	made->error[0] = 0;
	r = trace_session_new(&made->options, &loop, &made->trace, made->error,
			      sizeof(made->error));
	if (r < 0 && !made->error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}
static void end_trace(void *arg)
{
	(void)trace_session_free(((struct traces *)arg)->trace);
}

static void test_parts(void **state)
{
	struct recorders recorders;
	struct buffers buffers;
	struct tables tables;
	struct system_counters *counters;
	struct trace_clones *clones;
	struct task_ends *ends;
	const struct calls_made of_ends = {"ends of tasks", make_ends, end_ends, &ends};
	const struct calls_made all[] = {
		{"recorder", make_recorder, end_recorder, &recorders},
		{"buffer", make_buffer, end_buffer, &buffers},
		{"tables", make_tables, end_tables, &tables},
		{"counters", make_counters, end_counters, &counters},
		{"clones", make_clones, end_clones, &clones},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	if (make_ends(&ends) >= 0) { /* CAP_NET_ADMIN, and a kernel with taskstats */
		end_ends(&ends);
		calls_sweep(&of_ends);
	}
}

static void test_session(void **state)
{
	static const char text[] =
		"buffers { size_kb: 256 } buffers { size_kb: 128 } "
		"data_sources { config { name: 'linux.perf' perf_event_config { timebase { "
		"counter: "
		"SW_CPU_CLOCK frequency: 200 } callstack_sampling { kernel_frames: true } } } } "
		"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 "
		"triggers { name: 'a' stop_delay_ms: 1 } }";
	struct traces traces = {.options = {.root = "", .tool = "test"}};
	const struct calls_made of = {"session", make_trace, end_trace, &traces};
	struct config *config;
	int r;

	(void)state;
	if (config_read("f", text, strlen(text), CONFIG_TEXT, &config, traces.error,
			sizeof(traces.error)) < 0)
		fail_msg("%s", traces.error);
	assert_int_equal(sink_memory_new(&traces.options.out), 0);
	traces.options.config = config;
	assert_int_equal(
		probe_features(&traces.options.features, traces.error, sizeof(traces.error)), 0);
	r = make_trace(&traces);
	if (r >= 0) {
		end_trace(&traces);
		calls_sweep(&of);
	}
	(void)sink_free(traces.options.out);
	(void)config_free(config);
	if (r < 0)
		print_message("%s\n", traces.error);
	if (r == -EACCES || r == -EPERM)
		skip();
	assert_true(r >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
					   cmocka_unit_test(test_session)};

	assert_int_equal(loop_init(&loop), 0);
	return cmocka_run_group_tests_name("tracing-calls", tests, NULL, NULL);
}
