/* table.h - hash tables: 64-bit key to 64-bit value, bytes to small id, and an index of entries that
 * the owner keeps.  Thread: the owner's only.
 *
 * Keys come from files and processes of other users, so each table hashes with the process's seed:
 * keys that all fall into one slot cannot be prepared.
 *
 * Open addressing with linear probing, a power of two of slots, at most 2/3 full, deletion by
 * shifting back (no tombstones).  A value may be a pointer cast by the caller: the table owns
 * nothing it holds. */
#pragma once

#include "base/util.h"

struct table_slot {
	uint64_t key, value;
	bool used;
};

struct table {
	struct table_slot *slots;
	size_t n_slots, n_used;
	uint64_t seed;
	bool unshared; /* large slots as in unshared.h; the owner's, before the first entry */
};

/* Largest number of bytes an entry: half of the slots were just added and the old ones still exist.
 */
enum { TABLE_ENTRY_BYTES = 9 * sizeof(struct table_slot) / 2 };

void table_deinit(struct table *t);
/* Keeps the memory, drops the entries. */
void table_clear(struct table *t);
bool table_get(const struct table *t, uint64_t key, uint64_t *ret_value);
/* Adds or replaces.  -ENOMEM. */
int table_put(struct table *t, uint64_t key, uint64_t value);
bool table_remove(struct table *t, uint64_t key);

/* The value as a pointer, NULL when there is none. */
static inline void *table_pointer(const struct table *t, uint64_t key)
{
	uint64_t v;

	return table_get(t, key, &v) ? (void *)(uintptr_t)v : NULL;
}

/* Walks the used slots; the table must not change meanwhile. */
#define table_for_each(t, slot)                                                              \
	for (struct table_slot *slot = (t)->slots; slot && slot < (t)->slots + (t)->n_slots; \
	     slot++)                                                                         \
		if (slot->used)

/* Finds entries of an array by their content: slots hold the entries' numbers, and nothing else.  The
 * owner compares, and hashes its entries again when the slots become more.  All entries 0..n_used-1
 * of the array are in the index.
 *
 *	hash_index_for_each (&x->index, hash, i)
 *		if (entry i is the one) return i;
 *	hash_index_add(&x->index, hash, hash_of, x), then append the entry */
struct hash_index {
	uint32_t *slots; /* number + 1; 0: free */
	size_t n_slots, n_used;
};

void hash_index_deinit(struct hash_index *index);
/* Adds entry number n_used.  @hash_of gives the hash of an entry before it.  -ENOMEM; -E2BIG: numbers
 * end at 2^32. */
int hash_index_add(struct hash_index *index, uint64_t hash,
		   uint64_t (*hash_of)(const void *owner, uint32_t number), const void *owner);
/* Bytes of the slots when there are @n entries: at most 11 each. */
size_t hash_index_bytes(size_t n);

static inline void hash_index_prefetch(const struct hash_index *index, uint64_t hash)
{
	if (index->n_slots)
		__builtin_prefetch(&index->slots[(size_t)hash & (index->n_slots - 1)]);
}

#define hash_index_for_each(index, hash, number_)                                                  \
	for (size_t at_ = (index)->n_slots ? (size_t)(hash) & ((index)->n_slots - 1) : 0, number_; \
	     (index)->n_slots && (number_ = (index)->slots[at_]) && number_--;                     \
	     at_ = (at_ + 1) & ((index)->n_slots - 1))

/* Strings (or any bytes) numbered from 1 in order of arrival.  The table keeps a copy of each. */
struct string_table {
	struct hash_index by_text;
	struct string_entry {
		char *data; /* with a NUL behind */
		uint32_t len, hash;
	} * entries;
	uint32_t n_entries, room;
	uint64_t seed;
};

void string_table_deinit(struct string_table *t);
/* The id of @data, made if new (then *ret_new is true; may be NULL).  -ENOMEM. */
int string_table_add(struct string_table *t, const void *data, size_t len, uint32_t *ret_id,
		     bool *ret_new);
/* Is it there? */
bool string_table_find(const struct string_table *t, const void *data, size_t len,
		       uint32_t *ret_id);
/* The text of @id (1..n_entries), borrowed until deinit. */
const char *string_table_text(const struct string_table *t, uint32_t id);

/* A hash of bytes, good enough for tables, not for enemies. */
uint64_t hash_bytes(const void *data, size_t len);
/* The same from a seed: for enemies' bytes too, where it is the process's. */
uint64_t hash_seeded(uint64_t seed, const void *data, size_t len);
/* The process's seed: from the random bytes that the kernel gives to each (AT_RANDOM). */
uint64_t hash_seed(void);
