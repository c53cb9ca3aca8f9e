/* table.c - see table.h. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/table.h"

void table_deinit(struct table *t)
{
	free(t->slots);
	*t = (struct table){0};
}

void table_clear(struct table *t)
{
	if (t->slots)
		memset(t->slots, 0, t->n_slots * sizeof(*t->slots));
	t->n_used = 0;
}

/* The slot of @key, or the free one where it would go.  There is always a free one. */
static struct table_slot *table_slot_of(const struct table *t, uint64_t key)
{
	size_t i = hash_u64(key) & (t->n_slots - 1);

	while (t->slots[i].used && t->slots[i].key != key)
		i = (i + 1) & (t->n_slots - 1);
	return &t->slots[i];
}

bool table_get(const struct table *t, uint64_t key, uint64_t *ret_value)
{
	const struct table_slot *slot;

	if (!t->n_used)
		return false;
	slot = table_slot_of(t, key);
	if (!slot->used)
		return false;
	*ret_value = slot->value;
	return true;
}

static int table_grow(struct table *t)
{
	struct table bigger = {.n_slots = t->n_slots ? t->n_slots * 2 : 16};

	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return fail(-ENOMEM);
	table_for_each (t, slot) {
		*table_slot_of(&bigger, slot->key) = *slot;
		bigger.n_used++;
	}
	free(t->slots);
	*t = bigger;
	return 0;
}

int table_put(struct table *t, uint64_t key, uint64_t value)
{
	struct table_slot *slot;

	if (t->n_used * 3 >= t->n_slots * 2) {
		int r = table_grow(t);

		if (r < 0)
			return trace(r);
	}
	slot = table_slot_of(t, key);
	if (!slot->used)
		t->n_used++;
	*slot = (struct table_slot){.key = key, .value = value, .used = true};
	return 0;
}

bool table_remove(struct table *t, uint64_t key)
{
	size_t hole, i;

	if (!t->n_used)
		return false;
	hole = (size_t)(table_slot_of(t, key) - t->slots);
	if (!t->slots[hole].used)
		return false;
	t->n_used--;
	/* Shift back each later entry of the run whose home is not between the hole and it. */
	for (i = (hole + 1) & (t->n_slots - 1); t->slots[i].used; i = (i + 1) & (t->n_slots - 1)) {
		size_t home = hash_u64(t->slots[i].key) & (t->n_slots - 1);

		if (((i - home) & (t->n_slots - 1)) < ((i - hole) & (t->n_slots - 1)))
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole].used = false;
	return true;
}

uint64_t hash_bytes(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = 0x9e3779b97f4a7c15ull ^ len;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, sizeof(v));
		h = hash_u64(h ^ v);
	}
	if (len) {
		uint64_t v = 0;

		memcpy(&v, p, len);
		h = hash_u64(h ^ v);
	}
	return h;
}

void string_table_deinit(struct string_table *t)
{
	for (uint32_t i = 0; i < t->n_entries; i++)
		free(t->entries[i].data);
	free(t->entries);
	table_deinit(&t->by_hash);
	*t = (struct string_table){0};
}

const char *string_table_text(const struct string_table *t, uint32_t id)
{
	return t->entries[id - 1].data;
}

static int string_table_append(struct string_table *t, const void *data, size_t len, uint32_t next)
{
	char *copy;

	if (t->n_entries == t->room) {
		uint32_t room = t->room ? t->room * 2 : 64;
		struct string_entry *more = reallocarray(t->entries, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		t->entries = more;
		t->room = room;
	}
	copy = malloc(len + 1);
	if (!copy)
		return fail(-ENOMEM);
	if (len)
		memcpy(copy, data, len);
	copy[len] = 0;
	t->entries[t->n_entries++] = (struct string_entry){copy, (uint32_t)len, next};
	return 0;
}

/* In the chain of its hash, which begins with id @first; 0: not there. */
static uint32_t string_table_seek(const struct string_table *t, uint64_t first, const void *data,
				  size_t len)
{
	for (uint32_t id = (uint32_t)first; id; id = t->entries[id - 1].next) {
		const struct string_entry *e = &t->entries[id - 1];

		if (e->len == len && (!len || !memcmp(e->data, data, len)))
			return id;
	}
	return 0;
}

bool string_table_find(const struct string_table *t, const void *data, size_t len, uint32_t *ret_id)
{
	uint64_t first = 0;
	uint32_t id;

	(void)table_get(&t->by_hash, hash_bytes(data, len), &first);
	id = string_table_seek(t, first, data, len);
	if (id)
		*ret_id = id;
	return id != 0;
}

int string_table_add(struct string_table *t, const void *data, size_t len, uint32_t *ret_id,
		     bool *ret_new)
{
	uint64_t hash = hash_bytes(data, len), first = 0;
	uint32_t id;
	int r;

	if (len > UINT32_MAX - 1)
		return fail(-E2BIG);
	(void)table_get(&t->by_hash, hash, &first);
	id = string_table_seek(t, first, data, len);
	if (id) {
		*ret_id = id;
		if (ret_new)
			*ret_new = false;
		return 0;
	}
	r = table_put(&t->by_hash, hash, (uint64_t)t->n_entries + 1);
	if (r < 0)
		return trace(r);
	r = string_table_append(t, data, len, (uint32_t)first);
	if (r < 0) {
		if (first)
			(void)table_put(&t->by_hash, hash, first);
		else
			(void)table_remove(&t->by_hash, hash);
		return trace(r);
	}
	*ret_id = t->n_entries;
	if (ret_new)
		*ret_new = true;
	return 0;
}
