/* hook-process.h - the process that serves the hook socket.  Thread: main, which creates it, sends
 * it messages and ends it, and never waits for it.
 *
 *   main ── expect, forget, ping ──► hook process ── accept, check, close ──► targets
 *        ◄── files + SCM_RIGHTS, pong ──┘
 *
 * fstat() or close() of a descriptor that a target sent may hang permanently (a silent FUSE
 * server). Then this process hangs, and not main, which sees an unanswered ping and replaces it.
 * It shares only a few counts with main, and has no descriptors except the two sockets. */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "session/consent/hook-check.h"

#define HOOK_PROCESS_NAME "pw-hook"

enum hook_message {
	HOOK_SEND_EXPECT, /* accept an answer of process `value` */
	HOOK_SEND_FORGET,
	HOOK_SEND_BEGIN, /* accept answers from now on: all expected pids have been sent */
	HOOK_SEND_PING,
};

struct hook_report {
	/* TAKEN: it has connected, so its message is lost with this hook process.  LOST: its
	 * message is unusable, through no fault of its own. */
	enum { HOOK_REPORT_FILES, HOOK_REPORT_PONG, HOOK_REPORT_TAKEN, HOOK_REPORT_LOST } kind;
	uint32_t value; /* the pid; the value of the ping */
};

struct hook_process {
	pid_t pid;
	int fd;			/* poll for reports */
	struct hook_work *work; /* shared memory */
};

/* Borrows @listen_fd, a non-blocking listening socket. */
int hook_process_start(int listen_fd, bool peer_pidfd, struct hook_process *ret_process);
/* -EAGAIN: the channel is full; -EPIPE: the process is gone. */
int hook_process_send(struct hook_process *process, enum hook_message what, uint32_t value);
/* The next report.  FILES comes with descriptors that the caller closes, else these are -1.
 * -EAGAIN: none; -EPIPE: the process is gone. */
int hook_process_hear(struct hook_process *process, struct hook_report *ret_report,
		      int ret_fds[static HOOK_DESCRIPTORS]);
/* The process with the descriptors that it is handling; 0: none. */
uint32_t hook_process_at_work(const struct hook_process *process, uint32_t *ret_uid);
/* So far, with good ones in flight; 0 for a process that was ended. */
void hook_process_counts(const struct hook_process *process,
			 uint64_t ret_counts[static HOOK_VERDICTS]);
/* Kills it and waits for @wait_ms at most: a process that cannot be killed is abandoned
 * (base/child.h counts it by HOOK_PROCESS_NAME).  Adds its answers up to then to @counts. */
void hook_process_end(struct hook_process *process, int wait_ms,
		      uint64_t counts[static HOOK_VERDICTS]);
