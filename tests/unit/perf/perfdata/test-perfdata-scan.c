/* test-perfdata-scan.c - perfdata.c: the mappings of a file, known before they are reached. */
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum { LARGE = 60000, COMPRESSED = 81, AUXTRACE = 71 };

/* pid/tid start len offset major/minor inode generation prot/flags path, trailer */
static void put_mapping(struct buffer *b, uint64_t inode, uint64_t time)
{
	uint64_t words[] = {7ull << 32 | 7, 0x1000, 0x1000, 0,	 8, inode, 0, 5, 0,
			    7ull << 32 | 7, time,   0,	    ID_A};

	memcpy(&words[8], "/file", 5);
	put_record(b, PERF_RECORD_MMAP2, 2, words, sizeof(words));
}

/* A sample with so many bytes of a stack. */
static void put_large(struct buffer *b, uint64_t time, size_t size)
{
	uint64_t *words = calloc(1, size);

	words[0] = ID_A;
	words[1] = 0x401000;
	words[3] = time;
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, size);
	free(words);
}

static void list(void *arg, const struct record_event *mapping)
{
	buffer_printf(arg, "%lu ", mapping->mmap.inode);
}

/* The inodes beforehand, after the first record; then what the reader gives is still all. */
static char *scanned_within(const struct buffer *b, uint64_t n_records, size_t hold)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	struct buffer text = {0};
	char error[128];
	int fd = fixture_fd(b);

	assert_int_equal(perfdata_new(fd, &(struct perfdata_limits){.ahead = 1, .hold = hold}, &pd,
				      error, sizeof(error)),
			 0);
	assert_true(perfdata_scan(pd, list, &text) < 0); /* how they are laid out is not known */
	for (uint64_t n = 0; n < n_records; n++) {
		assert_int_equal(perfdata_next(pd, &item), 0);
		perfdata_put(pd, item.block);
		if (n == 0)
			assert_int_equal(perfdata_scan(pd, list, &text), PERFDATA_END);
	}
	assert_int_equal(perfdata_next(pd, &item), PERFDATA_END);
	buffer_append(&text, "", 1);
	assert_false(text.bad);
	close(fd);
	return (char *)text.data;
}

static char *scanned(const struct buffer *b, uint64_t n_records)
{
	return scanned_within(b, n_records, 0);
}

/* Between records of every size: read along, or jumped over. */
static void test_all(void **state)
{
	static const size_t sizes[] = {48, 200, 248, 256, 4000, 4096, 8192, 16384, LARGE};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct buffer b = {0}, data = {0};
		struct buffer expected = {0};
		char *text;

		for (uint64_t k = 1; k <= 400; k++) {
			if (k % 7 == 1) {
				put_mapping(&data, k, k);
				buffer_printf(&expected, "%lu ", k);
			} else {
				put_large(&data, k, sizes[k % (i + 1)]);
			}
			if (k % 11 == 0)
				put_round(&data);
		}
		buffer_append(&expected, "", 1);
		put_file(&b, &data, 0, NULL, NULL);
		text = scanned(&b, 400);
		assert_string_equal(text, (char *)expected.data);
		free(text);
		buffer_deinit(&b);
		buffer_deinit(&data);
		buffer_deinit(&expected);
	}
}

/* What stands behind an AUXTRACE record is none, however much it looks like one. */
static void test_behind(void **state)
{
	struct buffer b = {0}, data = {0}, hidden = {0};
	uint64_t aux[6] = {0};
	char *text;

	(void)state;
	put_mapping(&hidden, 99, 1);
	aux[0] = hidden.len;
	put_mapping(&data, 1, 1);
	put_record(&data, AUXTRACE, 0, aux, sizeof(aux));
	buffer_append(&data, hidden.data, hidden.len);
	put_mapping(&data, 2, 2);
	put_file(&b, &data, 0, NULL, NULL);
	text = scanned(&b, 2);
	assert_string_equal(text, "1 2 ");
	free(text);
	buffer_deinit(&b);
	buffer_deinit(&data);
	buffer_deinit(&hidden);
}

/* A record of an impossible size, or one that is cut: what is behind it is not come to. */
static void test_damage(void **state)
{
	static const uint64_t impossible = 1;
	struct buffer b = {0};
	char *text;

	(void)state;
	put_pipe_head(&b);
	put_mapping(&b, 1, 1);
	put_mapping(&b, 2, 2);
	buffer_append(&b, &impossible, sizeof(impossible));
	put_mapping(&b, 3, 3);
	text = scanned(&b, 2);
	assert_string_equal(text, "1 2 ");
	free(text);
	buffer_deinit(&b);

	b = (struct buffer){0};
	put_pipe_head(&b);
	put_mapping(&b, 1, 1);
	put_mapping(&b, 2, 2);
	b.len -= 8;
	text = scanned(&b, 1);
	assert_string_equal(text, "1 ");
	free(text);
	buffer_deinit(&b);
}

static void test_pipe(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct buffer b = {0}, text = {0};
	struct perfdata_item item;
	char error[128];
	int fds[2];

	(void)state;
	put_pipe_head(&b);
	put_mapping(&b, 1, 1);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], b.data, b.len), (ssize_t)b.len);
	close(fds[1]);
	assert_int_equal(perfdata_new(fds[0], NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(perfdata_next(pd, &item), 0);
	perfdata_put(pd, item.block);
	assert_int_equal(perfdata_scan(pd, list, &text), PERFDATA_PIPE);
	assert_int_equal(text.len, 0);
	close(fds[0]);
	buffer_deinit(&b);
}

#ifdef HAVE_ZSTD
/* One stream over compressed records of odd lengths, so that what follows stands at any address. */
static void test_packed(void **state)
{
	struct buffer b = {0}, plain = {0};
	size_t room, n;
	uint8_t *packed;
	char *text;

	(void)state;
	for (uint64_t k = 1; k <= 100; k++) {
		if (k % 25)
			put_large(&plain, k, LARGE);
		else
			put_mapping(&plain, k, k);
	}
	room = ZSTD_compressBound(plain.len);
	packed = malloc(room);
	n = ZSTD_compress(packed, room, plain.data, plain.len, 1);
	assert_false(ZSTD_isError(n));
	put_pipe_head(&b);
	for (size_t at = 0; at < n; at += 4093)
		put_record(&b, COMPRESSED, 0, packed + at, min_u64(4093, n - at));
	put_mapping(&b, 101, 101);
	text = scanned(&b, 101);
	assert_string_equal(text, "25 50 75 100 101 ");
	free(text);
	/* the window needs more than there is next to the first: no mapping is known in advance */
	text = scanned_within(&b, 101, 4 << 20);
	assert_string_equal(text, "");
	free(text);
	free(packed);
	buffer_deinit(&b);
	buffer_deinit(&plain);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),    cmocka_unit_test(test_behind),
		cmocka_unit_test(test_damage), cmocka_unit_test(test_pipe),
#ifdef HAVE_ZSTD
		cmocka_unit_test(test_packed),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
