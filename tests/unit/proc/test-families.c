/* test-families.c - descent of processes: out of a fake tree with and without lists of children, and
 * by the real kernel, across threads. */
#include <errno.h>
#include <pthread.h>

#include "base/util.h"
#include "proc/procfs.h"
#include "tests/unit/proc/child-process.h"

static char root[64];

static void path_of(char path[300], uint32_t pid, const char *name)
{
	(void)snprintf(path, 300, "%s/proc/%u%s%s", root, pid, *name ? "/" : "", name);
}

static void put_file(uint32_t pid, const char *name, const char *text)
{
	char path[300];

	path_of(path, pid, name);
	write_file(path, text);
}

static void put_dir(uint32_t pid, const char *name)
{
	char path[300];

	path_of(path, pid, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void put_process(uint32_t pid, uint32_t ppid)
{
	char text[200];

	put_dir(pid, "");
	put_dir(pid, "task");
	(void)snprintf(text, sizeof(text),
		       "%u (x) S %u 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9 1 5 1 0 0\n", pid,
		       ppid);
	put_file(pid, "stat", text);
}

/* A thread, with what the kernel shows of its children; NULL: nothing. */
static void put_thread(uint32_t pid, uint32_t tid, const char *children)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "task/%u", tid);
	put_dir(pid, name);
	(void)snprintf(name, sizeof(name), "task/%u/children", tid);
	if (children)
		put_file(pid, name, children);
}

static int set_up(void **state)
{
	char path[300];

	(void)state;
	temp_dir(root);
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0755), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_dir(root);
	return 0;
}

static void family(size_t most, const uint32_t *of, size_t n_of, const uint32_t *wanted,
		   size_t n_wanted)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	size_t n;

	assert_int_equal(procfs_families(root, of, n_of, most, &pids, &n), 0);
	assert_int_equal(n, n_wanted);
	if (n)
		assert_memory_equal(pids, wanted, n * sizeof(*pids));
}

#define LIST(...) (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

/* Without lists of children, by each process's parent. */
static void test_parents(void **state)
{
	(void)state;
	put_process(1, 0);
	put_process(2, 0);
	put_process(30, 1);
	put_process(31, 30);
	put_process(4, 31); /* a smaller pid than its parent */
	put_process(40, 1);
	put_process(50, 50); /* no kernel reports it */
	put_thread(30, 30, NULL);
	family(0, LIST(30), LIST(4, 30, 31));
	family(0, LIST(40), LIST(40));
	family(0, LIST(50), LIST(50));
	family(0, LIST(77), NULL, 0); /* there is none */
	/* Each once: named twice, and named as well as descended. */
	family(0, LIST(40, 31, 40, 77, 30, 4), LIST(4, 30, 31, 40));
	/* A line that comes round to itself. */
	put_process(60, 61);
	put_process(61, 62);
	put_process(62, 61);
	family(0, LIST(1), LIST(1, 4, 30, 31, 40));
	family(0, LIST(62), LIST(60, 61, 62));
}

/* With them no other process is read: the parents that are stated here would give another result. */
static void test_children(void **state)
{
	(void)state;
	for (uint32_t pid = 10; pid < 16; pid++)
		put_process(pid, 999);
	put_thread(10, 10, "");
	put_thread(10, 100, "12 11 "); /* of another thread than the first */
	put_thread(10, 101, "13 13 ");
	put_thread(11, 11, "14 10 "); /* comes round to itself */
	put_thread(12, 12, "77 0 ");  /* gone meanwhile, and not of our pid namespace */
	put_thread(13, 13, NULL);     /* gone meanwhile */
	put_thread(14, 14, "x 4294967296 99999999999999999999999 -1");
	put_thread(15, 15, "");
	family(0, LIST(10), LIST(10, 11, 12, 13, 14));
	family(0, LIST(15, 77, 15, 14), LIST(14, 15));
	family(4, LIST(14, 15), LIST(14, 15));
}

/* More than there may be: no more is looked at than to know that. */
static void test_most(void **state)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	const uint32_t of = 10;
	size_t n;

	(void)state;
	for (uint32_t pid = 10; pid < 40; pid++) {
		char next[16];

		put_process(pid, pid - 1);
		(void)snprintf(next, sizeof(next), "%u ", pid + 1);
		put_thread(pid, pid, next);
	}
	assert_int_equal(procfs_families(root, &of, 1, 5, &pids, &n), 0);
	assert_int_equal(n, 7); /* more than 5, and not 30 */
}

/* A family of more threads than are worth it: one look at each process does. */
static void test_many_threads(void **state)
{
	(void)state;
	put_process(10, 1);
	put_process(11, 10);
	for (uint32_t tid = 10; tid < 10 + 4100; tid++)
		put_thread(10, tid, tid == 10 ? "12 " : "");
	family(0, LIST(10), LIST(10, 11)); /* 12 is in the list, and is not a process */
}

static void stay(int in, int out, void *arg)
{
	(void)arg;
	child_stop(in, out);
}

static pthread_barrier_t barrier;

static void *forks(void *arg)
{
	struct child *c = arg;

	*c = child_new(stay, NULL);
	child_hear(c);
	(void)pthread_barrier_wait(&barrier); /* it is looked at, ... */
	(void)pthread_barrier_wait(&barrier); /* ... and ends with its parent */
	child_end(c);
	return NULL;
}

static void test_real(void **state)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	const uint32_t self = (uint32_t)getpid();
	struct child mine, threads;
	pthread_t thread;
	size_t n;

	(void)state;
	mine = child_new(stay, NULL);
	child_hear(&mine);
	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, forks, &threads), 0);
	(void)pthread_barrier_wait(&barrier);
	assert_int_equal(procfs_families("", &self, 1, 0, &pids, &n), 0);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		assert_true(pids[i] == self || pids[i] == (uint32_t)mine.pid ||
			    pids[i] == (uint32_t)threads.pid);
	(void)pthread_barrier_wait(&barrier);
	assert_int_equal(pthread_join(thread, NULL), 0);
	child_end(&mine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_parents),	 EACH(test_children), EACH(test_most),
		EACH(test_many_threads), EACH(test_real),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
