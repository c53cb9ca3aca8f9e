/* test-bytes.c - the cursor never leaves its bytes; LEB128 at its limits; the buffer. */
#include "base/bytes.h"
#include "tests/unit/cmocka.h"

static void test_cursor_bounds(void **state)
{
	const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	struct cursor c = cursor_of(data, sizeof(data));

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u64(&c), 0x0908070605040302ull);
	assert_false(c.bad);
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.bad);
	c = cursor_of(data, 3);
	assert_int_equal(cursor_u32(&c), 0); /* one byte short: nothing is read, all is used up */
	assert_true(c.bad);
	assert_int_equal(cursor_left(&c), 0);
	c = cursor_of(data, 3);
	assert_null(cursor_bytes(&c, SIZE_MAX));
}

static void test_leb(void **state)
{
	/* DWARF 5, figures 22 and 23 (7.6) */
	static const struct {
		uint8_t bytes[10];
		uint64_t u;
		int64_t s;
	} cases[] = {
		{{2}, 2, 2},
		{{0x7f}, 127, -1},
		{{0x80, 1}, 128, 128},
		{{0xff, 0}, 127, 127},
		{{0x80, 0x7f}, 16256, -128},
		{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, UINT64_MAX, -1},
		{{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f},
		 1ull << 63,
		 INT64_MIN},
	};
	const uint8_t endless[12] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
				     0x80, 0x80, 0x80, 0x80, 0x80, 0};
	struct cursor c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		c = cursor_of(cases[i].bytes, sizeof(cases[i].bytes));
		assert_int_equal(cursor_uleb(&c), cases[i].u);
		c = cursor_of(cases[i].bytes, sizeof(cases[i].bytes));
		assert_int_equal(cursor_sleb(&c), cases[i].s);
		assert_false(c.bad);
	}
	c = cursor_of(endless, sizeof(endless));
	(void)cursor_uleb(&c);
	assert_true(c.bad);
	c = cursor_of(endless, 2); /* cut in the middle */
	(void)cursor_sleb(&c);
	assert_true(c.bad);
}

static void test_string(void **state)
{
	struct cursor c = cursor_of("ab\0cd", 5);

	(void)state;
	assert_string_equal(cursor_string(&c), "ab");
	assert_null(cursor_string(&c)); /* "cd" has no end */
	assert_true(c.bad);
}

static void test_buffer(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct cursor c;

	(void)state;
	for (uint64_t v = 1; v; v <<= 7)
		buffer_varint(&b, v - 1);
	buffer_append(&b, "xyz", 3);
	buffer_printf(&b, "%d", 12345);
	assert_false(b.bad);
	c = cursor_of(b.data, b.len);
	for (uint64_t v = 1; v; v <<= 7)
		assert_int_equal(cursor_uleb(&c), v - 1);
	assert_memory_equal(cursor_bytes(&c, 8), "xyz12345", 8);
	assert_int_equal(cursor_left(&c), 0);
	assert_null(buffer_reserve(&b, SIZE_MAX / 2));
	assert_true(b.bad);
	buffer_append(&b, "more", 4); /* stays as it was */
	assert_int_equal(c.end - b.data, (ptrdiff_t)b.len);
}

static void test_compact(void **state)
{
	struct buffer b = {0};
	size_t done = 0;

	(void)state;
	buffer_compact(&b, &done, 0); /* nothing in it */
	assert_null(b.data);
	buffer_append(&b, "0123456789", 10);
	buffer_compact(&b, &done, 0);
	assert_int_equal(b.len, 10);
	done = 4; /* the smaller half: it stays */
	buffer_compact(&b, &done, 0);
	assert_int_equal(b.len, 10);
	assert_int_equal(done, 4);
	done = 5;
	buffer_compact(&b, &done, 0);
	assert_int_equal(b.len, 5);
	assert_int_equal(done, 0);
	assert_memory_equal(b.data, "56789", 5);
	done = 5;
	buffer_compact(&b, &done, b.room); /* small: its memory stays */
	assert_int_equal(b.len, 0);
	assert_int_equal(done, 0);
	assert_non_null(b.data);
	buffer_append(&b, "0", 1);
	done = 1;
	buffer_compact(&b, &done, b.room - 1);
	assert_null(b.data);
	assert_int_equal(b.room, 0);
	buffer_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cursor_bounds), cmocka_unit_test(test_leb),
		cmocka_unit_test(test_string),	      cmocka_unit_test(test_buffer),
		cmocka_unit_test(test_compact),
	};

	return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
