/* record-words.h - a record as 64-bit words, within bounds.
 * Thread: any. */
#pragma once

#include "perf/record.h"

enum { WORD = sizeof(uint64_t) };

/* The words of a record that are not read yet. */
struct words {
	const uint64_t *p, *end;
};

static inline size_t words_left(const struct words *w)
{
	return (size_t)(w->end - w->p);
}

/* Steps over @count words and gives their place; NULL when there are fewer. */
static inline const uint64_t *words_take(struct words *w, uint64_t count)
{
	const uint64_t *p = w->p;

	if (count > words_left(w))
		return NULL;
	w->p += count;
	return p;
}

static inline unsigned count_bits(uint64_t bits)
{
	return (unsigned)__builtin_popcountll(bits);
}

static inline uint32_t low_half(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t high_half(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Is @flag set: as a number of words. */
static inline size_t one_if(uint64_t type, uint64_t flag)
{
	return type & flag ? 1 : 0;
}

static inline struct words body_of(const struct perf_event_header *record)
{
	const uint64_t *p = (const uint64_t *)(const void *)(record + 1);
	size_t size = record->size;

	return (struct words){p,
			      p + (size < sizeof(*record) ? 0 : (size - sizeof(*record)) / WORD)};
}
