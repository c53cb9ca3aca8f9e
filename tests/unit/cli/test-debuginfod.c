/* test-debuginfod.c - cli/debuginfod.h: the cache's folder, the files in it that are trusted to be files, the refusal. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/debuginfod.h"
#include "tests/unit/cmocka.h"

static void test_folder(void **state)
{
	char to[64], small[8];

	(void)state;
	setenv("DEBUGINFOD_CACHE_PATH", "/a", 1);
	setenv("XDG_CACHE_HOME", "/b", 1);
	setenv("HOME", "/c", 1);
	debuginfod_folder(to, sizeof(to));
	assert_string_equal(to, "/a");
	setenv("DEBUGINFOD_CACHE_PATH", "", 1);
	debuginfod_folder(to, sizeof(to));
	assert_string_equal(to, "/b/debuginfod_client");
	debuginfod_folder(small, sizeof(small));
	assert_string_equal(small, ""); /* no part of a path */
	unsetenv("XDG_CACHE_HOME");
	debuginfod_folder(to, sizeof(to));
	assert_string_equal(to, "/c/.cache/debuginfod_client");
	unsetenv("HOME");
	debuginfod_folder(to, sizeof(to));
	assert_string_equal(to, "");
}

static void test_open(void **state)
{
	static const char text[] = "debug";
	const struct uw_build_id id = {.len = 2, .bytes = {0x0a, 0xbc}}, none = {.len = 0};
	char folder[] = "/tmp/test-debuginfod-XXXXXX", path[64], other[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/0abc", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/0abc/debuginfo", folder);
	(void)snprintf(other, sizeof(other), "%s/other", folder);
	assert_int_equal(debuginfod_open(folder, &id), -ENOENT);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(debuginfod_open(folder, &id), -ENOENT); /* empty: the servers had none */
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	fd = debuginfod_open(folder, &id);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(debuginfod_open(folder, &none), -ENOENT);
	assert_int_equal(debuginfod_open("", &id), -ENOENT);
	/* A pipe is not waited for. */
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(debuginfod_open(folder, &id), -ENOENT);
	unlink(path);
	unlink(other);
	*strrchr(path, '/') = 0;
	rmdir(path);
	assert_int_equal(rmdir(folder), 0);
}

/* By the option; by PERFWIND_DEBUGINFOD only where a server is set. */
static void test_wanted(void **state)
{
	(void)state;
	unsetenv("DEBUGINFOD_URLS");
	unsetenv("PERFWIND_DEBUGINFOD");
	assert_non_null(debuginfod_refusal());
	assert_false(debuginfod_wanted(false));
	assert_true(debuginfod_wanted(true));
	setenv("PERFWIND_DEBUGINFOD", "yes", 1);
	assert_false(debuginfod_wanted(false));
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	assert_null(debuginfod_refusal());
	assert_true(debuginfod_wanted(false));
	setenv("PERFWIND_DEBUGINFOD", "no", 1);
	assert_false(debuginfod_wanted(false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_folder),
					   cmocka_unit_test(test_open),
					   cmocka_unit_test(test_wanted)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
