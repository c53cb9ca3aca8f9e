/* test-control-calls.c - each allocation and system call with which the control server is made fails once: it is not there, and
 * its socket is closed, or it is there; no descriptor is left. */
#include "tests/unit/daemon/control/control-fixture.h"

#include "tests/unit/fail-calls.h"

enum { MOST = 1000 };

static struct control_fixture f;

/* true: the server needs fewer than @n calls. */
static bool make_once(const struct control_options *options, unsigned long n, size_t files)
{
	struct control_options o = *options;
	struct control *control = NULL;
	bool reached;
	int r;

	(void)unlink(f.path);
	assert_int_equal(listen_at(f.path, 0666, &o.fd), 0);
	calls_fail(n);
	r = control_new(&o, &f.loop, &control);
	reached = calls_made >= n;
	calls_fail(0);
	assert_true(r < 0 ? !control : control != NULL);
	(void)control_free(control);
	assert_int_equal(open_files(), files);
	return !reached;
}

static void test_control(void **state)
{
	struct control_options o = {.fd = -1};
	unsigned long n = 1;
	size_t files;

	(void)state;
	control_fixture_init(&f);
	o.shared = f.shared;
	o.settings = f.settings; /* groups by number: glibc's getgrnam() crashes without memory */
	files = open_files();
	while (n < MOST && !make_once(&o, n, files))
		n++;
	print_message("%lu calls\n", n - 1);
	assert_true(n > 1 && n < MOST);
	control_fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_control)};

	return cmocka_run_group_tests_name("control-calls", tests, NULL, NULL);
}
