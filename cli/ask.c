/* ask.c - see ask.h.  Thread: main.
 * What the daemon says is believed as far as its form is checked: whoever can listen at
 * /run/perfwind is root or perfwind. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/ask.h"
#include "daemon/base/error.h"

struct ask {
	struct ask_options options;
	struct loop *loop;
	struct loop_source source;
	struct control_stream stream;
	Pb__ControlSummary *summary;
	char event[128], why[512];
	int error;
	bool ended, denied;
};

enum { CONNECT_S = 5 };

static int connect_to(const char *path, int *ret_fd)
{
	const struct timeval patience = {.tv_sec = CONNECT_S}, no_limit = {0};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = strlen(path);

	if (fd < 0)
		return fail(-errno);
	if (!len || len >= sizeof(at.sun_path))
		return fail(-ENAMETOOLONG);
	memcpy(at.sun_path, path, len);
	/* A daemon that takes nobody any more (its backlog is full) is none. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &no_limit, sizeof(no_limit)) < 0)
		return fail(-errno);
	*ret_fd = take_fd(fd);
	return 0;
}

bool ask_possible(const char *socket)
{
	_cleanup_(fd_closep) int fd = -1;

	return connect_to(socket, &fd) == 0;
}

/* The end: told once. */
static void end(struct ask *a, int error, const char *why, size_t len)
{
	if (a->ended)
		return;
	a->ended = true;
	if (error < 0 && !a->error) {
		a->error = error;
		(void)snprintf(a->why, sizeof(a->why), "%.*s", (int)min_u64(len, 500), why);
	}
	loop_remove(a->loop, &a->source);
	a->options.ended(a->options.arg);
}

static void end_text(struct ask *a, int error, const char *why)
{
	end(a, error, why, strlen(why));
}

static void take_summary(struct ask *a, uint32_t type, const uint8_t *data, size_t len)
{
	Pb__ControlSummary *m = control_summary_unpack(data, len);

	if (!m) {
		end_text(a, -EBADMSG, "the daemon's answer is not understood");
	} else if (type == CONTROL_DONE) {
		a->summary = m;
		end(a, 0, "", 0);
	} else {
		void (*call)(void *, const Pb__ControlSummary *) =
			type == CONTROL_RENEWED ? a->options.renewed : a->options.progress;

		if (call)
			call(a->options.arg, m);
		pb__control_summary__free_unpacked(m, NULL);
	}
}

static void take_packets(struct ask *a, const uint8_t *data, size_t len)
{
	int r;

	if (a->error)
		return; /* FAILED was said, or they cannot be written */
	r = a->options.sink->write(a->options.sink, data, len);
	if (r >= 0)
		return;
	a->error = r;
	(void)snprintf(a->why, sizeof(a->why), "writing the trace: %s", strerror(-r));
	ask_stop(a);
}

static void take_message(struct ask *a, uint32_t type, const uint8_t *data, size_t len)
{
	switch (type) {
	case CONTROL_ACCEPTED:
		(void)snprintf(a->event, sizeof(a->event), "%.*s", (int)min_u64(len, 100), data);
		if (a->options.accepted)
			a->options.accepted(a->options.arg);
		break;
	case CONTROL_DENIED:
		a->denied = true;
		end(a, -EPERM, (const char *)data, len);
		break;
	case CONTROL_NOTE:
		log_info("%.*s", (int)min_u64(len, 500), data);
		break;
	case CONTROL_PACKETS:
		take_packets(a, data, len);
		break;
	case CONTROL_PROGRESS:
	case CONTROL_RENEWED:
	case CONTROL_DONE:
		take_summary(a, type, data, len);
		break;
	case CONTROL_FAILED:
		a->error = a->error ? a->error : -EIO;
		(void)snprintf(a->why, sizeof(a->why), "%.*s", (int)min_u64(len, 500), data);
		break;
	default:
		break; /* a later version's, of no use to us */
	}
}

static int ready(struct loop_source *source, uint32_t events)
{
	struct ask *a = container_of(source, struct ask, source);
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r;

	if (events & EPOLLOUT) {
		r = control_send(&a->stream);
		if (r == 0)
			(void)loop_change(a->loop, source, EPOLLIN);
	}
	r = control_receive(&a->stream);
	if (r == CONTROL_NONE)
		return 0;
	while (r == 0 && !a->ended) {
		r = control_next(&a->stream, &type, &data, &len);
		if (r == 0)
			take_message(a, type, data, len);
	}
	if (r < 0)
		end_text(a, r, "the daemon's answer is not understood");
	else if (r == CONTROL_CLOSED)
		end_text(a, -EPIPE, "the daemon is gone; the trace has what it had sent");
	return 0;
}

static int send_now(struct ask *a)
{
	int r = control_send(&a->stream);

	if (r == CONTROL_PENDING)
		r = loop_change(a->loop, &a->source, EPOLLIN | EPOLLOUT);
	return r < 0 ? trace(r) : 0;
}

static void say(struct ask *a, enum control_type type)
{
	if (!a->ended && control_queue(&a->stream, type, NULL, 0) >= 0)
		(void)send_now(a); /* a daemon that is gone is told by the loop */
}

void ask_stop(struct ask *a)
{
	say(a, CONTROL_STOP);
}

void ask_renew(struct ask *a)
{
	say(a, CONTROL_RENEW);
}

bool ask_denied(const struct ask *a)
{
	return a->denied;
}

int ask_new(const struct ask_options *options, struct loop *loop, struct ask **ret_ask, char *error,
	    size_t error_size)
{
	struct ask *a = calloc(1, sizeof(*a));
	int fd = -1, r;

	if (!a)
		return fail(-ENOMEM);
	a->options = *options;
	a->loop = loop;
	a->source.fd = a->stream.fd = -1;
	r = connect_to(options->socket, &fd);
	if (r >= 0) {
		control_stream_init(&a->stream, fd, CONTROL_REPLY_MAX);
		r = loop_add(loop, &a->source, fd, EPOLLIN, ready);
	}
	if (r >= 0)
		r = control_request_queue(&a->stream, options->request);
	if (r >= 0)
		r = send_now(a);
	if (r < 0) {
		(void)snprintf(error, error_size,
			       "no daemon answers at %s: %s (to start one: sudo systemctl start "
			       "perfwind, or sudo perfwind daemon --user perfwind)",
			       options->socket, strerror(-r));
		(void)ask_free(a);
		return trace(r);
	}
	*ret_ask = a;
	return 0;
}

struct ask *ask_free(struct ask *a)
{
	if (!a)
		return NULL;
	loop_remove(a->loop, &a->source);
	control_stream_deinit(&a->stream);
	if (a->summary)
		pb__control_summary__free_unpacked(a->summary, NULL);
	free(a);
	return NULL;
}

int ask_error(const struct ask *a, const char **ret_why)
{
	if (ret_why)
		*ret_why = a->why;
	return a->error;
}

const Pb__ControlSummary *ask_summary(const struct ask *a)
{
	return a->summary;
}

const char *ask_event(const struct ask *a)
{
	return a->event;
}
