/* test-unshared.c - large blocks: zeroed, of any size, moved whole; a child has none of them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Does the mapping at @block ask for huge pages? */
static bool asks_for_huge(const void *block)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool here = false, asks = false;
	unsigned long from, to;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = (uintptr_t)block >= from && (uintptr_t)block < to;
		asks |= here && !strncmp(line, "VmFlags:", 8) && strstr(line, " hg");
	}
	(void)fclose(f);
	return asks;
}

static void check_huge(const void *block)
{
	assert_non_null(block);
	assert_int_equal((uintptr_t)block % UNSHARED_HUGE, 0);
	if (!access("/sys/kernel/mm/transparent_hugepage", F_OK))
		assert_true(asks_for_huge(block));
}

/* A large block can have huge pages, made or grown, and is resized as the others. */
static void test_huge(void **state)
{
	const size_t sizes[] = {UNSHARED_HUGE, UNSHARED_HUGE + 1, 5 << 20};
	bool plain = UNSHARED_BYTES == SIZE_MAX;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes) && !plain; i++) {
		uint8_t *block = unshared_new(i ? sizes[i] : sizes[i] / 2);

		block = i ? block : unshared_resize(block, sizes[i] / 2, sizes[i]);
		check_huge(block);
		fill(block, 0, sizes[i]);
		block = unshared_resize(block, sizes[i], sizes[i] + (4 << 20));
		assert_true(is_filled(block, sizes[i]));
		unshared_free(block, sizes[i] + (4 << 20));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resize),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_huge),
	};

	return cmocka_run_group_tests_name("unshared", tests, NULL, NULL);
}
