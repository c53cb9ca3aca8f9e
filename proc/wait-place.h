/* wait-place.h - where a thread of another process waits: its system call, stack pointer and stack.  Thread: loader.
 *
 * /proc/PID/task/TID/syscall (Linux 2.6.27, CONFIG_HAVE_ARCH_TRACEHOOK) has one line: "running", or the number of the
 * system call, its six arguments, sp and pc, or "-1", sp and pc outside of a system call.  It needs the right to trace the
 * process.  The process is not stopped: the caller finds out by other means whether the thread waited all the time. */
#pragma once

#include <sys/types.h>

#include "base/util.h"

struct wait_place {
	int64_t number;	   /* of the system call; -1: none (a page fault) */
	uint64_t argument; /* the first */
	uint64_t sp, pc;
	bool is_pipe; /* the first argument is a descriptor of a pipe or socket (only looked up where asked) */
};

/* -EAGAIN: it runs; -EBADMSG: not a line of this form. */
int wait_place_parse(const char *line, struct wait_place *ret_place);
/* The same of a thread, now.  -ESRCH, -EACCES, ... */
int wait_place_read(const char *root, uint32_t pid, uint32_t tid, struct wait_place *ret_place);
/* Sets place->is_pipe. */
void wait_place_find_file(const char *root, uint32_t pid, struct wait_place *place);
/* Up to @len bytes of the memory of the process, from @address on: how many, or -errno. */
ssize_t wait_place_stack(const char *root, uint32_t pid, uint64_t address, void *to, size_t len);
