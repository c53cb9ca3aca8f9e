/* control-protocol.h - messages over the control socket, in and out.  Thread: main.
 *
 *   ┌──────────┬──────────┬─────────────┐
 *   │ u32 size │ u32 type │ size bytes  │   little endian
 *   └──────────┴──────────┴─────────────┘
 *
 *   client  REQUEST ─────────────────────► RENEW* ──► STOP           (closing ends it at once)
 *           + descriptor
 *   daemon           DENIED │ ACCEPTED (NOTE PROGRESS RENEWED)*      DONE │ FAILED
 *   the descriptor            packets ......................... EOF
 *
 * The request's first byte brings one descriptor (SCM_RIGHTS), which the packets go to: one end of a
 * pair that socketpair() made (ipc/output.h says why no other).  What it gets is a trace, whole
 * Trace.packet fields and nothing else.  The two streams are put in order by ControlSummary's
 * stream_bytes: DONE and RENEWED count once that many bytes have been read.
 * No other descriptors are taken: whoever sends some is refused before they are received, and what
 * lies in a queue is let go by another process (base/closer.h). */
#pragma once

#include "base/bytes.h"
#include "base/closer.h"
#include "protos/control.pb-c.h"

enum {
	CONTROL_VERSION = 2,
	CONTROL_REQUEST_MAX = 128 << 10, /* bytes of what a client says */
	CONTROL_REPLY_MAX = 1 << 20,	 /* and of what the daemon says */
	CONTROL_PACKET_MAX = 64 << 20,	 /* one in the stream */
	CONTROL_PIDS_MAX = 4096,
};

enum control_type {
	CONTROL_REQUEST = 1,   /* ControlRequest */
	CONTROL_STOP,	       /* nothing */
	CONTROL_RENEW,	       /* nothing; the next one after RENEWED */
	CONTROL_ACCEPTED = 16, /* text: the event's name */
	CONTROL_DENIED,	       /* text: the reason, a line */
	CONTROL_NOTE,	       /* text: a line for the user */
	CONTROL_PACKETS_1,     /* of version 1: packets came over the connection */
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
	/* Others have this very end of it too: nothing is received, and it is shut for them as well. */
	bool shared;
	size_t unread_max; /* bytes that its queue may hold; 0: what the socket takes */
	int carried;	   /* control_carry(); 0: none */
};

/* Consumes @fd. */
void control_stream_init(struct control_stream *stream, int fd, size_t max);
void control_stream_deinit(struct control_stream *stream);

enum { CONTROL_NONE = 1, CONTROL_CLOSED, CONTROL_PENDING, CONTROL_HELD };

/* Receives what is there, up to 32 KiB.  CONTROL_NONE: nothing now; CONTROL_CLOSED.  -EBADMSG:
 * descriptors came along.  Views of control_next() end. */
int control_receive(struct control_stream *stream);
/* The same, but the first descriptors that these bytes bring the caller has already (output_look()): they
 * are let go, and what came behind them waits. */
int control_receive_carried(struct control_stream *stream);
/* The next whole message, in place.  CONTROL_NONE: receive more.  -EMSGSIZE: longer than may be. */
int control_next(struct control_stream *stream, uint32_t *ret_type, const uint8_t **ret_data,
		 size_t *ret_len);
/* -ENOMEM. */
int control_queue(struct control_stream *stream, enum control_type type, const void *data,
		  size_t len);
/* The next byte that is sent brings @fd (consumed). */
int control_carry(struct control_stream *stream, int fd);
/* Bytes that are no message. */
int control_queue_bytes(struct control_stream *stream, const void *data, size_t len);
/* Bytes that wait to be sent. */
size_t control_waiting(const struct control_stream *stream);
/* Bytes that were sent and not read, where its queue has unread_max, which stands for what cannot be told; else 0. */
size_t control_unread(const struct control_stream *stream);
/* Sends what the socket takes.  CONTROL_PENDING: some is left; CONTROL_HELD: some is, and that there
 * is room says nothing, as its queue has unread_max. */
int control_send(struct control_stream *stream);

/* A client's request, of whatever version.  Returns new, NULL: garbage, more than there may be, or no
 * memory. */
Pb__ControlRequest *control_request_unpack(const void *data, size_t len);
Pb__ControlSummary *control_summary_unpack(const void *data, size_t len);
int control_request_queue(struct control_stream *stream, const Pb__ControlRequest *request);
int control_summary_queue(struct control_stream *stream, enum control_type type,
			  const Pb__ControlSummary *summary);
