/* test-ring.c - ring.h on a fake ring: in place, wrapping, given back in any order, full, damaged.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/perf/count-malloc.h"
#include "tests/unit/perf/fake-ring.h"

struct fixture {
	struct fake_ring fake;
	struct ring *ring;
};

static void set_up(struct fixture *f, size_t size, uint64_t start)
{
	fake_ring_init(&f->fake, size, start);
	assert_int_equal(ring_new(f->fake.base, FAKE_PAGE, size, &f->ring), 0);
}

static void tear_down(struct fixture *f)
{
	f->ring = ring_free(f->ring);
	assert_null(f->ring);
	fake_ring_deinit(&f->fake);
}

/* A record of @size bytes; its words hold its number and their place. */
static bool add(struct fixture *f, uint32_t number, size_t size)
{
	static struct fake_record record;

	fake_begin(&record, number, 0);
	for (size_t i = 1; i < size / 8; i++)
		fake_word(&record, (uint64_t)number << 32 | i);
	return fake_ring_add(&f->fake, &record);
}

static void check(const struct perf_event_header *record, uint32_t number, size_t size)
{
	const uint64_t *words = (const uint64_t *)(const void *)record;

	assert_int_equal(record->type, number);
	assert_int_equal(record->size, size);
	for (size_t i = 1; i < size / 8; i++)
		assert_int_equal(words[i], (uint64_t)number << 32 | i);
}

static bool is_in_place(const struct fixture *f, const struct perf_event_header *record)
{
	const uint8_t *p = (const uint8_t *)record, *data = f->fake.base + FAKE_PAGE;

	return p >= data && p < data + f->fake.size;
}

static void test_in_place(void **state)
{
	const struct perf_event_header *record;
	struct fixture f;
	uint64_t position;

	(void)state;
	set_up(&f, 4096, 0);
	assert_int_equal(ring_size(f.ring), 4096);
	assert_int_equal(ring_next(f.ring, &record, &position), RING_EMPTY);
	assert_true(add(&f, 1, 8));
	assert_true(add(&f, 2, 40));
	assert_int_equal(ring_backlog(f.ring), 0);
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_backlog(f.ring), 48);
	/* A head that was not loaded gives nothing. */
	assert_int_equal(ring_next(f.ring, &record, &position), RING_EMPTY);
	assert_int_equal(ring_load_head(f.ring), 0);

	assert_int_equal(ring_next(f.ring, &record, &position), 0);
	check(record, 1, 8);
	assert_int_equal(position, 0);
	assert_ptr_equal(record, f.fake.base + FAKE_PAGE);
	assert_int_equal(ring_held(f.ring), 8);
	assert_int_equal(ring_next(f.ring, &record, &position), 0);
	check(record, 2, 40);
	assert_int_equal(position, 8);
	assert_ptr_equal(record, f.fake.base + FAKE_PAGE + 8);
	assert_int_equal(ring_held(f.ring), 48);
	assert_int_equal(ring_backlog(f.ring), 0);
	assert_int_equal(ring_next(f.ring, &record, &position), RING_EMPTY);

	assert_int_equal(fake_ring_tail(&f.fake), 0);
	ring_put(f.ring, 8);
	assert_int_equal(fake_ring_tail(&f.fake), 0); /* a gap stands before it */
	ring_put(f.ring, 0);
	assert_int_equal(fake_ring_tail(&f.fake), 48);
	assert_int_equal(ring_held(f.ring), 0);
	tear_down(&f);
}

/* Every size at every place of a small ring, late in a long recording. */
static void test_wrap_at_every_offset(void **state)
{
	enum { SIZE = 128 };
	const uint64_t starts[] = {0, 3 * SIZE, (1ull << 40) + SIZE};
	const struct perf_event_header *record;
	struct fixture f;
	uint64_t position;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		for (uint64_t offset = 0; offset < SIZE; offset += 8) {
			for (size_t size = 8; size <= SIZE; size += 8) {
				set_up(&f, SIZE, starts[i] + offset);
				assert_true(add(&f, 7, size));
				fake_ring_publish(&f.fake);
				assert_int_equal(ring_load_head(f.ring), 0);
				assert_int_equal(ring_next(f.ring, &record, &position), 0);
				assert_int_equal(position, starts[i] + offset);
				check(record, 7, size);
				assert_int_equal(is_in_place(&f, record), offset + size <= SIZE);
				ring_put(f.ring, position);
				assert_int_equal(fake_ring_tail(&f.fake), position + size);
				tear_down(&f);
			}
		}
	}
}

/* The copy of a record that wraps stays as long as the record, whatever is read or given back
 * meanwhile. */
static void test_wrapped_stays(void **state)
{
	const struct perf_event_header *wrapped, *record;
	uint64_t first, at_wrap, last, position;
	struct fixture f;

	(void)state;
	set_up(&f, 256, 0);
	assert_true(add(&f, 1, 64));
	assert_true(add(&f, 2, 96));
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_load_head(f.ring), 0);
	assert_int_equal(ring_next(f.ring, &record, &first), 0);
	assert_int_equal(ring_next(f.ring, &record, &position), 0);
	ring_put(f.ring, first);
	ring_put(f.ring, position); /* 160 to 256 and 0 to 160 are free */
	assert_true(add(&f, 3, 64));
	assert_true(add(&f, 4, 96)); /* 224 to 256, 0 to 64 */
	assert_true(add(&f, 5, 96));
	assert_false(add(&f, 6, 8));
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_load_head(f.ring), 0);
	assert_int_equal(ring_next(f.ring, &record, &first), 0);
	assert_int_equal(ring_next(f.ring, &wrapped, &at_wrap), 0);
	assert_false(is_in_place(&f, wrapped));
	assert_int_equal(ring_next(f.ring, &record, &last), 0);
	check(record, 5, 96);
	assert_int_equal(ring_held(f.ring), 256);
	ring_put(f.ring, last);
	ring_put(f.ring, first);
	/* A lap's worth behind it cannot be written yet: only record 3's 64 bytes. */
	assert_false(add(&f, 7, 72));
	assert_true(add(&f, 7, 64));
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_load_head(f.ring), 0);
	assert_int_equal(ring_next(f.ring, &record, &position), 0);
	check(record, 7, 64);
	check(wrapped, 4, 96);
	ring_put(f.ring, at_wrap);
	assert_int_equal(fake_ring_tail(&f.fake), position);
	tear_down(&f);
}

static void test_largest_record(void **state)
{
	const struct perf_event_header *record;
	struct fixture f;
	uint64_t position;

	(void)state;
	for (size_t size = 65536; size <= 131072; size *= 2) {
		set_up(&f, size, 0);
		for (uint32_t i = 0; i < 20; i++) {
			assert_true(add(&f, i, 65528));
			fake_ring_publish(&f.fake);
			assert_int_equal(ring_load_head(f.ring), 0);
			assert_int_equal(ring_next(f.ring, &record, &position), 0);
			check(record, i, 65528);
			ring_put(f.ring, position);
		}
		tear_down(&f);
	}
}

/* Many records out at once, given back in random order: the tail is always at the first that is
 * out. */
static void test_put_in_random_order(void **state)
{
	enum { N = 1000 };
	static uint64_t positions[N + 1];
	static bool back[N];
	const struct perf_event_header *record;
	uint64_t random = 88172645463325252ull, expected;
	uint32_t order[N];
	struct fixture f;

	(void)state;
	set_up(&f, 65536, 65536 - 400);
	for (int lap = 0; lap < 5; lap++) {
		for (uint32_t i = 0; i < N; i++)
			assert_true(add(&f, i, 8 * (1 + fake_random(&random) % 8)));
		fake_ring_publish(&f.fake);
		assert_int_equal(ring_load_head(f.ring), 0);
		for (uint32_t i = 0; i < N; i++) {
			assert_int_equal(ring_next(f.ring, &record, &positions[i]), 0);
			assert_int_equal(record->type, i);
			order[i] = i;
			back[i] = false;
		}
		positions[N] = f.fake.head;
		for (uint32_t i = 0; i < N; i++) {
			uint32_t other = i + (uint32_t)(fake_random(&random) % (N - i)),
				 now = order[other];

			order[other] = order[i];
			ring_put(f.ring, positions[now]);
			back[now] = true;
			expected = positions[N];
			for (uint32_t j = 0; j < N && expected == positions[N]; j++)
				expected = back[j] ? positions[N] : positions[j];
			assert_int_equal(fake_ring_tail(&f.fake), expected);
		}
	}
	tear_down(&f);
}

static void test_full_ring(void **state)
{
	const struct perf_event_header *record;
	uint64_t position, first = 0;
	struct fixture f;

	(void)state;
	set_up(&f, 512, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_true(add(&f, i, 64));
	assert_false(add(&f, 8, 8));
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_backlog(f.ring), 512);
	assert_int_equal(ring_load_head(f.ring), 0);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(ring_next(f.ring, &record, &position), 0);
		check(record, i, 64);
		first = i == 0 ? position : first;
	}
	assert_int_equal(ring_next(f.ring, &record, &position), RING_EMPTY);
	assert_int_equal(ring_held(f.ring), ring_size(f.ring));
	ring_put(f.ring, first);
	assert_true(add(&f, 9, 64));
	fake_ring_publish(&f.fake);
	assert_int_equal(ring_load_head(f.ring), 0);
	assert_int_equal(ring_next(f.ring, &record, &position), 0);
	check(record, 9, 64);
	tear_down(&f);
}

/* Sizes that cannot be: refused, and refused again, with nothing read. */
static void test_damaged_size(void **state)
{
	const uint16_t sizes[] = {0, 1, 7, 9, 12, 60, 72, 65528, 65535};
	const struct perf_event_header *record = NULL;
	struct perf_event_header header = {.type = 1};
	struct fixture f;
	uint64_t position, good;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		set_up(&f, 256, 224);
		assert_true(add(&f, 1, 16));
		header.size = sizes[i];
		assert_true(fake_ring_write(&f.fake, &header, sizeof(header)));
		assert_true(
			fake_ring_write(&f.fake, (uint64_t[7]){0}, 56)); /* 64 bytes to the head */
		fake_ring_publish(&f.fake);
		assert_int_equal(ring_load_head(f.ring), 0);
		assert_int_equal(ring_next(f.ring, &record, &good), 0);
		position = 77;
		for (int again = 0; again < 3; again++)
			assert_int_equal(ring_next(f.ring, &record, &position), -EBADMSG);
		assert_int_equal(position, 77);
		check(record, 1, 16);
		assert_int_equal(ring_held(f.ring), 16);
		ring_put(f.ring, good);
		assert_int_equal(fake_ring_tail(&f.fake), 240);
		tear_down(&f);
	}
}

static void test_damaged_head(void **state)
{
	const struct perf_event_header *record;
	const uint64_t start = 4096, read = start + 64;
	const uint64_t heads[] = {0,	    start - 8,	     start,	 read - 8,  read + 1,
				  read + 4, start + 256 + 8, UINT64_MAX, 1ull << 63};
	struct fixture f;
	uint64_t position;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		set_up(&f, 256, start);
		assert_true(add(&f, 1, 64));
		fake_ring_publish(&f.fake);
		assert_int_equal(ring_load_head(f.ring), 0);
		assert_int_equal(ring_next(f.ring, &record, &position), 0);
		fake_ring_meta(&f.fake)->data_head = heads[i];
		assert_int_equal(ring_load_head(f.ring), -EBADMSG);
		assert_int_equal(ring_load_head(f.ring), -EBADMSG);
		assert_int_equal(ring_next(f.ring, &record, &position), RING_EMPTY);
		assert_true(ring_backlog(f.ring) <= 256);
		tear_down(&f);
	}
	/* Just inside. */
	set_up(&f, 256, start);
	fake_ring_meta(&f.fake)->data_head = start + 256;
	assert_int_equal(ring_load_head(f.ring), 0);
	tear_down(&f);
	/* A tail that was not on a record. */
	fake_ring_init(&f.fake, 256, 4);
	assert_int_equal(ring_new(f.fake.base, FAKE_PAGE, 256, &f.ring), 0);
	fake_ring_meta(&f.fake)->data_head = 12;
	assert_int_equal(ring_load_head(f.ring), -EBADMSG);
	tear_down(&f);
}

#if COUNT_MALLOC
static void test_no_allocation_once_warm(void **state)
{
	const struct perf_event_header *record;
	uint64_t position, first = 0;
	struct fixture f;
	size_t before = 0;

	(void)state;
	set_up(&f, 4096, 0);
	for (int lap = 0; lap < 50; lap++) {
		if (lap == 1)
			before = malloc_count;
		for (uint32_t i = 0; i < 300; i++)
			assert_true(add(&f, i, 8));
		fake_ring_publish(&f.fake);
		assert_int_equal(ring_load_head(f.ring), 0);
		for (uint32_t i = 0; i < 300; i++) {
			assert_int_equal(ring_next(f.ring, &record, &position), 0);
			first = i == 0 ? position : first;
		}
		for (uint64_t i = 300; i-- > 0;)
			ring_put(f.ring, first + 8 * i);
	}
	assert_true(before > 0); /* the first lap had to grow */
	assert_int_equal(malloc_count, before);
	tear_down(&f);
}
#endif

enum { THREAD_RECORDS = 20000 };

static void *produce(void *arg)
{
	uint64_t random = 12345;
	struct fixture *f = arg;

	for (uint32_t i = 0; i < THREAD_RECORDS; i++) {
		size_t size = 8 * (1 + fake_random(&random) % 100);

		while (!add(f, i, size))
			sched_yield();
		fake_ring_publish(&f->fake);
	}
	return NULL;
}

/* The kernel's side on another thread; up to 16 records out, given back from a random place. */
static void test_producer_thread(void **state)
{
	const struct perf_event_header *record;
	uint64_t out[16], position, random = 99;
	uint32_t n_out = 0, number = 0;
	pthread_t thread;
	struct fixture f;
	int r;

	(void)state;
	set_up(&f, 16384, 0);
	assert_int_equal(pthread_create(&thread, NULL, produce, &f), 0);
	while (number < THREAD_RECORDS || n_out > 0) {
		assert_int_equal(ring_load_head(f.ring), 0);
		while (n_out < 16 && (r = ring_next(f.ring, &record, &position)) == 0) {
			check(record, number++, record->size);
			out[n_out++] = position;
		}
		assert_true(n_out == 16 || r == RING_EMPTY);
		for (uint32_t left = n_out / 2; n_out > left;) {
			uint32_t i = (uint32_t)(fake_random(&random) % n_out);

			ring_put(f.ring, out[i]);
			out[i] = out[--n_out];
		}
		if (n_out == 0)
			sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fake_ring_tail(&f.fake), f.fake.head);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_wrap_at_every_offset),
		cmocka_unit_test(test_wrapped_stays),
		cmocka_unit_test(test_largest_record),
		cmocka_unit_test(test_put_in_random_order),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_damaged_size),
		cmocka_unit_test(test_damaged_head),
#if COUNT_MALLOC
		cmocka_unit_test(test_no_allocation_once_warm),
#endif
		cmocka_unit_test(test_producer_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
