/* plt.h - names for the stubs of the procedure linkage table.  Private to unwinder/.  Thread:
 * loader. */
#pragma once

#include "symbols/elf.h"
#include "symbols/symbols.h"

/* Adds "name@plt" for each stub of .plt, .plt.sec and .plt.got (x86-64).  Section @dynsym has
 * @symbols, which are named by @strings.  -ENOMEM. */
int uw_plt_add(struct uw_symbols_builder *b, const struct uw_elf *elf, size_t dynsym,
	       const struct uw_section *symbols, const struct uw_section *strings);
