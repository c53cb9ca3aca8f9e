/* cpu-counts.c - see cpu-counts.h. */
#include "session/pipeline/cpu-counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int cpu_counts_grow(struct cpu_counts *counts, size_t n)
{
	struct cpu_count *more = reallocarray(counts->cpus, n, sizeof(*more));

	if (!more)
		return fail(-ENOMEM);
	memset(more + counts->n, 0, (n - counts->n) * sizeof(*more));
	counts->cpus = more;
	counts->n = n;
	return 0;
}

void cpu_counts_deinit(struct cpu_counts *counts)
{
	free(take(counts->cpus));
	counts->n = 0;
}

uint64_t cpu_count_throttle(struct cpu_count *cpu, bool on, uint64_t time)
{
	uint64_t since = cpu->throttled_at;

	cpu->throttled_at = on ? time : 0;
	return !on && since && time > since ? time - since : 0;
}
