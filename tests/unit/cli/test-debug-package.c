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
static const char *const no_ids[] = {"", "", "", "", "", "", "", ""};

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void put_list(const char *name, const char *text)
{
	put(info, name, text);
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
	struct debug_package found[DEBUG_PACKAGES_MAX];

	(void)state;
	put_list("libssl3:amd64.list", "/.\n/usr\n/usr/lib/x86_64-linux-gnu/libssl.so.3\n");
	put_list("libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n/lib");
	put_list("tool.list.list", "/usr/bin/tool\n/usr/share/usr/bin/too/x\n");
	put_list("tool.conffiles", "/opt/own\n");
	debug_packages(root, paths, no_ids, 8, found);
	for (size_t i = 0; i < 8; i++)
		assert_string_equal(found[i].name, expected[i]);
	debug_packages("/nonexistent", paths, no_ids, 2, found);
	assert_string_equal(found[0].name, "");
}

/* One package has the debug information of all packages of CPython. */
static void test_python(void **state)
{
	static const char *const paths[] = {"/usr/bin/python3.11", "/usr/lib/libpython3.13.so.1.0",
					    "/usr/bin/2to3"};
	struct debug_package found[DEBUG_PACKAGES_MAX];

	(void)state;
	put_list("python3.11-minimal.list", "/usr/bin/python3.11\n");
	put_list("libpython3.13:amd64.list", "/usr/lib/libpython3.13.so.1.0\n");
	put_list("python3.x-tools.list", "/usr/bin/2to3\n");
	debug_packages(root, paths, no_ids, 3, found);
	assert_string_equal(found[0].name, "python3.11-dbg");
	assert_string_equal(found[1].name, "python3.13-dbg");
	assert_string_equal(found[2].name, "python3.x-tools-dbgsym");
}

/* So has OpenJDK. */
static void test_openjdk(void **state)
{
	static const char *const paths[] = {"/usr/lib/jvm/lib/server/libjvm.so", "/usr/bin/open"};
	struct debug_package found[DEBUG_PACKAGES_MAX];

	(void)state;
	put_list("openjdk-17-jre-headless:amd64.list", "/usr/lib/jvm/lib/server/libjvm.so\n");
	put_list("openjdk-tools.list", "/usr/bin/open\n");
	debug_packages(root, paths, no_ids, 2, found);
	assert_string_equal(found[0].name, "openjdk-17-dbg");
	assert_string_equal(found[1].name, "openjdk-tools-dbgsym");
}

static void test_archive(void **state)
{
	static const char *const steps[] = {"/var/lib/apt", "/var/lib/apt/lists",
					    "/var/lib/apt/lists/h_debian_dists_x_main",
					    "/var/lib/apt/lists/h_debian-debug_dists_x-debug_main"};
	const struct debug_package dbg = {"x-dbg", false}, dbgsym = {"x-dbgsym", false},
				   old = {"x-dbg", true};
	char path[256], text[128];

	(void)state;
	debug_package_command(root, &old, text, sizeof(text));
	assert_string_equal(text,
			    "apt install x-dbg, of another version: upgrade and record again");
	debug_package_command(root, &dbg, text, sizeof(text));
	assert_string_equal(text, "apt install x-dbg");
	for (size_t i = 0; i < 4; i++) {
		debug_package_command(root, &dbgsym, text, sizeof(text));
		assert_string_equal(
			text,
			"add the archive debian-debug to apt's sources, then apt install x-dbgsym");
		(void)snprintf(path, sizeof(path), "%s%s", root, steps[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	debug_package_command(root, &dbgsym, text, sizeof(text));
	assert_string_equal(text, "apt install x-dbgsym");
	for (size_t i = 4; i-- > 0;) {
		(void)snprintf(path, sizeof(path), "%s%s", root, steps[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

/* The lists of apt decide: by build id, by the version that is installed, by the archive. */
static void test_lists(void **state)
{
	static const char *const paths[] = {"/bin/a",	 "/bin/b", "/bin/c", "/bin/d",
					    "/bin/java", "/bin/e", "",	     "/bin/f"};
	static const char *const ids[] = {"a0a0a0a0", "b0b0b0b0", "c0c0c0c0", "d0d0d0d0",
					  "e0e0e0e0", "",	  "abcdef01", "f0f0f0f0"};
	static const char *const expected[] = {"a-dbgsym=1-1",	 "b-dbgsym", "",	  "d-dbg",
					       "openjdk-17-dbg", "",	     "other-dbg", "f-dbg"};
	static const char *const upgraded = "/bin/g", *const none = "";
	struct debug_package found[DEBUG_PACKAGES_MAX];
	char path[256];

	(void)state;
	put_list("g.list", "/bin/g\n");
	put_list("a:amd64.list", "/bin/a\n");
	put_list("b.list", "/bin/b\n");
	put_list("c.list", "/bin/c\n");
	put_list("d.list", "/bin/d\n");
	put_list("openjdk-17-jre.list", "/bin/java\n");
	put_list("e.list", "/bin/e\n");
	put_list("f.list", "/bin/f\n");
	(void)snprintf(path, sizeof(path), "%s/var/lib/dpkg", root);
	put(path, "status",
	    "Package: xa\nVersion: 9\n\nPackage: a\nStatus: x\nVersion: 1-1\n\nPackage: "
	    "b\nVersion: 2-1\n\n"
	    "Package: c\nVersion: 20-other\n\nPackage: openjdk-17-jre\nVersion: 17.0.1\n\nPackage: "
	    "e\n\n"
	    "Package: f\nVersion: 3.9.1\n\nPackage: g\nVersion: 5.2.15-2+b8\n");
	(void)snprintf(path, sizeof(path), "%s/var/lib/apt", root);
	assert_int_equal(mkdir(path, 0755), 0);
	strcat(path, "/lists");
	assert_int_equal(mkdir(path, 0755), 0);
	put(path, "h_debian_dists_x_main_binary-amd64_Packages",
	    "Package: a-dbgsym\nVersion: 1-1\nBuild-Ids: 00 a0a0a0a0 01\n\n"
	    "Package: a-dbgsym\nVersion: 1-2\nBuild-Ids: 02\n\n"
	    "Package: b\nVersion: 2-1\n\nPackage: c\nVersion: 18-1\n\n"
	    "Package: g\nVersion: 5.2.15-2+b13\n\n"
	    "Package: d-dbg\nVersion: 7\nBuild-Ids: d0d0d0d0\n\n"
	    "Package: f-dbg\nVersion: 3.9.1\n\nPackage: f\nVersion: 3.9.1\n\n"
	    "Package: openjdk-17-dbg\nVersion: 17.0.2\n\n"
	    "Package: other-dbg\nVersion: 1\nBuild-Ids: abcdef01\n");
	put(path, "h_debian_dists_x_InRelease", "Package: e\nVersion: \n");
	debug_packages(root, paths, ids, 8, found);
	for (size_t i = 0; i < 8; i++) {
		assert_string_equal(found[i].name, expected[i]);
		assert_int_equal(found[i].upgrade, i == 4);
	}
	/* An upgrade of the owner is there, of which the archive has a package. */
	debug_packages(root, &upgraded, &none, 1, found);
	assert_string_equal(found[0].name, "g-dbgsym");
	assert_true(found[0].upgrade);
	/* The archive of b-dbgsym is known, and has no package of this build. */
	put(path, "h_debian-debug_dists_x-debug_main_binary-amd64_Packages", "");
	debug_packages(root, paths, ids, 2, found);
	assert_string_equal(found[0].name, "a-dbgsym=1-1");
	assert_string_equal(found[1].name, "");
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
		cmocka_unit_test(test_openjdk), cmocka_unit_test(test_archive),
		cmocka_unit_test(test_lists)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
