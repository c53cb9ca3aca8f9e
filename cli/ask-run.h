/* ask-run.h - a recording by the daemon, from the request to the end.  Thread: main.
 *
 *   ask_run_open() ── allowed ──► ask_run() ──► ask_run_deinit()
 *        └── denied: own rights may still do something */
#pragma once

#include "cli/ask.h"
#include "cli/job.h"
#include "base/loop.h"

struct ask_run {
	const char *socket;
	const Pb__ControlRequest *request; /* borrowed for ask_run_open() */
	struct sink *sink;
	struct job *job; /* held back, if it has a command */
	double duration; /* seconds; 0: until it ends */
	bool live;	 /* the line that is rewritten */
	/* Not 0: each that many seconds the sink holds what can be read by itself; shown() looks at
	 * it, and again at the end.  < 0: it ends. */
	double interval;
	int (*shown)(void *arg, const Pb__ControlSummary *summary);
	void *arg;

	char why[512];

	/* private */
	struct loop loop;
	struct loop_timer end, next;
	struct ask *ask;
	bool started, ended;
	int failed;    /* of shown(): told */
	int status;    /* of a command that cannot be run */
	bool complete; /* ask_run() has ended, and the file has its end mark */
};

enum { ASK_RUN_DENIED = 1 };
/* In addition to the session's own (SESSION_BEHIND_MS): older samples are in the file. */
enum { ASK_RUN_BEHIND_MS = 500 };
/* Asks, and waits for the answer; the command, if any, goes with it.  ASK_RUN_DENIED and < 0:
 * run->why is a line for the user. */
int ask_run_open(struct ask_run *run);
/* After that: 1, the exit status, and it is told with @lacks (what own rights do not do, "": not
 * known); where the daemon was only asked for the kernel's half (@kernel) -EPERM: own rights do. */
int ask_run_refused(const struct ask_run *run, const char *lacks, bool kernel);
/* Ctrl-C and TERM end it, a second one leaves at once.  A command outlives a failure and is waited for.  The
 * exit status: the command's own, else 1 when the recording failed, which is logged;
 * ask_summary(run->ask) has the result, if any. */
int ask_run(struct ask_run *run);
/* Begins the end, a command's too.  Between ask_run_open() and ask_run_deinit(). */
void ask_run_stop(struct ask_run *run);
void ask_run_deinit(struct ask_run *run);
