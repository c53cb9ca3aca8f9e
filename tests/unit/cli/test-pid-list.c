/* test-pid-list.c - lists of process ids. */
#include <errno.h>
#include <string.h>

#include "cli/pid-list.h"
#include "base/log.h"
#include "tests/unit/capture.h"

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
	static const char *const bad[] = {"0", "-1", "12x", "2147483648", "99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct capture c;
		char *printed;
		uint32_t pids[3];
		size_t n = 0;
		int r;

		log_level = LOG_LEVEL_NORMAL;
		capture_begin(&c, STDERR_FILENO);
		r = pid_list_add(bad[i], pids, &n, 3);
		printed = capture_end(&c);
		log_level = LOG_LEVEL_QUIET;
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(printed, "hint: pgrep NAME prints ids"));
		free(printed);
	}
}

/* The output of pgrep and pidof. */
static void test_blanks_and_newlines(void **state)
{
	uint32_t pids[4] = {0};
	size_t n = 0;

	(void)state;
	assert_int_equal(pid_list_add("12\n34\n", pids, &n, 4), 0);
	assert_int_equal(pid_list_add(" 56, 78 ", pids, &n, 4), 0);
	assert_int_equal(n, 4);
	assert_int_equal(pids[1], 34);
	assert_int_equal(pids[3], 78);
}

static void test_empty(void **state)
{
	static const char *const empty[] = {"", "\n", " , "};
	uint32_t pids[1];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		struct capture c;
		char *printed;
		int r;

		log_level = LOG_LEVEL_NORMAL;
		capture_begin(&c, STDERR_FILENO);
		r = pid_list_add(empty[i], pids, &n, 1);
		printed = capture_end(&c);
		log_level = LOG_LEVEL_QUIET;
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(printed, "-p: no process matches"));
		free(printed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_not_pids),
		cmocka_unit_test(test_blanks_and_newlines),
		cmocka_unit_test(test_empty),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
