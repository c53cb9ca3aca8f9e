/* smb-service.h - the other side of the shared memory, for tests: a service written from the
 * format's facts and from nothing else.  It makes the memory, reads what is committed, scrapes, and
 * puts the packets together; what breaks the format's rules is counted as a violation. */
#pragma once

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/producer/smb.h"
#include "tests/unit/cmocka.h"

enum { SERVICE_MAX_COPIES = 1 << 15 };
#define SERVICE_FORGET 0x0fffffffu /* a fragment of this size: the packet is to be forgotten */

struct service_copy {
	uint32_t chunk_id, buffer;
	uint16_t writer, packets; /* as in the header: count | flags << 10 */
	uint32_t size;		  /* of the payload */
	uint32_t valid;		  /* bytes of it that have been counted: they stay as they are */
	uint8_t *payload;
	bool complete;
};
struct service_packet {
	uint16_t writer;
	uint8_t *data;
	size_t len;
};
struct service {
	int fd;
	uint8_t *base;
	size_t size;
	uint32_t page_size;
	struct smb_move *queue; /* committed, not read yet */
	size_t n_queue, n_commits, max_moves;
	bool serve_at_once;
	int commit_result;

	struct service_copy *copies;
	size_t n_copies;
	struct service_packet *packets;
	size_t n_packets;
	unsigned violations, forgotten;
	size_t open_ends; /* packets without their end */
};

static inline uint32_t service_chunks(uint32_t word)
{
	static const uint32_t chunks[8] = {0, 1, 2, 4, 7, 14, 0, 0};

	return chunks[word >> 28 & 7];
}

static inline _Atomic uint32_t *service_word(struct service *s, uint32_t page)
{
	return (_Atomic uint32_t *)(void *)(s->base + (size_t)page * s->page_size);
}

static inline uint32_t service_chunk_size(struct service *s, uint32_t word)
{
	return ((s->page_size - 8) / service_chunks(word)) & ~3u;
}

static inline uint8_t *service_chunk(struct service *s, uint32_t page, uint32_t chunk,
				     uint32_t word)
{
	return s->base + (size_t)page * s->page_size + 8 + chunk * service_chunk_size(s, word);
}

static inline void service_init(struct service *s, uint32_t page_size, uint32_t n_pages)
{
	memset(s, 0, sizeof(*s));
	s->page_size = page_size;
	s->size = (size_t)page_size * n_pages;
	s->fd = memfd_create("test-smb", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)s->size), 0);
	assert_int_equal(fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	s->base = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_true(s->base != MAP_FAILED);
	s->copies = calloc(SERVICE_MAX_COPIES, sizeof(*s->copies));
	s->queue = calloc(SERVICE_MAX_COPIES, sizeof(*s->queue));
	assert_non_null(s->copies);
	assert_non_null(s->queue);
	s->serve_at_once = true;
}

static inline void service_forget_packets(struct service *s)
{
	for (size_t i = 0; i < s->n_packets; i++)
		free(s->packets[i].data);
	free(s->packets);
	s->packets = NULL;
	s->n_packets = s->open_ends = 0;
}

static inline void service_deinit(struct service *s)
{
	service_forget_packets(s);
	for (size_t i = 0; i < s->n_copies; i++)
		free(s->copies[i].payload);
	free(s->copies);
	free(s->queue);
	munmap(s->base, s->size);
	close(s->fd);
}

/* A descriptor to be consumed. */
static inline int service_fd(struct service *s)
{
	return fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
}

/* A copy of a chunk with the header @packets; one of the same chunk stands in for an earlier one,
 * by the rules. */
static inline void service_copy_chunk(struct service *s, const uint8_t *chunk, uint32_t size,
				      uint16_t packets, uint32_t buffer, bool complete)
{
	struct service_copy c = {
		.buffer = buffer, .packets = packets, .size = size - 8, .complete = complete};
	uint32_t id = atomic_load_explicit((const _Atomic uint32_t *)(const void *)chunk,
					   memory_order_relaxed);

	c.chunk_id = id;
	c.writer = atomic_load_explicit((const _Atomic uint16_t *)(const void *)(chunk + 4),
					memory_order_relaxed);
	if (!c.writer || c.writer > 32767)
		s->violations++;
	c.payload = calloc(1, c.size + 1);
	assert_non_null(c.payload);
	if (complete) {
		memcpy(c.payload, chunk + 8, c.size);
		c.valid = c.size;
	} else {
		/* Only the fragments that count: the rest may be written just now. */
		uint32_t at = 0;

		for (uint32_t i = 0; i < (packets & 0x3ffu); i++) {
			uint32_t len = 0, shift = 0, from = at;

			while (at < c.size && shift < 28) {
				len |= (chunk[8 + at] & 0x7fu) << shift;
				shift += 7;
				if (!(chunk[8 + at++] & 0x80))
					break;
			}
			if (len > c.size - at) {
				s->violations++;
				break;
			}
			at += len;
			memcpy(c.payload + from, chunk + 8 + from, at - from);
			c.valid = at;
		}
	}
	for (size_t i = 0; i < s->n_copies; i++) {
		struct service_copy *old = &s->copies[i];

		if (old->writer != c.writer || old->chunk_id != c.chunk_id)
			continue;
		if (old->size != c.size || old->valid > c.valid ||
		    (old->complete && old->packets != c.packets) ||
		    (old->packets & 0x3ff) > (c.packets & 0x3ff) ||
		    (old->packets >> 10 & ~(c.packets >> 10)) ||
		    memcmp(old->payload, c.payload, old->valid) != 0)
			s->violations++;
		free(old->payload);
		*old = c;
		return;
	}
	assert_true(s->n_copies < SERVICE_MAX_COPIES);
	s->copies[s->n_copies++] = c;
}

/* One of the moves: Complete -> BeingRead -> Free. */
static inline void service_read_chunk(struct service *s, const struct smb_move *m)
{
	_Atomic uint32_t *word;
	uint32_t old, new;
	uint16_t packets;
	uint8_t *chunk;

	if ((size_t)m->page * s->page_size >= s->size) {
		s->violations++;
		return;
	}
	word = service_word(s, m->page);
	old = atomic_load_explicit(word, memory_order_acquire);
	do {
		if (m->chunk >= service_chunks(old) || (old >> (2 * m->chunk) & 3) != 3) {
			s->violations++;
			return;
		}
		new = (old & ~(3u << (2 * m->chunk))) | 2u << (2 * m->chunk);
	} while (!atomic_compare_exchange_strong(word, &old, new));
	chunk = service_chunk(s, m->page, m->chunk, new);
	packets =
		atomic_load_explicit((_Atomic uint16_t *)(void *)(chunk + 6), memory_order_relaxed);
	service_copy_chunk(s, chunk, service_chunk_size(s, new), packets, m->target_buffer, true);
	atomic_store_explicit((_Atomic uint16_t *)(void *)(chunk + 4), 0, memory_order_relaxed);
	atomic_store_explicit((_Atomic uint32_t *)(void *)chunk, 0, memory_order_relaxed);
	atomic_store_explicit((_Atomic uint16_t *)(void *)(chunk + 6), 0, memory_order_release);
	old = atomic_load(word);
	do {
		if ((old >> (2 * m->chunk) & 3) != 2)
			s->violations++;
		new = old & ~(3u << (2 * m->chunk));
		if (!(new & 0x0fffffff))
			new = 0;
	} while (!atomic_compare_exchange_strong(word, &old, new));
}

static inline void service_serve(struct service *s)
{
	for (size_t i = 0; i < s->n_queue; i++)
		service_read_chunk(s, &s->queue[i]);
	s->n_queue = 0;
}

static inline int service_commit(void *arg, const struct smb_move *moves, size_t n)
{
	struct service *s = arg;

	s->n_commits++;
	s->max_moves = n > s->max_moves ? n : s->max_moves;
	for (size_t i = 0; i < n; i++) {
		assert_true(s->n_queue < SERVICE_MAX_COPIES);
		s->queue[s->n_queue++] = moves[i];
	}
	if (s->serve_at_once)
		service_serve(s);
	return s->commit_result;
}

/* Copies what can be read of chunks that were not committed. */
static inline void service_scrape(struct service *s, uint32_t buffer)
{
	for (uint32_t page = 0; page < s->size / s->page_size; page++) {
		uint32_t word = atomic_load(service_word(s, page));

		for (uint32_t i = 0; i < service_chunks(word); i++) {
			uint32_t state = word >> (2 * i) & 3;
			uint8_t *chunk = service_chunk(s, page, i, word);
			uint16_t packets = atomic_load_explicit(
				(_Atomic uint16_t *)(void *)(chunk + 6), memory_order_acquire);
			uint32_t size = service_chunk_size(s, word);

			if (state == 3)
				service_copy_chunk(s, chunk, size, packets, buffer, true);
			else if (state == 1 && (packets & 0x3ff) >= 2)
				service_copy_chunk(s, chunk, size,
						   (uint16_t)((packets & ~(6u << 10)) - 1), buffer,
						   false);
		}
	}
}

static inline int service_compare(const void *a, const void *b)
{
	const struct service_copy *x = a, *y = b;

	if (x->writer != y->writer)
		return x->writer < y->writer ? -1 : 1;
	return x->chunk_id < y->chunk_id ? -1 : x->chunk_id > y->chunk_id;
}

static inline void service_add_packet(struct service *s, uint16_t writer, const uint8_t *data,
				      size_t len)
{
	struct service_packet *p;

	p = realloc(s->packets, (s->n_packets + 1) * sizeof(*p));
	assert_non_null(p);
	s->packets = p;
	p += s->n_packets++;
	p->writer = writer;
	p->len = len;
	p->data = malloc(len + 1);
	assert_non_null(p->data);
	memcpy(p->data, data, len);
}

/* Puts the packets of all copies together, writer by writer, chunk ids from 0 on without a hole. */
static inline void service_assemble(struct service *s)
{
	_cleanup_(freep) uint8_t *packet = malloc(16 << 20);
	size_t len = 0;
	bool open = false;

	assert_non_null(packet);
	service_forget_packets(s);
	qsort(s->copies, s->n_copies, sizeof(*s->copies), service_compare);
	for (size_t i = 0; i < s->n_copies; i++) {
		const struct service_copy *c = &s->copies[i];
		uint32_t n = c->packets & 0x3ff, flags = c->packets >> 10, at = 0;
		bool new_writer = !i || c[-1].writer != c->writer;

		if (new_writer && open) {
			s->open_ends++;
			open = false;
		}
		if (c->chunk_id != (new_writer ? 0 : c[-1].chunk_id + 1) || flags & ~3u || n > 1022)
			s->violations++;
		if (open && !(flags & 1)) {
			s->open_ends++;
			open = false;
		}
		for (uint32_t f = 0; f < n; f++) {
			uint32_t size = 0, shift = 0;
			bool first = f == 0, last = f == n - 1;

			do {
				if (at >= c->size || shift > 21) {
					s->violations++;
					goto next_chunk;
				}
				size |= (c->payload[at] & 0x7fu) << shift;
				shift += 7;
			} while (c->payload[at++] & 0x80);
			if (size == SERVICE_FORGET) {
				s->forgotten++;
				open = false;
				goto next_chunk;
			}
			if (size > c->size - at) {
				s->violations++;
				goto next_chunk;
			}
			if (!(first && flags & 1))
				len = 0;
			else if (!open)
				s->violations++; /* a continuation of nothing */
			assert_true(len + size <= 16 << 20);
			memcpy(packet + len, c->payload + at, size);
			len += size;
			at += size;
			open = last && flags & 2;
			if (!open && len)
				service_add_packet(s, c->writer, packet, len);
		}
	next_chunk:;
	}
	s->open_ends += open;
}
