/* test-account.c - the equation, with each term missing once. */
#include "session/pipeline/account.h"
#include "tests/unit/cmocka.h"

static void test_equation(void **state)
{
	struct account a = {.received = 100, .emitted = 80, .queued = 95, .answered = 85};

	(void)state;
	a.skipped[SKIP_NOT_IN_SCOPE] = 5;
	a.skipped[SKIP_PARK_FULL] = 5;
	assert_int_equal(account_skipped(&a), 10);
	assert_int_equal(account_in_flight(&a), 10);
	assert_true(account_holds(&a));
	a.emitted--; /* a sample that vanished */
	assert_false(account_holds(&a));
	a.emitted++;
	a.answered++; /* one that was answered twice */
	assert_false(account_holds(&a));
	a.answered--;
	a.skipped[SKIP_MAPS_TIMEOUT]++; /* one that was both emitted and skipped */
	assert_false(account_holds(&a));
}

/* How long after their sample stacks were read beyond their copies: 0 is none. */
static void test_reads(void **state)
{
	static const uint32_t us[] = {0, 1, 49, 50, 99, 9999, 10000, UINT32_MAX};
	const uint64_t expected[ACCOUNT_READS] = {2, 2, 0, 0, 0, 0, 1, 2};
	struct account a = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(us); i++) {
		const struct outcome o = {.result = UW_WHOLE, .read_after_us = us[i]};

		account_outcome(&a, &o, UW_OK);
	}
	assert_memory_equal(a.memory_reads, expected, sizeof(expected));
	assert_int_equal(a.emitted, ARRAY_SIZE(us));
}

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < SKIP_COUNT; i++)
		assert_non_null(skip_reason_name((enum skip_reason)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_equation),
					   cmocka_unit_test(test_reads),
					   cmocka_unit_test(test_names)};

	return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
