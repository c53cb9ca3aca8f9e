/* deep-entry.h - the longer copy of a stack that the session's BPF program made (perf/at-sample.h), with the sample's entry.
 * Thread: main. */
#pragma once

#include "perf/at-sample.h"
#include "perf/record.h"
#include "session/pipeline/entry.h"

/* Where the kernel's copy of the stack of @sample is full: the longer copy in its place, if there is one.  @deep may be NULL. */
void deep_entry_attach(struct deep *deep, const struct record_sample *sample, struct entry *e);
/* The entry's bytes were copied, or its sample was unwound: gives the record back. */
void deep_entry_put(struct deep *deep, struct entry *e);
