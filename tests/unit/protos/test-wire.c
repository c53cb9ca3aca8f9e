/* test-wire.c - protobuf's wire format by hand (protos/wire.h), the numbers made from the .proto files
 * (protos/fields.awk), and message_unpack(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "protos/control.fields.h"
#include "protos/message.h"
#include "protos/perfwind.fields.h"
#include "protos/perfwind.pb-c.h"
#include "protos/profile.fields.h"
#include "protos/trace.fields.h"
#include "protos/trace_config.fields.h"
#include "protos/wire.h"

/* Stated by hand, from the public formats: a message, a nested one, a oneof, an option behind the
 * number, a package of its own, two messages of one name. */
static void test_field_numbers(void **state)
{
	(void)state;
	assert_int_equal(TRACE__PACKET, 1);
	assert_int_equal(TRACE_PACKET__PERFWIND_STATS, 60001);
	assert_int_equal(PROCESS_TREE__PROCESS__CMDLINE_IS_COMM, 9);
	assert_int_equal(PERF_SAMPLE__UNWIND_ERROR, 16);
	assert_int_equal(PERF_SAMPLE__PRODUCER_EVENT__SOURCE_STOP_REASON, 1);
	assert_int_equal(TRACE_STATS__WRITER_STATS__CHUNK_PAYLOAD_HISTOGRAM_SUM, 3);
	assert_int_equal(TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY, 4);
	assert_int_equal(TRACE_CONFIG__TRACE_ATTRIBUTES__ATTRIBUTE__STRING_VALUE, 3);
	assert_int_equal(CONTROL_REQUEST__PIDS, 4);
	assert_int_equal(PERFWIND_STATS__END__FULL, 3);
	assert_int_equal(MAPPING__BUILD_ID, 2);
	assert_int_equal(PPROF__MAPPING__BUILD_ID, 6);
}

static void test_varint(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= 64; bits++) {
		uint64_t value = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
		uint8_t bytes[PACK_VARINT_MAX];
		size_t len = (size_t)(pack_varint(bytes, value) - bytes);
		struct cursor c = cursor_of(bytes, len), by_table = c;

		assert_int_equal(len, pack_varint_size(value));
		assert_int_equal(len, bits <= 7 ? 1 : (bits + 6) / 7);
		assert_int_equal(wire_varint(&c), value);
		assert_false(c.bad);
		assert_int_equal(cursor_left(&c), 0);
		assert_int_equal(cursor_uleb(&by_table), value);
		for (size_t cut = 0; cut < len; cut++) {
			c = cursor_of(bytes, cut);
			assert_int_equal(wire_varint(&c), 0);
			assert_true(c.bad);
		}
	}
}

static void test_too_long_a_varint(void **state)
{
	const uint8_t bytes[11] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
				   0x80, 0x80, 0x80, 0x80, 0x00};
	struct cursor c = cursor_of(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(wire_varint(&c), 0);
	assert_true(c.bad);
}

static void test_fields(void **state)
{
	uint8_t bytes[64], *p = bytes;
	struct wire_field f;
	struct cursor c;

	(void)state;
	p = pack_number(p, 8, 300);
	p = pack_bytes(p, 60001, "abc", 3);
	memcpy(p, "\x11\1\2\3\4\5\6\7\x08\x1d\1\0\0\x80", 14); /* 2: fixed64, 3: fixed32 */
	p += 14;
	c = cursor_of(bytes, (size_t)(p - bytes));
	assert_true(wire_next(&c, &f));
	assert_true(wire_is(&f, 8) && !wire_is_bytes(&f, 8) && f.value == 300);
	assert_true(wire_next(&c, &f));
	assert_true(wire_is_bytes(&f, 60001) && !wire_is(&f, 60001));
	assert_int_equal(f.len, 3);
	assert_memory_equal(f.data, "abc", 3);
	assert_true(wire_next(&c, &f));
	assert_true(wire_is(&f, 2) && f.value == 0x0807060504030201);
	assert_true(wire_next(&c, &f));
	assert_true(wire_is(&f, 3) && f.value == 0x80000001);
	assert_false(wire_next(&c, &f));
	assert_false(c.bad);
	assert_int_equal(pack_number_size(8, 300) + pack_bytes_size(60001, 3) + 14, p - bytes);
}

static void test_damage(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
		{"\x00\x01", 2}, /* field 0 */
		{"\x0b\x0c", 2}, /* a group */
		{"\x0f", 1},	 /* wire type 7 */
		{"\x0a\x05"
		 "abc",
		 5}, /* longer than what is left */
		{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
		{"\x09\x01", 2},			 /* fixed64, cut */
		{"\x80\x80\x80\x80\x80\x80\x01\x00", 8}, /* a number beyond 29 bits */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(cases[i].bytes, cases[i].len);
		struct wire_field f;

		assert_false(wire_next(&c, &f));
		assert_true(c.bad);
	}
}

/* protobuf-c merges a field that comes twice; the number of fields is bounded before. */
static void test_message(void **state)
{
	uint8_t bytes[64], *p = bytes;
	Pb__PerfwindStats *stats;

	(void)state;
	for (int i = 0; i < 5; i++)
		p = pack_number(p, PERFWIND_STATS__BOOTTIME, 7);
	stats = (Pb__PerfwindStats *)message_unpack(&pb__perfwind_stats__descriptor, bytes,
						    (size_t)(p - bytes), 5);
	assert_non_null(stats);
	assert_int_equal(stats->boottime, 7);
	message_freep(&stats);
	assert_null(message_unpack(&pb__perfwind_stats__descriptor, bytes, (size_t)(p - bytes), 4));
	assert_null(
		message_unpack(&pb__perfwind_stats__descriptor, bytes, (size_t)(p - bytes) - 1, 5));
	stats = (Pb__PerfwindStats *)message_unpack(&pb__perfwind_stats__descriptor, NULL, 0, 5);
	assert_non_null(stats);
	message_freep(&stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_field_numbers),
		cmocka_unit_test(test_varint),
		cmocka_unit_test(test_too_long_a_varint),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
