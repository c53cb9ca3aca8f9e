/* test-perfdata-holes.c - what is not in use of a stack's copy is left out; all else of each record is as in the file. */
#include <errno.h>
#include <stddef.h>

#include "perf/perfdata/perfdata-private.h"
#include "perf/record.h"
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

#define TYPE (FIXTURE_TYPE | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC)

enum {
	ROOM = 65440, /* with all the rest just below 64 KiB */
	UNUSED = 0xff,
	SMALLEST = 4096, /* a hole of so many bytes: the begin of a record is read at once */
};

/* identifier ip pid/tid time cpu period, size bytes[size] dyn_size, data_src.  @size is what the record states. */
static void put_copy(struct buffer *b, uint64_t time, uint64_t size, uint64_t room, uint64_t used)
{
	static uint8_t body[UINT16_MAX];
	const uint64_t head[] = {ID_A, 0x401000, 7ull << 32 | 7, time, 0, 1, size}, last = ~time;
	size_t at = sizeof(head);

	memcpy(body, head, sizeof(head));
	for (size_t i = 0; i < room; i++)
		body[at + i] = i < used ? (uint8_t)(time * 31 + i % 251) & 0x7f : UNUSED;
	memcpy(body + at + room, &used, 8);
	memcpy(body + at + room + 8, &last, 8);
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, body, at + room + 16);
}

/* A file of @data; its events have the sample types @a and @b. */
static int file_of(const struct buffer *data, uint64_t a, uint64_t b, size_t cut)
{
	const uint64_t types[] = {a, b};
	struct buffer file = {0};
	int fd;

	put_file(&file, data, 0, NULL, NULL);
	for (size_t i = 0; i < 2; i++)
		memcpy(file.data + 104 + i * (sizeof(struct perf_event_attr) + 16) +
			       offsetof(struct perf_event_attr, sample_type),
		       &types[i], 8);
	file.len -= cut;
	fd = fixture_fd(&file);
	buffer_deinit(&file);
	return fd;
}

/* The same record, or that of a smaller copy?  True: it is smaller. */
static bool check_record(const struct perfdata_item *item, const uint8_t *expected)
{
	const uint8_t *found = (const uint8_t *)item->record;
	static uint8_t aligned[UINT16_MAX + 1] __attribute__((aligned(8)));
	size_t size = item->record->size, room, head, tail;
	struct perf_event_header header;
	struct record_sample s, small;

	memcpy(&header, expected, sizeof(header));
	if (size == header.size) {
		assert_memory_equal(found, expected, size);
		return false;
	}
	memcpy(aligned, expected, header.size);
	assert_int_equal(item->record->type, PERF_RECORD_SAMPLE);
	assert_int_equal(item->record->misc, header.misc);
	assert_int_equal(record_parse_sample(item->layout, (const void *)aligned, &s), 0);
	assert_int_equal(record_parse_sample(item->layout, item->record, &small), 0);
	assert_non_null(s.stack);
	assert_non_null(small.stack);
	room = s.stack_room - (header.size - size);
	assert_int_equal(small.stack_room, room);
	assert_int_equal(small.stack_len, s.stack_len);
	assert_true(s.stack_len < room); /* filled only if the copy was */
	head = (size_t)(s.stack - aligned);
	assert_int_equal((size_t)(small.stack - found), head);
	assert_memory_equal(found + sizeof(header), expected + sizeof(header),
			    head - 8 - sizeof(header));
	assert_memory_equal(small.stack, s.stack, s.stack_len);
	tail = header.size - head - s.stack_room;
	assert_memory_equal(found + size - tail, expected + header.size - tail, tail);
	return true;
}

/* Reads the file and compares it with @data; the number of records, and of holes. */
static size_t read_all(const struct buffer *data, int fd, const struct perfdata_limits *limits,
		       size_t *ret_holes, const char **ret_damage)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	char error[256];
	size_t at = 0, n = 0;

	*ret_holes = 0;
	assert_int_equal(perfdata_new(fd, limits, &pd, error, sizeof(error)), 0);
	while (perfdata_next(pd, &item) == 0) {
		struct perf_event_header header;

		for (;; at += header.size) { /* not perf's own records */
			memcpy(&header, data->data + at, sizeof(header));
			if (header.type < PERFDATA_USER_TYPE_START)
				break;
			at += header.type == PERFDATA_AUXTRACE ? 64 : 0;
		}
		*ret_holes += check_record(&item, data->data + at);
		perfdata_put(pd, item.block);
		at += header.size;
		n++;
	}
	if (ret_damage)
		*ret_damage = perfdata_counts(pd)->damage;
	else
		assert_null(perfdata_counts(pd)->damage);
	close(fd);
	return n;
}

static const struct {
	uint64_t room, used;
} cases[] = {
	{ROOM, 0},	  {ROOM, 1},	     {ROOM, 7000},    {ROOM, ROOM},	 {ROOM, ROOM - 1},
	{ROOM, ROOM / 2}, {ROOM, ROOM - 64}, {24 << 10, 100}, {24 << 10, 20000}, {512, 100},
	{8, 3},		  {ROOM, 3000},
};

enum { N = 400 };

/* Records of all sizes, others between them.  The number that must have holes. */
static size_t put_all(struct buffer *data)
{
	size_t n = 0;

	for (uint64_t i = 0; i < N; i++) {
		uint64_t room = cases[i * 7 % ARRAY_SIZE(cases)].room,
			 used = cases[i * 7 % ARRAY_SIZE(cases)].used;

		put_copy(data, 2 * i + 1, room, room, used);
		n += room > 16 << 10 && room - used > SMALLEST;
		if (i % 3 == 0)
			put_comm(data, ID_A, 2 * i + 2);
		if (i % 10 == 0)
			put_round(data);
	}
	return n;
}

static void test_holes(void **state)
{
	static const size_t pieces[] = {SIZE_MAX, 100000, 65536, 1000};
	struct buffer data = {0};
	size_t expected = put_all(&data), holes, n = N + (N + 2) / 3;

	(void)state;
	assert_true(expected > N / 2);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		const struct perfdata_limits limits = {.ahead = 1, .piece = pieces[i]};

		assert_int_equal(
			read_all(&data, file_of(&data, TYPE, TYPE, 0), &limits, &holes, NULL), n);
		/* the first piece of the file may be read as for small records */
		if (pieces[i] > UINT16_MAX)
			assert_in_range(holes, expected - 4, N);
	}
	buffer_deinit(&data);
}

/* Without the thread, and where an event has no copies: records of both are not distinguished. */
static void test_none(void **state)
{
	struct buffer data = {0};
	size_t holes, n = N + (N + 2) / 3;

	(void)state;
	(void)put_all(&data);
	assert_int_equal(read_all(&data, file_of(&data, TYPE, TYPE, 0),
				  &(struct perfdata_limits){.ahead = UINT64_MAX}, &holes, NULL),
			 n);
	assert_int_equal(holes, 0);
	assert_int_equal(read_all(&data, file_of(&data, TYPE, FIXTURE_TYPE, 0),
				  &(struct perfdata_limits){.ahead = 1}, &holes, NULL),
			 n);
	assert_int_equal(holes, 0);
	buffer_deinit(&data);
}

/* Copies that state what cannot be: each record is read whole, and the records behind it are found. */
static void test_damaged(void **state)
{
	static const struct {
		uint64_t size, used;
	} bad[] = {
		{ROOM, ROOM + 1},      {ROOM, UINT64_MAX}, {ROOM + 8, 100},
		{UINT64_MAX - 7, 100}, {ROOM - 4, 100},	   {0, 0},
	};
	const struct perfdata_limits limits = {.ahead = 1};
	struct buffer data = {0};
	size_t holes;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		put_copy(&data, 3 * i + 1, bad[i].size, ROOM, bad[i].used);
		put_copy(&data, 3 * i + 2, ROOM, ROOM, 100);
		put_comm(&data, ID_A, 3 * i + 3);
	}
	assert_int_equal(read_all(&data, file_of(&data, TYPE, TYPE, 0), &limits, &holes, NULL),
			 3 * ARRAY_SIZE(bad));
	assert_true(holes >= ARRAY_SIZE(bad) - 1);
	buffer_deinit(&data);
}

/* Bytes that are not a record: from there on all is read. */
static void test_auxtrace(void **state)
{
	const uint64_t words[] = {64, 0, 0, 0, 0, 0};
	const struct perfdata_limits limits = {.ahead = 1};
	struct buffer data = {0};
	uint8_t behind[64];
	size_t holes;

	(void)state;
	memset(behind, 0x0b, sizeof(behind)); /* no size that can be */
	for (uint64_t i = 0; i < 40; i++) {
		put_copy(&data, i + 1, ROOM, ROOM, 100);
		if (i != 19)
			continue;
		put_record(&data, PERFDATA_AUXTRACE, 0, words, sizeof(words));
		buffer_append(&data, behind, sizeof(behind));
	}
	assert_int_equal(read_all(&data, file_of(&data, TYPE, TYPE, 0), &limits, &holes, NULL), 40);
	assert_in_range(holes, 16, 20);
	buffer_deinit(&data);
}

/* A file that ends in the last record: in the word behind the hole, in the hole, in what is in use. */
static void test_cut(void **state)
{
	static const size_t cuts[] = {1, 8, 9, 20, 40000, ROOM, ROOM + 60, ROOM + 79};
	const struct perfdata_limits limits = {.ahead = 1};
	struct buffer data = {0};

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		put_copy(&data, i + 1, ROOM, ROOM, 9000);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		const char *damage;
		size_t holes;

		assert_int_equal(read_all(&data, file_of(&data, TYPE, TYPE, cuts[i]), &limits,
					  &holes, &damage),
				 19);
		assert_string_equal(damage, "the file ends too early");
	}
	buffer_deinit(&data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes),	cmocka_unit_test(test_none),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_auxtrace),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
