/* unwind.h - the unwinder thread: entries in, outcomes out.  Thread: main makes and frees it.
 *
 * The thread takes up to UW_BATCH entries, unwinds them side by side in place (their stacks lie in
 * the perf rings), writes one outcome each and pops them: that is what lets main move the rings'
 * tails.  A sample that must wait (mappings or a module not there yet) is copied into the thread's
 * own park and answered later. It makes no system call that a target's filesystem can stall, and
 * sleeps only when both are empty. */
#pragma once

#include "base/queue.h"
#include "session/pipeline/entry.h"
#include "session/pipeline/park.h"

struct unwind_options {
	enum uw_engine_kind engine;
	bool user_frames;	 /* false: kernel frames only */
	uint64_t maps_wait_ns;	 /* how long a sample waits for its process's mappings */
	uint64_t module_wait_ns; /* ... for modules */
	size_t park_bytes;
	int nice;      /* wished for; 0: as it is */
	bool realtime; /* SCHED_RR instead */
	/* Gives back the references of a sample that stays unanswered at the end; NULL: it holds
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
/* Thread CPU time so far, ns; engine statistics as of the last batch are in *ret_stats after free
 * only. */
uint64_t unwind_stage_cpu_ns(const struct unwind_stage *stage);
/* Samples parked since the start (any thread, a snapshot). */
uint64_t unwind_stage_parked(const struct unwind_stage *stage);
