/* unwind-measure.h - what unwinding costs, by engine: all engines over the same samples, in turns.
 * Thread: one.
 *
 *   cold       the first pass of a new engine over all samples: nothing is known but the modules,
 *              which are loaded before; of a new engine each round
 *   streamed   the stacks come from memory: before each batch of 16 every line of their copies and
 *              registers is flushed from all caches (clflush), as a profiler meets bytes that the
 *              kernel wrote a while ago
 *   cached     the stacks of the batch were just copied
 *   cache      what the process grew by in the first cold pass (RssAnon), or what the engine reports where
 *              that is more
 *
 * Every engine gets the same batches; a round is one pass of each engine, so that what else the
 * machine does falls on all engines.  Of each batch the lower quartile of the rounds counts. */
#pragma once

#include "tests/differential/samples.h"

enum { MEASURE_ENGINES = 3, MEASURE_ROUNDS_MAX = 101 };
extern const enum uw_engine_kind measure_kinds[MEASURE_ENGINES]; /* native is the first */

struct figures {
	double streamed, cached; /* ns a frame */
	double cold_ms;
	double ns_miss;	 /* what the cold pass took longer than the next, a miss; 0: not known */
	uint64_t misses; /* of the engine's cache in the cold pass; 0: not known */
	uint64_t reused; /* frames of the warm pass, of an earlier stack of the thread */
	double whole, frames; /* share; mean */
	uint64_t cache_bytes;
};

/* What no engine can be faster than: loads the words of the stacks that have the return addresses, all places known
 * before.  Measured in turn with the engines, from the same memory; ns a frame. */
struct floor_figures {
	double streamed, cached;
	double found; /* share of the callers' frames; the others' words are not in the copy */
};

/* -ENOMEM, or what an engine returned. */
int measure_all(const struct samples *samples, uint64_t rounds,
		struct figures ret_figures[MEASURE_ENGINES], struct floor_figures *ret_floor);
