/* copied-entry.h - what the session's BPF program copied at a sample (perf/at-sample.h), with the sample's entry: the longer
 * copy of its stack, and frames of an interpreter.  Each of @deep and @stacks may be NULL.  Thread: main. */
#pragma once

#include "perf/at-sample.h"
#include "perf/record.h"
#include "session/pipeline/entry.h"

/* Where the kernel's copy of the stack of @sample is full: the longer copy in its place, if there is one.  The frames, where
 * its process has an interpreter and they were copied. */
void copied_entry_attach(struct deep *deep, struct python_stacks *stacks,
			 const struct record_sample *sample, struct entry *e);
/* Is its stack beyond the largest copies, by its size alone?  True only for a main thread on its own stack: behind the stacks
 * of other threads, and of goroutines, is other memory, so their copies are full. */
bool copied_entry_is_deep(const struct record_sample *sample, const struct entry *e);
/* The entry's bytes were copied, or its sample was unwound: gives the records back. */
void copied_entry_put(struct deep *deep, struct python_stacks *stacks, struct entry *e);
