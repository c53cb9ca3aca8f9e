/* test-source.c - source.h in tasks mode on real children: threads, forks, exec, exits, doubles.
 */
#include "tests/unit/perf/source-fixture.h"

static void work_100ms(void)
{
	fixture_spin(100);
}

static void *thread_100ms(void *arg)
{
	fixture_spin(100);
	return arg;
}

static void work_threads(void)
{
	pthread_t threads[2];

	for (size_t i = 0; i < 2; i++)
		(void)pthread_create(&threads[i], NULL, thread_100ms, NULL);
	for (size_t i = 0; i < 2; i++)
		(void)pthread_join(threads[i], NULL);
}

/* 100 ms itself, 100 ms in a child that has exited when it ends. */
static void work_fork(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		fixture_spin(100);
		_exit(0);
	}
	fixture_spin(100);
	(void)waitpid(pid, NULL, 0);
}

/* The whole of a child's work under a source in tasks mode. */
static void profile(struct fixture *f, struct child *child)
{
	f->options.tasks = true;
	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(perf_source_n_rings(f->source), 0);
	assert_int_equal(fixture_add(f, child->pid), 0);
	assert_int_equal(perf_source_n_rings(f->source), 2 * f->options.n_cpus);
	assert_int_equal(perf_source_enable(f->source), 0);
	child_go(child);
	child_wait(child);
	assert_int_equal(perf_source_disable(f->source), 0);
	fixture_drain(f, true);
}

static void check_weights(const struct fixture *f, uint64_t at_least_ms, struct perf_counts *counts)
{
	uint64_t weight = 0;

	assert_int_equal(perf_source_counts(f->source, counts), 0);
	for (size_t i = 0; i < f->n_samples; i++)
		weight += f->samples[i].period;
	/* the work is measured in CPU time, so a busy machine does not change it */
	assert_true(counts->task_clock_ns >= (at_least_ms - 1) * NSEC_PER_MSEC);
	/* each thread and CPU may owe one period; a sample never comes before its time */
	assert_true(weight <= counts->count + 8 * 1001001);
	assert_true(weight >= counts->count / 2); /* a stalled virtual CPU skips ticks */
	/* cpu-clock of a task's event counts the time it is scheduled: its CPU time */
	assert_true(counts->count <= counts->task_clock_ns * 11 / 10 + NSEC_PER_MSEC);
	assert_true(counts->count >= counts->task_clock_ns * 9 / 10 - NSEC_PER_MSEC);
	assert_int_equal(counts->lost_samples, 0);
	assert_int_equal(counts->lost_sideband, 0);
}

static void test_one_task(void **state)
{
	struct child child = child_start(work_100ms);
	struct perf_counts counts;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	profile(&f, &child);
	check_weights(&f, 100, &counts);
	assert_true(f.n_samples >= 20);
	for (size_t i = 0; i < f.n_samples; i++) {
		const struct seen_sample *s = &f.samples[i];

		assert_int_equal(s->pid, child.pid);
		assert_int_equal(s->tid, child.pid);
		assert_int_equal(s->stack_room, 8192);
		assert_true(s->stack_len > 0 && s->stack_len <= 8192);
		assert_int_equal(s->regs_abi, 2);
		assert_int_equal(s->period, 1001001);
		assert_int_equal(s->n_counts, 0);
		assert_true(i == 0 || s->time >= f.samples[i - 1].time);
		assert_false(perf_source_is_double(f.source, s->ring, s->id, s->time));
		assert_false(perf_source_is_inherited_double(f.source, s->id, (pid_t)s->tid));
	}
	assert_int_equal(f.n_exit, 1);
	assert_int_equal(f.n_notes, 0);
	assert_false(perf_source_kernel_refused(f.source));
	assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[0], 16384), -EOPNOTSUPP);
	fixture_deinit(&f);
}

static void test_threads_are_followed(void **state)
{
	struct child child = child_start(work_threads);
	uint32_t tids[8];
	struct perf_counts counts;
	size_t n = 0;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	profile(&f, &child);
	check_weights(&f, 200, &counts);
	assert_int_equal(f.n_fork, 2);
	assert_int_equal(f.n_exit, 3);
	assert_int_equal(fixture_samples_of(&f, (uint32_t)child.pid), f.n_samples);
	for (size_t i = 0; i < f.n_samples; i++) {
		size_t t = 0;

		while (t < n && tids[t] != f.samples[i].tid)
			t++;
		if (t == n && n < ARRAY_SIZE(tids))
			tids[n++] = f.samples[i].tid;
	}
	assert_true(n >= 2 && n <= 3);
	fixture_deinit(&f);
}

static void test_children(void **state)
{
	(void)state;
	for (int children = 0; children <= 1; children++) {
		struct child child = child_start(work_fork);
		struct perf_counts counts;
		struct fixture f;

		fixture_init(&f);
		f.options.children = children;
		profile(&f, &child);
		check_weights(&f, children ? 200 : 100, &counts);
		if (children) {
			assert_true(fixture_samples_of(&f, (uint32_t)child.pid) < f.n_samples);
			assert_int_equal(f.n_exit, 2);
		} else {
			assert_int_equal(fixture_samples_of(&f, (uint32_t)child.pid), f.n_samples);
			assert_true(counts.task_clock_ns < 190 * NSEC_PER_MSEC);
			assert_int_equal(f.n_exit, 1);
		}
		fixture_deinit(&f);
	}
}

/* Linux 5.10: children come along and the caller leaves them out; no losses, no follower counts, no
 * build ids. */
static void test_no_features(void **state)
{
	struct child child = child_start(work_fork);
	struct perf_counts counts;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	memset(&f.options.features, 0, sizeof(f.options.features));
	f.options.n_followers = 1;
	f.options.followers[0] = fixture_software("page-faults", PERF_COUNT_SW_PAGE_FAULTS);
	profile(&f, &child);
	check_weights(&f, 200, &counts);
	assert_false(counts.lost_exact);
	assert_int_equal(perf_source_options(f.source)->n_followers, 0);
	assert_true(fixture_noted(&f, "Linux 6.13"));
	assert_true(fixture_samples_of(&f, (uint32_t)child.pid) < f.n_samples);
	assert_true(fixture_samples_of(&f, (uint32_t)child.pid) > 0);
	assert_int_equal(f.n_build_id, 0);
	fixture_deinit(&f);
}

static void work_exec(void)
{
	fixture_spin(50); /* before the exec: not to be seen */
	(void)execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done",
		    (char *)NULL);
	_exit(127);
}

static void test_enable_on_exec(void **state)
{
	struct child child = child_start(work_exec);
	struct perf_counts counts;
	uint64_t before, weight = 0;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	f.options.children = true;
	f.options.enable_on_exec = true;
	f.options.kernel_build_ids = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	child_go(&child);
	(void)usleep(20000);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	before = counts.count;
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);

	assert_int_equal(before, 0);
	assert_true(f.n_samples > 5);
	assert_int_equal(f.n_exec, 1);
	assert_true(f.n_mmap >= 3); /* sh, ld.so, libc */
	assert_true(f.n_build_id >= 2);
	assert_int_equal(f.n_exit, 1);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	for (size_t i = 0; i < f.n_samples; i++)
		weight += f.samples[i].period;
	assert_true(weight <= counts.count + 2 * 1001001);
	fixture_deinit(&f);
}

static void test_gone(void **state)
{
	struct child child = child_start(work_100ms);
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	child_wait(&child); /* without a start signal: it just exits */
	assert_int_equal(fixture_add(&f, child.pid), PERF_TASK_GONE);
	assert_int_equal(perf_source_n_rings(f.source), 0);
	assert_int_equal(fixture_add(&f, 0), -EINVAL); /* not ourselves */
	assert_int_equal(fixture_add(&f, -1), -EINVAL);
	/* the source is as good as new */
	child = child_start(work_100ms);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	fixture_drain(&f, true);
	assert_true(f.n_samples > 0);
	fixture_deinit(&f);
}

/* An exited task keeps its counts, and its ring neither hangs up nor stops for the others. */
static void test_first_task_dies(void **state)
{
	struct child first = child_start(work_100ms), second = child_start(work_100ms);
	struct perf_counts counts;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, first.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&first);
	child_wait(&first);
	fixture_run(&f, 10);
	for (size_t i = 0; i < perf_source_n_rings(f.source); i++) {
		struct pollfd p = {.fd = perf_source_ring(f.source, i)->fd, .events = POLLIN};

		(void)poll(&p, 1, 0); /* takes what was signalled before */
		assert_int_equal(poll(&p, 1, 0), 0);
	}
	assert_int_equal(fixture_add(&f, second.pid), 0); /* enabled at once, as the source is */
	child_go(&second);
	child_wait(&second);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	check_weights(&f, 200, &counts);
	assert_true(fixture_samples_of(&f, (uint32_t)first.pid) > 10);
	assert_true(fixture_samples_of(&f, (uint32_t)second.pid) > 10);
	fixture_deinit(&f);
}

/* work_late_thread's thread, for the parent to add although it has inherited. */
static pid_t *shared_tid;

static void *thread_reports_tid(void *arg)
{
	*(volatile pid_t *)shared_tid = gettid();
	while (*(volatile pid_t *)shared_tid)
		(void)usleep(1000);
	fixture_spin(100);
	return arg;
}

static void work_late_thread(void)
{
	pthread_t thread;

	(void)pthread_create(&thread, NULL, thread_reports_tid, NULL);
	(void)pthread_join(thread, NULL);
}

static void test_inherited_double(void **state)
{
	struct child child;
	uint64_t all = 0, kept = 0;
	struct fixture f;
	pid_t tid;

	(void)state;
	shared_tid = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared_tid != MAP_FAILED);
	child = child_start(work_late_thread);
	fixture_init(&f);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	while ((tid = *(volatile pid_t *)shared_tid) == 0)
		(void)usleep(1000);
	assert_int_equal(fixture_add(&f, tid), 0);
	*(volatile pid_t *)shared_tid = 0;
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	for (size_t i = 0; i < f.n_samples; i++) {
		if (f.samples[i].tid != (uint32_t)tid)
			continue;
		all++;
		kept += !perf_source_is_inherited_double(f.source, f.samples[i].id, tid);
	}
	/* both of its events tick alike: one of two is left */
	assert_true(kept >= 20);
	assert_true(all >= kept * 3 / 2);
	assert_true(kept <= 140); /* 100 ms of CPU time, and what it waited with */
	perf_source_forget_task(f.source, tid);
	for (size_t i = 0; i < f.n_samples; i++)
		assert_false(perf_source_is_inherited_double(f.source, f.samples[i].id, tid));
	fixture_deinit(&f);
	(void)munmap(shared_tid, 4096);
}

static void test_chain_and_clock(void **state)
{
	struct child child = child_start(work_100ms);
	uint64_t from = clock_ns(CLOCK_BOOTTIME);
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.stack_bytes = 0;
	f.options.callchain = FRAMES_ALL;
	f.options.clock = CLOCK_BOOTTIME;
	profile(&f, &child);
	assert_true(f.n_samples > 20);
	for (size_t i = 0; i < f.n_samples; i++) {
		assert_int_equal(f.samples[i].stack_room, 0);
		assert_int_equal(f.samples[i].regs_abi, 0);
		assert_true(f.samples[i].n_chain >= 2);
		assert_true(f.samples[i].time >= from &&
			    f.samples[i].time <= clock_ns(CLOCK_BOOTTIME));
	}
	fixture_deinit(&f);
}

static void test_fds(void **state)
{
	struct child child = child_start(work_100ms);
	size_t before, after;
	struct fixture f;
	int probe;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0); /* the rings' own are open now */
	probe = dup(0);
	before = (size_t)probe;
	(void)close(probe);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	probe = dup(0);
	after = (size_t)probe;
	(void)close(probe);
	assert_int_equal(after - before, perf_source_fds_per_task(&f.options));
	assert_int_equal(perf_source_fds_per_task(&f.options), 2 * f.options.n_cpus + 1);
	fixture_deinit(&f);
	probe = dup(0);
	assert_true((size_t)probe < before); /* all given back */
	(void)close(probe);
	child_wait(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_task),	cmocka_unit_test(test_threads_are_followed),
		cmocka_unit_test(test_children),	cmocka_unit_test(test_no_features),
		cmocka_unit_test(test_enable_on_exec),	cmocka_unit_test(test_gone),
		cmocka_unit_test(test_first_task_dies), cmocka_unit_test(test_inherited_double),
		cmocka_unit_test(test_chain_and_clock), cmocka_unit_test(test_fds),
	};

	/* What is compared is CPU time, the kernel's too. */
	if (geteuid()) {
		puts("a task's kernel code may not be sampled by this user");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
