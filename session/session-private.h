/* session-private.h - the parts of one session; shared by session*.c only. */
#pragma once

#include "trace/writer.h"
#include "session/consent/consent.h"
#include "proc/procmem.h"
#include "session/session.h"
#include "session/pipeline/adapt.h"
#include "session/pipeline/emit.h"
#include "session/pipeline/reader.h"
#include "session/pipeline/unwind.h"

enum {
	SESSION_TICK_MS = 100,
	SESSION_ENTRIES =
		2048, /* slots to the unwinder: memory that is gone round is memory touched */
	SESSION_OUTCOME_BYTES = 2 << 20, /* and back */
	SESSION_PARK_BYTES = 16 << 20,
	SESSION_COPY_BYTES = 16 << 20,
	SESSION_PROCESSES = 4096,
	SESSION_FILES = 8,	       /* of how many descriptors images may keep one */
	SESSION_CACHE_IDLE_S = 5,      /* a module used more recently stays */
	SESSION_MEMORY_KB = 256 << 10, /* own memory besides rings: past it the session ends */
	SESSION_MAPS_WAIT_MS = 100,
	SESSION_MODULE_WAIT_MS = 1000,
	SESSION_DRAIN_MS = 3000,     /* bound on DRAINING */
	SESSION_NAMING_MS = 1500,    /* bound on NAMING: "symbolised within 2 s of the stop" */
	SESSION_MEMORY_READ_MS = 20, /* the unwinder waits for it */
	SESSION_RETRIES = 8,	     /* of a module that could not be read */
	SESSION_GUARDED_LOADS = 8,   /* modules, before the guardrail is looked at again */
	SESSION_NICE = -10,	     /* of the threads on the road, where allowed */
	SESSION_NOTES = 64,
	SESSION_RINGS_BYTES = 256 << 20, /* the budget of all rings */
};

struct session_ring {
	struct loop_source source;
	struct session *session;
};

struct session_flush {
	void (*flushed)(void *arg);
	void *arg;
	uint64_t number, round; /* of the reader: the first that takes all from before */
	uint64_t asked_at;	/* CLOCK_MONOTONIC */
};
/* In order of asking: the first n_due are through and their callbacks are to be called; the first
 * n_sent are with the unwinder or through. */
struct session_flushes {
	struct session_flush *items;
	size_t n, room, n_sent, n_due;
	uint64_t last, sent, answered; /* numbers */
};

/* What the sessions of one process have in common. */
struct session_shared {
	struct uw_kallsyms *kallsyms;
	size_t n_users;	  /* of these */
	uint64_t left_at; /* CLOCK_MONOTONIC: by the last user */
	struct consent *consent;
	struct session *sessions;
};

struct session {
	struct session_options options;
	enum session_state state;
	int error;
	char why[256];
	struct loop *loop;
	struct sink *sink;

	struct perf_source *source;
	uint32_t *own_cpus, *scope_pids;
	size_t n_scope_pids;
	size_t living; /* index of one of these that was alive when last looked at */
	bool stood_in; /* CPU-wide events with a filter in place of tasks */
	struct session_own {
		bool wanted;		  /* options.machine with options.tasks_only */
		struct procfs_pids *walk; /* through /proc; NULL: between two walks */
		uint32_t n_walks;	  /* completed */
		uint64_t next_at;	  /* CLOCK_MONOTONIC: the next walk */
		size_t n_processes, n_left_out;
		bool full;	/* no descriptor is left for more */
		uint32_t *scan; /* opened and not yet given to the reader */
		size_t n_scan, scan_room;
	} own;
	struct uw_modules *modules;
	struct process_table *processes;
	struct uw_kallsyms *kallsyms; /* may be options.shared's */
	struct writer *writer;
	struct writer_event followers[PERF_MAX_FOLLOWERS];
	struct loader *loader;
	struct memory_guard *memory_guard; /* the unwinder's */
	struct reader *reader;
	struct unwind_stage *unwinder;
	struct emit *emit;
	struct slot_queue entries;
	struct byte_queue outcomes;
	struct waker unwinder_waker, main_waker;
	struct account account;

	struct session_ring *rings;
	size_t n_rings;
	struct loop_source main_source;
	struct loop_timer tick, poll;
	uint64_t second_at;	    /* CLOCK_MONOTONIC: what is done once a second is due */
	uint64_t clear_at, trim_at; /* the same: options.clear_ms; 0: not */
	uint32_t loaded;	    /* modules since the guardrail was last looked at */
	int nice;		    /* of main, as it came out */
	bool drain_sent, drained;
	uint64_t started_at, stopped_at, deadline; /* CLOCK_MONOTONIC */
	uint64_t worked_at;			   /* the same */
	uint64_t used_at_start,
		used_at_stop;	   /* CPU time used by the targets, ns (session_used_ns) */
	uint64_t cpu_at_start;	   /* own */
	struct perf_counts counts; /* final once stopped */
	uint64_t counts_due;	   /* CLOCK_MONOTONIC: not read again before */
	uint64_t answers_before[HOOK_VERDICTS]; /* consent_counts() when it was made */
	struct adapt *adapt;			/* by CPU index in own order; machine only */
	size_t n_adapt;
	/* modules that could not be read, to be tried again through another process */
	struct session_retry {
		struct uw_module *module; /* a reference */
		uint32_t tries;
		uint64_t due; /* CLOCK_MONOTONIC */
	} * retries;
	size_t n_retries, retries_room;
	struct session_flushes flushes;
	bool told_done;
	struct session *next_shared; /* in options.shared */
	bool reporting, freed;	     /* freed by a callback: the struct itself goes after it */
	bool raw_failed;
	bool jit_told; /* that a perf map was refused */
	char *notes[SESSION_NOTES];
	size_t n_notes;
};

static inline void session_note_line(void *arg, const char *line)
{
	session_note(arg, "%s", line);
}

/* Is the kernel left out, because that was asked for or because nothing else is permitted? */
static inline bool session_user_only(const struct session *session)
{
	return perf_source_user_only(session->source) || session->options.user_only ||
	       session->options.specs[0].exclude_kernel;
}

/* No sample lies longer in a ring. */
static inline uint64_t session_read_ns(const struct session *session)
{
	uint32_t ms = session->options.read_ms;

	return min_u64(ms ? ms : SESSION_TICK_MS, 1000) * NSEC_PER_MSEC;
}

/* FRAMES_*: the frames that samples have. */
static inline unsigned session_frames(const struct session *session)
{
	const struct session_options *so = &session->options;

	return so->kernel_only || so->poll_ms ? so->frames & FRAMES_KERNEL : so->frames;
}

/* Are the rings still read? */
static inline bool session_reads(const struct session *session)
{
	return session->state == SESSION_RUNNING ||
	       (session->state == SESSION_DRAINING && !session->drain_sent);
}

/* session.c: the rings, wakers and tick into the loop; out of it again, except for the waker */
int session_join_loop(struct session *session);
void session_leave_loop(struct session *session);
/* The first failure is the one that is told; what was recorded is brought to its end. */
void session_fail(struct session *session, int r, const char *what);

/* session-flush.c */
/* The loop comes back to this session soon. */
void session_wake(struct session *session);
/* After a round of the reader; @all_read: nothing was left. */
int session_flush_send(struct session *session, bool all_read);
void session_flush_answered(struct session *session, uint64_t number);
/* Flushes the sink for those that are through. */
int session_flush_sink(struct session *session);
/* Calls back what is due.  The last thing that a callback of the loop does: the session may be gone
 * after it. */
void session_report(struct session *session);

/* session-open.c: the events for the targets, and who they are. */
int session_open_source(struct session *session, char *error, size_t error_size);

/* For the events of all tasks. */
uint64_t session_descriptors(const struct session *session);

/* session-own.c: the events of all processes that options.allowed() allows. */
int session_own_open(struct session *session, char *error, size_t error_size);
/* Processes that are new, as far as a turn goes. */
int session_own_turn(struct session *session);
void session_own_deinit(struct session *session);

/* session-poll.c */
int session_poll_start(struct session *session);
int session_poll_counters(struct session *session);

/* session-raw.c: options.raw */
int session_raw_start(struct session *session);
void session_raw_record(void *arg, bool sideband, const struct perf_event_header *record);
/* What a process had mapped before its records were told. */
void session_raw_process(struct session *session, const struct load_answer *answer);

/* session-kallsyms.c */
void session_load_kallsyms(struct session *session);
void session_drop_kallsyms(struct session *session);
/* Who asks processes that may not be read; NULL: nobody. */
struct consent *session_consent(const struct session *session);

/* session-retry.c */
int session_unreadable(struct session *session, struct uw_module *module);
int session_retry(struct session *session);
void session_retry_deinit(struct session *session);

/* session-memory.c */
/* RssAnon and VmSwap of a /proc/PID/status, kB; 0 unless both are told. */
uint64_t session_status_memory_kb(const char *text);
/* Into the list of those that share, and out of it. */
void session_share(struct session *session);
void session_unshare(struct session *session);
/* Memory that is free goes back to the kernel. */
void session_give_back(void);
/* Is it the one to end, of those that share, when there is too little memory for all? */
bool session_holds_most(const struct session *session);
/* The guardrail. */
int session_keep_memory_small(struct session *session);

/* session-stats.c */
uint64_t session_own_cpu_ns(void);
uint64_t session_used_ns(const struct session *session);
/* Once a second: statistics into the trace, limits kept. */
int session_second(struct session *session);
int session_write_stats(struct session *session);
/* For the trace, not told; false: it is there, or there are too many. */
bool session_keep_note(struct session *session, const char *line);
