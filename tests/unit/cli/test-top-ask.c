/* test-top-ask.c - `perfwind top` by the daemon: what it asks for, and a table for each interval. */
#include <errno.h>

#include "cli/top.h"
#include "base/log.h"
#include "tests/unit/capture.h"
#include "tests/unit/cli/daemon-fixture.h"
#include "tests/unit/profile/build.h"

static struct fake_daemon fake;
static struct job job;
static struct top_args args;
static struct top_view view;
static struct session *own;
static struct top_keys keys;

static int set_up(void **state)
{
	(void)state;
	args = (struct top_args){.frequency = 99, .interval = 0.01, .limit = UINT32_MAX};
	job_init(&job, NULL);
	assert_int_equal(top_view_init(&view, &args), 0);
	own = NULL;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	top_view_deinit(&view);
	job_deinit(&job);
	fake_daemon_end(&fake);
	return 0;
}

/* Its status, and what it wrote. */
static int ask(void (*play)(struct control_stream *), const char *lacks, bool kernel,
	       char **ret_out, char **ret_err)
{
	struct capture out, err;
	int r;

	fake_daemon_start(&fake, play);
	args.socket = fake.path;
	capture_begin(&out, STDOUT_FILENO);
	capture_begin(&err, STDERR_FILENO);
	r = top_ask(&view, &keys, &job, lacks, kernel, &own);
	*ret_err = capture_end(&err);
	*ret_out = capture_end(&out);
	return r;
}

static void test_request(void **state)
{
	char *out, *err;

	(void)state;
	args.pids[0] = 7;
	args.n_pids = 1;
	args.children = args.user_only = true;
	args.event = "page-faults";
	assert_int_equal(ask(fake_deny_with_request, "no right", false, &out, &err), 1);
	assert_string_equal(err, "perfwind: no right; the daemon's answer: "
				 "v4 machine 0 command 0 children 1 pids 7"
				 "; event page-faults filter - hz 99 period 0 stack 0"
				 "; code 1 idle 0 clock 1 cpus - engine 0"
				 "; note no right needed 0\n");
	assert_string_equal(out, "");
	free(out);
	free(err);
}

/* Asked for the kernel's half only, a refusal is not a failure: your own privileges suffice. */
static void test_kernel_refused(void **state)
{
	char *out, *err;

	(void)state;
	args.all = true;
	assert_int_equal(ask(fake_deny_with_request, "the kernel's", true, &out, &err), -EPERM);
	assert_string_equal(err, "");
	free(out);
	free(err);
}

/* @n samples of a function called @name. */
static void send_packets(const char *name, uint64_t n)
{
	const uint64_t frames[] = {1}, path[] = {1};
	struct buffer trace = {0}, interned = {0};

	put_defaults(&trace, 1, 6, 1, 0, 99);
	put_interned(&interned, 5, 1, name);
	put_interned(&interned, 17, 1, "app");
	put_mapping(&interned, 1, 0, path, 1);
	put_frame(&interned, 1, 1, 1, 0x10);
	put_callstack(&interned, 1, frames, 1);
	for (uint64_t i = 1; i <= n; i++)
		put_sample(&trace,
			   &(struct test_sample){.sequence = 1,
						 .flags = 2,
						 .time = i * 1000000,
						 .pid = 7,
						 .tid = 7,
						 .stack = 1,
						 .count = i * 1000000},
			   i == 1 ? &interned : NULL);
	fake_stream(trace.data, trace.len);
	buffer_deinit(&trace);
}

static void send_state(struct control_stream *s, enum control_type type, double seconds,
		       uint64_t lost)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;

	m.has_duration_s = m.has_lost_samples = m.has_stream_bytes = true;
	m.stream_bytes = fake_streamed;
	m.duration_s = seconds;
	m.lost_samples = lost;
	if (control_summary_queue(s, type, &m) < 0 || control_send(s) != 0)
		_exit(1);
}

static void play_intervals(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	if (fake_hear(s) != CONTROL_RENEW)
		_exit(1);
	send_packets("first_function", 3);
	send_state(s, CONTROL_RENEWED, 2, 5);
	if (fake_hear(s) != CONTROL_RENEW)
		_exit(1);
	send_packets("second_function", 2);
	send_state(s, CONTROL_DONE, 3.5, 5);
}

/* Each table is of its interval alone: functions, seconds and losses. */
static void test_intervals(void **state)
{
	char *out, *err, *second;

	(void)state;
	args.all = true;
	assert_int_equal(ask(play_intervals, "", false, &out, &err), 0);
	assert_int_equal(
		strncmp(out, "3 samples in 2.0 s (cpu-clock), 5 lost in the kernel's rings\n", 61),
		0);
	second = strstr(out, "\n\n2 samples in 1.5 s (cpu-clock)\n");
	assert_non_null(second);
	assert_true(strstr(out, "first_function") < second);
	assert_null(strstr(second, "first_function"));
	assert_non_null(strstr(second, "second_function"));
	free(out);
	free(err);
}

static void play_once(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	if (fake_hear(s) != CONTROL_STOP)
		_exit(1);
	send_packets("only_function", 1);
	send_state(s, CONTROL_DONE, 1, 0);
}

/* --once: no renewal is asked for, it stops when the interval is over. */
static void test_once(void **state)
{
	char *out, *err;

	(void)state;
	args.all = args.once = true;
	assert_int_equal(ask(play_once, "", false, &out, &err), 0);
	assert_int_equal(strncmp(out, "1 sample in 1.0 s (cpu-clock)\n", 30), 0);
	assert_non_null(strstr(out, "only_function"));
	free(out);
	free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_request),
		EACH(test_kernel_refused),
		EACH(test_intervals),
		EACH(test_once),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
