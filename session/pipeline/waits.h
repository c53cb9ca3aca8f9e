/* waits.h - time in which threads wait, joined with their stacks.  Thread: main.
 *
 * A sample of a thread that leaves its CPU has a stack and no weight: that is known when the thread runs again.  The two
 * meet here, in either order:
 *
 *   SWITCH out ─► the wait begins          sample at the switch ─► unwinder ─► outcome, held here
 *   SWITCH in  ─► the wait ends: its time                                         │
 *                     └──────────────────────── both are there ◄─────────────────┘
 *                                                     └─► one sample: stack, reason, weight
 *
 * The sample stands in the trace at the end of its wait, on the CPU where the thread runs on, so that the running sums of
 * weights stay in order of time.
 *
 * Times come from the records of switches alone, so they are exact however few stacks are sampled.  All time of a
 * thread is in the trace once:
 *   a wait with a stack                            under its stack
 *   a wait without, shorter than WAITS_SHORT_NS    added to the thread's next wait with a stack ("thinned")
 *   a longer one, and what is left at the end      without a stack
 *   running (options.running)                      under the thread's next sample, or without a stack
 *   between records that contradict each other     without a stack, WAIT_UNKNOWN: some were lost
 *
 * Bounds: WAITS_THREADS threads; WAITS_STACK_BYTES of stacks that wait for the end of their wait.  Past either a wait
 * has no stack, or its thread is not known.
 *
 * The reader calls wait_reader_*(): records and samples of switches, and stacks that are read while threads wait.  They do nothing
 * without scope->c.waits. */
#pragma once

#include "perf/record.h"
#include "session/loader/load-request.h"
#include "session/pipeline/account.h"
#include "session/pipeline/entry.h"
#include "session/pipeline/park.h"
#include "session/pipeline/scope.h"
#include "session/pipeline/wait-reason.h"

enum {
	WAITS_SHORT_NS = 10 * 1000 * 1000,
	WAITS_THREADS = 65536,
	WAITS_STACK_BYTES = 32 << 20,
};

struct waits_options {
	bool running;  /* running time too */
	bool stacks;   /* switches are sampled, or stacks are read */
	bool read;     /* stacks are read from the processes: waits_next_bare() */
	bool cpu_wide; /* events of CPUs: a thread's last switch follows its end */
};
struct waits_context { /* borrowed */
	struct account *account;
	/* The running sum of weights of a CPU.  Never NULL. */
	uint64_t *(*count)(void *arg, uint32_t cpu);
	/* Writes a sample, as emit_outcome() does: releases its references. */
	int (*emit)(void *arg, const struct outcome *outcome);
	void *arg;
};

struct waits;
int waits_new(const struct waits_options *options, const struct waits_context *context,
	      struct waits **ret_waits);
struct waits *waits_free(struct waits *waits);

/* All events are on from @time (their clock, ns): earlier records have no effect, and the first one of a thread may come much
 * later. */
void waits_start(struct waits *waits, uint64_t time);
/* Records, in order of time.  Errors: -ENOMEM, or an error of emit(). */
/* @tid exists at the start. */
int waits_thread(struct waits *waits, struct process *process, uint32_t tid);
int waits_fork(struct waits *waits, struct process *process, uint32_t tid, uint64_t time);
int waits_exit(struct waits *waits, uint32_t tid, uint64_t time);
/* @tid was woken: from here on it waits for a CPU only. */
void waits_woken(struct waits *waits, uint32_t tid, uint64_t time);
/* Is a sample of the task that wakes @tid at @time of use?  False: @tid has no stack that it could be joined to, or has a waker. */
bool waits_wants_waker(const struct waits *waits, uint32_t tid, uint64_t time);
/* The number for sample_info.wait of this sample: waits_wants_waker() was true.  One outcome with it must come; it is
 * emitted as outcome.waker of the wait, and is then no sample of its own in the account. */
uint32_t waits_waker(struct waits *waits, uint32_t tid);
struct wait_switch {
	struct process *process;
	uint64_t time;
	uint32_t tid, cpu;
	bool out, preempted;
};
int waits_switch(struct waits *waits, const struct wait_switch *record);

/* The threads that are known now, @max of them at most: returns how many there are, and whether there were others at the last
 * call. */
size_t waits_tids(struct waits *waits, uint32_t *tids, size_t max, bool *ret_changed);
/* Is a sample at a switch of @tid out of its CPU of use?  False: it has one already, or there is no room. */
bool waits_wants(struct waits *waits, struct process *process, uint32_t tid);
/* The number for sample_info.wait of this sample: waits_wants() was true.  One outcome with it must come. */
uint32_t waits_sampled(struct waits *waits, uint32_t tid);
/* The weight of a sample that was taken while @tid ran: its running time up to @time that has no sample. */
uint64_t waits_run(struct waits *waits, struct process *process, uint32_t tid, uint64_t time);
/* A thread that waits and has no stack; it is not returned again in this wait.  They wait since @before at
 * the latest, the events' clock; the longest first.  NULL: none; else *ret_tid, and a borrowed process. */
struct process *waits_next_bare(struct waits *waits, uint64_t before, uint32_t *ret_tid);
/* The stack of @tid was read from the process at some time between @from and @until.  The number for sample_info.wait, as
 * of waits_sampled(); 0: the thread is known not to have waited then, or there is no room.  Once its wait ends before
 * @until, it will be dropped. */
uint32_t waits_read(struct waits *waits, uint32_t tid, uint64_t from, uint64_t until);
/* An outcome with sample_info.wait; takes its references over. */
int waits_outcome(struct waits *waits, const struct outcome *outcome);
/* An outcome of a sample that was taken while its thread ran; takes its references over.  Without a stack its time is running time
 * all the same (options.running). */
int waits_run_outcome(struct waits *waits, const struct outcome *outcome);
/* The end, at @time (the events' clock): ends all waits and threads.  Outcomes may still come. */
int waits_finish(struct waits *waits, uint64_t time);

/* ---- the reader's part ---- */

/* SWITCH, FORK or COMM out of ring @ring, after the process table has it. */
int wait_reader_record(struct scope *scope, uint32_t ring, const struct record_event *event);
/* A sample of the sideband ring: sched:sched_waking. */
int wait_reader_woken(struct scope *scope, const struct record_layout *layout,
		      const struct perf_event_header *record);
/* A sample of the task that wakes another (perf_source_is_waker()): is it of use?  Then the number for sample_info.wait. */
bool wait_reader_wants_waker(struct scope *scope, const struct record_sample *sample);
uint32_t wait_reader_waker(struct scope *scope, const struct record_sample *sample);
/* Before a sample becomes an entry.  False: a sample of a switch that is of no use. */
bool wait_reader_wants(struct scope *scope, const struct record_sample *sample,
		       struct process *process);
/* The weight of a sample; *ret_wait: its number as the stack of a wait of unknown weight, or 0. */
uint64_t wait_reader_weigh(struct scope *scope, const struct record_sample *sample,
			   struct process *process, uint32_t *ret_wait);
/* Requests the stacks of some threads that wait without one since @before (the events' clock) or longer. */
void wait_reader_ask(struct scope *scope, uint64_t before);
/* The answer to LOAD_WAIT as an entry, counted and with its bytes in a block of @park.  False: it is of no use. */
bool wait_reader_answer(struct scope *scope, struct park *park, const struct load_answer *answer,
			struct entry *ret_entry);

/* ---- a stack that was read while its thread waited: for tests ---- */

/* The first word of @stack (@len bytes, from address @sp up) that is the start of a chain of frame pointers: [saved frame
 * pointer][return address].  0: there is none. */
uint64_t wait_stack_fp(const uint8_t *stack, size_t len, uint64_t sp);
/* The answer to LOAD_WAIT as an entry, with registers in @regs (room for UW_X86_COUNT) and bytes that stay the answer's.  The caller adds the process
 * and its space.  False: the stack is of no use: nothing of it was read, or another machine. */
bool wait_stack_entry(const struct load_answer *answer, uint64_t *regs, struct entry *ret_entry);
