/* test-trace-name.c - names of trace sessions: one holder each, nothing left behind, an end by name. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "cli/cmd-trace.h"
#include "base/util.h"

static void test_take(void **state)
{
	char name[TRACE_NAME_MAX + 2];
	int fd = -1, other = -1;

	(void)state;
	(void)snprintf(name, sizeof(name), "unit test %d", (int)getpid());
	assert_int_equal(trace_name_stop(name), -ENOENT);
	assert_int_equal(trace_name_start(name), -ENOENT);
	assert_int_equal(trace_name_take(name, &fd), 0);
	assert_int_equal(trace_name_take(name, &other), -EADDRINUSE);
	assert_int_equal(other, -1);
	assert_int_equal(fd_close(fd), -1);
	assert_int_equal(trace_name_take(name, &fd), 0); /* free again */
	assert_int_equal(fd_close(fd), -1);
	memset(name, 'n', sizeof(name) - 1);
	name[TRACE_NAME_MAX + 1] = 0;
	assert_int_equal(trace_name_take(name, &fd), -ENAMETOOLONG);
	assert_int_equal(trace_name_stop(name), -ENAMETOOLONG);
	name[TRACE_NAME_MAX] = 0;
	assert_int_equal(trace_name_take(name, &fd), 0);
	assert_int_equal(fd_close(fd), -1);
}

static void test_stop(void **state)
{
	int fd = -1, status, ready[2];
	char name[64], byte;
	pid_t child;

	(void)state;
	(void)snprintf(name, sizeof(name), "unit test %d", (int)getpid());
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (trace_name_take(name, &fd) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(trace_name_stop(name), 0);
	assert_int_equal(waitpid(child, &status, WNOHANG), child); /* gone when it returns */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(trace_name_stop(name), -ENOENT);
	(void)fd_close(ready[0]);
	(void)fd_close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests_name("trace-name", tests, NULL, NULL);
}
