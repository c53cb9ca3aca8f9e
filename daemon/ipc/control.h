/* control.h - messages over the control socket, in and out.  Thread: main.
 *
 *   ┌──────────┬──────────┬─────────────┐
 *   │ u32 size │ u32 type │ size bytes  │   little endian
 *   └──────────┴──────────┴─────────────┘
 *
 *   client  REQUEST ───────────────────────────► RENEW* ──► STOP         (closing ends it at once)
 *   daemon           DENIED │ ACCEPTED (NOTE PACKETS PROGRESS RENEWED)*   DONE │ FAILED
 *
 * The packets come over the connection itself, and descriptors are never taken: whoever sends some is
 * refused before they are received, and what lies in its queue is let go by another process
 * (base/closer.h).  To take a descriptor is to have to close it, and close() of a file on a FUSE
 * server that does not answer FLUSH cannot even be killed.
 * A pipe would be no better than the socket: whoever shares it may take O_NONBLOCK off it. */
#pragma once

#include "daemon/base/bytes.h"
#include "daemon/base/closer.h"
#include "protos/control.pb-c.h"

enum {
	CONTROL_VERSION = 1,
	CONTROL_REQUEST_MAX = 128 << 10, /* bytes of what a client says */
	CONTROL_REPLY_MAX = 64 << 20,	 /* and of what the daemon says, PACKETS of one write */
	CONTROL_PIDS_MAX = 4096,
};

enum control_type {
	CONTROL_REQUEST = 1,   /* ControlRequest */
	CONTROL_STOP,	       /* nothing */
	CONTROL_RENEW,	       /* nothing; the next one after RENEWED */
	CONTROL_ACCEPTED = 16, /* text: the event's name */
	CONTROL_DENIED,	       /* text: the reason, a line */
	CONTROL_NOTE,	       /* text: a line for the user */
	CONTROL_PACKETS,       /* whole Trace.packet fields */
	CONTROL_PROGRESS,      /* ControlSummary */
	CONTROL_DONE,	       /* the same: nothing follows */
	CONTROL_FAILED,	       /* text: why; DONE follows */
	CONTROL_RENEWED,       /* ControlSummary: what was sampled before RENEW has been sent, and
				* what follows can be read without it */
};

struct control_stream {
	int fd;	    /* owned, a stream socket; -1: none */
	size_t max; /* of a message's size, coming in */
	struct buffer in, out;
	size_t taken; /* of in */
	size_t sent;  /* of out */
	/* Borrowed: ends the connection, where anyone may be at its other end.  NULL: close(). */
	struct closer *closer;
};

/* Consumes @fd. */
void control_stream_init(struct control_stream *stream, int fd, size_t max);
void control_stream_deinit(struct control_stream *stream);

enum { CONTROL_NONE = 1, CONTROL_CLOSED, CONTROL_PENDING };

/* Receives what is there, up to 32 KiB.  CONTROL_NONE: nothing now; CONTROL_CLOSED.  -EBADMSG:
 * descriptors came along.  Views of control_next() end. */
int control_receive(struct control_stream *stream);
/* The next whole message, in place.  CONTROL_NONE: receive more.  -EMSGSIZE: longer than may be. */
int control_next(struct control_stream *stream, uint32_t *ret_type, const uint8_t **ret_data,
		 size_t *ret_len);
/* -ENOMEM. */
int control_queue(struct control_stream *stream, enum control_type type, const void *data,
		  size_t len);
/* Bytes that wait to be sent. */
size_t control_waiting(const struct control_stream *stream);
/* Sends what the socket takes.  CONTROL_PENDING: some is left. */
int control_send(struct control_stream *stream);

/* A client's request.  Returns new, NULL: garbage, another version, more than there may be, or no
 * memory. */
Pb__ControlRequest *control_request_unpack(const void *data, size_t len);
Pb__ControlSummary *control_summary_unpack(const void *data, size_t len);
int control_request_queue(struct control_stream *stream, const Pb__ControlRequest *request);
int control_summary_queue(struct control_stream *stream, enum control_type type,
			  const Pb__ControlSummary *summary);
