/* session.h - one running recording: events, stages and a sink, from start to the last packet.
 * Thread: main.
 *
 *   READY ── start ──► RUNNING ── stop ──► DRAINING ──► NAMING ──► DONE
 *
 * Stopping drains: events off, rings emptied, a DRAIN entry through the unwinder, then a bounded
 * wait for symbols that are being loaded, then the last statistics.  No step blocks: the loop runs
 * all.
 *
 * Any number of sessions can share a loop; each has its own rings, threads and tables.  The first
 * one raises the settings of the process (nice value or real-time priority of main, the limits of
 * descriptors and locked memory), and they stay raised.
 *
 * Callbacks (done, flushed) come from the loop, never from inside a call of this header; each may
 * free the session. */
#pragma once

#include "base/loop.h"
#include "config/session-options.h"
#include "trace/sink.h"
#include "perf/perfdata/perfdata-out.h"
#include "perf/source.h"
#include "session/pipeline/account.h"

enum session_state {
	SESSION_READY,
	SESSION_RUNNING,
	SESSION_DRAINING,
	SESSION_NAMING,
	SESSION_DONE
};

/* Shared by the sessions of one process, so that later ones start faster: the kernel's symbols.
 * Outlives the sessions. */
struct session_shared;
int session_shared_new(struct session_shared **ret_shared);
/* For sessions without their own (session_options.consent); borrowed. */
struct consent;
void session_shared_set_consent(struct session_shared *shared, struct consent *consent);
struct session_shared *session_shared_free(struct session_shared *shared);

struct session;

/* Opens everything, disabled.  Borrows @sink and @loop.  < 0: *error has one line for the user. */
int session_new(const struct session_options *options, struct sink *sink, struct loop *loop,
		struct session **ret_session, char *error, size_t error_size);
struct session *session_free(struct session *session);
/* < 0: the trace cannot be written.  Events that cannot be started end the session: see
 * session_error(). */
int session_start(struct session *session);
/* options.armed: begins to sample, or ends it again; allocates nothing.  < 0: of the kernel. */
int session_sample(struct session *session, bool on);
/* Begins the end, in any state; further calls have no effect. */
void session_stop(struct session *session);
/* Calls @flushed when all samples from before this call are in the sink and the sink is flushed:
 * within SESSION_FLUSH_MS, without the samples that wait longer for mappings or modules.  In any
 * state, several at once; freeing the session drops pending flushes. */
enum { SESSION_FLUSH_MS = 80 };
/* Without a flush, samples older than this are in the flushed sink: a second, and two reads of the
 * rings before it.  Given enough CPU time for perfwind. */
enum { SESSION_BEHIND_MS = 1300 };
int session_flush(struct session *session, void (*flushed)(void *arg), void *arg);
/* Writes again what readers need: defaults, interned data, processes and threads.  The session does
 * this itself when the sink has lost packets. */
int session_clear_incremental_state(struct session *session);
enum session_state session_state(const struct session *session);
/* < 0: the error because of which it ended or is ending; *ret_why (may be NULL): the line for the
 * user. */
int session_error(const struct session *session, const char **ret_why);
/* Were kernel frames requested, and not permitted? */
bool session_kernel_refused(const struct session *session);
/* Have all targets exited, with the children that are followed? */
bool session_targets_gone(struct session *session);

/* A line for the user, once: reported (options.noted) and kept for the trace and the summary. */
void session_note(struct session *session, const char *format, ...) _printf_(2, 3);
/* The same for a limit of the machine or user, as perf_options.note: @brief has it in a few words, or is NULL. */
void session_limit(void *session, const char *brief, const char *line);
bool session_has_note(const struct session *session, const char *line);

/* Samples in flight. */
uint64_t session_in_flight(const struct session *session);

/* Bytes of a CPU's ring that a recording of a command or of processes at @frequency wants, where stacks are copied. */
uint64_t session_ring_of_tasks(uint64_t frequency);

struct session_summary {
	double duration_s;
	struct account account;
	struct perf_counts counts;
	double cpu_accounted; /* < 0: unknown for this event */
	double used_s; /* > 0: CPU time of the targets, a nanosecond at least; 0: not known, or the machine's */
	double self_cpu_s, self_us_per_sample;
	uint64_t self_peak_rss_kb;
	unsigned code;	/* FRAMES_*: in which samples were taken */
	bool at_sample; /* BPF may copy deep stacks and frames of interpreters at the sample */
	uint64_t bytes;
	const char *const *notes; /* borrowed */
	size_t n_notes;
	struct session_unsymbolized {
		char path[512];
		char build_id[41]; /* hex */
		uint64_t samples;
		const char *hint; /* a constant; NULL: none, or not known here (a client) */
	} unsymbolized[128];
	size_t n_unsymbolized;
};
/* At any time; complete when DONE. */
int session_summary(struct session *session, struct session_summary *ret_summary);
