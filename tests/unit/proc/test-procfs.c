/* test-procfs.c - /proc read from a fake tree with known contents, and from the real one. */
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "base/util.h"
#include "proc/procfs.h"
#include "tests/unit/proc/child-process.h"

static char root[64];

static void put_file(uint32_t pid, const char *name, const char *text)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/%s", root, pid, name);
	write_file(path, text);
}

static void put_dir(uint32_t pid, const char *name)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/%s", root, pid, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void put_stat(uint32_t pid, uint32_t ppid, const char *comm, const char *flags)
{
	char text[400];

	(void)snprintf(text, sizeof(text),
		       "%u (%s) S %u %u %u 0 -1 %s 1 2 3 4 555 666 7 8 20 0 1 0 987654 1000 50 "
		       "18446744073709551615 0 0\n",
		       pid, comm, ppid, pid, pid, flags);
	put_file(pid, "stat", text);
}

static int set_up(void **state)
{
	char path[300];

	(void)state;
	temp_dir(root);
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0755), 0);
	put_stat(1, 0, "init", "4194560");
	put_stat(2, 0, "kthreadd", "2129984");
	put_stat(30, 1, "a) S 99 (b", "4194304");
	put_stat(31, 30, "child", "4194304");
	put_stat(4, 31, "pid wrapped", "4194304"); /* a smaller pid than its parent */
	put_stat(40, 1, "other", "4194304");
	put_stat(50, 50, "own parent", "4194304"); /* no kernel reports it */
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_dir(root);
	return 0;
}

static void test_lists(void **state)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	_cleanup_(freep) uint32_t *tids = NULL;
	struct procfs_pids *some;
	uint32_t piece[3];
	char path[300];
	size_t n, got, at;
	(void)state;

	(void)snprintf(path, sizeof(path), "%s/proc/self", root);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/99999999999", root);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/12x", root);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(procfs_pids(root, &pids, &n), 0);
	assert_int_equal(n, 7);
	assert_int_equal(pids[0], 1);
	assert_int_equal(pids[2], 4);
	assert_int_equal(pids[6], 50);
	assert_int_equal(procfs_pids_open(root, &some), 0);
	for (size_t left = 7; left; left -= got) { /* in pieces, each once */
		got = procfs_pids_next(some, piece, 3);
		assert_int_equal(got, left < 3 ? left : 3);
		for (size_t i = 0; i < got; i++) {
			for (at = 0; at < 7 && pids[at] != piece[i]; at++)
				;
			assert_int_not_equal(at, 7);
			pids[at] = 0;
		}
	}
	assert_int_equal(procfs_pids_next(some, piece, 3), 0);
	assert_null(procfs_pids_free(some));
	assert_int_equal(procfs_pids_open("/nowhere", &some), -ENOENT);

	put_dir(30, "task");
	put_dir(30, "task/300");
	put_dir(30, "task/30");
	put_dir(30, "task/31");
	assert_int_equal(procfs_threads(root, 30, &tids, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(tids[0], 30);
	assert_int_equal(tids[1], 31);
	assert_int_equal(tids[2], 300);
	n = 77;
	assert_int_equal(procfs_threads(root, 77, &tids, &n), -ESRCH);
	assert_int_equal(n, 77); /* untouched */
}

static void test_status(void **state)
{
	struct procfs_status s;
	(void)state;

	put_file(30, "status",
		 "Name:\ta) S 99 "
		 "(b\nNSpid:x\tUid:\t5\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t30\t12\t3\n");
	assert_int_equal(procfs_status(root, 30, &s), 0);
	assert_int_equal(s.pid, 30);
	assert_int_equal(s.ppid, 1);
	assert_string_equal(s.comm, "a) S 99 (b");
	assert_int_equal(s.utime_ticks, 555);
	assert_int_equal(s.stime_ticks, 666);
	assert_int_equal(s.start_ticks, 987654);
	assert_false(s.kernel_thread);
	assert_false(s.zombie);
	assert_int_equal(s.uid, 1000);

	put_file(2, "status", "Name:\tkthreadd\nUid:\t0\t0\t0\t0\n");
	assert_int_equal(procfs_status(root, 2, &s), 0);
	assert_true(s.kernel_thread);
	assert_int_equal(s.ns_pid, 2); /* as ours where nothing is stated */

	put_file(40, "status", "Uid:\t4294967296\nNSpid:\t40\t5\n");
	assert_int_equal(procfs_status(root, 40, &s), 0);
	assert_int_equal(s.uid, 0); /* over 32 bits: rejected */
	assert_int_equal(s.ns_pid, 5);
	assert_int_equal(procfs_status(root, 77, &s), -ESRCH);
}

static void test_damaged_stat(void **state)
{
	static const char *const bad[] = {
		"",
		"5",
		"5 (",
		"5 (x",
		"5 (x)",
		"5 )x( S 1",
		"5 (x) S 1 2 3",
		"5 (x) S y 2 3 4 5 6 7 8 9 1 1 1 1 1 1 1 1 1 1",
		"5 (x) S -1 5 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 9 1000",
	};
	struct procfs_status s = {.pid = 4711};
	(void)state;

	put_file(5, "status", "Uid:\t0\n");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		put_file(5, "stat", bad[i]);
		assert_int_equal(procfs_status(root, 5, &s), -EBADMSG);
		assert_int_equal(s.pid, 4711);
	}
}

static void test_names(void **state)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(freep) char *empty = NULL;
	char comm[16], lots[6000];
	size_t len;
	(void)state;

	put_dir(40, "task");
	put_dir(40, "task/41");
	put_file(40, "task/41/comm", "0123456789abcdefgh\n");
	assert_int_equal(procfs_thread_comm(root, 40, 41, comm), 0);
	assert_string_equal(comm, "0123456789abcde");
	put_file(40, "task/41/comm", "x\n\n");
	assert_int_equal(procfs_thread_comm(root, 40, 41, comm), 0);
	assert_string_equal(comm, "x\n");
	put_file(40, "task/41/comm", "");
	assert_int_equal(procfs_thread_comm(root, 40, 41, comm), 0);
	assert_string_equal(comm, "");
	assert_int_equal(procfs_thread_comm(root, 40, 42, comm), -ESRCH);

	memset(lots, 'y', sizeof(lots) - 1);
	lots[sizeof(lots) - 1] = 0;
	put_file(40, "cmdline", lots);
	assert_int_equal(procfs_cmdline(root, 40, &text, &len), 0);
	assert_int_equal(len, 4096);
	assert_int_equal(text[4095], 'y');
	assert_int_equal(text[4096], 0);
	put_file(40, "cmdline", "");
	assert_int_equal(procfs_cmdline(root, 40, &empty, &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(procfs_cmdline(root, 77, &empty, &len), -ESRCH);
}

static void test_busy(void **state)
{
	char path[300];
	uint64_t busy, tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	(void)state;

	(void)snprintf(path, sizeof(path), "%s/proc/stat", root);
	write_file(path, "cpu  100 20 3 50000 600 7 8 9000 90 1\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
	assert_int_equal(procfs_busy_ns(root, NULL, 0, &busy), 0);
	assert_int_equal(busy, (100 + 20 + 3 + 7 + 8) * tick);
	{
		const uint32_t second = 1, third = 2;

		write_file(path, "cpu  100 20 3 50000 600 7 8 9000 90 1\ncpu0 1 2 3 4 5 6 7 8 9 "
				 "10\ncpu1 11 2 3 4 5 6 7 8 9 10\n");
		assert_int_equal(procfs_busy_ns(root, &second, 1, &busy), 0);
		assert_int_equal(busy, (11 + 2 + 3 + 6 + 7) * tick);
		assert_int_equal(procfs_busy_ns(root, &third, 1, &busy), -EBADMSG);
	}
	write_file(path, "cpu  100 20 3 50000 600 7\n");
	assert_int_equal(procfs_busy_ns(root, NULL, 0, &busy), -EBADMSG);
	write_file(path, "intr 1\n");
	assert_int_equal(procfs_busy_ns(root, NULL, 0, &busy), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(procfs_busy_ns(root, NULL, 0, &busy), -ENOENT);
}

static void test_maps_file(void **state)
{
	_cleanup_(freep) char *text = NULL;
	size_t len;
	(void)state;

	put_file(40, "maps", "1-2 r-xp 0 0:0 0\n");
	assert_int_equal(procfs_maps(root, 40, &text, &len), 0);
	assert_int_equal(len, 17);
	assert_int_equal(procfs_maps(root, 77, &text, &len), -ESRCH);
}

static void test_long_root(void **state)
{
	char path[PROCFS_PATH_MAX + 10];
	uint64_t busy;
	(void)state;

	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(procfs_busy_ns(path, NULL, 0, &busy), -ENAMETOOLONG);
	assert_int_equal(procfs_thread_comm(path, 1, 1, path), -ENAMETOOLONG);
}

/* ---- the real one ---- */

static void *named_thread(void *arg)
{
	pthread_barrier_t *barrier = arg;

	(void)pthread_setname_np(pthread_self(), "pw test thread");
	(void)pthread_barrier_wait(barrier);
	(void)pthread_barrier_wait(barrier);
	return NULL;
}

static void stay(int in, int out, void *arg)
{
	(void)arg;
	child_stop(in, out);
}

static void test_real(void **state)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	_cleanup_(freep) uint32_t *children = NULL;
	uint32_t self = (uint32_t)getpid();
	struct procfs_status s;
	pthread_barrier_t barrier;
	pthread_t thread;
	struct child c;
	char comm[16];
	uint64_t busy;
	size_t n, found = 0;
	(void)state;

	assert_int_equal(procfs_status("", self, &s), 0);
	assert_int_equal(s.ppid, getppid());
	assert_int_equal(s.uid, getuid());
	assert_false(s.kernel_thread);
	assert_true(s.ns_pid > 0);
	assert_true(s.start_ticks > 0);

	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, named_thread, &barrier), 0);
	(void)pthread_barrier_wait(&barrier);
	assert_int_equal(procfs_threads("", self, &tids, &n), 0);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || tids[i - 1] < tids[i]);
		assert_int_equal(procfs_thread_comm("", self, tids[i], comm), 0);
		found += !strcmp(comm, "pw test thread");
	}
	assert_int_equal(found, 1);
	(void)pthread_barrier_wait(&barrier);
	assert_int_equal(pthread_join(thread, NULL), 0);

	c = child_new(stay, NULL);
	child_hear(&c);
	assert_int_equal(procfs_families("", &self, 1, 0, &children, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(children[children[0] == self], c.pid);
	child_end(&c);
	assert_int_equal(procfs_status("", (uint32_t)c.pid, &s), -ESRCH);
	assert_int_equal(procfs_busy_ns("", NULL, 0, &busy), 0);
	assert_true(busy > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),	     cmocka_unit_test(test_status),
		cmocka_unit_test(test_damaged_stat), cmocka_unit_test(test_names),
		cmocka_unit_test(test_busy),	     cmocka_unit_test(test_maps_file),
		cmocka_unit_test(test_long_root),    cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
