/* spawn.h - starts the command to be profiled, held back until the events are open.  Thread: main.
 */
#pragma once

#include <sys/types.h>

#include "base/util.h"

struct spawn {
	pid_t pid;
	int go_fd;    /* closing it without a byte makes the child exit unheard */
	int error_fd; /* the child's errno when exec failed; end of file when it went well */
};

/* Can @name be run, by execvp's rules?  0, or the errno of exec as a positive number.  Asked before
 * anything is opened or written: a mistyped command must not cost an old trace. */
int spawn_check(const char *name);
/* Forks; the child waits.  Borrows @argv (ends with NULL). */
int spawn_new(char *const *argv, struct spawn *ret_spawn);
/* Lets it go.  0, or the errno of exec as a positive number. */
int spawn_go(struct spawn *spawn);
/* Has it ended?  *status is -1 until then, wait()'s afterwards.  -ECHILD: somebody else has taken
 * that, and to wait on would be for ever; it is then as if it had failed. */
int spawn_reap(const struct spawn *spawn, int *status);
/* Kills a child that still waits, closes the descriptors. */
void spawn_deinit(struct spawn *spawn);
/* The exit status a shell would give for a wait status: the command's own, 128 + n for signal n. */
int spawn_exit_status(int wait_status);
