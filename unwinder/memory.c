/* memory.c - see memory.h. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/memory.h"

void uw_regions_deinit(struct uw_regions *regions)
{
	free(regions->list);
	*regions = (struct uw_regions){0};
}

/* The number of regions that start at or below @address. */
static size_t uw_regions_below(const struct uw_regions *regions, uint64_t address)
{
	size_t low = 0, high = regions->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (regions->list[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int uw_regions_add(struct uw_regions *regions, uint64_t start, const void *data, size_t size)
{
	size_t at = uw_regions_below(regions, start);

	if (!size || start + size < start)
		return fail(-EINVAL);
	if (at && regions->list[at - 1].start == start)
		return 0;
	if (regions->n == regions->room) {
		size_t room = regions->room ? regions->room * 2 : 16;
		struct uw_region *more = reallocarray(regions->list, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		regions->list = more;
		regions->room = room;
	}
	memmove(regions->list + at + 1, regions->list + at,
		(regions->n - at) * sizeof(*regions->list));
	regions->list[at] = (struct uw_region){start, data, size};
	regions->n++;
	return 0;
}

/* Copies what @region has of the word; false when that is nothing. */
static bool uw_region_word(const struct uw_region *region, uint64_t address, uint64_t *ret_word)
{
	uint64_t at = address - region->start, skip = 0, word = 0;

	if (at < region->size && region->size - at >= 8) {
		memcpy(ret_word, region->data + at, sizeof(*ret_word));
		return true;
	}
	if (address < region->start) {
		skip = region->start - address;
		at = 0;
	}
	if (skip >= 8 || at >= region->size)
		return false;
	memcpy((uint8_t *)&word + skip, region->data + at, min_u64(8 - skip, region->size - at));
	*ret_word = word;
	return true;
}

bool uw_regions_word(struct uw_regions *regions, uint64_t address, uint64_t *ret_word)
{
	size_t below;

	if (regions->last < regions->n && address >= regions->list[regions->last].start &&
	    uw_region_word(&regions->list[regions->last], address, ret_word))
		return true;
	below = uw_regions_below(regions, address);
	if (below && uw_region_word(&regions->list[below - 1], address, ret_word)) {
		regions->last = below - 1;
		return true;
	}
	return below < regions->n && uw_region_word(&regions->list[below], address, ret_word);
}

bool uw_view_word(struct uw_view *view, uint64_t address, uint64_t *ret_word)
{
	if (uw_stack_word(view->snapshot, address, ret_word) ||
	    uw_regions_word(view->regions, address, ret_word))
		return true;
	view->missed = true;
	view->missed_at = address;
	return false;
}
