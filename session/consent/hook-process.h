/* hook-process.h - the disposable process behind which the hook socket is served.  Thread: main
 * makes it, talks to it and ends it; never waits for it.
 *
 *   main ── expect, forget, ping ──► hook process ── accept, check, close ──► targets
 *        ◄── files + SCM_RIGHTS, pong ──┘
 *
 * What a target sends may make fstat() or close() of it hang for ever (a silent FUSE server).  Then
 * this process hangs, not we: its user sees that a ping is not answered, and abandons it for
 * another.  It has no memory in common with us but a few counts, and no descriptor but the two sockets.
 */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "session/consent/hook-check.h"

#define HOOK_PROCESS_NAME "pw-hook"

enum hook_say {
	HOOK_SAY_EXPECT, /* an answer of process `value` is taken */
	HOOK_SAY_FORGET,
	HOOK_SAY_BEGIN, /* answers are taken from now on: those that wait are of who is expected */
	HOOK_SAY_PING,
};

struct hook_report {
	/* TAKEN: it has connected, what it sends comes to this hook process or to nobody.  LOST: what it
	 * sent is worthless, by no fault of its own. */
	enum { HOOK_REPORT_FILES, HOOK_REPORT_PONG, HOOK_REPORT_TAKEN, HOOK_REPORT_LOST } kind;
	uint32_t value; /* the process; what the ping said */
};

struct hook_process {
	pid_t pid;
	int fd;			/* to be polled for reports */
	struct hook_work *work; /* in common */
};

/* Borrows @listen_fd, a non-blocking listening socket. */
int hook_process_start(int listen_fd, bool peer_pidfd, struct hook_process *ret_process);
/* -EAGAIN: it does not take what is said; -EPIPE: it is gone. */
int hook_process_say(struct hook_process *process, enum hook_say what, uint32_t value);
/* The next report; of FILES the descriptors are the caller's to close, else -1.  -EAGAIN: none;
 * -EPIPE: it is gone. */
int hook_process_hear(struct hook_process *process, struct hook_report *ret_report,
		      int ret_fds[static HOOK_DESCRIPTORS]);
/* Whose descriptors it has in hand; 0: nobody's. */
uint32_t hook_process_at_work(const struct hook_process *process, uint32_t *ret_uid);
/* So far, good ones on their way included; nothing of one that was ended. */
void hook_process_counts(const struct hook_process *process,
			 uint64_t ret_counts[static HOOK_VERDICTS]);
/* Kills it, and waits for that for @wait_ms at most: what cannot be killed is left to itself
 * (base/child.h, by the name HOOK_PROCESS_NAME). */
void hook_process_end(struct hook_process *process, int wait_ms);
