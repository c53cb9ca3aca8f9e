/* control-protocol.c - see control.h.  Thread: main.
 * Every send and receive says MSG_DONTWAIT: the flag of the description is shared with whoever has
 * the socket too, so it is not relied on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "protos/message.h"

enum {
	HEAD = 8,
	PIECE = 32 << 10, /* received at once, at most */
	KEEP = 64 << 10,  /* memory of an empty buffer that is kept */
	MAX_FIELDS = 32,  /* of a request */
	MAX_SUMMARY = 1 << 12,
};

void control_stream_init(struct control_stream *s, int fd, size_t max)
{
	*s = (struct control_stream){.fd = fd, .max = max};
}

void control_stream_deinit(struct control_stream *s)
{
	if (s->shared && s->fd >= 0)
		(void)shutdown(s->fd, SHUT_RDWR);
	if (s->closer && s->shared && s->fd >= 0)
		closer_pass(s->closer, s->fd); /* a look would wait for whoever reads it */
	else if (s->closer)
		closer_close(s->closer, s->fd);
	else
		(void)fd_close(s->fd);
	if (s->carried)
		(void)fd_close(s->carried);
	buffer_deinit(&s->in);
	buffer_deinit(&s->out);
	*s = (struct control_stream){.fd = -1};
}

/* Drops the first *@done bytes, once they are the larger half, so that bytes move once on average. */
static void compact(struct buffer *b, size_t *done)
{
	size_t left = b->len - *done;

	if (!*done || *done < left)
		return;
	memmove(b->data, b->data + *done, left);
	b->len = left;
	*done = 0;
	if (!left && b->room > KEEP)
		buffer_deinit(b);
}

/* ---- in ---- */

static int receive(struct control_stream *s, bool carried)
{
	/* No more than one message of the largest size: what is asked for is what there is room for. */
	size_t room = s->max + HEAD - min_u64(s->in.len - s->taken, s->max + HEAD);
	uint8_t *to;
	ssize_t n;

	compact(&s->in, &s->taken);
	room = min_u64(room, PIECE);
	if (!room)
		return fail(-EMSGSIZE); /* a caller that takes whole messages never comes here */
	to = buffer_reserve(&s->in, room);
	if (!to)
		return fail(-ENOMEM);
	if (carried) { /* ends behind what came with the descriptors */
		n = recv(s->fd, to, room, MSG_DONTWAIT);
		n = n < 0 ? -errno : n;
	} else {
		n = closer_receive(s->fd, to, room);
	}
	if (n == -EAGAIN || n == -EINTR)
		return CONTROL_NONE;
	if (n < 0)
		return fail((int)n);
	s->in.len += (size_t)n;
	return n ? 0 : CONTROL_CLOSED;
}

int control_receive(struct control_stream *s)
{
	return receive(s, false);
}

int control_receive_carried(struct control_stream *s)
{
	return receive(s, true);
}

int control_next(struct control_stream *s, uint32_t *ret_type, const uint8_t **ret_data,
		 size_t *ret_len)
{
	struct cursor c = cursor_of(s->in.data + s->taken, s->in.len - s->taken);
	uint32_t size, type;

	if (cursor_left(&c) < HEAD)
		return CONTROL_NONE;
	size = cursor_u32(&c);
	type = cursor_u32(&c);
	if (size > s->max)
		return fail(-EMSGSIZE);
	if (cursor_left(&c) < size)
		return CONTROL_NONE;
	*ret_type = type;
	*ret_data = c.p;
	*ret_len = size;
	s->taken += HEAD + size;
	return 0;
}

/* ---- out ---- */

static uint8_t *reserve(struct control_stream *s, enum control_type type, size_t len)
{
	uint32_t head[2] = {(uint32_t)len, type};
	uint8_t *to = buffer_reserve(&s->out, HEAD + len);

	if (!to)
		return NULL;
	memcpy(to, head, HEAD);
	s->out.len += HEAD + len;
	return to + HEAD;
}

int control_queue(struct control_stream *s, enum control_type type, const void *data, size_t len)
{
	uint8_t *to = reserve(s, type, len);

	if (!to)
		return fail(-ENOMEM);
	if (len)
		memcpy(to, data, len);
	return 0;
}

int control_carry(struct control_stream *s, int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), e = errno;

	(void)fd_close(fd);
	if (moved < 0)
		return fail(-e);
	s->carried = moved;
	return 0;
}

int control_queue_bytes(struct control_stream *s, const void *data, size_t len)
{
	buffer_append(&s->out, data, len);
	return s->out.bad ? fail(-ENOMEM) : 0;
}

size_t control_waiting(const struct control_stream *s)
{
	return s->out.len - s->sent;
}

size_t control_unread(const struct control_stream *s)
{
	int unread = 0;

	if (!s->unread_max || s->fd < 0)
		return 0;
	if (ioctl(s->fd, SIOCOUTQ, &unread) < 0 || unread < 0)
		return s->unread_max;
	return (size_t)unread;
}

/* What may be sent now, as far as we hold back.  (Whoever has the socket too can give its queue as
 * much room as they like, and it would be memory of our own control group.) */
static size_t allowed(const struct control_stream *s)
{
	size_t waiting = control_waiting(s), unread = control_unread(s);

	if (!s->unread_max)
		return waiting;
	return unread < s->unread_max ? min_u64(waiting, s->unread_max - unread) : 0;
}

static ssize_t send_some(struct control_stream *s, size_t len)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = s->out.data + s->sent, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (s->carried) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &s->carried, sizeof(int));
	}
	n = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0 && s->carried) {
		(void)fd_close(s->carried);
		s->carried = 0;
	}
	return n;
}

int control_send(struct control_stream *s)
{
	bool held = false;

	while (s->sent < s->out.len && !held) {
		size_t len = allowed(s);
		ssize_t n = len ? send_some(s, len) : 0;

		held = !len;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return fail(-errno);
		if (n < 0)
			break;
		s->sent += (size_t)n;
	}
	compact(&s->out, &s->sent);
	if (!control_waiting(s))
		return 0;
	return held ? CONTROL_HELD : CONTROL_PENDING;
}

/* ---- messages ---- */

Pb__ControlRequest *control_request_unpack(const void *data, size_t len)
{
	Pb__ControlRequest *m = (Pb__ControlRequest *)(void *)message_unpack(
		&pb__control_request__descriptor, data, len, MAX_FIELDS);

	if (m && m->n_pids > CONTROL_PIDS_MAX) {
		pb__control_request__free_unpacked(m, NULL);
		return NULL;
	}
	return m;
}

Pb__ControlSummary *control_summary_unpack(const void *data, size_t len)
{
	return (Pb__ControlSummary *)(void *)message_unpack(&pb__control_summary__descriptor, data,
							    len, MAX_SUMMARY);
}

int control_request_queue(struct control_stream *s, const Pb__ControlRequest *request)
{
	uint8_t *to = reserve(s, CONTROL_REQUEST, pb__control_request__get_packed_size(request));

	if (!to)
		return fail(-ENOMEM);
	(void)pb__control_request__pack(request, to);
	return 0;
}

int control_summary_queue(struct control_stream *s, enum control_type type,
			  const Pb__ControlSummary *summary)
{
	uint8_t *to = reserve(s, type, pb__control_summary__get_packed_size(summary));

	if (!to)
		return fail(-ENOMEM);
	(void)pb__control_summary__pack(summary, to);
	return 0;
}
