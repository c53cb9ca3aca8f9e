/* control.h - the control socket: recordings for those who lack the rights themselves.  Thread: main.
 *
 *   connect ──► ASKING ── request, allowed (policy.h) ──► RUNNING ── its end, STOP ──► LEAVING ──► gone
 *                 │                                          │
 *                 └── denied: a reason ──► LEAVING           └── the client is gone: at once
 *
 * What a client may cost is bounded: connections, recordings, samples a second, memory, and the time
 * for a request.  None of them is waited for. */
#pragma once

#include "base/loop.h"
#include "session/session.h"
#include "daemon/policy/settings.h"

#define CONTROL_SOCKET "/run/perfwind/control.sock"

enum {
	CONTROL_CLIENTS = 256,	   /* connections */
	CONTROL_KEPT_CLIENTS = 32, /* of them for those who may record everything */
	CONTROL_USER_CLIENTS = 32, /* of one user */
	CONTROL_ASK_MS = 5000,	   /* from connect to the whole request */
	CONTROL_TURN_MS = 10000,   /* a request, for its user's turn */
	CONTROL_RENEW_MS = 100,	   /* from one interval's end to the next one's, at least */
	CONTROL_LEAVE_MS = 5000,   /* the last words wait for their reader */
	CONTROL_STOP_MS = 7000,	   /* control_stop() */
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
	uint64_t refused;     /* garbage, descriptors out of place, no request in time */
	uint64_t outputs;     /* denied: what was sent for the packets is nothing to write to */
	uint64_t turned_away; /* too many connections */
};

struct control;
/* Consumes options->fd, also on failure. */
int control_new(const struct control_options *options, struct loop *loop,
		struct control **ret_control);
struct control *control_free(struct control *control);
/* Recordings drain and are told; then stopped(), after CONTROL_STOP_MS at the latest. */
void control_stop(struct control *control);
/* For requests from here on. */
void control_set_settings(struct control *control, const struct settings *settings);
void control_counts(const struct control *control, struct control_counts *ret_counts);
