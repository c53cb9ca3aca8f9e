/* test-table.c - hash tables against a plain array; the string table's ids. */
#include <errno.h>

#include "daemon/base/table.h"
#include "tests/unit/cmocka.h"

static void test_put_get_remove(void **state)
{
	_cleanup_(table_deinit) struct table t = {0};
	uint64_t v = 7;

	(void)state;
	assert_false(table_get(&t, 1, &v));
	assert_false(table_remove(&t, 1));
	assert_int_equal(v, 7);			   /* untouched */
	assert_int_equal(table_put(&t, 0, 10), 0); /* zero is a key like others */
	assert_int_equal(table_put(&t, UINT64_MAX, 11), 0);
	assert_int_equal(table_put(&t, 0, 12), 0); /* replaces */
	assert_int_equal(t.n_used, 2);
	assert_true(table_get(&t, 0, &v));
	assert_int_equal(v, 12);
	assert_true(table_remove(&t, 0));
	assert_false(table_get(&t, 0, &v));
	assert_true(table_get(&t, UINT64_MAX, &v));
	table_clear(&t);
	assert_false(table_get(&t, UINT64_MAX, &v));
}

/* Random puts and removes over 512 keys, compared with an array: growth and shifting back must lose
 * nothing. */
static void test_against_array(void **state)
{
	_cleanup_(table_deinit) struct table t = {0};
	uint64_t model[512] = {0}, seed = 42, v;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t key;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		key = seed >> 33 & 511;
		if (seed >> 60 < 9) {
			model[key] = seed | 1;
			assert_int_equal(table_put(&t, key * 0x10000, seed | 1), 0);
		} else {
			assert_int_equal(table_remove(&t, key * 0x10000), model[key] != 0);
			model[key] = 0;
		}
	}
	for (uint64_t key = 0; key < 512; key++) {
		assert_int_equal(table_get(&t, key * 0x10000, &v), model[key] != 0);
		if (model[key])
			assert_int_equal(v, model[key]);
	}
}

static void test_strings(void **state)
{
	_cleanup_(string_table_deinit) struct string_table t = {0};
	uint32_t id, again;
	bool fresh;
	char text[16];

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		(void)snprintf(text, sizeof(text), "name-%u", i);
		assert_int_equal(string_table_add(&t, text, strlen(text), &id, &fresh), 0);
		assert_int_equal(id, i + 1);
		assert_true(fresh);
	}
	assert_int_equal(string_table_add(&t, "name-500", 8, &again, &fresh), 0);
	assert_int_equal(again, 501);
	assert_false(fresh);
	assert_string_equal(string_table_text(&t, 501), "name-500");
	assert_int_equal(string_table_add(&t, "", 0, &id, NULL),
			 0); /* the empty string is one too */
	assert_int_equal(id, 1001);
	assert_int_equal(string_table_add(&t, "a\0b", 3, &id, NULL), 0); /* bytes, not C strings */
	assert_int_equal(string_table_add(&t, "a\0c", 3, &again, NULL), 0);
	assert_int_not_equal(id, again);
	assert_true(string_table_find(&t, "a\0b", 3, &again));
	assert_int_equal(again, id);
	assert_false(string_table_find(&t, "a\0d", 3, &again)); /* and is not added by asking */
	assert_int_equal(t.n_entries, 1003);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_get_remove),
		cmocka_unit_test(test_against_array),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
