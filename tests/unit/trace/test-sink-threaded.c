/* test-sink-threaded.c - sink_threaded_new(): another thread writes the same, and its errors come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "protos/wire.h"
#include "trace/sink.h"
#include "tests/unit/cmocka.h"

/* The sanitizers' allocators are to refuse a size that cannot be, as the libc's does. */
#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
#elif defined(__SANITIZE_THREAD__)
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}
#endif

/* Keeps what it is given, and notes which thread gave it. */
struct sink_kept {
	struct sink sink;
	struct buffer *to;
	pthread_t main;
	size_t n_flushes, fails_after;
	bool *ret_freed;
};

static int kept_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_kept *k = container_of(sink, struct sink_kept, sink);

	assert_false(pthread_equal(pthread_self(), k->main));
	if (k->to->len + len > k->fails_after)
		return -ENOSPC;
	buffer_append(k->to, data, len);
	sink->bytes += len;
	return 0;
}

static int kept_flush(struct sink *sink)
{
	struct sink_kept *k = container_of(sink, struct sink_kept, sink);

	assert_true(pthread_equal(pthread_self(), k->main));
	k->n_flushes++;
	return 0;
}

static void kept_free(struct sink *sink)
{
	*container_of(sink, struct sink_kept, sink)->ret_freed = true;
}

static struct sink *make(struct sink_kept *k, struct buffer *to, size_t fails_after, bool *freed)
{
	struct sink *sink = NULL;

	*freed = false;
	*k = (struct sink_kept){
		.sink = {.write = kept_write, .flush = kept_flush, .free = kept_free},
		.to = to,
		.main = pthread_self(),
		.fails_after = fails_after,
		.ret_freed = freed,
	};
	assert_int_equal(sink_threaded_new(&k->sink, &sink), 0);
	return sink;
}

/* Packets of all sizes, some larger than a piece; what is in front of a flush is there behind it. */
static void test_same_bytes(void **state)
{
	static uint8_t packet[200 << 10];
	struct buffer given = {0}, kept = {0};
	struct sink_kept k;
	bool freed;
	struct sink *sink = make(&k, &kept, SIZE_MAX, &freed);

	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		size_t n = i % 701 == 700 ? sizeof(packet) : i * 37 % 1500;

		memset(packet, (int)i, n);
		buffer_append(&given, packet, n);
		assert_int_equal(sink->write(sink, packet, n), 0);
		if (i % 997 != 996)
			continue;
		assert_int_equal(sink->flush(sink), 0);
		assert_int_equal(kept.len, given.len);
		assert_int_equal(sink->bytes, given.len);
	}
	assert_int_equal(sink->flush(sink), 0);
	assert_int_equal(sink->flush(sink), 0); /* nothing new */
	assert_int_equal(k.n_flushes, 5);
	assert_int_equal(kept.len, given.len);
	assert_memory_equal(kept.data, given.data, given.len);
	sink_free(sink);
	assert_true(freed);
	buffer_deinit(&given);
	buffer_deinit(&kept);
}

/* What was not flushed is written before the end; nothing at all is fine, too. */
static void test_freed(void **state)
{
	struct buffer kept = {0};
	struct sink_kept k;
	bool freed;
	struct sink *sink = make(&k, &kept, SIZE_MAX, &freed);

	(void)state;
	sink_free(sink);
	assert_true(freed);
	assert_int_equal(kept.len, 0);
	sink = make(&k, &kept, SIZE_MAX, &freed);
	assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
	sink_free(sink);
	assert_true(freed);
	assert_int_equal(kept.len, 3);
	buffer_deinit(&kept);
}

/* An error is returned by each call from then on, and nothing more is written. */
static void test_error(void **state)
{
	static const uint8_t packet[1000];
	struct buffer kept = {0};
	struct sink_kept k;
	bool freed;
	struct sink *sink = make(&k, &kept, 100 << 10, &freed);
	int r = 0;

	(void)state;
	for (size_t i = 0; i < 10000 && r >= 0; i++)
		r = sink->write(sink, packet, sizeof(packet));
	assert_int_equal(r, -ENOSPC); /* by a write: there was more than all pieces hold */
	assert_int_equal(sink->flush(sink), -ENOSPC);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), -ENOSPC);
	assert_true(kept.len <= 100 << 10);
	assert_int_equal(k.n_flushes, 0);
	sink_free(sink);
	assert_true(freed);
	buffer_deinit(&kept);
}

static void test_full_disk(void **state)
{
	struct sink *file, *sink;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(sink_fd_new(fd, &file), 0);
	assert_int_equal(sink_threaded_new(file, &sink), 0);
	assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
	assert_int_equal(sink->flush(sink), -ENOSPC);
	assert_int_equal(sink->flush(sink), -ENOSPC);
	sink_free(sink);
}

/* A piece for which there is no memory is not the thread's end: what follows is written. */
static void test_no_memory(void **state)
{
	struct buffer kept = {0};
	struct sink_kept k;
	bool freed;
	struct sink *sink = make(&k, &kept, SIZE_MAX, &freed);

	(void)state;
	(void)alarm(60); /* it would never return */
	assert_int_equal(sink->write(sink, "", (size_t)1 << 60), -ENOMEM);
	assert_int_equal(sink->flush(sink), 0); /* nothing was under way */
	for (int i = 0; i < 10; i++) {		/* more than there are pieces */
		assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
		assert_int_equal(sink->write(sink, "", (size_t)1 << 60), -ENOMEM);
	}
	assert_int_equal(sink->flush(sink), 0);
	assert_int_equal(kept.len, 30);
	assert_int_equal(sink->write(sink, "", (size_t)1 << 60), -ENOMEM);
	sink_free(sink);
	assert_true(freed);
	sink = make(&k, &kept, SIZE_MAX, &freed);
	assert_int_equal(sink->write(sink, "", (size_t)1 << 60), -ENOMEM);
	sink_free(sink); /* with nothing before */
	assert_true(freed);
	(void)alarm(0);
	buffer_deinit(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_freed),
		cmocka_unit_test(test_error),	   cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
