/* test-perfdata-zstd.c - perfdata-block.c: compressed records, made here with libzstd itself. */
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

#ifdef HAVE_ZSTD
#include <zstd.h>

enum { COMPRESSED = 81, COMPRESSED2 = 83 };

/* @plain as one stream over records of at most @piece packed bytes, as perf does. */
static void put_packed(struct buffer *b, const struct buffer *plain, size_t piece, uint32_t type)
{
	uint8_t *packed = malloc(ZSTD_compressBound(plain->len) + 1024);
	ZSTD_CStream *stream = ZSTD_createCStream();
	ZSTD_inBuffer in = {plain->data, plain->len, 0};
	ZSTD_outBuffer out = {packed, ZSTD_compressBound(plain->len) + 1024, 0};

	assert_false(ZSTD_isError(ZSTD_initCStream(stream, 1)));
	assert_false(ZSTD_isError(ZSTD_compressStream(stream, &out, &in)));
	assert_int_equal(ZSTD_flushStream(stream, &out), 0);
	assert_int_equal(in.pos, in.size);
	for (size_t at = 0; at < out.pos; at += piece) {
		size_t n = min_u64(piece, out.pos - at), padded = (n + 7) & ~(size_t)7;
		uint8_t body[8 + 4096] = {0};

		if (type == COMPRESSED) {
			put_record(b, type, 0, packed + at, n);
			continue;
		}
		memcpy(body, &n, 8);
		memcpy(body + 8, packed + at, n);
		put_record(b, type, 0, body, 8 + padded);
	}
	ZSTD_freeCStream(stream);
	free(packed);
}

static void check_packed(size_t piece, uint32_t type)
{
	enum { N = 20000 };
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct buffer b = {0}, plain = {0};
	struct perfdata_item item;
	char error[256];
	uint64_t n = 0;
	int fd;

	for (uint64_t i = 1; i <= N; i++)
		put_sample(&plain, i % 2 ? ID_A : ID_B, i);
	put_pipe_head(&b);
	put_packed(&b, &plain, piece, type);
	put_round(&b);
	put_sample(&b, ID_A, N + 1); /* behind records of any length: at any address */
	fd = fixture_fd(&b);
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	while (perfdata_next(pd, &item) == 0) {
		assert_int_equal((uintptr_t)item.record % 8, 0);
		assert_int_equal(item.time, ++n);
		assert_int_equal(item.event, n % 2 ? 0 : 1);
		perfdata_put(pd, item.block);
	}
	assert_int_equal(n, N + 1);
	assert_null(perfdata_counts(pd)->damage);
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&plain);
}

static void test_unpack(void **state)
{
	(void)state;
	check_packed(4093, COMPRESSED);
	check_packed(101, COMPRESSED);
	check_packed(4001, COMPRESSED2);
}

/* What was unpacked before the damage stands. */
static void test_damaged(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, plain = {0};
	int fd;

	(void)state;
	put_sample(&plain, ID_A, 7);
	put_pipe_head(&b);
	put_packed(&b, &plain, 4093, COMPRESSED);
	put_record(&b, COMPRESSED, 0, "this is not packed at all", 25);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "s0@7 ");
	assert_string_equal(perfdata_counts(pd)->damage, "a compressed record cannot be unpacked");
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&plain);
}

static void test_inside(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, plain = {0};
	int fd;

	(void)state;
	put_record(&plain, COMPRESSED, 0, "12345678", 8);
	put_pipe_head(&b);
	put_packed(&b, &plain, 4093, COMPRESSED);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "");
	assert_non_null(strstr(perfdata_counts(pd)->damage, "inside"));
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&plain);
}

/* The stream ends within a record. */
static void test_cut(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, plain = {0};
	int fd;

	(void)state;
	put_sample(&plain, ID_A, 7);
	put_sample(&plain, ID_A, 8);
	plain.len -= 8;
	put_pipe_head(&b);
	put_packed(&b, &plain, 4093, COMPRESSED);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "s0@7 ");
	assert_string_equal(perfdata_counts(pd)->damage, "the file ends too early");
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unpack),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void test_refused(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0};
	int fd;

	(void)state;
	put_pipe_head(&b);
	put_record(&b, 81, 0, "12345678", 8);
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_non_null(strstr(perfdata_counts(pd)->damage, "without libzstd"));
	close(fd);
	buffer_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
