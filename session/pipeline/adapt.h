/* adapt.h - the size of stack copies on one CPU, from what its stacks needed.  Thread: main.
 *
 * The smallest size that is enough for 99.9 % of the stacks, with an eighth to spare: a thread that nearly fills its copies gets
 * longer ones (perf/at-sample.h).  Wider as soon as more than 0.1 % of ADAPT_FEW or more samples went beyond it.  Narrower after ADAPT_MANY samples
 * of which at most 0.1 % needed more; after each step back twice as many are required. */
#pragma once

#include "base/util.h"

enum {
	ADAPT_FIRST = 16384,
	ADAPT_MIN = 4096,
	ADAPT_MAX = 65528,
	ADAPT_FEW = 50,
	ADAPT_MANY = 1000,
	ADAPT_SIZES = 5, /* 4, 8, 16, 32, 64 KiB (65,528 bytes) */
};

struct adapt {
	uint32_t bytes;	  /* the size to use; one of the sizes */
	uint8_t stride;	  /* 1: all sizes; 2: 4, 16 and 64 KiB */
	uint8_t patience; /* ADAPT_MANY << patience samples */
	uint8_t spare;	  /* of 1,000 stacks so many more may go beyond it: adapt_save() */
	/* since the last decision; over: samples that needed more than 7/8 of the size */
	uint32_t samples, over[ADAPT_SIZES];
};

/* A stack needed @need bytes of its copy, or more than there were.  Returns adapt->bytes. */
uint32_t adapt_count(struct adapt *adapt, uint64_t need);
/* A size that is enough for 95 % of the stacks will do, or (not @on) 99.9 % are to be whole again. */
void adapt_save(struct adapt *adapt, bool on);
