/* ask.h - a recording made by the daemon, asked for over its control socket.  Thread: main.
 * The packets come over a socket pair of ours, whose other end the daemon gets with the request, and go
 * into a sink: the daemon opens no file. */
#pragma once

#include "daemon/control/control-summary.h"
#include "trace/sink.h"

struct ask_options {
	const char *socket;		   /* CONTROL_SOCKET */
	const Pb__ControlRequest *request; /* borrowed for the call of ask_new() */
	struct sink *sink;		   /* borrowed */
	/* The daemon records: may be NULL. */
	void (*accepted)(void *arg);
	/* It is over: see ask_error(). */
	void (*ended)(void *arg);
	/* How it stands, some times a second; may be NULL. */
	void (*progress)(void *arg, const Pb__ControlSummary *summary);
	/* ask_renew() is done; may be NULL. */
	void (*renewed)(void *arg, const Pb__ControlSummary *summary);
	void *arg;
};

struct ask;
/* Is somebody there to ask? */
bool ask_possible(const char *socket);
/* Connects and sends the request.  < 0: *error has a line. */
int ask_new(const struct ask_options *options, struct loop *loop, struct ask **ret_ask, char *error,
	    size_t error_size);
struct ask *ask_free(struct ask *ask);
/* Begins the end. */
void ask_stop(struct ask *ask);
/* What was sampled until now comes into the sink, and what follows can be read without it: told by
 * renewed(), unless the end comes first.  One at a time. */
void ask_renew(struct ask *ask);
/* It was not allowed: nothing was recorded. */
bool ask_denied(const struct ask *ask);
/* < 0 and a line: denied, failed, or the connection was lost. */
int ask_error(const struct ask *ask, const char **ret_why);
/* NULL before the end, and when it was denied. */
const Pb__ControlSummary *ask_summary(const struct ask *ask);
/* As the daemon calls it. */
const char *ask_event(const struct ask *ask);
