/* fake-ring.h - a perf ring in plain memory, written by a test in the kernel's place.
 * Thread: one writer; ring.h's side may run on another.
 *
 * A record is built as 64-bit words (fake_begin, fake_word, fake_pair, fake_text, fake_end), then
 * written whole; fake_ring_publish() lets the reader see all that was written so far.  The memory
 * is exactly as large as the ring, so that an address sanitizer sees a step over its end. */
#pragma once

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "perf/ring.h"

enum { FAKE_PAGE = 4096, FAKE_RECORD_WORDS = 8192 };

struct fake_record {
	size_t n;
	uint64_t words[FAKE_RECORD_WORDS]; /* the header is words[0] */
};

static inline void fake_begin(struct fake_record *record, uint32_t type, uint16_t misc)
{
	record->n = 1;
	record->words[0] = type | (uint64_t)misc << 32;
}

static inline void fake_word(struct fake_record *record, uint64_t word)
{
	assert(record->n < FAKE_RECORD_WORDS);
	record->words[record->n++] = word;
}

/* Two 32-bit fields, the first one first in memory. */
static inline void fake_pair(struct fake_record *record, uint32_t first, uint32_t second)
{
	fake_word(record, first | (uint64_t)second << 32);
}

/* With its NUL, and more NULs up to the next word. */
static inline void fake_text(struct fake_record *record, const char *text)
{
	const size_t n = strlen(text) / 8 + 1;

	assert(record->n + n <= FAKE_RECORD_WORDS);
	memset(&record->words[record->n], 0, n * 8);
	memcpy(&record->words[record->n], text, strlen(text));
	record->n += n;
}

/* Sets the size; the record is whole. */
static inline const struct perf_event_header *fake_end(struct fake_record *record)
{
	record->words[0] = (record->words[0] & 0xffffffffffffull) | (uint64_t)(record->n * 8) << 48;
	return (const struct perf_event_header *)(const void *)record->words;
}

/* The first @n_words of a record, with the size to match, in memory of exactly that size: a sanitizer
 * sees a read behind it.  Returns new memory. */
static inline struct perf_event_header *fake_exact(const struct fake_record *record, size_t n_words)
{
	struct perf_event_header *copy = malloc(n_words * 8);

	assert(copy);
	memcpy(copy, record->words, n_words * 8);
	copy->size = (uint16_t)(n_words * 8);
	return copy;
}

struct fake_ring {
	uint8_t *base; /* meta page, then the data */
	size_t size;
	uint64_t head; /* written; published up to meta's data_head */
};

static inline struct perf_event_mmap_page *fake_ring_meta(const struct fake_ring *fake)
{
	return (struct perf_event_mmap_page *)(void *)fake->base;
}

/* @size is a power of two of 8 bytes or more; positions begin at @start, a multiple of 8. */
static inline void fake_ring_init(struct fake_ring *fake, size_t size, uint64_t start)
{
	fake->base = calloc(1, FAKE_PAGE + size);
	assert(fake->base);
	fake->size = size;
	fake->head = start;
	fake_ring_meta(fake)->data_head = start;
	fake_ring_meta(fake)->data_tail = start;
}

static inline void fake_ring_deinit(struct fake_ring *fake)
{
	free(fake->base);
	fake->base = NULL;
}

static inline uint64_t fake_ring_tail(const struct fake_ring *fake)
{
	return __atomic_load_n(&fake_ring_meta(fake)->data_tail, __ATOMIC_ACQUIRE);
}

/* false when the reader has not given back enough room. */
static inline bool fake_ring_write(struct fake_ring *fake, const void *data, size_t len)
{
	const size_t offset = fake->head & (fake->size - 1);
	const size_t first = len < fake->size - offset ? len : fake->size - offset;

	if (fake->head + len - fake_ring_tail(fake) > fake->size)
		return false;
	memcpy(fake->base + FAKE_PAGE + offset, data, first);
	memcpy(fake->base + FAKE_PAGE, (const uint8_t *)data + first, len - first);
	fake->head += len;
	return true;
}

static inline bool fake_ring_add(struct fake_ring *fake, struct fake_record *record)
{
	return fake_ring_write(fake, fake_end(record), record->n * 8);
}

static inline void fake_ring_publish(struct fake_ring *fake)
{
	__atomic_store_n(&fake_ring_meta(fake)->data_head, fake->head, __ATOMIC_RELEASE);
}

/* A sequence of numbers for scripts that must not differ from run to run (xorshift64). */
static inline uint64_t fake_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}
