/* merge.h - records of many rings in time order.  Thread: main.
 *
 * A round: read the events' clock (T), then load all heads; records with time < T are released in
 * time order, the rest wait for the next round.  Whatever a released record depends on was stamped
 * before it and hence is in the rings already.  (Heads first, clock later is wrong.)  Inside one
 * ring times may step back a little: sorted, never assumed.  An empty ring holds nothing back.
 * Records without a time keep their place in their ring; in a ring where the layout has no time they
 * are released at once. */
#pragma once

#include "perf/record.h"
#include "perf/ring.h"

struct merge;

struct merge_item {
	const struct perf_event_header *record;
	uint64_t time; /* of a record without one: the latest before it in its ring, 0 if there is
			  none */
	uint64_t position; /* for merge_put */
	uint32_t ring;	   /* index, as merge_add gave it */
};

int merge_new(struct merge **ret_merge);
struct merge *merge_free(struct merge *merge);
/* Borrows @ring; @layout is copied.  Records of this ring are all of one layout. */
int merge_add(struct merge *merge, struct ring *ring, const struct record_layout *layout,
	      uint32_t *ret_index);

/* Starts a round: loads all heads.  @now is T, the events' clock, which the caller reads for this
 * call and so before the heads.  -EBADMSG: a damaged ring or record; the merge stays broken. */
int merge_begin(struct merge *merge, uint64_t now);
enum { MERGE_DONE = 1 };
/* 0 and the next record before T; MERGE_DONE: none left in this round.  A round may be left early.
 */
int merge_next(struct merge *merge, struct merge_item *ret_item);
/* Gives a record back, in any order; each once. */
void merge_put(struct merge *merge, uint32_t ring, uint64_t position);
/* Releases what is left whatever its time (after the events are off): from the next round on there
 * is no T, and @now is ignored. */
void merge_finish(struct merge *merge);
/* Records that came after a later one was released: the kernel stamped them before T and published them after the heads
 * were loaded, as it copies up to 64 KB in between.  What a late record depends on was published before it, so the
 * reader takes the clock itself: a sample that wakes it belongs to the round that follows, not to one 100 ms later.
 * A caller that joins records of several CPUs passes a @now behind the clock (perf/pair.c), and the count stays 0. */
uint64_t merge_violations(const struct merge *merge);
