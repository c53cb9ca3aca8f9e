/* test-util.c - numbers from text, small files, powers of two, arrays that grow, bisection. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/unit/cmocka.h"

static void test_parse_u64(void **state)
{
	uint64_t v = 99;

	(void)state;
	assert_int_equal(parse_u64("0", 10, 10, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(parse_u64("18446744073709551615", 10, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(parse_u64("0x1f", 0, UINT64_MAX, &v), 0);
	assert_int_equal(v, 31);
	assert_int_equal(parse_u64("ff", 16, UINT64_MAX, &v), 0);
	assert_int_equal(v, 255);
	v = 99;
	assert_int_equal(parse_u64("18446744073709551616", 10, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_u64("11", 10, 10, &v), -ERANGE);
	assert_int_equal(parse_u64("", 10, 10, &v), -EINVAL);
	assert_int_equal(parse_u64("", 16, 10, &v), -EINVAL);
	assert_int_equal(parse_u64(" 1", 10, 10, &v), -EINVAL);
	assert_int_equal(parse_u64("-1", 10, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_u64("+1", 10, 10, &v), -EINVAL);
	assert_int_equal(parse_u64("1x", 10, 10, &v), -EINVAL);
	assert_int_equal(v, 99);
}

static void test_read_file(void **state)
{
	char path[] = "/tmp/perfwind-test-XXXXXX";
	int fd = mkstemp(path);
	char *text = NULL;
	size_t len;

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(write_all(fd, "0123456789", 10), 0);
	(void)close(fd);
	assert_int_equal(read_file(path, 9999, &text, &len), -EFBIG);
	assert_null(text);
	assert_int_equal(read_file(path, 10000, &text, &len), 0);
	assert_int_equal(len, 10000);
	assert_int_equal(strlen(text), 10000);
	free(text);
	(void)unlink(path);
	assert_int_equal(read_file(path, 10, &text, &len), -ENOENT);
}

static void test_read_fd_at(void **state)
{
	char path[] = "/tmp/perfwind-test-XXXXXX", to[8] = "-------";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	(void)unlink(path);
	assert_int_equal(write_all(fd, "0123456789", 10), 0);
	assert_int_equal(read_fd_at(fd, to, 4, 3), 4);
	assert_memory_equal(to, "3456---", 7);
	assert_int_equal(read_fd_at(fd, to, 4, 8), 2); /* the end of the file */
	assert_memory_equal(to, "8956---", 7);
	assert_int_equal(read_fd_at(fd, to, 4, 10), 0);
	assert_int_equal(read_fd_at(fd, to, 4, INT64_MAX), 0);
	assert_int_equal(read_fd_at(fd, to, 4, UINT64_MAX), 0);
	assert_int_equal(read_fd_at(fd, to, 0, 0), 0);
	(void)close(fd);
	assert_int_equal(read_fd_at(-1, to, 4, 0), -EBADF);
}

static void test_powers(void **state)
{
	(void)state;
	assert_int_equal(round_up_power_of_two(1), 1);
	assert_int_equal(round_up_power_of_two(2), 2);
	assert_int_equal(round_up_power_of_two(3), 4);
	assert_int_equal(round_up_power_of_two(4097), 8192);
	assert_true(is_power_of_two(1ull << 63));
	assert_false(is_power_of_two(0));
	assert_false(is_power_of_two(6));
}

static void test_files(void **state)
{
	struct rlimit before, limit = {.rlim_cur = 100};

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(share_of_files(8), 12);
	assert_int_equal(share_of_files(1000), 1);
	use_hard_limit(RLIMIT_NOFILE);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(limit.rlim_cur, before.rlim_max);
	assert_int_equal(limit.rlim_max, before.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_sort_unique(void **state)
{
	uint32_t list[] = {7, UINT32_MAX, 7, 0, 3, 7, 0};

	(void)state;
	assert_int_equal(sort_unique_u32(list, 7), 4);
	assert_memory_equal(list, ((uint32_t[]){0, 3, 7, UINT32_MAX}), 4 * sizeof(*list));
	assert_int_equal(sort_unique_u32(list, 1), 1);
	assert_int_equal(sort_unique_u32(NULL, 0), 0);
}

static void test_array_grow(void **state)
{
	_cleanup_(freep) uint64_t *list = NULL;
	uint64_t *before;
	size_t room = 0;
	volatile size_t too_much = SIZE_MAX / 4; /* the compiler does not see that it is */

	(void)state;
	assert_true(array_grow(list, room, 3));
	assert_int_equal(room, 3);
	list[2] = 12;
	assert_true(array_grow(list, room, 3));
	assert_int_equal(room, 6);
	assert_int_equal(list[2], 12);
	before = list;
#ifdef __SANITIZE_ADDRESS__
	return; /* it ends a program that requests too much */
#endif
	assert_false(array_grow(list, too_much, 3)); /* 2^62 of 8 bytes */
	assert_ptr_equal(list, before);
	assert_true(too_much == SIZE_MAX / 4);
}

static void test_bisect(void **state)
{
	static const uint32_t list[] = {2, 4, 4, 9};

	(void)state;
	assert_int_equal(bisect(i, 4, list[i] <= 1), 0);
	assert_int_equal(bisect(i, 4, list[i] <= 2), 1);
	assert_int_equal(bisect(i, 4, list[i] < 4), 1);
	assert_int_equal(bisect(i, 4, list[i] <= 4), 3);
	assert_int_equal(bisect(i, 4, list[i] <= 9), 4);
	assert_int_equal(bisect(i, 0, list[i] <= 9), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),	   cmocka_unit_test(test_parse_u64),
		cmocka_unit_test(test_read_file),  cmocka_unit_test(test_read_fd_at),
		cmocka_unit_test(test_powers),	   cmocka_unit_test(test_sort_unique),
		cmocka_unit_test(test_array_grow), cmocka_unit_test(test_bisect),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
