/* test-daemon-sink.c - packets that find no room: what is kept, what is dropped, and when all begins
 * again.  The memory is one page; the service frees its chunks when the test requests it. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/producer/daemon.c"
#include "tests/unit/daemon/producer/fake-service.h"

enum { PAGE = 4096, WAITING = 16384, PACKET = 200 };

struct bed {
	struct loop loop;
	struct daemon daemon;
	struct instance in;
	uint8_t *memory;
	unsigned n_moves;
};

static int count_moves(void *arg, const struct smb_move *moves, size_t n)
{
	struct bed *b = arg;

	(void)moves;
	b->n_moves += (unsigned)n;
	return 0;
}

static void bed_init(struct bed *b)
{
	struct producer_options po = {.socket = "@nobody-listens-here", .name = "x"};
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memset(b, 0, sizeof(*b));
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	b->memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(b->memory != MAP_FAILED);
	assert_int_equal(loop_init(&b->loop), 0);
	assert_int_equal(producer_new(&po, &note_events, NULL, &b->loop, &b->daemon.producer), 0);
	assert_int_equal(smb_attach(fd, PAGE, count_moves, b, &b->daemon.smb), 0);
	b->daemon.options.settings.waiting_size = WAITING;
	b->in.daemon = &b->daemon;
	b->in.target_buffer = 1;
	assert_int_equal(instance_open_sink(&b->in), 0);
}

static void bed_deinit(struct bed *b)
{
	instance_close_sink(&b->in);
	(void)smb_free(b->daemon.smb);
	(void)producer_free(b->daemon.producer);
	loop_deinit(&b->loop);
	(void)munmap(b->memory, PAGE);
}

/* The service frees what is complete; what is being written stays ours. */
static void free_chunks(struct bed *b)
{
	uint32_t *word = (uint32_t *)(void *)b->memory, now = *word;

	for (unsigned i = 0; i < 14; i++)
		if ((now >> 2 * i & 3) == 3)
			now &= ~(3u << 2 * i);
	__atomic_store_n(word, now & 0x0fffffff ? now : 0, __ATOMIC_RELEASE);
}

/* Two packets at once, as a writer may give them. */
static void write_two(struct bed *b)
{
	uint8_t data[2 * (3 + PACKET)], *p = data;

	for (int i = 0; i < 2; i++, p += PACKET) {
		*p++ = 0x0a; /* Trace.packet */
		*p++ = PACKET | 0x80;
		*p++ = PACKET >> 7;
		memset(p, 0x08, PACKET); /* field 1 = 8, over and over */
	}
	assert_int_equal(b->in.sink.write(&b->in.sink, data, sizeof(data)), 0);
}

static void test_kept(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b);
	/* The page takes less than 4 KiB, the waiting room is as large as four more. */
	for (int i = 0; i < 24; i++)
		write_two(&b);
	assert_int_equal(b.in.sink.dropped, 0);
	assert_true(instance_waiting(&b.in) > 0);
	assert_true(b.daemon.asked);
	assert_int_equal(b.in.sink.bytes, 24 * 2 * (3 + PACKET));
	/* Chunks become free: what waits goes on, nothing is lost. */
	for (int i = 0; instance_waiting(&b.in) && i < 10; i++) {
		free_chunks(&b);
		assert_int_equal(smb_pump(b.daemon.smb), 0);
		assert_int_equal(b.in.sink.flush(&b.in.sink), 0);
	}
	assert_int_equal(instance_waiting(&b.in), 0);
	assert_false(b.in.lost || b.in.sink.renew);
	assert_int_equal(smb_stats(b.daemon.smb)->packets, 48);
	bed_deinit(&b);
}

static void test_lost_and_restarted(void **state)
{
	struct bed b;
	uint64_t dropped, taken;

	(void)state;
	bed_init(&b);
	for (int i = 0; i < 100 && !b.in.lost; i++)
		write_two(&b);
	assert_true(b.in.lost);
	dropped = b.in.sink.dropped;
	assert_true(dropped >= 1);
	taken = smb_stats(b.daemon.smb)->packets;
	/* No room: all is dropped, and no more is requested. */
	write_two(&b);
	write_two(&b);
	assert_int_equal(b.in.sink.dropped, dropped + 4);
	assert_false(b.in.sink.renew);
	/* Some room, but less than half. */
	free_chunks(&b);
	assert_int_equal(smb_pump(b.daemon.smb), 0);
	assert_true(instance_waiting(&b.in) > WAITING / 2);
	instance_renew(&b.in);
	assert_false(b.in.sink.renew);
	while (instance_waiting(&b.in)) {
		free_chunks(&b);
		assert_int_equal(smb_pump(b.daemon.smb), 0);
	}
	free_chunks(&b);
	/* Room: the writer is asked to begin again; until it does, its packets are of no use. */
	instance_renew(&b.in);
	assert_true(b.in.sink.renew);
	write_two(&b);
	assert_int_equal(b.in.sink.dropped, dropped + 6);
	assert_int_equal(smb_stats(b.daemon.smb)->packets, taken);
	b.in.sink.renew = false; /* as the writer does, before the packet that begins it */
	write_two(&b);
	assert_false(b.in.lost);
	assert_int_equal(b.in.sink.dropped, dropped + 6);
	assert_int_equal(smb_stats(b.daemon.smb)->packets, taken + 2);
	bed_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_lost_and_restarted),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
