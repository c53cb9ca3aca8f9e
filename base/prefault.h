/* prefault.h - memory that is there before it is needed.  Thread: main.
 *
 * A process in a memory cgroup at its limit is killed when it touches a new page: also a page that it shares with a child since a
 * fork, when it writes to it.  A flight recorder must go on then. */
#pragma once

#include "base/util.h"

/* Before other threads are made: all threads allocate from one heap, which keeps what is freed; large allocations
 * (512 KiB) have pages of their own. */
void prefault_one_heap(void);
/* Touches @bytes more of that heap, for allocations later, and writes to all pages of the heap, data, the libraries' data and the
 * upper 256 KiB of stacks, so that none is shared with a child any more.  Locks them as far as RLIMIT_MEMLOCK allows.  After
 * children were made; a failure leaves things as they were. */
void prefault_heap(size_t bytes);
