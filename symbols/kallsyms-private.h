/* kallsyms-private.h - the inside of the kernel's symbols; shared by kallsyms*.c only. */
#pragma once

#include "base/bytes.h"
#include "symbols/names.h"

enum { KALLSYMS_NAME_MAX = 511 }; /* KSYM_NAME_LEN - 1, Linux 6.1 */

struct kallsyms_copy;

struct symbol {
	uint64_t start;
	uint32_t name;
	uint32_t order; /* in the text; the top bit set for local and weak names */
};

struct extra {
	uint64_t start;
	uint32_t len;
	char *name;
};

struct uw_kallsyms {
	struct buffer symbols, names;
	size_t n;
	struct kallsyms_copy *copy; /* not NULL: all symbols are in its parts */
	uint64_t by;		    /* how far they are moved */
	struct extra *extras;	    /* sorted, not overlapping */
	size_t n_extras, room;
	bool zeros;
	/* while reading */
	bool core;	 /* without what modules have */
	bool nuls;	 /* there are some in what is being read */
	uint64_t text;	 /* of _text; 0: not met */
	size_t n_sorted; /* the first so many ascend */
	uint64_t last;
	char high[8]; /* the first digits of the line before, and what they are */
	uint64_t high_is;
};

static inline struct symbol *kallsyms_symbols(const struct uw_kallsyms *ks)
{
	return (struct symbol *)(void *)ks->symbols.data;
}

static inline void kallsyms_freep(struct uw_kallsyms **ks)
{
	uw_kallsyms_free(*ks);
}

/* ---- kallsyms-read.c ---- */

/* The whole text; with @core without what modules have. */
int kallsyms_read(int fd, bool core, struct uw_kallsyms **ret_kallsyms);
/* What a file says from @from to @to, without what modules have. */
int kallsyms_read_part(int fd, uint64_t from, uint64_t to, struct uw_kallsyms **ret_kallsyms);
/* A line's address and whether a symbol of the text is told there; false: it is no line. */
bool kallsyms_read_head(const char *line, const char *end, uint64_t *ret_address, bool *ret_text);

/* ---- kallsyms-copy.c: the text in a file, of which only the parts are parsed that are asked for ---- */

enum { KALLSYMS_WHOLE = 1 };
/* 0; KALLSYMS_WHOLE: it has to be read as a whole.  Keeps a descriptor of its own. */
int kallsyms_copy_new(int fd, struct kallsyms_copy **ret_copy);
struct kallsyms_copy *kallsyms_copy_free(struct kallsyms_copy *copy);
/* The symbols of the part that the address lies in; NULL: it cannot be read. */
const struct uw_kallsyms *kallsyms_copy_part(struct kallsyms_copy *copy, uint64_t address);
/* Where _text is, and the first and the last symbol. */
uint64_t kallsyms_copy_text(const struct kallsyms_copy *copy);
void kallsyms_copy_range(const struct kallsyms_copy *copy, uint64_t *ret_first, uint64_t *ret_last);
