/* frame.h - frames of the tracing service over a stream socket, in and out.  Thread: main.
 *
 *   ┌──────────┬──────────────────┐
 *   │ u32 size │ IPCFrame         │  size: little endian, of the IPCFrame; both fit into 128 KiB
 *   └──────────┴──────────────────┘
 *
 * Frames come split or joined in any way.  A descriptor comes with some byte of the stream, and nothing ties it to
 * a frame: the last one received waits in a slot for the frame that needs it.  No function blocks: bytes that
 * the socket does not take wait in `out`, up to a limit far above the need of a service that reads. */
#pragma once

#include "base/bytes.h"
#include "protos/message.h"
#include "protos/ipc.pb-c.h"

enum {
	FRAME_BUFFER = 128 << 10,
	FRAME_MAX = FRAME_BUFFER - 4, /* bytes of one IPCFrame */
	FRAME_QUEUE_MAX = 4 << 20,    /* waiting to be sent */
};

struct frame_stream {
	int fd;		 /* owned, not blocking; -1: none */
	int slot_fd;	 /* owned; the descriptor received last, -1: none */
	uint8_t *in;	 /* FRAME_BUFFER bytes */
	size_t from, to; /* in[from..to): received, not yet taken */
	struct buffer out;
	size_t sent; /* of out */
};

/* Consumes @fd, also on failure. */
int frame_stream_init(struct frame_stream *stream, int fd);
void frame_stream_deinit(struct frame_stream *stream);

enum { FRAME_NONE = 1, FRAME_CLOSED, FRAME_PENDING };

/* Receives available bytes up to the room for them.  FRAME_NONE: nothing now; FRAME_CLOSED: the peer has closed.
 * -EBADMSG: descriptors were cut off, or more came than one.  Ends views of frame_next(). */
int frame_receive(struct frame_stream *stream);
/* The next whole IPCFrame's bytes, in place.  FRAME_NONE: receive more.  -EMSGSIZE: larger than any frame; the
 * stream cannot be read further. */
int frame_next(struct frame_stream *stream, const uint8_t **ret_data, size_t *ret_len);
/* The descriptor in the slot, now the caller's; -1: none. */
static inline int frame_take_fd(struct frame_stream *s)
{
	return take_fd(s->slot_fd);
}

/* A request to the service's ProducerPort, with all that its frame points to. */
struct frame_request {
	Pb__IPCFrame frame;
	Pb__IPCFrame__BindService bind;
	Pb__IPCFrame__InvokeMethod call;
	uint8_t arguments[64 << 10];
};
void frame_bind(struct frame_request *ret_request);
/* @arguments: NULL: none.  -EMSGSIZE: they are too long. */
int frame_invoke(uint32_t service, uint32_t method, const void *arguments,
		 struct frame_request *ret_request);

/* Queues one IPCFrame.  -EMSGSIZE: too large; -ENOBUFS: the peer does not read. */
int frame_queue(struct frame_stream *stream, const Pb__IPCFrame *frame);
/* Sends what the socket takes.  FRAME_PENDING: some is left, try again when it is writable. */
int frame_send(struct frame_stream *stream);

/* message_unpack() with the number of fields that frames of this protocol may have. */
ProtobufCMessage *frame_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
			       size_t len);
