/* defaults.h - what commands that sample do when they are told no more, and how they are told whom.
 * Thread: main. */
#pragma once

#include "daemon/base/util.h"

/* The event: hardware cycles, or a timer where there are none, and then *ret_note is the line to say
 * so (else NULL). */
const char *default_event(const char **ret_note);

/* Adds "12,345" to @pids[0..*n), at most @max in all.  -EINVAL: it has been told. */
int pid_list_add(const char *value, uint32_t *pids, size_t *n, size_t max);
