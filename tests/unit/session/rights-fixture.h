/* rights-fixture.h - what gives up rights for good is tried in a child. */
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define EXPECT(ok)                                 \
	do {                                       \
		if (!(ok))                         \
			return __LINE__ % 200 + 1; \
	} while (0)

static inline void in_child(int (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* else a line of this file, modulo 200, and 1 */
}

#define CHILD(name)                           \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		in_child(name);               \
	}
