/* table.c - see table.h. */
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/error.h"
#include "base/table.h"
#include "base/unshared.h"

static void free_slots(struct table *t)
{
	if (t->unshared)
		unshared_free(t->slots, t->n_slots * sizeof(*t->slots));
	else
		free(t->slots);
}

void table_deinit(struct table *t)
{
	free_slots(t);
	*t = (struct table){.unshared = t->unshared};
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
	size_t i = hash_u64(key ^ t->seed) & (t->n_slots - 1);

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
	struct table bigger = {.n_slots = t->n_slots ? t->n_slots * 2 : 16,
			       .seed = t->n_slots ? t->seed : hash_seed(),
			       .unshared = t->unshared};

	bigger.slots = t->unshared ? unshared_new(bigger.n_slots * sizeof(*bigger.slots))
				   : calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return fail(-ENOMEM);
	table_for_each (t, slot) {
		*table_slot_of(&bigger, slot->key) = *slot;
		bigger.n_used++;
	}
	free_slots(t);
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
	/* Shift back each later entry of the run if its home is not between the hole and it. */
	for (i = (hole + 1) & (t->n_slots - 1); t->slots[i].used; i = (i + 1) & (t->n_slots - 1)) {
		size_t home = hash_u64(t->slots[i].key ^ t->seed) & (t->n_slots - 1);

		if (((i - home) & (t->n_slots - 1)) < ((i - hole) & (t->n_slots - 1)))
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole].used = false;
	return true;
}

uint64_t hash_seed(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes */
	uint64_t seed = 0;

	if (random)
		memcpy(&seed, random, sizeof(seed));
	return seed;
}

uint64_t hash_bytes(const void *data, size_t len)
{
	return hash_seeded(0, data, len);
}

uint64_t hash_seeded(uint64_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = (0x9e3779b97f4a7c15ull ^ len) + seed;

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

void hash_index_deinit(struct hash_index *index)
{
	free(index->slots);
	*index = (struct hash_index){0};
}

/* A power of two, at most 3/4 full. */
static size_t slots_for(size_t n)
{
	return (size_t)round_up_power_of_two(max_u64(n * 4 / 3 + 1, 64));
}

size_t hash_index_bytes(size_t n)
{
	return slots_for(n) * sizeof(uint32_t);
}

static void index_insert(struct hash_index *index, uint64_t hash, uint32_t number)
{
	size_t at = (size_t)hash & (index->n_slots - 1);

	while (index->slots[at])
		at = (at + 1) & (index->n_slots - 1);
	index->slots[at] = number + 1;
}

int hash_index_add(struct hash_index *index, uint64_t hash,
		   uint64_t (*hash_of)(const void *owner, uint32_t number), const void *owner)
{
	size_t wanted = slots_for(index->n_used + 1);

	if (index->n_used >= UINT32_MAX - 1)
		return fail(-E2BIG);
	if (wanted > index->n_slots) {
		uint32_t *slots = calloc(wanted, sizeof(*slots));

		if (!slots)
			return fail(-ENOMEM);
		free(index->slots); /* the numbers are known without them */
		index->slots = slots;
		index->n_slots = wanted;
		for (uint32_t i = 0; i < index->n_used; i++) {
			if (i + 16 < index->n_used) /* each slot is a line of its own */
				hash_index_prefetch(index, hash_of(owner, i + 16));
			index_insert(index, hash_of(owner, i), i);
		}
	}
	index_insert(index, hash, (uint32_t)index->n_used++);
	return 0;
}

void string_table_deinit(struct string_table *t)
{
	for (uint32_t i = 0; i < t->n_entries; i++)
		free(t->entries[i].data);
	free(t->entries);
	hash_index_deinit(&t->by_text);
	*t = (struct string_table){0};
}

const char *string_table_text(const struct string_table *t, uint32_t id)
{
	return t->entries[id - 1].data;
}

static uint64_t hash_of_entry(const void *owner, uint32_t number)
{
	return ((const struct string_table *)owner)->entries[number].hash;
}

static int string_table_append(struct string_table *t, const void *data, size_t len, uint32_t hash)
{
	char *copy;
	int r;

	if (t->n_entries == t->room && !array_grow(t->entries, t->room, 64))
		return fail(-ENOMEM);
	copy = malloc(len + 1);
	if (!copy)
		return fail(-ENOMEM);
	r = hash_index_add(&t->by_text, hash, hash_of_entry, t);
	if (r < 0) {
		free(copy);
		return trace(r);
	}
	if (len)
		memcpy(copy, data, len);
	copy[len] = 0;
	t->entries[t->n_entries++] = (struct string_entry){copy, (uint32_t)len, hash};
	return 0;
}

/* 0: not there. */
static uint32_t string_table_seek(const struct string_table *t, uint32_t hash, const void *data,
				  size_t len)
{
	hash_index_for_each(&t->by_text, hash, i)
	{
		const struct string_entry *e = &t->entries[i];

		if (e->hash == hash && e->len == len && (!len || !memcmp(e->data, data, len)))
			return (uint32_t)i + 1;
	}
	return 0;
}

bool string_table_find(const struct string_table *t, const void *data, size_t len, uint32_t *ret_id)
{
	uint32_t id = string_table_seek(t, (uint32_t)hash_seeded(t->seed, data, len), data, len);

	if (id)
		*ret_id = id;
	return id != 0;
}

int string_table_add(struct string_table *t, const void *data, size_t len, uint32_t *ret_id,
		     bool *ret_new)
{
	uint32_t hash, id;
	int r;

	if (len > UINT32_MAX - 1)
		return fail(-E2BIG);
	if (!t->n_entries)
		t->seed = hash_seed();
	hash = (uint32_t)hash_seeded(t->seed, data, len);
	id = string_table_seek(t, hash, data, len);
	if (!id) {
		r = string_table_append(t, data, len, hash);
		if (r < 0)
			return trace(r);
	}
	if (ret_new)
		*ret_new = !id;
	*ret_id = id ? id : t->n_entries;
	return 0;
}
