/* test-source-count.c - counts against samples, followers, losses exactly, and the change of stack
 * size.
 */
#include <sched.h>
#include <sys/ioctl.h>

#include "tests/unit/perf/source-fixture.h"

#undef fail /* of cmocka */
#include "perf/source-parts.h"

enum { N_FAULTS = 60 };

/* Page faults are exact: one a page. */
static void work_faults(void)
{
	uint8_t *pages = mmap(NULL, N_FAULTS * 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)madvise(pages, N_FAULTS * 4096, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < N_FAULTS; i++) {
		pages[i * 4096] = 1;
		(void)usleep(500); /* slow enough not to be throttled */
	}
}

static void open_faults(struct fixture *f, uint64_t ring_bytes, uint32_t stack_bytes)
{
	fixture_init(f);
	f->options.leader = fixture_software("page-faults", PERF_COUNT_SW_PAGE_FAULTS);
	f->options.frequency = 0;
	f->options.period = 1;
	f->options.stack_bytes = stack_bytes;
	f->options.ring_bytes = ring_bytes;
	f->options.tasks = true;
	assert_int_equal(fixture_open(f), 0);
}

static void test_losses_are_exact(void **state)
{
	struct child child = child_start(work_faults);
	struct perf_counts counts;
	struct fixture f;

	(void)state;
	/* 64 KB copies, 128 KB rings that are not read: 1 or 2 samples fit on each CPU */
	open_faults(&f, 1, 65528);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(ring_size(perf_source_ring(f.source, 0)->ring), 128 << 10);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.lost_exact);
	assert_true(counts.count >= N_FAULTS);
	assert_true(f.n_samples >= 1 && f.n_samples <= 2 * f.options.n_cpus);
	/* every fault is a sample or a loss; no LOST record reported it */
	assert_int_equal(counts.count, f.n_samples + counts.lost_samples);
	assert_int_equal(f.n_lost, 0);
	assert_int_equal(counts.lost_sideband, 0); /* its ring is its own */
	assert_int_equal(f.n_exit, 1);
	fixture_deinit(&f);
}

static void work_faults_in_children(void)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			work_faults();
			_exit(0);
		}
		(void)waitpid(pid, NULL, 0);
	}
}

/* Counts of children that have exited are in their parent's. */
static void test_counts_of_children(void **state)
{
	struct child child = child_start(work_faults_in_children);
	struct perf_counts counts;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.leader = fixture_software("page-faults", PERF_COUNT_SW_PAGE_FAULTS);
	f.options.frequency = 0;
	f.options.period = 1;
	f.options.children = true;
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.count >= 3 * N_FAULTS);
	assert_int_equal(counts.count, f.n_samples + counts.lost_samples);
	assert_int_equal(counts.lost_samples, 0);
	assert_int_equal(f.n_fork, 3);
	fixture_deinit(&f);
}

static void test_task_followers(void **state)
{
	struct child child = child_start(work_faults);
	struct perf_counts counts;
	uint64_t last = 0;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.frequency = 0;
	f.options.period = 50000; /* the child mostly sleeps */
	f.options.n_followers = 1;
	f.options.followers[0] = fixture_software("page-faults", PERF_COUNT_SW_PAGE_FAULTS);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	if (fixture_add(&f, child.pid) < 0 && f.gate == PERF_GATE_OTHER) {
		child_wait(&child);
		fixture_deinit(&f);
		skip_without(false, "inherited events with READ need Linux 6.13");
	}
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	if (geteuid() && f.n_samples <= 3) {
		fixture_deinit(&f);
		skip_without(false,
			     "a fault's time is the kernel's, which this user may not sample");
	}
	assert_true(f.n_samples > 3);
	for (size_t i = 0; i < f.n_samples; i++) {
		assert_int_equal(f.samples[i].n_counts, 2);
		assert_true(f.samples[i].counts[1] <= N_FAULTS + 100);
		last = max_u64(last, f.samples[i].counts[1]);
	}
	assert_true(last > 0);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.count > 0 &&
		    counts.count < 10 * NSEC_PER_SEC); /* of cpu-clock, not of the group's size */
	assert_int_equal(counts.lost_samples, 0);
	fixture_deinit(&f);
}

static void *thread_faults_and_spins(void *arg)
{
	for (int i = 0; i < 4; i++)
		work_faults();
	fixture_spin(20);
	return arg;
}

static void work_two_threads(void)
{
	pthread_t thread;

	(void)pthread_create(&thread, NULL, thread_faults_and_spins, NULL);
	(void)pthread_join(thread, NULL);
	fixture_spin(20); /* this one has few faults of its own, also under a sanitizer */
}

/* Inherited counts are each thread's own, not the sum: or a difference between two samples would
 * mean nothing. */
static void test_followers_of_threads(void **state)
{
	struct child child = child_start(work_two_threads);
	uint64_t of_first = 0, of_second = 0;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.n_followers = 1;
	f.options.followers[0] = fixture_software("page-faults", PERF_COUNT_SW_PAGE_FAULTS);
	f.options.tasks = true;
	assert_int_equal(fixture_open(&f), 0);
	if (fixture_add(&f, child.pid) < 0) {
		child_wait(&child);
		fixture_deinit(&f);
		skip_without(false, "inherited events with READ need Linux 6.13");
	}
	assert_int_equal(perf_source_enable(f.source), 0);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	for (size_t i = 0; i < f.n_samples; i++) {
		const struct seen_sample *s = &f.samples[i];
		uint64_t *of = s->tid == (uint32_t)child.pid ? &of_first : &of_second;

		*of = max_u64(*of, s->counts[1]);
	}
	print_message("faults of the first thread %llu, of the second %llu\n",
		      (unsigned long long)of_first, (unsigned long long)of_second);
	/* a count is of one CPU's event: a thread that moved has its faults in two events */
	assert_true(of_second >= N_FAULTS);
	assert_true(of_first < 2 * N_FAULTS);
	fixture_deinit(&f);
}

static void test_machine(void **state)
{
	struct perf_counts counts;
	uint64_t last[64] = {0}, began, ended, from, to;
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.n_followers = 1;
	f.options.followers[0] =
		fixture_software("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES);
	f.options.callchain = FRAMES_KERNEL;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_n_rings(f.source), 2 * f.options.n_cpus);
	assert_null(perf_source_ring(f.source, 2 * f.options.n_cpus));
	for (size_t i = 0; i < 2 * f.options.n_cpus; i++) {
		const struct perf_ring *ring = perf_source_ring(f.source, i);

		assert_int_equal(ring->cpu, f.cpus[i / 2]);
		assert_int_equal(ring->sideband, i % 2);
	}
	from = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(perf_source_enable(f.source), 0);
	began = clock_ns(CLOCK_MONOTONIC);
	fixture_run(&f, 150);
	ended = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(perf_source_disable(f.source), 0);
	to = clock_ns(CLOCK_MONOTONIC);
	fixture_drain(&f, true);
	assert_true(f.n_samples > 20);
	for (size_t i = 0; i < f.n_samples; i++) {
		const struct seen_sample *s = &f.samples[i];

		assert_int_equal(s->n_counts, 2);
		assert_true(s->counts[1] >= last[s->ring % 64]); /* a running count per CPU */
		last[s->ring % 64] = s->counts[1];
		assert_true(s->time >= from && s->time <= to);
	}
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_int_equal(counts.task_clock_ns, 0);
	/* cpu-clock of a CPU is the time itself */
	assert_true(counts.count >= f.options.n_cpus * (ended - began));
	assert_true(counts.count <= f.options.n_cpus * (to - from));
	fixture_deinit(&f);
}

/* Samples that are not doubles, in time order, as (event, size) that changes at each switch and
 * never comes back. */
static size_t check_spans(const struct fixture *f, uint32_t ring, size_t n_switches,
			  uint64_t seen[64])
{
	uint64_t last_id = 0;
	size_t n_seen = 0, doubles = 0;

	for (size_t i = 0; i < f->n_samples; i++) {
		const struct seen_sample *s = &f->samples[i];

		if (s->ring != ring)
			continue;
		if (perf_source_is_double(f->source, ring, s->id, s->time)) {
			doubles++;
			continue;
		}
		if (s->id == last_id)
			continue;
		for (size_t k = 0; k < n_seen; k++)
			assert_true(seen[k] != s->id);
		assert_true(n_seen < 64);
		seen[n_seen++] = last_id = s->id;
	}
	print_message("%zu events followed each other, %zu doubles\n", n_seen, doubles);
	assert_true(n_seen > 1 && n_seen <= n_switches + 1);
	return n_seen;
}

/* @before and @after are the clock around each switch. */
static void check_doubles(const struct fixture *f, const uint64_t *ids, const uint64_t *before,
			  const uint64_t *after, size_t n_switches)
{
	for (size_t i = 0; i < n_switches; i++) {
		assert_false(perf_source_is_double(f->source, 0, ids[i], before[i]));
		assert_true(perf_source_is_double(f->source, 0, ids[i], after[i]));
		assert_true(perf_source_is_double(f->source, 0, ids[i + 1], before[i]));
		assert_false(perf_source_is_double(f->source, 0, ids[i + 1], after[i]));
	}
	assert_false(perf_source_is_double(f->source, 0, ids[0], 0));
	assert_false(perf_source_is_double(f->source, 0, ids[n_switches], UINT64_MAX - 1));
	assert_false(
		perf_source_is_double(f->source, 1, 12345, after[0])); /* nothing known: keep it */
}

static void test_stack_size(void **state)
{
	enum { N_SWITCHES = 12 };
	uint64_t began, ended, from, to, before[N_SWITCHES], after[N_SWITCHES], ids[64] = {0};
	struct perf_counts counts;
	struct fixture f;
	size_t wide = 0;
	uint32_t cpu;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.frequency = 0;
	f.options.period = 100000;
	f.options.n_cpus = 1;
	f.options.ring_bytes = 8 << 20;
	cpu = f.cpus[0];
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_stack_bytes(f.source, cpu), 8192);
	/* before it runs: nothing to hand over */
	assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, 4096), 0);
	assert_int_equal(perf_source_stack_bytes(f.source, cpu), 4096);
	assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, 4096), 0);

	from = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(perf_source_enable(f.source), 0);
	began = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < N_SWITCHES; i++) {
		fixture_run(&f, 10);
		before[i] = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, i % 2 ? 4096 : 16384),
				 0);
		after[i] = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(perf_source_stack_bytes(f.source, cpu), i % 2 ? 4096 : 16384);
	}
	fixture_run(&f, 10);
	ended = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(perf_source_disable(f.source), 0);
	to = clock_ns(CLOCK_MONOTONIC);
	fixture_drain(&f, true);

	if (check_spans(&f, 0, N_SWITCHES, ids) == N_SWITCHES + 1)
		check_doubles(&f, ids, before, after, N_SWITCHES);
	else
		print_message(
			"an event had no sample at all: the rest of this check is left out\n");
	for (size_t i = 0; i < f.n_samples; i++) {
		/* Less near the end of the address space (a stack without ASLR), none for a kernel
		 * thread. */
		assert_true(f.samples[i].stack_room <= 16384);
		wide += f.samples[i].stack_room == 16384;
	}
	print_message("%zu of %zu samples are wide\n", wide, f.n_samples);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	/* no hole: all time is counted; and twice only while one takes over from the other */
	assert_true(counts.count >= ended - began);
	assert_true(counts.count < (to - from) * 11 / 10 + 10 * NSEC_PER_MSEC);
	assert_int_equal(counts.lost_samples, 0);

	assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, 12), -EINVAL);
	assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, 0), -EINVAL);
	assert_int_equal(perf_source_set_stack_bytes(f.source, cpu, 65536), -EINVAL);
	assert_int_equal(perf_source_set_stack_bytes(f.source, 8191, 4096), -EINVAL);
	assert_int_equal(perf_source_stack_bytes(f.source, 8191), 0);
	assert_false(perf_source_is_double(f.source, 99, 1, 1));
	fixture_deinit(&f);
}

/* More changes than are remembered, with losses: losses of closed events count too. */
static void test_many_sizes(void **state)
{
	struct perf_counts counts;
	cpu_set_t all, one;
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.frequency = 0;
	f.options.period = 1000000;
	f.options.n_cpus = 1;
	f.options.stack_bytes = 32768;
	f.options.ring_bytes = 1;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	/* busy there: an idle CPU's samples have no stack, and fill no ring */
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(f.cpus[0], &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (uint32_t i = 0; i < 40; i++) {
		fixture_spin(4);
		assert_int_equal(
			perf_source_set_stack_bytes(f.source, f.cpus[0], 32768 - 8 * (i + 1)), 0);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.lost_samples > 0);
	/* each of 41 events owes less than a period */
	assert_true(f.n_samples + counts.lost_samples <= counts.count / 1000000);
	fixture_deinit(&f);
}

static void count_cpu(void *n, uint32_t cpu)
{
	(void)cpu;
	++*(unsigned *)n;
}

/* An event that the kernel has switched off, as it does where a CPU goes offline, is replaced, and only that one. */
static void test_reopened(void **state)
{
	struct perf_counts counts;
	struct fixture f;
	unsigned n = 0;
	uint64_t count;
	int dead;

	(void)state;
	skip_without(may_profile_machine(), "CPU-wide events are not permitted");
	fixture_init(&f);
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(perf_source_counts(f.source, &counts), 0);
		perf_source_reopen_cpus(f.source, count_cpu, &n);
	}
	assert_int_equal(n, 0);
	dead = f.source->tasks[0].groups[0].fds[0];
	assert_int_equal(ioctl(dead, PERF_EVENT_IOC_DISABLE, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(perf_source_counts(f.source, &counts), 0);
		perf_source_reopen_cpus(f.source, count_cpu, &n);
	}
	assert_int_equal(n, 1);
	count = counts.count;
	fixture_spin(20);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.count > count);
	assert_int_equal(perf_source_disable(f.source), 0);
	for (int i = 0; i < 3; i++) { /* nothing is dead that was switched off */
		assert_int_equal(perf_source_counts(f.source, &counts), 0);
		perf_source_reopen_cpus(f.source, count_cpu, &n);
	}
	assert_int_equal(n, 1);
	fixture_drain(&f, true);
	assert_true(f.n_samples > 0);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_losses_are_exact),
		cmocka_unit_test(test_counts_of_children),
		cmocka_unit_test(test_task_followers),
		cmocka_unit_test(test_followers_of_threads),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_stack_size),
		cmocka_unit_test(test_many_sizes),
		cmocka_unit_test(test_reopened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
