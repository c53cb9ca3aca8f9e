/* python-entry.h - the Python frames of a sample that the session's BPF program copied (perf/at-sample.h), with the
 * sample's entry.  Thread: main. */
#pragma once

#include "perf/at-sample.h"
#include "session/pipeline/entry.h"

/* Adds the frames of the sample, where its process has a Python and they were copied.  @stacks may be NULL. */
void python_entry_attach(struct python_stacks *stacks, struct entry *e);
/* The entry's bytes were copied, or its sample was unwound: gives the record back. */
void python_entry_put(struct python_stacks *stacks, struct entry *e);
/* From now on the samples of @process have the stack of GHC's code (unwinder/native-stg.c). */
void python_entry_add_stg(struct python_stacks *stacks, struct process *process);
/* From now on the samples of process @pid have their frames; @module is its Python's, loaded. */
void python_entry_add(struct python_stacks *stacks, uint32_t pid, const struct uw_module *module);
