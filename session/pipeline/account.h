/* account.h - counts of samples by result, and of losses.  Thread: main. received = emitted +
 * sum(skipped) + in flight: checked at every tick (an assertion in debug builds) and at the end,
 * when nothing is in flight. */
#pragma once

#include "session/pipeline/entry.h"

enum { ACCOUNT_READS = 8, ACCOUNT_START_MS = 500 };

struct account {
	uint64_t received; /* samples taken from the rings; pid 0 where it is recorded */
	uint64_t emitted;  /* with a stack, or as a counter sample where one was requested */
	uint64_t skipped[SKIP_COUNT];
	uint64_t queued, answered; /* entries sent to the unwinder and outcomes that came back */
	uint64_t idle;		   /* samples of pid 0 that were not recorded */
	uint64_t idle_weight;	   /* of all samples of pid 0, recorded or not */
	uint64_t whole, unchecked, cut,
		failed[UW_REASON_COUNT]; /* unchecked: as in uw_result, not whole */
	uint64_t deep;			 /* samples with a longer copy (perf/at-sample.h) */
	bool met_deep;	   /* one was beyond the largest copies (copied_entry_is_deep()) */
	uint64_t too_deep; /* cut at UW_MAX_FRAMES */
	uint64_t switched; /* cut where the thread switches to another stack than the copied one */
	uint64_t page_absent; /* cut at a page of the stack that was not there */
	uint64_t by_fp;	      /* whole stacks: as in uw_result */
	uint64_t completed;   /* whole stacks, completed from earlier stacks of the same thread */
	uint64_t lacks_functions; /* stacks: as in uw_result, */
	uint64_t
		lacks_at_start; /* ... of them in the first ACCOUNT_START_MS of a process that was seen to begin */
	uint64_t freed_functions; /* of interpreters: without a name, as it was read too late */
	uint64_t frames, guessed_frames;
	uint64_t memory_reads
		[ACCOUNT_READS]; /* stacks, by uw_result.read_after_us: account_reads_below() */
	uint64_t weight;	 /* of emitted samples other than pid 0 */
	uint64_t lost_records;	 /* by LOST and LOST_SAMPLES records of sampling rings */
	uint64_t lost_sideband_records;
	uint64_t throttled_ns;
	/* waits.h */
	uint64_t waits, wait_ns;	    /* ended waits, and their time */
	uint64_t waits_thinned, thinned_ns; /* of the waits: shown under the stack of another */
	uint64_t unsampled_ns;		    /* of the waits' time: shown without a stack */
	uint64_t run_ns, run_unsampled_ns;  /* --wall: running, and of that without a sample */
	uint64_t unknown_ns;		    /* time of threads around lost records of switches */
	uint64_t parked, copied;	    /* by the unwinder (to wait); by main (ring too full) */
};

/* The bound of memory_reads[@index], microseconds: those from the bound before it on, and below it.  UINT32_MAX: the last. */
uint32_t account_reads_below(size_t index);

/* The sums over all reasons. */
uint64_t account_failed(const struct account *account);
uint64_t account_skipped(const struct account *account);
uint64_t account_in_flight(const struct account *account);
/* Counts an outcome that was emitted.  @reason: why it failed, if it did. */
void account_outcome(struct account *account, const struct outcome *outcome, enum uw_reason reason);
/* Does the equation hold?  In flight is counted independently (queued - answered). */
bool account_holds(const struct account *account);
