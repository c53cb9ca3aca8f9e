/* rights.h - reduces the privileges of a daemon, and of a command with its own session, to those that the
 * work needs.  Thread: main, before others are started.
 *
 *   inherited descriptors but the checked ones closed ─► limits raised, user changed ─► capabilities
 *   dropped ─► no_new_privs ─► a list of system calls (rights-filter.h)
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

/* The same for a command with its own session, in two steps.  Before the session is made: drops the capabilities that
 * neither the session nor its helper processes nor its output need, and limits those of the helper processes.  @probes: it
 * has kprobe or uprobe events.  Thread: main, alone. */
void rights_prepare_session(bool probes);
/* Once the session runs: this thread keeps only what a running session needs.  @writes_later: its output file is not open
 * yet. */
void rights_settle_session(bool writes_later, bool probes);

/* Is the user root, or any capability in effect? */
bool rights_held(void);

/* Has a process that is not root any capability in effect?  It can then do what its user, elsewhere, could not. */
bool rights_beyond_user(void);

/* "perfmon,kill": the capabilities in effect that are known here, for a log line. */
void rights_names(char *text, size_t size);
