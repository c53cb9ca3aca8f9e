/* rights-private.h - from the lists of system calls (rights-calls.c) to the filter (rights-filter.c).
 * Thread: any. */
#pragma once

#include <linux/filter.h>
#include <seccomp.h>

#include "session/rights.h"

/* Calls that are in no list and newer than NEWEST do not exist for us, NEWER of them. */
enum { RIGHTS_CALLS = 256, RIGHTS_NEWEST = 462, RIGHTS_NEWER = 64 };

/* Those that are allowed whatever their arguments, ascending.  How many. */
size_t rights_calls(enum rights_list list, int ret[static RIGHTS_CALLS]);

/* Two filters, not loaded: 0, or < 0 with NULL.  seccomp_release() is the caller's. */
/* ENOSYS for what does not exist for us, all else is allowed. */
int rights_absent(scmp_filter_ctx *ret_filter);
/* What is not on the list ends in @otherwise (SCMP_ACT_...); what does not exist is allowed. */
int rights_listed(enum rights_list list, uint32_t otherwise, scmp_filter_ctx *ret_filter);
/* The kernel's instructions of a filter.  Returns new memory. */
int rights_program(scmp_filter_ctx filter, struct sock_fprog *ret_program);
