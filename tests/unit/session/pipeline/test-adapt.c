/* test-adapt.c - wider at once, narrower after ten quiet seconds, never out of bounds. */
#include "session/pipeline/adapt.h"
#include "tests/unit/cmocka.h"

static void test_widen(void **state)
{
	struct adapt a = {.bytes = ADAPT_FIRST};

	(void)state;
	assert_int_equal(adapt_step(&a, 1000, 10, 500), 16384); /* 1 % is not more than 1 % */
	assert_int_equal(adapt_step(&a, 1000, 11, 500), 32768);
	assert_int_equal(adapt_step(&a, 1000, 11, 500),
			 65528); /* not 65,536: the kernel refuses that */
	assert_int_equal(adapt_step(&a, 1000, 1000, 1000), 65528);
	a.bytes = ADAPT_FIRST;
	assert_int_equal(adapt_step(&a, 1000, 100, 500), 32768); /* 10 % is not more than 10 % */
	a.bytes = ADAPT_FIRST;
	assert_int_equal(adapt_step(&a, 1000, 101, 500), 65528); /* most were cut: at once */
}

static void test_narrow(void **state)
{
	struct adapt a = {.bytes = ADAPT_MAX};

	(void)state;
	for (int i = 0; i < 9; i++)
		assert_int_equal(adapt_step(&a, 2000, 0, 1), ADAPT_MAX);
	assert_int_equal(adapt_step(&a, 2000, 0, 2),
			 ADAPT_MAX); /* 0.1 % is too many: starts again */
	for (int i = 0; i < 9; i++)
		assert_int_equal(adapt_step(&a, 2000, 0, 0), ADAPT_MAX);
	assert_int_equal(adapt_step(&a, 2000, 0, 0), 32768);
	for (int i = 0; i < 40; i++)
		(void)adapt_step(&a, 2000, 0, 0);
	assert_int_equal(a.bytes, ADAPT_FIRST); /* and no further */
}

static void test_too_few(void **state)
{
	struct adapt a = {.bytes = ADAPT_FIRST};

	(void)state;
	assert_int_equal(adapt_step(&a, 49, 49, 49), ADAPT_FIRST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_widen),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_too_few),
	};

	return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
