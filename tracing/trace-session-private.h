/* trace-session-private.h - the parts of one trace session; shared by trace-*.c only. */
#pragma once

#include "tracing/service-packets.h"
#include "tracing/trace-buffer.h"
#include "config/perf-config.h"
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
	uint64_t ends_at; /* CLOCK_BOOTTIME, when the duration counts suspend; or 0 */

	bool flushing, write_wanted; /* the latter: when the flush under way is done */
	bool late;		     /* a data source did not end in time */
	uint64_t flushes_requested, flushes_succeeded, flushes_failed;

	/* trace-file.c */
	struct service service;
	struct buffer packets; /* the service's, on their way to the output */
	uint64_t max_bytes;    /* UINT64_MAX: no limit */
	bool full;
};

/* trace-session.c: the first failure is the one that is told. */
void trace_session_fail(struct trace_session *trace, int r, const char *what);

/* trace-file.c: what the output begins with. */
int trace_file_begin(struct trace_session *trace);
/* A moment of the session, noted unless the config does not want that. */
int trace_file_event(struct trace_session *trace, Pb__TracingServiceEvent__EventTypeCase event);
int trace_file_clocks(struct trace_session *trace);
/* Moves what is in the buffers to the output; then the trace may be full. */
int trace_file_read(struct trace_session *trace);
/* Statistics, and out with it. */
int trace_file_end(struct trace_session *trace);
