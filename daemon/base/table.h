/* table.h - hash tables: 64-bit key to 64-bit value, and bytes to small id.  Thread: the owner's
 * only.
 *
 * Open addressing with linear probing, a power of two of slots, at most 2/3 full, deletion by
 * shifting back (no tombstones).  A value may be a pointer cast by the caller: the table owns
 * nothing it holds. */
#pragma once

#include "daemon/base/util.h"

struct table_slot {
	uint64_t key, value;
	bool used;
};

struct table {
	struct table_slot *slots;
	size_t n_slots, n_used;
};

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

/* Strings (or any bytes) numbered from 1 in order of arrival.  The table keeps a copy of each. */
struct string_table {
	struct table by_hash; /* hash -> first id; the ids of one hash chain by `next` */
	struct string_entry {
		char *data; /* with a NUL behind */
		uint32_t len, next;
	} * entries;
	uint32_t n_entries, room;
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
