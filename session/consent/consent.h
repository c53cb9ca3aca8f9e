/* consent.h - asks processes for the descriptors of their own maps and mem.  Thread: main.
 *
 * For a process with files in /proc that may not be opened (ptrace is not permitted): if libc-hook is
 * loaded in it, one signal makes it send them (libc-hook/hook-proto.h).  One object serves all
 * sessions of a perfwind.  The first request opens the hook socket and starts the process that
 * serves it.
 *
 *   consent_ask ── signal ──► target ──► hook process ──► files checked ──► given()
 *
 * A request stays until it is answered or forgotten; late answers are accepted.  If the answer was
 * lost (its thread or the hook process ended, or other connections kept the socket full) the
 * signal is sent again, CONSENT_AGAIN_MAX times at most, at growing intervals.
 *
 * The hook process serves the hook socket (hook-server.h).  Main creates it, sends it messages and ends it, and never waits for it:
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

#include "base/features.h"
#include "base/loop.h"
#include "session/consent/hook-server.h"

/* Why a process is not asked. */
enum consent_refusal {
	CONSENT_ASKED, /* it is asked */
	CONSENT_GONE,
	CONSENT_KERNEL_THREAD,
	CONSENT_FIRST,	    /* pid 1 of a pid namespace */
	CONSENT_NOT_CAUGHT, /* no handler for HOOK_SIGNAL: the hook is not loaded (yet) */
	CONSENT_BLOCKED,    /* the signal is blocked */
	CONSENT_SECCOMP,    /* a filter may kill it for the answer; an option allows it */
	CONSENT_UNGUARDED,  /* SIGSYS is blocked; or there is a filter, and no handler of SIGSYS */
	CONSENT_FORBIDDEN,  /* no permission to send it a signal */
	CONSENT_STUCK,	    /* an earlier message of it could not be handled in time */
	CONSENT_NO_SOCKET,  /* the hook socket could not be opened */
	CONSENT_TOO_MANY,   /* too many processes are being asked */
	CONSENT_NO_MEANS,   /* no descriptor or memory: of perfwind, or of the machine */
	CONSENT_REFUSALS
};
/* Text behind "it is not asked: ". */
const char *consent_refusal_text(enum consent_refusal refusal);

/* May @pid be asked?  Reads /proc/PID/stat and status, which no target can stall.  @root as in
 * procfs.h. */
enum consent_refusal consent_look(const char *root, uint32_t pid, bool under_seccomp);

#define HOOK_FOLDER "/run/perfwind" /* of HOOK_SOCKET, and of the control socket */

struct consent_options {
	const char *socket; /* path or @NAME; NULL: HOOK_SOCKET */
	int listen_fd;	    /* inherited, consumed; -1: @socket is created */
	bool under_seccomp; /* also ask processes under a seccomp filter */
	struct features features;
};

enum {
	CONSENT_AGAIN_MAX = 4,
	CONSENT_BLAMES =
		3, /* hook processes hung by a user before none of its processes is asked */
};

struct consent;
/* Borrows @loop and options->socket. */
int consent_new(const struct consent_options *options, struct loop *loop,
		struct consent **ret_consent);
/* Opens the socket and starts its process now.  < 0: a line in @error, and no process is asked
 * from then on. */
int consent_open(struct consent *consent, char *error, size_t error_size);
/* From the next request on. */
void consent_set_under_seccomp(struct consent *consent, bool under_seccomp);
/* After all requests have been forgotten. */
struct consent *consent_free(struct consent *consent);
/* Removes the socket's file if it was created here, for an immediate exit.  No request is answered
 * after that. */
void consent_unlink(struct consent *consent);

/* Embedded in the object of the caller. */
struct consent_request {
	uint32_t pid;
	/* Called with the two descriptors, which the callee owns; NULL: there will be no answer
	 * (the message could not be handled).  The request has ended and may be freed here. */
	void (*given)(struct consent_request *request, const int *fds);
	/* of consent.c */
	bool taken;	    /* it has connected to this hook process, and sent no message yet */
	bool lost;	    /* its message was unusable, or was lost with a hook process */
	uint32_t again;	    /* number of further signals */
	uint64_t sent;	    /* the last signal: CLOCK_MONOTONIC */
	uint64_t strangers; /* connections of unasked processes until then */
	bool sender;	    /* the signal was sent for this one; others of the process rely on it */
	bool unsent;	    /* the sender was forgotten: the signal must be sent again */
	struct consent_request *next, **at;
};
/* Fills in the rest of @request, with pid and given set, and sends the signal, if it was not
 * sent for another request already. */
enum consent_refusal consent_ask(struct consent *consent, struct consent_request *request);
/* Of a request that has not ended. */
void consent_forget(struct consent *consent, struct consent_request *request);

const char *consent_socket(const struct consent *consent);
/* The line that consent_open() would have given, after CONSENT_NO_SOCKET. */
const char *consent_why(const struct consent *consent);
/* Answers at the hook socket so far, by verdict. */
void consent_counts(const struct consent *consent, uint64_t ret_counts[static HOOK_VERDICTS]);

/* ---- the hook process: for tests ---- */

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
