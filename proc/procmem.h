/* procmem.h - /proc/PID/mem as a memory reader.
 *
 * A process may fill a page itself: behind userfaultfd, or from a file on a file system that does not
 * answer.  A read of that page does not end.  With a guard a helper process (base/helper.h) reads,
 * and the descriptor travels with each request: a helper that is lost takes nothing with it.  It is
 * started when the first byte is needed, as most recordings need none. */
#pragma once

#include <sys/types.h>

#include "base/util.h"
#include "unwinder/unwinder.h"

/* Thread: one (the unwinder's). */
struct memory_guard;
/* @deadline_ns: how long the helper may sleep in one read. */
int memory_guard_new(uint64_t deadline_ns, struct memory_guard **ret_guard);
struct memory_guard *memory_guard_free(struct memory_guard *guard);
/* As pread of up to 1 MiB; more is not read.  -ETIMEDOUT: the memory does not answer. */
ssize_t memory_guard_read(struct memory_guard *guard, int fd, uint64_t address, void *to,
			  size_t len);

/* Thread: any. */
struct memory_guard_counts {
	uint64_t refused;  /* reads that were given up */
	uint64_t replaced; /* helpers that ended by themselves */
	uint64_t cpu_ns;   /* used by all helpers, as of the last read */
};
void memory_guard_count(const struct memory_guard *guard, struct memory_guard_counts *ret_counts);

/* The memory of @pid, opened now.  Returns new; free with procfs_memory_free. */
int procfs_memory_new(const char *root, uint32_t pid, struct uw_memory **ret_memory);
/* The same of an open descriptor, which is consumed, also on failure.  Reads go through @guard
 * (borrowed for each read; NULL: directly); after one that timed out none is made for 500 ms, twice that each further time, 64 s at most. */
int procfs_memory_of_fd(int fd, struct memory_guard *guard, struct uw_memory **ret_memory);
/* Its descriptor, borrowed. */
int procfs_memory_fd(const struct uw_memory *memory);
struct uw_memory *procfs_memory_free(struct uw_memory *memory);
