/* control-protocol.h - messages over the control socket, in and out.  Thread: main.
 *
 *   ┌──────────┬──────────┬─────────────┐
 *   │ u32 size │ u32 type │ size bytes  │   little endian
 *   └──────────┴──────────┴─────────────┘
 *
 *   client  REQUEST ───────────────► (RENEW TRIGGER)* ──► STOP      (closing ends the recording at once)
 *   daemon           DENIED │ ACCEPTED (NOTE PROGRESS RENEWED TRIGGERED)*   DONE │ FAILED
 *                           + descriptor
 *   the descriptor            packets ......................... EOF
 *
 * The daemon makes a socket pair for the packets and sends one end to the client (SCM_RIGHTS), with ACCEPTED or
 * a NOTE before it.  The client reads a trace from it: whole Trace.packet fields and nothing else.
 * ControlSummary's stream_bytes orders the two streams: DONE and RENEWED hold once that many bytes have been
 * read.
 * The daemon takes no descriptor: a client that sends one is refused before it is received, and another process
 * closes the connection with all that lies in its queue (base/closer.h). */
#pragma once

#include "base/bytes.h"
#include "base/closer.h"
#include "protos/control.pb-c.h"

#define CONTROL_SOCKET "/run/perfwind/control.sock"

enum {
	CONTROL_VERSION = 4,
	CONTROL_REQUEST_MAX = 128 << 10, /* bytes of a client's message */
	CONTROL_REPLY_MAX = 1 << 20,	 /* and of the daemon's */
	CONTROL_PACKET_MAX = 64 << 20,	 /* one in the stream */
	CONTROL_PIDS_MAX = 4096,
};

enum control_type {
	CONTROL_REQUEST = 1, /* ControlRequest */
	CONTROL_STOP,	     /* nothing */
	CONTROL_RENEW,	     /* nothing; the next one after RENEWED */
	CONTROL_SNAPSHOT,    /* u64: ns before the request, 0: all.  In place of a REQUEST */
	CONTROL_TRIGGER, /* u32: the user, then a name: a trigger; no name: a start.  Of a trace session */
	CONTROL_ACCEPTED = 16, /* text: the event's name */
	CONTROL_DENIED,	       /* text: the reason, a line */
	CONTROL_NOTE,	       /* text: a line for the user */
	CONTROL_PACKETS_1,     /* of version 1: packets over the connection */
	CONTROL_PROGRESS,      /* ControlSummary */
	CONTROL_DONE,	       /* ControlSummary; nothing follows */
	CONTROL_FAILED,	       /* text: the reason; DONE follows */
	CONTROL_RENEWED,       /* ControlSummary: what was sampled before RENEW has been sent, and
				* what follows can be read without it */
	CONTROL_SNAPPED,       /* struct control_snapped; the packets end, and nothing follows */
	CONTROL_TRIGGERED,     /* u8: enum trigger_verdict, one for each TRIGGER in order */
};

/* Of the daemon's flight recorder (standing.h). */
struct control_snapped {
	int32_t error; /* 0, -errno */
	uint32_t zero;
	uint64_t samples, bytes;
};

struct control_stream {
	int fd;	    /* owned, a stream socket; -1: none */
	size_t max; /* of a message's size, coming in */
	struct buffer in, out;
	size_t taken; /* of in */
	size_t sent;  /* of out */
	/* Borrowed: closes a connection that any process may have made.  NULL: close(). */
	struct closer *closer;
	int carried; /* owned, control_carry(); 0: none */
};

/* Consumes @fd. */
void control_stream_init(struct control_stream *stream, int fd, size_t max);
void control_stream_deinit(struct control_stream *stream);

enum { CONTROL_NONE = 1, CONTROL_CLOSED, CONTROL_PENDING };

/* Receives what is there, up to 32 KiB.  CONTROL_NONE: nothing now; CONTROL_CLOSED.  -EBADMSG:
 * descriptors came along.  Views of control_next() end. */
int control_receive(struct control_stream *stream);
/* The same, for a client: one descriptor may come, into *@fd, which is -1 until then.  -EBADMSG: more. */
int control_receive_with(struct control_stream *stream, int *fd);
/* The next whole message, in place.  CONTROL_NONE: receive more.  -EMSGSIZE: longer than may be. */
int control_next(struct control_stream *stream, uint32_t *ret_type, const uint8_t **ret_data,
		 size_t *ret_len);
/* -ENOMEM. */
int control_queue(struct control_stream *stream, enum control_type type, const void *data,
		  size_t len);
/* The next byte that is sent brings @fd (consumed); -1: no descriptor after all. */
int control_carry(struct control_stream *stream, int fd);
/* Bytes that wait to be sent. */
size_t control_waiting(const struct control_stream *stream);
/* Sends what the socket takes.  CONTROL_PENDING: some is left. */
int control_send(struct control_stream *stream);

/* Packets of a trace: how many, and the same bytes with the mark of a loss before the first one. */
size_t control_packets_count(const void *data, size_t len);
void control_packets_mark_loss(struct buffer *to, const void *data, size_t len);

/* A client's request, of any version.  Returns new; NULL: not a request, too many fields or pids, or no
 * memory. */
Pb__ControlRequest *control_request_unpack(const void *data, size_t len);
Pb__ControlSummary *control_summary_unpack(const void *data, size_t len);
int control_request_queue(struct control_stream *stream, const Pb__ControlRequest *request);
int control_summary_queue(struct control_stream *stream, enum control_type type,
			  const Pb__ControlSummary *summary);
