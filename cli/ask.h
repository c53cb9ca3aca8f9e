/* ask.h - client of the control socket: requests a recording from the daemon.  Thread: main.
 * The daemon sends one end of a socket pair, and the client writes the packets from it to a sink.  The daemon opens
 * no file. */
#pragma once

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
