/* cpu-counts.c - see cpu-counts.h. */
#include "session/pipeline/cpu-counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proc/process.h"
#include "session/pipeline/entry.h"

enum { LATE_MS = 100 }; /* by more: the clock was set back */

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

uint64_t cpu_count_add(struct cpu_count *cpu, uint64_t weight, uint64_t time)
{
	if (time <= cpu->time && cpu->time - time < LATE_MS * NSEC_PER_MSEC)
		time = cpu->time + 1;
	cpu->count += weight;
	cpu->time = time;
	return time;
}

void cpu_count_owed(struct cpu_count *cpu, struct process *process, uint64_t weight,
		    struct sample_info *ret_info)
{
	/* All samples of the CPU may have been left out so far. */
	(void)cpu_count_add(cpu, weight, max_u64(cpu->time + 1, process->share.time));
	*ret_info = (struct sample_info){
		.process = process,
		.time = cpu->time,
		.weight = weight,
		.count = cpu->count,
		.pid = process->pid,
		.tid = process->share.tid,
		.cpu = process->share.cpu,
		.cpu_mode = 2, /* PERF_RECORD_MISC_USER */
	};
}
