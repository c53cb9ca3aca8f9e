/* test-adapt.c - the smallest size that is enough for 99.9 % of the stacks; wider at once, narrower with patience. */
#include "session/pipeline/adapt.h"
#include "tests/unit/cmocka.h"

static uint32_t count(struct adapt *adapt, size_t n, uint64_t need)
{
	uint32_t bytes = adapt->bytes;

	for (size_t i = 0; i < n; i++)
		bytes = adapt_count(adapt, need);
	return bytes;
}

static void test_wider(void **state)
{
	struct adapt a = {.bytes = ADAPT_FIRST, .stride = 1};

	(void)state;
	assert_int_equal(count(&a, ADAPT_FEW - 1, ADAPT_FIRST), ADAPT_FIRST); /* just enough */
	assert_int_equal(count(&a, 1, ADAPT_FIRST + 1), 32768);
	assert_int_equal(count(&a, ADAPT_FEW, 32769), ADAPT_MAX);
	assert_int_equal(count(&a, 100, UINT64_MAX), ADAPT_MAX); /* no more than that */
	a = (struct adapt){.bytes = ADAPT_MIN, .stride = 1};
	assert_int_equal(count(&a, ADAPT_FEW, 40000), ADAPT_MAX); /* in one step */
	a = (struct adapt){.bytes = ADAPT_MIN, .stride = 2};
	assert_int_equal(count(&a, ADAPT_FEW, 5000), 16384); /* tasks have no event of 8 KiB */
	assert_int_equal(count(&a, ADAPT_FEW, 20000), ADAPT_MAX);
}

static void test_narrower(void **state)
{
	struct adapt a = {.bytes = ADAPT_MAX, .stride = 1};

	(void)state;
	assert_int_equal(count(&a, ADAPT_MANY - 1, 100), ADAPT_MAX);
	assert_int_equal(count(&a, 1, 100), ADAPT_MIN); /* and no further */
	assert_int_equal(count(&a, 2 * ADAPT_MANY, 0), ADAPT_MIN);
	a = (struct adapt){.bytes = ADAPT_MAX, .stride = 2};
	assert_int_equal(count(&a, ADAPT_MANY - 1, 5000), ADAPT_MAX);
	assert_int_equal(count(&a, 1, 50000), 16384); /* one in a thousand needs more */
	a = (struct adapt){.bytes = ADAPT_MAX, .stride = 2};
	assert_int_equal(count(&a, ADAPT_MANY - 2, 5000), ADAPT_MAX);
	assert_int_equal(count(&a, 2, 50000), ADAPT_MAX); /* two do */
}

static void test_patience(void **state)
{
	struct adapt a = {.bytes = ADAPT_MAX, .stride = 2};
	size_t many = ADAPT_MANY;

	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(count(&a, many - 1, 100), ADAPT_MAX);
		assert_int_equal(count(&a, 1, 100), ADAPT_MIN);
		assert_int_equal(count(&a, ADAPT_FEW, 60000), ADAPT_MAX);
		many = min_u64(2 * many, 64 * ADAPT_MANY);
	}
}

/* 95 % are enough while time is saved, and not after it. */
static void test_save(void **state)
{
	struct adapt a = {.bytes = ADAPT_MAX, .stride = 1, .patience = 3};

	(void)state;
	adapt_save(&a, true);
	assert_int_equal(count(&a, 40, 60000), ADAPT_MAX);
	assert_int_equal(count(&a, ADAPT_MANY - 40, 100), ADAPT_MIN);
	/* 6 in 100 need more */
	assert_int_equal(count(&a, 94, 100), ADAPT_MIN);
	assert_int_equal(count(&a, 6, 10000), 16384);
	adapt_save(&a, true);
	assert_int_equal(count(&a, 98, 100), 16384);
	assert_int_equal(count(&a, 2, 60000), 16384);
	adapt_save(&a, false);
	assert_int_equal(count(&a, 1, 60000), ADAPT_MAX);
}

static void test_too_few(void **state)
{
	struct adapt a = {.bytes = ADAPT_FIRST, .stride = 1};

	(void)state;
	assert_int_equal(count(&a, ADAPT_FEW - 1, UINT64_MAX), ADAPT_FIRST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wider),	 cmocka_unit_test(test_narrower),
		cmocka_unit_test(test_patience), cmocka_unit_test(test_save),
		cmocka_unit_test(test_too_few),
	};

	return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
