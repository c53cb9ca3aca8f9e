/* test-perfdata-header.c - perfdata-header.c: what a file states of itself,
 * and files that are none. */
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

static void check_refused(struct buffer *b, const char *word)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	int fd = fixture_fd(b);

	text = fixture_read(fd, 0, &pd);
	assert_null(pd);
	assert_non_null(strstr(text, word));
	close(fd);
	buffer_deinit(b);
}

static void test_foreign(void **state)
{
	struct buffer b = {0}, data = {0};

	(void)state;
	check_refused(&b, "not a perf.data");
	buffer_append(&b, "PERFILE", 7);
	check_refused(&b, "not a perf.data");
	buffer_append(&b, "#!/bin/sh\nexit 0\n", 17);
	check_refused(&b, "not a perf.data");
	buffer_append(&b, "2ELIFREP\0\0\0\0\0\0\0\x68", 16);
	check_refused(&b, "byte order");
	buffer_append(&b, "PERFFILE\x68\0\0\0\0\0\0\0", 16);
	check_refused(&b, "2010");
	buffer_append(&b, "PERFILE2\x70\0\0\0\0\0\0\0", 16);
	check_refused(&b, "unknown size");
	put_file(&b, &data, 0, NULL, NULL);
	b.len = 104;
	check_refused(&b, "damaged");
}

/* One field of the header made impossible at a time: where, and what it becomes. */
static void test_lying_header(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
	} lies[] = {
		{16, 8},
		{16, 1 << 20},
		{24, 1ull << 63},
		{32, 0},
		{32, 1ull << 40},
		{40, UINT64_MAX},
		{48, UINT64_MAX},
		{104 + sizeof(struct perf_event_attr), 1ull << 62}, /* ids: where */
		{112 + sizeof(struct perf_event_attr), 1ull << 50}, /* ... and how many */
		{112 + sizeof(struct perf_event_attr), 7},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct buffer b = {0}, data = {0};

		put_sample(&data, ID_A, 1);
		put_file(&b, &data, 0, NULL, NULL);
		memcpy(b.data + lies[i].at, &lies[i].value, 8);
		check_refused(&b, "damaged header");
		buffer_deinit(&data);
	}
}

/* perf was killed: the data's size is not filled in, nothing stands behind it. */
static void test_unfinished(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, data = {0};
	int fd;

	(void)state;
	put_sample(&data, ID_A, 1);
	put_file(&b, &data, 0xffff, NULL, (size_t[16]){0});
	b.len = 104 + 2 * (sizeof(struct perf_event_attr) + 16) + 16 + data.len;
	memset(b.data + 48, 0, 8);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "s0@1 ");
	assert_true(perfdata_info(pd)->unfinished);
	assert_false(perfdata_info(pd)->features_cut);
	assert_null(perfdata_counts(pd)->damage);
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&data);
}

static void put_build_id(struct buffer *b, uint16_t misc, uint8_t len, const char *path)
{
	uint8_t body[4 + 24 + 32] = {0xff, 0xff, 0xff, 0xff};

	memset(body + 4, 0xab, 20);
	body[24] = len;
	memcpy(body + 28, path, strlen(path));
	put_record(b, 67, misc, body, sizeof(body));
}

static void put_all_features(struct buffer *b, size_t *sizes)
{
	size_t from = b->len, n = 0;
	struct perf_event_attr attr = fixture_attr(0);

	put_build_id(b, 0, 0, "/bin/z");
	put_build_id(b, 1 << 15, 16, "/bin/a");
	sizes[n++] = b->len - from;
	for (int i = 0; i < 4; i++) { /* hostname, osrelease, version, arch */
		static const char *const words[] = {"box", "6.1.0-9", "6.1.187", "x86_64"};

		from = b->len;
		put_string(b, words[i]);
		sizes[n++] = b->len - from;
	}
	from = b->len;
	put32(b, 8);
	put32(b, 6);
	sizes[n++] = b->len - from;
	from = b->len; /* cmdline */
	put32(b, 2);
	put_string(b, "perf");
	put_string(b, "record");
	sizes[n++] = b->len - from;
	from = b->len; /* event desc, the second event first */
	put32(b, 2);
	put32(b, sizeof(attr));
	for (int i = 1; i >= 0; i--) {
		buffer_append(b, &attr, sizeof(attr));
		put32(b, 1);
		put_string(b, i ? "second:u" : "first:u");
		put64(b, (uint64_t)(ID_A + i));
	}
	sizes[n++] = b->len - from;
	from = b->len;
	put64(b, 100);
	put64(b, 200);
	sizes[n++] = b->len - from;
}

static const uint64_t ALL_FEATURES =
	1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11 | 1 << 12 | 1 << 21;

static void test_features(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, data = {0}, features = {0};
	const struct perfdata_build_id *id;
	const struct perfdata_info *info;
	size_t sizes[16];
	int fd;

	(void)state;
	put_sample(&data, ID_A, 1);
	put_all_features(&features, sizes);
	put_file(&b, &data, ALL_FEATURES, &features, sizes);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	info = perfdata_info(pd);
	assert_string_equal(info->hostname, "box");
	assert_string_equal(info->os_release, "6.1.0-9");
	assert_string_equal(info->perf_version, "6.1.187");
	assert_string_equal(info->arch, "x86_64");
	assert_string_equal(info->cmdline, "perf record");
	assert_int_equal(info->cpus_available, 8);
	assert_int_equal(info->cpus_online, 6);
	assert_string_equal(info->events[0].name, "first:u");
	assert_string_equal(info->events[1].name, "second:u");
	assert_int_equal(info->first_time, 100);
	assert_int_equal(info->last_time, 200);
	id = perfdata_build_id(pd, "/bin/a");
	assert_non_null(id);
	assert_int_equal(id->len, 16);
	assert_int_equal(id->bytes[15], 0xab);
	assert_int_equal(perfdata_build_id(pd, "/bin/z")->len, 20);
	assert_null(perfdata_build_id(pd, "/bin/b"));
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&features);
	buffer_deinit(&data);
}

/* Feature sections cut at every byte: never more than what is there, and the samples all the same.
 */
static void test_cut_features(void **state)
{
	struct buffer b = {0}, data = {0}, features = {0};
	size_t sizes[16], whole;

	(void)state;
	put_sample(&data, ID_A, 1);
	put_all_features(&features, sizes);
	put_file(&b, &data, ALL_FEATURES, &features, sizes);
	whole = b.len;
	for (size_t cut = 0; cut < features.len + 16 * 9; cut++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		_cleanup_(freep) char *text = NULL;
		int fd;

		b.len = whole - cut;
		fd = fixture_fd(&b);
		text = fixture_read(fd, 0, &pd);
		assert_string_equal(text, "s0@1 ");
		assert_int_equal(perfdata_info(pd)->features_cut, cut > 0);
		close(fd);
	}
	buffer_deinit(&b);
	buffer_deinit(&features);
	buffer_deinit(&data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign),	     cmocka_unit_test(test_lying_header),
		cmocka_unit_test(test_unfinished),   cmocka_unit_test(test_features),
		cmocka_unit_test(test_cut_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
