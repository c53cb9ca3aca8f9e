/* hook-server.h - takes answers at the hook socket and believes none before it was checked.
 * Thread: that of the hook process (hook-process.h): a call on what a peer sends may hang for ever.
 *
 * Plain functions over a listening socket and the pids that were asked; no loop, no memory but the
 * struct's own and what reading /proc takes. */
#pragma once

#include <stdatomic.h>

#include "base/closer.h"
#include "base/table.h"
#include "session/consent/hook-check.h"

enum {
	HOOK_CONNECTIONS = 64,	     /* that have said nothing yet */
	HOOK_CONNECTIONS_OF_ONE = 8, /* of these, of one process */
	HOOK_DEADLINE_MS = 1000,
	HOOK_ASKED_MAX = 4096
};

struct hook_server {
	int listen_fd;	   /* borrowed, non-blocking */
	bool peer_pidfd;   /* FEATURE_PEER_PIDFD */
	uint32_t deadline; /* ms that a connection may be silent */
	struct table asked;
	struct hook_peer {
		int fd, pidfd; /* pidfd -1: the kernel gives none */
		uint32_t pid, uid;
		uint64_t until;	   /* CLOCK_MONOTONIC */
	} peers[HOOK_CONNECTIONS]; /* silent so far; oldest first */
	size_t n_peers;
	struct closer closer;
	/* The process whose descriptors are in hand, 0: none.  Who waits for us in vain knows by it
	 * whose fault that is. */
	_Atomic uint64_t *at_work; /* hook_at_work_pid(), _uid() */
	_Atomic uint64_t *counts;  /* HOOK_VERDICTS of them */
	/* Good ones, borrowed.  < 0: they cannot be passed on. */
	int (*verified)(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS]);
	/* A process that was asked is here, and its message has not come yet: told once.  What it sends
	 * is lost with us.  NULL: nobody wants to know. */
	void (*taken)(void *arg, uint32_t pid);
	/* What a process that was asked sent is worthless, and another answer of it is not: it was sent
	 * by a thread that has ended.  NULL: nobody wants to know. */
	void (*lost)(void *arg, uint32_t pid);
	/* Hears who else is expected, before anybody is called a stranger: who was asked just now
	 * may be here sooner than the word of it.  NULL: there is nobody to hear. */
	void (*hear)(void *arg);
	void *arg;
};

static inline uint32_t hook_at_work_pid(uint64_t at_work)
{
	return (uint32_t)at_work;
}
static inline uint32_t hook_at_work_uid(uint64_t at_work)
{
	return (uint32_t)(at_work >> 32);
}

/* Fills in the rest of *server, whose listen_fd, peer_pidfd, at_work, counts, verified, hear
 * and arg are set. */
void hook_server_init(struct hook_server *server);
void hook_server_deinit(struct hook_server *server);
/* An answer of @pid is taken, once.  -E2BIG: HOOK_ASKED_MAX are waited for. */
int hook_server_expect(struct hook_server *server, uint32_t pid);
void hook_server_forget(struct hook_server *server, uint32_t pid);
/* Waits until something happens at the socket or at @other (-1: none), at most @timeout_ms (-1: no
 * limit but the peers' deadlines).  *ret_other: @other is ready, and comes before any answer. */
int hook_server_wait(struct hook_server *server, int other, int timeout_ms, bool *ret_other);
/* Takes what is there.  Does not wait. */
void hook_server_take(struct hook_server *server);
