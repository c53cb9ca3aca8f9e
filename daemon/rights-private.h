/* rights-private.h - from the lists of system calls (rights-calls.c) to the filter (rights-filter.c).
 * Thread: any. */
#pragma once

#include <linux/filter.h>

#include "daemon/rights.h"

/* Calls that are in neither list and newer than NEWEST do not exist for us, NEWER of them. */
enum { RIGHTS_CALLS = 256, RIGHTS_NEWEST = 462, RIGHTS_NEWER = 64 };
enum { RIGHTS_PROGRAM = 4 * RIGHTS_CALLS + 64 };

/* Those that are allowed whatever their arguments, ascending.  How many. */
size_t rights_calls(enum rights_list list, int ret[static RIGHTS_CALLS]);

/* Two filters: instructions for the kernel, how many. */
/* ENOSYS for what does not exist for us, all else is allowed. */
size_t rights_absent_program(struct sock_filter ret[static RIGHTS_PROGRAM]);
/* What is not on the list ends in @otherwise (SECCOMP_RET_...); what does not exist is allowed. */
size_t rights_program(enum rights_list list, uint32_t otherwise,
		      struct sock_filter ret[static RIGHTS_PROGRAM]);
