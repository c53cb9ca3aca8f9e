/* ask-run.h - runs a recording by the daemon, from the request to the exit status.  Thread: main.
 *
 *   ask_run_open() ── accepted ──► ask_run() ──► ask_run_deinit()
 *        └── denied: the command may fall back to a session of its own */
#pragma once

#include "cli/ask.h"
#include "cli/job.h"
#include "base/loop.h"

struct ask_run {
	const char *socket;
	const Pb__ControlRequest *request; /* borrowed for ask_run_open() */
	struct sink *sink;
	struct job *job; /* its command, if any, is held until the daemon accepts */
	double duration; /* seconds; 0: until the job ends */
	bool live;	 /* show a line of progress */
	/* Not 0: every that many seconds shown() gets a sink that can be parsed by itself, and once more at the
	 * end.  < 0 from shown() ends the recording. */
	double interval;
	int (*shown)(void *arg, const Pb__ControlSummary *summary);
	bool waits; /* for a trigger or a start: the file is made when packets come */
	void (*triggered)(void *arg, int verdict); /* as of ask_options */
	void *arg;

	char why[512];

	/* private */
	struct loop loop;
	struct loop_timer end, next;
	struct ask *ask; /* for ask_summary(), ask_event(), ask_trigger() */
	bool started, ended;
	bool not_run;  /* the command could not be run: nothing was recorded */
	int failed;    /* result of shown(), logged by it */
	int status;    /* exit status of a command that cannot be started */
	bool complete; /* ask_run() has written the end mark */
};

enum { ASK_RUN_DENIED = 1 };
/* Added to SESSION_BEHIND_MS: samples older than the sum are in the file. */
enum { ASK_RUN_BEHIND_MS = 500 };
/* Sends the request, waits for the answer, and starts the command, if any.  ASK_RUN_DENIED and < 0: run->why is a
 * line for the user. */
int ask_run_open(struct ask_run *run);
/* Call after ASK_RUN_DENIED or < 0.  Logs why, with @lacks (the permission that the user lacks; "" if unknown), and
 * returns the exit status 1.  @kernel (the daemon was asked for kernel frames only): logs nothing and returns -EPERM,
 * because the user's own privileges suffice for the rest. */
int ask_run_refused(const struct ask_run *run, const char *lacks, bool kernel);
/* Runs until the end.  SIGINT and SIGTERM end the recording, a second one exits at once.  When the recording fails,
 * the command goes on and is waited for.  Returns the exit status: the command's own, else 1 after a failure, which is
 * logged.  ask_summary(run->ask) has the result, if any. */
int ask_run(struct ask_run *run);
/* Ends the recording and the command.  Valid between ask_run_open() and ask_run_deinit(). */
void ask_run_stop(struct ask_run *run);
void ask_run_deinit(struct ask_run *run);
