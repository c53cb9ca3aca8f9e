/* test-top-keys.c - what is typed reaches the view, and a terminal that is not ours is left alone. */
#include <signal.h>

#include "cli/top.h"
#include "base/log.h"
#include "tests/unit/cli/own-terminal.h"

static struct top_args args;
static struct top_view view;
static struct top_keys keys;
static struct loop loop;
static int n_quit;

static void quit(void *arg)
{
	(void)arg;
	n_quit++;
}

static bool start(void)
{
	args = (struct top_args){.limit = UINT32_MAX};
	return loop_init(&loop) == 0 && top_view_init(&view, &args) == 0 &&
	       top_keys_watch(&keys, &view, &loop, quit, NULL) == 0;
}

/* Status 0 when all went well, else the step. */
static int play_keys(void)
{
	if (!start() || !view.keys)
		return 1;
	while (view.by != REPORT_MODULE) /* "sss", an arrow between them */
		if (loop_run_once(&loop, 20000) < 0)
			return 2;
	while (!view.paused)
		if (loop_run_once(&loop, 20000) < 0)
			return 3;
	while (!n_quit)
		if (loop_run_once(&loop, 20000) < 0)
			return 4;
	top_keys_unwatch(&keys);
	return n_quit == 1 && view.quit && !view.keys ? 0 : 5;
}

static void test_keys(void **state)
{
	(void)state;
	own_terminal_plays(play_keys, "ss\033[1;5As\033OBzpqp");
}

/* Signals come to the loop: each draws again, and keys are still there. */
static int play_signals(void)
{
	if (!start())
		return 1;
	if (raise(SIGWINCH) || raise(SIGCONT) || loop_run_once(&loop, 20000) < 0 || !view.keys)
		return 2;
	top_keys_unwatch(&keys);
	return raise(SIGCONT) || loop_run_once(&loop, 0) < 0 || view.keys ? 3 : 0;
}

static void test_signals(void **state)
{
	(void)state;
	own_terminal_plays(play_signals, NULL);
}

/* Of another session's terminal nothing is read and nothing changed. */
static int play_background(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (setpgid(0, 0) < 0)
			_exit(1);
		_exit(start() && !view.keys && keys.input.fd < 0 ? 0 : 2);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

static void test_background(void **state)
{
	(void)state;
	own_terminal_plays(play_background, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_background),
	};

	log_level = LOG_LEVEL_QUIET;
	(void)alarm(120); /* a key that never comes would be waited for */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
