/* cpu-counts.h - what the reader counts of each CPU.  Thread: main. */
#pragma once

#include "base/util.h"

struct cpu_count {
	uint64_t count;	       /* running sum of weights */
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
