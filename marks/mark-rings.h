/* mark-rings.h - the marks of all processes that take part in a recording: the socket at which they hand over their rings, the
 * rings, and the switch of categories.  Thread: main.
 *
 *   command ── environment (mark_rings_environment) ──┐
 *   running process ── invitation (mark_rings_invite) ┼─► connects at its first mark, sends its ring ─► mark_rings_turn
 *   later process ── hello (mark_rings_welcome), invitation ┘
 *
 * A ring is accepted from the user of this process, and from the processes that were named and their descendants; the kernel
 * gives the pid.  Nothing here waits for a target.
 *
 * The thread of a mark: from the number that the target claims to the number that we see.  Outside of pid namespaces both are the same, and the kernel is asked whether the thread belongs to the process.  In a pid
 * namespace /proc/PID/task shows it: a walk over all threads of the process.  A target can claim any number for each mark, so there
 * is one walk at a time, and in one turn all walks together look at MARK_WALK_THREADS threads.  What a walk finds is remembered, also
 * that a number is not a thread of the process. */
#pragma once

#include "base/util.h"
#include "marks/mark-ring.h"

struct mark_rings_options {
	int clock;	 /* of the samples */
	uint64_t mask;	 /* categories, MARKS_TEXT, MARKS_FUNCTIONS */
	uint32_t flags;	 /* MARKS_TAKE_ALL */
	bool peer_pidfd; /* FEATURE_PEER_PIDFD */
};

struct mark_rings;
int mark_rings_new(const struct mark_rings_options *options, struct mark_rings **ret_rings);
struct mark_rings *mark_rings_free(struct mark_rings *rings);
/* The value of MARKS_ENV for a command that is to take part.  Borrowed. */
const char *mark_rings_environment(const struct mark_rings *rings);

/* Programs that load the library from now on take part: all programs of this user; of all users where this is root.
 * -EADDRINUSE: they take part in another recording of this user, and here once that has ended. */
int mark_rings_welcome(struct mark_rings *rings);
/* Process @pid and its descendants take part; not another process that gets the number later.  -ENOMEM, -EMFILE. */
int mark_rings_allow(struct mark_rings *rings, uint32_t pid);
enum mark_rings_invited {
	MARK_RINGS_INVITED,
	MARK_RINGS_NOT_LOADED, /* libperfwind-marks.so is not in the process, or the process closed its descriptor */
	MARK_RINGS_FORBIDDEN,
	MARK_RINGS_GONE,
};
/* The same for a process that runs already, while this process has the privileges for it.  < 0: -ENOMEM, -EMFILE. */
int mark_rings_invite(struct mark_rings *rings, uint32_t pid);

struct mark_rings_sink {
	/* One mark.  @tid is a thread of @pid.  < 0 ends the turn with this. */
	int (*mark)(void *arg, uint32_t pid, uint32_t tid, const struct mark_ring_mark *mark);
	/* No more marks come from this ring of @pid: the process ended, or began another program. */
	int (*ended)(void *arg, uint32_t pid);
	void *arg;
};
/* Accepts rings and reads marks, MARK_RINGS_MARKS at most, and ten times as many of processes that have ended; what is left of those
 * comes in the next turns.  Call it every MARK_RINGS_TURN_MS.  < 0: @sink's. */
enum { MARK_RINGS_TURN_MS = 25, MARK_RINGS_MARKS = 20000 };
int mark_rings_turn(struct mark_rings *rings, const struct mark_rings_sink *sink);
/* After the last turn: what was not read counts as lost. */
void mark_rings_lose(struct mark_rings *rings);
/* Switches categories while it records; 0: off, at the end. */
void mark_rings_switch(struct mark_rings *rings, uint64_t mask);

struct mark_rings_counts {
	struct mark_ring_counts marks;
	uint64_t forged; /* marks that name a thread of another process: left out */
	uint64_t
		not_found; /* the same in a pid namespace, where it may be a thread that has ended */
	uint64_t processes; /* rings accepted */
	uint64_t rejected;  /* messages that are not a ring, or of a process that takes no part */
	uint64_t refused;   /* rings beyond the limit */
};
void mark_rings_counts(const struct mark_rings *rings, struct mark_rings_counts *ret_counts);

/* ---- threads of marks: for tests ---- */

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
