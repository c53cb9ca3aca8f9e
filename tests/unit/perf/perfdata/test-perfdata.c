/* test-perfdata.c - perfdata.h: both modes, order, events by id, and where the memory goes. */
#include <errno.h>

#include "tests/unit/perf/perfdata/perfdata-fixture.h"

static char *read_bytes(struct buffer *b, size_t hold, struct perfdata **ret_perfdata)
{
	int fd = fixture_fd(b);
	char *text = fixture_read(fd, hold, ret_perfdata);

	close(fd);
	buffer_deinit(b);
	return text;
}

static void check_pipe(void (*fill)(struct buffer *b), const char *expected)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0};

	put_pipe_head(&b);
	fill(&b);
	text = read_bytes(&b, 0, &pd);
	assert_string_equal(text, expected);
	assert_true(perfdata_info(pd)->pipe);
	assert_null(perfdata_counts(pd)->damage);
	assert_int_equal(perfdata_counts(pd)->disordered, 0);
}

/* Two rings, each in order, one behind the other in each round.  What the second round still has
 * of the time before the first one's end comes to its place. */
static void fill_rounds(struct buffer *b)
{
	put_sample(b, ID_A, 10);
	put_sample(b, ID_A, 30);
	put_sample(b, ID_B, 20);
	put_round(b);
	put_sample(b, ID_A, 40);
	put_comm(b, ID_B, 25);
	put_sample(b, ID_B, 50);
	put_round(b);
	put_sample(b, ID_B, 45);
	put_round(b);
}

static void test_rounds(void **state)
{
	(void)state;
	check_pipe(fill_rounds, "s0@10 s1@20 r3@25 s0@30 s0@40 s1@45 s1@50 ");
}

/* At one time what a sample may depend on goes first; perf's own records of what was there before
 * have no time and go at once. */
static void fill_ties(struct buffer *b)
{
	put_sample(b, ID_A, 10);
	put_comm(b, ID_A, 10);
	put_comm(b, 0, 0);
	put_comm(b, ID_B, UINT64_MAX);
}

static void test_ties(void **state)
{
	(void)state;
	check_pipe(fill_ties, "r3@0 r3@0 r3@10 s0@10 ");
}

/* Names by record, a trailer of raw data behind a record, records that are perf's own. */
static void fill_own(struct buffer *b)
{
	uint64_t update[4] = {2, ID_B};
	const uint64_t aux[] = {24, 0, 0, 0, 0};
	const uint64_t conversion[] = {10, 512, 77, 3, 4095, 0x0001}; /* no cap_user_time_short */
	const uint32_t tracing = 16;

	memcpy(&update[2], "faults", 7);
	put_record(b, 78, 0, update, sizeof(update));
	put_record(b, 71, 0, aux, sizeof(aux));
	buffer_append(b, "these are not records...", 24);
	put_record(b, 66, 0, &tracing, sizeof(tracing));
	buffer_append(b, "nor are these...", 16);
	put_record(b, 79, 0, conversion, sizeof(conversion));
	put_record(b, 82, 0, NULL, 0);
	put_sample(b, ID_B, 5);
}

static void test_own_records(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0};

	(void)state;
	put_pipe_head(&b);
	fill_own(&b);
	text = read_bytes(&b, 0, &pd);
	assert_string_equal(text, "s1@5 ");
	assert_string_equal(perfdata_info(pd)->events[0].name, "cpu-clock");
	assert_string_equal(perfdata_info(pd)->events[1].name, "faults");
	assert_int_equal(perfdata_counts(pd)->foreign_records, 1);
	assert_true(perfdata_info(pd)->has_conversion);
	assert_int_equal(perfdata_info(pd)->conversion.shift, 10);
	assert_int_equal(perfdata_info(pd)->conversion.zero, 77);
	assert_int_equal(perfdata_info(pd)->conversion.mask, 0);
}

/* The kernel denies that the clock follows from the counter; a record that is too short; a shift that no number has. */
static void test_no_conversion(void **state)
{
	const uint64_t records[][6] = {{10, 512, 77, 0, 0, 0}, {64, 512, 77, 0, 0, 1}, {10, 512}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		_cleanup_(freep) char *text = NULL;
		struct buffer b = {0};

		put_pipe_head(&b);
		put_record(&b, 79, 0, records[i], i < 2 ? sizeof(records[i]) : 16);
		put_sample(&b, ID_B, 5);
		text = read_bytes(&b, 0, &pd);
		assert_false(perfdata_info(pd)->has_conversion);
		assert_int_equal(perfdata_counts(pd)->bad_records, i == 2);
	}
}

static void test_file(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, data = {0};
	uint32_t event = 7;

	(void)state;
	put_comm(&data, 0, 0);
	put_sample(&data, ID_B, 9);
	put_sample(&data, ID_A, 8);
	put_file(&b, &data, 0, NULL, NULL);
	text = read_bytes(&b, 0, &pd);
	assert_string_equal(text, "r3@0 s0@8 s1@9 ");
	assert_false(perfdata_info(pd)->pipe);
	assert_false(perfdata_info(pd)->unfinished);
	assert_int_equal(perfdata_counts(pd)->bytes, data.len);
	assert_int_equal(perfdata_counts(pd)->samples, 2);
	assert_int_equal(perfdata_counts(pd)->records, 3);
	assert_true(perfdata_event_of_id(pd, ID_B, &event));
	assert_int_equal(event, 1);
	assert_false(perfdata_event_of_id(pd, ID_B + 1, &event));
	buffer_deinit(&data);
}

/* An id that no event has: left out, counted. */
static void test_unknown_id(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0};

	(void)state;
	put_pipe_head(&b);
	put_sample(&b, 77, 1);
	put_comm(&b, 77, 1);
	put_sample(&b, ID_A, 2);
	text = read_bytes(&b, 0, &pd);
	assert_string_equal(text, "s0@2 ");
	assert_int_equal(perfdata_counts(pd)->bad_records, 2);
	assert_int_equal(perfdata_counts(pd)->samples, 2);
}

/* More than a block: records that cross its end are whole; every record is where it was until it is
 * given back; the blocks are used again. */
static void test_blocks(void **state)
{
	enum { N = 20000 };
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item, first;
	struct buffer b = {0};
	char error[256];
	size_t n = 0;
	int fd;

	(void)state;
	put_pipe_head(&b);
	for (uint64_t i = 1; i <= N; i++) {
		put_sample(&b, ID_A, i);
		if (i % 100 == 0)
			put_round(&b);
	}
	fd = fixture_fd(&b);
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(perfdata_next(pd, &first), 0);
	while (perfdata_next(pd, &item) == 0) {
		const uint64_t *words = (const uint64_t *)(const void *)(item.record + 1);

		assert_int_equal(words[3], item.time);
		assert_int_equal(item.time, n + 2);
		assert_int_equal((uintptr_t)words % 8, 0);
		assert_true(perfdata_held(pd) <= 3 * 256 << 10);
		perfdata_put(pd, item.block);
		n++;
	}
	assert_int_equal(n, N - 1);
	assert_int_equal(((const uint64_t *)(const void *)(first.record + 1))[3], 1);
	perfdata_put(pd, first.block);
	close(fd);
	buffer_deinit(&b);
}

/* A file with rounds that never end: what waits is bounded, and what is out of order for it counted. */
static void test_bounded(void **state)
{
	enum { N = 40000, HOLD = 1 << 20 };
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	struct buffer b = {0};
	char error[256];
	size_t n = 0;
	int fd;

	(void)state;
	put_pipe_head(&b);
	for (uint64_t i = 1; i <= N; i++)
		put_sample(&b, ID_A, N + 1 - i);
	fd = fixture_fd(&b);
	assert_int_equal(perfdata_new(fd, &(struct perfdata_limits){.hold = HOLD}, &pd, error,
				      sizeof(error)),
			 0);
	while (perfdata_next(pd, &item) == 0) {
		assert_true(perfdata_held(pd) <= HOLD + 2 * (256 << 10));
		perfdata_put(pd, item.block);
		n++;
	}
	assert_int_equal(n, N);
	assert_true(perfdata_counts(pd)->early > 0);
	assert_true(perfdata_counts(pd)->disordered > 0);
	close(fd);
	buffer_deinit(&b);
}

/* Events without PERF_SAMPLE_IDENTIFIER: one layout serves; two that differ cannot be distinguished.
 */
static void put_plain_events(struct buffer *b, uint64_t second_type)
{
	struct perf_event_attr attr = fixture_attr(0);

	buffer_append(b, "PERFILE2", 8);
	put64(b, 16);
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME;
	put_record(b, 64, 0, &attr, sizeof(attr));
	attr.sample_type = second_type;
	put_record(b, 64, 0, &attr, sizeof(attr));
}

static void test_no_identifier(void **state)
{
	static const uint64_t sample[] = {0x401000, 33};

	(void)state;
	for (int i = 0; i < 2; i++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		_cleanup_(freep) char *text = NULL;
		struct buffer b = {0};

		put_plain_events(&b, PERF_SAMPLE_IP | (i ? PERF_SAMPLE_TID : PERF_SAMPLE_TIME));
		put_record(&b, PERF_RECORD_SAMPLE, 0, sample, sizeof(sample));
		text = read_bytes(&b, 0, &pd);
		assert_string_equal(text, i ? "" : "s0@33 ");
		assert_int_equal(!!perfdata_counts(pd)->damage, i);
	}
}

/* EVENT_UPDATE: a name. */
static void put_name(struct buffer *b, uint64_t id, const char name[static 8])
{
	uint64_t words[] = {2, id, 0};

	memcpy(&words[2], name, 8);
	put_record(b, 78, 0, words, sizeof(words));
}

/* Events and their names may not come once records were given out: records point to them. */
static void test_late_event(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct perf_event_attr attr = fixture_attr(3);
	struct buffer b = {0};

	(void)state;
	put_pipe_head(&b);
	put_name(&b, ID_A, "first  ");
	put_sample(&b, ID_A, 1);
	put_name(&b, ID_A, "second ");
	put_record(&b, 64, 0, &attr, sizeof(attr));
	text = read_bytes(&b, 0, &pd);
	assert_string_equal(text, "s0@1 ");
	assert_int_equal(perfdata_info(pd)->n_events, 2);
	assert_string_equal(perfdata_info(pd)->events[0].name, "first  ");
	assert_int_equal(perfdata_counts(pd)->bad_records, 1);
}

/* Which of a file's records may have the bit: "y" or "n" of a record without an event's id, of event
 * A and of event B.  @asked and @mmap2: bit 0 is A's, bit 1 B's. */
static void check_asked(unsigned int asked, unsigned int mmap2, bool distinguished,
			const char *expected)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	const uint64_t ids[] = {0, ID_A, ID_B};
	struct perfdata_item item;
	struct buffer b = {0};
	char error[128], found[4] = "";
	int fd;

	buffer_append(&b, "PERFILE2", 8);
	put64(&b, 16);
	for (unsigned int i = 0; i < 2; i++) {
		struct perf_event_attr attr = fixture_attr(i);
		struct buffer body = {0};

		attr.build_id = asked >> i & 1;
		attr.mmap2 = mmap2 >> i & 1;
		if (!distinguished)
			attr.sample_type &= ~(uint64_t)PERF_SAMPLE_IDENTIFIER;
		buffer_append(&body, &attr, sizeof(attr));
		put64(&body, ID_A + i);
		put_record(&b, 64, 0, body.data, body.len);
		buffer_deinit(&body);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		put_comm(&b, ids[i], 0);
	fd = fixture_fd(&b);
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_int_equal(perfdata_next(pd, &item), 0);
		assert_int_equal(item.event, distinguished && i == 2 ? 1 : 0);
		found[i] = item.layout->build_id ? 'y' : 'n';
		perfdata_put(pd, item.block);
	}
	assert_string_equal(found, expected);
	close(fd);
	buffer_deinit(&b);
}

/* `perf record -a --buildid-mmap`: the last event alone was opened for build ids, and the mappings of
 * before have no event's id.  The kernel leaves its bit in records of events that did not ask. */
static void test_who_asked_for_build_ids(void **state)
{
	(void)state;
	check_asked(0, 3, true, "nnn");
	check_asked(2, 2, true, "yny");
	check_asked(2, 3, true, "yny");
	check_asked(1, 3, true, "yyn");
	check_asked(3, 3, true, "yyy");
	check_asked(2, 2, false, "yyy");
	check_asked(2, 3, false, "nnn");
	check_asked(1, 3, false, "nnn");
	check_asked(3, 3, false, "yyy");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_ties),
		cmocka_unit_test(test_own_records),
		cmocka_unit_test(test_no_conversion),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_unknown_id),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_no_identifier),
		cmocka_unit_test(test_late_event),
		cmocka_unit_test(test_who_asked_for_build_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
