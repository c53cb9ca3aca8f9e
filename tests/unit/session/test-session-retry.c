/* test-session-retry.c - modules that could not be read are tried again, later each time, and not without end. */
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

static struct uw_module *unreadable_module(unsigned which)
{
	struct uw_module *m;
	char path[64];

	(void)snprintf(path, sizeof(path), "/nonexistent/module-%u", which);
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	assert_true(uw_module_want_symbols(m));
	uw_module_set_no_symbols(m);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_UNREADABLE);
	return m;
}

static void end(struct fixture *f)
{
	fixture_stop(f);
	fixture_deinit(f);
}

static void test_again(void **state)
{
	struct uw_module *m = unreadable_module(1), *other = unreadable_module(2);
	struct session_retry *retry;
	struct fixture f;
	uint64_t before;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	before = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(session_unreadable(f.session, m), 0);
	assert_int_equal(session_unreadable(f.session, other), 0);
	assert_int_equal(f.session->n_retries, 2);
	retry = &f.session->retries[0];
	assert_int_equal(retry->tries, 1);
	assert_true(retry->due >= before + NSEC_PER_SEC);
	retry->due = UINT64_MAX; /* not yet */
	assert_int_equal(session_retry(f.session), 0);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_UNREADABLE);
	retry->due = 1;
	assert_int_equal(session_retry(f.session), 0);
	assert_int_equal(retry->due, 0); /* once */
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_NEW);
	assert_int_equal(uw_module_symbol_state(other), UW_MODULE_UNREADABLE);
	/* the same one, no second entry, and after twice the time */
	before = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(session_unreadable(f.session, m), 0);
	assert_int_equal(f.session->n_retries, 2);
	assert_int_equal(retry->tries, 2);
	assert_true(retry->due >= before + 2 * NSEC_PER_SEC);
	end(&f);
	assert_int_equal(uw_module_unref(m) == NULL && uw_module_unref(other) == NULL, 1);
}

static void test_not_permanent(void **state)
{
	struct uw_module *m = unreadable_module(1);
	struct fixture f;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	for (int i = 0; i <= SESSION_RETRIES; i++)
		assert_int_equal(session_unreadable(f.session, m), 0);
	f.session->retries[0].due = 1;
	assert_int_equal(session_retry(f.session), 0);
	assert_int_equal(f.session->retries[0].due, 1);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_UNREADABLE);
	end(&f);
	(void)uw_module_unref(m);
}

/* What a target maps is its own choice: they are no more than 4,096. */
static void test_bounded(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	for (unsigned i = 0; i < 4100; i++) {
		struct uw_module *m = unreadable_module(i);

		assert_int_equal(session_unreadable(f.session, m), 0);
		(void)uw_module_unref(m);
	}
	assert_int_equal(f.session->n_retries, 4096);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_not_permanent),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
