/* test-source-turns.c - a sample wakes the reader of its ring at once, of tasks, their children and whole CPUs; what is sampled
 * twice while the events change places is known. */
#include "tests/unit/perf/source-fixture.h"

/* One sample in a long time, far below a watermark. */
static void work_little(void)
{
	fixture_spin(30);
}

static void rare(struct perf_options *options)
{
	options->frequency = 100;
}

static void soon(struct perf_options *options)
{
	rare(options);
	options->soon = true;
}

static void read_soon(struct fixture *f, bool on)
{
	for (size_t i = 0; i < f->options.n_cpus; i++)
		assert_int_equal(perf_source_read_soon(f->source, f->cpus[i], on), 0);
}

static void check_wakes(void (*what)(void))
{
	struct fixture f;
	struct child child;

	fixture_follow(&f, &child, what, soon);
	assert_int_equal(perf_source_enable(f.source), 0);
	read_soon(&f, true);
	read_soon(&f, true); /* no change */
	child_go(&child);
	assert_true(fixture_poll(&f, false, 20000) > 0);
	child_wait(&child);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_true(f.n_samples > 0);
	fixture_deinit(&f);
}

/* Of the task itself and of a child that inherited its events. */
static void test_wakes(void **state)
{
	(void)state;
	check_wakes(child_spins);
	check_wakes(child_spins_in_child);
}

/* The same work causes no wake-up where it is off, or was on. */
static void test_off(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	fixture_follow(&f, &child, work_little, soon);
	assert_int_equal(perf_source_enable(f.source), 0);
	read_soon(&f, true);
	read_soon(&f, false);
	child_go(&child);
	child_wait(&child);
	assert_int_equal(fixture_poll(&f, false, 0), 0);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_deinit(&f);
}

static void test_not_wanted(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	fixture_follow(&f, &child, child_spins, rare);
	assert_int_equal(perf_source_read_soon(f.source, f.cpus[0], true), -EOPNOTSUPP);
	fixture_finish(&f, &child);
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
	fixture_follow(&f, &child, child_spins, soon);
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
	/* (The scheduler's clock, which the child spins by, has the switches themselves, too.) */
	assert_true(counts.task_clock_ns >= 190 * NSEC_PER_MSEC);
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
	assert_true(fixture_poll(&f, false, 20000) > 0);
	read_soon(&f, false);
	assert_int_equal(perf_source_stack_bytes(f.source, f.cpus[0]), 8192);
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_deinit(&f);
}

/* ---- sizes ---- */

enum { WORKERS = 3, FORKS = 12, FAMILY_MS = 30, FAMILY = WORKERS * FORKS * 2 };

/* Of the processes of the storm, in memory that they share with the test. */
static struct {
	uint32_t pid;
	uint64_t cpu_ns;
} * family;

static void join_family(uint32_t index)
{
	family[index].pid = (uint32_t)getpid();
	fixture_spin(FAMILY_MS);
}

static void leave_family(uint32_t index)
{
	family[index].cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	_exit(0);
}

static void wait_for_all(void)
{
	while (wait(NULL) > 0)
		;
}

/* Children and children of children, which are forked all the time. */
static void worker(uint32_t first)
{
	for (uint32_t i = first; i < first + 2 * FORKS; i += 2) {
		if (fork() == 0) {
			if (fork() == 0) {
				join_family(i + 1);
				leave_family(i + 1);
			}
			join_family(i);
			wait_for_all();
			leave_family(i);
		}
		wait_for_all();
	}
}

static void storm(void)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		if (fork() == 0) {
			worker(i * 2 * FORKS);
			_exit(0);
		}
	wait_for_all();
}

static void set_bytes(struct fixture *f, uint32_t bytes)
{
	for (size_t i = 0; i < f->options.n_cpus; i++) {
		int r = perf_source_set_stack_bytes(f->source, f->cpus[i], bytes);

		assert_true(r == 0 || r == -EAGAIN);
	}
}

/* Reads what is there, without doubles. */
static void drain_once(struct fixture *f, bool last)
{
	size_t n = f->n_samples, to = n;

	fixture_drain(f, last);
	for (; n < f->n_samples; n++)
		if (!perf_source_is_double(f->source, f->samples[n].ring, f->samples[n].id,
					   f->samples[n].time))
			f->samples[to++] = f->samples[n];
	f->n_samples = to;
}

static void skip_late(struct fixture *f, const struct perf_counts *counts)
{
	if (counts->lost_samples) {
		fixture_deinit(f);
		skip_without(false, "this program was too late for its rings");
	}
}

/* Each child of the storm is sampled, with the copies of each size, and none twice. */
static void check_storm(const struct fixture *f, const struct perf_counts *counts)
{
	size_t small = 0, middle = 0, large = 0;
	uint64_t sum = 0;

	for (size_t i = 0; i < f->n_samples; i++) {
		const struct seen_sample *s = &f->samples[i];

		sum += s->period;
		small += s->stack_room == PERF_SMALL_BYTES;
		middle += s->stack_room == PERF_MIDDLE_BYTES;
		large += s->stack_room == 32768;
	}
	assert_true(small > 0 && middle > 0 && large > 0);
	for (size_t k = 0; k < FAMILY; k++) {
		uint64_t own = 0;

		for (size_t i = 0; i < f->n_samples; i++)
			if (f->samples[i].pid == family[k].pid)
				own += f->samples[i].period;
		assert_true(family[k].cpu_ns >= FAMILY_MS * NSEC_PER_MSEC);
		assert_true(own > 0);
		/* Each event begins a period of its own on each CPU; the exit takes time, too. */
		assert_true(own <= 2 * family[k].cpu_ns);
	}
	assert_true(counts->task_clock_ns >= FAMILY * FAMILY_MS * NSEC_PER_MSEC);
	/* timers that were late, by up to half of the time on a busy virtual machine */
	assert_true(sum >= counts->task_clock_ns / 2);
	assert_true(sum <= counts->task_clock_ns / 10 * 11);
	/* What both events counted while they ran, most of the time, is counted once. */
	assert_true(counts->count <= counts->task_clock_ns / 2 * 3);
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = {PERF_SMALL_BYTES, PERF_MIDDLE_BYTES, 32768,
					 PERF_MIDDLE_BYTES};
	struct perf_counts counts, before = {0};
	struct fixture f;
	struct child child;
	size_t n_sizes = 0;
	int status;

	(void)state;
	family = mmap(NULL, FAMILY * sizeof(*family), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(family, MAP_FAILED);
	child = child_start(storm);
	fixture_init(&f);
	f.options.tasks = f.options.children = f.options.sizes = true;
	f.options.stack_bytes = 32768;
	f.options.ring_bytes = 8 << 20;
	assert_int_equal(fixture_open(&f), 0);
	skip_without(fixture_add(&f, child.pid) == 0, f.error);
	assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[0], 8192), -EOPNOTSUPP);
	assert_int_equal(perf_source_enable(f.source), 0);
	assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[0], 8192), -EINVAL);
	child_go(&child);
	while (waitpid(child.pid, &status, WNOHANG) == 0) {
		if (perf_source_settle(f.source))
			n_sizes++;
		set_bytes(&f, sizes[n_sizes % ARRAY_SIZE(sizes)]);
		drain_once(&f, false);
		assert_int_equal(perf_source_counts(f.source, &counts), 0);
		assert_true(counts.count >= before.count);
		before = counts;
		(void)usleep(5000);
	}
	(void)close(child.go);
	assert_int_equal(perf_source_disable(f.source), 0);
	drain_once(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	skip_late(&f, &counts);
	check_storm(&f, &counts);
	(void)munmap(family, FAMILY * sizeof(*family));
	fixture_deinit(&f);
}

/* While nothing is sampled neither event of a change runs, and the change is off. */
static void test_sizes_held(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	child = child_start(child_spins);
	fixture_init(&f);
	f.options.tasks = f.options.sizes = true;
	f.options.stack_bytes = 32768;
	assert_int_equal(fixture_open(&f), 0);
	skip_without(fixture_add(&f, child.pid) == 0, f.error);
	assert_int_equal(perf_source_enable(f.source), 0);
	for (size_t i = 0; i < f.options.n_cpus; i++)
		assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[i], PERF_SMALL_BYTES),
				 0);
	assert_int_equal(perf_source_sample(f.source, false), 0);
	assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[0], PERF_SMALL_BYTES),
			 -EOPNOTSUPP);
	child_go(&child);
	child_wait(&child);
	(void)usleep(60000);
	assert_false(perf_source_settle(f.source));
	assert_int_equal(perf_source_disable(f.source), 0);
	fixture_drain(&f, true);
	assert_int_equal(fixture_samples_of(&f, (uint32_t)child.pid), 0);
	assert_int_equal(perf_source_stack_bytes(f.source, f.cpus[0]), 32768);
	fixture_deinit(&f);
}

/* Only what a source has opened events for. */
static void test_sizes_not_wanted(void **state)
{
	struct fixture f;
	struct child child;

	(void)state;
	fixture_follow(&f, &child, work_little, soon);
	assert_int_equal(perf_source_enable(f.source), 0);
	assert_int_equal(perf_source_set_stack_bytes(f.source, f.cpus[0], PERF_SMALL_BYTES),
			 -EOPNOTSUPP);
	assert_false(perf_source_settle(f.source));
	fixture_finish(&f, &child);
}

/* ---- rates ---- */

enum { FAST_HZ = 1600 };

/* Samples of each rate, of all processes of the storm together, and each moment once. */
static void check_rates(const struct fixture *f, const struct perf_counts *counts)
{
	size_t n[3] = {0};
	uint64_t sum = 0;

	for (size_t i = 0; i < f->n_samples; i++) {
		uint64_t hz = NSEC_PER_SEC / f->samples[i].period;

		assert_true(hz == FAST_HZ || hz == FAST_HZ / 4 || hz == FAST_HZ / 16);
		n[hz == FAST_HZ ? 0 : hz == FAST_HZ / 4 ? 1 : 2]++;
		sum += f->samples[i].period;
	}
	assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
	/* Each process begins a period of its own on each CPU. */
	assert_true(sum >= counts->task_clock_ns / 4);
	assert_true(sum <= counts->task_clock_ns / 10 * 11);
	assert_true(counts->count <= counts->task_clock_ns / 2 * 3);
}

/* What a lower rate displaces: another size, a wake-up a sample. */
static void check_displaced(struct fixture *f)
{
	uint32_t last = f->cpus[f->options.n_cpus - 1];

	assert_int_equal(perf_source_set_frequency(f->source, FAST_HZ / 2), -EOPNOTSUPP);
	assert_int_equal(perf_source_set_frequency(f->source, FAST_HZ / 256), -EOPNOTSUPP);
	assert_int_equal(perf_source_set_stack_bytes(f->source, f->cpus[0], PERF_SMALL_BYTES), 0);
	assert_int_equal(perf_source_read_soon(f->source, last, true), 0);
	assert_int_equal(perf_source_set_frequency(f->source, FAST_HZ / 4), 0);
	assert_int_equal(perf_source_read_soon(f->source, f->cpus[0], true), -EOPNOTSUPP);
	assert_int_equal(perf_source_set_stack_bytes(f->source, f->cpus[0], PERF_SMALL_BYTES),
			 -EAGAIN);
}

static void test_rates(void **state)
{
	static const uint64_t rates[] = {FAST_HZ / 4, FAST_HZ / 16, FAST_HZ};
	struct perf_counts counts;
	struct fixture f;
	struct child child;
	size_t n = 0;
	int status;

	(void)state;
	family = mmap(NULL, FAMILY * sizeof(*family), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(family, MAP_FAILED);
	child = child_start(storm);
	fixture_init(&f);
	f.options.tasks = f.options.children = f.options.sizes = f.options.soon = f.options.rates =
		true;
	f.options.frequency = FAST_HZ;
	f.options.stack_bytes = 32768;
	f.options.ring_bytes = 8 << 20;
	assert_int_equal(fixture_open(&f), 0);
	skip_without(fixture_add(&f, child.pid) == 0, f.error);
	assert_int_equal(perf_source_enable(f.source), 0);
	check_displaced(&f);
	child_go(&child);
	while (waitpid(child.pid, &status, WNOHANG) == 0) {
		if (perf_source_settle(f.source))
			assert_int_equal(
				perf_source_set_frequency(f.source, rates[++n % ARRAY_SIZE(rates)]),
				0);
		drain_once(&f, false);
		(void)usleep(5000);
	}
	(void)close(child.go);
	assert_int_equal(perf_source_disable(f.source), 0);
	drain_once(&f, true);
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	(void)munmap(family, FAMILY * sizeof(*family));
	skip_late(&f, &counts);
	check_rates(&f, &counts);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wakes),	   cmocka_unit_test(test_off),
		cmocka_unit_test(test_not_wanted), cmocka_unit_test(test_weights),
		cmocka_unit_test(test_machine),	   cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_held), cmocka_unit_test(test_sizes_not_wanted),
		cmocka_unit_test(test_rates),
	};

	return cmocka_run_group_tests_name("source-turns", tests, NULL, NULL);
}
