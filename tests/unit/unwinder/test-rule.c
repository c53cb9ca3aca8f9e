/* test-rule.c - packing, and the cache: exact keys, full sets. */
#include "tests/unit/child-has.h"
#include "tests/unit/cmocka.h"
#include "unwinder/rule.h"

static void test_pack(void **state)
{
	static const struct {
		int64_t n;
		uint64_t m;
	} cases[] = {{1, 0}, {2, 2}, {11288, 3}, {-1, 1}, {524287, 1048574}, {-524287, 0}, {0, 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rule_t rule = rule_frame(RULE_FP, cases[i].n, cases[i].m);

		assert_int_equal(rule_kind(rule), RULE_FP);
		assert_true(rule_is_frame(rule));
		assert_int_equal(rule_cfa(rule), cases[i].n * 8);
		assert_int_equal(rule_saved(rule), cases[i].m * 8);
		assert_int_equal(rule >> RULE_BITS, 0);
		/* What the cache keeps above must not show. */
		assert_int_equal(rule_cfa(rule | 0xabcdull << 48), cases[i].n * 8);
		assert_int_equal(rule_saved(rule | 0xffffull << 48), cases[i].m * 8);
		rule = rule_with_call(rule, RULE_CALL_YES);
		assert_int_equal(rule_call(rule), RULE_CALL_YES);
		assert_int_equal(rule_cfa(rule), cases[i].n * 8);
	}
	assert_false(rule_is_frame(rule_simple(RULE_NONE)));
	assert_false(rule_is_frame(rule_simple(RULE_ROOT)));
	assert_true(rule_is_frame(rule_frame(RULE_SP, 1, 0)));
}

static void test_link(void **state)
{
	(void)state;
	for (enum rule_link link = RULE_LINK_PAIR; link <= RULE_LINK_LIVE; link++) {
		rule_t rule = rule_frame_link(RULE_SP, -3, 1048574, link);

		assert_int_equal(rule_kind(rule), RULE_SP);
		assert_int_equal(rule_link(rule), link);
		assert_int_equal(rule_cfa(rule), -24);
		assert_int_equal(rule_saved(rule), 1048574 * 8);
		assert_int_equal(rule_link(rule_with_call(rule, RULE_CALL_UNREADABLE)), link);
	}
	/* A frame record, whatever stands in the same bits. */
	assert_int_equal(rule_link(rule_chain(RULE_NOT_READABLE)), RULE_LINK_PAIR);
}

static void test_pack_other(void **state)
{
	rule_t rule = rule_slow(0xfedcba98, true);

	(void)state;
	assert_int_equal(rule_fde(rule), 0xfedcba98);
	assert_true(rule_fde_in_debug_frame(rule));
	assert_int_equal(rule >> RULE_BITS, 0);
	assert_false(rule_fde_in_debug_frame(rule_slow(UINT32_MAX, false)));
	rule = rule_with_sources(rule_guess(RULE_NO_CFI, RULE_FORM_UNKNOWN),
				 (struct rule_source){15, true, 2047 * 8},
				 (struct rule_source){6, false, 0});
	assert_int_equal(rule >> RULE_BITS, 0);
	assert_int_equal(rule_kind(rule), RULE_GUESS);
	assert_int_equal(rule_form(rule), RULE_FORM_PUSHES);
	assert_int_equal(rule_source(rule, false).reg, 15);
	assert_true(rule_source(rule, false).memory);
	assert_int_equal(rule_source(rule, false).offset, 2047 * 8);
	assert_int_equal(rule_source(rule | 0xffffull << 48, true).reg, 6);
	assert_false(rule_source(rule | 0xffffull << 48, true).memory);
	assert_int_equal(rule_source(rule | 0xffffull << 48, true).offset, 0);
	rule = rule_guess(RULE_NOT_READABLE, RULE_FORM_UNKNOWN);
	assert_int_equal(rule_why(rule), RULE_NOT_READABLE);
	rule = rule_with_call(rule_with_form(rule, RULE_FORM_ROOT), RULE_CALL_NO);
	assert_int_equal(rule_why(rule), RULE_NOT_READABLE);
	assert_int_equal(rule_form(rule), RULE_FORM_ROOT);
	assert_int_equal(rule_call(rule), RULE_CALL_NO);
}

static rule_t found(const struct rule_cache *cache, uint32_t key, uint64_t address)
{
	struct rule_key k = rule_key(key);
	const struct rule_entry *entry = rule_cache_find(cache, &k, address);

	return entry ? entry->rule & RULE_MASK : 0;
}

static void add(struct rule_cache *cache, uint32_t key, uint64_t address, rule_t rule)
{
	struct rule_key k = rule_key(key);

	rule_cache_put(cache, &k, address, rule);
}

static void test_keys(void **state)
{
	struct rule_cache cache;

	(void)state;
	assert_int_equal(rule_caches_init((struct rule_cache *const[]){&cache}, 1), 0);
	assert_int_equal(found(&cache, 0, 0), 0); /* an empty entry has no key */
	assert_int_equal(found(&cache, UINT32_MAX, (1ull << 48) - 2), 0);
	add(&cache, 0x00010001, 0x7fff12345678, 11);
	add(&cache, 0x00020001, 0x7fff12345678, 22); /* the same low half */
	add(&cache, 0x00010002, 0x7fff12345678, 33); /* the same high half */
	add(&cache, 0x00010001, 0x7fff12345679, 44);
	add(&cache, UINT32_MAX, (1ull << 48) - 2, RULE_MASK);
	assert_int_equal(found(&cache, 0x00010001, 0x7fff12345678), 11);
	assert_int_equal(found(&cache, 0x00020001, 0x7fff12345678), 22);
	assert_int_equal(found(&cache, 0x00010002, 0x7fff12345678), 33);
	assert_int_equal(found(&cache, 0x00010001, 0x7fff12345679), 44);
	assert_int_equal(found(&cache, UINT32_MAX, (1ull << 48) - 2), RULE_MASK);
	assert_int_equal(found(&cache, 0x00020002, 0x7fff12345678), 0);
	add(&cache, 0x00010001, 0x7fff12345678, 55); /* replaced, not doubled */
	assert_int_equal(found(&cache, 0x00010001, 0x7fff12345678), 55);
	rule_cache_clear(&cache);
	assert_int_equal(found(&cache, 0x00010001, 0x7fff12345678), 0);
	rule_caches_deinit(&cache, 1);
}

/* Two caches in one piece of memory, which no child gets. */
static void test_two(void **state)
{
	struct rule_cache a, b;

	(void)state;
	assert_int_equal(rule_caches_init((struct rule_cache *const[]){&a, &b}, 2), 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		add(&a, 7, i * 4096, i);
		add(&b, 7, i * 4096, i + 1);
	}
	assert_false(child_has(a.entries));
	assert_false(child_has(b.entries));
	rule_cache_clear(&a);
	for (uint64_t i = 1; i <= 1000; i++) {
		assert_int_equal(found(&a, 7, i * 4096), 0);
		assert_int_equal(found(&b, 7, i * 4096), i + 1);
	}
	rule_caches_deinit(&a, 2);
}

/* A set holds four; a fifth takes the place of one entry of the set and never of another set's. */
static void test_full_set(void **state)
{
	struct rule_key key = rule_key(3);
	struct rule_cache cache;
	uint64_t same[6], n = 0, kept = 0;

	(void)state;
	assert_int_equal(rule_caches_init((struct rule_cache *const[]){&cache}, 1), 0);
	for (uint64_t address = 0x1000; n < 6; address++)
		if (rule_cache_place(&key, address) >> 2 == 77)
			same[n++] = address;
	for (size_t i = 0; i < 4; i++)
		add(&cache, 3, same[i], i + 1);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(found(&cache, 3, same[i]), i + 1);
	add(&cache, 3, same[4], 5);
	assert_int_equal(found(&cache, 3, same[4]), 5);
	add(&cache, 3, same[5], 6);
	assert_int_equal(found(&cache, 3, same[5]), 6);
	for (size_t i = 0; i < 6; i++)
		kept += found(&cache, 3, same[i]) == i + 1;
	assert_int_equal(kept, 4);
	rule_caches_deinit(&cache, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pack),	   cmocka_unit_test(test_link),
		cmocka_unit_test(test_pack_other), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_two),	   cmocka_unit_test(test_full_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
