/* own-session.h - decides between a session of the user's own and the daemon.  Thread: main.
 *
 *   permission denied ─────────────────► OWN_ASK             the daemon's session, or failure
 *   opened without kernel frames ──────► OWN_ASK_FOR_KERNEL  the daemon's session, else the own one
 *
 * Messages of the own session are held until then: it may not be the one that records. */
#pragma once

#include "perf/at-sample.h"
#include "session/consent/consent.h"

enum { OWN_ASK = 1, OWN_ASK_FOR_KERNEL };
enum { OWN_LINES = 16 };

struct own_session {
	bool may_ask;	    /* false: never */
	const char *socket; /* the daemon's */
	const char *alone;  /* the option for which the daemon is not asked; NULL: none */
	char lacks[512];    /* the missing permission, a line; "": unknown */
	/* private */
	char lines[OWN_LINES][512];
	const char *briefs[OWN_LINES];
	size_t n_lines;
	bool sure;
};

/* As session_options.noted; @own: a struct own_session.  Equal lines, of several sessions, are one. */
void own_session_noted(void *own, const char *brief, const char *line);
/* The own session records, or none: logs the messages that were held.  Two or more limits of the machine or user are one
 * line, and a short one once a command of this user has shown the same; with --verbose, in the trace and in `perfwind doctor`
 * each has its own. */
void own_session_sure(struct own_session *own);
/* Handles a failure @r (< 0), with a line in own->lacks or "".  Returns OWN_ASK, or logs the failure and returns @r. */
int own_session_refused(struct own_session *own, int r);
/* Call with an open session.  A line states why the daemon is not asked (own->alone).  Returns 0, or OWN_ASK_FOR_KERNEL if
 * kernel frames were refused (@kernel_refused). */
int own_session_enough(struct own_session *own, bool kernel_refused);
/* Drops the capabilities that a session does not use, and denies the system calls that it never makes, in this process
 * and its helper processes.  Call after the command was forked, which keeps its privileges, and before the session is
 * created.  @probes: an event is a kprobe or uprobe.  Steps that the kernel refuses are skipped.  rights_settle_session()
 * follows when the session runs. */
void own_session_give_up(const struct features *features, bool probes);
/* Processes that opted in answer at @socket, NULL: the default one. */
int own_session_consent(const char *socket, bool under_seccomp, const struct features *features,
			struct loop *loop, struct consent **ret_consent);
/* What the kernel runs at a sample, and in @features whether it may.  Without it samples are completed later. */
int own_session_at_sample(struct features *features, struct at_sample **ret_at_sample);
