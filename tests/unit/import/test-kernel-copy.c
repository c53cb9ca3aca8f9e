/* test-kernel-copy.c - import.c: where perf's copies of the kernel's symbols are. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "base/util.h"
#include "import/import-private.h"

static const struct file_places places;

static const uint8_t id[] = {0x0a, 0xff, 0x01};
static char folder[] = "/tmp/perfwind-copy-XXXXXX";
static const char *const parts[] = {"/.debug", "/[kernel.kallsyms]", "/0aff01"};

/* HOME/.debug/[kernel.kallsyms]/0aff01 */
static void path_of(char path[PATH_MAX], size_t n_parts, const char *last)
{
	int n = snprintf(path, PATH_MAX, "%s", folder);

	for (size_t i = 0; i < n_parts; i++)
		n += snprintf(path + n, PATH_MAX - (size_t)n, "%s", parts[i]);
	(void)snprintf(path + n, PATH_MAX - (size_t)n, "%s", last);
}

static int make_folders(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	for (size_t i = 1; i <= ARRAY_SIZE(parts); i++) {
		path_of(path, i, "");
		if (mkdir(path, 0700) < 0)
			return -1;
	}
	return 0;
}

static int remove_folders(void **state)
{
	char path[PATH_MAX];

	(void)state;
	path_of(path, 3, "/kallsyms");
	(void)unlink(path);
	for (size_t i = ARRAY_SIZE(parts) + 1; i-- > 0;) {
		path_of(path, i, "");
		(void)rmdir(path);
	}
	return 0;
}

static void test_found(void **state)
{
	char path[PATH_MAX], text[8] = "";
	int fd = -1;

	(void)state;
	assert_int_equal(setenv("HOME", folder, 1), 0);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), -ENOENT);
	path_of(path, 3, "/kallsyms");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "text", 4), 4);
	fd_close(fd);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), 0);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	assert_string_equal(text, "text");
	fd_close(fd);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id) - 1, &fd),
			 -ENOENT); /* another kernel */
	/* as perf gives it to its children */
	path_of(path, 1, "");
	assert_int_equal(setenv("PERF_BUILDID_DIR", path, 1), 0);
	assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), 0);
	fd_close(fd);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), -ENOENT);
}

static void test_refused(void **state)
{
	uint8_t long_id[21] = {1};
	char path[PATH_MAX];
	int fd = -1;

	(void)state;
	assert_int_equal(setenv("HOME", folder, 1), 0);
	path_of(path, 3, "/kallsyms");
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* no process writes into it */
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), -ENOENT);
	assert_int_equal(kernel_copy_open(&places, id, 0, &fd), -ENOENT);
	assert_int_equal(kernel_copy_open(&places, long_id, sizeof(long_id), &fd), -ENOENT);
	assert_int_equal(unsetenv("HOME"), 0);
	assert_int_equal(kernel_copy_open(&places, id, sizeof(id), &fd), -ENOENT);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
