/* lines.h - inlined calls and source lines of one address, by libdw.  Private to symbols/.
 * Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "base/table.h"
#include "symbols/elf.h"

/* The DWARF of one module: of its file, or of a separate debug file. */
struct uw_lines;
/* @elf: the image of the module; @path: its path for the target.  Without DWARF the result is empty.
 * -ENOMEM. */
int uw_lines_new(const struct uw_elf *elf, const char *path, struct uw_source *source,
		 struct uw_lines **ret_lines);
struct uw_lines *uw_lines_free(struct uw_lines *lines);
size_t uw_lines_bytes(const struct uw_lines *lines);
/* See uw_module_lines().  After -ENOMEM @lines must be freed. */
int uw_lines_at(struct uw_lines *lines, uint64_t vaddr,
		void (*add)(void *arg, const struct uw_line *line), void *arg);

/* See uw_module_lines_span(). */
bool uw_lines_span(struct uw_lines *lines, uint64_t vaddr, struct uw_span *ret_span);

/* The function and the inlined calls at an address of a compilation unit. */
enum { UW_CALLS_MAX = 64 };
struct uw_calls {
	struct table units; /* offset of a unit's DIE -> struct uw_unit_calls * */
	size_t n_ranges;    /* of all units */
};
void uw_calls_deinit(struct uw_calls *calls);
/* The DIEs that hold @address, outermost first: the function, then inlined calls.  0: none. */
size_t uw_calls_find(struct uw_calls *calls, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address,
		     Dwarf_Die ret_dies[UW_CALLS_MAX]);
