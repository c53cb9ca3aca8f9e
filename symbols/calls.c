/* calls.c - see calls.h.
 *
 * dwarf_getscopes() walks every DIE of a unit, types and all.  walk() looks only into DIEs that can
 * hold code and that hold the address, and gives up after a bounded number: 100 us in a large unit.
 * A profile asks for many addresses of few units, so from the second function on, the ranges of a
 * unit are laid out flat, once; before, those of the first function alone:
 *
 *   low   high  parent          function            [ 10        40 )
 *   10    40    -               inlined, two parts      [ 12 20 ) [ 30 36 )
 *   12    20    0               inlined in it               [ 14 16 )
 *   14    16    1
 *   30    36    0               address 31: the last that begins at or below is [30, 36);
 *                               its parents follow
 *
 * Ranges of sound files nest.  In other files a parent is the range that was open where a range
 * began; each parent is checked to hold the address before it is used. */
#include <dwarf.h>
#include <string.h>

#include "base/error.h"
#include "symbols/calls.h"

enum {
	DEPTH_MAX = 256,
	DIES_MAX = 1 << 20,
	RANGES_MAX = 1 << 19, /* of all units: 16 MiB */
};
#define NO_PARENT UINT32_MAX

struct range {
	uint64_t low, high;
	Dwarf_Off die;
	uint32_t order; /* of the walk: enclosing DIEs come first; later: index of the parent */
};

struct uw_unit_calls {
	struct range *ranges; /* by low, then the longer, then the outer */
	size_t n, room;
	Dwarf_Off first;   /* the function of the first question; 0: none was found */
	bool part;	   /* ranges of that function alone */
	bool flat, failed; /* of the whole unit */
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

/* ---- DIEs that may hold code ---- */

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
	if (unit->n == unit->room &&
	    (unit->room * 2 > RANGES_MAX || !array_grow(unit->ranges, unit->room, 256)))
		return false;
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
		/* A call without code is a declaration, or the origin of instances. */
		if (holds == HOLDS_NOTHING || (holds == IS_CALL && !add_call(unit, &die)))
			continue;
		flatten_children(unit, &die, in_function || holds == IS_CALL, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static int by_place(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return ascend(a->low, b->low) ?: ascend(b->high, a->high) ?: ascend(a->order, b->order);
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

static void drop_ranges(struct uw_unit_calls *unit)
{
	free(unit->ranges);
	unit->ranges = NULL;
	unit->n = unit->room = 0;
}

static void sort_ranges(struct uw_unit_calls *unit)
{
	if (unit->n)
		qsort(unit->ranges, unit->n, sizeof(*unit->ranges), by_place);
	find_parents(unit->ranges, unit->n);
}

static void flatten(struct uw_calls *calls, struct uw_unit_calls *unit, Dwarf_Die *cu)
{
	drop_ranges(unit);
	unit->part = false;
	unit->flat = true;
	unit->dies_left = DIES_MAX;
	flatten_children(unit, cu, false, 0);
	if (unit->failed || calls->n_ranges + unit->n > RANGES_MAX) {
		unit->failed = true;
		drop_ranges(unit);
		return;
	}
	calls->n_ranges += unit->n;
	sort_ranges(unit);
}

/* Most units of a second recording have one address that the first one did not look up. */
static void flatten_first(struct uw_unit_calls *unit, Dwarf *dwarf)
{
	Dwarf_Die function;

	if (!unit->first || unit->part || !dwarf_offdie(dwarf, unit->first, &function))
		return;
	unit->dies_left = DIES_MAX;
	if (add_call(unit, &function))
		flatten_children(unit, &function, true, 0);
	unit->part = !unit->failed;
	unit->first = 0;
	unit->failed = false;
	if (unit->part)
		sort_ranges(unit);
	else
		drop_ranges(unit);
}

static size_t look_up(const struct uw_unit_calls *unit, Dwarf *dwarf, uint64_t address,
		      Dwarf_Die *ret_dies)
{
	size_t low = bisect(i, unit->n, unit->ranges[i].low <= address), n = 0;
	Dwarf_Off inner_first[UW_CALLS_MAX];

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

/* A call is inlined only where there is an inlined_subroutine.  Other functions that hold the same
 * address are aliases (gas writes a subprogram for each name of a function) or enclose the function
 * in the source: only the innermost one is kept. */
static size_t drop_outer_functions(Dwarf_Die *dies, size_t n)
{
	size_t function = n;

	while (function > 0 && dwarf_tag(&dies[function - 1]) != DW_TAG_subprogram)
		function--;
	if (function <= 1)
		return n;
	memmove(dies, dies + function - 1, (n - function + 1) * sizeof(*dies));
	return n - function + 1;
}

size_t uw_calls_find(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		     Dwarf_Die ret_dies[UW_CALLS_MAX])
{
	struct search s = {.address = address, .calls = ret_dies, .dies_left = DIES_MAX};
	bool new;
	struct uw_unit_calls *unit = unit_of(calls, dwarf_dieoffset(cu), &new);
	size_t n = unit && unit->part ? look_up(unit, dwarf, address, ret_dies) : 0;

	if (n)
		return drop_outer_functions(ret_dies, n);
	if (unit && !new && !unit->flat)
		flatten(calls, unit, cu);
	if (unit && unit->flat && !unit->failed)
		return drop_outer_functions(ret_dies, look_up(unit, dwarf, address, ret_dies));
	if (!walk(&s, cu, 0) || !s.n)
		return 0;
	if (unit && !unit->flat)
		unit->first = dwarf_dieoffset(&ret_dies[0]);
	return drop_outer_functions(ret_dies, s.n);
}

/* Between the ranges that begin or end next to @address, and the outermost function that holds it. */
static struct uw_span between_ranges(const struct uw_unit_calls *unit, uint64_t address)
{
	struct uw_span span = {.high = UINT64_MAX};
	size_t low = bisect(i, unit->n, unit->ranges[i].low <= address);

	if (low < unit->n)
		span.high = unit->ranges[low].low;
	if (low)
		span.low = unit->ranges[low - 1].low;
	for (uint32_t i = low ? (uint32_t)low - 1 : NO_PARENT; i != NO_PARENT;
	     i = unit->ranges[i].order) {
		const struct range *r = &unit->ranges[i];

		if (address >= r->high) {
			span.low = max_u64(span.low, r->high);
			continue;
		}
		span.high = min_u64(span.high, r->high);
		span.function_low = r->low;
		span.function_high = r->high;
	}
	return span;
}

bool uw_calls_span(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		   struct uw_span *ret_span)
{
	bool new;
	struct uw_unit_calls *unit = unit_of(calls, dwarf_dieoffset(cu), &new);

	if (!unit)
		return false;
	if (!unit->flat)
		flatten_first(unit, dwarf);
	if (unit->part) {
		*ret_span = between_ranges(unit, address);
		if (ret_span->function_high)
			return true;
	}
	if (!unit->flat)
		flatten(calls, unit, cu);
	*ret_span = between_ranges(unit, address);
	return !unit->failed;
}
