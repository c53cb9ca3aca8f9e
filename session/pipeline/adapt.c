/* adapt.c - the size of stack copies (adapt.h). */
#include "session/pipeline/adapt.h"

#include <string.h>

enum { PATIENCE_MAX = 6, SAVE = 49 };

static const uint32_t sizes[ADAPT_SIZES] = {ADAPT_MIN, 8192, 16384, 32768, ADAPT_MAX};

static bool is_enough(const struct adapt *adapt, size_t i)
{
	return (uint64_t)adapt->over[i] * 1000 <= (uint64_t)adapt->samples * (1 + adapt->spare);
}

static void decide(struct adapt *adapt, bool wider)
{
	uint32_t bytes = ADAPT_MAX;

	for (size_t i = ADAPT_SIZES; i-- > 0;)
		if (i % adapt->stride == 0 && is_enough(adapt, i))
			bytes = sizes[i];
	if (wider || bytes < adapt->bytes)
		adapt->bytes = bytes;
	if (wider && adapt->patience < PATIENCE_MAX)
		adapt->patience++;
	adapt->samples = 0;
	memset(adapt->over, 0, sizeof(adapt->over));
}

uint32_t adapt_count(struct adapt *adapt, uint64_t need)
{
	bool enough = true;

	adapt->samples++;
	for (size_t i = 0; i < ADAPT_SIZES; i++) {
		adapt->over[i] += need > sizes[i] - sizes[i] / 8;
		if (sizes[i] == adapt->bytes)
			enough = adapt->bytes == ADAPT_MAX || is_enough(adapt, i);
	}
	if (!enough && adapt->samples >= ADAPT_FEW)
		decide(adapt, true);
	else if (adapt->samples >= (uint32_t)ADAPT_MANY << adapt->patience)
		decide(adapt, false);
	return adapt->bytes;
}

void adapt_save(struct adapt *adapt, bool on)
{
	adapt->spare = on ? SAVE : 0;
	adapt->patience = 0;
}
