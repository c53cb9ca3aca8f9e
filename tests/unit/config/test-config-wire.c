/* test-config-wire.c - what may be unpacked, and what is refused and where. */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "base/bytes.h"
#include "config/config.h"
#include "protos/trace_config.pb-c.h"

static char error[256];

static int check(const void *data, size_t len)
{
	_cleanup_(freep) char *copy = malloc(len + !len);

	assert_non_null(copy);
	if (len)
		memcpy(copy, data, len);
	error[0] = 0;
	return wire_check(&pb__trace_config__descriptor, copy, len, error, sizeof(error));
}
#define CHECK(bytes) check(bytes, sizeof(bytes) - 1)
#define REFUSED(bytes, line)                             \
	do {                                             \
		assert_int_equal(CHECK(bytes), -EINVAL); \
		assert_string_equal(error, line);        \
	} while (0)

static void test_good(void **state)
{
	(void)state;
	assert_int_equal(check(NULL, 0), 0);
	assert_int_equal(CHECK("\x18\x90\x4e"), 0);
	assert_int_equal(CHECK("\x0a\x02\x08\x04"), 0);
	/* fields that are not known, of each kind */
	assert_int_equal(CHECK("\xf8\x3f\x01\xf9\x3f"
			       "12345678\xfa\x3f\x03\xff\xff\xff\xfd\x3f"
			       "1234"),
			 0);
	/* what is in a data source's config that is not ours */
	assert_int_equal(CHECK("\x12\x08\x0a\x06\xa2\x06\x03\x0b\xff\xff"), 0 - EINVAL);
	assert_int_equal(CHECK("\x12\x07\x0a\x05\xa2\x06\x02\x08\x07"), 0);
	/* numbers packed, as proto3 writes them */
	assert_int_equal(CHECK("\x12\x0b\x0a\x09\xfa\x06\x06\xa2\x01\x03\x01\xac\x02"), 0);
}

static void test_bad(void **state)
{
	(void)state;
	REFUSED("\x18", "byte 0, in TraceConfig: duration_ms is cut short");
	REFUSED("\x18\x80", "byte 0, in TraceConfig: duration_ms is cut short");
	REFUSED("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"byte 0, in TraceConfig: duration_ms is cut short");
	REFUSED("\x80", "byte 0, in TraceConfig: this is not a field");
	REFUSED("\x00", "byte 0, in TraceConfig: this is not a field");
	REFUSED("\x0a\x05\x08\x04", "byte 1, in TraceConfig: buffers of 5 bytes goes past the end");
	REFUSED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"byte 1, in TraceConfig: buffers of 18446744073709551615 bytes goes past the end");
	REFUSED("\x0a\x02\x0a\x00", "byte 2, in BufferConfig: size_kb is of another kind");
	REFUSED("\x18\x01\x1b", "byte 2, in TraceConfig: field 3 has no kind that is known (3)");
	REFUSED("\xb2\x01\x03"
		"a\0b",
		"byte 2, in TraceConfig: unique_session_name holds a NUL");
	REFUSED("\xb0\x01\x03", "byte 0, in TraceConfig: unique_session_name is of another kind");
	REFUSED("\x82\x80\x80\x80\x10\x00", "byte 0, in TraceConfig: this is not a field");
}

static void test_bounds(void **state)
{
	_cleanup_(buffer_deinit) struct buffer many = {0};
	_cleanup_(freep) uint8_t *packed = calloc(1, 70000);
	struct buffer list = {0};

	(void)state;
	assert_non_null(packed);
	for (size_t i = 0; i < WIRE_FIELDS; i++)
		buffer_append(&many, "\x0a\x00", 2);
	assert_int_equal(check(many.data, many.len), 0);
	buffer_append(&many, "\x0a\x00", 2);
	assert_int_equal(check(many.data, many.len), -EINVAL);
	assert_string_equal(error, "byte 131072, in TraceConfig: more than 65536 fields");
	/* a list of numbers counts each */
	many.len = 0;
	buffer_varint(&list, 20 << 3 | 2);
	buffer_varint(&list, 70000);
	buffer_append(&list, packed, 70000);
	buffer_append(&many, "\xfa\x06", 2);
	buffer_varint(&many, list.len);
	buffer_append(&many, list.data, list.len);
	buffer_deinit(&list);
	assert_int_equal(wire_check(&pb__data_source_config__descriptor, many.data, many.len, error,
				    sizeof(error)),
			 -EINVAL);
	assert_non_null(strstr(error, "more than 65536 fields"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
