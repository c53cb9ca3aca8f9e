/* test-stacks.c - callstack ids against a plain list, through growth, clearing and stacks that look
 * alike. */
#include "trace/intern.h"
#include "tests/unit/cmocka.h"

static uint32_t add(struct stacks *s, const uint32_t *ids, size_t n, bool expect_new)
{
	uint32_t id = 0;
	bool new = !expect_new;

	assert_int_equal(stacks_add(s, ids, n, &id, &new), 0);
	assert_int_equal(new, expect_new);
	return id;
}

static void test_ids(void **state)
{
	struct stacks s;
	uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

	(void)state;
	stacks_init(&s, 1);
	/* Every prefix and every suffix is a stack of its own; so is a permutation. */
	assert_int_equal(add(&s, ids, 9, true), 1);
	for (uint32_t n = 1; n < 9; n++)
		assert_int_equal(add(&s, ids, n, true), 1 + n);
	for (uint32_t n = 1; n < 9; n++)
		assert_int_equal(add(&s, ids + 9 - n, n, true), 9 + n);
	ids[0] = 2;
	ids[1] = 1;
	assert_int_equal(add(&s, ids, 9, true), 18);
	assert_int_equal(add(&s, ids, 9, false), 18);
	assert_int_equal(add(&s, ids + 1, 1, false), 2); /* {1} */
	stacks_deinit(&s);
}

/* Two ids swapped that are four apart, the stride of the hash's lanes, and other near misses. */
static void test_alike(void **state)
{
	struct stacks s;
	uint32_t next = 1;

	(void)state;
	stacks_init(&s, 1);
	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t j = 0; j < 64; j++) {
			const uint32_t ids[] = {1, i, 2, 3, 4, j, 5, 6};

			assert_int_equal(add(&s, ids, 8, true), next++);
		}
	assert_int_equal(s.n_entries, 4096);
	stacks_deinit(&s);
}

static void fill(uint32_t *ids, size_t *n, uint32_t i)
{
	*n = 1 + i % 60;
	for (size_t k = 0; k < *n; k++)
		ids[k] =
			k < 2 ? i * 2 + (uint32_t)k : (uint32_t)k; /* differ in the two innermost */
}

static void test_growth(void **state)
{
	enum { N = 50000 };
	uint32_t ids[64];
	struct stacks s;
	size_t n;

	(void)state;
	stacks_init(&s, 1);
	for (uint32_t i = 0; i < N; i++) {
		fill(ids, &n, i);
		assert_int_equal(add(&s, ids, n, true), i + 1);
	}
	for (uint32_t i = 0; i < N; i++) {
		fill(ids, &n, i);
		assert_int_equal(add(&s, ids, n, false), i + 1);
	}
	assert_true(s.n_slots >= 2 * s.n_entries);
	assert_true(stacks_bytes(&s) >= N * sizeof(*s.slots));
	stacks_clear(&s);
	assert_int_equal(stacks_bytes(&s), 0);
	fill(ids, &n, 7);
	assert_int_equal(add(&s, ids, n, true), N + 1); /* ids go on */
	assert_int_equal(add(&s, ids, n, false), N + 1);
	stacks_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
