/* test-jit-index.c - the parts of the index of JIT code: how they are merged, and which ones are refused.  (What a search finds:
 * test-symbols.c, test-jitdump.c.) */
#include "tests/unit/cmocka.h"

#include <errno.h>

#include "base/bytes.h"
#include "symbols/jit-index.h"

enum { POOL = 4 }; /* bytes of a name */

/* Code @order of a dump, as of a reading that has it alone. */
static struct jit_index *reading(uint32_t order, uint64_t start, uint64_t time)
{
	static char name[POOL] = "abc";
	struct jit_code code = {
		.start = start, .size = 16, .time = time, .order = order, .name = order * POOL};
	const struct jit_part part = {.first = {order, 0, order * POOL},
				      .end = {order + 1, 0, (order + 1) * POOL},
				      .codes = &code,
				      .n = 1,
				      .pool = name,
				      .pool_len = POOL};
	struct jit_index *index;

	assert_int_equal(jit_index_new(&part, &index), 0);
	return index;
}

static int append(struct jit_index *index, uint32_t order, uint64_t start, uint64_t time)
{
	struct jit_index *more = reading(order, start, time);
	int r = jit_index_append(index, more);

	(void)jit_index_free(more);
	return r;
}

/* Each part is at least twice as large as the next one, so n codes are copied log n times. */
static void test_sizes(void **state)
{
	enum { READINGS = 5000, PARTS = 13 };
	struct jit_index *index = reading(0, 0x1000, 1);
	struct uw_symbol found;

	(void)state;
	for (uint32_t i = 1; i < READINGS; i++) {
		size_t n = 0;

		assert_int_equal(append(index, i, 0x1000 + hash_u64(i) % READINGS * 16, i + 1), 0);
		for (size_t k = 0; k < index->n_parts; n += index->parts[k++].n)
			assert_true(!k || index->parts[k - 1].n >= 2 * index->parts[k].n);
		assert_int_equal(n, i + 1);
		assert_in_range(index->n_parts, 1, PARTS);
	}
	assert_true(jit_index_find(index, 0x1008, UINT64_MAX, &found));
	assert_true(index->overlaps);
	(void)jit_index_free(index);
}

/* Times of a later part that are earlier: threads of a compiler write one after another. */
static void test_order(void **state)
{
	struct jit_index *index = reading(0, 0x1000, 100);
	struct uw_symbol found;

	(void)state;
	assert_int_equal(append(index, 1, 0x5000, 200), 0);
	assert_int_equal(append(index, 2, 0x1008, 90), 0);
	assert_true(jit_index_find(index, 0x1009, 95, &found));
	assert_int_equal(found.start, 0x1008);
	assert_true(jit_index_find(index, 0x1009, 100, &found));
	assert_int_equal(found.start, 0x1000);
	assert_true(index->overlaps);
	(void)jit_index_free(index);
}

/* A reading continues what is there, or has a part of that again. */
static void test_refused(void **state)
{
	struct jit_index *index = reading(0, 0x1000, 1), *two = reading(0, 0x1000, 1);

	(void)state;
	assert_true(jit_index_is_whole(index));
	assert_int_equal(append(index, 2, 0x3000, 3), -EBADMSG); /* 1 is missing */
	assert_int_equal(append(index, 1, 0x2000, 2), 0);
	assert_int_equal(append(index, 1, 0x2000, 2), 0);
	assert_false(index->overlaps);				 /* the same code twice */
	assert_int_equal(append(index, 0, 0x1000, 2), -EBADMSG); /* it ends before */
	assert_int_equal(append(index, 2, 0x3000, 3), 0);
	assert_int_equal(append(two, 1, 0x2000, 2), 0);
	assert_int_equal(append(two, 2, 0x3000, 3), 0);
	assert_int_equal(two->n_parts, 2);
	assert_int_equal(jit_index_append(index, two), -EBADMSG);
	(void)jit_index_free(index);
	(void)jit_index_free(two);
}

/* What a reading adds has names and lines before it: without these nothing is found. */
static void test_part_alone(void **state)
{
	static char name[POOL] = "def";
	struct jit_code code = {.start = 0x1000, .size = 16, .time = 1, .order = 1, .name = 0};
	const struct jit_part part = {.first = {1, 0, POOL},
				      .end = {2, 0, 2 * POOL},
				      .codes = &code,
				      .n = 1,
				      .pool = name,
				      .pool_len = POOL};
	struct jit_index *index = reading(0, 0x2000, 1), *more;
	struct uw_symbol found;

	(void)state;
	assert_int_equal(jit_index_new(&part, &more), 0);
	assert_false(jit_index_find(more, 0x1008, UINT64_MAX, &found));
	assert_int_equal(jit_index_append(index, more), 0);
	assert_true(jit_index_find(index, 0x1008, UINT64_MAX, &found));
	assert_string_equal(found.name, "abc");
	(void)jit_index_free(index);
	(void)jit_index_free(more);
}

/* From another process: no more than a dump has, however many readings. */
static void test_limits(void **state)
{
	static const uint32_t orders[] = {7, JIT_CODES_MAX - 1, JIT_CODES_MAX};
	struct jit_index *copy;
	uint8_t bytes[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct jit_index *index = reading(orders[i], 0x1000, 1);
		struct packer to = {.data = bytes, .room = sizeof(bytes)};
		struct cursor from;

		assert_false(jit_index_is_whole(index));
		jit_index_pack(index, &to);
		(void)jit_index_free(index);
		from = cursor_of(bytes, to.len);
		if (orders[i] >= JIT_CODES_MAX) {
			assert_int_equal(jit_index_unpack(&from, &copy), -EBADMSG);
			continue;
		}
		assert_int_equal(jit_index_unpack(&from, &copy), 0);
		assert_int_equal(copy->parts[0].end.codes, orders[i] + 1);
		(void)jit_index_free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	cmocka_unit_test(test_order),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_part_alone),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
