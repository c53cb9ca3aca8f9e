/* test-print-threads.c - which process wrote a line: threads that run, threads that have ended, and claims of strangers. */
#include <sys/stat.h>

#include "marks/print-threads.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/proc/child-process.h"
#include "tests/unit/proc/proc-fixture.h"

/* Recorded: process 100 with threads 100 to 102, process 200.  Not recorded: process 900 with thread 901. */
enum { OURS = 100, OTHER = 200, STRANGER = 900 };

static char root[64];
static struct fixture f;
static struct print_threads threads;

static void put_thread(uint32_t tid, uint32_t pid)
{
	char path[200], text[100];

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, tid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/status", root, tid);
	(void)snprintf(text, sizeof(text), "Name:\tTgid:\t7\nTgid:\t%u\nNgid:\t0\n", pid);
	write_file(path, text);
}

static void end_thread(uint32_t tid)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, tid);
	remove_dir(path);
}

static int set_up(void **state)
{
	char path[100];

	(void)state;
	temp_dir(root);
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0755), 0);
	fixture_init(&f, 100);
	print_threads_init(&threads, root);
	assert_int_equal(process_fork(f.table, OURS, 1, OURS, 1), 0);
	assert_int_equal(process_fork(f.table, OURS, OURS, OURS + 1, OURS), 0);
	assert_int_equal(process_fork(f.table, OURS, OURS, OURS + 2, OURS), 0);
	assert_int_equal(process_fork(f.table, OTHER, 1, OTHER, 1), 0);
	put_thread(OURS, OURS);
	put_thread(OURS + 1, OURS);
	put_thread(OTHER, OTHER);
	put_thread(STRANGER, STRANGER);
	put_thread(STRANGER + 1, STRANGER);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	print_threads_deinit(&threads);
	fixture_deinit(&f);
	remove_dir(root);
	return 0;
}

static uint32_t writer(uint32_t tid, uint32_t named)
{
	return print_threads_process(&threads, f.table, false, tid, named);
}

static void test_running(void **state)
{
	(void)state;
	assert_int_equal(writer(OURS, OURS), OURS);
	assert_int_equal(writer(OURS + 1, OURS), OURS);
	assert_int_equal(writer(OTHER, OURS), OTHER); /* whatever its text names */
	assert_int_equal(writer(STRANGER + 1, OURS), 0);
	assert_int_equal(print_threads_process(&threads, f.table, true, STRANGER, 0), STRANGER);
	/* Until it is looked at again, and recorded. */
	assert_int_equal(process_fork(f.table, STRANGER, 1, STRANGER, 1), 0);
	assert_int_equal(writer(STRANGER + 1, 0), 0);
	print_threads_again(&threads);
	assert_int_equal(writer(STRANGER + 1, 0), STRANGER);
}

static void test_ended(void **state)
{
	(void)state;
	/* OURS + 2 ended before its line was read; its record is there. */
	assert_int_equal(process_exit(f.table, OURS, OURS + 2), 0);
	assert_int_equal(writer(OURS + 2, OURS), OURS);
	end_thread(OTHER);
	assert_int_equal(process_exit(f.table, OTHER, OTHER), 0);
	assert_int_equal(writer(OTHER, 0), OTHER);
}

/* Threads that have ended, of processes that are not recorded, with lines that name others. */
static void test_forged(void **state)
{
	(void)state;
	for (int all = 0; all < 2; all++) {
		for (uint32_t tid = 5000; tid < 5020; tid++) {
			assert_int_equal(print_threads_process(&threads, f.table, all, tid, OURS),
					 0);
			print_threads_again(&threads);
			assert_int_equal(print_threads_process(&threads, f.table, all, tid, tid),
					 0);
			assert_int_equal(print_threads_process(&threads, f.table, all, tid + 1000,
							       UINT32_MAX),
					 0);
		}
	}
	/* A thread of one recorded process, with the name of another one. */
	assert_int_equal(writer(OURS + 2, OTHER), 0);
	print_threads_again(&threads);
	assert_int_equal(writer(OURS + 2, OURS), OURS);
}

/* The number of a thread that has ended is another process's now. */
static void test_reused(void **state)
{
	(void)state;
	assert_int_equal(writer(OURS + 1, 0), OURS);
	put_thread(OURS + 1, STRANGER);
	assert_int_equal(writer(OURS + 1, 0), OURS); /* its end is not known yet */
	print_threads_exit(&threads, OURS + 1);
	assert_int_equal(writer(OURS + 1, OURS), 0);
	assert_int_equal(writer(OTHER, 0), OTHER);
	put_thread(OTHER, STRANGER);
	print_threads_forget(&threads); /* ends were missed */
	assert_int_equal(writer(OTHER, OTHER), 0);
}

static void test_bounded(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PRINT_THREADS_MAX + 5; i++)
		assert_int_equal(writer(100000 + i, OURS), 0);
	assert_int_equal(threads.strangers.n_used, 5);
	assert_int_equal(writer(OURS, 0), OURS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_running, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
