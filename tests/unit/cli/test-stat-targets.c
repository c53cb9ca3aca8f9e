/* test-stat-targets.c - stat-targets.h: which threads, CPUs and cgroups are counted, and the rows of each. */
#include "cli/stat-targets.h"
#include "tests/unit/cmocka.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void *waits(void *arg)
{
	char byte;

	(void)!read(*(int *)arg, &byte, 1);
	return NULL;
}

static size_t n_of(const struct stat_targets *t, pid_t tid)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->list[i].tid == tid;
	return n;
}

/* All threads of a process; a row for each, or one. */
static void test_process(void **state)
{
	const uint32_t pid = (uint32_t)getpid();
	struct stat_scope scope = {.pids = &pid, .n_pids = 1};
	struct stat_targets t;
	pthread_t thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, waits, &ends[0]), 0);
	assert_int_equal(stat_targets_init(&t, &scope), 0);
	assert_true(t.n >= 2);
	assert_int_equal(n_of(&t, getpid()), 1);
	assert_int_equal(t.n_rows, 1);
	assert_false(t.labelled);
	for (size_t i = 0; i < t.n; i++) {
		assert_int_equal(t.list[i].row, 0);
		assert_int_equal(t.list[i].cpu, -1);
		assert_int_equal(t.list[i].cgroup_fd, -1);
	}
	stat_targets_deinit(&t);

	scope.by = STAT_THREAD;
	assert_int_equal(stat_targets_init(&t, &scope), 0);
	assert_true(t.labelled);
	assert_true(t.n >= 2);
	assert_int_equal(t.n_rows, t.n);
	stat_targets_deinit(&t);

	scope.by = STAT_PROCESS;
	assert_int_equal(stat_targets_init(&t, &scope), 0);
	assert_int_equal(t.n_rows, 1);
	assert_non_null(strstr(t.labels[0], "test-stat"));
	stat_targets_deinit(&t);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Each CPU has its row; CPUs and processes that there are not are refused. */
static void test_cpus(void **state)
{
	const uint32_t absent = 1u << 30;
	const struct stat_scope gone = {.pids = &absent, .n_pids = 1};
	struct stat_scope scope = {.by = STAT_CPU, .all = true, .cpus = "0"};
	struct stat_targets t;

	(void)state;
	assert_int_equal(stat_targets_init(&t, &scope), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.list[0].tid, -1);
	assert_int_equal(t.list[0].cpu, 0);
	assert_int_equal(t.n_rows, 1);
	assert_string_equal(t.labels[0], "CPU0");
	stat_targets_deinit(&t);

	scope.cpus = "0-x";
	assert_true(stat_targets_init(&t, &scope) < 0);
	stat_targets_deinit(&t);
	assert_int_equal(stat_targets_init(&t, &gone), -ESRCH);
	stat_targets_deinit(&t);
}

/* Cgroups are looked up by name, and there is none of this one. */
static void test_cgroup(void **state)
{
	const struct stat_scope scope = {.by = STAT_CGROUP, .cgroups = "no/such/cgroup"},
				outside = {.by = STAT_CGROUP, .cgroups = "../cgroup"};
	struct stat_targets t;

	(void)state;
	assert_true(stat_targets_init(&t, &scope) < 0);
	assert_int_equal(t.n, 0);
	stat_targets_deinit(&t);
	assert_int_equal(stat_targets_init(&t, &outside), -EINVAL);
	stat_targets_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_cgroup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
