/* spawn.h - starts the command to be profiled, held back until the events are open.  Thread: main.
 */
#pragma once

#include <sys/types.h>

#include "base/util.h"

struct spawn {
	pid_t pid;
	int go_fd;    /* closed without a byte: the child exits silently */
	int error_fd; /* the child's errno if exec failed; end of file if it succeeded */
};

/* Checks that execvp() would find @name.  Returns 0, or exec's errno as a positive number. */
int spawn_check(const char *name);
/* Logs why @name cannot be run: @e is exec's errno.  @pids: numbers are processes for `-p`.  Returns the exit status of a
 * shell. */
int spawn_cannot_run(const char *name, int e, bool pids);
/* Forks; the child waits.  Borrows @argv (ends with NULL).  @aside: the command's standard output is our standard error, as ours
 * has data (perf's `record -o -` does the same). */
int spawn_new(char *const *argv, bool aside, struct spawn *ret_spawn);
/* Starts the command.  Returns 0, or exec's errno as a positive number. */
int spawn_go(struct spawn *spawn);
/* Polls for the child's end.  *status is -1 until then, wait()'s status afterwards.  -ECHILD: the status was reaped
 * elsewhere; treated as a failure of the command. */
int spawn_reap(const struct spawn *spawn, int *status);
/* Kills a child that was never started, closes the descriptors. */
void spawn_deinit(struct spawn *spawn);
/* The exit status a shell would give for a wait status: the command's own, 128 + n for signal n. */
int spawn_exit_status(int wait_status);
