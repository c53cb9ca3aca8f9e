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

enum { PAGE = 4096, READ_MAX = 1 << 20 };

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

/* The time of a read is the helper's. */
static void test_read_time(void **state)
{
	uint64_t word = 5, back = 0, before = clock_ns(CLOCK_MONOTONIC);
	struct uw_memory *memory;
	struct memory_guard *g;

	(void)state;
	assert_int_equal(memory_guard_new(60 * NSEC_PER_SEC, &g), 0);
	assert_int_equal(procfs_memory_of_fd(own_mem(), g, &memory), 0);
	assert_int_equal(memory->read_at, 0);
	assert_int_equal(memory->read(memory, 16, &back, 8), 0); /* nothing is mapped there */
	assert_int_equal(memory->read_at, 0);
	assert_int_equal(memory->read(memory, (uintptr_t)&word, &back, 8), 8);
	assert_in_range(memory->read_at, before, clock_ns(CLOCK_MONOTONIC));
	(void)procfs_memory_free(memory);
	(void)memory_guard_free(g);
}

/* Several ranges at once, by a helper and without; what cannot be read is 0. */
static void test_ranges(void **state)
{
	static uint8_t bytes[UW_RANGES_BYTES], back[UW_RANGES_BYTES];
	const struct uw_range ranges[] = {{(uintptr_t)bytes + 8, 100},
					  {16, 50}, /* nothing is mapped there */
					  {UINT64_MAX - 3, 8},
					  {(uintptr_t)bytes + 500, 3}};
	const struct uw_range all[] = {{(uintptr_t)bytes, UW_RANGES_BYTES - 1},
				       {(uintptr_t)bytes, 1}},
			      more[] = {{(uintptr_t)bytes, UW_RANGES_BYTES}, {(uintptr_t)bytes, 1}},
			      wrapped[] = {{(uintptr_t)bytes, 8},
					   {(uintptr_t)bytes, UINT64_MAX - 7}};
	static struct uw_range many[UW_RANGES_MAX + 1];
	struct memory_guard *g;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(1 + i % 251);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct uw_range){(uintptr_t)bytes + i, 1};
	assert_int_equal(memory_guard_new(60 * NSEC_PER_SEC, &g), 0);
	for (int guarded = 0; guarded < 2; guarded++) {
		struct uw_memory *m;

		assert_int_equal(procfs_memory_of_fd(own_mem(), guarded ? g : NULL, &m), 0);
		memset(back, 0xee, sizeof(back));
		assert_true(m->read_ranges(m, ranges, ARRAY_SIZE(ranges), back));
		assert_memory_equal(back, bytes + 8, 100);
		for (size_t i = 100; i < 158; i++)
			assert_int_equal(back[i], 0);
		assert_memory_equal(back + 158, bytes + 500, 3);
		assert_int_equal(back[161], 0xee);
		assert_true(m->read_ranges(m, all, 2, back));
		assert_memory_equal(back, bytes, UW_RANGES_BYTES - 1);
		assert_int_equal(back[UW_RANGES_BYTES - 1], bytes[0]);
		assert_true(m->read_ranges(m, many, UW_RANGES_MAX, back));
		assert_memory_equal(back, bytes, UW_RANGES_MAX);
		assert_true(m->read_ranges(m, ranges, 1, back));
		assert_false(m->read_ranges(m, more, 2, back));
		assert_false(m->read_ranges(m, wrapped, 2, back));
		assert_false(m->read_ranges(m, many, ARRAY_SIZE(many), back));
		assert_false(m->read_ranges(m, ranges, 0, back));
		(void)procfs_memory_free(m);
	}
	(void)memory_guard_free(g);
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
	assert_false(stuck->read_ranges(stuck, &(struct uw_range){(uintptr_t)word, 8}, 1, back));
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
		cmocka_unit_test(test_reads),  cmocka_unit_test(test_read_time),
		cmocka_unit_test(test_ranges), cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
