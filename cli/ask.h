/* ask.h - client of the control socket: requests a recording from the daemon.  Thread: main.
 * The daemon sends one end of a socket pair, and the client writes the packets from it to a sink.  The daemon opens
 * no file.
 *
 * A recording by the daemon, from the request to the exit status:
 *
 *   ask_run_open() ── accepted ──► ask_run() ──► ask_run_deinit()
 *        └── denied: the command may fall back to a session of its own */
#pragma once

#include "cli/job.h"
#include "base/loop.h"
#include "daemon/control/control-summary.h"
#include "trace/sink.h"

struct ask_options {
	const char *socket;		   /* CONTROL_SOCKET */
	const Pb__ControlRequest *request; /* borrowed for the call of ask_new() */
	struct sink *sink;		   /* borrowed */
	/* The daemon has started to record; may be NULL. */
	void (*accepted)(void *arg);
	/* The recording has ended: see ask_error(). */
	void (*ended)(void *arg);
	/* Statistics so far, several times a second; may be NULL. */
	void (*progress)(void *arg, const Pb__ControlSummary *summary);
	/* ask_renew() has completed; may be NULL. */
	void (*renewed)(void *arg, const Pb__ControlSummary *summary);
	/* The answer to ask_trigger(): enum trigger_verdict; may be NULL. */
	void (*triggered)(void *arg, int verdict);
	void *arg;
};

struct ask;
/* A connection to the daemon: -ECONNREFUSED, -ENOENT ... */
int ask_connect(const char *socket, int *ret_fd);
/* True if a daemon accepts connections at @socket. */
bool ask_possible(const char *socket);
/* Connects and sends the request.  < 0: @error holds one line for the user. */
int ask_new(const struct ask_options *options, struct loop *loop, struct ask **ret_ask, char *error,
	    size_t error_size);
struct ask *ask_free(struct ask *ask);
/* Asks the daemon to end the recording; ended() follows. */
void ask_stop(struct ask *ask);
/* Cuts the stream: all packets of samples so far reach the sink before renewed() is called, and later packets
 * can be parsed without them.  Not called if the recording ends first.  One request at a time. */
void ask_renew(struct ask *ask);
/* A trigger @name (at most TRIGGER_NAME_MAX bytes) of user @uid for the trace session; NULL: its start.  triggered() is called
 * once for each, in their order. */
void ask_trigger(struct ask *ask, uint32_t uid, const char *name);
/* True if the daemon refused the request: nothing was recorded. */
bool ask_denied(const struct ask *ask);
/* < 0 and a line for the user: denied, failed, or the connection was lost. */
int ask_error(const struct ask *ask, const char **ret_why);
/* NULL before the end, and after a refusal. */
const Pb__ControlSummary *ask_summary(const struct ask *ask);
/* The daemon's name of the sampled event. */
const char *ask_event(const struct ask *ask);

/* ---- a recording, from the request to the exit status ---- */

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
