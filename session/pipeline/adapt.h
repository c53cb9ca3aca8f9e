/* adapt.h - the size of stack copies on one CPU, from counts.  Thread: main.
 *
 * Doubled when more than 1 % of a second's copies filled their room (those stacks are cut, or
 * nearly so), and multiplied by four when more than 10 % did.  Halved when for ten seconds less
 * than 0.1 % needed more than half of the room.  Powers of two from 16 KiB, at most 65,528. */
#pragma once

#include "base/util.h"

enum { ADAPT_FIRST = 16384, ADAPT_MAX = 65528, ADAPT_QUIET_SECONDS = 10 };

struct adapt {
	uint32_t bytes;
	uint32_t quiet; /* consecutive seconds for which half would have sufficed */
};

/* Counts of one second on one CPU -> the next size (adapt->bytes, also returned). */
uint32_t adapt_step(struct adapt *adapt, uint64_t samples, uint64_t full, uint64_t over_half);
