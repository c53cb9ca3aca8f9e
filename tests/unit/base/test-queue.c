/* test-queue.c - both queues between two real threads: nothing lost, nothing twice, order kept;
 * wake-ups. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/queue.h"
#include "tests/unit/cmocka.h"

enum { ROUNDS = 300000 };

struct slots_test {
	struct slot_queue q;
	struct waker wake;
	uint64_t sum;
	bool in_order;
};

static void *slots_consumer(void *arg)
{
	struct slots_test *t = arg;
	uint64_t expected = 0;

	t->in_order = true;
	while (expected < ROUNDS) {
		uint64_t n = slot_queue_ready(&t->q);

		if (!n) {
			struct pollfd pfd = {.fd = t->wake.fd, .events = POLLIN};

			int n_ready = 0;
			bool again;

			waker_prepare(&t->wake);
			again = slot_queue_ready(&t->q);
			do {
				if (!again)
					n_ready = poll(
						&pfd, 1,
						5000); /* a lost wake-up would show as a stall */
				again = false;
			} while (!waker_awake(&t->wake, n_ready > 0));
			continue;
		}
		for (uint64_t i = 0; i < n; i++) {
			uint64_t *slot = slot_queue_at(&t->q, slot_queue_consumed(&t->q) + i);

			t->in_order &= *slot == expected++;
			t->sum += *slot;
		}
		slot_queue_pop(&t->q, n);
	}
	return NULL;
}

static void test_slots(void **state)
{
	struct slots_test t = {0};
	uint64_t n_rewound = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(slot_queue_init(&t.q, 64, sizeof(uint64_t)), 0);
	assert_int_equal(waker_init(&t.wake), 0);
	assert_int_equal(pthread_create(&thread, NULL, slots_consumer, &t), 0);
	for (uint64_t i = 0; i < ROUNDS;) {
		uint64_t *slot;

		if (i % 7 == 0 && waker_claim(&t.wake)) {
			n_rewound += slot_queue_consumed(&t.q) == t.q.filled;
			slot_queue_rewind(&t.q);
			assert_int_equal(slot_queue_ready(&t.q),
					 t.q.filled - slot_queue_consumed(&t.q));
			waker_return(&t.wake, false);
		}
		slot = slot_queue_push(&t.q);
		if (slot)
			*slot = i++;
		if (!slot || i % 7 == 0 || i == ROUNDS) {
			slot_queue_publish(&t.q);
			waker_wake(&t.wake);
		}
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(t.in_order);
	assert_true(n_rewound > 0);
	assert_true(t.q.filled < ROUNDS);
	assert_int_equal(t.sum, (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
	slot_queue_deinit(&t.q);
	waker_deinit(&t.wake);
}

static void test_slots_full(void **state)
{
	struct slot_queue q;

	(void)state;
	assert_int_equal(slot_queue_init(&q, 4, 8), 0);
	for (int i = 0; i < 4; i++)
		assert_non_null(slot_queue_push(&q));
	assert_null(slot_queue_push(&q));
	assert_int_equal(slot_queue_ready(&q), 0); /* not published */
	slot_queue_publish(&q);
	assert_int_equal(slot_queue_ready(&q), 4);
	slot_queue_pop(&q, 1);
	assert_non_null(slot_queue_push(&q));
	assert_null(slot_queue_push(&q));
	slot_queue_deinit(&q);
}

static void *bytes_consumer(void *arg)
{
	struct byte_queue *q = arg;
	uint64_t seen = 0;
	uintptr_t bad = 0;

	while (seen < ROUNDS) {
		size_t len;
		const uint8_t *p = byte_queue_next(q, &len);

		if (!p)
			continue;
		bad += len != seen % 300;
		for (size_t i = 0; i < len; i++)
			bad += p[i] != (uint8_t)(seen + i);
		seen++;
		byte_queue_release(q);
	}
	return (void *)bad;
}

/* Records of every length from 0 to 299 in a 4 KiB queue: most wrap somewhere, none may look
 * broken. */
static void test_bytes(void **state)
{
	struct byte_queue q;
	pthread_t thread;
	void *bad;

	(void)state;
	assert_int_equal(byte_queue_init(&q, 4096), 0);
	assert_null(byte_queue_reserve(&q, 4096)); /* the head takes room too */
	assert_null(byte_queue_reserve(&q, SIZE_MAX));
	assert_int_equal(pthread_create(&thread, NULL, bytes_consumer, &q), 0);
	for (uint64_t n = 0; n < ROUNDS;) {
		uint8_t *p = byte_queue_reserve(&q, 300); /* more than what is committed */

		if (p) {
			for (size_t i = 0; i < n % 300; i++)
				p[i] = (uint8_t)(n + i);
			byte_queue_commit(&q, n % 300);
			n++;
		}
		byte_queue_publish(&q);
	}
	assert_int_equal(pthread_join(thread, &bad), 0);
	assert_int_equal((uintptr_t)bad, 0);
	assert_int_equal(byte_queue_used(&q), 0);
	byte_queue_deinit(&q);
}

/* Records are looked at, and changed, before they are taken. */
static void test_look(void **state)
{
	struct byte_queue q;
	uint64_t at = 0;
	size_t len;

	(void)state;
	assert_int_equal(byte_queue_init(&q, 4096), 0);
	for (uint8_t round = 0; round < 30; round++) { /* 3 * 104 bytes each */
		assert_null(byte_queue_look(&q, &at));
		assert_int_equal(byte_queue_ready(&q), 0);
		for (uint8_t i = 0; i < 3; i++) {
			uint8_t *p = byte_queue_reserve(&q, 96);

			assert_non_null(p);
			memset(p, i, 96);
			byte_queue_commit(&q, 96);
		}
		assert_null(byte_queue_look(&q, &at)); /* not published */
		byte_queue_publish(&q);
		assert_int_equal(byte_queue_ready(&q), 3 * 104);
		for (uint8_t i = 0; i < 3; i++) {
			uint8_t *p = byte_queue_look(&q, &at);

			assert_non_null(p);
			assert_int_equal(p[95], i);
			p[95] = (uint8_t)(10 + i);
		}
		for (uint8_t i = 0; i < 3; i++)
			assert_int_equal(((const uint8_t *)byte_queue_next(&q, &len))[95], 10 + i);
		assert_int_equal(at, q.taken);
		byte_queue_release(&q);
	}
	byte_queue_deinit(&q);
}

/* A process that is forked has neither of the two mappings: what it wrote there would be in ours. */
static void test_bytes_of_child(void **state)
{
	struct byte_queue q;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(byte_queue_init(&q, 4096), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		unsigned char there;

		for (size_t i = 0; i < 2; i++)
			if (mincore(q.data + i * 4096, 4096, &there) == 0 || errno != ENOMEM)
				_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	byte_queue_deinit(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),	       cmocka_unit_test(test_slots_full),
		cmocka_unit_test(test_bytes),	       cmocka_unit_test(test_look),
		cmocka_unit_test(test_bytes_of_child),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
