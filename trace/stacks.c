/* stacks.c - see stacks.h.  A look-up costs one pass over the ids and one cache line. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "base/unshared.h"
#include "trace/stacks.h"

enum { FIRST_SLOTS = 4096 };

void stacks_init(struct stacks *s, uint32_t first_id)
{
	*s = (struct stacks){.base = first_id};
	for (size_t i = 0; i < ARRAY_SIZE(s->keys); i++)
		s->keys[i] = hash_u64(hash_seed() + (i + 1) * 0x9e3779b97f4a7c15ull);
}

void stacks_deinit(struct stacks *s)
{
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	*s = (struct stacks){0};
}

/* Both halves of the product depend on all bits of both. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two chains of products with keys, which take the words in a different order. */
static struct stacks_slot print_of(const struct stacks *s, const uint32_t *ids, size_t n)
{
	uint64_t a = s->keys[0] ^ n, b = s->keys[1] + n;

	for (size_t i = 0; i < n; i += 4) {
		uint64_t w[2] = {0};

		if (n - i >= 4)
			memcpy(w, ids + i, sizeof(w));
		else
			for (size_t k = 0; k < n - i; k++)
				w[k / 2] |= (uint64_t)ids[i + k] << 32 * (k % 2);
		a = fold(w[0] ^ s->keys[2], w[1] ^ a);
		b = fold(w[1] ^ s->keys[3], w[0] ^ b);
	}
	return (struct stacks_slot){.print = hash_u64(a), .more = (uint32_t)hash_u64(b)};
}

/* The slot of the stack, or the free one where it would go. */
static struct stacks_slot *slot_of(const struct stacks *s, const struct stacks_slot *print)
{
	size_t i = print->print & (s->n_slots - 1);

	while (s->slots[i].index &&
	       (s->slots[i].print != print->print || s->slots[i].more != print->more))
		i = (i + 1) & (s->n_slots - 1);
	return &s->slots[i];
}

static int grow(struct stacks *s)
{
	struct stacks more = {.n_slots = s->n_slots ? s->n_slots * 2 : FIRST_SLOTS};

	more.slots = unshared_new(more.n_slots * sizeof(*more.slots));
	if (!more.slots)
		return fail(-ENOMEM);
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].index)
			*slot_of(&more, &s->slots[i]) = s->slots[i];
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	s->slots = more.slots;
	s->n_slots = more.n_slots;
	return 0;
}

int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new)
{
	struct stacks_slot print = print_of(s, ids, n), *slot = NULL;
	int r;

	if (s->n_slots) {
		slot = slot_of(s, &print);
		if (slot->index) {
			*ret_id = s->base + slot->index - 1;
			*ret_new = false;
			return 0;
		}
	}
	if (s->n_entries >= UINT32_MAX - 1 - s->base)
		return fail(-E2BIG);
	if ((s->n_entries + 1) * 2 > s->n_slots) {
		r = grow(s);
		if (r < 0)
			return trace(r);
		slot = slot_of(s, &print);
	}
	print.index = (uint32_t)++s->n_entries;
	*slot = print;
	*ret_id = s->base + print.index - 1;
	*ret_new = true;
	return 0;
}
