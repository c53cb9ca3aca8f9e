/* test-procmem.c - a real process's memory: whole, in part, not there, and after exec and exit. */
#include <errno.h>
#include <sys/mman.h>

#include "proc/procfs.h"
#include "proc/procmem.h"
#include "tests/unit/proc/child-process.h"

static void test_read(void **state)
{
	struct uw_memory *m = NULL;
	char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char got[8192];
	(void)state;

	assert_ptr_not_equal(two, MAP_FAILED);
	memset(two, 'a', 8192);
	two[4095] = 'z';
	assert_int_equal(munmap(two + 4096, 4096), 0);
	assert_int_equal(procfs_memory_new("", (uint32_t)getpid(), &m), 0);
	assert_int_equal(m->read(m, (uintptr_t)two, got, 4096), 4096);
	assert_memory_equal(got, two, 4096);
	assert_int_equal(m->read(m, (uintptr_t)two + 4090, got, 100), 6); /* up to the hole */
	assert_int_equal(got[5], 'z');
	assert_int_equal(m->read(m, (uintptr_t)two + 4096, got, 8), 0);
	assert_int_equal(m->read(m, 0, got, 8), 0);
	assert_int_equal(m->read(m, UINT64_MAX - 3, got, 8), 0);
	assert_int_equal(m->read(m, 0xffffffffff600000, got, 8), 0);
	assert_int_equal(m->read(m, (uintptr_t)two, got, 0), 0);
	m = procfs_memory_free(m);
	assert_null(m);
	assert_null(procfs_memory_free(NULL));
	assert_int_equal(procfs_memory_new("", 0x7ffffff0, &m), -ESRCH);
	assert_null(m);
	assert_int_equal(munmap(two, 4096), 0);
}

static void exec_later(int in, int out, void *arg)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};

	(void)arg;
	child_stop(in, out);
	execvp(argv[0], argv);
}

static void test_exec_and_exit(void **state)
{
	static int word = 1234;
	struct uw_memory *m = NULL;
	struct child c = child_new(exec_later, NULL);
	int got = 0;
	char byte;
	(void)state;

	child_hear(&c);
	assert_int_equal(procfs_memory_new("", (uint32_t)c.pid, &m), 0);
	assert_int_equal(m->read(m, (uintptr_t)&word, &got, sizeof(got)), sizeof(got));
	assert_int_equal(got, 1234);
	child_go_on(&c);
	assert_int_equal(read(c.from, &byte, 1), 0); /* closed by the exec */
	/* the old address space is gone; the descriptor never shows the new one */
	assert_int_equal(m->read(m, (uintptr_t)&word, &got, sizeof(got)), 0);
	child_end(&c);
	assert_int_equal(m->read(m, (uintptr_t)&word, &got, sizeof(got)), 0);
	m = procfs_memory_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_exec_and_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
