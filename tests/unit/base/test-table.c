/* test-table.c - hash tables against a plain array; the string table's ids. */
#include <errno.h>

#include "base/table.h"
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

/* The key with the hash_u64() @h: the author of a file can compute it. */
static uint64_t unhash(uint64_t h)
{
	h ^= h >> 31 ^ h >> 62;
	h *= 0x319642b2d24d8ec3ull; /* the inverse of 0x94d049bb133111eb */
	h ^= h >> 27 ^ h >> 54;
	h *= 0x96de1b173f119089ull; /* the inverse of 0xbf58476d1ce4e5b9 */
	return h ^ h >> 30 ^ h >> 60;
}

/* Keys that would all meet in one slot, and texts that would all have one hash. */
static void test_prepared_keys(void **state)
{
	enum { N = 20000 };
	_cleanup_(string_table_deinit) struct string_table strings = {0};
	_cleanup_(table_deinit) struct table t = {0};
	const uint64_t start = 0x9e3779b97f4a7c15ull ^ 16; /* hash_bytes() of 16 bytes */
	size_t at_home = 0, same = 0;

	(void)state;
	for (uint64_t i = 1; i <= N; i++) {
		uint64_t key = unhash(i << 32), text[2] = {i};
		uint32_t id;

		assert_true(hash_u64(key) == i << 32);
		assert_int_equal(table_put(&t, key, i), 0);
		text[1] = hash_u64(start ^ i) ^ 4711;
		assert_true(hash_bytes(text, sizeof(text)) == hash_u64(4711));
		assert_int_equal(string_table_add(&strings, text, sizeof(text), &id, NULL), 0);
		assert_int_equal(id, i);
		same += i > 1 && strings.entries[i - 1].hash == strings.entries[0].hash;
	}
	for (size_t i = 0; i < t.n_slots; i++)
		at_home += t.slots[i].used &&
			   (hash_u64(t.slots[i].key ^ t.seed) & (t.n_slots - 1)) == i;
	assert_true(at_home > N / 3);
	assert_true(same < 10);
}

struct numbers {
	struct hash_index index;
	uint64_t list[5000];
};

static uint64_t hash_of_number(const void *owner, uint32_t number)
{
	return ((const struct numbers *)owner)->list[number] % 700; /* many have the same */
}

static void test_index(void **state)
{
	struct numbers *n = calloc(1, sizeof(*n));

	(void)state;
	assert_non_null(n);
	hash_index_for_each(&n->index, 7, i) fail_msg("%zu in an empty one", i);
	for (uint32_t i = 0; i < ARRAY_SIZE(n->list); i++) {
		n->list[i] = i * 7919ull;
		assert_int_equal(hash_index_add(&n->index, hash_of_number(n, i), hash_of_number, n),
				 0);
	}
	for (uint32_t k = 0; k < ARRAY_SIZE(n->list); k++) {
		size_t found = 0;

		hash_index_for_each(&n->index, hash_of_number(n, k), i) found +=
			n->list[i] == n->list[k];
		assert_int_equal(found, 1);
	}
	assert_true(n->index.n_slots * sizeof(uint32_t) <= hash_index_bytes(n->index.n_used));
	assert_true(hash_index_bytes(1 << 20) <= 11u << 20);
	hash_index_deinit(&n->index);
	free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_get_remove), cmocka_unit_test(test_against_array),
		cmocka_unit_test(test_strings),	       cmocka_unit_test(test_prepared_keys),
		cmocka_unit_test(test_index),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
