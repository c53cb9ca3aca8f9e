/* test-record-ask.c - the options of `perfwind record` as a request, and the file and the verdict of what
 * the daemon answers. */
#include <sys/stat.h>

#include "cli/record-ask.h"
#include "base/log.h"
#include "tests/unit/capture.h"
#include "tests/unit/cli/daemon-fixture.h"

static struct fake_daemon fake;
static struct job job;
static struct record_args args;
static struct record_ask ask;
static char folder[] = "/tmp/test-record-ask-XXXXXX", output[64];

static int set_up(void **state)
{
	(void)state;
	args = (struct record_args){.frequency = 999, .output = output, .plain = true};
	job_init(&job, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	record_ask_deinit(&ask);
	job_deinit(&job);
	fake_daemon_end(&fake);
	(void)unlink(output);
	return 0;
}

static int open_ask(void (*play)(struct control_stream *), const char *lacks, bool kernel)
{
	fake_daemon_start(&fake, play);
	args.socket = fake.path;
	return record_ask_open(&ask, &args, &job, lacks, kernel);
}

static void test_machine(void **state)
{
	struct stat st;

	(void)state;
	args.all = true;
	assert_int_equal(open_ask(fake_deny_with_request, "no right", false), ASK_RUN_DENIED);
	assert_string_equal(ask.run.why, "v4 machine 1 command 0 children 0 pids"
					 "; event - filter - hz 999 period 0 stack 0"
					 "; code 7 idle 0 clock 1 cpus - engine 0"
					 "; note no right needed 0");
	assert_int_equal(stat(output, &st), -1); /* nothing came: nothing was made */
}

static void test_all_options(void **state)
{
	(void)state;
	args.pids[0] = 7;
	args.pids[1] = 4711;
	args.n_pids = 2;
	args.children = true;
	args.event = "sched:sched_switch";
	args.filter = "prev_pid == 1";
	args.frequency = 0;
	args.period = 5;
	args.stack_bytes = 8192;
	args.user_only = args.idle = true;
	args.clock = 3; /* realtime */
	args.cpus = "0-3,8";
	args.unwinder = 2;
	args.max_cpu_ppm = 5000;
	assert_int_equal(open_ask(fake_deny_with_request, "", true), ASK_RUN_DENIED);
	assert_string_equal(
		ask.run.why,
		"v4 machine 0 command 0 children 1 pids 7 4711"
		"; event sched:sched_switch filter prev_pid == 1 hz 0 period 5 stack 8192"
		"; code 1 idle 1 clock 0 cpus 0-3,8 engine 2"
		"; note  needed 1; max-cpu 5000");
}

/* The command waits as a child of ours, and its pid is all that is asked for; -p has no part in it. */
static void test_command(void **state)
{
	static char sh[] = "true", *argv[] = {sh, NULL};
	char expected[256];

	(void)state;
	job_init(&job, argv);
	assert_int_equal(open_ask(fake_deny_with_request, "", false), ASK_RUN_DENIED);
	assert_true(job.spawn.pid > 0);
	assert_true(job.spawn.go_fd >= 0); /* held back still */
	(void)snprintf(expected, sizeof(expected),
		       "v4 machine 0 command 1 children 1 pids %d"
		       "; event - filter - hz 999 period 0 stack 0"
		       "; code 7 idle 0 clock 1 cpus - engine 0; note  needed 0",
		       (int)job.spawn.pid);
	assert_string_equal(ask.run.why, expected);
}

static void play_recording(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "page-faults");
	fake_stream_text("first ");
	fake_stream_text("\222\4\2\010\1"); /* a sample */
	fake_stream_text("\222\4\2\010\2");
	fake_send_summary(s, CONTROL_DONE, 3);
}

/* The packets of the file are those that came, between the two that mark its ends; the verdict is the
 * daemon's, with the file's size and samples. */
static void test_recording(void **state)
{
	static const char printed[] = "2 samples in 0.0 s (page-faults, 999 Hz); 1 more are not "
				      "in the file\n";
	struct capture out, err;
	static const char file[] = "\n\011\212\246\035\005\042\003\010\210\016"
				   "\n\6first \n\5\222\4\2\010\1\n\5\222\4\2\010\2"
				   "\n\012\212\246\035\006\052\004\010\003\020\002";
	char *json, *text, bytes[64] = "";
	int status, fd;

	(void)state;
	args.all = args.json = true;
	assert_int_equal(open_ask(play_recording, "", false), 0);
	capture_begin(&out, STDOUT_FILENO);
	capture_begin(&err, STDERR_FILENO);
	status = record_ask_run(&ask);
	text = capture_end(&err);
	json = capture_end(&out);
	assert_int_equal(status, 0);
	fd = open(output, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(file) - 1);
	close(fd);
	assert_memory_equal(bytes, file, sizeof(file) - 1);
	assert_int_equal(strncmp(text, printed, sizeof(printed) - 1), 0);
	assert_non_null(strstr(json, "\"bytes\":45,"));
	assert_non_null(strstr(json, "\"samples\":2,\"complete\":true,"));
	free(text);
	free(json);
}

static void play_failure(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	fake_send(s, CONTROL_FAILED, "it went wrong");
	fake_send_summary(s, CONTROL_DONE, 0);
}

static void test_failure(void **state)
{
	struct capture err;
	char *text;
	int status;

	(void)state;
	args.all = true;
	assert_int_equal(open_ask(play_failure, "", false), 0);
	capture_begin(&err, STDERR_FILENO);
	status = record_ask_run(&ask);
	text = capture_end(&err);
	assert_int_equal(status, 1);
	assert_non_null(strstr(text, "perfwind: it went wrong\n"));
	free(text);
}

static void play_death(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	fake_stream_text("first ");
}

/* The daemon ends while it records: what it had sent is there, without an end mark. */
static void test_death(void **state)
{
	static const char file[] = "\n\011\212\246\035\005\042\003\010\210\016\n\6first ";
	struct capture err;
	char *text, bytes[64] = "";
	int status, fd;

	(void)state;
	args.all = true;
	assert_int_equal(open_ask(play_death, "", false), 0);
	capture_begin(&err, STDERR_FILENO);
	status = record_ask_run(&ask);
	text = capture_end(&err);
	assert_int_equal(status, 1);
	assert_non_null(strstr(text, "the daemon has exited"));
	free(text);
	fd = open(output, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(file) - 1);
	close(fd);
	assert_memory_equal(bytes, file, sizeof(file) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_machine),   EACH(test_all_options), EACH(test_command),
		EACH(test_recording), EACH(test_failure),     EACH(test_death),
#undef EACH
	};
	int r;

	if (!mkdtemp(folder))
		return 1;
	(void)snprintf(output, sizeof(output), "%s/trace", folder);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(folder);
	return r;
}
