/* test-job.c - the command that is profiled: held back, let go, ended by us or by itself, and what its
 * end makes of our exit status. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/job.h"
#include "base/log.h"
#include "tests/unit/cmocka.h"

static char sh[] = "sh", dash_c[] = "-c";
static struct loop loop;
static struct job job;
static int n_over;

static void over(void *arg)
{
	assert_ptr_equal(arg, &n_over);
	n_over++;
}

static int set_up(void **state)
{
	(void)state;
	n_over = 0;
	return loop_init(&loop);
}

static int tear_down(void **state)
{
	(void)state;
	job_deinit(&job);
	loop_deinit(&loop);
	return 0;
}

static void start(char *script)
{
	static char *argv[4];

	argv[0] = sh;
	argv[1] = dash_c;
	argv[2] = script;
	job_init(&job, argv);
	assert_int_equal(job_check(&job), 0);
	assert_int_equal(job_watch(&job, &loop, over, &n_over), 0);
	assert_int_equal(job_hold(&job), 0);
	assert_int_equal(job_go(&job), 0);
}

static void until_over(void)
{
	while (!n_over)
		assert_int_equal(loop_run_once(&loop, -1), 0);
}

static void test_own_status(void **state)
{
	static char script[] = "exit 7";

	(void)state;
	start(script);
	until_over();
	job_await(&job, NULL);
	assert_int_equal(job_exit_status(&job, false), 7);
	assert_false(job.interrupted);
}

/* Ctrl-C goes to the command too, which may end by it or not: a status of its own is reported. */
static void test_interrupted(void **state)
{
	static char script[] = "trap 'exit 5' INT; kill -INT $PPID; kill -INT $$; sleep 100";

	(void)state;
	start(script);
	until_over();
	assert_true(job.interrupted);
	assert_false(job.ended_by_us);
	job_await(&job, NULL);
	assert_int_equal(job_exit_status(&job, false), 5);
}

/* ... and so is its end by that signal. */
static void test_interrupted_too(void **state)
{
	static char script[] = "kill -INT $PPID; kill -INT $$; sleep 100";

	(void)state;
	start(script);
	until_over();
	job_await(&job, NULL);
	assert_true(job.interrupted && !job.ended_by_us);
	assert_int_equal(job_exit_status(&job, false), 128 + SIGINT);
}

static void test_terminated(void **state)
{
	static char script[] = "kill -TERM $PPID; exec sleep 100";

	(void)state;
	start(script);
	until_over();
	assert_true(job.interrupted && job.ended_by_us);
	job_await(&job, NULL);
	assert_int_equal(WTERMSIG(job.status), SIGTERM);
	assert_int_equal(job_exit_status(&job, false), 0);
}

/* The recording has failed: the command runs to its end, and its exit status is ours if it is not 0. */
static void test_failed(void **state)
{
	static char bad[] = "sleep 0.3; exit 7", good[] = "sleep 0.3";

	(void)state;
	start(bad);
	job_await(&job, "a reason");
	assert_true(WIFEXITED(job.status));
	assert_int_equal(job_exit_status(&job, true), 7);
	job_deinit(&job);
	start(good);
	job_await(&job, "a reason");
	assert_true(WIFEXITED(job.status));
	assert_int_equal(job_exit_status(&job, true), 1);
}

/* A SIGTERM that comes while the command is waited for is passed on. */
static void test_terminated_after_failure(void **state)
{
	static char script[] = "kill -TERM $PPID; exec sleep 100";

	(void)state;
	start(script);
	job_await(&job, "a reason");
	assert_int_equal(WTERMSIG(job.status), SIGTERM);
	assert_int_equal(job_exit_status(&job, true), 1);
}

/* Without a loop the command is waited for too. */
static void test_loop_is_broken(void **state)
{
	static char script[] = "sleep 0.3; exit 4";
	int fd = loop.epoll_fd;

	(void)state;
	start(script);
	loop.epoll_fd = -1;
	job_await(&job, "a reason");
	loop.epoll_fd = fd;
	assert_true(WIFEXITED(job.status));
	assert_int_equal(job_exit_status(&job, true), 4);
}

static void test_never_let_go(void **state)
{
	static char *argv[] = {sh, NULL};

	(void)state;
	job_init(&job, argv);
	assert_int_equal(job_watch(&job, &loop, over, &n_over), 0);
	assert_int_equal(job_hold(&job), 0);
	job_await(&job, "a reason"); /* does not wait */
	assert_int_equal(job.status, -1);
	assert_int_equal(job_exit_status(&job, false), 0);
}

static void test_cannot_run(void **state)
{
	static char absent[] = "/nowhere/at-all", file[] = "/etc/passwd";
	char *argv[] = {absent, NULL};

	(void)state;
	job_init(&job, argv);
	assert_int_equal(job_check(&job), 127);
	argv[0] = file;
	assert_int_equal(job_check(&job), 126);
	/* None at all. */
	job_init(&job, NULL);
	assert_int_equal(job_check(&job), 0);
	assert_int_equal(job_hold(&job), 0);
	assert_int_equal(job_go(&job), 0);
	job_await(&job, "a reason");
	assert_int_equal(job_exit_status(&job, false), 0);
}

static void note_leave(void *arg)
{
	(void)!write(*(int *)arg, "left", 4);
}

/* The exit status of a process that gets SIGTERM, then @second from itself at once or an hour later; *ret_left:
 * leave() was called. */
static int signalled_twice(int second, bool later, bool *ret_left)
{
	char text[8];
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		job_init(&job, NULL);
		job.leave = note_leave;
		job.leave_arg = &ends[1];
		if (job_watch(&job, &loop, over, &n_over) < 0 || kill(getpid(), SIGTERM) < 0 ||
		    loop_run_once(&loop, -1) < 0 || n_over != 1)
			_exit(1);
		job.first.at = later ? 0 : job.first.at + 3600 * NSEC_PER_SEC;
		_exit(kill(getpid(), second) < 0 || loop_run_once(&loop, -1) < 0 ? 2 : 3);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(close(ends[1]), 0);
	*ret_left = read(ends[0], text, sizeof(text)) == 4;
	assert_int_equal(close(ends[0]), 0);
	return WEXITSTATUS(status);
}

/* timeout(1) signals its child, then its process group: one request. */
static void test_second_signal(void **state)
{
	bool left;

	(void)state;
	assert_int_equal(signalled_twice(SIGTERM, false, &left), 3);
	assert_false(left);
	assert_int_equal(signalled_twice(SIGTERM, true, &left), 128 + SIGTERM);
	assert_true(left);
	assert_int_equal(signalled_twice(SIGINT, false, &left), 128 + SIGINT);
	assert_true(left);
}

int main(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_own_status),	    EACH(test_interrupted),
		EACH(test_interrupted_too), EACH(test_terminated),
		EACH(test_failed),	    EACH(test_terminated_after_failure),
		EACH(test_loop_is_broken),  EACH(test_never_let_go),
		EACH(test_cannot_run),	    EACH(test_second_signal),
#undef EACH
	};

	/* A shell that starts with it ignored, as in the background, cannot trap it. */
	(void)sigaction(SIGINT, &usual, NULL);
	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
