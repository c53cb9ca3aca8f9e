/* test-unshared.c - large blocks: zeroed, of any size, moved whole; a child has none of them. */
#include "base/unshared.h"
#include "tests/unit/child-has.h"
#include "tests/unit/cmocka.h"

static void fill(uint8_t *block, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		block[i] = (uint8_t)(i * 31 + (i >> 12) + 1);
}

static bool is_filled(const uint8_t *block, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (block[i] != (uint8_t)(i * 31 + (i >> 12) + 1))
			return false;
	return true;
}

/* Across the limit, up and down: what was there stays, what is new is zero. */
static void test_resize(void **state)
{
	static const size_t sizes[] = {1, 5000, 131071, 131072, 131073, 1 << 20, 3 << 20, 100};
	uint8_t *block = NULL;
	size_t old = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		block = unshared_resize(block, old, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, old < sizes[i] ? old : sizes[i]));
		for (size_t k = old; k < sizes[i]; k++)
			assert_int_equal(block[k], 0);
		fill(block, old, sizes[i]);
		old = sizes[i];
	}
	unshared_free(block, old);
	unshared_free(NULL, 0);
	unshared_free(NULL, 1 << 20);
	block = unshared_new(0);
	assert_non_null(block);
	unshared_free(block, 0);
	if (UNSHARED_BYTES != SIZE_MAX) /* a sanitizer's calloc() ends the program */
		assert_null(unshared_new((size_t)1 << 60));
}

static void test_child(void **state)
{
	bool plain = UNSHARED_BYTES == SIZE_MAX;
	uint8_t *small = unshared_new(1000), *large = unshared_new(1 << 20);

	(void)state;
	assert_true(small && large);
	fill(large, 0, 1 << 20);
	assert_true(child_has(small));
	assert_int_equal(child_has(large + (1 << 19)), plain);
	large = unshared_resize(large, 1 << 20, 8 << 20);
	assert_int_equal(child_has(large + (1 << 19)), plain);
	assert_true(is_filled(large, 1 << 20));
	unshared_free(large, 8 << 20);
	unshared_free(small, 1000);
	unshared_from(2 << 20);
	large = unshared_new(1 << 20);
	assert_true(child_has(large));
	unshared_free(large, 1 << 20);
	unshared_from(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resize),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests_name("unshared", tests, NULL, NULL);
}
