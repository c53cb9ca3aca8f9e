/* control-fixture.h - a control socket and a client of it, in one process and on one loop.  A client
 * may be another user: the kernel reports the peer's user of connect(2). */
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/listen-fds.h"
#include "daemon/control/control.h"
#include "daemon/control/control-protocol.h"
#include "tests/unit/session/session-fixture.h"

struct control_fixture {
	struct loop loop;
	struct session_shared *shared;
	struct control *control;
	struct control_stream client;
	int packets;	   /* the daemon's descriptor; -1: none, or closed */
	struct buffer got; /* packets */
	struct settings settings;
	char path[64];
	pid_t child; /* computes */
};

static inline void control_fixture_init(struct control_fixture *f)
{
	struct control_options o = {.fd = -1};
	char error[256];
	static int n;

	*f = (struct control_fixture){.settings = settings_default, .client.fd = -1, .packets = -1};
	(void)snprintf(f->settings.all_groups, sizeof(f->settings.all_groups), "61100");
	f->settings.user_memory = 32 << 20;
	f->settings.confined_requesters = true; /* the tests may be run in a sandbox */
	f->settings.user_recordings = 2;
	f->settings.user_rate = 2000;
	(void)snprintf(f->path, sizeof(f->path), "/tmp/test-control-%d-%d.sock", getpid(), n++);
	assert_int_equal(loop_init(&f->loop), 0);
	assert_int_equal(session_shared_new(&f->shared), 0);
	assert_int_equal(probe_features(&o.features, error, sizeof(error)), 0);
	assert_int_equal(listen_at(f->path, 0666, &o.fd), 0);
	o.settings = f->settings;
	o.shared = f->shared;
	assert_int_equal(control_new(&o, &f->loop, &f->control), 0);
	f->child = fixture_work();
}

static inline void control_fixture_deinit(struct control_fixture *f)
{
	control_stream_deinit(&f->client);
	f->packets = fd_close(f->packets);
	buffer_deinit(&f->got);
	f->control = control_free(f->control);
	f->shared = session_shared_free(f->shared);
	fixture_end_child(&f->child);
	loop_deinit(&f->loop);
	(void)unlink(f->path);
}

/* Of this thread alone: a session's other threads have no capability to follow by, and the libc's seteuid() is of all. */
static inline void control_fixture_become(uid_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

/* @uid: only root can be another user. */
static inline void control_fixture_connect(struct control_fixture *f, uid_t uid)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	assert_true(fd >= 0);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", f->path);
	control_fixture_become(uid);
	r = connect(fd, (struct sockaddr *)&at, sizeof(at));
	control_fixture_become(getuid());
	assert_int_equal(r, 0);
	control_stream_deinit(&f->client);
	control_stream_init(&f->client, fd, CONTROL_REPLY_MAX);
	f->packets = fd_close(f->packets);
	f->got.len = 0;
}

/* Reads what is there of the packets. */
static inline void control_fixture_read(struct control_fixture *f)
{
	ssize_t n = 1;

	while (f->packets >= 0 && n > 0) {
		uint8_t *to = buffer_reserve(&f->got, 65536);

		assert_non_null(to);
		n = recv(f->packets, to, 65536, MSG_DONTWAIT);
		f->got.len += n > 0 ? (size_t)n : 0;
	}
	if (n == 0)
		f->packets = fd_close(f->packets);
}

/* The child, by cpu-clock. */
static inline Pb__ControlRequest control_fixture_request(struct control_fixture *f)
{
	static char event[] = "cpu-clock";
	static uint32_t pid;
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT;

	pid = (uint32_t)f->child;
	q.has_version = q.has_frequency = q.has_clock = q.has_code = true;
	q.code = FRAMES_ALL;
	q.version = CONTROL_VERSION;
	q.pids = &pid;
	q.n_pids = 1;
	q.event = event;
	q.frequency = 999;
	q.clock = CLOCK_MONOTONIC;
	return q;
}

static inline void control_fixture_ask(struct control_fixture *f, const Pb__ControlRequest *q)
{
	assert_int_equal(control_request_queue(&f->client, q), 0);
	assert_true(control_send(&f->client) >= 0);
}

/* The next message but progress.  0: closed.  The loop runs meanwhile, and packets are read. */
static inline uint32_t control_fixture_hear(struct control_fixture *f, const char **ret_text,
					    size_t *ret_len)
{
	const uint8_t *data;
	uint32_t type;

	for (int i = 0; i < 10000; i++) {
		int r = control_next(&f->client, &type, &data, ret_len);

		control_fixture_read(f);
		if (r == 0 && type != CONTROL_PROGRESS) {
			*ret_text = (const char *)data;
			return type;
		}
		if (r == 0)
			continue;
		assert_int_equal(r, CONTROL_NONE);
		r = control_receive_with(&f->client, &f->packets);
		if (r == CONTROL_CLOSED || r == -ECONNRESET)
			return 0;
		assert_true(r == 0 || r == CONTROL_NONE);
		if (r == CONTROL_NONE)
			assert_int_equal(loop_run_once(&f->loop, 20), 0);
	}
	fail_msg("nothing comes");
	return 0;
}

/* The next one is of @type, and has @text in it. */
static inline void control_fixture_expect(struct control_fixture *f, uint32_t type,
					  const char *text)
{
	const char *got = "";
	char copy[1024];
	size_t len = 0;

	assert_int_equal(control_fixture_hear(f, &got, &len), type);
	(void)snprintf(copy, sizeof(copy), "%.*s", (int)len, got);
	if (text && !strstr(copy, text))
		fail_msg("'%s' is not in '%s'", text, copy);
}

/* Accepted, after its notes. */
static inline void control_fixture_begin(struct control_fixture *f, const Pb__ControlRequest *q)
{
	const char *text = "";
	uint32_t type;
	size_t len = 0;

	control_fixture_ask(f, q);
	while ((type = control_fixture_hear(f, &text, &len)) == CONTROL_NOTE)
		;
	if (type == CONTROL_DENIED) {
		print_message("%.*s\n", (int)len, text);
		skip();
	}
	assert_int_equal(type, CONTROL_ACCEPTED);
	assert_int_equal(len, strlen("cpu-clock"));
	assert_memory_equal(text, "cpu-clock", len);
}

static inline void control_fixture_denied(struct control_fixture *f, uid_t uid,
					  const Pb__ControlRequest *q, const char *why)
{
	control_fixture_connect(f, uid);
	control_fixture_ask(f, q);
	control_fixture_expect(f, CONTROL_DENIED, why);
	control_fixture_expect(f, 0, NULL);
}

static inline void need_root(void)
{
	if (geteuid()) {
		print_message("needs root\n");
		skip();
	}
}
