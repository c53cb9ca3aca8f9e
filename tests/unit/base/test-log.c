/* test-log.c - a line is one write, whole, of its level, and leaves errno alone. */
#include <errno.h>

#include "base/error.h"
#include "base/log.h"
#include "tests/unit/capture.h"

static char *printed;

static int tear_down(void **state)
{
	(void)state;
	free(printed);
	printed = NULL;
	log_level = LOG_LEVEL_NORMAL;
	return 0;
}

static void log_each(void)
{
	struct capture c;

	free(printed);
	capture_begin(&c, STDERR_FILENO);
	log_error("of level %d", LOG_LEVEL_QUIET);
	log_info("of level %d", LOG_LEVEL_NORMAL);
	log_verbose("of level %d", LOG_LEVEL_VERBOSE);
	log_debug("of level %d", LOG_LEVEL_DEBUG);
	printed = capture_end(&c);
}

static void test_levels(void **state)
{
	(void)state;
	log_each();
	assert_string_equal(printed, "perfwind: of level 0\nperfwind: of level 1\n");
	log_level = LOG_LEVEL_QUIET;
	log_each();
	assert_string_equal(printed, "perfwind: of level 0\n");
	log_level = LOG_LEVEL_DEBUG;
	log_each();
	assert_string_equal(printed, "perfwind: of level 0\nperfwind: of level 1\n"
				     "perfwind: of level 2\nperfwind: of level 3\n");
}

/* What an escape sequence begins with, DEL, and C1's CSI in UTF-8; not what is text. */
static void test_controls(void **state)
{
	struct capture c;

	(void)state;
	capture_begin(&c, STDERR_FILENO);
	log_error("a%sb\x7f\xc2\x9b"
		  "1m \xc3\xa9 \xc2\xb5",
		  "\033[31m");
	printed = capture_end(&c);
	assert_string_equal(printed, "perfwind: a?[31mb???1m \xc3\xa9 \xc2\xb5\n");
}

/* Longer than a line may be: cut, and a line still. */
static void test_long(void **state)
{
	char text[4096];
	struct capture c;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	capture_begin(&c, STDERR_FILENO);
	errno = EXDEV;
	log_error("%s", text);
	printed = capture_end(&c);
	assert_int_equal(strlen(printed), 1023);
	assert_memory_equal(printed, "perfwind: xxx", 13);
	assert_string_equal(printed + 1020, "xx\n");
}

static void test_errno(void **state)
{
	struct capture c;
	int after;

	(void)state;
	capture_begin(&c, STDERR_FILENO);
	errno = EXDEV;
	log_error("%s", "text");
	after = errno;
	printed = capture_end(&c);
	assert_int_equal(after, EXDEV);
}

/* With -vv a failure has its place; a success is none. */
static void test_note(void **state)
{
	struct capture c;
	int r, good;

	(void)state;
	log_level = LOG_LEVEL_DEBUG;
	capture_begin(&c, STDERR_FILENO);
	r = error_note(-ENOSPC, "fail", "a.c", 12);
	good = error_note(3, "trace", "a.c", 13);
	printed = capture_end(&c);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(good, 3);
	assert_string_equal(printed, "perfwind: a.c:12: fail: No space left on device\n");
}

/* Failures and lines of some folders only, by the beginning of their names; messages for the user from all. */
static void test_folders(void **state)
{
	static const char *const files[] = {"perf/a.c", "proc/b.c", "session/loader/c.c",
					    "session/d.c", "unwinder/e.c"};
	struct capture c;

	(void)state;
	log_level = LOG_LEVEL_DEBUG;
	log_folders = "perf,session/l,unwind";
	capture_begin(&c, STDERR_FILENO);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)error_note(-EIO, "failed", files[i], 1);
		log_print_from(files[i], LOG_LEVEL_VERBOSE, "of %s", files[i]);
	}
	log_verbose("of this file");
	log_info("for the user");
	log_folders = "tests/unit/base";
	log_verbose("of this file, which is named");
	printed = capture_end(&c);
	log_folders = NULL;
	assert_string_equal(printed, "perfwind: perf/a.c:1: failed: Input/output error\n"
				     "perfwind: of perf/a.c\n"
				     "perfwind: session/loader/c.c:1: failed: Input/output error\n"
				     "perfwind: of session/loader/c.c\n"
				     "perfwind: unwinder/e.c:1: failed: Input/output error\n"
				     "perfwind: of unwinder/e.c\n"
				     "perfwind: for the user\n"
				     "perfwind: of this file, which is named\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_controls, tear_down),
		cmocka_unit_test_teardown(test_levels, tear_down),
		cmocka_unit_test_teardown(test_long, tear_down),
		cmocka_unit_test_teardown(test_errno, tear_down),
		cmocka_unit_test_teardown(test_note, tear_down),
		cmocka_unit_test_teardown(test_folders, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
