/* test-source-rings.c - sizes of rings: what is asked, the budget of all, the limit of locked
 * memory; wake-ups.
 */
#include "perf/gate.h"
#include "tests/unit/perf/source-fixture.h"

static void work_100ms(void)
{
	fixture_spin(100);
}

static void work_wait(void)
{
	(void)pause();
}

/* A source in tasks mode on a child that does nothing, for the size of its rings. */
static void open_idle(struct fixture *f, struct child *child)
{
	*child = child_start(work_wait);
	f->options.tasks = true;
	if (fixture_open(f) != 0 || fixture_add(f, child->pid) != 0)
		(void)fprintf(stderr, "%s\n", f->error);
}

static void end_idle(struct fixture *f, struct child *child)
{
	fixture_deinit(f);
	child_wait(child);
}

static uint64_t sampling_ring(const struct fixture *f)
{
	return ring_size(perf_source_ring(f->source, 0)->ring);
}

static void check_size(uint32_t stack_bytes, uint64_t frequency, uint64_t ring_bytes,
		       uint64_t budget, uint64_t wanted, uint64_t wanted_sideband)
{
	struct child child;
	struct fixture f;

	fixture_init(&f);
	f.options.stack_bytes = stack_bytes;
	f.options.frequency = frequency;
	f.options.ring_bytes = ring_bytes;
	/* a CPU's share, so that the figures hold on any machine */
	f.options.ring_budget = budget * f.options.n_cpus;
	open_idle(&f, &child);
	assert_non_null(perf_source_ring(f.source, 0));
	assert_int_equal(sampling_ring(&f), wanted);
	assert_int_equal(ring_size(perf_source_ring(f.source, 1)->ring), wanted_sideband);
	assert_int_equal(perf_source_options(f.source)->ring_bytes, wanted);
	end_idle(&f, &child);
}

static void test_sizes(void **state)
{
	(void)state;
	skip_without(geteuid() == 0, "an ordinary user's limit of locked memory decides");
	/* 250 samples of 16616 bytes just fit 4 MiB, of 65528 bytes 16 MiB, of 24 KB the next power
	 * of two */
	check_size(16384, 999, 0, 1ull << 30, 4 << 20, 256 << 10);
	check_size(65528, 999, 0, 1ull << 30, 16 << 20, 256 << 10);
	check_size(24576, 999, 0, 1ull << 30, 8 << 20, 256 << 10);
	/* no stacks, few samples: the smallest */
	check_size(0, 99, 0, 1ull << 30, 64 << 10, 256 << 10);
	check_size(8192, 999, 3 << 20, 1ull << 30, 4 << 20, 256 << 10);
	check_size(65528, 999, 4096, 1ull << 30, 128 << 10, 256 << 10); /* two records at least */
	check_size(16384, 999, UINT64_MAX, 8 << 20, 4 << 20, 256 << 10);
	/* budget: the sampling rings give way first, then the sideband's */
	check_size(65528, 4000, 0, 5 << 20, 4 << 20, 256 << 10);
	check_size(65528, 4000, 0, 512 << 10, 256 << 10, 128 << 10);
	check_size(65528, 4000, 0, 1, 128 << 10, 32 << 10);
}

static void test_budget_is_reported(void **state)
{
	struct child child;
	struct fixture f;

	(void)state;
	skip_without(geteuid() == 0, "an ordinary user's limit of locked memory decides");
	fixture_init(&f);
	f.options.stack_bytes = 65528;
	f.options.frequency = 1000;
	f.options.ring_budget = (1 << 20) * f.options.n_cpus;
	open_idle(&f, &child);
	/* 512 KB hold 8 records of 64 KB: 8 ms at 1000 Hz */
	assert_true(fixture_noted(&f, "rings of 512 KiB a CPU instead of 16384"));
	assert_true(fixture_noted(&f, "8 ms of samples"));
	assert_int_equal(f.n_notes, 1);
	end_idle(&f, &child);
}

static void limit_memlock(rlim_t bytes)
{
	struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

static void unprivileged_rings(void)
{
	struct perf_counts counts;
	struct child child;
	struct fixture f;

	limit_memlock(64 << 10);
	fixture_init(&f);
	f.options.stack_bytes = 65528;
	open_idle(&f, &child);
	CHECK(f.source && perf_source_n_rings(f.source) == 2 * f.options.n_cpus);
	CHECK(sampling_ring(&f) < 16 << 20 && sampling_ring(&f) >= 128 << 10);
	CHECK(fixture_noted(&f, "limit of locked memory"));
	CHECK(perf_source_counts(f.source, &counts) == 0 && counts.small_rings);
	CHECK(fixture_noted(&f, "ms of samples"));
	CHECK(fixture_noted(&f, "user code only"));
	CHECK(f.n_notes == 2); /* each printed once */
	end_idle(&f, &child);
}

static void unprivileged_nothing_left(void)
{
	struct fixture f[16];
	struct child child;
	size_t n;

	limit_memlock(0);
	for (n = 0; n < ARRAY_SIZE(f); n++) {
		fixture_init(&f[n]);
		f[n].options.stack_bytes = 65528;
		f[n].options.tasks = true;
		child = child_start(work_wait);
		CHECK(fixture_open(&f[n]) == 0);
		if (fixture_add(&f[n], child.pid) < 0)
			break;
	}
	CHECK(n >= 1 && n < ARRAY_SIZE(f));
	CHECK(f[n].gate == PERF_GATE_MLOCK);
	CHECK(strstr(f[n].error, "limit of locked memory") &&
	      strstr(f[n].error, "hint: sudo sysctl kernel.perf_event_mlock_kb=2048"));
	CHECK(perf_source_n_rings(f[n].source) == 0);
	/* room again: the same source works */
	f[n - 1].source = perf_source_free(f[n - 1].source);
	CHECK(fixture_add(&f[n], child.pid) == 0);
	CHECK(sampling_ring(&f[n]) >= 128 << 10);
}

/* The first of several sources leaves the others their part of the memory that may be locked. */
static void unprivileged_shares(void)
{
	enum { SOURCES = 3 };
	struct fixture f[SOURCES];
	struct child child[SOURCES];

	for (uint32_t i = 0; i < SOURCES; i++) {
		fixture_init(&f[i]);
		f[i].options.stack_bytes = 65528;
		f[i].options.frequency = 4000;
		f[i].options.n_sources = SOURCES;
		open_idle(&f[i], &child[i]);
		CHECK(f[i].source && sampling_ring(&f[i]) >= 128 << 10);
		CHECK(sampling_ring(&f[i]) >= sampling_ring(&f[0]) / 2);
		CHECK(fixture_noted(&f[i], "limit of locked memory"));
	}
	for (size_t i = SOURCES; i-- > 0;) /* a child has the pipes of those before it */
		end_idle(&f[i], &child[i]);
}

/* The limit is that of all CPUs that are online, also for a source on one of them. */
static void unprivileged_one_cpu(void)
{
	enum { SOURCES = 2, RLIMIT = 64 << 10, SIDEBAND = 256 << 10 };
	uint64_t kib = (uint64_t)gate_sysctl("perf_event_mlock_kb", 0), ring = 16 << 20;
	uint64_t cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t share = ((cpus * kib << 10) + RLIMIT) / SOURCES;
	struct child child;
	struct fixture f;

	limit_memlock(RLIMIT);
	fixture_init(&f);
	f.options.n_cpus = 1;
	f.options.ring_bytes = ring;
	f.options.n_sources = SOURCES;
	open_idle(&f, &child);
	while (ring + SIDEBAND > share && ring > 64 << 10)
		ring /= 2;
	CHECK(f.source && sampling_ring(&f) == ring);
	end_idle(&f, &child);
}

static void test_memlock(void **state)
{
	(void)state;
	skip_without(geteuid() == 0, "another uid is taken for this");
	as_user(65534, unprivileged_rings);
	as_user(65533, unprivileged_nothing_left);
	as_user(65532, unprivileged_shares);
	as_user(65531, unprivileged_one_cpu);
}

/* A reader that sleeps in poll() is woken by the watermark, well before the ring is full. */
static void test_wakes(void **state)
{
	struct child child = child_start(work_100ms);
	uint64_t woken = 0;
	struct fixture f;
	struct pollfd p[64];
	size_t n;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	f.options.ring_bytes = 512 << 10;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	n = min_u64(f.options.n_cpus, ARRAY_SIZE(p));
	for (size_t i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = perf_source_ring(f.source, 2 * i)->fd,
				       .events = POLLIN};
	child_go(&child);
	/* 100 samples of 8.4 KB: six wake-ups at a quarter of the ring */
	while (poll(p, n, 300) > 0)
		for (size_t i = 0; i < n; i++) {
			uint64_t waits = ring_backlog(perf_source_ring(f.source, 2 * i)->ring);

			if (!p[i].revents)
				continue;
			assert_int_equal(p[i].revents, POLLIN);
			woken++;
			assert_true(waits > 0 && waits < 400 << 10);
			fixture_drain(&f, false);
		}
	child_wait(&child);
	assert_true(woken >= 2 && woken <= 20);
	fixture_deinit(&f);
}

/* Where copies can be smaller a wake-up has more records; the rest of the ring is for the time until the reader runs. */
static void test_wakes_of_sizes(void **state)
{
	struct child child = child_start(child_spins);
	struct pollfd p[64];
	struct fixture f;
	size_t n;

	(void)state;
	fixture_init(&f);
	f.options.tasks = f.options.sizes = true;
	f.options.stack_bytes = 65528;
	f.options.ring_bytes = 1 << 20;
	assert_int_equal(fixture_open(&f), 0);
	assert_int_equal(fixture_add(&f, child.pid), 0);
	assert_int_equal(perf_source_enable(f.source), 0);
	n = min_u64(f.options.n_cpus, ARRAY_SIZE(p));
	for (size_t i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = perf_source_ring(f.source, 2 * i)->fd,
				       .events = POLLIN};
	child_go(&child);
	assert_true(poll(p, n, 10000) > 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t waits = ring_backlog(perf_source_ring(f.source, 2 * i)->ring);

		if (p[i].revents)
			assert_true(waits > (1 << 20) / 8 * 3);
	}
	child_wait(&child);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	       cmocka_unit_test(test_budget_is_reported),
		cmocka_unit_test(test_memlock),	       cmocka_unit_test(test_wakes),
		cmocka_unit_test(test_wakes_of_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
