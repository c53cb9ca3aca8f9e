/* job.h - the profiled command: forked, held, started, ended, waited for; and the signals that end a
 * recording, with or without a command.  Thread: main.
 *
 *   event                  recording         command
 *   SIGINT (Ctrl-C)        ends              receives it from the terminal, may go on
 *   second SIGINT          perfwind exits    goes on
 *   the same signal again from the same process within 300 ms belongs to the first: timeout(1) signals its
 *   child, then its process group
 *   SIGTERM, SIGHUP, -d    ends              SIGTERM
 *   recording fails        ends              goes on, is waited for; its exit status is perfwind's */
#pragma once
#include "base/loop.h"
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
/* Is the file @path our standard output (-, /dev/stdout, a file or pipe that it names), so that what a command prints would be in it? */
bool spawn_is_output(const char *path);
/* Starts the command.  Returns 0, or exec's errno as a positive number. */
int spawn_go(struct spawn *spawn);
/* Polls for the child's end.  *status is -1 until then, wait()'s status afterwards.  -ECHILD: the status was reaped
 * elsewhere; treated as a failure of the command. */
int spawn_reap(const struct spawn *spawn, int *status);
/* Kills a child that was never started, closes the descriptors. */
void spawn_deinit(struct spawn *spawn);
/* The exit status a shell would give for a wait status: the command's own, 128 + n for signal n. */
int spawn_exit_status(int wait_status);

struct job {
	struct spawn spawn;
	char *const *command; /* NULL: none */
	bool aside;	      /* as of spawn_new() */
	int status;	      /* of wait; -1: still running, or none */
	bool interrupted;     /* a signal has ended the recording */
	bool ended_by_us;     /* the command gets SIGTERM too */
	bool live;	      /* clear the progress line when a second signal arrives */

	struct loop *loop;
	struct loop_source signals;
	void (*over)(void *arg); /* a signal arrived or the command exited: end the recording */
	void (*leave)(
		void *arg); /* perfwind exits at a second signal: saves what is in memory.  NULL: nothing to do */
	void *leave_arg;
	struct job_request {
		int signal;
		uint32_t pid; /* of the sender; 0: the kernel (a terminal) */
		uint64_t at;  /* CLOCK_MONOTONIC */
	} first;	      /* the request that ended the recording */
	void *arg;
};

/* Borrows @command (ends with NULL; NULL: none). */
void job_init(struct job *job, char *const *command);
/* Kills a command that was never started. */
void job_deinit(struct job *job);
/* Checks that the command can be run.  Returns 0, or an exit status after logging why not.  Call before a file is
 * opened: a mistyped command must not replace an existing trace. */
int job_check(const struct job *job);
/* Forks; the command is held until job_go(). */
int job_hold(struct job *job);
/* From here on @loop reads SIGINT, SIGTERM, SIGHUP and SIGCHLD, and calls over(). */
int job_watch(struct job *job, struct loop *loop, void (*over)(void *arg), void *arg);
void job_watch_no_more(struct job *job);
/* Starts the command.  > 0: the exit status after a failed exec, which is logged. */
int job_go(struct job *job);
/* Waits until the command exits; sends it SIGTERM after -d, SIGTERM or SIGHUP, also if these arrive during the wait.
 * @failed: why the recording has failed, or NULL.  The loop runs, so that a second Ctrl-C exits at once. */
void job_await(struct job *job, const char *failed);
/* The command's exit status if it ended by itself and that is not 0; else 1 if @failed, else 0. */
int job_exit_status(const struct job *job, bool failed);
