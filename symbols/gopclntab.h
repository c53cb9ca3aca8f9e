/* gopclntab.h - names out of .gopclntab, the table that the runtime of Go reads.  Private to
 * symbols/.  Thread: loader. */
#pragma once

#include "symbols/elf.h"
#include "symbols/symbols.h"

/* Adds all functions of a Go program; nothing for other images, or where the table is damaged.
 * -ENOMEM. */
int uw_gopclntab_add(struct uw_symbols_builder *b, const struct uw_elf *elf);
