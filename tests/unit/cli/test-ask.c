/* test-ask.c - the client's side of the control socket, against a daemon that sends what the test has
 * written: each message, in order; denied, failed, gone, and nonsense. */
#include <errno.h>

#include "cli/ask.h"
#include "base/log.h"
#include "tests/unit/cli/daemon-fixture.h"

static struct fake_daemon fake;
static struct loop loop;
static struct sink *sink;
static struct ask *ask;
static char called[256]; /* what was called, in order */
static bool ended, renew_first;

static void add(const char *word)
{
	(void)snprintf(called + strlen(called), sizeof(called) - strlen(called), "%s ", word);
}

static void on_accepted(void *arg)
{
	(void)arg;
	add("accepted");
	if (renew_first)
		ask_renew(ask);
}

static void on_progress(void *arg, const Pb__ControlSummary *m)
{
	(void)arg;
	(void)m;
	add("progress");
}

static void on_renewed(void *arg, const Pb__ControlSummary *m)
{
	char word[32];
	size_t held;

	(void)arg;
	(void)snprintf(word, sizeof(word), "renewed-%lu", m->emitted);
	add(word);
	if (renew_first) {
		(void)sink_memory_data(sink, &held);
		(void)snprintf(word, sizeof(word), "with-%zu", held);
		add(word);
	}
	ask_stop(ask);
}

static void on_ended(void *arg)
{
	(void)arg;
	add("ended");
	ended = true;
}

static void run(void (*play)(struct control_stream *))
{
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT;
	struct ask_options o = {.request = &q,
				.accepted = on_accepted,
				.ended = on_ended,
				.progress = on_progress,
				.renewed = on_renewed};
	char error[256];

	q.has_version = true;
	q.version = CONTROL_VERSION;
	fake_daemon_start(&fake, play);
	o.socket = fake.path;
	o.sink = sink;
	assert_int_equal(ask_new(&o, &loop, &ask, error, sizeof(error)), 0);
	while (!ended)
		assert_int_equal(loop_run_once(&loop, -1), 0);
}

static int set_up(void **state)
{
	(void)state;
	*called = 0;
	ended = false;
	return loop_init(&loop) < 0 ? -1 : sink_memory_new(&sink);
}

static int tear_down(void **state)
{
	(void)state;
	ask = ask_free(ask);
	sink = sink_free(sink);
	loop_deinit(&loop);
	fake_daemon_end(&fake);
	return 0;
}

static void expect_sink(const char *text)
{
	size_t len;
	const void *data = sink_memory_data(sink, &len);

	assert_int_equal(len, strlen(text));
	assert_memory_equal(data, text, len);
}

static void play_whole(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	fake_send(s, CONTROL_NOTE, "a line");
	fake_stream_text("one");
	fake_send_summary(s, CONTROL_PROGRESS, 1);
	fake_send(s, (enum control_type)999, "of a later version");
	fake_stream_text("two");
	fake_send_summary(s, CONTROL_RENEWED, 7);
	if (fake_hear(s) != CONTROL_STOP)
		_exit(1);
	fake_send_summary(s, CONTROL_DONE, 9);
}

static void test_whole(void **state)
{
	const char *why;

	(void)state;
	run(play_whole);
	assert_string_equal(called, "accepted progress renewed-7 ended ");
	expect_sink("\n\3one\n\3two");
	assert_string_equal(ask_event(ask), "cpu-clock");
	assert_int_equal(ask_error(ask, &why), 0);
	assert_false(ask_denied(ask));
	assert_non_null(ask_summary(ask));
	assert_int_equal(ask_summary(ask)->emitted, 9);
}

/* The words are there before their packets, and packets come in pieces. */
static void play_late(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	fake_streamed = 5;
	fake_send_summary(s, CONTROL_RENEWED, 7);
	fake_send_summary(s, CONTROL_PROGRESS, 1);
	(void)usleep(20000);
	fake_stream("\n", 1);
	(void)usleep(20000);
	fake_stream("\3o", 2);
	(void)usleep(20000);
	fake_stream("ne", 2);
	if (fake_hear(s) != CONTROL_STOP)
		_exit(1);
	fake_streamed = 5 + 6;
	fake_send(s, CONTROL_FAILED, "an end");
	fake_send_summary(s, CONTROL_DONE, 9);
	(void)usleep(20000);
	fake_stream_text("last");
}

static void test_late(void **state)
{
	(void)state;
	run(play_late);
	assert_string_equal(called, "accepted progress renewed-7 ended ");
	expect_sink("\n\3one\n\4last");
	assert_int_equal(ask_summary(ask)->emitted, 9);
	assert_int_equal(ask_error(ask, NULL), -EIO);
}

/* Packets behind RENEWED stay out of the sink until it arrives, however early they are there. */
static void play_behind(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	if (fake_hear(s) != CONTROL_RENEW)
		_exit(1);
	fake_stream_text("before");
	fake_stream_text("behind");
	(void)usleep(50000);
	fake_streamed = 8;
	fake_send_summary(s, CONTROL_RENEWED, 7);
	fake_streamed = 16;
	fake_send_summary(s, CONTROL_DONE, 9);
}

static void test_behind(void **state)
{
	(void)state;
	renew_first = true;
	run(play_behind);
	renew_first = false;
	assert_string_equal(called, "accepted renewed-7 with-8 ended ");
	expect_sink("\n\6before\n\6behind");
}

/* Packets end before all that were announced have arrived. */
static void play_cut(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	fake_stream_text("kept");
	fake_stream("\n\4lo", 4);
	fake_streamed = 12;
	fake_send_summary(s, CONTROL_DONE, 9);
	(void)close(fake_output);
	(void)fake_hear(s);
}

static void test_cut(void **state)
{
	const char *why;

	(void)state;
	run(play_cut);
	assert_int_equal(ask_error(ask, &why), -EPIPE);
	assert_non_null(strstr(why, "the daemon has exited"));
	expect_sink("\n\4kept");
}

static void play_no_packets(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "");
	fake_stream("HTTP/1.0", 8);
	(void)fake_hear(s);
}

static void test_no_packets(void **state)
{
	const char *why;

	(void)state;
	run(play_no_packets);
	assert_int_equal(ask_error(ask, &why), -EBADMSG);
	assert_non_null(strstr(why, "invalid packet"));
}

static void play_closes(struct control_stream *s)
{
	(void)s;
}

static void test_closes(void **state)
{
	const char *why;

	(void)state;
	run(play_closes);
	assert_int_equal(ask_error(ask, &why), -EPIPE);
	assert_non_null(strstr(why, "without an answer"));
}

/* Accepted without a descriptor for the packets. */
static void play_no_output(struct control_stream *s)
{
	fake_send_bytes(s, CONTROL_ACCEPTED, "", 0);
	(void)fake_hear(s);
}

static void test_no_output(void **state)
{
	(void)state;
	run(play_no_output);
	assert_int_equal(ask_error(ask, NULL), -EBADMSG);
	assert_string_equal(called, "ended ");
}

static void play_denied(struct control_stream *s)
{
	fake_send(s, CONTROL_DENIED, "not for you");
}

static void test_denied(void **state)
{
	const char *why;

	(void)state;
	run(play_denied);
	assert_string_equal(called, "ended ");
	assert_true(ask_denied(ask));
	assert_int_equal(ask_error(ask, &why), -EPERM);
	assert_string_equal(why, "not for you");
	assert_null(ask_summary(ask));
}

static void play_failed(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "");
	fake_stream_text("kept");
	fake_send(s, CONTROL_FAILED, "the ring is damaged");
	fake_send_summary(s, CONTROL_DONE, 3);
}

static void test_failed(void **state)
{
	const char *why;

	(void)state;
	run(play_failed);
	assert_int_equal(ask_error(ask, &why), -EIO);
	assert_string_equal(why, "the ring is damaged");
	assert_false(ask_denied(ask));
	assert_non_null(ask_summary(ask));
	expect_sink("\n\4kept");
}

static void play_gone(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "");
	fake_stream_text("kept");
}

static void test_gone(void **state)
{
	const char *why;

	(void)state;
	run(play_gone);
	assert_int_equal(ask_error(ask, &why), -EPIPE);
	assert_non_null(strstr(why, "the daemon has exited"));
	expect_sink("\n\4kept");
}

static void play_nonsense(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "");
	fake_send(s, CONTROL_DONE, "\377\377\377");
	(void)fake_hear(s);
}

static void test_nonsense(void **state)
{
	const char *why;

	(void)state;
	run(play_nonsense);
	assert_int_equal(ask_error(ask, &why), -EBADMSG);
	assert_string_equal(called, "accepted ended ");
}

static int refuse(struct sink *s, const void *data, size_t len)
{
	(void)s;
	(void)data;
	(void)len;
	return -ENOSPC;
}

static void play_until_stop(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "");
	fake_stream_text("lost");
	if (fake_hear(s) != CONTROL_STOP)
		_exit(1);
	fake_stream_text("lost too");
	fake_send_summary(s, CONTROL_DONE, 3);
}

/* A disk that is full is the end, and the reason. */
static void test_not_written(void **state)
{
	const char *why;

	(void)state;
	sink->write = refuse;
	run(play_until_stop);
	assert_int_equal(ask_error(ask, &why), -ENOSPC);
	assert_non_null(strstr(why, "writing the trace"));
	assert_non_null(ask_summary(ask));
}

static void test_no_daemon(void **state)
{
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT;
	struct ask_options o = {.request = &q, .socket = "/nowhere/control.sock", .sink = sink};
	char error[256];

	(void)state;
	assert_false(ask_possible("/nowhere/control.sock"));
	assert_int_equal(ask_new(&o, &loop, &ask, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "no daemon answers at /nowhere/control.sock"));
	assert_null(ask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_whole),	EACH(test_denied),     EACH(test_failed),
		EACH(test_gone),	EACH(test_no_daemon),  EACH(test_nonsense),
		EACH(test_not_written), EACH(test_late),       EACH(test_behind),
		EACH(test_cut),		EACH(test_no_packets), EACH(test_closes),
		EACH(test_no_output),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
