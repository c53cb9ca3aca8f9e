/* daemon-fixture.h - a control socket with the test as its daemon: its messages are written by hand, in a
 * process of its own. */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/listen-fds.h"
#include "daemon/control/control-protocol.h"
#include "tests/unit/cmocka.h"

struct fake_daemon {
	char path[64];
	pid_t pid;
};

/* In the fake: what it was asked for. */
static Pb__ControlRequest *fake_request;

/* In the fake: where the packets go, and how many bytes have. */
static int fake_output = -1;
static uint64_t fake_streamed;

/* In the fake: the next message's type; 0 at the end. */
static inline uint32_t fake_hear(struct control_stream *s)
{
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r;

	while ((r = control_next(s, &type, &data, &len)) == CONTROL_NONE) {
		struct pollfd p = {.fd = s->fd, .events = POLLIN};

		if (poll(&p, 1, -1) != 1 || control_receive(s) != 0)
			return 0;
	}
	if (r == 0 && type == CONTROL_REQUEST)
		fake_request = control_request_unpack(data, len);
	return r == 0 ? type : 0;
}

/* ACCEPTED brings the client's end of the packets. */
static inline void fake_send(struct control_stream *s, enum control_type type, const char *text)
{
	int pair[2];

	if (type == CONTROL_ACCEPTED) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
		    control_carry(s, pair[1]) < 0)
			_exit(1);
		fake_output = pair[0];
	}
	if (control_queue(s, type, text, strlen(text)) < 0 || control_send(s) != 0)
		_exit(1);
}

static inline void fake_send_summary(struct control_stream *s, enum control_type type,
				     uint64_t emitted)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;

	m.has_emitted = true;
	m.emitted = emitted;
	m.has_stream_bytes = true;
	m.stream_bytes = fake_streamed;
	if (control_summary_queue(s, type, &m) < 0 || control_send(s) != 0)
		_exit(1);
}

static inline void fake_stream(const void *data, size_t len)
{
	if (send(fake_output, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		_exit(1);
	fake_streamed += len;
}

/* As a packet with the bytes @text, less than 128. */
static inline void fake_stream_text(const char *text)
{
	const uint8_t head[2] = {0x0a, (uint8_t)strlen(text)};

	fake_stream(head, sizeof(head));
	fake_stream(text, strlen(text));
}

static inline void fake_send_bytes(struct control_stream *s, enum control_type type,
				   const void *data, size_t len)
{
	if (control_queue(s, type, data, len) < 0 || control_send(s) != 0)
		_exit(1);
}

/* Denies, and reports what it was asked for: what is not set stands as "-". */
static inline void fake_deny_with_request(struct control_stream *s)
{
	const Pb__ControlRequest *q = fake_request;
	struct buffer text = {0};

	if (!q)
		_exit(1);
	buffer_printf(&text, "v%u machine %d command %d children %d pids", q->version, q->machine,
		      q->command, q->children);
	for (size_t i = 0; i < q->n_pids; i++)
		buffer_printf(&text, " %u", q->pids[i]);
	buffer_printf(&text, "; event %s filter %s hz %lu period %lu stack %u",
		      q->event ? q->event : "-", q->filter ? q->filter : "-", q->frequency,
		      q->period, q->stack_bytes);
	buffer_printf(&text, "; code %u idle %d clock %u cpus %s engine %u", q->code, q->idle,
		      q->clock, q->cpus ? q->cpus : "-", q->engine);
	buffer_printf(&text, "; note %s needed %d", q->note ? q->note : "-", q->kernel_needed);
	if (q->max_cpu_ppm)
		buffer_printf(&text, "; max-cpu %u", q->max_cpu_ppm);
	fake_send_bytes(s, CONTROL_DENIED, text.data, text.len);
	buffer_deinit(&text);
}

/* One connection: @play gets it behind its request. */
static inline void fake_daemon_start(struct fake_daemon *d, void (*play)(struct control_stream *))
{
	static int n;
	int fd;

	(void)snprintf(d->path, sizeof(d->path), "/tmp/test-ask-%d-%d.sock", getpid(), n++);
	assert_int_equal(listen_at(d->path, 0666, &fd), 0);
	d->pid = fork();
	if (!d->pid) {
		struct control_stream s;
		int peer;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) { /* a client that only looks is gone at once */
			while ((peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
				(void)usleep(1000);
			control_stream_init(&s, peer, CONTROL_REQUEST_MAX);
			if (fake_hear(&s) == CONTROL_REQUEST)
				break;
			control_stream_deinit(&s);
		}
		play(&s);
		_exit(0);
	}
	close(fd);
}

static inline void fake_daemon_end(struct fake_daemon *d)
{
	if (d->pid > 0) {
		kill(d->pid, SIGKILL);
		assert_int_equal(waitpid(d->pid, NULL, 0), d->pid);
	}
	(void)unlink(d->path);
	d->pid = 0;
}
