/* control.h - the control socket: recordings for users that lack the privileges themselves.  Thread: main.
 *
 *   connect ──► ASKING ── request, allowed (policy.h) ──► RUNNING ── its end, STOP ──► LEAVING ──► closed
 *                 │                                          │
 *                 └── denied: a reason ──► LEAVING           └── the client has closed: at once
 *
 * Everything that a client can use is bounded: connections, recordings, samples a second, memory, the main
 * thread's time, and the time for a request.  The daemon waits for no client. */
#pragma once

#include "base/loop.h"
#include "session/session.h"
#include "daemon/policy/settings.h"

enum {
	CONTROL_CLIENTS = 256,	       /* connections */
	CONTROL_RESERVED_CLIENTS = 32, /* of these, for requesters that may record everything */
	CONTROL_USER_CLIENTS = 32,     /* of one user */
	CONTROL_ASK_MS = 5000,	       /* from connect to the whole request */
	CONTROL_TURN_MS = 10000,       /* a request waits for its user's turn */
	CONTROL_RENEW_MS = 100,	       /* at least, from one interval's end to the next one's */
	CONTROL_SNAPSHOT_MS = 60000,   /* a snapshot waits for its client */
	CONTROL_LEAVE_MS = 5000,       /* the last messages wait for the client */
	CONTROL_STOP_MS = 7000,	       /* control_stop() */
};

struct control_options {
	int fd; /* listening; consumed */
	struct settings settings;
	struct features features;
	struct session_shared *shared; /* borrowed */
	/* control_stop() is done. */
	void (*stopped)(void *arg);
	void *arg;
};

struct control_counts {
	uint64_t accepted, denied;
	uint64_t refused; /* broke the protocol, or sent no request in time */
};

struct control;
/* Consumes options->fd, also on failure. */
int control_new(const struct control_options *options, struct loop *loop,
		struct control **ret_control);
struct control *control_free(struct control *control);
/* Recordings drain and their clients get DONE; then stopped(), after CONTROL_STOP_MS at the latest. */
void control_stop(struct control *control);
/* For requests from now on. */
void control_set_settings(struct control *control, const struct settings *settings);
void control_counts(const struct control *control, struct control_counts *ret_counts);
