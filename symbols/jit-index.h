/* jit-index.h - the code of a JIT compiler by address and time, with names and lines (jitdump.c).  Private to symbols/.  Thread: built by
 * the loader; main appends and looks up. */
#pragma once

#include "symbols/module.h"

struct packer;
struct cursor;

/* Arrays of symbols, of @n elements: of base/unshared.h, never NULL where there is memory.  Unpacking checks that the length is a
 * multiple of @size. */
void *uw_block_new(size_t n, size_t size);
void uw_block_free(void *data, size_t n, size_t size);
int uw_block_unpack(struct cursor *from, size_t size, void **ret_data, size_t *ret_n);

/* The most of a dump that is kept. */
enum { JIT_CODES_MAX = 1 << 20, JIT_LINES_MAX = 1 << 21, JIT_POOL_MAX = 64 << 20 };
enum { JIT_PARTS_MAX = 24 };

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
struct jit_part {
	struct uw_extent first, end; /* of the dump */
	struct jit_code *codes;
	uint64_t *reach;
	size_t n;
	struct jit_line *lines;
	size_t n_lines;
	char *pool;
	size_t pool_len;
	uint64_t *changes;
	size_t n_changes;
	uint64_t newest; /* the last time in it and in the parts before it */
};
struct jit_index {
	struct jit_part parts[JIT_PARTS_MAX];
	size_t n_parts;
	bool overlaps; /* some codes share addresses */
	bool timeless; /* the times are of a clock that nothing else has: all are 0 */
	uint64_t
		until; /* CLOCK_MONOTONIC ns: later code may be written already; UINT64_MAX: it is all here */
};

/* The kind of JIT code, by its name. */
enum frame_kind jit_kind_of_name(const char *name, size_t len);

/* Of one reading: copies the arrays of @from, and sorts the codes.  Each code has a size, and a name and lines that are there, in
 * @from or before it.  -ENOMEM. */
int jit_index_new(const struct jit_part *from, struct jit_index **ret_index);
struct jit_index *jit_index_free(struct jit_index *index);
size_t jit_index_bytes(const struct jit_index *index);
/* Does it begin with the dump?  Else a search finds nothing. */
bool jit_index_is_whole(const struct jit_index *index);
/* Moves the part of @more, of a later reading, to @index.  -EBADMSG: it does not continue that; -ENOMEM. */
int jit_index_append(struct jit_index *index, struct jit_index *more);
/* The code that was at @address at @time (CLOCK_MONOTONIC ns; UINT64_MAX: now): the latest one, or if it was made known
 * after its first call, the first one.  false: none. */
bool jit_index_find(const struct jit_index *index, uint64_t address, uint64_t time,
		    struct uw_symbol *ret_symbol);
/* uw_module_code_lasts(), with 0 and UINT64_MAX there before. */
void jit_index_last(const struct jit_index *index, uint64_t time, uint64_t *ret_since,
		    uint64_t *ret_until);

/* As bytes for another process of ours, and back: checked as foreign bytes.  -EBADMSG, -ENOMEM.  Of one reading. */
void jit_index_pack(const struct jit_index *index, struct packer *to);
int jit_index_unpack(struct cursor *from, struct jit_index **ret_index);
