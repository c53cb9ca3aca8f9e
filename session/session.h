/* session.h - one running profile: events, stages and a sink, from start to the last packet.
 * Thread: main.
 *
 *   READY ── start ──► RUNNING ── stop ──► DRAINING ──► NAMING ──► DONE
 *
 * Stopping drains: events off, rings emptied, a DRAIN entry through the unwinder, then names that
 * are still being loaded (bounded), then the last statistics.  Nothing blocks: the loop runs it.
 *
 * Any number of sessions live side by side on one loop; each has its own rings, threads and tables.
 * What is the process's (nice value or real-time priority of main, the limits of descriptors and
 * locked memory) is raised by the first and left so.
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

/* What sessions of one process may share, so that each but the first begins cheaper: the kernel's
 * symbols.  Outlives them. */
struct session_shared;
int session_shared_new(struct session_shared **ret_shared);
/* Where sessions have none of their own (session_options.consent); borrowed. */
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
/* Begins the end, in any state; more calls do no harm. */
void session_stop(struct session *session);
/* All that was sampled before this call is in the sink, and the sink is flushed, when @flushed
 * comes: within SESSION_FLUSH_MS, except that samples that wait for mappings or modules for longer
 * come later.  In any state, several at once; freeing the session drops those under way. */
enum { SESSION_FLUSH_MS = 80 };
/* What was sampled longer ago than this is in the sink, and the sink is flushed, without being asked:
 * a second, and two reads of the rings before it.  On a machine that has CPU time left for us. */
enum { SESSION_BEHIND_MS = 1300 };
int session_flush(struct session *session, void (*flushed)(void *arg), void *arg);
/* What readers need to know is told anew: defaults, interned data, processes and threads.  Also
 * when the sink has lost packets (by itself). */
int session_clear_incremental_state(struct session *session);
enum session_state session_state(const struct session *session);
/* < 0: it ended (or is ending) because of this error; the line for the user is in *ret_why (may be
 * NULL). */
int session_error(const struct session *session, const char **ret_why);
/* Did the kernel's half have to go, which was asked for? */
bool session_kernel_refused(const struct session *session);
/* tasks by pid: have all of them exited, with the children that are followed? */
bool session_targets_gone(struct session *session);

/* A line for a person, once: told (options.noted) and kept for the trace and the summary. */
void session_note(struct session *session, const char *format, ...) _printf_(2, 3);
bool session_has_note(const struct session *session, const char *line);

/* Samples on their way. */
uint64_t session_in_flight(const struct session *session);

struct session_summary {
	double duration_s;
	struct account account;
	struct perf_counts counts;
	double cpu_accounted; /* < 0: not known for this event */
	double self_cpu_s, self_us_per_sample;
	uint64_t self_peak_rss_kb;
	bool user_only;
	uint64_t bytes;
	const char *const *notes; /* borrowed */
	size_t n_notes;
	struct session_nameless {
		char path[512];
		char build_id[41]; /* hex */
		uint64_t samples;
	} nameless[128];
	size_t n_nameless;
};
/* Any time; whole when DONE. */
int session_summary(struct session *session, struct session_summary *ret_summary);
