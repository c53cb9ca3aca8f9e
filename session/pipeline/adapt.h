/* adapt.h - which stack copy size fits one CPU's stacks.  Thread: main.  Pure: no clock, no
 * descriptor.
 *
 * Wider when more than 1 % of a second's copies filled their room (those stacks are cut, or
 * nearly; four times as wide when more than 10 % did), narrower when for ten seconds less than 0.1 % needed more than half of it.  Powers of
 * two from 16 KiB, at most 65,528. */
#pragma once

#include "base/util.h"

enum { ADAPT_FIRST = 16384, ADAPT_MAX = 65528, ADAPT_QUIET_SECONDS = 10 };

struct adapt {
	uint32_t bytes;
	uint32_t quiet; /* seconds in a row that would do with half */
};

/* One second's counts of a CPU -> the size from now on (adapt->bytes, also returned). */
uint32_t adapt_step(struct adapt *adapt, uint64_t samples, uint64_t full, uint64_t over_half);
