/* test-perfdata-block.c - perfdata-block.c: bytes that come slowly, end early, or are not records.
 */
#include <errno.h>
#include <pthread.h>

#include "tests/unit/perf/perfdata/perfdata-fixture.h"

struct dripping {
	int fd;
	const struct buffer *bytes;
};

/* A few bytes at a time, so that every record is met in pieces. */
static void *drip(void *arg)
{
	const struct dripping *d = arg;

	for (size_t at = 0; at < d->bytes->len;) {
		size_t n = min_u64(1 + at % 13, d->bytes->len - at);

		if (write(d->fd, d->bytes->data + at, n) != (ssize_t)n)
			break;
		at += n;
	}
	close(d->fd);
	return NULL;
}

static void test_slow_pipe(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0};
	struct dripping d;
	pthread_t thread;
	int fds[2];

	(void)state;
	put_pipe_head(&b);
	put_sample(&b, ID_A, 1);
	put_comm(&b, ID_B, 2);
	put_round(&b);
	put_sample(&b, ID_B, 3);
	assert_int_equal(pipe(fds), 0);
	d = (struct dripping){fds[1], &b};
	assert_int_equal(pthread_create(&thread, NULL, drip, &d), 0);
	text = fixture_read(fds[0], 0, &pd);
	assert_string_equal(text, "s0@1 r3@2 s1@3 ");
	assert_null(perfdata_counts(pd)->damage);
	pthread_join(thread, NULL);
	close(fds[0]);
	buffer_deinit(&b);
}

/* File mode needs sections from here and there. */
static void test_file_in_pipe(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, data = {0};
	int fds[2];

	(void)state;
	put_file(&b, &data, 0, NULL, NULL);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], b.data, b.len), (ssize_t)b.len);
	close(fds[1]);
	text = fixture_read(fds[0], 0, &pd);
	assert_non_null(strstr(text, "pipe"));
	close(fds[0]);
	buffer_deinit(&b);
}

/* Cut at every byte: what was whole before the cut comes, the rest is reported as missing. */
static void test_cut(void **state)
{
	const size_t comm = 8 + 48, sample = 8 + 48;
	struct buffer b = {0};
	size_t head, whole;

	(void)state;
	put_pipe_head(&b);
	head = b.len;
	put_comm(&b, 0, 0);
	put_sample(&b, ID_A, 5);
	whole = b.len;
	for (size_t len = head; len <= whole; len++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		_cleanup_(freep) char *text = NULL;
		size_t left = len - head;
		bool clean = left == 0 || left == comm || left == comm + sample;
		int fd;

		b.len = len;
		fd = fixture_fd(&b);
		text = fixture_read(fd, 0, &pd);
		assert_string_equal(text, left < comm		 ? ""
					  : left < comm + sample ? "r3@0 "
								 : "r3@0 s0@5 ");
		assert_int_equal(!perfdata_counts(pd)->damage, clean);
		assert_int_equal(perfdata_counts(pd)->unread_bytes,
				 clean ? 0 : left - (left < comm ? 0 : comm));
		close(fd);
	}
	buffer_deinit(&b);
}

/* The data section states how much there is: what is missing of it is counted. */
static void test_cut_file(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	struct buffer b = {0}, data = {0};
	int fd;

	(void)state;
	for (uint64_t i = 1; i <= 10; i++)
		put_sample(&data, ID_A, i);
	put_file(&b, &data, 0, NULL, NULL);
	b.len -= 3 * 56 + 16;
	fd = fixture_fd(&b);
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "s0@1 s0@2 s0@3 s0@4 s0@5 s0@6 ");
	assert_string_equal(perfdata_counts(pd)->damage, "the file ends too early");
	assert_int_equal(perfdata_counts(pd)->unread_bytes, 4 * 56);
	close(fd);
	buffer_deinit(&b);
	buffer_deinit(&data);
}

/* Sizes that cannot be: nothing behind them can be found. */
static void test_bad_sizes(void **state)
{
	static const struct perf_event_header bad[] = {
		{PERF_RECORD_SAMPLE, 0, 0},
		{PERF_RECORD_SAMPLE, 0, 7},
		{PERF_RECORD_COMM, 0, 20},
		{68, 0, 4},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		_cleanup_(freep) char *text = NULL;
		struct buffer b = {0};
		int fd;

		put_pipe_head(&b);
		put_sample(&b, ID_A, 1);
		buffer_append(&b, &bad[i], sizeof(bad[i]));
		put_sample(&b, ID_A, 2);
		fd = fixture_fd(&b);
		text = fixture_read(fd, 0, &pd);
		assert_string_equal(text, "s0@1 ");
		assert_string_equal(perfdata_counts(pd)->damage, "a record has an impossible size");
		assert_int_equal(perfdata_counts(pd)->unread_bytes, 8 + 56);
		close(fd);
		buffer_deinit(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_pipe), cmocka_unit_test(test_file_in_pipe),
		cmocka_unit_test(test_cut),	  cmocka_unit_test(test_cut_file),
		cmocka_unit_test(test_bad_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
