/* cpu-counts.h - what the reader counts of each CPU.  Thread: main. */
#pragma once

#include "base/util.h"

struct process;
struct sample_info;

struct cpu_count {
	uint64_t count;	       /* running sum of weights */
	uint64_t time;	       /* of the latest sample in it */
	uint64_t lost;	       /* samples, by LOST records */
	uint64_t throttled_at; /* 0: not throttled */
};

struct cpu_counts {
	struct cpu_count *cpus; /* by ring; of a file by CPU */
	size_t n;
};

/* Zeroed ones up to @n. */
int cpu_counts_grow(struct cpu_counts *counts, size_t n);
void cpu_counts_deinit(struct cpu_counts *counts);
/* Samples stop (@on) or go on at @time: how long they have been stopped, ns. */
uint64_t cpu_count_throttle(struct cpu_count *cpu, bool on, uint64_t time);
/* A sample of @weight at @time.  Returns its time in the trace, where the sums grow with time, else a sample would have the weight
 * of another: behind all earlier ones of the CPU, also where the clock stands still or the record was late. */
uint64_t cpu_count_add(struct cpu_count *cpu, uint64_t weight, uint64_t time);
/* Weight of @process that no sample has, as the latest sample of @cpu. */
void cpu_count_owed(struct cpu_count *cpu, struct process *process, uint64_t weight,
		    struct sample_info *ret_info);
