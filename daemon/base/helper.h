/* helper.h - a disposable process for the calls that a target could make hang.  Thread: one at a
 * time for each helper.
 *
 * A file system that never answers, a FIFO, memory behind userfaultfd: open(), fstat(), pread() and
 * close() on these may sleep where not even SIGKILL ends them, and a thread that sleeps so keeps its
 * process from exiting.  So such calls are made by a child that is forked without exec (it has our
 * code, the rights of its role and none of our descriptors) and serves one request after the other.  Whoever
 * asks never waits without a bound: a helper that has no answer is freed - killed, and where that
 * does not help, left behind - and another one is made.
 *
 *   asker                                          helper process
 *   helper_ask() ── request, one descriptor ─────► role->serve()
 *   helper_answer() ◄── length, one descriptor ──     │ answer
 *        └── reads it in place ─── window (shared) ◄──┘
 *
 * A new kind of request: one more value of the role's own request struct and one more case in its
 * serve(); requests and answers are plain data, so nothing here changes.  New work altogether (say,
 * accepting connections of targets and checking the descriptors that they send) is a role of its
 * own: a name, begin() for what it keeps, serve().  A role that has to hand a descriptor of its own
 * to the helper for good (a listening socket) sends it with its first request and keeps it by
 * take_fd(call->fd).
 * The roles: stage/load-role.h (files and processes), proc/memory-guard.h (memory), ipc/output.h
 * (descriptors of those who ask). */
#pragma once

#include "daemon/base/child.h"

enum {
	HELPER_REQUEST_MAX = 12 << 10,
	/* An answer larger than this leaves no memory behind. */
	HELPER_KEPT_BYTES = 1 << 20,
};

/* What serve() is given, in the helper process. */
struct helper_call {
	const uint8_t *request;
	size_t request_len;
	int fd; /* that came with the request, -1: none; closed after, unless taken */
	uint8_t *answer;
	size_t room, answer_len;
	int answer_fd;		/* to go with the answer, -1: none; closed after */
	_Atomic uint64_t *mark; /* what is being touched; the asker sees it while it waits */
};

struct helper_role {
	const char *name; /* of the process, at most 15 bytes */
	size_t room;	  /* for an answer; what is not touched costs nothing */
	uint64_t rights;  /* capabilities that it keeps: CAPS_BIT() */
	enum child_calls calls;
	/* In the helper process, once.  What it returns is serve()'s @kept. */
	void *(*begin)(const void *arg);
	void (*serve)(void *kept, struct helper_call *call);
};

struct helper;
/* Forks.  @role and @arg are read in the child only.  -ENOMEM, -EAGAIN, -EMFILE ... */
int helper_new(const struct helper_role *role, const void *arg, struct helper **ret_helper);
/* Ends it, also in the midst of a request, and waits for that a few milliseconds at most: one that
 * cannot be killed is left behind. */
struct helper *helper_free(struct helper *helper);
/* The same without waiting: of one that is known to be stuck. */
struct helper *helper_abandon(struct helper *helper);

/* Never waits.  @fd is borrowed, -1: none.  -EPIPE: the helper has ended; -EBUSY: it has a request.
 */
int helper_ask(struct helper *helper, const void *request, size_t len, int fd);
/* The answer, borrowed until the next helper_ask() or helper_done(); the bytes are in memory that
 * the helper can write, so each is read once.  *ret_fd is the caller's, -1: none.
 * HELPER_WAITING: not yet.  -EPIPE: the helper has ended. */
enum { HELPER_WAITING = 1 };
int helper_answer(struct helper *helper, const uint8_t **ret_answer, size_t *ret_len, int *ret_fd);
/* The same, after waiting for @timeout_ns at most. */
int helper_wait(struct helper *helper, uint64_t timeout_ns, const uint8_t **ret_answer,
		size_t *ret_len, int *ret_fd);
/* Gives back the memory of a large answer. */
void helper_done(struct helper *helper);

/* Readable when there is an answer, or the helper has ended. */
int helper_fd(const struct helper *helper);
int helper_pid(const struct helper *helper);
uint64_t helper_mark(const struct helper *helper);
/* CPU time it has used, ns. */
uint64_t helper_cpu_ns(const struct helper *helper);
/* Could it run now?  One that waits for a CPU is not stuck. */
bool helper_runnable(const struct helper *helper);
