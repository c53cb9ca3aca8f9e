/* cxx-names.h - names of the functions of DWARF.  Private to symbols/.  Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "base/table.h"

struct uw_names {
	struct table names;    /* where a declaration of a function or type lies -> char * */
	struct table children; /* where a DIE lies -> struct uw_children * */
	const void **list;     /* of the DIE in hand */
	size_t n, room, bytes;
	uint64_t looked; /* bytes of DIEs, of all names */
};
void uw_names_deinit(struct uw_names *names);
/* Writes the name of the function @die, an inlined one too: of C++ as the demangler would write it.  "": it has none. */
void uw_names_get(struct uw_names *names, Dwarf_Die *die, char *to, size_t size);

/* ---- for cxx-*.c ---- */

/* Where one of g++'s names of an integer type begins in @text at @at: its length, and the demangler's name.  0: none does. */
size_t uw_cxx_integer_at(const char *text, const char *at, const char **ret_name);
/* What a type adds to the one that it is of: "*", " const".  NULL: it stands for itself. */
const char *uw_cxx_modifier(Dwarf_Die *die);
