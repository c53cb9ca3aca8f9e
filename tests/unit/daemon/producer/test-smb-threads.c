/* test-smb-threads.c - writer and service at the same time, each in a thread of its own.  Both use
 * one mapping, so that a thread sanitizer sees every byte that both touch.
 *
 * The service reads what is committed, scrapes in between, and frees; what was scraped must be a
 * beginning of what is committed later (the service's copy rules), and everything must arrive. */
#include <pthread.h>
#include <sched.h>

#include "tests/unit/daemon/producer/smb-fixture.h"

enum { WRITERS = 3, PACKETS = 3000 };

struct road {
	pthread_mutex_t mutex;
	struct smb_move moves[SERVICE_MAX_COPIES];
	size_t n, taken;
	bool end;
};

struct threads {
	struct fixture f;
	struct road road;
};

static int send_moves(void *arg, const struct smb_move *moves, size_t n)
{
	struct road *road = arg;

	pthread_mutex_lock(&road->mutex);
	assert_true(road->n + n <= SERVICE_MAX_COPIES);
	memcpy(road->moves + road->n, moves, n * sizeof(*moves));
	road->n += n;
	pthread_mutex_unlock(&road->mutex);
	return 0;
}

static void *serve(void *arg)
{
	struct threads *t = arg;
	struct road *road = &t->road;
	bool end = false;

	for (uint32_t round = 0; !end; round++) {
		size_t n;

		pthread_mutex_lock(&road->mutex);
		n = road->n;
		end = road->end && n == road->taken;
		pthread_mutex_unlock(&road->mutex);
		if (n == road->taken && round % 16 == 0)
			service_scrape(&t->f.service, BUFFER);
		if (n == road->taken)
			sched_yield();
		/* Not all at once: pages with chunks in all states. */
		if (n - road->taken > 3)
			n = road->taken + 3;
		for (; road->taken < n; road->taken++) {
			struct smb_move m = road->moves[road->taken];

			service_read_chunk(&t->f.service, &m);
		}
	}
	return NULL;
}

static void run(uint32_t page_size, uint32_t n_pages, uint32_t layout)
{
	struct threads *t = calloc(1, sizeof(*t));
	struct smb_writer *w[WRITERS];
	struct fixture *f = &t->f;
	uint8_t *own;
	pthread_t thread;

	assert_non_null(t);
	pthread_mutex_init(&t->road.mutex, NULL);
	service_init(&f->service, page_size, n_pages);
	assert_int_equal(
		smb_attach(service_fd(&f->service), page_size, send_moves, &t->road, &f->smb), 0);
	f->smb->layout = layout;
	own = f->service.base;
	f->service.base = f->smb->base;
	for (int i = 0; i < WRITERS; i++)
		w[i] = new_writer(f, 64 << 20);
	assert_int_equal(pthread_create(&thread, NULL, serve, t), 0);
	for (uint32_t n = 0; n < PACKETS; n++) {
		for (uint32_t i = 0; i < WRITERS; i++)
			assert_int_equal(put(w[i], n, 1 + (n * 7 + i * 13) % 190), 0);
		if (n % 100 == 50)
			assert_in_range(smb_writer_flush(w[n % WRITERS]), 0, SMB_BEHIND);
	}
	while (smb_waiting(f->smb)) {
		assert_int_equal(smb_pump(f->smb), 0);
		assert_int_equal(smb_commit(f->smb), 0);
		sched_yield();
	}
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(smb_writer_flush(w[i]), 0);
	pthread_mutex_lock(&t->road.mutex);
	t->road.end = true;
	pthread_mutex_unlock(&t->road.mutex);
	pthread_join(thread, NULL);
	service_assemble(&f->service);
	assert_int_equal(f->service.n_packets, WRITERS * PACKETS);
	for (uint32_t i = 0; i < WRITERS; i++) {
		for (uint32_t n = 0; n < PACKETS; n++)
			expect_packet(&f->service, (size_t)i * PACKETS + n, i + 1, n,
				      1 + (n * 7 + i * 13) % 190, n ? "" : "\xb8\5\1", n ? 0 : 3);
		smb_writer_free(w[i]);
	}
	assert_int_equal(smb_stats(f->smb)->damaged, 0);
	f->service.base = own;
	finish(f);
	free(t);
}

static void test_one_chunk_pages(void **state)
{
	(void)state;
	run(4096, 16, 1);
}

/* Fourteen chunks with their states in one word. */
static void test_shared_words(void **state)
{
	(void)state;
	run(8192, 2, 5);
	run(4096, 1, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_chunk_pages),
		cmocka_unit_test(test_shared_words),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
