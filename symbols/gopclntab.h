/* gopclntab.h - names out of .gopclntab, the table that the runtime of Go reads.  Private to
 * symbols/.  Thread: loader. */
#pragma once

#include "symbols/elf.h"
#include "symbols/symbols.h"

enum {
	GOPCLNTAB_MAX = 128 << 20,
	GO_1_2 = 0xfb,
	GO_1_16 = 0xfa,
	GO_1_18 = 0xf0,
	GO_1_20 = 0xf1,
};

/* The table and its parts, as gopclntab.c describes them. */
struct gopclntab {
	const uint8_t *data;
	size_t len;
	uint64_t vaddr; /* of the table */
	uint8_t version;
	uint64_t n, text, names, list;
	uint64_t units, files, values; /* 1.18 on: file numbers, file names, values by pc */
};
/* Fills in what follows data, len and vaddr.  false: not a table of a known version. */
bool gopclntab_header(struct gopclntab *table);
/* Little-endian, @size of 1 to 8. */
bool gopclntab_read(const struct gopclntab *table, uint64_t at, size_t size, uint64_t *ret);
/* Entry @i of the list.  The one behind the last has the end of the last function. */
bool gopclntab_entry(const struct gopclntab *table, uint64_t i, uint64_t *ret_pc,
		     uint64_t *ret_entry);

/* Adds all functions of a Go program; nothing for other images, or where the table is damaged.
 * -ENOMEM. */
int uw_gopclntab_add(struct uw_symbols_builder *b, const struct uw_elf *elf);
