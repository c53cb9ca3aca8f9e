/* frame.h - frames of the tracing service over a stream socket, in and out.  Thread: main.
 *
 *   ┌──────────┬──────────────────┐
 *   │ u32 size │ IPCFrame         │  size: little endian, of the IPCFrame; both fit into 128 KiB
 *   └──────────┴──────────────────┘
 *
 * Frames come split or joined in any way.  A descriptor rides beside the bytes of a frame and there
 * is nothing that ties the two together: the one received last waits in a slot for the frame that
 * wants it.  Nothing here blocks: what the socket does not take waits in `out`, up to a limit that
 * a service which reads never comes near. */
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

/* Receives what is there and fits.  0: something; FRAME_NONE: nothing now; FRAME_CLOSED: the peer
 * is gone.  -EBADMSG: descriptors were cut off, or more came than one.  Views of frame_next()
 * end. */
int frame_receive(struct frame_stream *stream);
/* The next whole IPCFrame's bytes, in place.  FRAME_NONE: receive more.  -EMSGSIZE: a size that no
 * frame may have; the stream cannot be read on. */
int frame_next(struct frame_stream *stream, const uint8_t **ret_data, size_t *ret_len);
/* The descriptor in the slot, now the caller's; -1: none. */
int frame_take_fd(struct frame_stream *stream);

/* Queues one IPCFrame.  -EMSGSIZE: too large; -ENOBUFS: the peer does not read. */
int frame_queue(struct frame_stream *stream, const Pb__IPCFrame *frame);
/* Sends what the socket takes.  FRAME_PENDING: some is left, try again when it is writable. */
int frame_send(struct frame_stream *stream);

/* message_unpack() with the number of fields that frames of this protocol may have. */
ProtobufCMessage *frame_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
			       size_t len);
