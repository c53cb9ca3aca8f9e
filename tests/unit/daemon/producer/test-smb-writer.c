/* test-smb-writer.c - packets cut over chunks, at every edge of a chunk, in a full memory, and
 * next to a service that does as it likes. */
#include <errno.h>

#include "tests/unit/daemon/producer/smb-fixture.h"

/* Bytes of a chunk that a first packet of @len bytes takes (it has three more behind it). */
enum { FIRST_SIZE = 3 };

static void expect_copy(const struct service *s, size_t at, uint16_t packets)
{
	assert_true(at < s->n_copies);
	assert_int_equal(s->copies[at].chunk_id, at);
	assert_int_equal(s->copies[at].packets, packets);
}

/* A packet that leaves so many bytes, and a second one. */
static void test_chunk_end(void **state)
{
	/* Header words: exact when the chunk is given at once; 12 bytes left are begun in. */
	static const struct {
		uint32_t left;
		uint16_t packets;
	} cases[] = {{0, 1},
		     {1, 1},
		     {2, 1},
		     {4, 1},
		     {8, 1},
		     {11, 1},
		     {12, 2 | 2 << 10},
		     {13, 2 | 2 << 10},
		     {102, 2},
		     {101, 2},
		     {100, 2 | 2 << 10}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const size_t first = PAYLOAD - 2 - FIRST_SIZE - cases[i].left;
		struct fixture f;
		struct smb_writer *w;

		start(&f, 4096, 8);
		f.smb->layout = 1;
		w = new_writer(&f, 0);
		assert_int_equal(put(w, 0, first), 0);
		assert_int_equal(f.smb->n_moves, cases[i].left < 12);
		/* What a scraper sees: one packet and a place for the next. */
		if (cases[i].left >= 12)
			assert_memory_equal(f.service.base + 8 + 6, "\2\0", 2);
		assert_int_equal(put(w, 1, 100), 0);
		assert_int_equal(smb_writer_flush(w), 0);
		service_assemble(&f.service);
		expect_copy(&f.service, 0, cases[i].packets);
		assert_int_equal(f.service.n_copies, cases[i].left < 101 ? 2 : 1);
		assert_int_equal(f.service.n_packets, 2);
		expect_packet(&f.service, 0, 1, 0, first, FIRST);
		expect_packet(&f.service, 1, 1, 1, 100, NONE);
		smb_writer_free(w);
		finish(&f);
	}
}

static void test_three_chunks(void **state)
{
	/* Two chunks full (2 bytes of length each) and one byte in the third. */
	const size_t len = 2 * (PAYLOAD - 2) + 1 - FIRST_SIZE;
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 64);
	w = new_writer(&f, 0);
	assert_int_equal(put(w, 0, len), 0);
	assert_int_equal(put(w, 1, 50), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_copies, 3);
	expect_copy(&f.service, 0, 1 | 2 << 10);
	expect_copy(&f.service, 1, 1 | 3 << 10);
	expect_copy(&f.service, 2, 3 | 1 << 10); /* its end, the second, an empty one */
	assert_int_equal(f.service.n_packets, 2);
	expect_packet(&f.service, 0, 1, 0, len, FIRST);
	expect_packet(&f.service, 1, 1, 1, 50, NONE);
	/* Ending exactly with its chunk: given back at once, and no more. */
	assert_int_equal(put(w, 2, 2 * (PAYLOAD - 2)), 0);
	assert_int_equal(f.smb->n_moves, 2);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_copies, 5);
	expect_copy(&f.service, 3, 1 | 2 << 10);
	expect_copy(&f.service, 4, 1 | 1 << 10);
	expect_packet(&f.service, 2, 1, 2, 2 * (PAYLOAD - 2), NONE);
	smb_writer_free(w);
	finish(&f);
}

static void test_1022_packets(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 64);
	w = new_writer(&f, 0);
	for (uint32_t i = 0; i < 1021; i++)
		assert_int_equal(put(w, i, 1), 0);
	assert_int_equal(f.smb->n_moves, 0);
	assert_memory_equal(f.service.base + 8 + 6, "\xfe\3", 2); /* 1021 and one to come */
	assert_int_equal(put(w, 1021, 1), 0);
	assert_int_equal(f.smb->n_moves, 1);
	assert_int_equal(put(w, 1022, 1), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	expect_copy(&f.service, 0, 1022);
	expect_copy(&f.service, 1, 2);
	assert_int_equal(f.service.n_packets, 1023);
	for (uint32_t i = 1; i < 1023; i++)
		expect_packet(&f.service, i, 1, i, 1, NONE);
	smb_writer_free(w);
	finish(&f);
}

static void test_varints(void **state)
{
	static const struct {
		uint32_t len, head_len;
		const char *head;
	} cases[] = {
		{126, 1, "\x7e"},	{127, 1, "\x7f"},	  {128, 2, "\x80\1"},
		{16383, 2, "\xff\x7f"}, {16384, 3, "\x80\x80\1"}, {40000, 3, "\xc0\xb8\2"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t want[40000];
		struct fixture f;
		struct smb_writer *w;

		start(&f, 65536, 4);
		f.smb->layout = 1;
		w = new_writer(&f, 0);
		assert_int_equal(smb_writer_write(w, "", 0), 0); /* only that it is the first */
		assert_int_equal(put(w, 0, cases[i].len), 0);
		assert_memory_equal(f.service.base + 16, "\3\xb8\5\1", 4);
		assert_memory_equal(f.service.base + 20, cases[i].head, cases[i].head_len);
		fill(want, cases[i].len, 1, 0);
		assert_memory_equal(f.service.base + 20 + cases[i].head_len, want, cases[i].len);
		assert_int_equal(smb_writer_write(w, "", 0), 0); /* nothing at all */
		assert_int_equal(smb_writer_flush(w), 0);
		expect_copy(&f.service, 0, 3);
		smb_writer_free(w);
		finish(&f);
	}
}

/* 129 bytes left and more to write: 127 with a length of two bytes, so that none is left over. */
static void test_padded_length(void **state)
{
	const uint32_t first = PAYLOAD - 2 - FIRST_SIZE - 129;
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 64);
	w = new_writer(&f, 0);
	assert_int_equal(put(w, 0, first), 0);
	assert_int_equal(put(w, 1, 200), 0);
	assert_memory_equal(f.service.base + 16 + PAYLOAD - 129, "\xff\0", 2);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	expect_packet(&f.service, 1, 1, 1, 200, NONE);
	smb_writer_free(w);
	finish(&f);
}

/* ---- a full memory ---- */
static void test_full(void **state)
{
	struct fixture f;
	struct smb_writer *w, *late;

	(void)state;
	start(&f, 4096, 16);
	f.service.serve_at_once = false;
	w = new_writer(&f, 0);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(put(w, i, PAYLOAD - 2 - (i ? 0 : FIRST_SIZE)), 0);
	/* When half of the bytes are filled, without being asked: 8 chunks are a little less. */
	assert_int_equal(f.service.n_commits, 1);
	assert_int_equal(f.service.n_queue, 9);
	/* All Complete.  Nothing changes by trying. */
	late = new_writer(&f, 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(put(w, 16, 10), SMB_DROPPED);
		assert_int_equal(put(late, 0, 10), SMB_DROPPED);
	}
	assert_int_equal(f.service.n_queue, 16);
	assert_int_equal(smb_stats(f.smb)->dropped, 6);
	assert_int_equal(smb_stats(f.smb)->packets, 16);
	service_serve(&f.service);
	assert_int_equal(put(w, 17, 10), 0);
	assert_int_equal(put(w, 18, 10), 0);
	assert_int_equal(put(late, 1, 10), 0);
	assert_int_equal(put(late, 2, 10), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	assert_int_equal(smb_writer_flush(late), 0);
	service_serve(&f.service);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 20);
	expect_packet(&f.service, 16, 1, 17, 10, DROPPED);
	expect_packet(&f.service, 17, 1, 18, 10, NONE);
	expect_packet(&f.service, 18, 2, 1, 10, FIRST_DROPPED);
	expect_packet(&f.service, 19, 2, 2, 10, NONE);
	smb_writer_free(w);
	smb_writer_free(late);
	finish(&f);
}

/* Another writer of the memory holds everything, and gives nothing back. */
static void test_full_being_written(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 8);
	for (uint32_t i = 0; i < 8; i++)
		*service_word(&f.service, i) = 3u << 28 | 0x55;
	w = new_writer(&f, 0);
	assert_int_equal(put(w, 0, 10), SMB_DROPPED);
	assert_int_equal(put(w, 0, 10), SMB_DROPPED);
	assert_int_equal(f.service.n_commits, 0);
	*service_word(&f.service, 5) = 3u << 28 | 0x51; /* chunk 1 */
	assert_int_equal(put(w, 1, 10), 0);
	assert_int_equal(*service_word(&f.service, 5), 3u << 28 | 0x55);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	expect_packet(&f.service, 0, 1, 1, 10, FIRST_DROPPED);
	assert_int_equal(*service_word(&f.service, 5), 3u << 28 | 0x51);
	smb_writer_free(w);
	finish(&f);
}

/* A packet that finds no chunk for its second part is not begun; one that finds none for its third
 * part is marked to be forgotten. */
static void test_full_in_packet(void **state)
{
	for (uint32_t chunks = 1; chunks <= 4; chunks++) {
		struct fixture f;
		struct smb_writer *w;

		(void)state;
		start(&f, 4096, chunks + 1);
		f.smb->layout = 1;
		f.service.serve_at_once = false;
		w = new_writer(&f, 0);
		assert_int_equal(put(w, 0, 1000), 0);
		for (uint32_t i = 1; i < chunks; i++)
			assert_int_equal(*service_word(&f.service, i), 0);
		*service_word(&f.service, chunks) = 1u << 28 | 1;
		assert_int_equal(put(w, 1, 20000), SMB_DROPPED);
		assert_int_equal(smb_stats(f.smb)->dropped, 1);
		assert_int_equal(f.smb->n_moves, 0); /* what there is, the service has to free */
		service_serve(&f.service);
		assert_int_equal(put(w, 2, 1000), 0);
		assert_int_equal(smb_writer_flush(w), 0);
		service_serve(&f.service);
		service_assemble(&f.service);
		assert_int_equal(f.service.forgotten, chunks > 1);
		assert_int_equal(f.service.open_ends, 0);
		assert_int_equal(f.service.n_packets, 2);
		expect_packet(&f.service, 0, 1, 0, 1000, FIRST);
		expect_packet(&f.service, 1, 1, 2, 1000, DROPPED);
		*service_word(&f.service, chunks) = 0;
		smb_writer_free(w);
		finish(&f);
	}
}

/* The very first fragment of a chunk has nowhere to go on. */
static void test_full_in_first(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 1);
	f.smb->layout = 1;
	w = new_writer(&f, 0);
	assert_int_equal(put(w, 0, 5000), SMB_DROPPED);
	assert_int_equal(put(w, 1, 4000), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	assert_int_equal(f.service.forgotten, 1);
	assert_int_equal(f.service.n_packets, 1);
	expect_packet(&f.service, 0, 1, 1, 4000, FIRST_DROPPED);
	smb_writer_free(w);
	finish(&f);
}

/* ---- the waiting room ---- */
/* Four times the memory in one packet: it goes as the service frees. */
static void test_large_waits(void **state)
{
	struct fixture f;
	struct smb_writer *w;
	unsigned rounds = 0;

	(void)state;
	start(&f, 4096, 64);
	f.service.serve_at_once = false;
	w = new_writer(&f, 2 << 20);
	assert_int_equal(put(w, 0, 100), 0);
	assert_int_equal(put(w, 1, 1 << 20), 0);
	assert_int_equal(put(w, 2, 100), 0);
	assert_int_equal(f.service.n_queue, 64);
	assert_int_equal(smb_waiting(f.smb), smb_writer_waiting(w));
	assert_in_range(smb_waiting(f.smb), (1 << 20) - 64 * 4096, 1 << 20);
	assert_int_equal(smb_writer_flush(w), SMB_BEHIND);
	for (; smb_waiting(f.smb); rounds++) {
		assert_true(rounds < 8);
		service_serve(&f.service);
		assert_int_equal(smb_pump(f.smb), 0);
	}
	assert_int_equal(smb_writer_flush(w), 0);
	service_serve(&f.service);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 3);
	expect_packet(&f.service, 1, 1, 1, 1 << 20, NONE);
	expect_packet(&f.service, 2, 1, 2, 100, NONE);
	assert_int_equal(smb_stats(f.smb)->dropped, 0);
	smb_writer_free(w);
	finish(&f);
}

/* A service that reads while we write: no room is needed. */
static void test_large_served(void **state)
{
	(void)state;
	for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2) {
		struct fixture f;
		struct smb_writer *w;

		start(&f, page_size, 262144 / page_size);
		w = new_writer(&f, 0);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(put(w, i, (1 << 20) + i), 0);
		assert_int_equal(smb_writer_flush(w), 0);
		service_assemble(&f.service);
		assert_int_equal(f.service.n_packets, 3);
		expect_packet(&f.service, 0, 1, 0, 1 << 20, FIRST);
		expect_packet(&f.service, 2, 1, 2, (1 << 20) + 2, NONE);
		smb_writer_free(w);
		finish(&f);
	}
}

/* The room is full: dropped, until it is half empty. */
static void test_room_full(void **state)
{
	struct fixture f;
	struct smb_writer *w;
	uint32_t n = 0;

	(void)state;
	start(&f, 4096, 2);
	f.smb->layout = 1;
	f.service.serve_at_once = false;
	w = new_writer(&f, 20000);
	while (put(w, n, 1000) == 0)
		n++;
	/* 8160 bytes of chunks; 19 packets and a rest with their lengths fit into the room. */
	assert_in_range(n, 26, 28);
	assert_in_range(smb_writer_waiting(w), 18000, 20000);
	assert_int_equal(put(w, n, 1), SMB_DROPPED); /* it would fit, but not what follows it */
	service_serve(&f.service);
	assert_int_equal(put(w, n, 1), SMB_DROPPED);
	assert_in_range(smb_writer_waiting(w), 10001, 12000);
	service_serve(&f.service);
	assert_int_equal(put(w, n, 500), 0);
	assert_int_equal(smb_stats(f.smb)->dropped, 3);
	assert_int_equal(smb_stats(f.smb)->packets, n + 1);
	for (int i = 0; i < 4; i++) {
		service_serve(&f.service);
		(void)smb_writer_flush(w);
	}
	assert_int_equal(smb_writer_waiting(w), 0);
	service_serve(&f.service);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, n + 1);
	for (uint32_t i = 1; i < n; i++)
		expect_packet(&f.service, i, 1, i, 1000, NONE);
	expect_packet(&f.service, n, 1, n, 500, DROPPED);
	/* Freed with packets that wait: they are lost, and counted. */
	f.service.n_queue = 0;
	*service_word(&f.service, 0) = *service_word(&f.service, 1) = 1u << 28 | 1;
	assert_int_equal(put(w, 0, 1000), 0);
	assert_int_equal(put(w, 0, 1000), 0);
	smb_writer_free(w);
	assert_int_equal(smb_stats(f.smb)->dropped, 5);
	finish(&f);
}

/* ---- writers ---- */
/* More writers than chunks: each gives way. */
static void test_many_writers(void **state)
{
	enum { WRITERS = 40, PACKETS = 50 };
	struct smb_writer *w[WRITERS];
	struct fixture f;

	(void)state;
	start(&f, 4096, 1);
	for (int i = 0; i < WRITERS; i++)
		w[i] = new_writer(&f, 4096);
	for (uint32_t n = 0; n < PACKETS; n++) {
		for (int i = 0; i < WRITERS; i++)
			assert_int_equal(put(w[i], n, 20 + n), 0);
	}
	assert_int_equal(smb_pump(f.smb), 0);
	assert_int_equal(smb_waiting(f.smb), 0);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(smb_writer_flush(w[i]), 0);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, WRITERS * PACKETS);
	for (uint32_t i = 0; i < WRITERS; i++) {
		expect_packet(&f.service, (size_t)i * PACKETS, i + 1, 0, 20, FIRST);
		for (uint32_t n = 1; n < PACKETS; n++)
			expect_packet(&f.service, (size_t)i * PACKETS + n, i + 1, n, 20 + n, NONE);
		smb_writer_free(w[i]);
	}
	finish(&f);
}

static void test_ids(void **state)
{
	struct smb_writer **w = calloc(SMB_MAX_WRITER_ID + 1, sizeof(*w)), *more;
	struct fixture f;

	(void)state;
	assert_non_null(w);
	start(&f, 4096, 1);
	/* Freed and made again: the next id, not the same. */
	for (uint32_t i = 1; i <= 3; i++) {
		w[0] = new_writer(&f, 0);
		assert_int_equal(smb_writer_id(w[0]), i);
		smb_writer_free(w[0]);
	}
	for (int i = 1; i <= SMB_MAX_WRITER_ID; i++)
		w[i] = new_writer(&f, 0);
	assert_int_equal(smb_writer_id(w[1]), 4);
	assert_int_equal(smb_writer_id(w[SMB_MAX_WRITER_ID - 3]), SMB_MAX_WRITER_ID);
	assert_int_equal(smb_writer_id(w[SMB_MAX_WRITER_ID]), 3);
	assert_int_equal(smb_writer_new(f.smb, BUFFER, 0, &more), -EMFILE);
	w[1000] = smb_writer_free(w[1000]);
	w[1000] = new_writer(&f, 0);
	assert_int_equal(smb_writer_id(w[1000]), 1003);
	for (int i = SMB_MAX_WRITER_ID; i > 0; i--)
		smb_writer_free(w[i]);
	free(w);
	finish(&f);
}

/* Commits: a half at a time, chunks of a writer in order, never more than a frame holds. */
static void test_batches(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 1024);
	f.smb->layout = 5; /* 14336 chunks */
	w = new_writer(&f, 0);
	for (uint32_t i = 0; i < 1024; i++)
		assert_int_equal(put(w, i, 2000), 0);
	assert_int_equal(f.service.n_commits, 1); /* before half is filled, at 7,182 chunks */
	assert_int_equal(f.service.max_moves, SMB_MAX_MOVES);
	assert_int_equal(smb_writer_flush(w), 0);
	for (size_t i = 0; i < f.service.n_copies; i++)
		assert_int_equal(f.service.copies[i].chunk_id, i);
	smb_writer_free(w);
	finish(&f);
}

static void test_commit_fails(void **state)
{
	struct fixture f;
	struct smb_writer *w;
	int r = 0;

	(void)state;
	start(&f, 4096, 16);
	f.service.commit_result = -EPIPE;
	w = new_writer(&f, 1 << 20);
	for (uint32_t i = 0; i < 100 && r == 0; i++)
		r = smb_writer_write(w, "\x08\x01", 2) ?: smb_writer_flush(w);
	assert_int_equal(r, -EPIPE);
	smb_writer_free(w);
	finish(&f);
}

/* ---- scraping ---- */
static void test_scrape(void **state)
{
	struct fixture f;
	struct smb_writer *w;

	(void)state;
	start(&f, 4096, 8);
	f.smb->layout = 1;
	w = new_writer(&f, 0);
	assert_int_equal(put(w, 0, 100), 0); /* one packet, which no flush of ours gives away */
	service_scrape(&f.service, BUFFER);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 1);
	expect_packet(&f.service, 0, 1, 0, 100, FIRST);
	assert_int_equal(put(w, 1, 100), 0);
	assert_int_equal(put(w, 2, 6000), 0); /* into a second chunk; the first is Complete */
	service_scrape(&f.service, BUFFER);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_packets, 3);
	expect_packet(&f.service, 2, 1, 2, 6000, NONE);
	service_scrape(&f.service, BUFFER); /* nothing new */
	assert_int_equal(f.service.n_copies, 2);
	assert_int_equal(put(w, 3, 10), 0);
	assert_int_equal(smb_writer_flush(w), 0);
	service_assemble(&f.service);
	assert_int_equal(f.service.n_copies, 2);
	assert_int_equal(f.service.n_packets, 4);
	expect_packet(&f.service, 0, 1, 0, 100, FIRST);
	expect_packet(&f.service, 3, 1, 3, 10, NONE);
	smb_writer_free(w);
	finish(&f);
}

/* ---- a service that does as it likes ---- */
static void test_damaged(void **state)
{
	static const uint32_t words[] = {
		0,		   /* freed, and the page with it */
		1u << 28,	   /* freed */
		1u << 28 | 2,	   /* being read */
		1u << 28 | 3,	   /* complete */
		5u << 28 | 1,	   /* another layout */
		7u << 28 | 0x1555, /* no layout */
		UINT32_MAX,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct fixture f;
		struct smb_writer *w;

		start(&f, 4096, 64);
		w = new_writer(&f, 0);
		assert_int_equal(put(w, 0, 100), 0);
		*service_word(&f.service, 0) = words[i];
		assert_int_equal(smb_writer_flush(w), 0);
		assert_int_equal(smb_stats(f.smb)->damaged, 1);
		assert_int_equal(f.service.n_commits, 0);
		assert_int_equal(*service_word(&f.service, 0), words[i]);
		*service_word(&f.service, 0) = 1u << 28 | 2;
		assert_int_equal(put(w, 1, 100), SMB_DROPPED); /* reported late, and written */
		assert_int_equal(put(w, 2, 100), 0);
		assert_int_equal(smb_writer_flush(w), 0);
		f.service.copies[0].chunk_id = 0; /* 0 was lost */
		service_assemble(&f.service);
		assert_int_equal(f.service.n_packets, 2);
		expect_packet(&f.service, 0, 1, 1, 100, DROPPED);
		expect_packet(&f.service, 1, 1, 2, 100, NONE);
		smb_writer_free(w);
		finish(&f);
	}
}

/* ---- all at once ---- */
static uint64_t next_random(uint64_t *seed)
{
	return hash_u64((*seed)++);
}

static size_t random_size(uint64_t *seed, uint32_t page_size)
{
	uint64_t kind = next_random(seed) % 16, r = next_random(seed);

	return kind < 8 ? r % 200 : kind < 14 ? r % 3000 : r % (5 * page_size);
}

static void run_random(uint64_t seed, uint32_t page_size, uint32_t layout)
{
	enum { WRITERS = 5, PACKETS = 60 };
	struct smb_writer *w[WRITERS];
	size_t sizes[WRITERS][PACKETS], at = 0;
	uint32_t n[WRITERS] = {0};
	struct fixture f;

	start(&f, page_size, 8);
	f.smb->layout = layout;
	f.service.serve_at_once = seed % 2;
	for (int i = 0; i < WRITERS; i++)
		w[i] = new_writer(&f, 64 << 20);
	for (uint32_t step = 0; step < WRITERS * PACKETS * 2; step++) {
		uint32_t i = (uint32_t)(next_random(&seed) % WRITERS);

		if (n[i] < PACKETS) {
			sizes[i][n[i]] = random_size(&seed, page_size) + 1;
			assert_int_equal(put(w[i], n[i], sizes[i][n[i]]), 0);
			n[i]++;
		}
		if (next_random(&seed) % 8 == 0)
			service_serve(&f.service);
		if (next_random(&seed) % 64 == 0)
			assert_in_range(smb_writer_flush(w[i]), 0, SMB_BEHIND);
	}
	while (smb_waiting(f.smb)) {
		assert_int_equal(smb_pump(f.smb), 0);
		assert_int_equal(smb_commit(f.smb), 0);
		service_serve(&f.service);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(smb_writer_flush(w[i]), 0);
	service_serve(&f.service);
	service_assemble(&f.service);
	for (uint32_t i = 0; i < WRITERS; i++) {
		for (uint32_t k = 0; k < n[i]; k++, at++)
			expect_packet(&f.service, at, i + 1, k, sizes[i][k], k ? "" : "\xb8\5\1",
				      k ? 0 : 3);
		smb_writer_free(w[i]);
	}
	assert_int_equal(f.service.n_packets, at);
	assert_int_equal(f.service.open_ends, 0);
	assert_int_equal(smb_stats(f.smb)->dropped, 0);
	finish(&f);
}

static void test_random(void **state)
{
	(void)state;
	for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2) {
		for (uint32_t layout = 1; layout <= 5; layout++)
			run_random(page_size + layout, page_size, layout);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_end),
		cmocka_unit_test(test_three_chunks),
		cmocka_unit_test(test_1022_packets),
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_padded_length),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_full_being_written),
		cmocka_unit_test(test_full_in_packet),
		cmocka_unit_test(test_full_in_first),
		cmocka_unit_test(test_large_waits),
		cmocka_unit_test(test_large_served),
		cmocka_unit_test(test_room_full),
		cmocka_unit_test(test_many_writers),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_commit_fails),
		cmocka_unit_test(test_scrape),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_random),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
