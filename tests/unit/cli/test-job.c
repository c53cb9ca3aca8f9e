/* test-job.c - the command that is profiled: held back, let go, ended by us or by itself, and what its
 * end makes of our exit status. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/job.h"
#include "daemon/base/log.h"
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
	assert_int_equal(job_await(&job, false), 0);
	assert_int_equal(job_exit_status(&job), 7);
	assert_false(job.interrupted);
}

/* Ctrl-C goes to the command too, which may end by it or not: a status of its own is told. */
static void test_interrupted(void **state)
{
	static char script[] = "trap 'exit 5' INT; kill -INT $PPID; kill -INT $$; sleep 100";

	(void)state;
	start(script);
	until_over();
	assert_true(job.interrupted);
	assert_false(job.ended_by_us);
	assert_int_equal(job_await(&job, false), 0);
	assert_int_equal(job_exit_status(&job), 5);
}

static void test_terminated(void **state)
{
	static char script[] = "kill -TERM $PPID; exec sleep 100";

	(void)state;
	start(script);
	until_over();
	assert_true(job.interrupted && job.ended_by_us);
	assert_int_equal(job_await(&job, false), 0);
	assert_int_equal(WTERMSIG(job.status), SIGTERM);
	assert_int_equal(job_exit_status(&job), 0);
}

/* The recording has failed: the command does not go on unheard. */
static void test_failed(void **state)
{
	static char script[] = "exec sleep 100";

	(void)state;
	start(script);
	assert_int_equal(job_await(&job, true), 0);
	assert_int_equal(WTERMSIG(job.status), SIGTERM);
	assert_int_equal(job_exit_status(&job), 128 + SIGTERM);
}

static void test_never_let_go(void **state)
{
	static char *argv[] = {sh, NULL};

	(void)state;
	job_init(&job, argv);
	assert_int_equal(job_watch(&job, &loop, over, &n_over), 0);
	assert_int_equal(job_hold(&job), 0);
	assert_int_equal(job_await(&job, true), 0); /* does not wait */
	assert_int_equal(job.status, -1);
	assert_int_equal(job_exit_status(&job), 0);
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
	assert_int_equal(job_await(&job, true), 0);
	assert_int_equal(job_exit_status(&job), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_own_status), EACH(test_interrupted),	EACH(test_terminated),
		EACH(test_failed),     EACH(test_never_let_go), EACH(test_cannot_run),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
