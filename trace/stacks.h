/* stacks.h - callstacks by content: an array of frame ids -> a small id.  Private to trace/.
 * Thread: main.
 *
 *   slots   open addressing, power of two, at most 1/2 full: { tag, index + 1 }
 *   stacks  { first, n } of each, in order of arrival
 *   words   the arrays themselves, end to end
 *
 * There is no deletion: stacks_clear() drops all at once, when an owner's bound is reached.  Ids go
 * on where they stopped, so that an id never means two stacks. */
#pragma once

#include <string.h>

#include "base/util.h"

struct stacks {
	struct stacks_slot {
		uint32_t tag; /* high half of the hash */
		uint32_t index;
	} * slots;
	struct stacks_entry {
		uint32_t first, n;
	} * entries;
	uint32_t *words;
	size_t n_slots, n_entries, room_entries, n_words, room_words;
	uint32_t base; /* id of entries[0] */
};

static inline void stacks_init(struct stacks *s, uint32_t first_id)
{
	*s = (struct stacks){.base = first_id};
}
void stacks_deinit(struct stacks *s);
/* The id of @ids[0..n), made if new.  -ENOMEM. */
int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new);
/* Forgets all, keeps the memory. */
static inline void stacks_clear(struct stacks *s)
{
	s->base += (uint32_t)s->n_entries;
	s->n_entries = s->n_words = 0;
	if (s->slots)
		memset(s->slots, 0, s->n_slots * sizeof(*s->slots));
}
/* Forgets all, and frees the memory. */
static inline void stacks_free(struct stacks *s)
{
	uint32_t base = s->base + (uint32_t)s->n_entries;

	stacks_deinit(s);
	stacks_init(s, base);
}
/* in use, not reserved */
static inline size_t stacks_bytes(const struct stacks *s)
{
	return s->n_words * sizeof(*s->words) +
	       s->n_entries * (sizeof(*s->entries) + 2 * sizeof(*s->slots));
}
