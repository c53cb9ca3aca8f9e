/* test-session-calls.c - each allocation and system call with which a session is made, or started, fails once: the session is not there
 * and one line states why, or it is there without what is not essential.  No descriptor is left, and the next session works. */
#include "tests/unit/session/session-fixture.h"

#include "marks/mark-rings.h"
#include "perf/at-sample.h"
#include "tests/unit/fail-calls.h"

enum { MOST = 20000 };

/* true: the session needs fewer than @n calls. */
static bool make_once(struct fixture *f, unsigned long n, size_t files, long held)
{
	bool reached;
	int r;

	f->error[0] = 0;
	calls_fail(n);
	r = fixture_open(f);
	reached = calls_made >= n;
	calls_fail(0);
	if (r >= 0)
		f->session = session_free(f->session);
	else if (!f->error[0] || f->session)
		print_error("call %lu: %s, no line\n", n, strerror(-r));
	assert_true(r >= 0 || (f->error[0] && !f->session));
	if (open_files() != files)
		print_error("call %lu (%s): %zu descriptors left\n", n, r < 0 ? f->error : "made",
			    open_files() - files);
	assert_int_equal(open_files(), files);
	if (malloc_held != held)
		print_error("call %lu (%s): %ld blocks left\n", n, r < 0 ? f->error : "made",
			    malloc_held - held);
	assert_int_equal(malloc_held, held);
	return !reached;
}

/* Rings that are made fast, and no process that takes the CPU. */
static void fixture_init_small(struct fixture *f)
{
	fixture_init(f);
	f->options.ring_bytes = 64 << 10;
	assert_int_equal(kill(f->child, SIGSTOP), 0);
}

static void sweep(struct fixture *f)
{
	unsigned long n = 1;
	size_t files;
	long held;
	int r = fixture_open(f); /* what libraries keep they keep from now on */

	if (r == -EACCES || r == -EPERM) {
		fixture_deinit(f);
		print_message("events of CPUs are not permitted (kernel.perf_event_paranoid)\n");
		skip();
	}
	assert_int_equal(r, 0);
	f->session = session_free(f->session);
	files = open_files();
	held = malloc_held;
	while (n < MOST && !make_once(f, n, files, held))
		n++;
	print_message("%lu calls\n", n - 1);
	assert_true(n > 10 && n < MOST);
	fixture_start(f);
	fixture_deinit(f);
}

static void test_machine(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init_small(&f);
	sweep(&f);
}

static void test_task(void **state)
{
	struct fixture f;
	uint32_t pid;

	(void)state;
	fixture_init_small(&f);
	pid = (uint32_t)f.child;
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	f.options.children = true;
	f.options.max_cpu_ppm = 10000; /* events of other rates, too */
	sweep(&f);
}

/* Switches have rings of their own, and waits their tables. */
static void test_off_cpu(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init_small(&f);
	f.spec.config = PERF_COUNT_SW_DUMMY;
	f.options.frequency = 0;
	f.options.period = 1;
	f.options.waits = SESSION_WAITS_OFF_CPU;
	f.options.wakers = true;
	sweep(&f);
}

/* All time of the threads: the samples of a clock are their running time. */
static void test_wall(void **state)
{
	struct fixture f;
	uint32_t pid;

	(void)state;
	fixture_init_small(&f);
	pid = (uint32_t)f.child;
	f.spec.config = PERF_COUNT_SW_TASK_CLOCK;
	f.options.frequency = 0;
	f.options.period = NSEC_PER_MSEC;
	f.options.waits = SESSION_WAITS_WALL;
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	sweep(&f);
}

/* A BPF program in each event, which the session asks for its parts. */
static void test_at_sample(void **state)
{
	struct at_sample *at_sample = NULL;
	struct at_sample_options options = {.deep = true, .python = true, .later = true};
	struct fixture f;
	char why[256];

	(void)state;
	fixture_init_small(&f);
	probe_bpf(&f.options.features);
	options.features = &f.options.features;
	assert_int_equal(at_sample_new(&options, &at_sample, why, sizeof(why)), 0);
	f.options.at_sample = at_sample;
	if (at_sample)
		sweep(&f);
	else
		fixture_deinit(&f);
	(void)at_sample_free(at_sample);
}

/* Marks of targets, and the records for perf: new for each session. */
static int make_parts(void *arg)
{
	const struct mark_rings_options marks = {0};
	struct fixture *f = arg;
	unsigned long n = calls_fail_at;
	int r;

	calls_fail_at = 0;
	assert_int_equal(mark_rings_new(&marks, &f->options.mark_rings), 0);
	assert_int_equal(perfdata_out_new(memfd_create("raw", MFD_CLOEXEC), &f->options.raw), 0);
	f->error[0] = 0;
	calls_fail_at = n;
	r = fixture_open(f);
	assert_true(r >= 0 || f->error[0]);
	calls_fail_at = 0;
	if (r >= 0)
		f->session = session_free(f->session);
	f->options.raw = perfdata_out_free(f->options.raw);
	f->options.mark_rings = mark_rings_free(f->options.mark_rings);
	calls_fail_at = n;
	return r;
}

/* A session that is there is started.  It runs then, or has ended with a line. */
static int start(void *arg)
{
	struct fixture *f = arg;
	unsigned long n = calls_fail_at;
	const char *why = "";
	int r;

	calls_fail_at = 0;
	sink_memory_clear(f->sink);
	assert_int_equal(fixture_open(f), 0);
	calls_fail_at = n;
	r = session_start(f->session);
	if (r >= 0)
		r = session_error(f->session, &why);
	calls_fail_at = 0;
	if (r >= 0)
		assert_int_equal(session_state(f->session), SESSION_RUNNING);
	else if (session_error(f->session, NULL) < 0)
		assert_true(*why);
	f->session = session_free(f->session);
	calls_fail_at = n;
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

static void sweep_if_permitted(struct fixture *f, const char *name, int (*make)(void *arg))
{
	int r = fixture_open(f);

	if (r >= 0) {
		f->session = session_free(f->session);
		calls_sweep(&(struct calls_made){name, make, end_nothing, f});
	}
	fixture_deinit(f);
	assert_true(r >= 0 || r == -EACCES || r == -EPERM);
}

static void test_parts(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init_small(&f);
	fixture_end_child(&f.child);
	f.options.frames = f.options.code = FRAMES_USER;
	sweep_if_permitted(&f, "marks and records", make_parts);
}

static bool allows(void *arg, uint32_t pid)
{
	return pid == *(uint32_t *)arg;
}

static void test_start(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct fixture f;

	(void)state;
	for (int i = 0; i < 4; i++) {
		fixture_init_small(&f);
		fixture_end_child(&f.child);
		f.options.frames = f.options.code = FRAMES_USER;
		f.options.machine = i != 1;
		f.options.pids = i == 1 ? &pid : NULL;
		f.options.n_pids = i == 1;
		if (i == 2) { /* counters alone */
			f.options.poll_ms = 100;
			f.options.frequency = 0;
			f.options.frames = 0;
		}
		if (i == 3) { /* all processes that are allowed */
			f.options.tasks_only = true;
			f.options.allowed = allows;
			f.options.allowed_arg = &pid;
		}
		sweep_if_permitted(&f, "start", start);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machine),	  cmocka_unit_test(test_task),
		cmocka_unit_test(test_off_cpu),	  cmocka_unit_test(test_wall),
		cmocka_unit_test(test_at_sample), cmocka_unit_test(test_parts),
		cmocka_unit_test(test_start)};

	return cmocka_run_group_tests_name("session-calls", tests, NULL, NULL);
}
