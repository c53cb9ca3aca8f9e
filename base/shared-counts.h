/* shared-counts.h - counters by name, in memory that a process shares with the one that it starts.  Thread: main, of each.
 *
 *   the owner: new, want(name) ── descriptor, inherited by exec ──► the counting process: take, add(name)
 *        read(slot) ◄──────────── the same memory ───────────────────────────┘
 *
 * Counts only grow.  Both sides belong to one user; the counting process trusts nothing but the size of the memory. */
#pragma once

#include "base/util.h"

enum { SHARED_COUNTS = 64, SHARED_COUNT_NAME = 128 };

struct shared_counts;
int shared_counts_new(struct shared_counts **ret_counts);
struct shared_counts *shared_counts_free(struct shared_counts *counts);
/* Borrowed; it is closed by an exec (dup() is not). */
int shared_counts_fd(const struct shared_counts *counts);
/* Counts @name from now on; several slots may have one name.  -EINVAL: empty or of SHARED_COUNT_NAME bytes or more;
 * -ENOSPC. */
int shared_counts_want(struct shared_counts *counts, const char *name, size_t *ret_slot);
void shared_counts_forget(struct shared_counts *counts, size_t slot);
/* Additions since shared_counts_want(), and @origin of the last one (0: none). */
uint64_t shared_counts_read(const struct shared_counts *counts, size_t slot, uint32_t *ret_origin);

/* Consumes @fd, an inherited descriptor.  -EINVAL: it is not memory of this kind. */
int shared_counts_take(int fd, struct shared_counts **ret_counts);
/* Adds one to each slot of this name; @origin: a process, for example. */
void shared_counts_add(struct shared_counts *counts, const char *name, size_t len, uint32_t origin);
