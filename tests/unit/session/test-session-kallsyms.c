/* test-session-kallsyms.c - the kernel's symbols of sessions that share them. */
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

static void open_or_skip(struct fixture *f)
{
	if (fixture_open(f) == 0 && f->session->kernel_names)
		return;
	fixture_deinit(f);
	print_message("kernel names are not permitted, or hidden (kernel.kptr_restrict)\n");
	skip();
}

static void test_shared(void **state)
{
	struct session_shared *shared;
	struct uw_kernel_names *names;
	struct session *first;
	struct fixture f;
	uint64_t start;

	(void)state;
	assert_int_equal(session_shared_new(&shared), 0);
	fixture_init(&f);
	f.options.shared = shared;
	open_or_skip(&f);
	first = f.session;
	names = first->kernel_names;
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_equal(f.session->kernel_names, names);
	/* what the first leaves is there for the second, and for one that comes soon */
	(void)session_free(first);
	assert_int_equal(
		uw_kernel_names_add(f.session->kernel_names, 0xffffffffc0000000, 16, "ours"), 0);
	f.session = session_free(f.session);
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_equal(f.session->kernel_names, names);
	assert_string_equal(uw_kernel_name(f.session->kernel_names, 0xffffffffc0000008, &start),
			    "ours");
	fixture_deinit(&f);
	assert_null(session_shared_free(shared));
}

static void test_own(void **state)
{
	struct session *first;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	open_or_skip(&f);
	first = f.session;
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_not_equal(f.session->kernel_names, first->kernel_names);
	(void)session_free(first);
	f.session = session_free(f.session);
	/* a session without kernel frames needs none */
	f.options.frames = FRAMES_USER;
	assert_int_equal(fixture_open(&f), 0);
	assert_null(f.session->kernel_names);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
