/* rule-cache.c - see rule.h.
 *
 * Where a set is full any of its four entries may go: with 64 K entries and the 4 to 18 thousand addresses
 * that programs were seen to have, full sets are rare, and keeping ages would cost a write a hit. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "unwinder/rule.h"

enum { RULE_CACHE_BYTES = RULE_CACHE_ENTRIES * (int)sizeof(struct rule_entry) };

int rule_cache_init(struct rule_cache *cache)
{
	struct rule_entry *entries = aligned_alloc(RULE_CACHE_BYTES, RULE_CACHE_BYTES);

	if (!entries)
		return fail(-ENOMEM);
	cache->entries = entries;
	cache->victim = 0;
	rule_cache_clear(cache);
	return 0;
}

void rule_cache_deinit(struct rule_cache *cache)
{
	free(cache->entries);
	cache->entries = NULL;
}

void rule_cache_clear(struct rule_cache *cache)
{
	memset(cache->entries, 0xff, RULE_CACHE_BYTES);
}

void rule_cache_put(struct rule_cache *cache, const struct rule_key *key, uint64_t address, rule_t rule)
{
	size_t place = rule_cache_place(key, address);
	struct rule_entry *entry = rule_cache_find(cache, key, address);

	for (size_t way = 0; !entry && way < 4; way++)
		if (rule_entry_is_empty(&cache->entries[place ^ way]))
			entry = &cache->entries[place ^ way];
	if (!entry)
		entry = &cache->entries[place ^ (cache->victim++ & 3)];
	entry->address = address | key->low;
	entry->rule = (rule & RULE_MASK) | key->high << RULE_BITS;
}

void rule_cache_forget(struct rule_cache *cache, const struct rule_key *key)
{
	for (size_t i = 0; i < RULE_CACHE_ENTRIES; i++) {
		struct rule_entry *entry = &cache->entries[i];

		if (!rule_entry_is_empty(entry) && entry->address >> 48 << 48 == key->low &&
		    entry->rule >> 48 == key->high)
			memset(entry, 0xff, sizeof(*entry));
	}
}
