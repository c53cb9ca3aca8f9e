/* stat-targets.h - what `perfwind stat` counts: threads, CPUs, cgroups, and the rows of the result.  Thread: main. */
#pragma once

#include "perf/counters.h"

enum { STAT_LABEL = 256 };
enum stat_by { STAT_TOTAL, STAT_CPU, STAT_PROCESS, STAT_THREAD, STAT_CGROUP };

struct stat_scope {
	enum stat_by by;
	bool all; /* the machine; by process or thread: the threads that there are now */
	const uint32_t *pids; /* processes, with all threads */
	size_t n_pids;
	const uint32_t *tids; /* threads alone */
	size_t n_tids;
	uint32_t child;	     /* a command that waits before its exec; 0: none */
	const char *command; /* its name, with a child */
	const char *cgroups; /* "a,b"; NULL: none */
	const char *cpus;    /* "0-3,8"; NULL: all */
};

struct stat_targets {
	struct counters_target *list;
	size_t n, room;
	char (*labels)[STAT_LABEL]; /* of each row */
	size_t n_rows, rows_room;
	bool labelled; /* else there is one row, the total */
	int cgroup_fds[64];
	size_t n_cgroups;
};

/* -EINVAL, -ESRCH ...: logged. */
int stat_targets_init(struct stat_targets *targets, const struct stat_scope *scope);
void stat_targets_deinit(struct stat_targets *targets);
