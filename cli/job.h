/* job.h - the command that is profiled: held back, let go, ended, waited for; and the signals that
 * end a recording, with or without a command.  Thread: main.
 *
 * Ctrl-C ends the recording cleanly; a second one leaves at once.  A command hears the terminal's
 * Ctrl-C itself and may go on; TERM, HUP and -d end it too.  A failure of the recording does not: the
 * command runs on, is waited for, and its own exit status wins. */
#pragma once

#include "cli/spawn.h"
#include "base/loop.h"

struct job {
	struct spawn spawn;
	char *const *command; /* NULL: none */
	int status;	      /* of wait; -1: still running, or none */
	bool interrupted;     /* a signal has ended the recording */
	bool ended_by_us;     /* the command is terminated too */
	bool live; /* a line on the terminal is to be cleared when a second signal comes */

	struct loop *loop;
	struct loop_source signals;
	void (*over)(void *arg); /* a signal, or the command's end: the recording is to end */
	void *arg;
};

/* Borrows @command (ends with NULL; NULL: none). */
void job_init(struct job *job, char *const *command);
/* Kills a command that still waits. */
void job_deinit(struct job *job);
/* Can it be run?  0, or the exit status of one that cannot, which has been told.  Before anything is
 * opened or written: a mistyped command must not cost an old trace. */
int job_check(const struct job *job);
/* Forks; the command waits. */
int job_hold(struct job *job);
/* SIGINT, TERM, HUP and CHLD are read from @loop, for over(), from here on. */
int job_watch(struct job *job, struct loop *loop, void (*over)(void *arg), void *arg);
void job_watch_no_more(struct job *job);
/* Lets it go.  > 0: the exit status of one that cannot be run, which has been told. */
int job_go(struct job *job);
/* Waits for the command's end; sends SIGTERM after -d, TERM or HUP, also when these come later.  @failed:
 * the reason why the recording has failed, or NULL.  The loop runs on, so that a second Ctrl-C still
 * leaves at once. */
void job_await(struct job *job, const char *failed);
/* The command's own where it was left to end by itself and is not 0; else 1 if @failed, else 0. */
int job_exit_status(const struct job *job, bool failed);
