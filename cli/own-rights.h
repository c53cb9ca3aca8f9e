/* own-rights.h - may it be recorded by own rights, or is the daemon asked?  Thread: main.
 *
 *   session refused ───────────────────► OWN_ASK             the daemon's, or a failure
 *   opened, but without the kernel ────► OWN_ASK_FOR_KERNEL  the daemon's, or own rights after all
 *
 * Until that is known, what the own session has to say is held back: it may not be the one that
 * records. */
#pragma once

#include "base/features.h"

enum { OWN_ASK = 1, OWN_ASK_FOR_KERNEL };
enum { OWN_LINES = 16 };

struct own_rights {
	bool may_ask;	    /* false: never */
	const char *socket; /* the daemon's */
	char lacks[512];    /* what they do not do, a line; "": nothing is known */
	/* private */
	char lines[OWN_LINES][512];
	size_t n_lines;
	bool sure;
};

/* As session_options.noted; @own: a struct own_rights. */
void own_rights_noted(void *own, const char *line);
/* Own rights record, or nobody does: what was held back is told. */
void own_rights_sure(struct own_rights *own);
/* A failure @r (< 0) with its line in own->lacks, or none there.  OWN_ASK; else it is told, and
 * returned. */
int own_rights_refused(struct own_rights *own, int r);
/* A session is open: 0, or OWN_ASK_FOR_KERNEL where the kernel's half had to go (@kernel_refused). */
int own_rights_enough(struct own_rights *own, bool kernel_refused);
/* Capabilities that a session does not use are dropped, and system calls that it never makes are refused, to us and to its
 * helper processes: before it is made, and after a command was forked, which keeps all.  What cannot be done is left.
 * rights_settle_session() follows when it runs. */
void own_rights_give_up(const struct features *features);
