/* session-private.h - one session, for session*.c only.  Thread: main. */
#pragma once

#include <pthread.h>

#include "trace/writer.h"
#include "session/consent/consent.h"
#include "proc/procmem.h"
#include "session/session.h"
#include "session/pipeline/adapt.h"
#include "session/pipeline/emit.h"
#include "session/pipeline/reader.h"
#include "session/pipeline/unwind.h"
#include "session/pipeline/waits.h"

enum {
	SESSION_TICK_MS = 100,
	SESSION_CALM_MS = 500, /* the rings are read so often while nothing depends on it */
	/* At first: frames of Python are copied once its layout is known, stacks deeper than their copies are not known yet, and
	 * short programs end soon. */
	SESSION_EARLY_MS = 5,
	SESSION_EARLY_TICKS = 100,
	SESSION_ENTRIES = 2048,		 /* slots to the unwinder: all of this memory is in use */
	SESSION_OUTCOME_BYTES = 2 << 20, /* of the queue back */
	SESSION_PARK_BYTES = 16 << 20,
	SESSION_COPY_BYTES = 16 << 20,
	SESSION_PROCESSES = 4096,
	SESSION_FILES = 8,	  /* one descriptor in eight may be kept by an image */
	SESSION_CACHE_IDLE_S = 5, /* a module that was used since stays */
#ifdef __SANITIZE_THREAD__
	SESSION_MEMORY_KB = 4 << 20, /* with shadow memory, several times our own */
#else
	SESSION_MEMORY_KB = 256 << 10, /* own memory without rings; the session ends above it */
#endif
	SESSION_MACHINE_NEEDS = 128 << 20, /* all of perfwind, in a memory cgroup */
	SESSION_TASKS_NEED = 48 << 20,
	SESSION_ENDED = 512, /* processes that have ended and are remembered for a second */
	SESSION_MAPS_WAIT_MS = 100,
	SESSION_MODULE_WAIT_MS = 1000,
	SESSION_DRAIN_MS = 3000, /* bound on DRAINING */
	SESSION_FULL_MS = 100,	 /* ... and where the memory cgroup is full, as files need memory */
	SESSION_NAMING_MS = 1500,    /* bound on NAMING: "symbolised within 2 s of the stop" */
	SESSION_MEMORY_READ_MS = 20, /* the unwinder waits for it */
	SESSION_RETRIES = 8,	     /* of a module that could not be read */
	SESSION_GUARDED_LOADS = 8,   /* modules until the memory limit is checked again */
	SESSION_NICE = -10,	     /* of the threads of the pipeline, where allowed */
	SESSION_NOTES = 64,
	SESSION_RINGS_BYTES = 256 << 20, /* the budget of all rings */
	SESSION_BUDGET_S = 10,		 /* --max-cpu is kept over this time */
	SESSION_SAVING_MS = 500,	 /* the tick of a session that has to keep it */
	SESSION_PROGRAM_RINGS = 2,	 /* of the BPF program: deep stacks, functions */
};

struct session_ring {
	struct loop_source source;
	struct session *session;
};

struct session_flush {
	void (*flushed)(void *arg);
	void *arg;
	uint64_t number, round; /* of the reader: the first that takes all earlier samples */
	uint64_t asked_at;	/* CLOCK_MONOTONIC */
};
/* In order of request: the first n_due are done and their callbacks are due; the first n_sent have
 * been sent to the unwinder. */
struct session_flushes {
	struct session_flush *items;
	size_t n, room, n_sent, n_due;
	uint64_t last, sent, answered; /* numbers */
};

/* Shared by the sessions of one process. */
struct session_shared {
	struct uw_kernel_names *kernel_names;
	pthread_t names_reader; /* with reads_names: main only adds names then */
	bool reads_names;
	size_t n_users;	  /* of the names */
	uint64_t left_at; /* CLOCK_MONOTONIC: when the last user dropped them */
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
	size_t living; /* index of a process of scope_pids that was last seen alive */
	bool stood_in; /* CPU-wide events with a filter in place of tasks */
	struct session_own {
		bool wanted;		  /* options.machine with options.tasks_only */
		struct procfs_pids *walk; /* through /proc; NULL: between two walks */
		uint32_t n_walks;	  /* completed */
		uint64_t next_at;	  /* CLOCK_MONOTONIC: the next walk */
		size_t n_processes, n_unrecorded;
		bool full;	/* no descriptor is left */
		uint32_t *scan; /* opened, not yet passed to the reader */
		size_t n_scan, scan_room;
	} own;
	struct uw_modules *modules;
	struct process_table *processes;
	struct uw_kernel_names *kernel_names; /* may be options.shared's */
	struct writer *writer;
	struct writer_event followers[PERF_MAX_FOLLOWERS];
	struct loader *loader;
	struct memory_guard *memory_guard; /* the unwinder's */
	bool has_spare;			   /* child_spare() */
	struct reader *reader;
	struct unwind_stage *unwinder;
	struct emit *emit;
	struct waits *waits;	     /* options.waits; NULL: none */
	struct session_marks *marks; /* options.mark_rings; NULL: none */
	struct {
		uint64_t at, many_at; /* CLOCK_MONOTONIC: of the last look; of the last with many */
		uint64_t waits;	      /* account.waits then */
		uint32_t looks;	      /* in a row that found too many */
	} thin;
	struct {
		uint64_t lost; /* account.lost_sideband_records at the last look */
		uint32_t rounds, seconds;
	} gone; /* processes that ended in lost records */
	struct slot_queue entries;
	struct byte_queue outcomes;
	struct session_hold {	   /* session-output.c */
		uint64_t since;	   /* CLOCK_MONOTONIC: since when outcomes wait; 0: none does */
		uint64_t looked;   /* position in the queue: requests up to there were taken */
		uint64_t given_up; /* ... outcomes up to there do not wait */
	} hold;
	struct waker unwinder_waker, main_waker;
	struct account account;

	struct session_ring *rings;
	size_t n_rings;
	struct loop_source main_source;
	struct loop_timer tick, poll;
	struct session_budget {			  /* session-budget.c */
		uint64_t window_at, turn_at;	  /* CLOCK_MONOTONIC: of the last */
		uint64_t allowed;		  /* samples in a window; UINT64_MAX: all */
		uint64_t spent, queued, received; /* at turn_at */
		uint64_t sample_ns;		  /* what one has cost, all in all */
		uint64_t main_ns, entered;	  /* CPU time of this session in main */
		uint64_t rate;			  /* options.frequency by request; 0: it stays */
		bool saving;			  /* smaller copies, fewer wake-ups */
		uint32_t steps;	 /* the rate is divided by PERF_RATE_STEP so many times */
		uint32_t spare;	 /* seconds in a row that left much of the budget */
		bool lowered;	 /* the rate, once */
		bool exceeded;	 /* it was reported that the budget cannot be kept */
		uint64_t clock;	 /* used time at the last look */
		int64_t missing; /* used time that is in no sample, at the last look */
		uint64_t used[SESSION_BUDGET_S];
		uint64_t n_turns;
	} budget;
	struct loop_source program; /* of at_sample_want(), while it is loaded */
	struct session_idle {	    /* session-pace.c */
		enum { SESSION_AWAKE, SESSION_LISTENING, SESSION_ASLEEP } state;
		uint64_t quiet_at;	   /* CLOCK_MONOTONIC: since when there is nothing to do */
		uint64_t received;	   /* account.received at the last tick */
		struct session_ring *ends; /* by task, while asleep */
		size_t n_ends;
	} idle;
	uint32_t early_ticks;	    /* left, of SESSION_EARLY_MS */
	uint64_t second_at;	    /* CLOCK_MONOTONIC: the next session_second() */
	uint64_t clear_at, trim_at; /* the same, for options.clear_ms; 0: none */
	uint32_t loaded;	    /* modules since the last check of the memory limit */
	struct session_relief {
		uint64_t at;	   /* CLOCK_MONOTONIC: of the last; 0: there was none */
		uint64_t grown_at; /* the same of one where memory had grown, far from the limit */
		uint64_t times;
		enum { RELIEF_NONE, RELIEF_MODULES, RELIEF_TRIM } next; /* step */
		uint64_t
			settled_kb; /* own memory a minute after it, or after the start; 0: not yet */
		uint64_t
			cgroup_low; /* bytes left in the memory cgroup that are little; 0: it has no limit */
		uint64_t looked; /* CLOCK_MONOTONIC: at the cgroup */
		bool near;	 /* it was not far from the limit then */
		bool full;	 /* the recording ends for it */
	} relief;
	int nice; /* of main, after the request */
	bool drain_sent, drained;
	uint64_t started_at, stopped_at, deadline; /* CLOCK_MONOTONIC */
	uint64_t worked_at;			   /* the same */
	uint64_t urgent_at; /* the same: something depended on the next reading (session-pace.c) */
	bool never_calm;
	uint64_t eager_until, tick_due; /* the same (session-copies.c); 0: ticks are as usual */
	uint64_t *
		soon_until; /* the same, by CPU index of the source; 0: its samples wake main in groups */
	size_t n_soon;	      /* CPUs with a sample at a time */
	uint64_t names_until; /* the same: functions are in a sample for the first time; 0: not */
	uint64_t used_at_start,
		used_at_stop;	   /* CPU time used by the targets, ns (session_used_ns) */
	uint64_t cpu_at_start;	   /* own */
	struct perf_counts counts; /* final once stopped */
	uint64_t counts_due;	   /* CLOCK_MONOTONIC: the next read of the counts */
	uint64_t helpers_peak_kb, helpers_peak_due; /* CLOCK_MONOTONIC */
	uint64_t answers_before[HOOK_VERDICTS];	    /* consent_counts() at the start */
	struct adapt *adapt;			    /* by CPU index of the source */
	size_t n_adapt;
	/* modules that could not be read, to be tried again through another process */
	struct session_retry {
		struct uw_module *module; /* a reference */
		uint32_t tries;
		uint64_t due; /* CLOCK_MONOTONIC */
	} * retries;
	size_t n_retries, retries_room;
	struct session_flushes flushes;
	bool reported_done;
	struct session *next_shared; /* in options.shared */
	bool reporting, freed;	     /* freed by a callback: the struct itself goes after it */
	bool raw_failed;
	bool jit_noted; /* a rejected perf map was reported */
	bool python_noted;
	bool vm_noted; /* the same for a Java VM that could not be read */
	char *notes[SESSION_NOTES];
	size_t n_notes;
};

/* A part of a session, and what it does at each step: NULL, or nothing where the options do not ask for it.  session.c
 * has the table. */
struct session_part {
	int (*make)(struct session *s);	 /* the events are open; there is no reader yet */
	int (*start)(struct session *s); /* the events are on */
	int (*outcome)(struct session *s, const struct outcome *o); /* of each sample */
	/* SESSION_TICK_ENDS: only the rings were due. */
	int (*tick)(struct session *s, uint64_t now);
	int (*stop)(struct session *s);	  /* all outcomes were taken */
	int (*finish)(struct session *s); /* all symbols have come */
};
enum { SESSION_TICK_ENDS = 1 };
extern const struct session_part session_copies, session_waits, session_marks;
int session_parts_outcome(struct session *s, const struct outcome *o);

/* session-copies.c: stacks beyond the kernel's copies (perf/at-sample.h).  NULL: not copied. */
struct deep *session_deep(const struct session *s);
struct python_stacks *session_python(const struct session *s);
/* Adds the ring of deep stacks to the loop, where there is one. */
int session_deep_join(struct session *s);
/* The layout of a process's Python is known: its frames are copied from now on. */
void session_script_answer(struct session *s, const struct load_answer *a);
/* A stack or an interpreter needs @parts of the program at samples, as at_sample_want(): loads one that is to be loaded later. */
void session_want_program(struct session *s, uint32_t parts);
/* No size of stack copies was requested, and it may change while the session runs. */
bool session_may_choose_copies(const struct session_options *options);
/* adapt_save() on all CPUs. */
void session_adapt_save(struct session *s, bool on);
/* May samples of stacks beyond their copies wake main at once? */
bool session_may_read_soon(const struct session_options *options);

/* session-output.c: takes what the unwinder has answered; how many. */
int session_take_outcomes(struct session *s, size_t *ret_n);

/* session.c: a ring has records. */
int session_ring_ready(struct loop_source *source, uint32_t events);

/* session-budget.c: options.max_cpu_ppm, and fair shares while rings fill up. */
void session_budget_start(struct session *s);
void session_budget_tick(struct session *s, uint64_t now);
/* Each second, after the counts were read. */
void session_budget_make_up(struct session *s);
/* The same without a budget: after the rings were read. */
void session_budget_add_skipped(struct session *s, uint64_t now);
/* Around the session's work in main. */
void session_budget_enter(struct session *s);
void session_budget_leave(struct session *s);

/* session-pace.c: the rings are read less often while nothing depends on it. */
bool session_has_records(const struct session *s, bool sideband);
void session_pace_answer(struct session *s, const struct load_answer *answer);
/* Each tick; true: no reading is due. */
bool session_is_calm(struct session *s, uint64_t now);

/* Each tick; true: the session is to sleep once the work of a second is done. */
bool session_idle_tick(struct session *s, uint64_t now);
void session_sleep(struct session *s);
/* Ends the sleep; does nothing otherwise. */
void session_wake_up(struct session *s);
void session_idle_deinit(struct session *s);

static inline void session_note_line(void *arg, const char *line)
{
	session_limit(arg, NULL, line);
}

/* FRAMES_*: the code in which samples are taken, as requested and permitted. */
static inline unsigned session_code(const struct session *session)
{
	return perf_source_options(session->source)->leader.code;
}

/* Frames are read after their samples: the sooner, the fewer are those of other calls.  --max-cpu goes before that. */
static inline bool session_is_early(const struct session *session)
{
	return session->early_ticks && !session->budget.saving;
}

/* No sample stays in a ring for longer. */
static inline uint64_t session_read_ns(const struct session *session)
{
	uint32_t ms = session_is_early(session) ? SESSION_EARLY_MS : session->options.read_ms;

	if (session->budget.saving)
		ms = (uint32_t)max_u64(ms, SESSION_SAVING_MS);
	return min_u64(ms ? ms : SESSION_TICK_MS, 1000) * NSEC_PER_MSEC;
}

/* FRAMES_*: the frames that samples have. */
static inline unsigned session_frames(const struct session *session)
{
	const struct session_options *so = &session->options;

	return so->poll_ms ? so->frames & FRAMES_KERNEL : so->frames;
}

/* Are the rings still read? */
static inline bool session_reads(const struct session *session)
{
	return session->state == SESSION_RUNNING ||
	       (session->state == SESSION_DRAINING && !session->drain_sent);
}

/* session-targets.c: the events of the targets, and the list of these. */
int session_open_targets(struct session *session, char *error, size_t error_size);
/* One step of the search for new processes of the requester. */
int session_own_turn(struct session *session);
void session_targets_deinit(struct session *session);

/* options.raw: the unchanged records. */
int session_raw_start(struct session *session);
void session_raw_record(void *arg, bool sideband, const struct perf_event_header *record);
/* The earlier mappings of a process, before its records. */
void session_raw_process(struct session *session, const struct load_answer *answer);

int session_make_writer(struct session *session);

/* A thread has ended, as the reader reports it. */
void session_marks_exited(void *session, uint32_t pid, uint32_t tid, uint64_t time);
void session_marks_free(struct session *s);

/* session-shared.c */
/* Adds it to the sessions of options.shared; removes it, and its use of the kernel's symbols. */
void session_share(struct session *session);
void session_unshare(struct session *session);
void session_open_kernel_names(struct session *session);
/* Are they read?  @wait: then they are.  A thread reads those that sessions share. */
bool session_kernel_names_read(struct session *session, bool wait);
/* The user's cache folder (base/cache-dir.h), for the caller to close; < 0: none. */
int session_cache(const struct session *session);
/* Reports names that were needed and could not be read. */
void session_check_kernel_names(struct session *session);
/* Asks processes that may not be read; NULL: none is asked. */
struct consent *session_consent(const struct session *session);
/* RssAnon and VmSwap of a /proc/PID/status, kB; 0 if it lacks one. */
uint64_t session_status_memory_kb(const char *text);
/* Is this the session to end when there is too little memory for all that share it? */
bool session_holds_most(const struct session *session);
/* At the start: its limit is what the memory cgroup has, or it fails with a line. */
int session_fit_memory(struct session *s, char *error, size_t error_size);
/* Has own memory, now @kb, grown so far that it is given back?  @since: ns, since the start or the last relief.  *@settled_kb: what it
 * was when all in use had been read; 0 before that. */
bool session_memory_grown(uint64_t *settled_kb, uint64_t kb, uint64_t since);
/* Gives memory back before the session reaches its limit, and ends it where that does not help. */
int session_keep_memory_small(struct session *session);
/* The same before its memory cgroup reaches its limit, whatever fills it; at the end it stops reading names there.  About each second,
 * and at each turn while relief.near or names are read. */
int session_keep_cgroup(struct session *session);
/* What to do with @left bytes of a memory cgroup, of which less than @low is little.  @since_relief: ns; UINT64_MAX: none yet. */
enum session_cgroup { SESSION_CGROUP_FITS, SESSION_CGROUP_RELIEVE, SESSION_CGROUP_END };
enum session_cgroup session_cgroup_step(uint64_t left, uint64_t low, uint64_t since_relief);

/* session-stats.c */
/* Into counts, where that is affordable. */
void session_read_counts(struct session *s, uint64_t now);
uint64_t session_own_cpu_ns(void);
/* User and system time of the session's helper processes. */
uint64_t session_helpers_cpu_ns(const struct session *session);
uint64_t session_used_ns(const struct session *session);
/* Once a second: statistics into the trace, limits kept. */
int session_second(struct session *session);
int session_write_stats(struct session *session);
/* For the trace and the summary only; false: a duplicate, or there are too many. */
bool session_keep_note(struct session *session, const char *line);
/* Notes on what an answer of the loader lacks. */
void session_note_answer(struct session *session, const struct load_answer *answer);
/* A module could not be read: it is tried again later. */
int session_unreadable(struct session *session, struct uw_module *module);
int session_retry(struct session *session);
void session_retry_deinit(struct session *session);
