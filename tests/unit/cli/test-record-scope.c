/* test-record-scope.c - which processes -u and -G choose. */
#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/record-scope.h"
#include "proc/procfs.h"
#include "tests/unit/cmocka.h"

static void test_user(void **state)
{
	struct record_scope scope;
	char uid[16];

	(void)state;
	(void)snprintf(uid, sizeof(uid), "%u", getuid());
	assert_int_equal(record_scope_init(&scope, uid, NULL), 0);
	assert_true(record_scope_is_set(&scope));
	assert_true(record_scope_wants(&scope, (uint32_t)getpid(), NULL, 0));
	assert_false(
		record_scope_wants(&scope, INT32_MAX, NULL, 0)); /* the process does not exist */
	(void)snprintf(uid, sizeof(uid), "%u", getuid() + 1);
	assert_int_equal(record_scope_init(&scope, uid, NULL), 0);
	assert_false(record_scope_wants(&scope, (uint32_t)getpid(), NULL, 0));
	assert_int_equal(record_scope_init(&scope, "root", NULL), 0);
	assert_int_equal(scope.uid, 0);
	assert_int_equal(record_scope_init(&scope, "no such user", NULL), -EINVAL);
}

static void test_none(void **state)
{
	struct record_scope scope;

	(void)state;
	assert_int_equal(record_scope_init(&scope, NULL, NULL), 0);
	assert_false(record_scope_is_set(&scope));
	assert_int_equal(record_scope_init(&scope, NULL, "/"), 0);
	assert_true(record_scope_is_set(&scope));
}

/* The one of this process is there; in a container its folder may have another path. */
static void test_cgroup(void **state)
{
	struct record_scope scope;
	char *path;

	(void)state;
	assert_int_equal(record_scope_init(&scope, NULL, "no such cgroup"), -EINVAL);
	/* There is this folder, and it is no cgroup below the root. */
	assert_int_equal(record_scope_init(&scope, NULL, "../cgroup"), -EINVAL);
	if (procfs_cgroup("", (uint32_t)getpid(), &path) < 0)
		return; /* a kernel without cgroups */
	assert_int_equal(record_scope_init(&scope, NULL, path), 0);
	free(path);
}

static void test_below(void **state)
{
	(void)state;
	assert_true(procfs_cgroup_below("/docker/abc", "/docker/abc"));
	assert_true(procfs_cgroup_below("/docker/abc/inner", "docker/abc/"));
	assert_true(procfs_cgroup_below("/anything", "/"));
	assert_false(procfs_cgroup_below("/docker/abcd", "/docker/abc"));
	assert_false(procfs_cgroup_below("/", "/docker"));
	assert_false(procfs_cgroup_below("", "docker"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_user),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_below),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
