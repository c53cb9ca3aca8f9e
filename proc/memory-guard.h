/* memory-guard.h - reads of /proc/PID/mem that end.  Thread: one (the unwinder's).
 *
 * A page of a process may be its own affair to fill: behind userfaultfd, or of a file whose file
 * system does not answer.  So a helper process (base/helper.h) reads, and the descriptor travels with
 * each request: a helper that is lost takes nothing with it.  It is made when the first byte is
 * needed, as most recordings need none. */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "base/util.h"

struct memory_guard;
/* @deadline_ns: how long the helper may sleep over one read. */
int memory_guard_new(uint64_t deadline_ns, struct memory_guard **ret_guard);
struct memory_guard *memory_guard_free(struct memory_guard *guard);
/* As pread of up to 64 KiB: what is more is not read.  -ETIMEDOUT: that memory does not answer. */
ssize_t memory_guard_read(struct memory_guard *guard, int fd, uint64_t address, void *to,
			  size_t len);

/* Any thread. */
struct memory_guard_counts {
	uint64_t refused;  /* reads that were given up */
	uint64_t replaced; /* helpers that ended by themselves */
	uint64_t cpu_ns;   /* used by all, as of the last read */
};
void memory_guard_count(const struct memory_guard *guard, struct memory_guard_counts *ret_counts);

/* procmem.c: all that can be had of [@address, @address + @len), without a guard. */
ssize_t memory_read_fd(int fd, uint64_t address, void *to, size_t len);
