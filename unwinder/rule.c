/* rule.c - see rule.h.
 *
 * A full set drops any of its four entries: with 64 K entries and the 4 to 18 thousand addresses
 * that programs were seen to have, full sets are rare, and ages would cost a write a hit. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "unwinder/rule.h"

enum {
	RULE_CACHE_BYTES = RULE_CACHE_ENTRIES * (int)sizeof(struct rule_entry),
	HUGE_PAGE = 2 << 20,
};

/* Lookups fall all over the memory: in pages of 4 KB most would miss the TLB, too.  The mapping is
 * one page too long so that a whole aligned one is in it; the rest is given back. */
int rule_caches_init(struct rule_cache *const caches[], size_t n)
{
	size_t size = (n * RULE_CACHE_BYTES + HUGE_PAGE - 1) & ~((size_t)HUGE_PAGE - 1);
	uint8_t *map = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t skip;

	if (map == MAP_FAILED)
		return fail(-ENOMEM);
	skip = (0 - (uintptr_t)map) & (HUGE_PAGE - 1);
	if (skip)
		(void)munmap(map, skip);
	(void)munmap(map + skip + size, HUGE_PAGE - skip);
	(void)madvise(map + skip, size, MADV_HUGEPAGE); /* small pages do as well, only slower */
	(void)madvise(map + skip, size, MADV_DONTFORK); /* helper processes do without */
	for (size_t i = 0; i < n; i++) {
		caches[i]->entries = (void *)(map + skip + i * RULE_CACHE_BYTES);
		caches[i]->victim = 0;
		rule_cache_clear(caches[i]);
	}
	return 0;
}

void rule_caches_deinit(struct rule_cache *first, size_t n)
{
	if (first->entries)
		(void)munmap(first->entries,
			     (n * RULE_CACHE_BYTES + HUGE_PAGE - 1) & ~((size_t)HUGE_PAGE - 1));
	first->entries = NULL;
}

void rule_cache_clear(struct rule_cache *cache)
{
	memset(cache->entries, 0xff, RULE_CACHE_BYTES);
}

void rule_cache_add(struct rule_cache *cache, const struct rule_key *key, uint64_t address,
		    rule_t rule)
{
	size_t place = rule_cache_place(key, address);
	struct rule_entry *entry = NULL;

	for (size_t way = 0; !entry && way < 4; way++)
		if (rule_entry_is_empty(&cache->entries[place ^ way]))
			entry = &cache->entries[place ^ way];
	if (!entry)
		entry = &cache->entries[place ^ (cache->victim++ & 3)];
	entry->address = address | key->low;
	entry->rule = (rule & RULE_MASK) | key->high << RULE_BITS;
}

void rule_cache_put(struct rule_cache *cache, const struct rule_key *key, uint64_t address,
		    rule_t rule)
{
	struct rule_entry *entry = rule_cache_find(cache, key, address);

	if (entry)
		entry->rule = (rule & RULE_MASK) | key->high << RULE_BITS;
	else
		rule_cache_add(cache, key, address, rule);
}
