/* test-memory-guard.c - procmem.h, the guard: our own memory, read by a helper process that is stopped or
 * killed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proc/procmem.h"
#include "proc/procfs.h"
#include "tests/unit/cmocka.h"

enum { PAGE = 4096, READ_MAX = 64 << 10 };

static int own_mem(void)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void test_reads(void **state)
{
	static uint8_t bytes[READ_MAX + PAGE], back[READ_MAX + PAGE];
	struct memory_guard_counts counts;
	struct memory_guard *g;
	int fd = own_mem();

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	assert_int_equal(memory_guard_new(60 * NSEC_PER_SEC, &g), 0);
	assert_int_equal(memory_guard_read(g, fd, (uintptr_t)bytes, back, 100), 100);
	assert_memory_equal(back, bytes, 100);
	assert_int_equal(memory_guard_read(g, fd, (uintptr_t)bytes, back, sizeof(bytes)), READ_MAX);
	assert_memory_equal(back, bytes, READ_MAX);
	assert_int_equal(memory_guard_read(g, fd, 16, back, 8), 0); /* nothing is mapped there */
	assert_int_equal(memory_guard_read(g, fd, 1ull << 63, back, 8), 0);
	memory_guard_count(g, &counts);
	assert_int_equal(counts.refused + counts.replaced, 0);
	assert_true(counts.cpu_ns > 0);
	(void)memory_guard_free(g);
	(void)close(fd);
}

/* The guard's helper: our only child. */
static pid_t helper_of_guard(void)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	uint32_t self = (uint32_t)getpid();
	size_t n;

	assert_int_equal(procfs_families("", &self, 1, 0, &pids, &n), 0);
	assert_int_equal(n, 2);
	return (pid_t)pids[pids[0] == self];
}

/* A stopped helper is one that does not answer: it is given up, that memory is left alone for half a second, and other memory is
 * read on. */
static void test_no_answer(void **state)
{
	static const char word[] = "still here";
	struct uw_memory *stuck, *other;
	struct memory_guard_counts counts;
	struct memory_guard *g;
	char back[sizeof(word)];
	uint64_t before;
	ssize_t n;

	(void)state;
	assert_int_equal(memory_guard_new(20 * NSEC_PER_MSEC, &g), 0);
	assert_int_equal(procfs_memory_of_fd(own_mem(), g, &stuck), 0);
	assert_int_equal(procfs_memory_of_fd(own_mem(), g, &other), 0);
	assert_int_equal(stuck->read(stuck, (uintptr_t)word, back, 8), 8);
	assert_int_equal(kill(helper_of_guard(), SIGSTOP), 0);
	assert_int_equal(stuck->read(stuck, (uintptr_t)word, back, 8), -ETIMEDOUT);
	memory_guard_count(g, &counts);
	assert_int_equal(counts.refused, 1);
	before = clock_ns(CLOCK_MONOTONIC);
	n = stuck->read(stuck, (uintptr_t)word, back, 8);
	memory_guard_count(g, &counts);
	assert_int_equal(counts.refused, 1); /* nothing was asked */
	assert_true(n == -ETIMEDOUT || clock_ns(CLOCK_MONOTONIC) - before > 400 * NSEC_PER_MSEC);
	assert_int_equal(other->read(other, (uintptr_t)word, back, sizeof(word)), sizeof(word));
	assert_string_equal(back, word);
	while ((n = stuck->read(stuck, (uintptr_t)word, back, 8)) == -ETIMEDOUT)
		(void)nanosleep(&(struct timespec){.tv_nsec = 10 * NSEC_PER_MSEC}, NULL);
	assert_int_equal(n, 8);
	assert_true(clock_ns(CLOCK_MONOTONIC) - before > 300 * NSEC_PER_MSEC);
	/* The pause after the second time is longer. */
	assert_int_equal(kill(helper_of_guard(), SIGSTOP), 0);
	assert_int_equal(stuck->read(stuck, (uintptr_t)word, back, 8), -ETIMEDOUT);
	before = clock_ns(CLOCK_MONOTONIC);
	while (stuck->read(stuck, (uintptr_t)word, back, 8) == -ETIMEDOUT)
		(void)nanosleep(&(struct timespec){.tv_nsec = 10 * NSEC_PER_MSEC}, NULL);
	assert_true(clock_ns(CLOCK_MONOTONIC) - before > 800 * NSEC_PER_MSEC);
	(void)procfs_memory_free(stuck);
	(void)procfs_memory_free(other);
	(void)memory_guard_free(g);
}

/* One that was killed is replaced, and the read is made all the same. */
static void test_killed(void **state)
{
	static const char word[] = "and here";
	struct memory_guard_counts counts;
	struct memory_guard *g;
	char back[sizeof(word)];
	int fd = own_mem();

	(void)state;
	assert_int_equal(memory_guard_new(60 * NSEC_PER_SEC, &g), 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(memory_guard_read(g, fd, (uintptr_t)word, back, sizeof(word)),
				 sizeof(word));
		assert_string_equal(back, word);
		memory_guard_count(g, &counts);
		assert_int_equal(counts.replaced, i);
		assert_int_equal(kill(helper_of_guard(), SIGKILL), 0);
	}
	(void)memory_guard_free(g);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
