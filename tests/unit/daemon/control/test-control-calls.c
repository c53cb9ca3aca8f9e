/* test-control-calls.c - each allocation and system call with which the control server, its flight recorder, a message or a recording
 * on request is made fails once: it is not there, and its socket is closed, or it is there; no descriptor is left.  A client gets an
 * answer, or the end of its connection. */
#include "tests/unit/daemon/fail-in-loop.h"

#include "tests/unit/daemon/control/control-fixture.h"

#include "base/fd-message.h"
#include "daemon/control/control-summary.h"
#include "daemon/control/standing.h"
#include "session/session-private.h"

static struct control_fixture f;

/* Most of these calls are session_new()'s, which test-session-calls.c sweeps one by one. */
static bool is_passed_over(void)
{
	bool passed = calls_fail_at > 20 && calls_fail_at < 100 && calls_fail_at % 8;

	if (passed)
		calls_made = calls_fail_at;
	return passed;
}

static struct control_options server_options(void)
{
	struct control_options o = {.fd = -1, .shared = f.shared, .settings = f.settings};
	char error[256];

	/* groups by number: glibc's getgrnam() crashes without memory */
	assert_int_equal(probe_features(&o.features, error, sizeof(error)), 0);
	return o;
}

/* ---- the server ---- */

static int make_server(void *arg)
{
	struct control_options o = server_options();

	suspend();
	(void)unlink(f.path);
	assert_int_equal(listen_at(f.path, 0666, &o.fd), 0);
	resume();
	return control_new(&o, &f.loop, arg);
}
static void end_server(void *arg)
{
	(void)control_free(*(struct control **)arg);
}

static int make_standing(void *arg)
{
	const struct control_options o = server_options();
	struct settings settings = f.settings;

	if (is_passed_over())
		return -EAGAIN;
	settings.recorder_size = 1 << 20;
	(void)snprintf(settings.recorder_collect, sizeof(settings.recorder_collect),
		       "tasks system");
	*(struct standing **)arg = standing_start(&settings, &o.features, f.shared, &f.loop);
	return *(struct standing **)arg ? 0 : -ENOMEM;
}
static void end_standing(void *arg)
{
	(void)standing_free(*(struct standing **)arg);
}

static void test_server(void **state)
{
	struct control *control;
	struct standing *standing;
	const struct calls_made server = {"server", make_server, end_server, &control};
	const struct calls_made recorder = {"recorder", make_standing, end_standing, &standing};

	(void)state;
	control_fixture_init(&f);
	fixture_end_child(&f.child);
	calls_sweep(&server);
	if (make_standing(&standing) >= 0) { /* events of CPUs are permitted */
		end_standing(&standing);
		(void)session_kernel_names_read(&(struct session){.options.shared = f.shared},
						true); /* by a thread */
		calls_sweep(&recorder);
	}
	control_fixture_deinit(&f);
}

/* ---- messages ---- */

static int make_request(void *arg)
{
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT, *got = NULL;
	struct control_stream *ends = arg;
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r;

	q.event = (char *)"cpu-clock";
	r = control_request_queue(&ends[0], &q);
	if (r >= 0)
		r = control_send(&ends[0]);
	if (r >= 0)
		r = control_receive(&ends[1]);
	if (r == 0)
		r = control_next(&ends[1], &type, &data, &len);
	if (r == 0) {
		got = control_request_unpack(data, len);
		r = got ? 0 : -ENOMEM;
	}
	if (got) {
		assert_string_equal(got->event, "cpu-clock");
		pb__control_request__free_unpacked(got, NULL);
	}
	return r;
}

static int make_summary(void *arg)
{
	struct session_summary summary = {.duration_s = 7, .n_unsymbolized = 2}, back;
	struct control_stream *ends = arg;
	Pb__ControlSummary *got = NULL;
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r;

	r = control_summary_send(&ends[0], CONTROL_DONE, &summary, 1, 2);
	if (r >= 0)
		r = control_send(&ends[0]);
	if (r >= 0)
		r = control_receive(&ends[1]);
	if (r == 0)
		r = control_next(&ends[1], &type, &data, &len);
	if (r == 0) {
		got = control_summary_unpack(data, len);
		r = got ? 0 : -ENOMEM;
	}
	if (got) {
		control_summary_read(got, &back);
		assert_true(back.duration_s == 7 && back.n_unsymbolized == 2);
		pb__control_summary__free_unpacked(got, NULL);
	}
	return r;
}

struct messages {
	int (*make)(void *arg);
};

/* Over a connection of its own. */
static int make_message(void *arg)
{
	const struct messages *m = arg;
	struct control_stream ends[2];
	int pair[2], r;

	suspend();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	resume();
	for (int i = 0; i < 2; i++)
		control_stream_init(&ends[i], pair[i], CONTROL_REPLY_MAX);
	r = m->make(ends);
	for (int i = 0; i < 2; i++)
		control_stream_deinit(&ends[i]);
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

static void test_messages(void **state)
{
	struct messages request = {make_request}, summary = {make_summary};

	(void)state;
	calls_sweep(&(struct calls_made){"request", make_message, end_nothing, &request});
	calls_sweep(&(struct calls_made){"summary", make_message, end_nothing, &summary});
}

/* ---- recordings ---- */

static size_t files_without; /* without a client */

/* Asks for a recording of this process, and leaves; the daemon has then nothing of it. */
static int ask(void *arg)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	uint32_t pid = (uint32_t)getpid(), type;
	const char *text = "";
	size_t len = 0;

	if (is_passed_over())
		return -EAGAIN;
	suspend();
	q.pids = &pid;
	q.code = FRAMES_USER; /* no thread reads names of the kernel meanwhile */
	q.cpus = (char *)"0";
	q.note = (char *)"a note";
	control_fixture_connect(&f, geteuid());
	if (control_request_queue(&f.client, &q) < 0 || control_send(&f.client) < 0)
		type = 0;
	else
		while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
			;
	if (type && type != CONTROL_ACCEPTED && (type != CONTROL_DENIED || !len))
		fail_msg("call %lu: message %u, '%.*s'", suspended, type, (int)len, text);
	if (type == CONTROL_DENIED && arg)
		print_message("%.*s\n", (int)len, text);
	control_stream_deinit(&f.client);
	f.packets = fd_close(f.packets);
	buffer_deinit(&f.got);
	for (int i = 0; i < 100 && (!i || open_files() != files_without); i++)
		assert_int_equal(run_once(&f.loop, 10), 0);
	resume();
	return type == CONTROL_ACCEPTED ? 0 : -EPERM;
}

static void test_recordings(void **state)
{
	const struct calls_made of = {"recording", ask, end_nothing, NULL};

	(void)state;
	need_root();   /* others have to wait for their turn */
	suspended = 0; /* of the sweep before */
	control_fixture_init(&f);
	fixture_end_child(&f.child);
	control_fixture_connect(
		&f, geteuid()); /* with a descriptor: another process closes it, and stays */
	assert_int_equal(fd_message_send(f.client.fd, "x", 1, &f.client.fd, 1, 0), 1);
	control_fixture_expect(&f, CONTROL_DENIED, NULL);
	control_fixture_expect(&f, 0, NULL);
	control_stream_deinit(&f.client);
	files_without = open_files();
	if (ask(&f) < 0) {
		control_fixture_deinit(&f);
		skip();
	}
	calls_sweep(&of);
	control_fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_server),
					   cmocka_unit_test(test_messages),
					   cmocka_unit_test(test_recordings)};

	return cmocka_run_group_tests_name("control-calls", tests, NULL, NULL);
}
