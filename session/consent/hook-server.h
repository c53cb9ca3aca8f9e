/* hook-server.h - accepts answers at the hook socket and verifies each.
 * Thread: that of the hook process (hook-process.h), as a call on a message of a peer may hang.
 *
 * Functions over a listening socket and the pids that were asked; no loop, and no memory except the
 * struct and the text of /proc files. */
#pragma once

#include <stdatomic.h>

#include "base/closer.h"
#include "base/table.h"
#include "session/consent/hook-check.h"

enum {
	HOOK_CONNECTIONS = 64,	     /* that have sent nothing yet */
	HOOK_CONNECTIONS_OF_ONE = 8, /* ... of one process */
	HOOK_DEADLINE_MS = 1000,
	HOOK_ASKED_MAX = 4096
};

struct hook_server {
	int listen_fd;	   /* borrowed, non-blocking */
	bool peer_pidfd;   /* FEATURE_PEER_PIDFD */
	uint32_t deadline; /* ms that a connection may stay silent */
	struct table asked;
	struct hook_peer {
		int fd, pidfd; /* pidfd -1: the kernel provides none */
		uint32_t pid, uid;
		uint64_t until;	   /* CLOCK_MONOTONIC */
	} peers[HOOK_CONNECTIONS]; /* silent so far, oldest first */
	size_t n_peers;
	struct closer closer;
	/* The process of the descriptors that are being handled; 0: none.  If this process hangs, main
	 * learns the cause from it. */
	_Atomic uint64_t *at_work; /* hook_at_work_pid(), _uid() */
	_Atomic uint64_t *counts;  /* HOOK_VERDICTS counts */
	/* Takes verified descriptors, borrowed.  < 0: they cannot be passed on. */
	int (*verified)(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS]);
	/* An asked process has connected, and its message has not arrived yet; called once.  Its
	 * message is lost if this process ends.  NULL: not called. */
	void (*taken)(void *arg, uint32_t pid);
	/* The message of an asked process is unusable, but a second one would not be: its thread
	 * has ended.  NULL: not called. */
	void (*lost)(void *arg, uint32_t pid);
	/* Reads further expected pids from main, before a peer is counted as a stranger: a process
	 * that was just asked may connect before its pid has arrived.  NULL: not called. */
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

/* Initialises the other members: the caller has set listen_fd, peer_pidfd, at_work, counts,
 * verified, hear and arg. */
void hook_server_init(struct hook_server *server);
void hook_server_deinit(struct hook_server *server);
/* Accepts one answer of @pid.  -E2BIG: HOOK_ASKED_MAX are expected. */
int hook_server_expect(struct hook_server *server, uint32_t pid);
void hook_server_forget(struct hook_server *server, uint32_t pid);
/* Waits for an event at the socket or at @other (-1: none), at most @timeout_ms (-1: until the next
 * deadline of a peer).  *ret_other: @other is ready, and must be handled first. */
int hook_server_wait(struct hook_server *server, int other, int timeout_ms, bool *ret_other);
/* Handles all pending connections and messages.  Does not wait. */
void hook_server_take(struct hook_server *server);
