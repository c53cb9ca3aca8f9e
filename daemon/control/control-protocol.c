/* control-protocol.c - see control-protocol.h.  Thread: main.
 * Every send and receive has MSG_DONTWAIT: O_NONBLOCK is a flag of the description, which other processes may
 * share. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-message.h"
#include "daemon/control/control-protocol.h"
#include "protos/message.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "trace/sink.h"

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
	if (s->closer)
		closer_close(s->closer, s->fd);
	else
		(void)fd_close(s->fd);
	(void)control_carry(s, -1);
	buffer_deinit(&s->in);
	buffer_deinit(&s->out);
	*s = (struct control_stream){.fd = -1};
}

/* ---- in ---- */

/* Like closer_receive(), with room for one descriptor. */
static ssize_t receive_with(int from, void *to, size_t room, int *fd)
{
	struct fd_message m;
	ssize_t n = fd_message_receive(from, to, room, 1, MSG_DONTWAIT, &m);

	if (n < 0)
		return n;
	if (m.more || (m.n && *fd >= 0)) {
		fd_message_close(&m);
		return -EBADMSG;
	}
	*fd = m.n ? m.fds[0] : *fd;
	return n;
}

/* @fd: NULL where no descriptor may come. */
static int receive(struct control_stream *s, int *fd)
{
	/* No more than one message of the largest size. */
	size_t room = s->max + HEAD - min_u64(s->in.len - s->taken, s->max + HEAD);
	uint8_t *to;
	ssize_t n;

	buffer_compact(&s->in, &s->taken, KEEP);
	room = min_u64(room, PIECE);
	if (!room)
		return fail(-EMSGSIZE); /* a caller that takes whole messages never comes here */
	to = buffer_reserve(&s->in, room);
	if (!to)
		return fail(-ENOMEM);
	n = fd ? receive_with(s->fd, to, room, fd) : closer_receive(s->fd, to, room);
	if (n == -EAGAIN || n == -EINTR)
		return CONTROL_NONE;
	if (n < 0)
		return fail((int)n);
	s->in.len += (size_t)n;
	return n ? 0 : CONTROL_CLOSED;
}

int control_receive(struct control_stream *s)
{
	return receive(s, NULL);
}

int control_receive_with(struct control_stream *s, int *fd)
{
	return receive(s, fd);
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
	int moved, e;

	if (s->carried)
		(void)fd_close(s->carried);
	s->carried = 0;
	if (fd < 0)
		return 0;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	e = errno;
	(void)fd_close(fd);
	if (moved < 0)
		return fail(-e);
	s->carried = moved;
	return 0;
}

size_t control_waiting(const struct control_stream *s)
{
	return s->out.len - s->sent;
}

static ssize_t send_some(struct control_stream *s)
{
	ssize_t n = fd_message_send(s->fd, s->out.data + s->sent, control_waiting(s), &s->carried,
				    s->carried ? 1 : 0, MSG_DONTWAIT);

	if (n > 0 && s->carried) {
		(void)fd_close(s->carried);
		s->carried = 0;
	}
	return n;
}

int control_send(struct control_stream *s)
{
	while (s->sent < s->out.len) {
		ssize_t n = send_some(s);

		if (n == -EAGAIN)
			break;
		if (n < 0)
			return fail((int)n);
		s->sent += (size_t)n;
	}
	buffer_compact(&s->out, &s->sent, KEEP);
	return control_waiting(s) ? CONTROL_PENDING : 0;
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

size_t control_packets_count(const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t n = 0, size;

	while (sink_next_packet(&c, &packet, &size))
		n++;
	return n;
}

void control_packets_mark_loss(struct buffer *to, const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	const void *packet;
	uint8_t field[16], *end;
	size_t n;

	if (sink_next_packet(&c, &packet, &n)) {
		end = pack_number(field, TRACE_PACKET__PREVIOUS_PACKET_DROPPED, 1);
		buffer_varint(to, SINK_PACKET_TAG);
		buffer_varint(to, n + (size_t)(end - field));
		buffer_append(to, packet, n);
		buffer_append(to, field, (size_t)(end - field));
	} else {
		c = cursor_of(data, len);
	}
	buffer_append(to, c.p, cursor_left(&c));
}
