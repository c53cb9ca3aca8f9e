/* trace-session.h - a TraceConfig run inside the process, without a tracing service.  Thread: main.
 *
 *   data sources (linux.perf) ─► sessions ─► central buffers ─► the output
 *                                            RING or DISCARD    at the end, or each
 *                                                               file_write_period_ms
 *
 *   READY ── start ──► RUNNING ── stop, duration_ms, a full file ──► STOPPING ──► DONE
 *     └── start ──► WAITING ── trigger ──► RUNNING
 *           (START_TRACING; deferred_start: trace_session_begin())
 *
 * With trigger_config nothing is written before the first trigger, and nothing at all without one: the session ends at
 * trigger_timeout_ms, or stop_delay_ms after the first trigger.  With CLONE_SNAPSHOT each trigger makes a snapshot, a file of its
 * own, stop_delay_ms later; the session goes on to trigger_timeout_ms, and is STOPPING until all snapshots are written.
 *
 * The output holds what a service would put there: the config, clocks, the machine, events of the
 * session, statistics of the buffers, and uid and sequence of each packet.  A field that cannot be
 * served is refused by name; data sources other than linux.perf are left out with a warning. */
#pragma once

#include "config/config.h"
#include "session/session.h"
#include "tracing/trace-clones.h"

enum {
	TRACE_WRITE_MS = 5000,	  /* file_write_period_ms by default */
	TRACE_WRITE_MIN_MS = 100, /* ... and at least */
	TRACE_PERIOD_MIN_MS = 10, /* of flushes and clearings */
	TRACE_FLUSH_WAIT_MS = 5000,
	TRACE_STOP_WAIT_MS = 5000, /* data_source_stop_timeout_ms by default */
	TRACE_CLOCKS_MS = 10000,
	TRACE_BUFFERS = 128,
};

struct trace_session_options {
	const struct config *config; /* borrowed while the trace session lives */
	struct features features;
	struct consent *consent;     /* borrowed, may be NULL */
	struct at_sample *at_sample; /* the same; of the first session */
	/* Of CLONE_SNAPSHOT: opens a new file (the session closes the descriptor), and sets its name; and the result of
	 * each.  NULL: these configs are refused. */
	int (*open_snapshot)(void *arg, char *name, size_t size);
	void (*snapshot)(void *arg, const char *name, const struct trace_clone_result *result);
	void *snapshot_arg;
	const char *root;  /* before /sys and /proc: "" */
	const char *tool;  /* "perfwind 0.1" */
	struct sink *out;  /* borrowed */
	bool deflated_out; /* what @out counts lags behind what it was given (sink_deflate_new) */
	/* Each data source's session before it is opened: may narrow what it does, or refuse with a
	 * line.  NULL: none. */
	int (*check)(void *arg, struct session_options *options, char *error, size_t error_size);
	void *check_arg;
	/* Lines for the user, each once however many data sources report it, as they come: also while
	 * trace_session_new() runs.  NULL: they are logged. */
	void (*noted)(void *arg, const char *brief, const char *line); /* as of session_options */
	void *noted_arg;
};

enum trace_session_state {
	TRACE_READY,
	TRACE_WAITING, /* for the trigger that starts it, or trace_session_begin() */
	TRACE_RUNNING,
	TRACE_STOPPING,
	TRACE_DONE
};

/* Samples older than this are in the output, ms; 0: no bound is known. */
uint32_t trace_session_behind_ms(const Pb__TraceConfig *config);

struct trace_session;

/* Opens everything, disabled.  < 0: *error has one line for the user, which names the field where
 * it is the config's fault.  Warnings are logged. */
int trace_session_new(const struct trace_session_options *options, struct loop *loop,
		      struct trace_session **ret_trace, char *error, size_t error_size);
struct trace_session *trace_session_free(struct trace_session *trace);
/* < 0: the output cannot be written. */
int trace_session_start(struct trace_session *trace);
/* Starts a deferred session.  TRACE_BEGUN: it runs already, or is not deferred. */
enum { TRACE_BEGUN = 1 };
int trace_session_begin(struct trace_session *trace);
/* A trigger called @name, by a process of user @uid.  What was accepted is in the trace. */
enum trigger_verdict trace_session_trigger(struct trace_session *trace, const char *name,
					   uint32_t uid);
/* Starts to end the session; further calls have no effect. */
void trace_session_stop(struct trace_session *trace);
/* Was the kernel part refused that a data source requests? */
bool trace_session_kernel_refused(const struct trace_session *trace);
enum trace_session_state trace_session_state(const struct trace_session *trace);
/* < 0: the output or a data source came to its end by an error; the first one is reported. */
int trace_session_error(const struct trace_session *trace, const char **ret_why);

struct trace_session_summary {
	size_t n_sources;
	double duration_s;
	uint64_t samples;		 /* with a stack, or counted */
	uint64_t out_of_scope;		 /* not asked for: no loss */
	uint64_t whole, cut, failed;	 /* stacks of @samples */
	uint64_t skipped, lost;		 /* by us; by the kernel */
	double self_cpu_s;		 /* of this process, while its longest source ran */
	uint64_t overwritten, discarded; /* packets, in the buffers */
	bool full;			 /* max_file_size_bytes was reached */
	size_t snapshots;		 /* of CLONE_SNAPSHOT, that were written */
	bool untriggered; /* no trigger or start came, or they made snapshots: @out got nothing */
};
void trace_session_summary(struct trace_session *trace, struct trace_session_summary *ret_summary);

/* trace-check.c: is this config one that can be run here?  -EINVAL with a line that begins with the
 * field; what has no effect here is logged. */
int trace_check(const Pb__TraceConfig *config, char *error, size_t error_size);
/* Which buffer a data source's packets go to.  -EINVAL with a line. */
int trace_check_target(const Pb__TraceConfig *config, size_t source, size_t *ret_buffer,
		       char *error, size_t error_size);
/* Is it linux.perf, and asked of us?  Else *ret_why is the reason that it is left out. */
bool trace_check_is_ours(const Pb__TraceConfig *config, size_t source, const char **ret_why);
uint32_t trace_check_ours(const Pb__TraceConfig *config); /* the number of them */
