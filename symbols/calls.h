/* calls.h - the function and the inlined calls at an address of a compilation unit.
 * Private to unwinder/.  Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "base/table.h"

enum { UW_CALLS_MAX = 64 };

struct uw_calls {
	struct table units; /* offset of a unit's DIE -> struct uw_unit_calls * */
	size_t n_ranges;    /* of all units */
};

void uw_calls_deinit(struct uw_calls *calls);
/* What holds @address, outermost first: the function, then what was inlined.  0: nothing does. */
size_t uw_calls_find(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		     Dwarf_Die ret_dies[UW_CALLS_MAX]);
