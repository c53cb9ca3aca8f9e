/* test-procmap-query.c - the ioctl against the text of the same moment; skipped where the kernel
 * has none. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "base/util.h"
#include "proc/procfs.h"

static void test_query(void **state)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	struct procfs_map line, map = {0};
	struct uw_build_id id, of_file;
	char path[4096];
	const char *at;
	size_t len, n = 0;
	int r;
	(void)state;

	assert_true(fd >= 0);
	r = procfs_query(fd, (uintptr_t)test_query, &map, &id, path, sizeof(path));
	if (r == -ENOTTY) {
		print_message("no PROCMAP_QUERY: Linux older than 6.11\n");
		skip();
	}
	assert_int_equal(r, 0);
	assert_true(map.exec && map.read && !map.write && !map.shared);
	assert_true(map.start <= (uintptr_t)test_query && (uintptr_t)test_query < map.end);
	assert_int_equal(map.path_len, strlen(path));
	assert_ptr_equal(map.path, path);

	/* the build id, where it has one, is the file's */
	if (id.len) {
		_cleanup_(fd_closep) int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		struct uw_source source = {.fd = self};

		assert_int_equal(uw_source_build_id(&source, &of_file), 0);
		assert_int_equal(id.len, of_file.len);
		assert_memory_equal(id.bytes, of_file.bytes, id.len);
	}

	/* every line of the text, but for what moves while we read */
	assert_int_equal(procfs_maps("", (uint32_t)getpid(), &text, &len), 0);
	at = text;
	while (procfs_maps_next(&at, text + len, &line) == 0) {
		if (!line.path_len || line.path[0] != '/')
			continue;
		assert_int_equal(procfs_query(fd, line.start, &map, &id, path, sizeof(path)), 0);
		assert_int_equal(map.start, line.start);
		assert_int_equal(map.end, line.end);
		assert_int_equal(map.offset, line.offset);
		assert_int_equal(map.inode, line.inode);
		assert_int_equal(map.major, line.major);
		assert_int_equal(map.minor, line.minor);
		assert_int_equal(map.exec, line.exec);
		assert_int_equal(map.write, line.write);
		assert_int_equal(map.path_len, line.path_len);
		assert_memory_equal(path, line.path, line.path_len);
		n++;
	}
	assert_true(n > 3);

	map.start = 4711;
	assert_int_equal(procfs_query(fd, 1, &map, &id, path, sizeof(path)), -ENOENT);
	assert_int_equal(procfs_query(fd, (uintptr_t)test_query, &map, &id, path, 2),
			 -ENAMETOOLONG);
	assert_int_equal(map.start, 4711);
	assert_int_equal(procfs_query(fd, (uintptr_t)test_query, &map, &id, NULL, 0),
			 0); /* without the path */
	assert_int_equal(map.path_len, 0);
}

static void test_no_ioctl(void **state)
{
	_cleanup_(fd_closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct procfs_map map;
	struct uw_build_id id;
	char path[64];
	(void)state;

	assert_int_equal(procfs_query(fd, 1, &map, &id, path, sizeof(path)), -ENOTTY);
	assert_int_equal(procfs_query(-1, 1, &map, &id, path, sizeof(path)), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_no_ioctl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
