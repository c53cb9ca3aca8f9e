/* consent.h - asks processes for the descriptors of their own maps and mem.  Thread: main.
 *
 * For a process whose files in /proc may not be opened (no ptrace right): where libc-hook is loaded
 * in it, one signal makes it send them (libc-hook/hook-proto.h).  One object serves all sessions of
 * a perfwind; it opens the hook socket and starts the process that serves it (hook-process.h) when
 * they are first needed.
 *
 *   consent_ask ── signal ──► target ──► hook process ──► files checked ──► given()
 *
 * A request stays until it is answered or forgotten: an answer that comes late is as good.  Where the
 * answer was lost (a thread that ended, a hook process that did, a socket that strangers kept full)
 * the signal is sent again, CONSENT_AGAIN_MAX times at most, further and further apart. */
#pragma once

#include "base/features.h"
#include "base/loop.h"
#include "session/consent/hook-check.h"

/* Why a process is not asked. */
enum consent_refusal {
	CONSENT_ASKED, /* it is */
	CONSENT_GONE,
	CONSENT_KERNEL_THREAD,
	CONSENT_FIRST,	    /* pid 1 of a pid namespace */
	CONSENT_NOT_CAUGHT, /* no handler for HOOK_SIGNAL: the hook is not loaded (yet) */
	CONSENT_BLOCKED,    /* the signal is blocked */
	CONSENT_SECCOMP,    /* a filter may kill it for the answer; an option allows it */
	CONSENT_UNGUARDED,  /* SIGSYS is blocked, or under a filter not the hook's */
	CONSENT_FORBIDDEN,  /* we may not send it a signal */
	CONSENT_STUCK,	    /* what it sent once could not be handled in time */
	CONSENT_NO_SOCKET,  /* the hook socket could not be opened */
	CONSENT_TOO_MANY,   /* are asked at this time */
	CONSENT_NO_MEANS,   /* no descriptor or memory for it: ours, or the machine's */
	CONSENT_REFUSALS
};
/* As the rest of "it is not asked: ...". */
const char *consent_refusal_text(enum consent_refusal refusal);

/* consent-look.c: may @pid be asked?  Reads /proc/PID/stat and status, which no target can stall.
 * @root as in procfs.h. */
enum consent_refusal consent_look(const char *root, uint32_t pid, bool under_seccomp);
/* HOOK_SIGNAL with HOOK_VALUE, by @pidfd, or by @pid where that is -1.  -ESRCH, -EPERM. */
int consent_signal(uint32_t pid, int pidfd);

#define HOOK_FOLDER "/run/perfwind" /* of HOOK_SOCKET, and of the control socket */

struct consent_options {
	const char *socket; /* path or @NAME; NULL: HOOK_SOCKET */
	int listen_fd;	    /* inherited, consumed; -1: @socket is made */
	bool under_seccomp; /* also ask processes under a seccomp filter */
	struct features features;
};

enum { CONSENT_AGAIN_MAX = 4 };

struct consent;
/* Borrows @loop and options->socket. */
int consent_new(const struct consent_options *options, struct loop *loop,
		struct consent **ret_consent);
/* The socket and what serves it, now.  < 0: a line in @error, and nobody is asked from then on. */
int consent_open(struct consent *consent, char *error, size_t error_size);
/* All requests have been forgotten. */
/* From the next request on. */
void consent_set_under_seccomp(struct consent *consent, bool under_seccomp);
struct consent *consent_free(struct consent *consent);
/* The socket's file, where it is ours: for an end at once.  No request is answered any more. */
void consent_unlink(struct consent *consent);

/* Embedded in whoever asks. */
struct consent_request {
	uint32_t pid;
	/* The two descriptors, the callee's to keep or close; NULL: it will not come (what it sent
	 * could not be handled).  The request is over; it may be freed here. */
	void (*given)(struct consent_request *request, const int *fds);
	/* consent.c's */
	bool taken;	    /* it has connected to this hook process, and sent nothing yet */
	bool lost;	    /* what it sent was worthless, or was in a hook process that is lost */
	uint32_t again;	    /* how many further signals it got */
	uint64_t sent;	    /* the last of them: CLOCK_MONOTONIC */
	uint64_t strangers; /* connections of processes that were not asked, until then */
	bool sender; /* the signal was sent for this one; others of the same process rely on it */
	bool unsent; /* it is still to be sent: who had it sent has forgotten it */
	struct consent_request *next, **at;
};
/* Fills in the rest of @request, whose pid and given are set, and sends the signal, unless another
 * request has this process asked already. */
enum consent_refusal consent_ask(struct consent *consent, struct consent_request *request);
/* Of one that is not over. */
void consent_forget(struct consent *consent, struct consent_request *request);

const char *consent_socket(const struct consent *consent);
/* The line that consent_open() would have given, after CONSENT_NO_SOCKET. */
const char *consent_why(const struct consent *consent);
/* Answers at the hook socket so far, by what they came to. */
void consent_counts(const struct consent *consent, uint64_t ret_counts[static HOOK_VERDICTS]);
