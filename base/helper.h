/* helper.h - a disposable process for the calls that a target could make hang.  Thread: one at a
 * time for each helper.
 *
 * A file system that never answers, a FIFO, memory behind userfaultfd: open(), fstat(), pread() and
 * close() on these may sleep where not even SIGKILL ends them, and a thread that sleeps so keeps
 * its process from exiting.  So these calls are made by a child that is forked without exec (it has
 * our code, the privileges of its role and none of our descriptors) and serves one request after
 * the other. A requester never waits without a limit: a helper that has no answer is freed -
 * killed, and where that does not help, left behind - and another one is made.
 *
 *   asker                                          helper process
 *   helper_ask() ── request, one descriptor ─────► role->serve()
 *   helper_answer() ◄── length, one descriptor ──     │ answer
 *        └── reads it in place ─── window (shared) ◄──┘
 *
 * A role may have a partner: a second process that is made and ended with the first, for work that
 * must not have the privileges of the first. Requests go to the first only; it passes work on, and
 * its partner may ask it back meanwhile. The partner's answer is in a window of its own, which the
 * first cannot access:
 *
 *   asker ── request ──► serve() of the role ── helper_partner_ask() ──► serve() of its partner
 *     ▲                     ▲    └── helper_partner_reply() ──►                 │ answer
 *     │                     └─────── helper_ask_back(), length ────────────────┤
 *     └── reads both in place ── window, partner's window ◄────────────────────┘
 *
 * A new kind of request: one more value of the role's own request struct and one more case in its
 * serve(); requests and answers are plain data, so nothing here changes.  New work altogether (for example,
 * accepting connections of targets and checking the descriptors that they send) is a role of its
 * own: a name, begin() for what it keeps, serve().  A role that has to hand a descriptor of its own
 * to the helper for good (a listening socket) sends it with its first request and keeps it by
 * take_fd(call->fd).
 * The roles: session/loader/load-role.h (files and processes), proc/procmem.h (memory). */
#pragma once

#include "base/child.h"

enum {
	HELPER_REQUEST_MAX = 12 << 10,
	HELPER_ARG_MAX = 320,
	/* An answer larger than this leaves no memory behind. */
	HELPER_KEPT_BYTES = 1 << 20,
};

/* The argument of serve(), in the helper process. */
struct helper_call {
	const uint8_t *request;
	size_t request_len;
	int fd; /* that came with the request, -1: none; closed after if it was not taken */
	uint8_t *answer;
	size_t room, answer_len;
	int answer_fd;		/* sent with the answer, -1: none; closed afterwards */
	_Atomic uint64_t *mark; /* the object in use; the requester sees it while it waits */
	int partner;		/* the other one of the two processes, -1: none */
	size_t partner_len;	/* of the partner's answer */
	bool partner_lost;	/* it has ended: this process ends too, after this request */
};

struct helper_role {
	const char *name; /* of the process, at most 15 bytes */
	size_t room;	  /* for an answer; unused pages cost nothing */
	uint64_t rights;  /* capabilities that it keeps: CAPS_BIT() */
	enum child_calls calls;
	bool other_user; /* struct child */
	/* The role is a constant, and the @arg of begin() is arg_size bytes (HELPER_ARG_MAX) without a pointer into memory of its
	 * maker: where a recording runs, the process comes from the spare (base/child.h). */
	bool from_spare;
	size_t arg_size;
	const struct helper_role *partner; /* NULL: none */
	/* In the helper process, once. Its result is the @kept of serve(). */
	void *(*begin)(const void *arg);
	void (*serve)(void *kept, struct helper_call *call);
};

/* ---- in the processes of a role with a partner ---- */
/* Hands a request to the partner. */
int helper_partner_ask(struct helper_call *call, const void *request, size_t len, int fd);
/* Waits for its message: HELPER_ASKED and a question, to be answered by helper_partner_reply(), or
 * 0: it has served the request. -EPIPE: it has ended. */
enum { HELPER_ASKED = 1 };
int helper_partner_receive(struct helper_call *call, void *question, size_t room, size_t *ret_len);
int helper_partner_reply(struct helper_call *call, const void *reply, size_t len, int fd);
/* For the partner: sends a message that has no reply. */
int helper_send_back(struct helper_call *call, const void *word, size_t len);
/* For the partner: asks and waits. Returns the bytes received; *ret_fd is the caller's, -1: none.
 */
ssize_t helper_ask_back(struct helper_call *call, const void *question, size_t len, void *reply,
			size_t room, int *ret_fd);

struct helper;
/* Forks.  @role and @arg are read in the child only.  -ENOMEM, -EAGAIN, -EMFILE ... */
int helper_new(const struct helper_role *role, const void *arg, struct helper **ret_helper);
/* Ends it, also during a request, and waits a few milliseconds at most: a process that cannot be
 * killed is left behind. */
struct helper *helper_free(struct helper *helper);

/* Never waits.  @fd is borrowed, -1: none.  -EPIPE: the helper has ended; -EBUSY: it has a request.
 */
int helper_ask(struct helper *helper, const void *request, size_t len, int fd);
/* The answer, borrowed until the next helper_ask() or helper_done(); the bytes are in memory that
 * the helper can write, so each is read once.  *ret_fd is the caller's, -1: none.
 * HELPER_WAITING: not yet.  -EPIPE: the helper has ended. */
enum { HELPER_WAITING = 1 };
int helper_answer(struct helper *helper, const uint8_t **ret_answer, size_t *ret_len, int *ret_fd);
/* The partner's part of that answer, borrowed as long; NULL and 0: it had no request. */
const uint8_t *helper_partner_answer(const struct helper *helper, size_t *ret_len);
/* The same as helper_answer(), after waiting for @timeout_ns at most. */
int helper_wait(struct helper *helper, uint64_t timeout_ns, const uint8_t **ret_answer,
		size_t *ret_len, int *ret_fd);
/* Gives back the memory of a large answer. */
void helper_done(struct helper *helper);

/* Readable when there is an answer, or the helper has ended. */
int helper_fd(const struct helper *helper);
int helper_pid(const struct helper *helper);
int helper_partner_pid(const struct helper *helper); /* -1: none */
uint64_t helper_mark(const struct helper *helper);
/* CPU time it has used, ns; with its partner's. */
uint64_t helper_cpu_ns(const struct helper *helper);
/* Can it, or its partner, run now? A process that waits for a CPU is not stuck. */
bool helper_runnable(const struct helper *helper);
