/* test-caps.c - capabilities as numbers: what is given up stays so.  In a child. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "tests/unit/cmocka.h"

static int look(void)
{
	const uint64_t two = CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_PERFMON); /* a bit of each word */
	struct caps caps;

	if (caps_get(&caps) < 0 || (caps.permitted & two) != two)
		return 77; /* no root, or one of a container */
	caps_limit_helpers(~CAPS_BIT(CAP_SYSLOG));
	if (caps_keep_as_helper(CAPS_ALL) < 0 || caps_get(&caps) < 0 ||
	    (caps.permitted & two) != two || (caps.permitted & CAPS_BIT(CAP_SYSLOG)))
		return 6;
	if (caps_keep(two) < 0 || caps_get(&caps) < 0 || caps.permitted != two ||
	    caps.effective != two)
		return 1;
	/* laid aside: it may be lent, and is not in effect */
	if (caps_lay_aside(CAPS_BIT(CAP_KILL)) < 0 || caps_get(&caps) < 0 ||
	    caps.permitted != two || caps.effective != CAPS_BIT(CAP_KILL))
		return 7;
	if (caps_keep_as_helper(CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_KILL)) < 0 ||
	    caps_get(&caps) < 0 || caps.effective != two)
		return 8;
	caps.effective = 0;
	if (caps_set(&caps) < 0 || caps_get(&caps) < 0 || caps.effective != 0 ||
	    caps.permitted != two)
		return 2;
	caps.effective = two;
	if (caps_set(&caps) < 0 || caps_get(&caps) < 0 || caps.effective != two)
		return 3;
	if (caps_keep(0) < 0 || caps_get(&caps) < 0 || caps.permitted || caps.effective ||
	    caps.inheritable)
		return 4;
	caps.effective = caps.permitted = two;
	return caps_set(&caps) == -EPERM ? 0 : 5;
}

static void test_caps(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(look());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("needs root: capabilities to drop\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_caps)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
