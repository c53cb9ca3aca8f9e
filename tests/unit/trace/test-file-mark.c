/* test-file-mark.c - the packets around a file, byte by byte, and what is counted between them. */
#include "trace/file-mark.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

static void put_perf_sample(struct buffer *to, uint32_t field, uint64_t value)
{
	struct buffer packet = {0}, sample = {0};

	put_number(&packet, 8, 1234567);
	put_text(&packet, 12, "interned");
	put_number(&sample, 1, 3);
	put_number(&sample, 6, 99);
	if (field == 19)
		put_text(&sample, 19, "\010\1");
	else if (field)
		put_number(&sample, field, value);
	put_message(&packet, 66, &sample);
	put_message(to, 1, &packet);
}

static void put_other(struct buffer *to)
{
	struct buffer packet = {0};

	put_number(&packet, 8, 1234567);
	buffer_append(&packet, "\141\1\2\3\4\5\6\7\7\155\1\2\3\3", 14); /* 12: 64 bits, 13: 32 */
	put_text(&packet, 2, "tree");
	put_message(to, 1, &packet);
}

static struct sink_count counted(const struct buffer *b)
{
	struct sink_count count = {0};

	sink_count_add(&count, b->data, b->len);
	return count;
}

static void test_count(void **state)
{
	struct buffer b = {0};
	struct sink_count count;

	(void)state;
	put_other(&b);
	put_perf_sample(&b, 0, 0);
	put_perf_sample(&b, 16, 5); /* an unwind error: a sample all the same */
	put_perf_sample(&b, 17, 7); /* lost records */
	put_perf_sample(&b, 18, 4); /* skipped */
	put_perf_sample(&b, 19, 1); /* the guardrail */
	put_other(&b);
	count = counted(&b);
	assert_int_equal(count.packets, 7);
	assert_int_equal(count.samples, 2);
	b.len--; /* the last is no longer whole */
	count = counted(&b);
	assert_int_equal(count.packets, 6);
	assert_int_equal(count.samples, 2);
	buffer_deinit(&b);
	/* Packets that are damaged inside are packets, and no samples. */
	put_bytes(&b, 1, "\222\4\5\010", 4);	   /* perf_sample of 5 bytes, of which 1 is there */
	put_bytes(&b, 1, "\222\4\2\010\200", 5);   /* a number that does not end */
	put_bytes(&b, 1, "\014\222\4\2\010\1", 6); /* a group: protobuf no longer writes them */
	put_bytes(&b, 1, "", 0);
	count = counted(&b);
	assert_int_equal(count.packets, 4);
	assert_int_equal(count.samples, 0);
	buffer_deinit(&b);
}

static void check(struct sink *sink, const char *bytes, size_t len)
{
	const void *data;
	size_t n;

	data = sink_memory_data(sink, &n);
	assert_int_equal(n, len);
	assert_memory_equal(data, bytes, len);
	sink_memory_clear(sink);
}

/* The first field: 60001 << 3 | 2, in groups of 7 bits. */
static void test_packets(void **state)
{
	const struct sink_count count = {300, 2};
	const struct sink_count most = {UINT64_MAX, UINT64_MAX};
	struct sink *sink;
	size_t n;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(file_mark_begin(sink, 1300, false), 0);
	check(sink, "\n\011\212\246\035\005\042\003\010\224\012", 11);
	assert_int_equal(file_mark_begin(sink, 0, false), 0);
	check(sink, "\n\006\212\246\035\002\042\000", 8);
	assert_int_equal(file_mark_end(sink, &count, false), 0);
	check(sink, "\n\013\212\246\035\007\052\005\010\254\002\020\002", 13);
	assert_int_equal(file_mark_end(sink, &count, true), 0);
	check(sink, "\n\015\212\246\035\011\052\007\010\254\002\020\002\030\001", 15);
	/* The largest of both, deflated one by one: a zlib stream is 11 bytes longer at most, and
	 * its heads take 8. */
	assert_int_equal(file_mark_begin(sink, UINT32_MAX, true), 0);
	assert_int_equal(file_mark_end(sink, &most, true), 0);
	(void)sink_memory_data(sink, &n);
	assert_true(n + 2 * (11 + 8) <= FILE_MARK_BYTES);
	sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
