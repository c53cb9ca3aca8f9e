/* child.h - forks of this process with fewer rights, which may hang in the kernel permanently: what helper.h builds on.  Thread: any.
 *
 * Forked without exec, for calls that a target or a peer can leave unanswered. They have our code,
 * the named ones of our capabilities and descriptors, and our list of system calls (rights.h:
 * seccomp is inherited), and they end with the thread that made them.  Their maker never waits for
 * them without a limit: a process that SIGKILL does not end is left behind, known by its name, and
 * reaped when the next one is made or ended. Used by base/helper.h, base/closer.h and
 * session/consent/consent.h.
 *
 * A child has all memory that its maker had at the fork, and each page that either writes later exists
 * twice: what a recording had gathered, for as long as the child lives.  So children that are made late
 * come from a process that was forked when the recording began, the spare.  It waits, with the rights of its
 * maker, for an order; then it forks the next spare, as a child of its own parent, and becomes the child
 * that is wanted. */
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include "base/util.h"

enum { CHILD_KEPT = 2, CHILD_ARG_MAX = 384 };

/* The system calls that it may make, of ours. */
enum child_calls {
	CHILD_CALLS_OURS,
	CHILD_CALLS_ACCEPT, /* the next, takes connections, and makes children */
	CHILD_CALLS_OPEN,  /* the next, and opens for reading; makes, removes and signals nothing */
	CHILD_CALLS_GIVEN, /* works on descriptors that it is given, and opens nothing */
	CHILD_CALLS_BPF,   /* the same, loads BPF programs, and opens for reading */
	CHILD_CALLS_N,
};

/* A user id without account, container or service (systemd's UIDS-GIDS: "unused"). Not 65534:
 * other processes of that user could signal ours. */
#define CHILD_USER 2147483640u

struct child {
	const char *name;     /* of the process, at most 15 bytes; a constant */
	int keep[CHILD_KEPT]; /* descriptors that it has too, -1: none */
	uint64_t rights;      /* capabilities that it keeps, as far as we have them: CAPS_BIT() */
	enum child_calls calls;
	bool needed;	 /* see child_expendable() */
	bool other_user; /* a child of root becomes CHILD_USER, without capabilities */
	/* Runs in the child, which ends when it returns.  It must take no lock that another thread
	 * of the parent could hold: it does not log, and uses stdio on memory alone. */
	void (*run)(void *arg);
	void *arg;
	/* > 0: the spare can become this child.  @run and @name are the program's; @arg is so many bytes, at most CHILD_ARG_MAX,
	 * without a pointer into memory of its maker; it begins with @keep, which gets the numbers that the descriptors have in
	 * the child. */
	size_t arg_size;
};
/* Process-wide, for children that are made from now on.  Thread: main, before it has any. */
/* The filters of children with @calls; the kernel logs what the first refuses, and not what @quiet does (may be empty).  Consumes
 * both programs' instructions. */
void child_filter(enum child_calls calls, const struct sock_fprog *program,
		  const struct sock_fprog *quiet);
/* The standard error of children is *@fd, there descriptor 2 (default: /dev/null). */
void child_error(int *fd);
/* Children with CHILD_CALLS_GIVEN also lose the file system, the network and signals by Landlock
 * (FEATURE_LANDLOCK). Those that open files do not: a process under Landlock cannot read processes
 * that are not. */
void child_landlock(bool has);
/* Where memory is short, the kernel ends children before us (oom_score_adj), but not those with `needed`.  Thread: main. */
void child_expendable(bool on);
/* Makes the spare for the first user; its end with the last one.  Later children have the rights that its maker has now, and end with
 * that thread.  Thread: main. */
void child_spare(void);
void child_spare_end(void);
/* -EAGAIN, -ENOMEM ... */
int child_start(const struct child *child, pid_t *ret_pid);
/* Kills it, and waits for its end for @wait_ms at most. */
void child_end(pid_t pid, const char *name, int wait_ms);
/* Can it run now? A process that waits for a CPU is not stuck. */
bool child_runnable(pid_t pid);
/* The most memory in KiB that children of this process had at any one time, without what they share with it: pages of the
 * program and windows. */
uint64_t child_peak_kb(void);
/* The number of processes of that name that were killed and still exist. */
size_t child_left(const char *name);
