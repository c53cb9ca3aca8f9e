/* rights.h - what the daemon may do, made as little as its work needs; of a command with a session of
 * its own, which system calls.  Thread: main, before others are started.
 *
 *   inherited descriptors but the checked ones closed ─► limits raised, user changed ─► capabilities
 *   dropped ─► no_new_privs ─► system calls that it never makes refused
 *
 *   PERFMON           perf events of any process
 *   KILL              the signal that asks a process for its consent
 *   DAC_READ_SEARCH   programs and libraries that only their owner may read
 *   SYSLOG            addresses in /proc/kallsyms
 *   IPC_LOCK          only where RLIMIT_MEMLOCK could not be raised: the rings' budget
 *   SYS_PTRACE        only with `direct = yes`: /proc/PID/maps and mem of others */
#pragma once

#include "base/util.h"

struct rights_options {
	const char *user; /* to become; NULL: as it is */
	bool direct;
	const int *keep_fds; /* besides 0, 1 and 2; ascending */
	size_t n_keep_fds;
};

/* < 0: a line in @error. */
int rights_reduce(const struct rights_options *options, char *error, size_t error_size);

enum rights_list {
	RIGHTS_DAEMON,
	RIGHTS_COMMAND,
	/* helper processes: enum child_calls */
	RIGHTS_ACCEPT,
	RIGHTS_OPEN,
	RIGHTS_GIVEN,
};

/* From here on other system calls fail with EPERM and are logged by the kernel (audit: SECCOMP), in the processes that are
 * made from here on too, which get the shorter list of their kind.  @list: of a main process.  Sets no_new_privs.  < 0 and a line where the kernel or a container has no filters.
 * @told: each is said on standard error too, by a handler of SIGSYS; where a library has blocked all signals the kernel
 * ends the process instead.  PERFWIND_REFUSED=FILE in the environment (tests only): in that file, of helper processes too. */
int rights_filter(enum rights_list list, bool told, char *error, size_t error_size);

/* The same of a command with a session of its own, in two steps.  Before the session is made: what neither it nor its
 * helper processes nor its output need goes.  @probes: it has kprobe or uprobe events.  Thread: main, alone. */
void rights_lend_session(bool probes);
/* Once it runs: this thread has what a running session needs.  @writes_later: its output file is not open yet. */
void rights_settle_session(bool writes_later, bool probes);

/* Root's, or any capability in effect. */
bool rights_held(void);

/* Are there capabilities in effect that are not simply root's? */
bool rights_lend(void);

/* "perfmon,kill": those that are in effect and known here, for a log line. */
void rights_names(char *text, size_t size);
