/* unwind.h - the unwinder: entries in, outcomes out.  Thread: main creates and frees it.
 *
 * The thread takes up to UW_BATCH entries and unwinds them interleaved and in place (their stacks
 * lie in the perf rings), writes one outcome for each, and pops them.  Main can then move the
 * tails of the rings.  A sample that must wait (mappings or a module not loaded yet) is copied
 * into the unwinder's own park and answered later.  The unwinder makes no system call that a target's
 * file system can stall.  Its thread sleeps when the queue is empty; while samples are parked, 5 ms at most.
 *
 * At low rates main does the work of the thread while that sleeps (unwind_stage_serve()): two context switches less, and
 * the stacks and tables are read by one CPU.  What the unwinder owns has one owner at a time: the thread, or main between
 * waker_claim() and waker_return().  Main leaves to the thread what takes long and what it would have to wait for. */
#pragma once

#include "base/queue.h"
#include "perf/frames.h"
#include "session/pipeline/entry.h"
#include "session/pipeline/park.h"

struct unwind_options {
	enum uw_engine_kind engine;
	unsigned frames;	 /* FRAMES_*; of them the user frames are unwound here */
	uint64_t maps_wait_ns;	 /* how long a sample waits for the mappings of its process */
	uint64_t module_wait_ns; /* ... for a module */
	size_t park_bytes;
	bool realtime;		     /* SCHED_RR; else the priority of the thread that makes it */
	bool in_main;		     /* main may do the thread's work */
	struct uw_settings settings; /* of the engine */
	/* Releases the references of a sample that stays unanswered at the end; NULL: it holds
	 * none. */
	void (*drop)(const struct entry *sample);
};

/* ENTRY_FLUSH entries that may be unanswered at a time. */
enum { UNWIND_FLUSHES = 8 };

struct unwind_stage;

/* Borrows the queues and wakers.  Starts the thread. */
int unwind_stage_new(const struct unwind_options *options, struct slot_queue *in,
		     struct waker *in_waker, struct byte_queue *out, struct waker *out_waker,
		     struct unwind_stage **ret_stage);
/* Main, after entries were published: answers them, or wakes the thread.  @in_main: memory of processes is seldom read. */
void unwind_stage_serve(struct unwind_stage *stage, bool in_main);
/* Stops and joins the thread; entries not yet taken stay unanswered. */
struct unwind_stage *unwind_stage_free(struct unwind_stage *stage);
/* CPU time of its thread, ns. */
uint64_t unwind_stage_cpu_ns(const struct unwind_stage *stage);
/* @on: each batch of outcomes wakes main.  Else main emits a long stack while the unwinder waits to begin the next one. */
void unwind_stage_hurry(struct unwind_stage *stage, bool on);
/* Samples parked since the start (any thread, a snapshot). */
uint64_t unwind_stage_parked(const struct unwind_stage *stage);
