/* calls.h - the function and the inlined calls at an address of a compilation unit.  Private to symbols/.
 * Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "base/table.h"
#include "symbols/module.h"

enum { UW_CALLS_MAX = 64 };
struct uw_calls {
	struct table units; /* offset of a unit's DIE -> struct uw_unit_calls * */
	size_t n_ranges;    /* of all units */
};
void uw_calls_deinit(struct uw_calls *calls);
/* The DIEs that hold @address, outermost first: the function, then inlined calls.  0: none. */
size_t uw_calls_find(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		     Dwarf_Die ret_dies[UW_CALLS_MAX]);
/* Addresses around @address with the same calls.  Without a function there function_high is 0.  false: not known. */
bool uw_calls_span(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		   struct uw_span *ret_span);
