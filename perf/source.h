/* source.h - the open events of a session, their rings, their counts.  Thread: main.
 *
 *   machine   one sampling event and one dummy (sideband) event per CPU
 *   tasks     inherited events per (task, CPU); events of one CPU write into one ring by SET_OUTPUT
 *
 * Sideband events have rings of their own: big stacks fill a shared ring, and the 100-byte MMAP2 gets
 * lost.  The note callback reports each fallback once (no kernel, smaller rings, lower precise_ip
 * ...). */
#pragma once

#include "base/features.h"
#include "perf/at-sample.h"
#include "perf/frames.h"
#include "perf/merge.h"
#include "perf/spec.h"

enum { PERF_MAX_FOLLOWERS = 7 };

/* sample_regs_user: the general registers, without the segment ones (asm/perf_regs.h).  The same
 * set as the unwinder's UW_REGS_MASK_*, which this folder may not include. */
#if defined(__x86_64__)
#define PERF_REGS_MASK 0xff0fffull
#elif defined(__aarch64__)
#define PERF_REGS_MASK 0x1ffffffffull
#else
#error "which user registers does this machine have?"
#endif

struct perf_options {
	struct perf_spec leader; /* borrowed strings */
	struct perf_spec followers[PERF_MAX_FOLLOWERS];
	size_t n_followers;
	uint64_t period, frequency; /* one is 0; frequency in Hz */
	uint32_t stack_bytes; /* copy of the user stack, a multiple of 8 up to 65528; 0: no regs, no
				 stack */
	bool data_mappings;   /* MMAP2 of what is not executable too: perf finds a file's base by it
			       */
	unsigned callchain;   /* FRAMES_*: frames that the kernel finds (PERF_SAMPLE_CALLCHAIN) */
	bool chain_field;     /* even if it is empty: without it perf unwinds no copies of stacks */
	int clock;	      /* CLOCK_*; of all records */
	const uint32_t *cpus; /* online CPUs to open on; borrowed during open */
	size_t n_cpus;
	bool tasks; /* else machine */
	bool poll;  /* machine: nothing is sampled and there are no rings; perf_source_read_group()
		     */
	bool ignore_open_failure; /* machine: CPUs that refuse are left out, all CPUs if need be
				   */
	bool kernel_build_ids; /* MMAP2 with build ids where the kernel has them: on request only (attr.c) */
	bool children; /* tasks: follow forks, not threads only */
	bool alone;    /* tasks: follow neither */
	bool watch;    /* tasks: for perf_source_watch(); not with `switches` */
	bool soon; /* for perf_source_read_soon(); not with followers, `switches`, `poll`, nor a program at the samples */
	bool sizes; /* tasks: for perf_source_set_stack_bytes(); not with followers, `switches` */
	bool rates; /* tasks: for perf_source_set_frequency(); not with followers, `switches` */
	bool enable_on_exec;  /* tasks: the (one) task is a child that has not run exec yet */
	uint64_t ring_bytes;  /* of one sampling ring; 0: at least 250 ms at the asked rate and
				     stack_bytes */
	uint64_t ring_budget; /* of all rings; 0: 256 MiB */
	uint32_t
		n_sources; /* of one recording: they share the memory that may be locked; 0: this one alone */
	/* Records of each switch (SWITCH, SWITCH_CPU_WIDE) among the sideband records, and samples at
	 * switches out where the kernel permits it.  Needs a period, not 1: without a period field the
	 * kernel thins the samples of a switch event (attr.c). */
	bool switches;
	uint64_t
		waking; /* the id of sched:sched_waking, recorded among the sideband records where permitted; 0: not */
	bool wakers; /* with waking: its samples among the leader's too, with the stack of the task that wakes */
	struct features features;
	const struct at_sample *at_sample; /* its program runs at each sample; NULL: none */
	/* One plain line a step down, with its hint.  @brief: the limit in a few words (gate_brief()), or NULL. */
	void (*note)(void *arg, const char *brief, const char *line);
	void *note_arg;
};

struct perf_source;

enum perf_gate { /* why an open was refused: for one clear line */
		 PERF_GATE_NONE,
		 PERF_GATE_PARANOID, /* perf_event_paranoid too high */
		 PERF_GATE_SECCOMP,  /* EPERM where paranoid would allow: a container's filter */
		 PERF_GATE_MODULE,   /* EACCES where paranoid would allow: a security module */
		 PERF_GATE_PTRACE,   /* the target is another user's, or not dumpable */
		 PERF_GATE_NO_EVENT, /* ENOENT/EOPNOTSUPP: this machine does not have this counter */
		 PERF_GATE_RATE,     /* frequency above perf_event_max_sample_rate */
		 PERF_GATE_FILES,    /* EMFILE */
		 PERF_GATE_GONE,     /* ESRCH */
		 PERF_GATE_MLOCK,    /* even the smallest ring was refused */
		 PERF_GATE_OTHER,
};

/* Opens for the machine, or an empty task source that tasks are added to.  Rings are mapped here
 * (machine) or with the first task.  On failure @error has one line for the user. */
int perf_source_new(const struct perf_options *options, struct perf_source **ret_source,
		    enum perf_gate *ret_gate, char *error, size_t error_size);
struct perf_source *perf_source_free(struct perf_source *source);
/* One more thread.  0; PERF_TASK_GONE when it exited meanwhile; < 0 with gate and line as above. */
enum { PERF_TASK_GONE = 1 };
int perf_source_add_task(struct perf_source *source, pid_t tid, enum perf_gate *ret_gate,
			 char *error, size_t error_size);
/* tasks: have all exited, and all that inherited their events? */
bool perf_source_tasks_gone(struct perf_source *source);
/* tasks: a thread that was added although it had inherited the events of the one that started it
 * (it was born while the threads were being listed) is sampled twice.  True for a sample of @tid by
 * an event that was opened for another thread: drop it.  Call perf_source_forget_task() when a thread
 * has ended (EXIT record): its number may be reused for one that inherits. */
bool perf_source_is_inherited_double(const struct perf_source *source, uint64_t id, pid_t tid);
void perf_source_forget_task(struct perf_source *source, pid_t tid);
/* Is @tid a thread that was added, and has not been forgotten? */
bool perf_source_has_task(const struct perf_source *source, pid_t tid);
size_t perf_source_n_tasks(const struct perf_source *source);
/* Closes the events of all tasks but the first @n that were added. */
void perf_source_withdraw_tasks(struct perf_source *source, size_t n);
/* Descriptors that one more task costs.  They stay open when the task exits, for its counts and for
 * the children that inherited its events: closing a parent's event ends theirs. */
size_t perf_source_fds_per_task(const struct perf_options *options);

int perf_source_enable(struct perf_source *source); /* not with enable_on_exec */
int perf_source_disable(struct perf_source *source);
/* Sampling events stay off, sideband events run: before perf_source_enable(); not with enable_on_exec.  And any time
 * after it: on, or off again. Allocates nothing.  With a timer (cpu-clock) the first sample of each CPU, or thread, comes within
 * 0.3 ms, for which the caller sleeps 0.4 ms. */
void perf_source_hold(struct perf_source *source);
int perf_source_sample(struct perf_source *source, bool on);

/* options.switches: are switches sampled?  Else only recorded. */
bool perf_source_samples_switches(const struct perf_source *source);
/* Is @id that of an event that samples switches? */
bool perf_source_is_switch(const struct perf_source *source, uint64_t id);
/* options.wakers: are wake-ups sampled?  While switches are thinned they are not. */
bool perf_source_samples_wakers(const struct perf_source *source);
/* tasks: the threads of which wake-ups are recorded; of more than PERF_WAKINGS all of the machine are.  First that of the first
 * task alone. */
enum { PERF_WAKINGS = 200 };
void perf_source_filter_wakings(struct perf_source *source, const uint32_t *tids, size_t n);
/* Is @id that of an event that samples wake-ups?  The sample is of the task that wakes, and its fields (RAW) name the thread that
 * is woken. */
bool perf_source_is_waker(const struct perf_source *source, uint64_t id);
/* One sample each switch, or (@thin) one each PERF_SWITCHES_THIN switches of a task on a CPU. */
enum { PERF_SWITCHES_THIN = 97 };
int perf_source_thin_switches(struct perf_source *source, bool thin);

/* tasks: watched ones wake the reader of the sideband rings (which then hold one record more) after a millisecond of
 * CPU time.  For a reader that has no timer because all tasks sleep.  Not with options.switches, nor with so many
 * tasks that their events would take too many descriptors: false. */
bool perf_source_can_watch(const struct perf_source *source);
int perf_source_watch(struct perf_source *source, bool on);
/* A descriptor that hangs up (EPOLLHUP) when the task at @index, and all that inherited from it, have exited; borrowed. */
int perf_source_task_fd(const struct perf_source *source, size_t index);

/* @on: each sample of @cpu wakes the reader of its ring at once, in place of some together.  Does nothing where that is so
 * already.  -EOPNOTSUPP: without options.soon, or where the events for it cannot be opened. */
int perf_source_read_soon(struct perf_source *source, uint32_t cpu, bool on);

/* The rings, in the order they were added to the merge: the same index. */
struct perf_ring {
	struct ring *ring;
	struct record_layout layout;
	int fd; /* poll it: readable at the watermark */
	uint32_t cpu;
	bool sideband;
};
struct merge *perf_source_merge(struct perf_source *source);
size_t perf_source_n_rings(const struct perf_source *source);
const struct perf_ring *perf_source_ring(const struct perf_source *source, size_t index);
/* Was kernel code refused, and left out of each event's code? */
bool perf_source_kernel_refused(const struct perf_source *source);
const struct perf_options *
perf_source_options(const struct perf_source *source); /* as opened, after the ladder */

/* Kernel's counts so far.  lost: PERF_FORMAT_LOST sums (0 and *ret_exact false without the
 * feature). */
struct perf_counts {
	uint64_t lost_samples, lost_sideband;
	bool lost_exact;
	bool small_rings; /* the limit of locked memory made them smaller (GATE_RINGS) */
	uint64_t count;	  /* the leader's, summed, scaled by enabled/running */
	uint64_t enabled_ns, running_ns;
	/* tasks: CPU time that the targets used since enable, kernel and user, children as far as
	 * inherited: without `children` none, but all children where FEATURE_INHERIT_THREAD is
	 * missing.  machine: 0 */
	uint64_t task_clock_ns;
};
/* A system call an event: once a second, not once a round.  Right at any time, also after the tasks
 * exited: the kernel folds the counts of inherited events into the one that was opened. */
int perf_source_counts(struct perf_source *source, struct perf_counts *ret_counts);

/* machine: a CPU that was offline has lost its events, and has none when it is back.  Opens them again; after
 * perf_source_counts(), which finds these CPUs, about once a second.  Calls @back for each CPU that has events again.  Not with
 * options.switches. */
void perf_source_reopen_cpus(struct perf_source *source, void (*back)(void *arg, uint32_t cpu),
			     void *arg);

/* Samples that the kernel lost on options->cpus[@index] so far; 0 without FEATURE_FORMAT_LOST. */
int perf_source_lost(const struct perf_source *source, size_t index, uint64_t *ret_lost);
/* poll: the counts since enable of the CPU at @index, leader first; room for 1 +
 * PERF_MAX_FOLLOWERS. */
int perf_source_read_group(const struct perf_source *source, size_t index, uint64_t *ret_counts,
			   size_t *ret_n, uint32_t *ret_cpu);

/* Samples a second on a busy CPU, at most; 1,000 where it cannot be known. */
uint64_t perf_sample_rate(const struct perf_options *options);
/* Another copy size on one CPU, without a hole: both events run for a moment, counts and losses are added up, and
 * perf_source_is_double() identifies doubles.
 * machine: at once, any size.  tasks, with options.sizes: options.stack_bytes, PERF_MIDDLE_BYTES or PERF_SMALL_BYTES, by
 * perf_source_settle() some time later.  -EOPNOTSUPP: the size cannot be changed; -EAGAIN: not now. */
enum { PERF_MIDDLE_BYTES = 16384, PERF_SMALL_BYTES = 4096 };
int perf_source_set_stack_bytes(struct perf_source *source, uint32_t cpu, uint32_t bytes);
/* tasks: goes on with changes that are due; about each 100 ms.  Has a copy size changed? */
bool perf_source_settle(struct perf_source *source);
/* So many samples a second from now on, in place of options.frequency.  Weights stay right: each sample has the period that it
 * was taken with.  -EOPNOTSUPP: with a period, followers or options.switches.
 * machine: at once, any rate; perf_source_options() has the new one.  After another failure some CPUs have the old rate.
 * tasks, with options.rates: options.frequency, or that divided by PERF_RATE_STEP up to PERF_RATE_STEPS times, by
 * perf_source_settle() some time later, with copies of options.stack_bytes; -EOPNOTSUPP for another rate.  A thread has an event
 * a CPU, each begins a period of its own, and what is left of a period when a thread ends is in no sample. */
enum { PERF_RATE_STEP = 4, PERF_RATE_STEPS = 3, PERF_RATE_LEAST = 10 /* Hz */ };
int perf_source_set_frequency(struct perf_source *source, uint64_t hz);
uint32_t perf_source_stack_bytes(const struct perf_source *source, uint32_t cpu);
bool perf_source_is_double(const struct perf_source *source, uint32_t ring, uint64_t id,
			   uint64_t time);

/* Oldest supported facts about the machine, read from /sys: online CPUs, ascending.  Returns new
 * memory. */
int perf_online_cpus(uint32_t **ret_cpus, size_t *ret_n);
/* "0-3,8" into CPU numbers.  -EINVAL. */
int perf_parse_cpu_list(const char *text, uint32_t **ret_cpus, size_t *ret_n);
