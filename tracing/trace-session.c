/* trace-session.c - see trace-session.h: the data sources of one config, from the first to the
 * last packet, and their output.
 *
 * Every period ends in session calls and in answers to them: a flush is asked of each data source and is done when all have
 * answered or flush_timeout_ms is over.  A write into the file comes behind a flush, if the config wants that. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "config/perf-config.h"
#include "trace/file-mark.h"
#include "tracing/service-packets.h"
#include "tracing/trace-buffer.h"
#include "tracing/trace-clones.h"
#include "tracing/trace-session.h"

/* One linux.perf of the config. */
struct trace_source {
	struct trace_session *trace;
	size_t index; /* in config.data_sources */
	struct perf_config *config;
	uint32_t sequence; /* of its packets */
	size_t buffer;
	struct sink *sink; /* into its buffer; the buffer's */
	struct session *session;
	uint32_t flushes; /* of its session, not yet answered */
	bool done;
};

enum trace_timer_kind {
	TRACE_TIMER_DURATION,
	TRACE_TIMER_WRITE,
	TRACE_TIMER_FLUSH,
	TRACE_TIMER_FLUSH_WAIT,
	TRACE_TIMER_CLEAR,
	TRACE_TIMER_CLOCKS,
	TRACE_TIMER_STOP_WAIT,
	TRACE_TIMERS
};

struct trace_timer {
	struct loop_timer timer;
	struct trace_session *trace;
};

struct trace_session {
	struct trace_session_options options;
	const Pb__TraceConfig *config;
	struct loop *loop;
	enum trace_session_state state;
	int error;
	char why[320];

	struct trace_buffer **buffers;
	size_t n_buffers;
	struct trace_source *sources;
	size_t n_sources;
	struct perf_config_share share;
	struct trace_timer timers[TRACE_TIMERS];
	uint64_t started_at, stopped_at; /* CLOCK_MONOTONIC */
	uint64_t ends_at;	     /* CLOCK_BOOTTIME, when the duration counts suspend; or 0 */
	uint64_t end_ms;	     /* from arm_duration() to the end; 0: no end */
	struct triggers *triggers;   /* NULL: the config has none */
	struct trace_clones *clones; /* NULL: a trigger makes no snapshot */
	bool finished;	 /* all packets are in the buffers; snapshots may still be written */
	size_t n_clones; /* snapshots that were written */

	bool flushing, write_wanted; /* the latter: when the flush under way is done */
	bool late;		     /* a data source did not end in time */
	uint64_t flushes_requested, flushes_succeeded, flushes_failed;

	/* the output */
	struct service service;
	struct buffer packets; /* the service's, not yet written to the output */
	uint64_t max_bytes;    /* UINT64_MAX: no limit */
	bool full;
	bool held;	 /* no trigger yet: nothing goes to the output */
	size_t head_len; /* of @packets, while it is held */
};

/* Ends the trace session.  The first failure is the one that is reported. */
static void session_failed(struct trace_session *t, int r, const char *what)
{
	if (!t->error) {
		t->error = r;
		(void)snprintf(t->why, sizeof(t->why), "%s: %s", what, strerror(-r));
	}
	trace_session_stop(t);
}

static int arm(struct trace_session *t, enum trace_timer_kind kind, uint64_t first_ms,
	       uint64_t period_ms)
{
	return loop_timer_set(&t->timers[kind].timer, first_ms * NSEC_PER_MSEC,
			      period_ms * NSEC_PER_MSEC);
}

/* ---- the output ----
 *
 *   marker, clocks, config, uuid, machine       output_begin()
 *   [ events, clocks, packets of each buffer ]  output_read(), once or at each write period
 *   statistics                                  output_end()
 *
 * max_file_size_bytes is never exceeded.  The packets at the end are small and their size is known, so room for them is
 * reserved from the beginning; so is the room of the end marks, which the output's owner writes. */

enum {
	END_BYTES = 512,	/* statistics without the buffers' part, and two events */
	END_BUFFER_BYTES = 160, /* of one buffer in them */
	END_SOURCE_BYTES = 20,	/* of one data source */
	SLICE_MIN = 4096,	/* less room than this is not filled by another try */
	PENDING_MAX = 1 << 20,	/* events and clocks that wait for the output */
};

/* A sink that counts what it is given, where the one behind it counts what it has written. */
struct meter {
	struct sink sink;
	struct sink *to;
};

static int meter_write(struct sink *sink, const void *data, size_t len)
{
	struct meter *m = container_of(sink, struct meter, sink);
	int r = m->to->write(m->to, data, len);

	if (r < 0)
		return trace(r);
	sink->bytes += len;
	return 0;
}

/* The service's own packets to the output. */
static int put_out(struct trace_session *t)
{
	int r = 0;

	if (t->packets.len)
		r = t->options.out->write(t->options.out, t->packets.data, t->packets.len);
	t->packets.len = 0;
	return r < 0 ? trace(r) : 0;
}

/* A packet of the service that could not be made for lack of memory ends the session. */
static int output_event(struct trace_session *t, Pb__TracingServiceEvent__EventTypeCase event)
{
	const Pb__TraceConfig__BuiltinDataSource *b = t->config->builtin_data_sources;

	if ((b && b->disable_service_events) || t->packets.len > PENDING_MAX)
		return 0;
	return service_event(&t->service, event, &t->packets);
}

static int output_clocks(struct trace_session *t)
{
	const Pb__TraceConfig__BuiltinDataSource *b = t->config->builtin_data_sources;

	if ((b && b->disable_clock_snapshotting) || t->packets.len > PENDING_MAX)
		return 0;
	return service_clocks(&t->service, &t->packets);
}

static int check_limit(struct trace_session *t)
{
	uint64_t max = t->config->max_file_size_bytes, head = t->packets.len,
		 kept = END_BYTES + END_BUFFER_BYTES * t->n_buffers +
			END_SOURCE_BYTES * t->n_sources + FILE_MARK_BYTES;

	t->max_bytes = UINT64_MAX;
	if (!max)
		return 0;
	if (max < head + kept) {
		(void)snprintf(t->why, sizeof(t->why),
			       "max_file_size_bytes: %llu: a trace of this config without any "
			       "sample takes %llu",
			       (unsigned long long)max, (unsigned long long)(head + kept));
		t->error = fail(-EFBIG);
		return t->error;
	}
	t->max_bytes = max - kept;
	return 0;
}

/* @uuid: NULL: a random one. */
static int put_head(struct trace_session *t, const int64_t uuid[2])
{
	const Pb__TraceConfig__BuiltinDataSource *b = t->config->builtin_data_sources;
	int r = service_marker(&t->service, &t->packets);

	if (r >= 0)
		r = output_clocks(t);
	if (r >= 0 && !(b && b->disable_trace_config))
		r = service_config(&t->service, &t->options.config->wire, &t->packets);
	if (r >= 0)
		r = service_uuid(&t->service, uuid, &t->packets);
	if (r >= 0 && !(b && b->disable_system_info))
		r = service_system_info(&t->service, &t->packets);
	return r < 0 ? trace(r) : 0;
}

static int flush_out(struct trace_session *t)
{
	int r = put_out(t);

	if (r >= 0)
		r = t->options.out->flush(t->options.out);
	return r < 0 ? trace(r) : 0;
}

static int output_begin(struct trace_session *t)
{
	const int64_t uuid[] = {t->config->trace_uuid_msb, t->config->trace_uuid_lsb};
	int r = put_head(t, uuid[0] || uuid[1] ? uuid : NULL);

	if (r >= 0)
		r = check_limit(t);
	t->head_len = t->packets.len;
	if (r >= 0 && !t->held)
		r = flush_out(t);
	return r < 0 ? trace(r) : 0;
}

/* The first trigger: what was held goes out, without the events and clocks for which there is no room. */
static int output_release(struct trace_session *t)
{
	t->held = false;
	if (t->packets.len > t->max_bytes)
		t->packets.len = t->head_len;
	return flush_out(t);
}

/* How much has been written; a sink that compresses knows it only behind a flush. */
static int count_out(struct trace_session *t, uint64_t *ret_bytes)
{
	int r = 0;

	if (t->options.deflated_out && t->max_bytes != UINT64_MAX)
		r = t->options.out->flush(t->options.out);
	*ret_bytes = t->options.out->bytes;
	return r < 0 ? trace(r) : 0;
}

/* As much of one buffer as there is room for.  Compressed, it takes less room than it was counted
 * for: what that leaves is filled again, each time with less. */
static int read_buffer(struct trace_session *t, struct trace_buffer *buffer)
{
	struct meter m = {.sink = {.write = meter_write}, .to = t->options.out};
	uint64_t before, after;
	int r;

	do {
		r = count_out(t, &before);
		if (r < 0)
			return trace(r);
		m.sink.bytes = before;
		r = trace_buffer_read(buffer, &m.sink, t->max_bytes);
		if (r != TRACE_BUFFER_MORE)
			return r < 0 ? trace(r) : 0;
		r = count_out(t, &after);
		if (r < 0)
			return trace(r);
	} while (after > before && after < m.sink.bytes && t->max_bytes - after > SLICE_MIN);
	t->full = true;
	return 0;
}

/* Moves what is in the buffers to the output; then the trace may be full. */
static int output_read(struct trace_session *t)
{
	uint64_t bytes;
	int r = 0;

	if (t->full)
		return 0;
	r = count_out(t, &bytes);
	if (r >= 0 && bytes + t->packets.len > t->max_bytes) {
		t->full = true;
		return 0;
	}
	if (r >= 0)
		r = put_out(t);
	for (size_t i = 0; r >= 0 && !t->full && i < t->n_buffers; i++)
		r = read_buffer(t, t->buffers[i]);
	if (r >= 0)
		r = t->options.out->flush(t->options.out);
	if (r >= 0 && !t->full)
		r = output_event(
			t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_READ_TRACING_BUFFERS_COMPLETED);
	return r < 0 ? trace(r) : 0;
}

static int put_stats(struct trace_session *t)
{
	_cleanup_(freep) struct service_writer *writers = calloc(t->n_sources, sizeof(*writers));
	const struct service_totals totals = {
		.buffers = (const struct trace_buffer *const *)t->buffers,
		.n_buffers = t->n_buffers,
		.writers = writers,
		.n_writers = t->n_sources,
		.flushes_requested = t->flushes_requested,
		.flushes_succeeded = t->flushes_succeeded,
		.flushes_failed = t->flushes_failed,
		.late = t->late,
	};

	if (!writers)
		return fail(-ENOMEM);
	for (size_t i = 0; i < t->n_sources; i++)
		writers[i] = (struct service_writer){t->sources[i].sequence,
						     (uint32_t)t->sources[i].buffer};
	return service_stats(&t->service, &totals, &t->packets);
}

/* Statistics, and out with it. */
static int output_end(struct trace_session *t)
{
	int r;

	/* What had no room before has none now. */
	if (t->full)
		t->packets.len = 0;
	r = put_stats(t);
	return r < 0 ? trace(r) : flush_out(t);
}

/* ---- snapshots (trace-clones.h) ---- */

/* The head of a snapshot, which is a trace of its own, in place of the one that the session began with. */
static int clone_head(struct trace_session *t)
{
	_cleanup_(buffer_deinit) struct buffer events = t->packets;
	int r;

	t->packets = (struct buffer){0};
	t->service.any_packet = false;
	t->service.clocks.boottime = 0; /* clocks are read again */
	r = put_head(t, NULL);
	if (r >= 0)
		buffer_append(&t->packets, events.data + t->head_len, events.len - t->head_len);
	return r < 0 ? trace(r) : t->packets.bad ? fail(-ENOMEM) : 0;
}

/* In the forked process: what a session writes at its end, to another output. */
static int clone_write(void *arg, const struct trace_clone_trigger *trigger, int fd,
		       struct trace_clone_result *ret)
{
	struct trace_session *t = arg;
	struct sink *file, *out;
	struct sink_count count;
	int r = sink_fd_new(fd, &file);

	if (r >= 0)
		r = file_mark_begin(file, 0, false); /* before the compression */
	if (r >= 0 && t->options.deflated_out)
		r = sink_deflate_new(file, &out);
	else
		out = file;
	if (r < 0)
		return trace(r);
	t->options.out = out;
	r = clone_head(t);
	if (r >= 0)
		r = service_clone_trigger(&t->service, trigger->name, trigger->uid, trigger->at,
					  &t->packets);
	if (r >= 0)
		r = output_read(t);
	if (r >= 0)
		r = output_end(t);
	/* The begin mark is not compressed. */
	count = (struct sink_count){out->written.packets - (out == file), out->written.samples};
	if (r >= 0)
		r = file_mark_end(out, &count, t->full);
	if (r >= 0)
		r = out->flush(out);
	ret->bytes = out->bytes;
	ret->written = count;
	(void)sink_free(out);
	return r < 0 ? trace(r) : 0;
}

static bool wants_snapshots(const Pb__TraceConfig *m)
{
	return triggers_mode(m) == PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT;
}

static int clone_open(void *arg, char *name, size_t size)
{
	const struct trace_session_options *o = &((struct trace_session *)arg)->options;

	return o->open_snapshot(o->snapshot_arg, name, size);
}

static void clone_written(void *arg, const char *name, const struct trace_clone_result *result)
{
	struct trace_session *t = arg;

	t->n_clones += !result->error;
	t->options.snapshot(t->options.snapshot_arg, name, result);
	if (t->finished && !trace_clones_pending(t->clones))
		t->state = TRACE_DONE;
}

static void note_event(struct trace_session *t, Pb__TracingServiceEvent__EventTypeCase event)
{
	int r = output_event(t, event);

	if (r < 0)
		session_failed(t, r, "the trace");
}

/* ---- reading out ---- */

static void read_out(struct trace_session *t)
{
	int r = output_read(t);

	if (r < 0)
		session_failed(t, r, "writing the trace");
	else if (t->full)
		trace_session_stop(t);
}

/* Everything has come that will come. */
static void finish(struct trace_session *t)
{
	int r = 0;

	for (size_t i = 0; i < TRACE_TIMERS; i++)
		(void)arm(t, (enum trace_timer_kind)i, 0, 0);
	note_event(t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_TRACING_DISABLED);
	t->finished = true;
	if (!t->stopped_at) /* its data sources have ended before it */
		t->stopped_at = clock_ns(CLOCK_MONOTONIC);
	trace_clones_finish(t->clones);
	if (!trace_clones_pending(t->clones))
		t->state = TRACE_DONE;
	if (t->held)
		return;
	r = output_read(t);
	if (r >= 0)
		r = output_end(t);
	if (r < 0)
		session_failed(t, r, "writing the trace");
}

static bool all_done(const struct trace_session *t)
{
	for (size_t i = 0; i < t->n_sources; i++)
		if (!t->sources[i].done)
			return false;
	return true;
}

/* ---- flushing ---- */

static void end_flush(struct trace_session *t, bool succeeded)
{
	t->flushing = false;
	(void)arm(t, TRACE_TIMER_FLUSH_WAIT, 0, 0);
	t->flushes_succeeded += succeeded;
	t->flushes_failed += !succeeded;
	if (succeeded)
		note_event(t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_ALL_DATA_SOURCES_FLUSHED);
	if (t->write_wanted && t->state == TRACE_RUNNING) {
		t->write_wanted = false;
		read_out(t);
	}
	trace_clones_flushed(t->clones);
}

static void check_flushed(struct trace_session *t)
{
	if (!t->flushing)
		return;
	for (size_t i = 0; i < t->n_sources; i++)
		if (t->sources[i].flushes && !t->sources[i].done)
			return;
	end_flush(t, true);
}

static void source_flushed(void *arg)
{
	struct trace_source *source = arg;

	source->flushes--;
	check_flushed(source->trace);
}

/* One at a time: a second one while the first is in progress would add no information. */
static void begin_flush(struct trace_session *t)
{
	uint32_t wait =
		t->config->flush_timeout_ms ? t->config->flush_timeout_ms : TRACE_FLUSH_WAIT_MS;

	if (t->flushing || t->state != TRACE_RUNNING)
		return;
	t->flushing = true;
	t->flushes_requested++;
	note_event(t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_FLUSH_STARTED);
	for (size_t i = 0; i < t->n_sources; i++) {
		struct trace_source *source = &t->sources[i];

		if (!source->done && session_flush(source->session, source_flushed, source) >= 0)
			source->flushes++;
	}
	(void)arm(t, TRACE_TIMER_FLUSH_WAIT, wait, 0);
	check_flushed(t);
}

static int clone_flush(void *arg)
{
	struct trace_session *t = arg;

	if (t->flushing)
		return TRACE_CLONES_BUSY;
	if (t->state != TRACE_RUNNING)
		return fail(-ESHUTDOWN);
	begin_flush(t);
	return 0;
}

/* ---- data sources ---- */

/* A note of several data sources is reported by the first. */
static void source_noted(void *arg, const char *brief, const char *line)
{
	const struct trace_source *source = arg;
	const struct trace_session *t = source->trace;

	for (size_t i = 0; i < t->n_sources; i++) {
		const struct trace_source *other = &t->sources[i];

		if (other != source && other->session && session_has_note(other->session, line))
			return;
	}
	if (t->options.noted)
		t->options.noted(t->options.noted_arg, brief, line);
	else
		log_info("%s", line);
}

static void source_done(void *arg)
{
	struct trace_source *source = arg;
	struct trace_session *t = source->trace;
	const char *why;

	source->done = true;
	if (session_error(source->session, &why) < 0 && !t->error) {
		t->error = session_error(source->session, NULL);
		(void)snprintf(t->why, sizeof(t->why), "data_sources[%zu]: %.250s", source->index,
			       why);
	}
	check_flushed(t);
	if (all_done(t) && !t->finished)
		finish(t);
}

void trace_session_stop(struct trace_session *t)
{
	uint32_t wait = t->config->data_source_stop_timeout_ms
				? t->config->data_source_stop_timeout_ms
				: TRACE_STOP_WAIT_MS;

	if (t->state != TRACE_RUNNING) {
		if (t->state == TRACE_READY || t->state == TRACE_WAITING)
			t->state = TRACE_DONE;
		return;
	}
	t->state = TRACE_STOPPING;
	t->stopped_at = clock_ns(CLOCK_MONOTONIC);
	(void)arm(t, TRACE_TIMER_STOP_WAIT, wait, 0);
	/* A session that is DONE reports it from the loop, never from within this call. */
	for (size_t i = 0; i < t->n_sources; i++)
		session_stop(t->sources[i].session);
}

static int source_open(struct trace_session *t, size_t index, char *error, size_t error_size)
{
	const struct perf_config_env env = {t->options.root, t->options.features, &t->share};
	const Pb__DataSourceConfig *ds = t->config->data_sources[index]->config;
	struct trace_source *source = &t->sources[t->n_sources];
	struct session_options *so;
	char why[400];
	int r;

	r = perf_config_new(&env, ds->perf_event_config, &source->config, why, sizeof(why));
	if (r == -ENODEV)
		log_info("data_sources[%zu] is left out: perf_event_config.%s", index, why);
	else if (r < 0)
		(void)snprintf(error, error_size, "data_sources[%zu].config.perf_event_config.%s",
			       index, why);
	if (r < 0)
		return r == -ENODEV ? 0 : trace(r);
	t->n_sources++; /* from here on it is freed with the rest */
	source->trace = t;
	source->index = index;
	source->sequence = SERVICE_SEQUENCE + (uint32_t)t->n_sources;
	r = trace_check_target(t->config, index, &source->buffer, error, error_size);
	if (r >= 0)
		r = trace_buffer_sink_new(t->buffers[source->buffer], source->sequence,
					  &source->sink);
	if (r < 0)
		return trace(r);
	so = &source->config->options;
	so->producer = true;
	so->consent = t->options.consent;
	so->at_sample = t->n_sources == 1 ? t->options.at_sample : NULL; /* one reader */
	so->realtime = ds->priority_boost &&
		       ds->priority_boost->policy ==
			       PB__PRIORITY_BOOST_CONFIG__BOOST_POLICY__POLICY_SCHED_FIFO;
	so->n_sources = trace_check_ours(t->config);
	so->done = source_done;
	so->done_arg = source;
	so->noted = source_noted;
	so->noted_arg = source;
	r = t->options.check ? t->options.check(t->options.check_arg, so, why, sizeof(why)) : 0;
	if (r >= 0)
		r = session_new(so, source->sink, t->loop, &source->session, why, sizeof(why));
	if (r < 0)
		(void)snprintf(error, error_size, "data_sources[%zu]: %s", index, why);
	return r < 0 ? trace(r) : 0;
}

/* ---- timers ---- */

static int expired(struct loop_timer *timer)
{
	struct trace_timer *which = container_of(timer, struct trace_timer, timer);
	struct trace_session *t = which->trace;
	int r = 0;

	switch ((enum trace_timer_kind)(which - t->timers)) {
	case TRACE_TIMER_DURATION:
		if (!t->ends_at || clock_ns(CLOCK_BOOTTIME) >= t->ends_at)
			trace_session_stop(t);
		break;
	case TRACE_TIMER_WRITE:
		t->write_wanted = t->config->write_flush_mode !=
				  PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_DISABLED;
		if (t->write_wanted)
			begin_flush(t);
		else
			read_out(t);
		break;
	case TRACE_TIMER_FLUSH:
		begin_flush(t);
		break;
	case TRACE_TIMER_FLUSH_WAIT:
		if (t->flushing)
			end_flush(t, false);
		break;
	case TRACE_TIMER_CLEAR:
		for (size_t i = 0; r >= 0 && t->state == TRACE_RUNNING && i < t->n_sources; i++)
			if (!t->sources[i].done)
				r = session_clear_incremental_state(t->sources[i].session);
		break;
	case TRACE_TIMER_CLOCKS:
		r = output_clocks(t);
		break;
	case TRACE_TIMER_STOP_WAIT:
		t->late = !all_done(t);
		if (t->late && t->state == TRACE_STOPPING && !t->finished)
			finish(t);
		break;
	case TRACE_TIMERS:
		break;
	}
	if (r < 0)
		session_failed(t, r, "the trace");
	return 0;
}

/* A period of the config; 0: none. */
static int arm_period(struct trace_session *t, enum trace_timer_kind kind, uint64_t ms,
		      uint64_t least)
{
	ms = ms ? max_u64(ms, least) : 0;
	return arm(t, kind, ms, ms);
}

static int arm_duration(struct trace_session *t)
{
	uint64_t ms = t->end_ms;

	if (!t->config->prefer_suspend_clock_for_duration)
		return arm(t, TRACE_TIMER_DURATION, ms, 0);
	/* The loop's clock stands still in suspend: look once a second. */
	t->ends_at = clock_ns(CLOCK_BOOTTIME) + ms * NSEC_PER_MSEC;
	return arm_period(t, TRACE_TIMER_DURATION, min_u64(ms, 1000), 1);
}

static int arm_all(struct trace_session *t)
{
	const Pb__TraceConfig *m = t->config;
	const Pb__TraceConfig__BuiltinDataSource *b = m->builtin_data_sources;
	/* Where each write is behind a flush, others are not needed. */
	bool flushes =
		!m->write_into_file ||
		m->write_flush_mode == PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_DISABLED;
	int r = arm_duration(t);

	if (r >= 0 && m->write_into_file)
		r = arm_period(t, TRACE_TIMER_WRITE,
			       m->file_write_period_ms ? m->file_write_period_ms : TRACE_WRITE_MS,
			       TRACE_WRITE_MIN_MS);
	if (r >= 0 && flushes)
		r = arm_period(t, TRACE_TIMER_FLUSH, m->flush_period_ms, TRACE_PERIOD_MIN_MS);
	if (r >= 0 && m->incremental_state_config)
		r = arm_period(t, TRACE_TIMER_CLEAR, m->incremental_state_config->clear_period_ms,
			       TRACE_PERIOD_MIN_MS);
	if (r >= 0)
		r = arm_period(t, TRACE_TIMER_CLOCKS,
			       b && b->snapshot_interval_ms ? b->snapshot_interval_ms
							    : TRACE_CLOCKS_MS,
			       TRACE_PERIOD_MIN_MS);
	return r < 0 ? trace(r) : 0;
}

uint32_t trace_session_behind_ms(const Pb__TraceConfig *m)
{
	uint64_t ms = m->file_write_period_ms ? m->file_write_period_ms : TRACE_WRITE_MS;

	/* A write comes behind a flush, or at the end. */
	if (!m->write_into_file ||
	    m->write_flush_mode == PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_DISABLED)
		return 0;
	return (uint32_t)min_u64(max_u64(ms, TRACE_WRITE_MIN_MS) + SESSION_FLUSH_MS, INT32_MAX);
}

/* ---- life cycle ---- */

static int begin(struct trace_session *t)
{
	int r = 0;

	t->state = TRACE_RUNNING;
	t->started_at = clock_ns(CLOCK_MONOTONIC);
	note_event(t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_TRACING_STARTED);
	r = t->error; /* then it is stopping already */
	for (size_t i = 0; r >= 0 && i < t->n_sources; i++)
		r = session_start(t->sources[i].session);
	note_event(t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_ALL_DATA_SOURCES_STARTED);
	if (r >= 0)
		r = arm_all(t);
	if (r < 0)
		session_failed(t, r, "the trace");
	return r < 0 ? trace(r) : 0;
}

int trace_session_start(struct trace_session *t)
{
	int r = 0;

	if (t->config->deferred_start) {
		t->state = TRACE_WAITING;
		return 0;
	}
	r = output_begin(t);
	if (r < 0)
		return trace(r);
	t->end_ms =
		t->held ? t->config->trigger_config->trigger_timeout_ms : t->config->duration_ms;
	if (!t->held || triggers_mode(t->config) !=
				PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING)
		return begin(t);
	t->state = TRACE_WAITING;
	r = arm_duration(t);
	return r < 0 ? trace(r) : 0;
}

int trace_session_begin(struct trace_session *t)
{
	int r;

	if (t->state != TRACE_WAITING || !t->config->deferred_start)
		return TRACE_BEGUN;
	t->end_ms = t->config->duration_ms;
	r = output_begin(t);
	if (r >= 0)
		r = begin(t);
	if (r < 0)
		session_failed(t, r, "the start");
	return r < 0 ? trace(r) : 0;
}

/* The first one decides when the session ends; those after it are only in the trace.  With snapshots, each makes one. */
static int triggered(struct trace_session *t, const char *name, uint32_t uid, uint32_t delay_ms)
{
	bool first = t->held && !t->clones;
	int r = first ? output_release(t) : 0;

	if (r >= 0 && t->packets.len <= PENDING_MAX)
		r = service_trigger(&t->service, name, uid, &t->packets);
	if (r < 0 || !first)
		return r < 0 ? trace(r) : 0;
	t->end_ms = max_u64(delay_ms, 1);
	r = t->state == TRACE_WAITING ? begin(t) : arm_duration(t);
	return r < 0 ? trace(r) : 0;
}

static int add_clone(struct trace_session *t, const char *name, uint32_t uid, uint32_t delay_ms)
{
	struct trace_clone_trigger trigger = {.uid = uid, .at = clock_ns(CLOCK_BOOTTIME)};

	(void)snprintf(trigger.name, sizeof(trigger.name), "%s", name);
	return trace(trace_clones_add(t->clones, &trigger, delay_ms));
}

enum trigger_verdict trace_session_trigger(struct trace_session *t, const char *name, uint32_t uid)
{
	enum trigger_verdict verdict;
	uint32_t delay_ms, random;
	int r;

	if (!t->triggers || (t->state != TRACE_WAITING && t->state != TRACE_RUNNING))
		return TRIGGER_UNKNOWN;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = 0;
	if (t->clones && trace_clones_pending(t->clones) == TRACE_CLONES)
		return TRIGGER_BUSY;
	verdict = triggers_take(t->triggers, name, clock_ns(CLOCK_BOOTTIME),
				random / (UINT32_MAX + 1.0), &delay_ms);
	if (verdict != TRIGGER_ACCEPTED)
		return verdict;
	r = triggered(t, name, uid, delay_ms);
	if (r >= 0 && t->clones)
		r = add_clone(t, name, uid, delay_ms);
	if (r < 0)
		session_failed(t, r, "the trigger");
	return verdict;
}

static int open_all(struct trace_session *t, char *error, size_t error_size)
{
	const Pb__TraceConfig *m = t->config;
	const char *why;
	int r = 0;

	t->buffers = calloc(m->n_buffers, sizeof(*t->buffers));
	t->sources = calloc(m->n_data_sources, sizeof(*t->sources));
	if (!t->buffers || !t->sources)
		return fail(-ENOMEM);
	for (; r >= 0 && t->n_buffers < m->n_buffers; t->n_buffers++) {
		const Pb__TraceConfig__BufferConfig *b = m->buffers[t->n_buffers];
		const struct trace_buffer_options bo = {
			.size = max_u64((uint64_t)b->size_kb << 10, 4096),
			.policy =
				b->fill_policy ==
						PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD
					? TRACE_BUFFER_DISCARD
					: TRACE_BUFFER_RING,
			.uid = (int32_t)getuid(),
			.pid = getpid(),
		};

		r = trace_buffer_new(&bo, &t->buffers[t->n_buffers]);
		if (r < 0)
			(void)snprintf(error, error_size, "buffers[%zu].size_kb: %u KiB: %s",
				       t->n_buffers, b->size_kb, strerror(-r));
	}
	for (size_t i = 0; r >= 0 && i < m->n_data_sources; i++)
		if (trace_check_is_ours(m, i, &why))
			r = source_open(t, i, error, error_size);
	if (r < 0)
		return trace(r);
	if (!t->n_sources) {
		(void)snprintf(error, error_size,
			       "data_sources: none can run on the CPUs of this machine");
		return fail(-ENODEV);
	}
	return 0;
}

int trace_session_new(const struct trace_session_options *options, struct loop *loop,
		      struct trace_session **ret_trace, char *error, size_t error_size)
{
	struct trace_session *t;
	int r = trace_check(options->config->message, error, error_size);

	if (r < 0)
		return trace(r);
	if (!options->open_snapshot && wants_snapshots(options->config->message)) {
		(void)snprintf(error, error_size,
			       "trigger_config.trigger_mode: CLONE_SNAPSHOT makes files, and the "
			       "daemon makes none (hint: run as root, or use STOP_TRACING)");
		return fail(-EINVAL);
	}
	(void)snprintf(error, error_size, "cannot trace: out of memory");
	t = calloc(1, sizeof(*t));
	if (!t)
		return fail(-ENOMEM);
	*error = 0;
	t->options = *options;
	t->config = options->config->message;
	t->loop = loop;
	t->service = (struct service){.uid = (int32_t)getuid(), .tool = options->tool};
	for (size_t i = 0; i < TRACE_TIMERS; i++) {
		t->timers[i].trace = t;
		t->timers[i].timer.source.fd = -1;
	}
	for (size_t i = 0; r >= 0 && i < TRACE_TIMERS; i++)
		r = loop_timer_add(loop, &t->timers[i].timer, 0, 0, expired);
	t->held = triggers_wanted(t->config);
	if (r >= 0 && t->held)
		r = triggers_new(t->config->trigger_config, &t->triggers);
	if (r >= 0 && wants_snapshots(t->config))
		r = trace_clones_new(&(struct trace_clone_calls){clone_flush, clone_open,
								 clone_write, clone_written, t},
				     loop, &t->clones);
	if (r >= 0)
		r = open_all(t, error, error_size);
	if (r < 0) {
		if (!*error)
			(void)snprintf(error, error_size, "cannot trace: %s", strerror(-r));
		(void)trace_session_free(t);
		return trace(r);
	}
	*ret_trace = t;
	return 0;
}

struct trace_session *trace_session_free(struct trace_session *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < TRACE_TIMERS; i++)
		loop_timer_remove(t->loop, &t->timers[i].timer);
	for (size_t i = 0; i < t->n_sources; i++) {
		(void)session_free(t->sources[i].session);
		(void)sink_free(t->sources[i].sink);
		(void)perf_config_free(t->sources[i].config);
	}
	free(t->sources);
	for (size_t i = 0; i < t->n_buffers; i++)
		(void)trace_buffer_free(t->buffers[i]);
	free(t->buffers);
	(void)triggers_free(t->triggers);
	(void)trace_clones_free(t->clones);
	buffer_deinit(&t->packets);
	free(t);
	return NULL;
}

bool trace_session_kernel_refused(const struct trace_session *t)
{
	for (size_t i = 0; i < t->n_sources; i++)
		if (session_kernel_refused(t->sources[i].session))
			return true;
	return false;
}

enum trace_session_state trace_session_state(const struct trace_session *t)
{
	return t->state;
}

int trace_session_error(const struct trace_session *t, const char **ret_why)
{
	if (ret_why)
		*ret_why = t->why;
	return t->error;
}

void trace_session_summary(struct trace_session *t, struct trace_session_summary *ret_summary)
{
	struct trace_session_summary s = {.n_sources = t->n_sources,
					  .full = t->full,
					  .snapshots = t->n_clones,
					  .untriggered = t->held || !t->started_at};

	s.duration_s = (double)(t->stopped_at - t->started_at) / 1e9;
	for (size_t i = 0; i < t->n_sources; i++) {
		struct session_summary one;

		if (session_summary(t->sources[i].session, &one) < 0)
			continue;
		s.samples += one.account.emitted;
		s.whole += one.account.whole;
		s.cut += one.account.cut;
		s.failed += account_failed(&one.account);
		s.self_cpu_s = s.self_cpu_s > one.self_cpu_s ? s.self_cpu_s : one.self_cpu_s;
		s.out_of_scope += one.account.skipped[SKIP_NOT_IN_SCOPE] +
				  one.account.skipped[SKIP_NOT_ALLOWED];
		s.skipped += account_skipped(&one.account) - one.account.skipped[SKIP_DOUBLE];
		s.lost += one.counts.lost_samples;
	}
	s.skipped -= s.out_of_scope;
	for (size_t i = 0; i < t->n_buffers; i++) {
		struct trace_buffer_stats one;

		trace_buffer_stats(t->buffers[i], &one);
		s.overwritten += one.chunks_overwritten;
		s.discarded += one.chunks_discarded + one.trace_writer_packet_loss;
	}
	*ret_summary = s;
}
