/* cuindex.c - see cuindex.h.  Units do not overlap in sound files; in others the nearest below
 * wins. */
#include <dwarf.h>

#include "symbols/cuindex.h"

enum { RANGES_MAX = 1 << 20, UNITS_MAX = 1 << 18 };

struct uw_cu_range {
	uint64_t low, high;
	Dwarf_Off die;
};

void uw_cu_index_deinit(struct uw_cu_index *index)
{
	free(index->ranges);
	*index = (struct uw_cu_index){0};
}

static bool add_range(struct uw_cu_index *index, uint64_t low, uint64_t high, Dwarf_Off die)
{
	if (low >= high || !low) /* address 0: code that the linker threw away */
		return true;
	if (index->n == index->room) {
		size_t room = index->room ? index->room * 2 : 256;
		struct uw_cu_range *more;

		if (room > RANGES_MAX)
			return false;
		more = reallocarray(index->ranges, room, sizeof(*more));
		if (!more)
			return false;
		index->ranges = more;
		index->room = room;
	}
	index->ranges[index->n++] = (struct uw_cu_range){low, high, die};
	return true;
}

static int by_low(const void *left, const void *right)
{
	const struct uw_cu_range *a = left, *b = right;

	return a->low < b->low ? -1 : a->low > b->low;
}

/* What cannot be had is left out: some lines are better than none. */
static void build(struct uw_cu_index *index, Dwarf *dwarf)
{
	Dwarf_Off at = 0, next;
	size_t header;

	index->built = true;
	for (unsigned i = 0;
	     i < UNITS_MAX && dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0; i++) {
		Dwarf_Addr base, low, high;
		ptrdiff_t step = 0;
		Dwarf_Die cu;

		if (dwarf_offdie(dwarf, at + header, &cu) && dwarf_tag(&cu) == DW_TAG_compile_unit)
			while ((step = dwarf_ranges(&cu, step, &base, &low, &high)) > 0)
				if (!add_range(index, low, high, at + header))
					break;
		at = next;
	}
	if (index->n)
		qsort(index->ranges, index->n, sizeof(*index->ranges), by_low);
}

bool uw_cu_index_find(struct uw_cu_index *index, Dwarf *dwarf, uint64_t address, Dwarf_Die *ret_cu)
{
	size_t low = 0, high;

	if (!index->built)
		build(index, dwarf);
	for (high = index->n; low < high;) {
		size_t mid = low + (high - low) / 2;

		if (index->ranges[mid].low <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low && address < index->ranges[low - 1].high &&
	       dwarf_offdie(dwarf, index->ranges[low - 1].die, ret_cu);
}
