/* test-debug-package.c - the package of a file, by lists of dpkg that are made here. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/debug-package.h"
#include "tests/unit/cmocka.h"

static char root[] = "/tmp/debug-package.XXXXXX", info[64];

static void put_list(const char *name, const char *text)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", info, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void test_names(void **state)
{
	static const char *const paths[] = {
		"/usr/lib/x86_64-linux-gnu/libssl.so.3", /* the list has /usr */
		"/usr/lib/x86_64-linux-gnu/libc.so.6",	 /* ... has not */
		"/lib/x86_64-linux-gnu/libssl.so.3",	 /* the path has not */
		"/usr/bin/tool",
		"/usr/bin/too", /* the beginning of a line */
		"bin/tool",
		"/opt/own",
		"",
	};
	static const char *const expected[] = {"libssl3-dbgsym",
					       "libc6-dbg",
					       "libssl3-dbgsym",
					       "tool.list-dbgsym",
					       "",
					       "",
					       "",
					       ""};
	char names[DEBUG_PACKAGES_MAX][DEBUG_PACKAGE_NAME];

	(void)state;
	put_list("libssl3:amd64.list", "/.\n/usr\n/usr/lib/x86_64-linux-gnu/libssl.so.3\n");
	put_list("libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n/lib");
	put_list("tool.list.list", "/usr/bin/tool\n/usr/share/usr/bin/too/x\n");
	put_list("tool.conffiles", "/opt/own\n");
	debug_packages(root, paths, 8, names);
	for (size_t i = 0; i < 8; i++)
		assert_string_equal(names[i], expected[i]);
	debug_packages("/nonexistent", paths, 2, names);
	assert_string_equal(names[0], "");
}

/* One package has the debug information of all packages of CPython. */
static void test_python(void **state)
{
	static const char *const paths[] = {"/usr/bin/python3.11", "/usr/lib/libpython3.13.so.1.0",
					    "/usr/bin/2to3"};
	char names[DEBUG_PACKAGES_MAX][DEBUG_PACKAGE_NAME];

	(void)state;
	put_list("python3.11-minimal.list", "/usr/bin/python3.11\n");
	put_list("libpython3.13:amd64.list", "/usr/lib/libpython3.13.so.1.0\n");
	put_list("python3.x-tools.list", "/usr/bin/2to3\n");
	debug_packages(root, paths, 3, names);
	assert_string_equal(names[0], "python3.11-dbg");
	assert_string_equal(names[1], "python3.13-dbg");
	assert_string_equal(names[2], "python3.x-tools-dbgsym");
}

/* So has OpenJDK. */
static void test_openjdk(void **state)
{
	static const char *const paths[] = {"/usr/lib/jvm/lib/server/libjvm.so", "/usr/bin/open"};
	char names[DEBUG_PACKAGES_MAX][DEBUG_PACKAGE_NAME];

	(void)state;
	put_list("openjdk-17-jre-headless:amd64.list", "/usr/lib/jvm/lib/server/libjvm.so\n");
	put_list("openjdk-tools.list", "/usr/bin/open\n");
	debug_packages(root, paths, 2, names);
	assert_string_equal(names[0], "openjdk-17-dbg");
	assert_string_equal(names[1], "openjdk-tools-dbgsym");
}

static void test_archive(void **state)
{
	static const char *const steps[] = {"/var/lib/apt", "/var/lib/apt/lists",
					    "/var/lib/apt/lists/h_debian_dists_x_main",
					    "/var/lib/apt/lists/h_debian-debug_dists_x-debug_main"};
	char path[256], text[128];

	(void)state;
	debug_package_command(root, "x-dbg", text, sizeof(text));
	assert_string_equal(text, "apt install x-dbg");
	for (size_t i = 0; i < 4; i++) {
		debug_package_command(root, "x-dbgsym", text, sizeof(text));
		assert_string_equal(
			text,
			"add the archive debian-debug to apt's sources, then apt install x-dbgsym");
		(void)snprintf(path, sizeof(path), "%s%s", root, steps[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	debug_package_command(root, "x-dbgsym", text, sizeof(text));
	assert_string_equal(text, "apt install x-dbgsym");
	for (size_t i = 4; i-- > 0;) {
		(void)snprintf(path, sizeof(path), "%s%s", root, steps[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

static int setup(void **state)
{
	char command[128];

	(void)state;
	if (!mkdtemp(root))
		return -1;
	(void)snprintf(info, sizeof(info), "%s/var/lib/dpkg/info", root);
	for (size_t i = strlen(root) + 1; i <= strlen(info); i++) {
		if (info[i] && info[i] != '/')
			continue;
		(void)snprintf(command, sizeof(command), "%.*s", (int)i, info);
		if (mkdir(command, 0755) < 0)
			return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names), cmocka_unit_test(test_python),
		cmocka_unit_test(test_openjdk), cmocka_unit_test(test_archive)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
