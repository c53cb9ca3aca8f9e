/* test-trace-session.c - configs run over real events into memory: what is in the output, limits of
 * buffers and file, ends of every kind.  What is waited for is the trace session's own end. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/probe.h"
#include "tracing/trace-session.h"
#include "protos/trace.pb-c.h"

#define SOURCE                                                                        \
	"data_sources { config { name: 'linux.perf' perf_event_config { timebase { "  \
	"counter: SW_CPU_CLOCK frequency: 200 } callstack_sampling { kernel_frames: " \
	"true } } } } "
/* counters, of every CPU each 10 ms: they come whatever the machine does */
#define POLLED(extra)                                                               \
	"data_sources { config { name: 'linux.perf' " extra " perf_event_config { " \
	"timebase { counter: SW_PAGE_FAULTS poll_period_ms: 10 } } } } "

enum { SNAPSHOTS = 4 };

struct run {
	struct loop loop;
	struct config *config;
	struct sink *sink;
	struct trace_session *trace;
	Pb__Trace *packets;
	char error[512];
	int opened;
	int snapshots[SNAPSHOTS];
	struct trace_clone_result results[SNAPSHOTS];
	size_t n_opened, n_written;
};

/* The file of each snapshot is memory. */
static int open_snapshot(void *arg, char *name, size_t size)
{
	struct run *run = arg;
	int fd = memfd_create("snapshot", MFD_CLOEXEC);

	assert_true(fd >= 0 && run->n_opened < SNAPSHOTS);
	run->snapshots[run->n_opened] = dup(fd);
	(void)snprintf(name, size, "%zu", run->n_opened++);
	return fd;
}

static void on_snapshot(void *arg, const char *name, const struct trace_clone_result *result)
{
	struct run *run = arg;
	uint64_t n;

	assert_int_equal(result->error, 0);
	assert_int_equal(parse_u64(name, 10, run->n_opened - 1, &n), 0);
	run->results[n] = *result;
	run->n_written++;
}

static void open_config(struct run *run, const char *text, bool deflate)
{
	struct trace_session_options to = {.root = "",
					   .tool = "perfwind 7",
					   .open_snapshot = open_snapshot,
					   .snapshot = on_snapshot,
					   .snapshot_arg = run};

	*run = (struct run){0};
	if (config_read("f", text, strlen(text), CONFIG_TEXT, &run->config, run->error,
			sizeof(run->error)) < 0)
		fail_msg("%s", run->error);
	assert_int_equal(loop_init(&run->loop), 0);
	assert_int_equal(sink_memory_new(&run->sink), 0);
	if (deflate)
		assert_int_equal(sink_deflate_new(run->sink, &run->sink), 0);
	to.config = run->config;
	to.out = run->sink;
	to.deflated_out = deflate;
	assert_int_equal(probe_features(&to.features, run->error, sizeof(run->error)), 0);
	run->opened =
		trace_session_new(&to, &run->loop, &run->trace, run->error, sizeof(run->error));
	if (run->opened == -EACCES || run->opened == -EPERM) {
		print_message("%s\n", run->error);
		skip();
	}
}

static void run_to_end(struct run *run)
{
	assert_int_equal(run->opened, 0);
	assert_int_equal(trace_session_start(run->trace), 0);
	while (trace_session_state(run->trace) != TRACE_DONE)
		assert_int_equal(loop_run_once(&run->loop, -1), 0);
}

static void unpack(struct run *run)
{
	size_t len;
	const void *data = sink_memory_data(run->sink, &len);

	run->packets = pb__trace__unpack(NULL, len, data);
	assert_non_null(run->packets);
}

static void close_run(struct run *run)
{
	if (run->packets)
		pb__trace__free_unpacked(run->packets, NULL);
	(void)trace_session_free(run->trace);
	(void)sink_free(run->sink);
	(void)config_free(run->config);
	loop_deinit(&run->loop);
}

/* Samples on a sequence. */
static size_t count_samples(const struct run *run, uint32_t sequence)
{
	size_t n = 0;

	for (size_t i = 0; i < run->packets->n_packet; i++)
		n += run->packets->packet[i]->perf_sample &&
		     run->packets->packet[i]->trusted_packet_sequence_id == sequence;
	return n;
}

static size_t count_events(const struct run *run, Pb__TracingServiceEvent__EventTypeCase event)
{
	size_t n = 0;

	for (size_t i = 0; i < run->packets->n_packet; i++)
		n += run->packets->packet[i]->service_event &&
		     run->packets->packet[i]->service_event->event_type_case == event;
	return n;
}

static const Pb__TraceStats *stats_of(const struct run *run)
{
	const Pb__TracePacket *last = run->packets->packet[run->packets->n_packet - 1];

	assert_non_null(last->trace_stats);
	return last->trace_stats;
}

static void check_packets(const struct run *run)
{
	const Pb__Trace *t = run->packets;
	uint32_t first_seen = 0;

	/* the head, in its order */
	assert_true(t->n_packet > 5);
	assert_true(t->packet[0]->has_synchronization_marker);
	assert_non_null(t->packet[1]->clock_snapshot);
	assert_int_equal(t->packet[2]->trace_config.len, run->config->wire.len);
	assert_memory_equal(t->packet[2]->trace_config.data, run->config->wire.data,
			    run->config->wire.len);
	assert_non_null(t->packet[3]->trace_uuid);
	assert_string_equal(t->packet[4]->system_info->tracing_service_version, "perfwind 7");
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__TracePacket *p = t->packet[i];

		assert_true(p->has_trusted_uid);
		assert_int_equal(p->trusted_uid, getuid());
		assert_true(p->trusted_packet_sequence_id >= 1 &&
			    p->trusted_packet_sequence_id < 30);
		/* stated once for each sequence, by its first packet */
		assert_int_equal(p->first_packet_on_sequence,
				 !(first_seen >> p->trusted_packet_sequence_id & 1));
		first_seen |= 1u << p->trusted_packet_sequence_id;
		assert_true(i < 5 || !p->clock_snapshot || p->trusted_packet_sequence_id == 1);
	}
}

static void test_whole(void **state)
{
	struct trace_session_summary summary;
	const Pb__TraceStats *stats;
	struct run run;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 4096 } buffers { size_kb: 64 } " SOURCE POLLED(
			    "target_buffer: 1") "duration_ms: 300 flush_period_ms: 50",
		    false);
	run_to_end(&run);
	assert_int_equal(trace_session_error(run.trace, NULL), 0);
	unpack(&run);
	check_packets(&run);
	stats = stats_of(&run);
	assert_int_equal(stats->n_buffer_stats, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(stats->buffer_stats[i]->chunks_overwritten, 0);
		assert_int_equal(stats->buffer_stats[i]->chunks_read,
				 stats->buffer_stats[i]->chunks_written);
	}
	assert_int_equal(stats->buffer_stats[0]->buffer_size, 4096 << 10);
	assert_int_equal(stats->buffer_stats[1]->buffer_size, 64 << 10);
	assert_int_equal(stats->total_buffers, 2);
	assert_int_equal(stats->flushes_failed, 0);
	assert_true(stats->flushes_succeeded > 0);
	assert_int_equal(stats->final_flush_outcome,
			 PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_SUCCEEDED);
	assert_true(count_samples(&run, 3) > 0);
	assert_int_equal(count_events(&run, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_TRACING_STARTED),
			 1);
	assert_int_equal(count_events(&run, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_TRACING_DISABLED),
			 1);
	assert_int_equal(
		count_events(&run, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_ALL_DATA_SOURCES_FLUSHED),
		stats->flushes_succeeded);
	trace_session_summary(run.trace, &summary);
	assert_int_equal(summary.n_sources, 2);
	assert_false(summary.full);
	close_run(&run);
}

static void test_builtin_off(void **state)
{
	struct run run;

	(void)state;
	open_config(
		&run,
		"buffers { size_kb: 64 } " POLLED(
			"") "duration_ms: 20 "
			    "builtin_data_sources { disable_clock_snapshotting: true "
			    "disable_trace_config: true disable_system_info: true "
			    "disable_service_events: true } trace_uuid_msb: -7 trace_uuid_lsb: 8",
		false);
	run_to_end(&run);
	unpack(&run);
	for (size_t i = 0; i < run.packets->n_packet; i++) {
		const Pb__TracePacket *p = run.packets->packet[i];

		assert_false(p->clock_snapshot || p->has_trace_config || p->system_info ||
			     p->service_event);
	}
	assert_int_equal(run.packets->packet[1]->trace_uuid->msb, -7);
	assert_int_equal(run.packets->packet[1]->trace_uuid->lsb, 8);
	close_run(&run);
}

static void test_write_into_file(void **state)
{
	struct run run;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 64 } " POLLED(
			    "") "write_into_file: true "
				"file_write_period_ms: 1 duration_ms: 450 flush_period_ms: 1 "
				"incremental_state_config { clear_period_ms: 100 }",
		    false);
	run_to_end(&run);
	unpack(&run);
	check_packets(&run);
	/* at least each 100 ms, each behind a flush; and once at the end */
	assert_in_range(stats_of(&run)->flushes_requested, 2, 6);
	assert_true(
		count_events(&run,
			     PB__TRACING_SERVICE_EVENT__EVENT_TYPE_READ_TRACING_BUFFERS_COMPLETED) >
		1);
	close_run(&run);
}

static void test_clearing(void **state)
{
	struct run run;
	size_t begun = 0;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 1024 } " POLLED(
			    "") "duration_ms: 450 "
				"incremental_state_config { clear_period_ms: 100 }",
		    false);
	run_to_end(&run);
	unpack(&run);
	for (size_t i = 0; i < run.packets->n_packet; i++)
		begun += run.packets->packet[i]->sequence_flags & 1;
	assert_true(begun >= 3); /* at the start, and each 100 ms */
	close_run(&run);
}

static void test_discard(void **state)
{
	struct run run;
	const Pb__TraceStats__BufferStats *b;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 1 fill_policy: DISCARD } " POLLED("") POLLED("")
			    POLLED("") "duration_ms: 600",
		    false);
	run_to_end(&run);
	unpack(&run);
	b = stats_of(&run)->buffer_stats[0];
	assert_int_equal(b->buffer_size, 4096); /* a page at least */
	assert_true(b->chunks_discarded > 0);
	assert_int_equal(b->chunks_overwritten, 0);
	assert_int_equal(b->chunks_read, b->chunks_written);
	close_run(&run);
}

static void test_ring(void **state)
{
	struct run run;
	const Pb__TraceStats__BufferStats *b;
	bool dropped = false;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 4 fill_policy: RING_BUFFER } " POLLED("") POLLED("")
			    POLLED("") "duration_ms: 900",
		    false);
	run_to_end(&run);
	unpack(&run);
	b = stats_of(&run)->buffer_stats[0];
	assert_true(b->chunks_overwritten > 0);
	assert_int_equal(b->chunks_discarded, 0);
	assert_int_equal(b->chunks_read + b->chunks_overwritten, b->chunks_written);
	for (size_t i = 0; i < run.packets->n_packet; i++)
		dropped |= run.packets->packet[i]->previous_packet_dropped != 0;
	assert_true(dropped);
	close_run(&run);
}

static void check_full(const char *text, bool deflate, uint64_t max)
{
	struct trace_session_summary summary;
	struct run run;

	open_config(&run, text, deflate);
	run_to_end(&run);
	assert_int_equal(trace_session_error(run.trace, NULL), 0);
	trace_session_summary(run.trace, &summary);
	assert_true(summary.full);
	assert_true(run.sink->bytes <= max);
	assert_true(run.sink->bytes > max / 4);
	if (!deflate) {
		unpack(&run);
		check_packets(&run);
		(void)stats_of(&run);
	}
	close_run(&run);
}

static void test_full(void **state)
{
	(void)state;
	/* without its limit it would never end */
	check_full("buffers { size_kb: 256 } " POLLED("") POLLED("")
			   POLLED("") "write_into_file: true file_write_period_ms: 100 "
				      "max_file_size_bytes: 8000",
		   false, 8000);
	check_full("buffers { size_kb: 256 } " POLLED("") POLLED("")
			   POLLED("") "write_into_file: true file_write_period_ms: 100 "
				      "max_file_size_bytes: 8000",
		   true, 8000);
	/* read out once, at the end */
	check_full("buffers { size_kb: 256 } " POLLED("") POLLED("")
			   POLLED("") "duration_ms: 700 max_file_size_bytes: 3000",
		   false, 3000);
}

static void test_no_room(void **state)
{
	struct run run;
	const char *why;

	(void)state;
	open_config(&run, "buffers { size_kb: 256 } " POLLED("") "max_file_size_bytes: 100", false);
	assert_int_equal(run.opened, 0);
	assert_int_equal(trace_session_start(run.trace), -EFBIG);
	assert_int_equal(trace_session_error(run.trace, &why), -EFBIG);
	assert_memory_equal(why, "max_file_size_bytes: 100: a trace of this config without any",
			    60);
	assert_int_equal(run.sink->bytes, 0);
	close_run(&run);
}

/* A disk that takes so many bytes. */
struct small_disk {
	struct sink sink;
	uint64_t room;
};

static int small_write(struct sink *sink, const void *data, size_t len)
{
	struct small_disk *d = container_of(sink, struct small_disk, sink);

	(void)data;
	if (len > d->room - sink->bytes)
		return -ENOSPC;
	sink->bytes += len;
	return 0;
}

static int small_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static void test_disk_full(void **state)
{
	struct small_disk disk = {.sink = {.write = small_write, .flush = small_flush},
				  .room = 2000};
	struct trace_session_options to = {.root = "", .tool = "perfwind 7", .out = &disk.sink};
	static const char text[] = "buffers { size_kb: 256 } " POLLED("") POLLED("")
		POLLED("") "write_into_file: true file_write_period_ms: 100";
	struct run run = {0};
	const char *why;

	(void)state;
	assert_int_equal(config_read("f", text, strlen(text), CONFIG_TEXT, &run.config, run.error,
				     sizeof(run.error)),
			 0);
	to.config = run.config;
	assert_int_equal(loop_init(&run.loop), 0);
	assert_int_equal(probe_features(&to.features, run.error, sizeof(run.error)), 0);
	run.opened = trace_session_new(&to, &run.loop, &run.trace, run.error, sizeof(run.error));
	if (run.opened == -EACCES || run.opened == -EPERM)
		skip();
	run_to_end(&run); /* by itself */
	assert_int_equal(trace_session_error(run.trace, &why), -ENOSPC);
	assert_string_equal(why, "writing the trace: No space left on device");
	close_run(&run);
}

static void test_ends(void **state)
{
	struct run run;

	(void)state;
	/* never started */
	open_config(&run, "buffers { size_kb: 64 } " POLLED(""), false);
	assert_int_equal(trace_session_state(run.trace), TRACE_READY);
	trace_session_stop(run.trace);
	assert_int_equal(trace_session_state(run.trace), TRACE_DONE);
	close_run(&run);
	/* stopped twice, at once */
	open_config(&run, "buffers { size_kb: 64 } " SOURCE, false);
	assert_int_equal(trace_session_start(run.trace), 0);
	trace_session_stop(run.trace);
	trace_session_stop(run.trace);
	assert_int_equal(trace_session_state(run.trace), TRACE_STOPPING);
	while (trace_session_state(run.trace) != TRACE_DONE)
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	trace_session_stop(run.trace);
	unpack(&run);
	check_packets(&run);
	close_run(&run);
	/* freed while it runs, and while it stops */
	open_config(&run, "buffers { size_kb: 64 } " SOURCE, false);
	assert_int_equal(trace_session_start(run.trace), 0);
	close_run(&run);
	open_config(&run, "buffers { size_kb: 64 } " SOURCE, false);
	assert_int_equal(trace_session_start(run.trace), 0);
	trace_session_stop(run.trace);
	close_run(&run);
}

static void test_refused(void **state)
{
	struct run run;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 64 } data_sources { config { name: 'linux.perf' "
		    "perf_event_config { ring_buffer_pages: 3 } } }",
		    false);
	assert_int_equal(run.opened, -EINVAL);
	assert_string_equal(run.error,
			    "data_sources[0].config.perf_event_config.ring_buffer_pages: "
			    "3 is not a power of two");
	close_run(&run);
	/* a source for other machines is left out; alone it is an error */
	open_config(&run,
		    "buffers { size_kb: 64 } data_sources { config { name: 'linux.perf' "
		    "perf_event_config { target_cpu: 4294967295 } } }",
		    false);
	assert_int_equal(run.opened, -ENODEV);
	assert_string_equal(run.error, "data_sources: none can run on the CPUs of this machine");
	close_run(&run);
	open_config(&run,
		    "buffers { size_kb: 64 } data_sources { config { name: 'linux.perf' "
		    "perf_event_config { target_cpu: 4294967295 } } } " POLLED(""),
		    false);
	assert_int_equal(run.opened, 0);
	close_run(&run);
}

/* Its only source ends itself: so does the session, which has a duration like any other. */
static void test_guardrail(void **state)
{
	struct trace_session_summary summary;
	struct run run;
	size_t n = 0;

	(void)state;
	open_config(&run,
		    "buffers { size_kb: 4096 } data_sources { config { name: 'linux.perf' "
		    "perf_event_config { timebase { frequency: 200 } callstack_sampling { } "
		    "max_daemon_memory_kb: 1 } } }",
		    false);
	run_to_end(&run);
	trace_session_summary(run.trace, &summary);
	assert_true(summary.duration_s >= 0 && summary.duration_s < 3600);
	unpack(&run);
	for (size_t i = 0; i < run.packets->n_packet; i++)
		n += run.packets->packet[i]->perf_sample &&
		     run.packets->packet[i]->perf_sample->producer_event;
	assert_int_equal(n, 1);
	close_run(&run);
}

#define BUFFER "buffers { size_kb: 4096 } "
#define TRIGGERS(mode, timeout)                                                                   \
	"trigger_config { trigger_mode: " mode " trigger_timeout_ms: " timeout                    \
	" triggers { name: 'go' stop_delay_ms: 60 } triggers { name: 'no' skip_probability: 1 } " \
	"} "

static void expect_nothing(struct run *run)
{
	struct trace_session_summary summary;
	size_t len;

	assert_int_equal(trace_session_error(run->trace, NULL), 0);
	trace_session_summary(run->trace, &summary);
	assert_true(summary.untriggered);
	(void)sink_memory_data(run->sink, &len);
	assert_int_equal(len, 0);
	close_run(run);
}

/* No trigger until the timeout, or until the end by hand: not a byte is written. */
static void test_untriggered(void **state)
{
	struct run run;

	(void)state;
	open_config(&run, BUFFER POLLED("") TRIGGERS("STOP_TRACING", "60"), false);
	run_to_end(&run);
	expect_nothing(&run);
	open_config(&run, BUFFER POLLED("") TRIGGERS("START_TRACING", "60"), false);
	run_to_end(&run);
	assert_int_equal(trace_session_trigger(run.trace, "go", 7), TRIGGER_UNKNOWN); /* too late */
	expect_nothing(&run);
	open_config(&run, BUFFER POLLED("") TRIGGERS("START_TRACING", "100000"), false);
	assert_int_equal(trace_session_start(run.trace), 0);
	trace_session_stop(run.trace);
	assert_int_equal(trace_session_state(run.trace), TRACE_DONE);
	expect_nothing(&run);
}

static void run_triggered(const char *config, enum trace_session_state before)
{
	const Pb__TracePacket *trigger = NULL;
	struct run run;

	open_config(&run, config, false);
	assert_int_equal(run.opened, 0);
	assert_int_equal(trace_session_start(run.trace), 0);
	assert_int_equal(trace_session_state(run.trace), before);
	assert_int_equal(trace_session_trigger(run.trace, "no", 7), TRIGGER_SKIPPED);
	assert_int_equal(trace_session_trigger(run.trace, "og", 7), TRIGGER_UNKNOWN);
	assert_int_equal(trace_session_state(run.trace), before);
	assert_int_equal(trace_session_trigger(run.trace, "go", 7), TRIGGER_ACCEPTED);
	assert_int_equal(trace_session_state(run.trace), TRACE_RUNNING);
	while (trace_session_state(run.trace) != TRACE_DONE)
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	assert_int_equal(trace_session_error(run.trace, NULL), 0);
	unpack(&run);
	check_packets(&run);
	assert_true(count_samples(&run, 2) > 0);
	for (size_t i = 0; i < run.packets->n_packet; i++)
		if (run.packets->packet[i]->trigger) {
			assert_null(trigger);
			trigger = run.packets->packet[i];
		}
	assert_non_null(trigger);
	assert_string_equal(trigger->trigger->trigger_name, "go");
	assert_string_equal(trigger->trigger->producer_name, "perfwind");
	assert_int_equal(trigger->trigger->trusted_producer_uid, 7);
	assert_true(trigger->timestamp > 0);
	close_run(&run);
}

/* Reads the snapshot @i in place of the output. */
static void unpack_snapshot(struct run *run, size_t i)
{
	_cleanup_(freep) char *data = NULL;
	size_t len;

	if (run->packets)
		pb__trace__free_unpacked(run->packets, NULL);
	assert_true(lseek(run->snapshots[i], 0, SEEK_SET) == 0);
	assert_int_equal(read_fd(run->snapshots[i], 64 << 20, &data, &len), 0);
	assert_int_equal(len, run->results[i].bytes);
	run->packets = pb__trace__unpack(NULL, len, (const uint8_t *)data);
	assert_non_null(run->packets);
	(void)fd_close(run->snapshots[i]);
}

/* The packets behind the begin mark are a whole trace.  Returns the number of its triggers. */
static size_t check_snapshot(struct run *run, const char *name)
{
	const Pb__Trace *t = run->packets;
	size_t n = 0, clones = 0;

	assert_non_null(t->packet[0]->perfwind_stats->begin);
	assert_true(t->packet[1]->has_synchronization_marker);
	assert_true(t->packet[1]->first_packet_on_sequence);
	assert_non_null(t->packet[2]->clock_snapshot);
	assert_non_null(t->packet[t->n_packet - 2]->trace_stats);
	assert_int_equal(t->packet[t->n_packet - 1]->perfwind_stats->end->packets, t->n_packet - 2);
	assert_true(count_samples(run, 2) > 0);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__Trigger *made_for = t->packet[i]->clone_snapshot_trigger;

		n += t->packet[i]->trigger != NULL;
		clones += made_for && !strcmp(made_for->trigger_name, name);
	}
	assert_int_equal(clones, 1);
	return n;
}

/* Two triggers: the first one's snapshot is there while the session goes on, the second one's (which has both) is made at its end;
 * the output stays empty. */
static void test_cloned(void **state)
{
	struct trace_session_summary summary;
	Pb__TraceUuid first;
	struct run run;
	size_t len;

	(void)state;
	open_config(&run,
		    BUFFER POLLED("") "trigger_config { trigger_mode: CLONE_SNAPSHOT "
				      "trigger_timeout_ms: 1000000 triggers { name: 'soon' } "
				      "triggers { name: 'late' stop_delay_ms: 900000 } }",
		    false);
	assert_int_equal(run.opened, 0);
	assert_int_equal(trace_session_start(run.trace), 0);
	assert_int_equal(trace_session_state(run.trace), TRACE_RUNNING);
	for (summary.samples = 0; !summary.samples; trace_session_summary(run.trace, &summary))
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	assert_int_equal(trace_session_trigger(run.trace, "soon", 7), TRIGGER_ACCEPTED);
	while (!run.n_written)
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	assert_int_equal(trace_session_state(run.trace), TRACE_RUNNING);
	assert_int_equal(trace_session_trigger(run.trace, "late", 7), TRIGGER_ACCEPTED);
	trace_session_stop(run.trace);
	while (trace_session_state(run.trace) != TRACE_DONE)
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	assert_int_equal(run.n_written, 2);
	(void)sink_memory_data(run.sink, &len);
	assert_int_equal(len, 0);
	unpack_snapshot(&run, 0);
	assert_int_equal(check_snapshot(&run, "soon"), 1);
	first = *run.packets->packet[4]->trace_uuid;
	unpack_snapshot(&run, 1);
	assert_int_equal(check_snapshot(&run, "late"), 2);
	assert_true(first.msb != run.packets->packet[4]->trace_uuid->msb);
	close_run(&run);
}

static void test_triggered(void **state)
{
	(void)state;
	run_triggered(BUFFER POLLED("") TRIGGERS("STOP_TRACING", "100000"), TRACE_RUNNING);
	run_triggered(BUFFER POLLED("") TRIGGERS("START_TRACING", "100000"), TRACE_WAITING);
}

static void test_deferred(void **state)
{
	struct run run;

	(void)state;
	open_config(
		&run,
		BUFFER POLLED("") "deferred_start: true unique_session_name: 'x' duration_ms: 60",
		false);
	assert_int_equal(run.opened, 0);
	assert_int_equal(trace_session_start(run.trace), 0);
	assert_int_equal(trace_session_state(run.trace), TRACE_WAITING);
	assert_int_equal(trace_session_begin(run.trace), 0);
	assert_int_equal(trace_session_begin(run.trace), TRACE_BEGUN);
	while (trace_session_state(run.trace) != TRACE_DONE)
		assert_int_equal(loop_run_once(&run.loop, -1), 0);
	unpack(&run);
	assert_true(count_samples(&run, 2) > 0);
	close_run(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_builtin_off),
		cmocka_unit_test(test_write_into_file),
		cmocka_unit_test(test_clearing),
		cmocka_unit_test(test_discard),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_guardrail),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_untriggered),
		cmocka_unit_test(test_triggered),
		cmocka_unit_test(test_cloned),
		cmocka_unit_test(test_deferred),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests_name("trace-session", tests, NULL, NULL);
}
