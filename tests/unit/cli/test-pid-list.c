/* test-pid-list.c - lists of process ids. */
#include <errno.h>
#include <string.h>

#include "cli/pid-list.h"
#include "base/log.h"
#include "tests/unit/cmocka.h"

static void test_pids(void **state)
{
	uint32_t pids[3] = {0};
	size_t n = 0;

	(void)state;
	assert_int_equal(pid_list_add("12,2147483647", pids, &n, 3), 0);
	assert_int_equal(pid_list_add("7", pids, &n, 3), 0);
	assert_int_equal(n, 3);
	assert_int_equal(pids[0], 12);
	assert_int_equal(pids[1], 2147483647);
	assert_int_equal(pids[2], 7);
	assert_int_equal(pid_list_add("8", pids, &n, 3), -EINVAL); /* no room */
}

static void test_not_pids(void **state)
{
	static const char *const bad[] = {"0",	"-1",	      "12x", "1,,2",
					  ",1", "2147483648", "12 ", "99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint32_t pids[3];
		size_t n = 0;

		assert_int_equal(pid_list_add(bad[i], pids, &n, 3), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_not_pids),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
