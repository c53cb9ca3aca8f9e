/* stacks.c - see stacks.h.  A look-up of a known stack costs one pass over its ids for the hash and
 * one for the comparison. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/unshared.h"
#include "trace/stacks.h"

enum { FIRST_SLOTS = 4096 };

void stacks_deinit(struct stacks *s)
{
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	unshared_free(s->entries, s->room_entries * sizeof(*s->entries));
	unshared_free(s->words, s->room_words * sizeof(*s->words));
	*s = (struct stacks){0};
}

/* Multiplicative, four ids in flight; mixed at the end. */
static uint64_t hash_ids(const uint32_t *ids, size_t n)
{
	const uint64_t k = 0x9e3779b97f4a7c15ull;
	uint64_t a = n * k, b = k, c = ~k, d = k >> 7;
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		a = (a ^ ids[i]) * k;
		b = (b ^ ids[i + 1]) * k;
		c = (c ^ ids[i + 2]) * k;
		d = (d ^ ids[i + 3]) * k;
	}
	for (; i < n; i++)
		a = ((a ^ a >> 29) ^ ids[i]) * k;
	/* The high bits of a product know of all below, the low ones do not: turn before folding.
	 */
	return hash_u64(hash_u64(a ^ (b << 32 | b >> 32)) ^ c ^ (d << 32 | d >> 32));
}

/* The slot of the stack, or the free one where it would go. */
static struct stacks_slot *slot_of(const struct stacks *s, uint64_t hash, const uint32_t *ids,
				   size_t n)
{
	size_t i = hash & (s->n_slots - 1);
	uint32_t tag = (uint32_t)(hash >> 32);

	for (; s->slots[i].index; i = (i + 1) & (s->n_slots - 1)) {
		const struct stacks_entry *e = &s->entries[s->slots[i].index - 1];

		if (s->slots[i].tag == tag && e->n == n &&
		    !memcmp(s->words + e->first, ids, n * sizeof(*ids)))
			break;
	}
	return &s->slots[i];
}

static int grow_slots(struct stacks *s)
{
	size_t n_slots = s->n_slots ? s->n_slots * 2 : FIRST_SLOTS;
	struct stacks_slot *slots = unshared_new(n_slots * sizeof(*slots));

	if (!slots)
		return fail(-ENOMEM);
	for (size_t e = 0; e < s->n_entries; e++) {
		uint64_t hash = hash_ids(s->words + s->entries[e].first, s->entries[e].n);
		size_t i = hash & (n_slots - 1);

		while (slots[i].index)
			i = (i + 1) & (n_slots - 1);
		slots[i] = (struct stacks_slot){(uint32_t)(hash >> 32), (uint32_t)e + 1};
	}
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	s->slots = slots;
	s->n_slots = n_slots;
	return 0;
}

static int make_room(struct stacks *s, size_t n)
{
	void *more;

	if (s->n_words + n > UINT32_MAX || s->n_entries >= UINT32_MAX - 1 - s->base)
		return fail(-E2BIG);
	if (s->n_entries == s->room_entries) {
		size_t room = s->room_entries ? s->room_entries * 2 : FIRST_SLOTS / 2;

		more = unshared_resize(s->entries, s->room_entries * sizeof(*s->entries),
				       room * sizeof(*s->entries));
		if (!more)
			return fail(-ENOMEM);
		s->entries = more;
		s->room_entries = room;
	}
	if (s->n_words + n > s->room_words) {
		size_t room = round_up_power_of_two(s->n_words + n + 16 * FIRST_SLOTS);

		more = unshared_resize(s->words, s->room_words * sizeof(*s->words),
				       room * sizeof(*s->words));
		if (!more)
			return fail(-ENOMEM);
		s->words = more;
		s->room_words = room;
	}
	return (s->n_entries + 1) * 2 > s->n_slots ? grow_slots(s) : 0;
}

int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new)
{
	uint64_t hash = hash_ids(ids, n);
	struct stacks_slot *slot;
	int r;

	if (s->n_slots) {
		slot = slot_of(s, hash, ids, n);
		if (slot->index) {
			*ret_id = s->base + slot->index - 1;
			*ret_new = false;
			return 0;
		}
	}
	r = make_room(s, n);
	if (r < 0)
		return trace(r);
	slot = slot_of(s, hash, ids, n);
	*slot = (struct stacks_slot){(uint32_t)(hash >> 32), (uint32_t)s->n_entries + 1};
	s->entries[s->n_entries] = (struct stacks_entry){(uint32_t)s->n_words, (uint32_t)n};
	if (n)
		memcpy(s->words + s->n_words, ids, n * sizeof(*ids));
	s->n_words += n;
	*ret_id = s->base + (uint32_t)s->n_entries++;
	*ret_new = true;
	return 0;
}
