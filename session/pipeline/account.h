/* account.h - what became of every sample.  Thread: main.
 * The equation: received = emitted + sum(skipped) + in flight, checked at every tick (an assertion
 * in debug builds) and at the end, where nothing is in flight. */
#pragma once

#include "session/pipeline/entry.h"

struct account {
	uint64_t received; /* samples taken from the rings, pid 0 apart */
	uint64_t emitted;  /* with a stack or as the counter sample that was asked for */
	uint64_t skipped[SKIP_COUNT];
	uint64_t queued, answered; /* entries sent to the unwinder and outcomes that came back */
	uint64_t idle;		   /* pid 0, left out */
	uint64_t idle_weight;	   /* of all pid 0, left out or not */
	uint64_t whole, cut, failed[UW_REASON_COUNT];
	uint64_t completed; /* of the whole: by earlier stacks of their threads */
	uint64_t frames, guessed_frames;
	uint64_t weight;       /* of the emitted, non-idle */
	uint64_t user_weight;  /* of those with cpu mode user */
	uint64_t lost_records; /* told by LOST and LOST_SAMPLES records of sampling rings */
	uint64_t lost_sideband_records;
	uint64_t throttled_ns;
	uint64_t unknown_records;
	uint64_t parked, copied; /* by the unwinder (waiting); by main (ring too full) */
};

uint64_t account_skipped(const struct account *account);
uint64_t account_in_flight(const struct account *account);
/* Does the equation hold, in flight counted on its own (queued - answered)? */
bool account_holds(const struct account *account);
