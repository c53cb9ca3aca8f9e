/* frame.c - see frame.h. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/producer/frame.h"

enum {
	HEAD = 4,
	MAX_FIELDS = 16,     /* of one message, known or not; repeated ones apart */
	CONTROL_FDS = 4,     /* one is legal; the others are closed, not leaked */
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

/* Takes all descriptors out of @msg: the last one into the slot.  How many there were. */
static size_t take_descriptors(struct frame_stream *s, struct msghdr *msg)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
		     at += sizeof(int)) {
			(void)fd_close(s->slot_fd);
			memcpy(&s->slot_fd, CMSG_DATA(c) + at, sizeof(int));
			n++;
		}
	}
	return n;
}

int frame_receive(struct frame_stream *s)
{
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	ssize_t n;

	/* The rest is the beginning of one frame: moved to the front, so that all of it fits. */
	memmove(s->in, s->in + s->from, s->to - s->from);
	s->to -= s->from;
	s->from = 0;
	iov = (struct iovec){s->in + s->to, FRAME_BUFFER - s->to};
	msg.msg_controllen = sizeof(control);
	do {
		n = recvmsg(s->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN	     ? FRAME_NONE
		       : errno == ECONNRESET ? FRAME_CLOSED
					     : fail(-errno);
	if (take_descriptors(s, &msg) > 1 || msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
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

int frame_take_fd(struct frame_stream *s)
{
	return take_fd(s->slot_fd);
}

/* ---- out ---- */

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
	/* Sent bytes are removed once they are the larger half, so that bytes move once on average. */
	if (s->sent && s->sent >= s->out.len - s->sent) {
		memmove(s->out.data, s->out.data + s->sent, s->out.len - s->sent);
		s->out.len -= s->sent;
		s->sent = 0;
	}
	if (s->out.len)
		return FRAME_PENDING;
	if (s->out.room > KEEP_OUT)
		buffer_deinit(&s->out);
	return 0;
}

/* ---- messages ---- */

ProtobufCMessage *frame_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
			       size_t len)
{
	return message_unpack(descriptor, data, len, MAX_FIELDS);
}
