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
#include "trace/sink.h"
#include "perf/perfdata/perfdata-out.h"
#include "perf/source.h"
#include "session/pipeline/account.h"
#include "unwinder/unwinder.h"

struct session_options {
	bool machine;	      /* else the tasks */
	const uint32_t *pids; /* tasks: whole processes */
	size_t n_pids;
	uint32_t child; /* or one child of ours that waits before its exec; 0: none */
	bool children;	/* follow forks */
	/* Never events of whole CPUs, which cost every process of the machine: too many tasks are
	 * refused.  With `machine` the tasks are all processes that allowed() allows and what they
	 * start (session-own.c); the processes that do not fit are left out, with a note. */
	bool tasks_only;
	const struct perf_spec *specs; /* the first is sampled; borrowed while the session lives */
	size_t n_specs;
	uint64_t period, frequency;
	uint32_t stack_bytes; /* 0: chosen (tasks: 65,528; machine: adapted from 16 KiB) */
	bool user_only, kernel_only, idle;
	int clock;
	const uint32_t *cpus; /* NULL: all online */
	size_t n_cpus;
	enum uw_engine_kind engine;
	struct features features;
	bool realtime;	     /* SCHED_RR for the threads on the road; else a better nice value where
				allowed */
	uint64_t ring_bytes; /* 0: chosen */
	uint64_t ring_budget; /* of all rings; 0: 256 MiB */
	/* tasks: with the descendants; past it the session is refused.  0: any number. */
	uint32_t max_processes;
	/* tasks: of events for each thread on each CPU.  Past half of it whole CPUs stand in, as they
	 * do for half of the process's own limit; past all of it, or where they may not, the session
	 * is refused.  Never more than an eighth of the process's own limit.  0: no limit but that. */
	uint32_t max_descriptors;
	const char *proc_root; /* "" */

	/* ---- as a data source of a tracing service ---- */
	/* Clock snapshots, system info and uuid are the service's to write, and so is the sequence
	 * id. */
	bool producer;
	/* Frames that samples do not have (user_only and kernel_only leave out the samples).  Both:
	 * counters only.  Without kernel frames, kernel threads are out of scope. */
	bool no_user_frames, no_kernel_frames;
	/* Inlined calls and source lines are looked up by a producer too: dearer than all the rest,
	 * and what a service's readers do afterwards. */
	bool lines;
	/* Not 0: nothing is sampled, the counters of each CPU are read at this period. */
	uint32_t poll_ms;
	/* machine: which processes.  Asked once for each life of a process: a fork's child is one,
	 * and an exec begins another.  @cmdline: as in /proc (NUL-separated), NULL when there is
	 * none (a kernel thread) or it cannot be read; only asked for when wanted_by_cmdline. NULL:
	 * all.  Samples of the others are in the trace without a stack, as not in scope. */
	bool (*wanted)(void *arg, uint32_t pid, const char *cmdline, size_t len);
	bool wanted_by_cmdline;
	void *wanted_arg; /* borrowed while the session lives */
	/* Which processes may be shown, as they are at the time (policy.h): asked for each life,
	 * and again from 100 ms on, as a process may become another user's without an exec.  The
	 * mappings and memory of others are not opened, their samples left out as not allowed.
	 * NULL: all may. */
	bool (*allowed)(void *arg, uint32_t pid);
	void *allowed_arg;   /* borrowed while the session lives */
	bool consent_allows; /* others are asked for their consent; what they give is used */
	uint32_t shard_count, shard; /* told in the trace; the choice is wanted()'s */
	uint32_t read_ms;	     /* no sample lies longer in a ring; 0: 100 */
	uint32_t maps_wait_ms; /* how long a sample waits for its process's mappings; 0: 100 */
	uint32_t clear_ms;     /* the unwinder's caches are dropped at this period; 0: never */
	/* Own memory past this ends the session, with the reason in the trace; 0: 256 MiB, and of
	 * the sessions of options.shared that one ends which holds most, of the owner whose sessions
	 * hold most. */
	uint64_t memory_kb;
	uint32_t owner; /* user id */
	/* Bytes that are kept for it outside.  NULL: none. */
	uint64_t (*holds)(void *arg);
	void *holds_arg;
	/* Bytes of stacks on their way to the unwinder; past it samples are skipped; 0: the rings'
	 * sizes are the limit. */
	uint64_t enqueued_bytes;
	bool ignore_open_failure; /* CPUs whose events cannot be opened are left out; with none left
				     it runs all the same */
	/* Asks processes that may not be read; borrowed while the session lives, NULL: they are not
	 * asked. */
	struct consent *consent;
	struct session_shared
		*shared; /* borrowed while the session lives; NULL: nothing is shared */
	/* Gets every record as it came too; borrowed while the session lives.  NULL: nobody. */
	struct perfdata_out *raw;
	/* A step down that the owner has taken: said and kept in the trace as the session's own
	 * are.  NULL: none. */
	const char *note;
	/* Lines for a person, each once, as they come: also while session_new() runs.  NULL: they
	 * are logged. */
	void (*noted)(void *arg, const char *line);
	void *noted_arg;
	/* It is DONE. */
	void (*done)(void *arg);
	void *done_arg;
};

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
