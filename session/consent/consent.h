/* consent.h - asks processes for the descriptors of their own maps and mem.  Thread: main.
 *
 * For a process with files in /proc that may not be opened (ptrace is not permitted): if libc-hook is
 * loaded in it, one signal makes it send them (libc-hook/hook-proto.h).  One object serves all
 * sessions of a perfwind.  The first request opens the hook socket and starts the process that
 * serves it (hook-process.h).
 *
 *   consent_ask ── signal ──► target ──► hook process ──► files checked ──► given()
 *
 * A request stays until it is answered or forgotten; late answers are accepted.  If the answer was
 * lost (its thread or the hook process ended, or other connections kept the socket full) the
 * signal is sent again, CONSENT_AGAIN_MAX times at most, at growing intervals. */
#pragma once

#include "base/features.h"
#include "base/loop.h"
#include "session/consent/hook-check.h"

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
