/* test-shared-counts.c - counters in memory that another process has too. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shared-counts.h"
#include "tests/unit/cmocka.h"

static void test_between_processes(void **state)
{
	struct shared_counts *c;
	size_t draw, load, twice;
	uint32_t origin;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(shared_counts_new(&c), 0);
	assert_int_equal(shared_counts_want(c, "draw", &draw), 0);
	assert_int_equal(shared_counts_want(c, "load", &load), 0);
	assert_int_equal(shared_counts_want(c, "draw", &twice), 0);
	child = fork();
	if (!child) {
		struct shared_counts *own;

		if (shared_counts_take(dup(shared_counts_fd(c)), &own) < 0)
			_exit(1);
		shared_counts_add(own, "draw", 4, 17);
		shared_counts_add(own, "draw2", 5, 18);
		shared_counts_add(own, "dra", 3, 18);
		shared_counts_add(own, "", 0, 18);
		shared_counts_add(own, "draw", 4, 19);
		shared_counts_free(own);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(shared_counts_read(c, draw, &origin), 2);
	assert_int_equal(origin, 19);
	assert_int_equal(shared_counts_read(c, twice, &origin), 2);
	assert_int_equal(shared_counts_read(c, load, &origin), 0);
	assert_int_equal(origin, 0);
	/* Another name in the place of the first one begins at 0. */
	shared_counts_forget(c, draw);
	assert_int_equal(shared_counts_want(c, "save", &draw), 0);
	assert_int_equal(shared_counts_read(c, draw, &origin), 0);
	assert_int_equal(origin, 0);
	shared_counts_add(c, "draw", 4, 20);
	assert_int_equal(shared_counts_read(c, draw, &origin), 0);
	assert_int_equal(shared_counts_read(c, twice, &origin), 3);
	shared_counts_free(c);
}

static void test_bounds(void **state)
{
	struct shared_counts *c;
	char name[SHARED_COUNT_NAME + 1];
	uint32_t origin;
	size_t slot;

	(void)state;
	assert_int_equal(shared_counts_new(&c), 0);
	memset(name, 'x', sizeof(name));
	name[SHARED_COUNT_NAME] = 0;
	assert_int_equal(shared_counts_want(c, name, &slot), -EINVAL);
	assert_int_equal(shared_counts_want(c, "", &slot), -EINVAL);
	shared_counts_add(c, name, SHARED_COUNT_NAME, 1);
	name[SHARED_COUNT_NAME - 1] = 0;
	for (size_t i = 0; i < SHARED_COUNTS; i++)
		assert_int_equal(shared_counts_want(c, name, &slot), 0);
	assert_int_equal(shared_counts_want(c, "more", &slot), -ENOSPC);
	shared_counts_add(c, name, strlen(name), 1);
	assert_int_equal(shared_counts_read(c, slot, &origin), 1);
	shared_counts_free(c);
}

/* The number of a descriptor comes from the environment: it may be anything. */
static void test_other_descriptors(void **state)
{
	struct shared_counts *c, *own;
	int fd, n;

	(void)state;
	assert_int_equal(shared_counts_take(-1, &own), -EINVAL);
	assert_int_equal(shared_counts_take(1000000, &own), -EINVAL);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(shared_counts_take(fd, &own), -EINVAL);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* consumed */
	/* The size alone: it could shrink under the reader. */
	assert_int_equal(shared_counts_new(&c), 0);
	n = (int)lseek(shared_counts_fd(c), 0, SEEK_END);
	fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, n), 0);
	assert_int_equal(shared_counts_take(fd, &own), -EINVAL);
	/* Sealed, but without what the owner writes. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, n), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(shared_counts_take(fd, &own), -EINVAL);
	shared_counts_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_processes),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_other_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
