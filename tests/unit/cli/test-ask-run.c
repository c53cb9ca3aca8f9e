/* test-ask-run.c - a recording by the daemon from the request to the exit status, against a daemon
 * that sends what the test has written. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/ask.h"
#include "trace/late-sink.h"
#include "base/log.h"
#include "tests/unit/cli/daemon-fixture.h"

static char sh[] = "sh", dash_c[] = "-c";
static struct fake_daemon fake;
static struct job job;
static struct ask_run run;
static Pb__ControlRequest request;
static int n_shown, show_result;

static int shown(void *arg, const Pb__ControlSummary *m)
{
	(void)arg;
	(void)m;
	n_shown++;
	return show_result;
}

static int open_run(void (*play)(struct control_stream *), char *script)
{
	static char *argv[4];

	argv[0] = sh;
	argv[1] = dash_c;
	argv[2] = script;
	request = (Pb__ControlRequest)PB__CONTROL_REQUEST__INIT;
	request.has_version = true;
	request.version = CONTROL_VERSION;
	fake_daemon_start(&fake, play);
	job_init(&job, script ? argv : NULL);
	assert_int_equal(job_hold(&job), 0);
	run.socket = fake.path;
	run.request = &request;
	run.job = &job;
	if (!run.sink)
		assert_int_equal(sink_memory_new(&run.sink), 0);
	return ask_run_open(&run);
}

static int set_up(void **state)
{
	(void)state;
	run = (struct ask_run){0};
	n_shown = show_result = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ask_run_deinit(&run);
	run.sink = sink_free(run.sink);
	job_deinit(&job);
	fake_daemon_end(&fake);
	return 0;
}

static void play_until_stop(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	if (fake_hear(s) != CONTROL_STOP)
		_exit(1);
	fake_send_summary(s, CONTROL_DONE, 1);
}

/* The command goes when the daemon is attached, and its end is the recording's. */
static void test_command(void **state)
{
	static char script[] = "exit 7";

	(void)state;
	assert_int_equal(open_run(play_until_stop, script), 0);
	assert_int_equal(ask_run(&run), 7);
	assert_non_null(ask_summary(run.ask));
}

static void test_duration(void **state)
{
	static char script[] = "exec sleep 100";

	(void)state;
	run.duration = 0.05;
	assert_int_equal(open_run(play_until_stop, script), 0);
	assert_int_equal(ask_run(&run), 0);
	assert_int_equal(WTERMSIG(job.status), SIGTERM);
}

static void play_denied(struct control_stream *s)
{
	fake_send(s, CONTROL_DENIED, "not for you");
}

/* A command that was held back is not run: your own privileges may suffice. */
static void test_denied(void **state)
{
	static char script[] = "exit 3";

	(void)state;
	assert_int_equal(open_run(play_denied, script), ASK_RUN_DENIED);
	assert_string_equal(run.why, "not for you");
	assert_int_equal(job.status, -1);
	assert_true(job.spawn.go_fd >= 0);
	assert_int_equal(ask_run_refused(&run, "lacks", true), -EPERM);
	assert_int_equal(ask_run_refused(&run, "lacks", false), 1);
}

static void play_gone(struct control_stream *s)
{
	(void)s;
}

static void test_gone(void **state)
{
	static char script[] = "exit 3";

	(void)state;
	assert_int_equal(open_run(play_gone, script), -EPIPE);
	assert_non_null(strstr(run.why, "without an answer"));
	assert_true(job.spawn.go_fd >= 0);
}

static void play_lost(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
}

/* Lost during the recording: an error.  The command runs to its end, and its own status wins. */
static void test_lost(void **state)
{
	static char script[] = "sleep 0.3";

	(void)state;
	assert_int_equal(open_run(play_lost, script), 0);
	assert_int_equal(ask_run(&run), 1);
	assert_true(WIFEXITED(job.status));
}

static void test_lost_own_status(void **state)
{
	static char script[] = "sleep 0.3; exit 7";

	(void)state;
	assert_int_equal(open_run(play_lost, script), 0);
	assert_int_equal(ask_run(&run), 7);
}

/* A trace that cannot be made is known before the command runs. */
static void test_cannot_be_made(void **state)
{
	static char script[] = "exit 7";

	(void)state;
	assert_int_equal(late_sink_new("/nowhere/at/all", true, &run.sink), 0);
	assert_int_equal(open_run(play_until_stop, script), 0);
	assert_int_equal(ask_run(&run), 1);
	assert_int_equal(job.status, -1);
	assert_true(job.spawn.go_fd >= 0);
}

static int too_large(struct sink *sink)
{
	(void)sink;
	return -EFBIG;
}

/* A trace that cannot be written to its end: the message names the task that failed. */
static void test_not_written(void **state)
{
	static char script[] = "exit 0";
	char text[256] = "";
	int fd = memfd_create("stderr", MFD_CLOEXEC), was = dup(STDERR_FILENO);

	(void)state;
	assert_int_equal(sink_memory_new(&run.sink), 0);
	run.sink->flush = too_large;
	assert_int_equal(open_run(play_until_stop, script), 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(ask_run(&run), 1);
	assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "writing the trace: File too large"));
	(void)close(fd);
	(void)close(was);
}

static void play_intervals(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	for (int i = 0; i < 3; i++) {
		if (fake_hear(s) != CONTROL_RENEW)
			_exit(1);
		fake_send_summary(s, CONTROL_RENEWED, 1);
	}
	fake_send_summary(s, CONTROL_DONE, 1);
}

static void test_intervals(void **state)
{
	(void)state;
	run.interval = 0.01;
	run.shown = shown;
	assert_int_equal(open_run(play_intervals, NULL), 0);
	assert_int_equal(ask_run(&run), 0);
	assert_int_equal(n_shown, 4); /* and the rest at the end */
}

static void play_renew_then_stop(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	if (fake_hear(s) != CONTROL_RENEW)
		_exit(1);
	fake_send_summary(s, CONTROL_RENEWED, 1);
	while (fake_hear(s) != CONTROL_STOP)
		;
	fake_send_summary(s, CONTROL_DONE, 1);
}

/* What cannot be shown ends the recording, and not the command. */
static void test_not_shown(void **state)
{
	static char script[] = "sleep 0.3";

	(void)state;
	run.interval = 0.01;
	run.shown = shown;
	show_result = -EPIPE;
	assert_int_equal(open_run(play_renew_then_stop, script), 0);
	assert_int_equal(ask_run(&run), 1);
	assert_true(WIFEXITED(job.status));
	assert_int_equal(n_shown, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_command),	EACH(test_duration),	   EACH(test_denied),
		EACH(test_gone),	EACH(test_lost),	   EACH(test_lost_own_status),
		EACH(test_intervals),	EACH(test_cannot_be_made), EACH(test_not_shown),
		EACH(test_not_written),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
