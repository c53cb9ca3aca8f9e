/* intern-write.h - interned entries as InternedData fields.  Private to trace/.  Thread: main.
 */
#pragma once

#include "trace/intern.h"

/* Appends the entry of the callstack, and before it those of frames, names and mappings that the
 * generation lacks, to in->pending.  @ids innermost first.  -ENOMEM: the sequence cannot go on. */
int intern_write_callstack(struct intern *in, uint32_t id, const uint32_t *ids, size_t n);
