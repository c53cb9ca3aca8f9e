/* test-session-calls.c - each allocation and system call with which a session is made fails once: the session is not there and
 * one line states why, or it is there without what is not essential.  No descriptor is left, and the next session works. */
#include "tests/unit/session/session-fixture.h"

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
	fixture_init(&f);
	sweep(&f);
}

static void test_task(void **state)
{
	struct fixture f;
	uint32_t pid;

	(void)state;
	fixture_init(&f);
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
	fixture_init(&f);
	f.spec.config = PERF_COUNT_SW_DUMMY;
	f.options.frequency = 0;
	f.options.period = 1;
	f.options.waits = SESSION_WAITS_OFF_CPU;
	f.options.wakers = true;
	sweep(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_machine),
					   cmocka_unit_test(test_task),
					   cmocka_unit_test(test_off_cpu)};

	return cmocka_run_group_tests_name("session-calls", tests, NULL, NULL);
}
