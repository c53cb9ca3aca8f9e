/* test-prefault.c - allocations after prefault_heap() touch no new page, also with a child that shares the memory. */
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prefault.h"
#include "tests/unit/cmocka.h"

enum { RESERVE = 4 << 20, SHARED = 256 << 10, PIECE = 64 << 10, PIECES = 32 };

static long faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_minflt;
}

/* In a process of its own, with a fresh heap: the number of faults of @PIECES allocations. */
static int faults_of_allocations(void)
{
	char *pieces[PIECES], *volatile old;
	int fds[2];
	long before;
	pid_t child;

	prefault_one_heap();
	old = malloc(SHARED); /* below the reserve, and shared with the child */
	if (!old || pipe(fds) < 0)
		return 254;
	memset(old, 1, SHARED);
	child = fork();
	if (!child) {
		(void)close(fds[1]);
		_exit((int)read(fds[0], pieces, 1)); /* until we end */
	}
	prefault_heap(RESERVE);
	before = faults();
	memset(old, 2, SHARED);
	for (size_t i = 0; i < PIECES; i++) {
		pieces[i] = malloc(PIECE);
		if (!pieces[i])
			return 254;
		memset(pieces[i], 3, PIECE);
	}
	before = faults() - before;
	for (size_t i = 0; i < PIECES; i++)
		free(pieces[i]);
	return before > 250 ? 250 : (int)before;
}

static void test_no_faults(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* its allocator is another one */
#endif
	assert_true(child >= 0);
	if (!child)
		_exit(faults_of_allocations());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	/* 64 pages of `old` and 512 of the pieces; the stack may need one or two. */
	assert_in_range(WEXITSTATUS(status), 0, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_faults),
	};

	return cmocka_run_group_tests_name("prefault", tests, NULL, NULL);
}
