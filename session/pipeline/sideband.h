/* sideband.h - records about processes, applied to the process table.  Thread: main. */
#pragma once

#include "perf/record.h"
#include "proc/process.h"

/* COMM, FORK, EXIT, MMAP, MMAP2, in time order; others change nothing. */
int sideband_apply(struct process_table *processes, const struct record_event *event);
