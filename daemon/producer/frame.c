/* frame.c - see frame.h. */
#include <errno.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd-message.h"
#include "daemon/producer/frame.h"

enum {
	HEAD = 4,
	MAX_FIELDS = 16,     /* of one message, known or not; repeated ones apart */
	KEEP_OUT = 64 << 10, /* memory of an empty queue that is kept */
};

int frame_stream_init(struct frame_stream *s, int fd)
{
	*s = (struct frame_stream){.fd = fd, .slot_fd = -1};
	s->in = malloc(FRAME_BUFFER);
	if (!s->in) {
		frame_stream_deinit(s);
		return fail(-ENOMEM);
	}
	return 0;
}

void frame_stream_deinit(struct frame_stream *s)
{
	(void)fd_close(s->fd);
	(void)fd_close(s->slot_fd);
	free(s->in);
	buffer_deinit(&s->out);
	*s = (struct frame_stream){.fd = -1, .slot_fd = -1};
}

/* ---- in ---- */

int frame_receive(struct frame_stream *s)
{
	struct fd_message m;
	ssize_t n;

	/* The rest is the beginning of one frame: moved to the front, so that all of it fits. */
	memmove(s->in, s->in + s->from, s->to - s->from);
	s->to -= s->from;
	s->from = 0;
	n = fd_message_receive(s->fd, s->in + s->to, FRAME_BUFFER - s->to, 1, MSG_DONTWAIT, &m);
	if (n < 0)
		return n == -EAGAIN ? FRAME_NONE : n == -ECONNRESET ? FRAME_CLOSED : fail((int)n);
	if (m.n) {
		(void)fd_close(s->slot_fd);
		s->slot_fd = m.fds[0];
	}
	if (m.more)
		return fail(-EBADMSG);
	if (n == 0)
		return FRAME_CLOSED;
	s->to += (size_t)n;
	return 0;
}

int frame_next(struct frame_stream *s, const uint8_t **ret_data, size_t *ret_len)
{
	for (;;) {
		struct cursor c = cursor_of(s->in + s->from, s->to - s->from);
		uint32_t size = cursor_u32(&c);

		if (c.bad)
			return FRAME_NONE;
		if (size > FRAME_MAX)
			return fail(-EMSGSIZE);
		if (cursor_left(&c) < size)
			return FRAME_NONE;
		s->from += HEAD + size;
		if (!size)
			continue; /* legal, and empty */
		*ret_data = c.p;
		*ret_len = size;
		return 0;
	}
}

/* ---- out ---- */

void frame_bind(struct frame_request *q)
{
	static char name[] = "ProducerPort";

	pb__ipcframe__init(&q->frame);
	pb__ipcframe__bind_service__init(&q->bind);
	q->bind.service_name = name;
	q->frame.msg_case = PB__IPCFRAME__MSG_MSG_BIND_SERVICE;
	q->frame.msg_bind_service = &q->bind;
}

int frame_invoke(uint32_t service, uint32_t method, const void *arguments, struct frame_request *q)
{
	pb__ipcframe__init(&q->frame);
	pb__ipcframe__invoke_method__init(&q->call);
	q->call.has_service_id = q->call.has_method_id = q->call.has_args_proto = true;
	q->call.service_id = service;
	q->call.method_id = method;
	if (arguments && protobuf_c_message_get_packed_size(arguments) > sizeof(q->arguments))
		return fail(-EMSGSIZE);
	q->call.args_proto.len = arguments ? protobuf_c_message_pack(arguments, q->arguments) : 0;
	q->call.args_proto.data = q->arguments;
	q->frame.msg_case = PB__IPCFRAME__MSG_MSG_INVOKE_METHOD;
	q->frame.msg_invoke_method = &q->call;
	return 0;
}

int frame_queue(struct frame_stream *s, const Pb__IPCFrame *frame)
{
	size_t len = pb__ipcframe__get_packed_size(frame);
	uint32_t head = (uint32_t)len;
	uint8_t *to;

	if (len > FRAME_MAX)
		return fail(-EMSGSIZE);
	if (s->out.len - s->sent + HEAD + len > FRAME_QUEUE_MAX)
		return fail(-ENOBUFS);
	to = buffer_reserve(&s->out, HEAD + len);
	if (!to)
		return fail(-ENOMEM);
	memcpy(to, &head, HEAD);
	(void)pb__ipcframe__pack(frame, to + HEAD);
	s->out.len += HEAD + len;
	return 0;
}

int frame_send(struct frame_stream *s)
{
	while (s->sent < s->out.len) {
		ssize_t n = send(s->fd, s->out.data + s->sent, s->out.len - s->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return fail(-errno);
		if (n < 0)
			break;
		s->sent += (size_t)n;
	}
	buffer_compact(&s->out, &s->sent, KEEP_OUT);
	return s->out.len ? FRAME_PENDING : 0;
}

/* ---- messages ---- */

ProtobufCMessage *frame_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
			       size_t len)
{
	return message_unpack(descriptor, data, len, MAX_FIELDS);
}
