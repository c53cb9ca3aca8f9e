/* child-has.h - memory that a forked child has or lacks.  Thread: the test's. */
#pragma once

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/unit/cmocka.h"

/* Can a child of ours read it?  The kernel looks, so that nothing is killed. */
static bool child_has(const void *at)
{
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(write(ends[1], at, 1) == 1 ? 1 : errno == EFAULT ? 2 : 3);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_true(WIFEXITED(status));
	assert_in_range(WEXITSTATUS(status), 1, 2);
	return WEXITSTATUS(status) == 1;
}
