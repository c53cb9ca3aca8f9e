/* mark-threads.h - the thread of a mark: from the number that a target claims to the number that we see.  Thread: main.
 *
 * Outside of pid namespaces both are the same, and the kernel is asked whether the thread belongs to the process.  In a pid
 * namespace /proc/PID/task shows it: a walk over all threads of the process.  A target can claim any number for each mark, so there
 * is one walk at a time, and in one turn all walks together look at MARK_WALK_THREADS threads.  What a walk finds is remembered, also
 * that a number is not a thread of the process. */
#pragma once

#include "base/util.h"

struct mark_walk; /* what all processes share */
/* @root: as of proc/procfs.h; borrowed. */
int mark_walk_new(const char *root, struct mark_walk **ret_walk);
struct mark_walk *mark_walk_free(struct mark_walk *walk);
/* The next turn: goes on with the walk. */
int mark_walk_turn(struct mark_walk *walk);
enum { MARK_WALK_THREADS = 512 };

struct mark_threads; /* of one process */
/* @claimed_pid: the process as it sees itself.  Borrows @walk. */
int mark_threads_new(struct mark_walk *walk, uint32_t pid, uint32_t claimed_pid,
		     struct mark_threads **ret_threads);
struct mark_threads *mark_threads_free(struct mark_threads *threads);
/* The process has ended: nothing is looked up any more. */
void mark_threads_end(struct mark_threads *threads);
/* The thread that the process calls @tid; *ret_tid 0: there is none in it.  MARK_THREADS_LATER: ask again in the next turn.
 * -ENOMEM. */
enum { MARK_THREADS_LATER = 1, MARK_THREADS_MAX = 4096 /* remembered; all are forgotten then */ };
int mark_threads_find(struct mark_threads *threads, uint32_t tid, uint32_t *ret_tid);
/* The thread has ended: its number may be another thread's from now on. */
void mark_threads_forget(struct mark_threads *threads, uint32_t tid);
