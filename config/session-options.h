/* session-options.h - the options of one session (session/session.h): what it samples, of which
 * processes, within which limits.  Written by a command's options, by a TraceConfig (perf-config.h) or
 * by a request of the control socket.  Thread: main. */
#pragma once

#include "base/features.h"
#include "perf/source.h"
#include "unwinder/unwinder.h"

struct consent;
struct ftrace_print;
struct mark_rings;
struct shared_counts;
struct perfdata_out;
struct session_shared;

struct session_options {
	bool machine;	      /* else the tasks */
	const uint32_t *pids; /* tasks: whole processes */
	size_t n_pids;
	const uint32_t
		*tids;	/* tasks: of these processes only these threads, without what they start */
	size_t n_tids;	/* 0: all */
	uint32_t child; /* or one child of ours that waits before its exec; 0: none */
	bool children;	/* follow forks */
	/* Never events of whole CPUs, which cost every process of the machine: too many tasks are
	 * refused.  With `machine` the tasks are all processes that allowed() allows and what they
	 * start (session-targets.c); the processes that do not fit are left out, with a note. */
	bool tasks_only;
	const struct perf_spec *specs; /* the first is sampled; borrowed while the session lives */
	size_t n_specs;
	/* What threads wait for (session/pipeline/waits.h).  specs[0] is then a dummy (off CPU), or a clock
	 * with a period (wall), and the weights are ns of waiting, or of waiting and running. */
	enum session_waits { SESSION_WAITS_NONE, SESSION_WAITS_OFF_CPU, SESSION_WAITS_WALL } waits;
	uint64_t
		waking; /* ... the id of sched:sched_waking: runnable time is known; 0: it is not */
	bool wakers; /* ... with it: the stack of the task that ended a wait is shown with that of the wait */
	uint64_t period, frequency;
	uint32_t stack_bytes; /* 0: chosen (tasks: 65,528; machine: adapted from 16 KiB) */
	unsigned
		code; /* FRAMES_*: samples are taken there, as far as specs[0] counts there; 0: nowhere */
	bool idle;
	bool native_frames; /* Python: frames of the evaluation loop are kept */
	int clock;
	const uint32_t *cpus; /* NULL: all online */
	size_t n_cpus;
	enum uw_engine_kind engine;
	struct features features;
	bool kernel_build_ids; /* perf_options.kernel_build_ids */
	bool realtime;	       /* SCHED_RR for the threads of the pipeline; else a better nice value
				where allowed */
	uint64_t ring_bytes;   /* 0: chosen */
	uint64_t ring_budget;  /* of all rings; 0: 256 MiB */
	/* tasks: with the descendants; past it the session is refused.  0: any number. */
	uint32_t max_processes;
	/* tasks: of events for each thread on each CPU.  Past half of it whole CPUs stand in, as they
	 * do for half of the process's own limit; past all of it, or where they may not, the session
	 * is refused.  Never more than an eighth of the process's own limit.  0: no limit but that. */
	uint32_t max_descriptors;
	const char *proc_root; /* "" */

	/* ---- as a data source of a tracing service ---- */
	/* The service writes clock snapshots, system info, uuid and the sequence id. */
	bool producer;
	/* FRAMES_*: frames in the stacks.  0: counters only.  Without kernel frames, kernel threads are out of scope. */
	unsigned frames;
	/* Inlined calls and source lines are looked up by a producer too: dearer than all the rest,
	 * and what a service's readers do afterwards. */
	bool lines;
	bool no_lines; /* never */
	/* Not 0: nothing is sampled, the counters of each CPU are read at this period. */
	uint32_t poll_ms;
	/* machine: which processes.  Asked once for each incarnation of a process: a fork begins
	 * one, and so does an exec.  @cmdline: as in /proc (NUL-separated), NULL when there is
	 * none (a kernel thread) or it cannot be read; only asked for when wanted_by_cmdline. NULL:
	 * all.  Samples of the others are in the trace without a stack, as not in scope. */
	bool (*wanted)(void *arg, uint32_t pid, const char *cmdline, size_t len);
	bool wanted_by_cmdline;
	void *wanted_arg; /* borrowed while the session lives */
	/* Which processes may be shown, as they are at the time (policy.h): asked for each incarnation,
	 * and again from 100 ms on, as a process may become another user's without an exec.  The
	 * mappings and memory of others are not opened, their samples left out as not allowed.
	 * NULL: all may. */
	bool (*allowed)(void *arg, uint32_t pid);
	void *allowed_arg;   /* borrowed while the session lives */
	bool consent_allows; /* others are asked for their consent; what they give is used */
	uint32_t shard_count, shard; /* recorded in the trace; wanted() chooses */
	uint32_t read_ms;	     /* no sample lies longer in a ring; 0: 100 */
	uint32_t maps_wait_ms; /* how long a sample waits for its process's mappings; 0: 100 */
	uint32_t clear_ms;     /* the unwinder's caches are dropped at this period; 0: never */
	/* Own memory past this ends the session, with the reason in the trace; 0: 256 MiB, and of
	 * the sessions of options.shared that one ends which holds most, of the owner of the sessions that
	 * hold most. */
	uint64_t memory_kb;
	bool goes_on; /* also where its memory cgroup fills up: a flight recorder, with memory that was touched before */
	/* Own CPU time, of one CPU, over 10 s after the first seconds: above it samples are left out, and their weight is added
	 * to the others.  Parts in a million; 0: no limit.  Not with `waits`. */
	uint32_t max_cpu_ppm;
	uint32_t owner; /* user id */
	/* Bytes that are kept for it outside.  NULL: none. */
	uint64_t (*holds)(void *arg);
	void *holds_arg;
	/* Bytes of stacks in the queue to the unwinder; past it samples are skipped; 0: the rings'
	 * sizes are the limit. */
	uint64_t enqueued_bytes;
	uint32_t
		n_sources; /* of one recording: they share the memory that may be locked; 0: this one alone */
	bool addresses; /* kernel frames are written with their addresses, which reveal where the kernel lies */
	/* Nothing is sampled before session_sample(); processes are followed.  Not with child. */
	bool armed;
	bool ignore_open_failure; /* CPUs without events are left out; with none left
				     it runs all the same */
	/* The program that runs at each sample; borrowed while the session lives.  NULL: none. */
	struct at_sample *at_sample;
	/* Asks processes that may not be read; borrowed while the session lives, NULL: they are not
	 * asked. */
	struct consent *consent;
	struct session_shared
		*shared; /* borrowed while the session lives; NULL: nothing is shared */
	/* Marks of targets, borrowed while the session lives; NULL: none.  Shorter slices of functions are left out. */
	struct mark_rings *mark_rings;
	/* What programs write to trace_marker; borrowed, only with mark_rings; NULL: it is not read. */
	struct ftrace_print *ftrace_print;
	/* Marks by name, for the process that started this one; borrowed, NULL: they are not counted. */
	struct shared_counts *mark_counts;
	uint64_t min_duration_ns;
	/* Receives every record unchanged; borrowed while the session lives.  NULL: none. */
	struct perfdata_out *raw;
	/* Which packet sequence of a file it writes: several sessions may share a sink, each with a number of its own.  0: the
	 * first. */
	uint32_t sequence;
	/* A step down of the owner: printed and kept in the trace like steps of the session.  NULL: none. */
	const char *note, *note_brief; /* note_brief: as of noted() */
	/* Lines for a person, each once, as they come: also while session_new() runs.  NULL: they
	 * are logged.  @brief: a limit of the machine or user in a few words, which can stand for the line; or NULL. */
	void (*noted)(void *arg, const char *brief, const char *line);
	void *noted_arg;
	/* It has no timer while its targets sleep: @on when that begins, and when it ends.  NULL: not needed. */
	void (*asleep)(void *arg, bool on);
	void *asleep_arg;
	/* It is DONE. */
	void (*done)(void *arg);
	void *done_arg;
};
