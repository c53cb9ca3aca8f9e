/* wait-reason.h - why a thread does not run.  Thread: any. */
#pragma once

#include "base/util.h"
#include "protos/wait-module.h"

enum wait_reason {
	WAIT_NONE,  /* not a wait */
	WAIT_OTHER, /* none of the others, or not known: the stack may show it */
	WAIT_SLEEP,
	WAIT_DISK, /* a file, a file system, a block device */
	WAIT_LOCK, /* futex, semaphore, file lock; a lock of the kernel */
	WAIT_PIPE, /* pipe or socket */
	WAIT_POLL, /* poll, select, epoll */
	WAIT_CHILD,
	WAIT_FAULT,	/* page fault */
	WAIT_PREEMPTED, /* another task took the CPU */
	WAIT_RUNNABLE,	/* started or woken, and no CPU was free yet */
	WAIT_RUNNING,	/* not a wait: running time without a sample */
	WAIT_UNKNOWN,	/* records of switches were lost */
	WAIT_REASONS,
};

/* The frame of WAIT_MODULE that stands for it at the end of a stack: "[sleep]".  "" of WAIT_NONE. */
const char *wait_reason_frame(enum wait_reason reason);

/* By the functions of the kernel in which it waits: called for each, innermost first, with the reason so far (first
 * WAIT_OTHER: none is known).  @function may be NULL. */
enum wait_reason wait_reason_of_function(enum wait_reason so_far, const char *function);

/* What a descriptor is, for calls that wait for any. */
enum wait_file { WAIT_FILE_OTHER, WAIT_FILE_PIPE };
/* By the number of a system call of this machine; -1: none, which is a page fault.  @file: of its first argument. */
enum wait_reason wait_reason_of_call(long number, enum wait_file file);
