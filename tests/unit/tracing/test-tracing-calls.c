/* test-tracing-calls.c - each allocation and system call with which a flight recorder, a buffer, the tables of tasks, a snapshot or a
 * trace session is made, or started, fails once. */
#include <errno.h>
#include <sys/wait.h>
#include <time.h>

#include "perf/probe.h"
#include "tests/unit/fail-calls.h"
#include "tracing/recorder.h"
#include "tracing/service-packets.h"
#include "tracing/system-counters.h"
#include "tracing/task-ends.h"
#include "tracing/task-table.h"
#include "tracing/trace-buffer.h"
#include "tracing/trace-clones.h"
#include "tracing/trace-session.h"
#include "tracing/triggers.h"

static struct loop loop;

static void end_nothing(void *arg)
{
	(void)arg;
}

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

/* What a service adds, and a packet out of the buffer. */
static int put_out(struct buffers *made, struct service *service, struct buffer *packets)
{
	static const uint8_t packet[] = {10, 2, 8, 1};
	const struct buffer config = {0};
	const struct trace_buffer *list[] = {made->buffer};
	const struct service_writer writer = {1, 0};
	const struct service_totals totals = {
		.buffers = list, .n_buffers = 1, .writers = &writer, .n_writers = 1};
	int r = service_marker(service, packets);

	if (r >= 0)
		r = service_clocks(service, packets);
	if (r >= 0)
		r = service_config(service, &config, packets);
	if (r >= 0)
		r = service_uuid(service, NULL, packets);
	if (r >= 0)
		r = service_system_info(service, packets);
	if (r >= 0)
		r = service_stats(service, &totals, packets);
	return r < 0 ? r : made->in->write(made->in, packet, sizeof(packet));
}

static int make_output(void *arg)
{
	struct service service = {.tool = "test"};
	struct buffer packets = {0};
	struct sink_count count = {0};
	struct buffers *made = arg;
	struct sink *out = NULL;
	int r = make_buffer(made);

	if (r < 0)
		return r;
	r = put_out(made, &service, &packets);
	if (r >= 0)
		r = sink_memory_new(&out);
	if (r >= 0)
		r = trace_buffer_read(made->buffer, out, UINT64_MAX);
	if (r >= 0) {
		size_t len;
		const void *data = sink_memory_data(out, &len);

		sink_count_add(&count, packets.data, packets.len);
		sink_count_add(&count, data, len);
		assert_int_equal(count.packets, 7);
	}
	(void)sink_free(out);
	buffer_deinit(&packets);
	(void)sink_free(made->in);
	(void)trace_buffer_free(made->buffer);
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

static int make_triggers(void *arg)
{
	static Pb__TraceConfig__TriggerConfig__Trigger one, other;
	Pb__TraceConfig__TriggerConfig__Trigger *list[] = {&one, &other};
	Pb__TraceConfig__TriggerConfig config = PB__TRACE_CONFIG__TRIGGER_CONFIG__INIT;

	pb__trace_config__trigger_config__trigger__init(&one);
	pb__trace_config__trigger_config__trigger__init(&other);
	one.max_per_24_h = other.max_per_24_h = 3;
	config.triggers = list;
	config.n_triggers = ARRAY_SIZE(list);
	return triggers_new(&config, arg);
}
static void end_triggers(void *arg)
{
	(void)triggers_free(*(struct triggers **)arg);
}

/* One snapshot, of a process of its own. */
static int snapshot_error; /* > 0: not there yet */

static int snapshot_flush(void *arg)
{
	(void)arg;
	return 0;
}
static int snapshot_open(void *arg, char *name, size_t size)
{
	int fd = memfd_create("snapshot", MFD_CLOEXEC);

	(void)arg;
	(void)snprintf(name, size, "a snapshot");
	return fd < 0 ? -errno : fd;
}
static int snapshot_write(void *arg, const struct trace_clone_trigger *trigger, int fd,
			  struct trace_clone_result *ret_result)
{
	(void)arg, (void)trigger;
	ret_result->bytes = 3;
	return write(fd, "abc", 3) == 3 ? 0 : -errno;
}
static void snapshot_written(void *arg, const char *name, const struct trace_clone_result *result)
{
	(void)arg, (void)name;
	assert_true(result->error < 0 || result->bytes == 3);
	snapshot_error = result->error;
}

static int make_snapshot(void *arg)
{
	static const struct trace_clone_calls calls = {snapshot_flush, snapshot_open,
						       snapshot_write, snapshot_written, NULL};
	struct trace_clones *clones;
	int r = trace_clones_new(&calls, &loop, &clones);

	(void)arg;
	if (r < 0)
		return r;
	snapshot_error = 1;
	r = trace_clones_add(clones, &(struct trace_clone_trigger){.name = "a"}, 0);
	if (r >= 0)
		trace_clones_finish(clones);
	for (int i = 0; r >= 0 && snapshot_error > 0 && i < 1000; i++)
		r = loop_run_once(&loop, 10);
	if (r >= 0)
		r = snapshot_error;
	assert_true(r <= 0 && (snapshot_error > 0 || !trace_clones_pending(clones)));
	(void)trace_clones_free(clones);
	while (waitpid(-1, NULL, 0) > 0) /* a process that was slow to end; it ends */
		;
	return r;
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
	struct triggers *triggers;
	struct task_ends *ends;
	const struct calls_made of_ends = {"ends of tasks", make_ends, end_ends, &ends};
	const struct calls_made all[] = {
		{"recorder", make_recorder, end_recorder, &recorders},
		{"buffer", make_buffer, end_buffer, &buffers},
		{"output", make_output, end_nothing, &buffers},
		{"tables", make_tables, end_tables, &tables},
		{"counters", make_counters, end_counters, &counters},
		{"clones", make_clones, end_clones, &clones},
		{"triggers", make_triggers, end_triggers, &triggers},
		{"snapshot", make_snapshot, end_nothing, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	if (make_ends(&ends) >= 0) { /* CAP_NET_ADMIN, and a kernel with taskstats */
		end_ends(&ends);
		calls_sweep(&of_ends);
	}
}

/* Only what the start calls fails.  A session that fails has a reason, and ends. */
static int start_trace(void *arg)
{
	struct traces *made = arg;
	unsigned long n = calls_fail_at;
	const char *why = "";
	uint64_t until;
	int r;

	calls_fail_at = 0;
	sink_memory_clear(made->options.out);
	assert_true(make_trace(made) >= 0);
	calls_fail_at = n;
	r = trace_session_start(made->trace);
	if (r >= 0 && trace_session_state(made->trace) == TRACE_WAITING)
		r = trace_session_begin(made->trace);
	if (r >= 0)
		r = trace_session_error(made->trace, &why);
	calls_fail_at = 0;
	if (r >= 0)
		assert_int_equal(trace_session_state(made->trace), TRACE_RUNNING);
	/* It comes to its end. */
	trace_session_stop(made->trace);
	for (until = clock_ns(CLOCK_MONOTONIC) + 4 * NSEC_PER_SEC;
	     trace_session_state(made->trace) == TRACE_STOPPING;)
		if (clock_ns(CLOCK_MONOTONIC) > until || loop_run_once(&loop, 20) < 0)
			fail_msg("call %lu: it does not end", n);
	assert_int_equal(trace_session_state(made->trace), TRACE_DONE);
	end_trace(made);
	calls_fail_at = n;
	return r;
}

static const char sources[] =
	"buffers { size_kb: 256 } buffers { size_kb: 128 } "
	"data_sources { config { name: 'linux.perf' perf_event_config { timebase { counter: "
	"SW_CPU_CLOCK frequency: 200 } callstack_sampling { kernel_frames: true } } } } ";

/* false: events of CPUs are not permitted. */
static bool sweep(const char *more, const char *name, int (*make)(void *arg),
		  void (*end)(void *arg))
{
	struct traces traces = {.options = {.root = "", .tool = "test"}};
	const struct calls_made of = {name, make, end, &traces};
	char text[1024];
	struct config *config;
	int r;

	(void)snprintf(text, sizeof(text), "%s%s", sources, more);
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
	assert_true(r >= 0 || r == -EACCES || r == -EPERM);
	return r >= 0;
}

static void test_session(void **state)
{
	(void)state;
	if (!sweep("trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 "
		   "triggers { name: 'a' stop_delay_ms: 1 } }",
		   "session", make_trace, end_trace))
		skip();
}

static void test_start(void **state)
{
	(void)state;
	if (!sweep("duration_ms: 10000 write_into_file: true", "start", start_trace, end_nothing) ||
	    !sweep("unique_session_name: 'a' deferred_start: true", "deferred", start_trace,
		   end_nothing))
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
					   cmocka_unit_test(test_session),
					   cmocka_unit_test(test_start)};

	assert_int_equal(loop_init(&loop), 0);
	return cmocka_run_group_tests_name("tracing-calls", tests, NULL, NULL);
}
