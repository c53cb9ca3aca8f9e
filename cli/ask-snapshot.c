/* ask-snapshot.c - see ask-snapshot.h.  The answer and the packets come over two sockets, in either order. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/ask-snapshot.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"

enum { ANSWER_MS = 120000, PIECE = 256 << 10 };

struct asked {
	struct control_stream stream;
	int received, packets; /* received: comes with ACCEPTED */
	bool answered, over;   /* over: all packets were read */
	struct ask_snapshot *result;
	uint8_t piece[PIECE];
};

static int refused(struct asked *a, int error, const void *why, size_t len)
{
	(void)snprintf(a->result->why, sizeof(a->result->why), "%.*s", (int)min_u64(len, 500),
		       (const char *)why);
	return error;
}

static int refused_text(struct asked *a, int error, const char *why)
{
	return refused(a, error, why, strlen(why));
}

static int take_message(struct asked *a, uint32_t type, const uint8_t *data, size_t len)
{
	struct control_snapped snapped;

	switch (type) {
	case CONTROL_ACCEPTED:
		a->packets = take_fd(a->received);
		return a->packets < 0
			       ? refused_text(a, -EBADMSG, "the daemon's answer is not understood")
			       : 0;
	case CONTROL_DENIED:
		return refused(a, -EPERM, data, len);
	case CONTROL_SNAPPED:
		if (len != sizeof(snapped))
			return refused_text(a, -EBADMSG, "the daemon is of another version");
		memcpy(&snapped, data, sizeof(snapped));
		a->answered = true;
		a->result->samples = snapped.samples;
		a->result->bytes = snapped.bytes;
		return snapped.error < 0 ? refused_text(a, snapped.error, strerror(-snapped.error))
					 : 0;
	default:
		return 0; /* of a later version */
	}
}

static int take_messages(struct asked *a)
{
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r = control_receive_with(&a->stream, &a->received);

	if (r == CONTROL_CLOSED && !a->answered)
		return refused_text(a, -EPIPE,
				    "the daemon closed the connection without an answer: is it of "
				    "another version?");
	while (r == 0) {
		r = control_next(&a->stream, &type, &data, &len);
		if (r == 0)
			r = take_message(a, type, data, len);
	}
	return r < 0 ? r : 0;
}

static int take_packets(struct asked *a, struct sink *file)
{
	ssize_t n = recv(a->packets, a->piece, sizeof(a->piece), MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	a->over = n <= 0;
	r = n > 0 ? write_all(sink_fd(file), a->piece, (size_t)n) : 0;
	return r < 0 ? refused_text(a, r, strerror(-r)) : 0;
}

static int run(struct asked *a, struct sink *file)
{
	int r = 0;

	while (r >= 0 && !(a->answered && a->over)) {
		struct pollfd fds[] = {{.fd = a->answered ? -1 : a->stream.fd, .events = POLLIN},
				       {.fd = a->over ? -1 : a->packets, .events = POLLIN}};

		r = poll(fds, ARRAY_SIZE(fds), ANSWER_MS);
		if (r == 0)
			r = refused_text(a, -ETIMEDOUT, "the daemon does not answer");
		else if (r < 0)
			r = errno == EINTR ? 0 : refused_text(a, -errno, strerror(errno));
		if (r > 0 && fds[1].revents)
			r = take_packets(a, file);
		if (r >= 0 && fds[0].revents)
			r = take_messages(a);
	}
	return r < 0 ? trace(r) : 0;
}

int ask_snapshot(const char *socket, uint64_t last_ns, struct sink *file, struct ask_snapshot *ret)
{
	struct asked *a = calloc(1, sizeof(*a));
	int fd = -1, r;

	*ret = (struct ask_snapshot){0};
	if (!a) {
		(void)snprintf(ret->why, sizeof(ret->why), "%s", strerror(ENOMEM));
		return fail(-ENOMEM);
	}
	a->result = ret;
	a->received = a->packets = -1;
	r = ask_connect(socket, &fd);
	control_stream_init(&a->stream, fd, CONTROL_REPLY_MAX);
	if (r >= 0)
		r = control_queue(&a->stream, CONTROL_SNAPSHOT, &last_ns, sizeof(last_ns));
	if (r >= 0)
		r = control_send(&a->stream);
	if (r < 0)
		r = refused_text(a, r, strerror(-r));
	else
		r = run(a, file);
	control_stream_deinit(&a->stream);
	(void)fd_close(a->received);
	(void)fd_close(a->packets);
	free(a);
	return r < 0 ? trace(r) : 0;
}
