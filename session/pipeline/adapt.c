/* adapt.c - the size of stack copies (adapt.h). */
#include "session/pipeline/adapt.h"

enum { ENOUGH = 50 }; /* fewer samples are no evidence */

uint32_t adapt_step(struct adapt *adapt, uint64_t samples, uint64_t full, uint64_t over_half)
{
	if (samples < ENOUGH)
		return adapt->bytes;
	if (full * 100 > samples) {
		/* Stacks are cut for as long as the size is too small. */
		uint64_t times = full * 10 > samples ? 4 : 2;

		adapt->quiet = 0;
		adapt->bytes = (uint32_t)min_u64(adapt->bytes * times, ADAPT_MAX);
		return adapt->bytes;
	}
	adapt->quiet = over_half * 1000 < samples ? adapt->quiet + 1 : 0;
	if (adapt->quiet >= ADAPT_QUIET_SECONDS && adapt->bytes > ADAPT_FIRST) {
		adapt->quiet = 0;
		adapt->bytes = adapt->bytes == ADAPT_MAX ? 32768 : adapt->bytes / 2;
	}
	return adapt->bytes;
}
