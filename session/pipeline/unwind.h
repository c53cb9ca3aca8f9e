/* unwind.h - the unwinder thread: entries in, outcomes out.  Thread: main creates and frees it.
 *
 * The thread takes up to UW_BATCH entries and unwinds them interleaved and in place (their stacks
 * lie in the perf rings), writes one outcome for each, and pops them.  Main can then move the
 * tails of the rings.  A sample that must wait (mappings or a module not loaded yet) is copied
 * into the thread's own park and answered later.  The thread makes no system call that a target's
 * file system can stall, and sleeps only when both the queue and the park are empty. */
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
	int nice;		     /* requested; 0: unchanged */
	bool realtime;		     /* SCHED_RR instead */
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
/* Stops and joins the thread; entries not yet taken stay unanswered. */
struct unwind_stage *unwind_stage_free(struct unwind_stage *stage);
/* CPU time of its thread, ns. */
uint64_t unwind_stage_cpu_ns(const struct unwind_stage *stage);
/* Samples parked since the start (any thread, a snapshot). */
/* @on: each batch of outcomes wakes main.  Else main emits a long stack while the unwinder waits to begin the next one. */
void unwind_stage_hurry(struct unwind_stage *stage, bool on);
uint64_t unwind_stage_parked(const struct unwind_stage *stage);
