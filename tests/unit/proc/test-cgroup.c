/* test-cgroup.c - texts of /proc/PID/cgroup as kernels write them, and damaged ones; our own. */
#include <errno.h>

#include "proc/procfs.h"
#include "tests/unit/proc/child-process.h"

static void assert_cgroup(const char *text, const char *expected)
{
	char *path = NULL;

	assert_int_equal(procfs_cgroup_parse(text, &path), expected ? 0 : -ENODATA);
	if (expected)
		assert_string_equal(path, expected);
	else
		assert_null(path);
	free(path);
}

static void version_2_has_one_line(void **state)
{
	(void)state;
	assert_cgroup("0::/\n", "/");
	assert_cgroup("0::/system.slice/docker-4f5e.scope\n", "/system.slice/docker-4f5e.scope");
	assert_cgroup("0::/a:b/c d\n", "/a:b/c d");   /* colons and blanks are a name's right */
	assert_cgroup("0::/../other\n", "/../other"); /* outside of our cgroup namespace */
	assert_cgroup("0::/cut", "/cut");
}

static void version_1_by_its_hierarchies(void **state)
{
	(void)state;
	assert_cgroup("5:memory:/docker/1\n2:perf_event:/docker/2\n1:name=systemd:/docker/3\n",
		      "/docker/2");
	assert_cgroup("5:memory:/docker/1\n1:name=systemd:/docker/3\n", "/docker/3");
	assert_cgroup("5:memory:/docker/1\n4:pids:/docker/4\n", "/docker/1");
	/* it has no line where it is at the root */
	assert_cgroup("9:cpu,perf_event,x:/\n5:memory:/docker/1\n1:name=systemd:/\n", "/docker/1");
	assert_cgroup("9:cpu,perf_event,x:/p\n1:name=systemd:/s\n", "/p");
	assert_cgroup("9:perf_events:/p\n1:name=systemd:/s\n", "/s"); /* another name */
	assert_cgroup("2:cpu:/\n1:name=systemd:/\n", "/");
}

static void both(void **state)
{
	(void)state;
	assert_cgroup("2:perf_event:/docker/2\n1:name=systemd:/s\n0::/unified\n", "/unified");
	assert_cgroup("2:perf_event:/docker/2\n1:name=systemd:/s\n0::/\n", "/docker/2");
	assert_cgroup("2:cpu:/\n0::/\n", "/");
}

static void what_is_no_line_is_passed_over(void **state)
{
	char text[5000];

	(void)state;
	assert_cgroup("", NULL);
	assert_cgroup("\n\n", NULL);
	assert_cgroup("0:/a\n:\n::\n0::a\nx", NULL);
	assert_cgroup("0::\n0::b\n7:pids:/good\n", "/good");
	/* a path longer than any */
	memset(text, 'x', sizeof(text));
	memcpy(text, "0::/", 4);
	memcpy(text + sizeof(text) - 10, "\n2:cpu:/c", 10);
	assert_cgroup(text, "/c");
	memcpy(text, "\n\n\n\n\n\n\n\n\n\n", 10);
	memset(text + 10, '\n', sizeof(text) - 11);
	memcpy(text + 100, "0::/", 4);
	memset(text + 104, 'y', 4094);
	text[104 + 4094] = 0;
	assert_int_equal(strlen(text + 103), 4095);
	assert_cgroup(text, text + 103);
}

static void of_this_process(void **state)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *path = NULL, text[4200];
	bool found = false;

	(void)state;
	if (!f)
		skip(); /* a kernel without cgroups */
	assert_int_equal(procfs_cgroup("", (uint32_t)getpid(), &path), 0);
	while (fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = 0;
		found |= strchr(text, '/') && !strcmp(strchr(text, '/'), path);
	}
	assert_true(found);
	free(path);
	(void)fclose(f);
	assert_int_equal(procfs_cgroup("", 0x3ffffff, &path), -ENOENT); /* over any pid_max */
}

static void dots(void **state)
{
	(void)state;
	assert_true(procfs_cgroup_has_dots(".."));
	assert_true(procfs_cgroup_has_dots("/../other"));
	assert_true(procfs_cgroup_has_dots("a/./b"));
	assert_true(procfs_cgroup_has_dots("a//.."));
	assert_false(procfs_cgroup_has_dots(""));
	assert_false(procfs_cgroup_has_dots("/"));
	assert_false(procfs_cgroup_has_dots("/a.b/..c/d../..."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_2_has_one_line),
		cmocka_unit_test(version_1_by_its_hierarchies),
		cmocka_unit_test(both),
		cmocka_unit_test(what_is_no_line_is_passed_over),
		cmocka_unit_test(of_this_process),
		cmocka_unit_test(dots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
