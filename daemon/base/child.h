/* child.h - processes of our own that may hang in the kernel for good.  Thread: any.
 *
 * Forked without exec, for the calls that a target or a peer can leave unanswered: they have our
 * code, of our capabilities and descriptors those that are named, our list of system calls (rights.h:
 * seccomp is inherited), and end with the thread that made them.  Whoever makes one never waits for it without a bound: what SIGKILL does not end is left,
 * known by its name, and reaped whenever the next one is made or ended.
 * base/helper.h, base/closer.h and proc/hook-process.h are made of it. */
#pragma once

#include <sys/types.h>

#include "daemon/base/util.h"

enum { CHILD_KEPT = 2 };

struct child {
	const char *name;     /* of the process, at most 15 bytes; a constant */
	int keep[CHILD_KEPT]; /* descriptors that it has too, -1: none */
	uint64_t rights;      /* capabilities that it keeps, as far as we have them: CAPS_BIT() */
	/* In the child, whose end is the function's.  It must take no lock that another thread of
	 * the parent could hold: it does not log, and uses stdio on memory alone. */
	void (*run)(void *arg);
	void *arg;
};
/* -EAGAIN, -ENOMEM ... */
int child_start(const struct child *child, pid_t *ret_pid);
/* Kills it, and waits for its end for @wait_ms at most. */
void child_end(pid_t pid, const char *name, int wait_ms);
/* Could it run now?  One that waits for a CPU is not stuck. */
bool child_runnable(pid_t pid);
/* How many of that name were killed and are there still. */
size_t child_left(const char *name);
