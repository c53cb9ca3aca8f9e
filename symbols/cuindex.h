/* cuindex.h - which compilation unit holds an address, for files without .debug_aranges.
 * Private to unwinder/.  Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "base/util.h"

struct uw_cu_index {
	struct uw_cu_range *ranges; /* sorted by low */
	size_t n, room;
	bool built;
};

void uw_cu_index_deinit(struct uw_cu_index *index);
/* Built at the first question.  false: no unit says that it holds @address. */
bool uw_cu_index_find(struct uw_cu_index *index, Dwarf *dwarf, uint64_t address, Dwarf_Die *ret_cu);
