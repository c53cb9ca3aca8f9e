/* jit-index.h - the code of a JIT compiler by address and time, with names and lines.  Private to symbols/.  Thread: built
 * by the loader; then immutable and read by main.
 *
 *   codes   by start; some share addresses: memory of code that was freed is used again
 *   reach   of each entry: the highest end of it and the entries before it, so a search knows when nothing more can cover an
 *           address
 *   lines   of each code a part, by address; their file is a text of the pool, as names are */
#pragma once

#include "symbols/module.h"

struct packer;
struct cursor;

struct jit_code {
	uint64_t start, time; /* time: CLOCK_MONOTONIC ns, from when on it is there; 0: not known */
	uint32_t size, order; /* order: of two at one time the higher one is later */
	uint32_t name;	      /* in the pool */
	uint32_t lines, n_lines; /* in lines */
	uint32_t unused;
};
struct jit_line {
	uint32_t at, line, file; /* at: bytes from the start of the code, from where on it holds */
};

struct jit_index {
	struct jit_code *codes;
	uint64_t *reach;
	size_t n;
	struct jit_line *lines;
	size_t n_lines;
	char *pool;
	size_t pool_len;
	bool overlaps; /* some codes share addresses */
	uint64_t
		until; /* CLOCK_MONOTONIC ns: later code may be written already; UINT64_MAX: it is all here */
};

/* The kind of JIT code, by its name. */
enum frame_kind jit_kind_of_name(const char *name, size_t len);

/* Copies the arrays, and sorts the codes.  Each code has a size, and a name and lines that are there.  -ENOMEM. */
int jit_index_new(const struct jit_index *from, struct jit_index **ret_index);
struct jit_index *jit_index_free(struct jit_index *index);
size_t jit_index_bytes(const struct jit_index *index);
/* The code that was at @address at @time (CLOCK_MONOTONIC ns; UINT64_MAX: now): the latest one, or if it was made known
 * after its first call, the first one.  false: none. */
bool jit_index_find(const struct jit_index *index, uint64_t address, uint64_t time,
		    struct uw_symbol *ret_symbol);
/* As bytes for another process of ours, and back: checked as foreign bytes.  -EBADMSG, -ENOMEM. */
void jit_index_pack(const struct jit_index *index, struct packer *to);
int jit_index_unpack(struct cursor *from, struct jit_index **ret_index);
