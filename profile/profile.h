/* profile.h - a trace read back: stacks, weights, names.  Thread: main (of a command).
 *
 * Reads what perfwind writes and what a stock service writes (several sequences, incremental state,
 * several clocks, ProcessTree, ModuleSymbols, losses).  Everything in the file is foreign: bounded
 * and checked.  Reading and writing a trace below 100 MiB take less than 512 MB of memory, whatever
 * is in it; of larger ones in proportion (profile.c). */
#pragma once

#include "base/table.h"
#include "protos/frame-kind.h"

struct profile_line { /* ids in strings; 0: none */
	uint32_t function, file, line;
	uint32_t
		kind; /* enum frame_kind, of the code; FRAME_NATIVE also of the kernel's and of inlined calls */
};
struct profile_module {
	uint32_t path; /* string */
	uint8_t build_id[64];
	uint32_t build_id_len;
	bool kernel;
	uint64_t load_bias;
};
struct profile_frame {
	uint32_t module; /* index in modules; UINT32_MAX: none */
	uint64_t rel_pc;
	uint32_t first_line,
		n_lines; /* in lines, innermost first; n_lines >= 1 (function 0: no name) */
	bool guessed;	 /* found without unwind information, or by an earlier stack */
};
/* Its address in the module, or of JIT code in the process: without the number of the use of that address
 * (session/pipeline/jit-epochs.h), which no address of the kernel (bits 62 to 47 set) has. */
static inline uint64_t profile_frame_address(const struct profile_frame *frame)
{
	return (frame->rel_pc >> 47 & 0xffff) == 0xffff ? frame->rel_pc
							: frame->rel_pc & ((1ull << 48) - 1);
}
/* All stacks are one tree: a stack is the node of its innermost call, and `up` leads to its root. */
struct profile_node {
	uint32_t up; /* the caller, always before this node; UINT32_MAX: a root */
	uint32_t frame;
};
struct profile_sample { /* 32 bytes: there are millions */
	uint64_t time;	/* trace time (BOOTTIME) ns */
	uint64_t weight;
	uint32_t thread; /* in threads, and so of a process: as they were then */
	uint32_t stack;	 /* in nodes; UINT32_MAX: none */
	uint16_t cpu;	 /* UINT16_MAX: that or more */
	uint8_t cpu_mode, skipped_reason, unwind_error;
	uint8_t session;
	uint8_t event;	 /* in events */
	uint8_t in_mark; /* PROFILE_DURING, PROFILE_INSIDE: profile_mark_samples() */
};
enum { PROFILE_DURING = 1, PROFILE_INSIDE = 2 };
/* What is counted: weights of two events cannot be added. */
struct profile_event {
	char name[128]; /* "cpu-clock", ... */
	char unit[16];	/* of weights: "ns", "cycles" or "events" */
	uint64_t n_samples;
};
/* An event that was counted with the samples of another (a group's follower). */
struct profile_follower {
	uint32_t name;	/* string */
	uint8_t event;	/* in events: the one it follows */
	uint64_t count; /* from its opening to the last sample, of all CPUs (and threads) */
};
/* A thread under one name: one that is renamed has several. */
struct profile_thread {
	uint32_t process, tid, name; /* name: string */
};
/* One incarnation of a pid: exec and reuse begin another. */
struct profile_process {
	uint32_t pid, ppid, name; /* name: base name of argv0, or comm */
	uint32_t cmdline;
	uint32_t cgroup; /* its path; 0: unknown */
	bool kernel_thread;
};
/* A row of the table of tasks, or a process's end (record --collect tasks). */
#define PROFILE_TASK_NONE UINT64_MAX /* unknown, or refused by the kernel */
#define PROFILE_TASK_NO_OOM INT16_MIN
struct profile_task {
	uint32_t pid, comm, cgroup; /* strings, 0: unknown */
	uint64_t utime_ns, stime_ns, read_bytes, write_bytes, cancelled_write_bytes;
	int16_t oom_score_adj;
	bool ended;
};
/* Where marks stand (docs/marks.md): a thread's own, or one of a process (tid 0). */
struct profile_track {
	uint32_t pid, tid, name;	    /* name: string, 0: the thread's or process's own */
	uint32_t first_section, n_sections; /* in sections */
	uint64_t uuid;
	bool counter;
};
enum profile_mark_type { /* TrackEvent.Type */
			 PROFILE_MARK_BEGIN = 1,
			 PROFILE_MARK_END,
			 PROFILE_MARK_INSTANT,
			 PROFILE_MARK_COUNTER
};
struct profile_mark {
	uint64_t time;		     /* as of samples */
	int64_t value;		     /* of a counter */
	uint32_t track, name, order; /* order: among marks of one time */
	uint8_t type, clock;
};
/* A slice of a track. */
struct profile_section {
	uint64_t begin, end;
	uint32_t track, name;
	uint32_t up; /* the one around it on its track; UINT32_MAX: none */
};
struct profile_stat {
	uint32_t name;
	double value;
};
/* A row of what trace_processor calls stats (profile/trace-stats.h). */
struct profile_count {
	uint32_t stat; /* enum trace_stat */
	int32_t index; /* -1: none */
	uint64_t value;
};

/* What reading and writing may hold.  Its owner may be read-only: the reason is written all the same. */
struct profile_memory {
	uint64_t held, limit; /* bytes: of the profile; of it and all that a writer makes of it */
	uint64_t scale;	      /* 100 MiB, or the trace's size where that is more */
	char why[192];	      /* of -E2BIG: the bound, one line for the user */
};

struct profile {
	struct string_table strings;
	struct profile_module *modules;
	struct profile_frame *frames;
	struct profile_line *lines;
	struct profile_node *nodes;
	struct profile_sample *samples; /* by time; of the chosen event only */
	struct profile_sample
		*all_samples;	      /* by event and time, `samples` is in it; NULL: one event */
	struct profile_event *events; /* that have samples, by the first one's place in the file */
	struct profile_follower *followers;
	struct profile_thread *threads;
	struct profile_process *processes;
	struct profile_task *tasks; /* as they stand in the file */
	struct profile_track *tracks;
	struct profile_mark *marks;	  /* by time; without waits (category "wait") */
	struct profile_section *sections; /* by track and begin */
	struct profile_stat *stats;	  /* perfwind's own, last values */
	struct profile_count *counts;	  /* by stat and index */
	uint32_t *notes;
	struct profile_memory *memory; /* NULL: no bounds */
	size_t n_tracks, n_marks, n_sections, n_tasks, n_counts, n_modules, n_frames, n_lines,
		n_nodes, n_samples, n_threads, n_processes, n_stats, n_notes, n_all_samples,
		n_events, n_followers;
	uint8_t event;	      /* the chosen one */
	char event_name[128]; /* its, also where there are no samples */
	char weight_unit[16];
	uint64_t lost_records; /* kernel_records_lost packets */
	uint64_t
		truncated_at; /* 0: the file is whole; else the offset of the first broken packet */
	bool latest_only;     /* of a flight recorder: earlier samples were not kept */
	struct profile_end {
		uint64_t cut;	    /* recordings in the file that have no end mark; 0: none */
		uint64_t missing;   /* packets that an end mark counts and that are not there */
		uint32_t behind_ms; /* of those that were cut: this much may be missing, about */
		bool unbound;	    /* ... of one it is not known */
		bool full;	    /* ended at its largest size, as the config asks */
	} end;
};

/* -EBADMSG with *error (one line for the user) when it is not a trace at all, -E2BIG with *error when
 * it is over a bound.  A file that is cut ends with truncated_at set.  @error_size bytes. */
int profile_read(const char *path, struct profile *ret_profile, char *error, size_t error_size);
int profile_parse(const void *data, size_t len, struct profile *ret_profile, char *error,
		  size_t error_size);
void profile_deinit(struct profile *profile);
/* Something of the file is not there, or was not read. */
bool profile_is_damaged(const struct profile *profile);
/* A statistic of the recorder, by name; false: the trace does not have it. */
bool profile_stat_value(const struct profile *profile, const char *name, double *ret_value);
/* One line about the file's end, for a person; false, "": the end is there, or none was promised. */
bool profile_end_text(const struct profile *profile, char *to, size_t size);
/* The reason of @r, which a function of profile/ returned for @profile, for the user. */
const char *profile_strerror(const struct profile *profile, int r);
/* Of a trace with several events (data sources): the samples of this one.  A profile that was read
 * has the samples of the first time event, else of the first event.  "cycles" is also "cycles:u" where no event has just that name.  NULL: as it is.
 * -ENOENT: *error has one line for the user. */
int profile_choose_event(struct profile *profile, const char *name, char *error, size_t error_size);

/* Takes recursion out of all stacks: of the calls of one function in a stack the innermost stays, and what was between
 * them goes.  Calls more than 4,096 frames apart, and frames without a name, stay. */
void profile_collapse_recursion(struct profile *profile);
/* The name to show of a frame's line: the function, else "module+0xaddr", else "[unknown]".  Into
 * @to. */
const char *profile_line_name(const struct profile *profile, const struct profile_frame *frame,
			      uint32_t line, char *to, size_t size);
/* What to look at: samples for which all that is set holds. */
enum { PROFILE_CPUS = 1024 };
struct profile_filter {
	uint32_t pid;	    /* 0: all */
	const char *cgroup; /* it and those below it, "/": all that are recorded; NULL: all */
	const char *thread; /* its tid or its name; NULL: all */
	const char *comm;   /* the name of the thread or of its process; NULL: all */
	bool by_cpu;	    /* of these CPUs only */
	uint8_t cpus[PROFILE_CPUS / 8];
	bool by_time;
	uint64_t from, to;    /* ns after the first sample; to: not included */
	const char *function; /* it is in the stack (fold.h); NULL: all */
	/* Of samples inside (outside) a section with this name, of their thread or process; after profile_mark_samples(). */
	const char *during, *outside;
};
/* Notes in each sample whether it lies in a section called @during, or @outside; either may be NULL.  -ENOENT: *error has one
 * line for the user, with the nearest names. */
int profile_mark_samples(struct profile *profile, const char *during, const char *outside,
			 char *error, size_t error_size);
/* The innermost section of @track at @time; NULL: none. */
const struct profile_section *profile_section_at(const struct profile *profile, uint32_t track,
						 uint64_t time);
/* All of @filter but the function. */
bool profile_sample_wanted(const struct profile *profile, const struct profile_sample *sample,
			   const struct profile_filter *filter);
/* Is @process in filter->cgroup? */
bool profile_in_cgroup(const struct profile *profile, uint32_t process,
		       const struct profile_filter *filter);
/* What is shown for a thread and a process; never empty in a profile that was read. */
const char *profile_thread_name(const struct profile *profile, uint32_t thread);
const char *profile_process_name(const struct profile *profile, uint32_t process);

static inline uint32_t profile_sample_process(const struct profile *p,
					      const struct profile_sample *s)
{
	return p->threads[s->thread].process;
}
static inline uint32_t profile_sample_pid(const struct profile *p, const struct profile_sample *s)
{
	return p->processes[profile_sample_process(p, s)].pid;
}
static inline uint32_t profile_sample_tid(const struct profile *p, const struct profile_sample *s)
{
	return p->threads[s->thread].tid;
}
/* How many frames a stack has; 0: @stack is none. */
static inline uint32_t profile_stack_depth(const struct profile *p, uint32_t stack)
{
	uint32_t n = 0;

	for (; stack < p->n_nodes; stack = p->nodes[stack].up)
		n++;
	return n;
}
