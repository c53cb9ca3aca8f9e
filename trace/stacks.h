/* stacks.h - callstacks by content: an array of frame ids -> a small id.  Private to trace/.
 * Thread: main.
 *
 *   slots   open addressing, power of two, at most 1/2 full: { print of the stack, index + 1 }
 *
 * A stack is recognised by a print of 96 bits.  To keep and compare its ids took more cache lines than all else here.  The
 * keys of the print are random (AT_RANDOM), so a target cannot choose stacks with equal prints; that two of ten million
 * stacks have one by chance has a probability of 1e-15.
 *
 * There is no deletion: stacks_clear() drops all at once, when an owner's bound is reached.  Ids go
 * on where they stopped, so that an id never means two stacks. */
#pragma once

#include <string.h>

#include "base/util.h"

struct stacks {
	struct stacks_slot {
		uint64_t print;
		uint32_t more; /* of the print */
		uint32_t index;
	} * slots;
	size_t n_slots, n_entries;
	uint32_t base; /* id of index 0 */
	uint64_t keys[4];
};

void stacks_init(struct stacks *s, uint32_t first_id);
void stacks_deinit(struct stacks *s);
/* The id of @ids[0..n), made if new.  -ENOMEM. */
int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new);
/* Forgets all, keeps the memory. */
static inline void stacks_clear(struct stacks *s)
{
	s->base += (uint32_t)s->n_entries;
	s->n_entries = 0;
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
	return s->n_entries * 2 * sizeof(*s->slots);
}
