/* test-gauge.c - values from a fake /proc and /sys, and from the kernel. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/shared-counts.h"
#include "tests/unit/fake-root.h"
#include "watch/gauge.h"

#define S NSEC_PER_SEC

static struct gauge *opened(const struct watch_rule *rule)
{
	struct gauge *g;
	char error[512] = "";

	if (gauge_new(rule, root, NULL, &g, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return g;
}

static double polled(struct gauge *g, uint64_t at, uint32_t pid)
{
	double value;
	uint32_t seen;

	gauge_poll(g, at, &value, &seen);
	assert_int_equal(seen, pid);
	return value;
}

/* Ticks are a hundredth of a second in this file; the fake files are of a machine with 100. */
static void put_process(uint32_t pid, const char *comm, unsigned ticks, unsigned start)
{
	char path[64], text[400];

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	(void)snprintf(text, sizeof(text),
		       "%u (%s) S 1 %u %u 0 -1 4194304 1 2 3 4 %u %u 7 8 20 0 1 0 %u 1000 50 "
		       "18446744073709551615 0 0\n",
		       pid, comm, pid, pid, ticks / 2, ticks - ticks / 2, start);
	put(path, text);
	(void)snprintf(path, sizeof(path), "/proc/%u/status", pid);
	put(path, "Name:\tx\nUid:\t0\t0\t0\t0\n");
	(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, pid);
	(void)snprintf(text, sizeof(text), "%s\n", comm);
	put(path, text);
}

static void test_process_cpu(void **state)
{
	const struct watch_rule rule = {.when = WATCH_PROCESS_CPU, .process = "server"};
	struct gauge *g;
	uint32_t hz = (uint32_t)sysconf(_SC_CLK_TCK);

	(void)state;
	put_process(100, "server", 1000, 5);
	put_process(101, "server", 1000, 6);
	put_process(102, "other", 1000, 7);
	g = opened(&rule);
	assert_true(polled(g, 10 * S, 100) == 0);
	put_process(100, "server", 1000 + hz / 2, 5);
	put_process(101, "server", 1000 + hz, 6);
	put_process(102, "other", 90000, 7);
	assert_true(polled(g, 12 * S, 101) == 50); /* the highest of that name */
	put_process(101, "server", 1000, 999);	   /* the pid is another process's now */
	assert_true(polled(g, 13 * S, 100) == 0);
	put_process(103, "server", 1000, 9); /* found at once */
	/* An old one that changes its name: found at the next look at all. */
	put_process(102, "server", 90000, 7);
	assert_true(polled(g, 14 * S, 100) == 0);
	put_process(103, "server", 1000 + hz, 9);
	put_process(102, "server", 90000 + 2 * hz, 7);
	assert_true(polled(g, 15 * S, 103) == 100);
	put_process(102, "server", 90000 + 4 * hz, 7);
	assert_true(polled(g, 16 * S, 102) == 200);
	(void)gauge_free(g);
}

static void test_process_by_pid(void **state)
{
	const struct watch_rule rule = {.when = WATCH_RUN_QUEUE, .process = "200"};
	struct gauge *g;

	(void)state;
	g = opened(&rule);
	assert_true(polled(g, S, 0) == 0); /* not there yet */
	put_process(200, "x", 0, 5);
	put("/proc/200/task/200/schedstat", "5 1000000000 7\n");
	put("/proc/200/task/201/schedstat", "5 1000000000 7\n");
	assert_true(polled(g, 10 * S, 200) == 0);
	put("/proc/200/task/200/schedstat", "5 1500000000 7\n");
	put("/proc/200/task/201/schedstat", "5 2000000000 7\n");
	assert_true(polled(g, 12 * S, 200) == 75);
	put("/proc/200/task/201/schedstat", "damaged\n");
	assert_true(polled(g, 13 * S, 200) == 0);
	(void)gauge_free(g);
}

static void test_memory(void **state)
{
	const struct watch_rule rule = {.when = WATCH_MEMORY_GROWTH, .process = "300"};
	struct gauge *g;
	char text[64];
	long pages = (1 << 20) / sysconf(_SC_PAGESIZE);

	(void)state;
	put_process(300, "x", 0, 5);
	for (int i = 0; i <= 100; i++) {
		(void)snprintf(text, sizeof(text), "99999 %ld 1 1 0 1 0\n", i * pages);
		put("/proc/300/statm", text);
		if (!i)
			g = opened(&rule);
		/* a MiB a second: a minute's worth at most */
		assert_true(polled(g, (100 + (uint64_t)i) * S, 300) == (i < 60 ? i : 60));
	}
	(void)gauge_free(g);
}

static void test_machine(void **state)
{
	static const enum watch_when psi[] = {WATCH_PSI_CPU, WATCH_PSI_MEMORY, WATCH_PSI_IO};
	static const char *const files[] = {"/proc/pressure/cpu", "/proc/pressure/memory",
					    "/proc/pressure/io"};
	struct watch_rule rule = {.when = WATCH_LOAD};
	struct gauge *g;

	(void)state;
	put("/proc/loadavg", "2.50 1.00 0.50 1/200 3000\n");
	g = opened(&rule);
	assert_true(polled(g, S, 0) == 2.5);
	(void)gauge_free(g);
	for (size_t i = 0; i < ARRAY_SIZE(psi); i++) {
		rule.when = psi[i];
		put(files[i], "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"
			      "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
		g = opened(&rule);
		assert_true(polled(g, S, 0) == 0);
		put(files[i], "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\n");
		assert_true(polled(g, 2 * S, 0) == 25);
		put(files[i], "");
		assert_true(polled(g, 3 * S, 0) == 0);
		(void)gauge_free(g);
	}
}

static void test_cgroup(void **state)
{
	struct watch_rule rule = {.when = WATCH_CGROUP_CPU, .cgroup = "/a/b"};
	struct gauge *g;
	char error[512];

	(void)state;
	put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 1000000\nuser_usec 5\n");
	g = opened(&rule);
	assert_true(polled(g, S, 0) == 0);
	put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 4000000\n");
	assert_true(polled(g, 2 * S, 0) == 300);
	(void)gauge_free(g);
	strcpy(rule.cgroup, "old");
	put("/sys/fs/cgroup/cpu,cpuacct/old/cpuacct.usage", "5000000000\n");
	g = opened(&rule);
	assert_true(polled(g, S, 0) == 0);
	put("/sys/fs/cgroup/cpu,cpuacct/old/cpuacct.usage", "5500000000\n");
	assert_true(polled(g, 2 * S, 0) == 50);
	(void)gauge_free(g);
	strcpy(rule.cgroup, "none");
	assert_int_equal(gauge_new(&rule, root, NULL, &g, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "is there a cgroup of this name?"));
}

/* A command that takes half a second, and one that does not end. */
static void test_duration(void **state)
{
	struct watch_rule rule = {
		.when = WATCH_DURATION, .command = "sleep 0.2", .each_ns = 1000 * S};
	struct gauge *g = opened(&rule);
	struct timespec pause = {.tv_nsec = 50 * 1000000};

	(void)state;
	assert_true(polled(g, S, 0) == 0);
	for (int i = 0; i < 200; i++) {
		siginfo_t info = {0};

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
			break;
		(void)nanosleep(&pause, NULL);
	}
	assert_true(polled(g, 3 * S, 0) == 2); /* by the clock that it was given */
	assert_true(polled(g, 4 * S, 0) == 2);
	(void)gauge_free(g);
	strcpy(rule.command, "sleep 1000");
	g = opened(&rule);
	assert_true(polled(g, S, 0) == 0);
	assert_true(polled(g, 8 * S, 0) == 7);
	(void)gauge_free(g); /* ends it */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Kernels without privileges for it refuse: then the reason is there. */
static void test_signal(void **state)
{
	const struct watch_rule rule = {.when = WATCH_SIGNAL};
	struct gauge *g;
	char error[512] = "";
	double sum = 0, value;
	uint32_t pid;
	pid_t child;

	(void)state;
	if (gauge_new(&rule, "", NULL, &g, error, sizeof(error)) < 0) {
		assert_non_null(strstr(error, "process events cannot be read"));
		skip();
	}
	child = fork();
	if (!child) {
		(void)raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (int i = 0; i < 100 && sum < 1; i++) {
		struct timespec pause = {.tv_nsec = 20 * 1000000};

		gauge_poll(g, (1 + (uint64_t)i) * S, &value, &pid);
		sum += value;
		(void)nanosleep(&pause, NULL);
	}
	(void)gauge_free(g);
	assert_true(sum >= 1);
}

/* As the recorder counts them. */
static void test_mark(void **state)
{
	const struct watch_rule rule = {.when = WATCH_MARK, .mark = "slow request"};
	struct shared_counts *marks;
	struct gauge *g;
	char error[512] = "";

	(void)state;
	assert_int_equal(gauge_new(&rule, "", NULL, &g, error, sizeof(error)), -ENOTSUP);
	assert_non_null(strstr(error, "'slow request' cannot be counted"));
	assert_int_equal(shared_counts_new(&marks), 0);
	shared_counts_add(marks, "slow request", 12, 70);
	assert_int_equal(gauge_new(&rule, "", marks, &g, error, sizeof(error)), 0);
	assert_true(polled(g, S, 0) == 0);
	shared_counts_add(marks, "slow request", 12, 71);
	shared_counts_add(marks, "slow request", 12, 72);
	shared_counts_add(marks, "slow requests", 13, 73);
	assert_true(polled(g, 2 * S, 72) == 2);
	assert_true(polled(g, 3 * S, 0) == 0);
	(void)gauge_free(g);
	(void)shared_counts_free(marks);
}

static int set_up(void **state)
{
	(void)state;
	fake_root_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_root_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process_cpu), cmocka_unit_test(test_process_by_pid),
		cmocka_unit_test(test_memory),	    cmocka_unit_test(test_machine),
		cmocka_unit_test(test_cgroup),	    cmocka_unit_test(test_duration),
		cmocka_unit_test(test_signal),	    cmocka_unit_test(test_mark),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
