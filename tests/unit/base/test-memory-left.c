/* test-memory-left.c - limits of memory cgroups, of both versions, in a folder in place of /. */
#include "base/memory-left.h"
#include "tests/unit/fake-root.h"

#define MIB 1048576ull

static int set_up(void **state)
{
	(void)state;
	(void)strcpy(root, "/tmp/perfwind-root-XXXXXX");
	fake_root_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return fake_root_remove();
}

static void test_none(void **state)
{
	(void)state;
	assert_true(memory_left(root) == UINT64_MAX);
	put("/proc/self/cgroup", "0::/a\n");
	assert_true(memory_left(root) == UINT64_MAX);
	put("/sys/fs/cgroup/a/memory.max", "max\n");
	put("/sys/fs/cgroup/a/memory.current", "5\n");
	assert_true(memory_left(root) == UINT64_MAX);
	put("/proc/self/cgroup", "nonsense\n::\n0::/../../a\n7:memory");
	assert_true(memory_left(root) == UINT64_MAX);
}

static void test_version_2(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
	put("/sys/fs/cgroup/a/b/memory.max", "104857600\n");
	put("/sys/fs/cgroup/a/b/memory.current", "41943040\n");
	assert_int_equal(memory_left(root), 60 * MIB);
	put("/sys/fs/cgroup/a/b/memory.stat",
	    "anon 3\ninactive_file 10485760\nactive_file 1048576\n");
	assert_int_equal(memory_left(root), 71 * MIB);
	/* The folder above has less. */
	put("/sys/fs/cgroup/a/memory.max", "52428800\n");
	put("/sys/fs/cgroup/a/memory.current", "41943040\n");
	assert_int_equal(memory_left(root), 10 * MIB);
	put("/sys/fs/cgroup/a/memory.current", "52428801\n");
	assert_int_equal(memory_left(root), 0);
}

/* A container sees its own cgroup as the top of the mount. */
static void test_version_1(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "5:cpu,memory:/not/here\n4:memoryless:/a\n0::/\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "94371840\n");
	put("/sys/fs/cgroup/memory/memory.stat",
	    "total_inactive_file 5242880\ntotal_active_file 99999999999\n");
	assert_int_equal(memory_left(root), 100 * MIB);
	put("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 5242880\n");
	assert_int_equal(memory_left(root), 15 * MIB);
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_true(memory_left(root) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_version_2, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_version_1, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("memory-left", tests, NULL, NULL);
}
