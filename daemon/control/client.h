/* client.h - one connection to the control socket, from its request to its last message.  Thread: main.
 *
 * Messages go over the connection, packets over a socket pair that the daemon makes for each recording: one
 * end stays here, the client gets the other one.  Our end is shut for reading before the client has its own,
 * so nothing ever lies in its queue: neither bytes nor descriptors whose close() may hang.  Its send buffer
 * bounds the packets in the kernel; no other process holds this end, so no other process can change that. */
#pragma once

#include <time.h>

#include "base/closer.h"
#include "daemon/control/control.h"
#include "daemon/control/control-protocol.h"
#include "daemon/control/recording.h"

enum {
	CONTROL_TICK_MS = 250,
	CONTROL_ERROR = 512,
	CONTROL_TEXT_MAX =
		64 << 10, /* messages that wait for the client; notes beyond are dropped */
	/* Packets in the kernel that the client has not read, by what they cost there.  The kernel doubles
	 * the value. */
	CONTROL_OUTPUT_ROOM = 128 << 10,
};

enum client_state { CLIENT_ASKING, CLIENT_RUNNING, CLIENT_LEAVING };

struct client {
	struct control *control;
	struct client *next;
	struct loop_source source;
	struct loop_source process; /* its pidfd: readable when the process has ended */
	struct control_stream stream;
	bool watches_out;
	struct requester requester; /* as of connect(2) */
	enum client_state state;
	Pb__ControlRequest
		*waiting;     /* a request that waits for its turn: the connection is not read */
	uint64_t deadline;    /* CLOCK_MONOTONIC, ms; ASKING, LEAVING */
	uint64_t progress_at; /* the same: PROGRESS was sent */

	struct recording recording;
	bool renews;	     /* RENEW is not answered yet */
	bool renew_waits;    /* and its work has not begun: it came too early */
	uint64_t renew_from; /* CLOCK_MONOTONIC, ms */

	struct control_stream
		output; /* for the packets; fd -1: none, or the client has closed its end */
	struct loop_source output_source;
	bool output_watches_out;
	uint64_t streamed; /* bytes sent there or queued */
	struct sink sink;
	bool lost;     /* packets: all that follow, until incremental state is written again */
	bool renewing; /* the session was asked to do that */
};

struct control {
	struct control_options options;
	struct recordings recordings;
	struct loop *loop;
	struct loop_source listener;
	struct closer closer;
	bool paused; /* no descriptor for the next connection: until the tick */
	struct loop_timer tick;
	struct client *clients;
	size_t n_clients;
	uint64_t stop_by; /* CLOCK_MONOTONIC, ms; 0: not stopping */
	bool stopped;
	struct control_counts counts;
};

static inline uint64_t control_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / NSEC_PER_MSEC;
}

/* Consumes @fd, also on failure.  -EUSERS: too many connections. */
int client_new(struct control *control, int fd);
void client_free(struct client *client);
/* Ends its recording; DONE follows. */
void client_stop(struct client *client);
/* @client may be gone after it. */
void client_tick(struct client *client, uint64_t now_ms);

/* Sends what the sockets take and watches for room.  < 0: the connection is gone. */
int client_send(struct client *client);
/* For tests: the sink of its recording and the socket that it writes to. */
void client_sink_init(struct client *client);
void client_output_close(struct client *client);
