/* test-source-soon.c - a sample wakes the reader of its ring at once, of tasks, their children and whole CPUs; what is sampled
 * twice while the events change places is known. */
#include "tests/unit/perf/source-fixture.h"

static void work(void)
{
	fixture_spin(200);
}

static void work_in_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		fixture_spin(200);
		_exit(0);
	}
	_exit(waitpid(pid, NULL, 0) != pid);
}

/* One sample in a long time, far below a watermark. */
static void work_little(void)
{
	fixture_spin(30);
}

static bool begin(struct fixture *f, struct child *child, bool soon, void (*what)(void))
{
	*child = child_start(what);
	fixture_init(f);
	f->options.tasks = true;
	f->options.children = true;
	f->options.soon = soon;
	f->options.frequency = 100;
	assert_int_equal(fixture_open(f), 0);
	if (fixture_add(f, child->pid) == 0)
		return true;
	print_message("skipped: %s\n", f->error);
	child_go(child);
	child_wait(child);
	fixture_deinit(f);
	return false;
}

static void read_soon(struct fixture *f, bool on)
{
	for (size_t i = 0; i < f->options.n_cpus; i++)
		assert_int_equal(perf_source_read_soon(f->source, f->cpus[i], on), 0);
}

static int wait_for_samples(struct fixture *f, int timeout_ms)
{
	struct pollfd fds[256];
	nfds_t n = 0;

	for (size_t i = 0; i < perf_source_n_rings(f->source) && n < ARRAY_SIZE(fds); i++)
		if (!perf_source_ring(f->source, i)->sideband)
			fds[n++] = (struct pollfd){perf_source_ring(f->source, i)->fd, POLLIN, 0};
	return poll(fds, n, timeout_ms);
}

static void check_wakes(void (*what)(void))
{
	struct fixture f;
	struct child child;

	if (!begin(&f, &child, true, what))
		skip();
	assert_int_equal(perf_source_enable(f.source), 0);
	read_soon(&f, true);
	read_soon(&f, true); /* no change */
	child_go(&child);
	assert_true(wait_for_samples(&f, 20000) > 0);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_true(f.n_samples > 0);
	fixture_deinit(&f);
}

static void test_wakes(void **state)
{
	(void)state;
	check_wakes(work);
}

static void test_wakes_by_a_child(void **state)
{
	(void)state;
	check_wakes(work_in_child);
}

/* The same work causes no wake-up where it is off, or was on. */
static void test_off(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	if (!begin(&f, &child, true, work_little))
		skip();
	assert_int_equal(perf_source_enable(f.source), 0);
	read_soon(&f, true);
	read_soon(&f, false);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(wait_for_samples(&f, 0), 0);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_deinit(&f);
}

static void test_not_wanted(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	if (!begin(&f, &child, false, work))
		skip();
	assert_int_equal(perf_source_read_soon(f.source, f.cpus[0], true), -EOPNOTSUPP);
	child_go(&child);
	child_wait(&child);
	fixture_deinit(&f);
}

/* All CPU time of the task is sampled once, although the events change places all the time. */
static void test_weights(void **state)
{
	struct perf_counts counts;
	struct fixture f;
	struct child child;
	uint64_t sum = 0;
	bool on = false;
	int status;

	(void)state;
	if (!begin(&f, &child, true, work))
		skip();
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	while (waitpid(child.pid, &status, WNOHANG) == 0) {
		read_soon(&f, on = !on);
		fixture_drain(&f, false);
		(void)usleep(20000);
	}
	(void)close(child.go);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	for (size_t i = 0; i < f.n_samples; i++)
		if (!perf_source_is_double(f.source, f.samples[i].ring, f.samples[i].id,
					   f.samples[i].time))
			sum += f.samples[i].period;
	assert_true(counts.task_clock_ns >= 200 * NSEC_PER_MSEC);
	assert_true(counts.count >= counts.task_clock_ns / 2);
	/* Each event keeps a part of a period. */
	assert_true(sum <= counts.task_clock_ns * 3 / 2);
	assert_true(sum + 2 * f.options.n_cpus * 10 * NSEC_PER_MSEC >= counts.task_clock_ns / 2);
	fixture_deinit(&f);
}

static void test_machine(void **state)
{
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "CPU-wide events are not permitted");
	fixture_init(&f);
	f.options.soon = true;
	f.options.frequency = 100;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	assert_int_equal(perf_source_read_soon(f.source, 1 << 20, true), -EOPNOTSUPP);
	read_soon(&f, true);
	fixture_spin(50);
	assert_true(wait_for_samples(&f, 20000) > 0);
	read_soon(&f, false);
	assert_int_equal(perf_source_stack_bytes(f.source, f.cpus[0]), 8192);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wakes),	cmocka_unit_test(test_wakes_by_a_child),
		cmocka_unit_test(test_off),	cmocka_unit_test(test_not_wanted),
		cmocka_unit_test(test_weights), cmocka_unit_test(test_machine),
	};

	return cmocka_run_group_tests_name("source-soon", tests, NULL, NULL);
}
