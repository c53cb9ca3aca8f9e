/* calls.c - see calls.h.
 *
 * dwarf_getscopes() walks every DIE of a unit, types and all.  walk() looks only into what can hold
 * code, into what holds the address, and gives up after a bounded number: 100 us in a large unit.
 * A profile asks for many addresses of few units, so from the second question on a unit's ranges
 * are laid out flat, once:
 *
 *   low   high  parent          function            [ 10        40 )
 *   10    40    -               inlined, two parts      [ 12 20 ) [ 30 36 )
 *   12    20    0               inlined in it               [ 14 16 )
 *   14    16    1
 *   30    36    0               address 31: the last that begins at or below is [30, 36), its
 * parents follow
 *
 * Ranges of sound files nest.  In others a parent is whatever was open where a range began; each is
 * checked to hold the address before it is believed. */
#include "symbols/calls.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/util.h"

enum {
	DEPTH_MAX = 256,
	DIES_MAX = 1 << 20,
	RANGES_MAX = 1 << 19, /* of all units: 16 MiB */
};
#define NO_PARENT UINT32_MAX

struct range {
	uint64_t low, high;
	Dwarf_Off die;
	uint32_t order; /* of the walk: what encloses comes first; then: index of the parent */
};

struct uw_unit_calls {
	struct range *ranges; /* by low, then the longer, then the outer */
	size_t n, room;
	bool flat, failed;
	unsigned dies_left;
};

static void unit_free(struct uw_unit_calls *unit)
{
	free(unit->ranges);
	free(unit);
}

void uw_calls_deinit(struct uw_calls *calls)
{
	table_for_each (&calls->units, slot) {
		unit_free((struct uw_unit_calls *)(uintptr_t)slot->value);
	}
	table_deinit(&calls->units);
	calls->n_ranges = 0;
}

/* ---- what to look into ---- */

enum holds { HOLDS_NOTHING, HOLDS_FUNCTIONS, HOLDS_CODE, IS_CALL };

static enum holds what_holds(Dwarf_Die *die, bool in_function)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
		return IS_CALL;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return in_function ? HOLDS_CODE : HOLDS_NOTHING;
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_structure_type: /* Rust and clang put methods there */
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return in_function ? HOLDS_NOTHING : HOLDS_FUNCTIONS;
	default:
		return HOLDS_NOTHING;
	}
}

/* ---- one address ---- */

struct search {
	Dwarf_Addr address;
	Dwarf_Die *calls;
	size_t n;
	unsigned dies_left;
};

/* Ends after the first branch that holds the address. */
static bool walk(struct search *s, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return false;
	do {
		enum holds holds = what_holds(&die, s->n > 0);

		if (!s->dies_left--) {
			s->dies_left = 0;
			return s->n > 0;
		}
		if (holds == HOLDS_NOTHING)
			continue;
		if (holds == HOLDS_FUNCTIONS) {
			if (walk(s, &die, depth + 1))
				return true;
			continue;
		}
		if (dwarf_haspc(&die, s->address) <= 0)
			continue;
		if (holds == IS_CALL && s->n < UW_CALLS_MAX)
			s->calls[s->n++] = die;
		(void)walk(s, &die, depth + 1);
		return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* ---- all of a unit ---- */

static bool add_range(struct uw_unit_calls *unit, uint64_t low, uint64_t high, Dwarf_Off die)
{
	if (low >= high || !low) /* address 0: code that the linker threw away */
		return true;
	if (unit->n == unit->room) {
		size_t room = unit->room ? unit->room * 2 : 256;
		struct range *more = reallocarray(unit->ranges, room, sizeof(*more));

		if (!more || room > RANGES_MAX) {
			unit->ranges = more ? more : unit->ranges;
			return false;
		}
		unit->ranges = more;
		unit->room = room;
	}
	unit->ranges[unit->n] = (struct range){low, high, die, (uint32_t)unit->n};
	unit->n++;
	return true;
}

/* Its ranges; true: it has some. */
static bool add_call(struct uw_unit_calls *unit, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t step = 0;
	size_t before = unit->n;

	while ((step = dwarf_ranges(die, step, &base, &low, &high)) > 0) {
		if (!add_range(unit, low, high, dwarf_dieoffset(die))) {
			unit->failed = true;
			return false;
		}
	}
	return unit->n > before;
}

static void flatten_children(struct uw_unit_calls *unit, Dwarf_Die *parent, bool in_function,
			     unsigned depth)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		enum holds holds = what_holds(&die, in_function);

		if (!unit->dies_left--) {
			unit->dies_left = 0;
			unit->failed = true;
		}
		if (unit->failed)
			return;
		/* A call without code is a declaration, or what others are instances of. */
		if (holds == HOLDS_NOTHING || (holds == IS_CALL && !add_call(unit, &die)))
			continue;
		flatten_children(unit, &die, in_function || holds == IS_CALL, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static int by_place(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	if (a->high != b->high)
		return a->high > b->high ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static void find_parents(struct range *ranges, size_t n)
{
	uint32_t open = NO_PARENT;

	for (size_t i = 0; i < n; i++) {
		while (open != NO_PARENT && ranges[open].high <= ranges[i].low)
			open = ranges[open].order;
		ranges[i].order = open;
		open = (uint32_t)i;
	}
}

static void flatten(struct uw_calls *calls, struct uw_unit_calls *unit, Dwarf_Die *cu)
{
	unit->flat = true;
	unit->dies_left = DIES_MAX;
	flatten_children(unit, cu, false, 0);
	if (unit->failed || calls->n_ranges + unit->n > RANGES_MAX) {
		unit->failed = true;
		free(unit->ranges);
		unit->ranges = NULL;
		unit->n = unit->room = 0;
		return;
	}
	calls->n_ranges += unit->n;
	if (unit->n)
		qsort(unit->ranges, unit->n, sizeof(*unit->ranges), by_place);
	find_parents(unit->ranges, unit->n);
}

static size_t look_up(const struct uw_unit_calls *unit, Dwarf *dwarf, uint64_t address,
		      Dwarf_Die *ret_dies)
{
	size_t low = 0, high = unit->n, n = 0;
	Dwarf_Off inner_first[UW_CALLS_MAX];

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (unit->ranges[mid].low <= address)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t i = low ? (uint32_t)low - 1 : NO_PARENT; i != NO_PARENT && n < UW_CALLS_MAX;
	     i = unit->ranges[i].order)
		if (address < unit->ranges[i].high)
			inner_first[n++] = unit->ranges[i].die;
	for (size_t i = 0; i < n; i++)
		if (!dwarf_offdie(dwarf, inner_first[n - 1 - i], &ret_dies[i]))
			return 0;
	return n;
}

static struct uw_unit_calls *unit_of(struct uw_calls *calls, Dwarf_Off offset, bool *ret_new)
{
	struct uw_unit_calls *unit = table_pointer(&calls->units, offset);

	*ret_new = !unit;
	if (unit)
		return unit;
	unit = calloc(1, sizeof(*unit));
	if (unit && table_put(&calls->units, offset, (uintptr_t)unit) < 0) {
		free(unit);
		unit = NULL;
	}
	return unit;
}

size_t uw_calls_find(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		     Dwarf_Die ret_dies[UW_CALLS_MAX])
{
	struct search s = {.address = address, .calls = ret_dies, .dies_left = DIES_MAX};
	bool new;
	struct uw_unit_calls *unit = unit_of(calls, dwarf_dieoffset(cu), &new);

	if (unit && !new && !unit->flat)
		flatten(calls, unit, cu);
	if (unit && unit->flat && !unit->failed)
		return look_up(unit, dwarf, address, ret_dies);
	return walk(&s, cu, 0) ? s.n : 0;
}
