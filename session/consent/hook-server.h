/* hook-server.h - accepts answers at the hook socket and verifies each.
 * Thread: that of the hook process (consent.h), as a call on a message or a descriptor of a peer may hang.
 *
 * Functions over a listening socket and the pids that were asked; no loop, and no memory except the
 * struct and the text of /proc files. */
#pragma once

#include <stdatomic.h>

#include "base/closer.h"
#include "base/table.h"
#include "base/util.h"
#include "libc-hook/hook-proto.h"

/* The verdict on an answer; all but the first are rejected, closed and counted. */
enum hook_verdict {
	HOOK_GOOD,
	HOOK_STRANGER,	  /* from a process that was not asked, or has already answered */
	HOOK_GONE,	  /* from a process that has exited */
	HOOK_THREAD_GONE, /* by a thread that has ended: its maps read as empty */
	HOOK_SILENT, /* connected and sent nothing in time, or was displaced by newer connections */
	HOOK_NO_MESSAGE,  /* anything but one HOOK_BYTE */
	HOOK_NOT_TWO,	  /* not two descriptors */
	HOOK_WRITABLE,	  /* not open for reading only */
	HOOK_NOT_PROC,	  /* no file of a procfs */
	HOOK_NOT_ITS_OWN, /* a procfs file, but not the maps or mem of this process */
	HOOK_NOT_PASSED,  /* good, but the channel to main was full */
	HOOK_VERDICTS
};
/* A word, for the statistics of a trace. */
const char *hook_verdict_word(enum hook_verdict verdict);

/* Are @fds (maps, mem, in the order of hook-proto.h) files of process @pid?  The caller makes sure
 * that the pid was not reused meanwhile (a pidfd that is checked afterwards). */
enum hook_verdict hook_check(uint32_t pid, const int fds[static HOOK_DESCRIPTORS]);

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
