/* rights-filter.h - the list of system calls of each kind of process, and the seccomp filters made from it.
 * Thread: main, before others are started. */
#pragma once

#include <linux/filter.h>

#include "base/util.h"

enum rights_list {
	RIGHTS_DAEMON,
	RIGHTS_COMMAND,
	/* helper processes: enum child_calls */
	RIGHTS_ACCEPT,
	RIGHTS_OPEN,
	RIGHTS_GIVEN,
	RIGHTS_BPF,
};

/* From here on other system calls fail with EPERM and are logged by the kernel (audit: SECCOMP), also in the processes that
 * are made later, which get the shorter list of their kind.  @list: of a main process.  Sets no_new_privs.  < 0 and a line
 * in @error where the kernel or a container allows no filter.
 * @aloud: a handler of SIGSYS reports each call on standard error; where a library has blocked all signals, the kernel ends
 * the process instead.  PERFWIND_REFUSED=FILE in the environment (tests only): reports to that file, from helper processes
 * too. */
int rights_filter(enum rights_list list, bool aloud, char *error, size_t error_size);

/* The lists of helper processes alone, for one that is made before rights_filter(): it has privileges that later ones
 * do not have.  < 0: -errno. */
int rights_filter_helpers(bool aloud);

/* ---- the parts, for tests ---- */

/* Calls that are on no list and newer than NEWEST do not exist for us; there are NEWER. */
enum { RIGHTS_CALLS = 256, RIGHTS_NEWEST = 462, RIGHTS_NEWER = 64 };

/* The calls that are allowed whatever their arguments, ascending.  Returns how many. */
size_t rights_calls(enum rights_list list, int ret[static RIGHTS_CALLS]);

enum { RIGHTS_PROGRAM = 2048 };
struct rights_program {
	struct sock_filter code[RIGHTS_PROGRAM];
	uint16_t n;
};
/* The programs of the filters.  -E2BIG: longer than that. */
/* ENOSYS for calls that do not exist for us; all others are allowed. */
int rights_absent(struct rights_program *ret_program);
/* EACCES for calls that libraries in helper processes with @list try and do without; all others are allowed, and by the list's
 * own program these too.  Empty for most lists. */
int rights_tried(enum rights_list list, struct rights_program *ret_program);
/* A call that is not on the list ends in @otherwise (SECCOMP_RET_...); one that does not exist is allowed. */
int rights_listed(enum rights_list list, uint32_t otherwise, struct rights_program *ret_program);
