/* session.h - one running profile: events, stages and a sink, from start to the last packet.
 * Thread: main.
 *
 *   READY ── start ──► RUNNING ── stop ──► DRAINING ──► NAMING ──► DONE
 *
 * Stopping drains: events off, rings emptied, a DRAIN entry through the unwinder, then names that
 * are still being loaded (bounded), then the last statistics.  Nothing blocks: the loop runs it. */
#pragma once

#include "daemon/base/loop.h"
#include "daemon/out/sink.h"
#include "daemon/perf/source.h"
#include "daemon/stage/account.h"
#include "unwinder/unwinder.h"

struct session_options {
	bool machine;	      /* else the tasks */
	const uint32_t *pids; /* tasks: whole processes */
	size_t n_pids;
	uint32_t child; /* or one child of ours that waits before its exec; 0: none */
	bool children;	/* follow forks */
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
	const char *proc_root; /* "" */
};

enum session_state {
	SESSION_READY,
	SESSION_RUNNING,
	SESSION_DRAINING,
	SESSION_NAMING,
	SESSION_DONE
};

struct session;

/* Opens everything, disabled.  Borrows @sink and @loop.  < 0: *error has one line for the user. */
int session_new(const struct session_options *options, struct sink *sink, struct loop *loop,
		struct session **ret_session, char *error, size_t error_size);
struct session *session_free(struct session *session);
/* < 0: the trace cannot be written.  Events that cannot be started end the session: see
 * session_error(). */
int session_start(struct session *session);
/* Begins the end; more calls do no harm. */
void session_stop(struct session *session);
enum session_state session_state(const struct session *session);
/* < 0: it ended (or is ending) because of this error; the line for the user is in *ret_why (may be
 * NULL). */
int session_error(const struct session *session, const char **ret_why);
/* tasks by pid: have all of them exited, with the children that are followed? */
bool session_targets_gone(struct session *session);

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
