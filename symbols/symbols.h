/* symbols.h - an index of names by address. Private to symbols/. Thread: built by the loader; then
 * immutable and read by main. */
#pragma once

#include "symbols/module.h"

struct uw_elf;
struct uw_layout;

struct uw_symbols;
struct uw_symbols *uw_symbols_free(struct uw_symbols *symbols);
size_t uw_symbols_bytes(const struct uw_symbols *symbols);
bool uw_symbols_find(const struct uw_symbols *symbols, uint64_t vaddr,
		     struct uw_symbol *ret_symbol);
/* The same of code that was there at @time (uw_module_symbol_at()). */
bool uw_symbols_find_at(const struct uw_symbols *symbols, uint64_t vaddr, uint64_t time,
			struct uw_symbol *ret_symbol);
/* Are they of a jitdump, with times?  Has it code at addresses that other code had before? */
bool uw_symbols_have_times(const struct uw_symbols *symbols);
bool uw_symbols_overlap(const struct uw_symbols *symbols);
/* What they have of a jitdump. */
struct uw_extent uw_symbols_extent(const struct uw_symbols *symbols);
/* Are they what a reading has added only? */
bool uw_symbols_continue(const struct uw_symbols *symbols);
/* Consumes @next, and adds it where it is that, else has it replace *symbols.  -EBADMSG: it does not continue them; -ENOMEM. */
int uw_symbols_renew(struct uw_symbols **symbols, struct uw_symbols *next);
/* uw_module_symbols_until() */
uint64_t uw_symbols_until(const struct uw_symbols *symbols);
/* uw_module_symbols_timeless() */
bool uw_symbols_timeless(const struct uw_symbols *symbols);
/* uw_module_code_lasts() */
void uw_symbols_last(const struct uw_symbols *symbols, uint64_t time, uint64_t *ret_since,
		     uint64_t *ret_until);
/* Names beyond .dynsym were found. */
bool uw_symbols_full(const struct uw_symbols *symbols);

struct packer;
struct cursor;
/* As bytes for another process of ours, and back: checked as foreign bytes.  -EBADMSG, -ENOMEM. */
void uw_symbols_pack(const struct uw_symbols *symbols, struct packer *to);
int uw_symbols_unpack(struct cursor *from, struct uw_symbols **ret_symbols);

/* ---- building ---- */
/* The quality of a name.  Of several names at one address the public one is kept: that with the
 * higher flags, then a global or weak one, then that with fewer leading underscores (malloc, not
 * __libc_malloc; mmap, not __mmap; __GI_f of glibc counts as seven), then a global one, then the shorter one, then the first
 * by the alphabet (strtol, not strtoq). */
enum uw_symbol_rank {
	UW_RANK_LOCAL = 1,
	UW_RANK_WEAK = 2,
	UW_RANK_GLOBAL = 3,
	UW_RANK_BINDING = 3, /* a mask of the above */
	UW_RANK_SIZED = 4,   /* flags from here on */
	UW_RANK_FUNCTION = 8,
	UW_RANK_MADE_UP = -16, /* name@plt: only where nothing else is */
};

enum {
	UW_SYMBOLS_MAX = 4 << 20,
	UW_SYMBOL_POOL_MAX = 256 << 20,
	UW_SYMBOL_NAME_MAX = 32 << 10,
	UW_SYMBOL_TEXTS = 8,
};

struct uw_symbols_builder {
	struct uw_symbol_entry *entries;
	size_t n, room;
	char *pool; /* names with their NULs, in order of arrival */
	size_t pool_len, pool_room;
	struct uw_symbols_text {
		char *text;
		size_t len;
		uint64_t at; /* as a name: UW_SYMBOL_POOL_MAX at least */
	} texts[UW_SYMBOL_TEXTS];
	size_t n_texts;
	uint64_t texts_used; /* bytes of names in texts */
	const struct uw_layout
		*layout; /* names outside its executable segments are not taken; NULL: all are */
	bool full;
};

void uw_symbols_builder_deinit(struct uw_symbols_builder *b);
/* Takes @text (of malloc; of @len bytes): names in it are not copied.  false: it remains the caller's, and they are. */
bool uw_symbols_take_text(struct uw_symbols_builder *b, char *text, size_t len);
/* Copies the name, cut at @len. Names beyond the limits are left out. -ENOMEM. */
int uw_symbols_add_kind(struct uw_symbols_builder *b, uint64_t start, uint64_t size,
			const char *name, size_t len, int rank, enum frame_kind kind);
/* The same for FRAME_NATIVE. */
int uw_symbols_add(struct uw_symbols_builder *b, uint64_t start, uint64_t size, const char *name,
		   size_t len, int rank);
/* Sorts, keeps one name an address, packs.  The builder is empty after. */
int uw_symbols_build(struct uw_symbols_builder *b, struct uw_symbols **ret_symbols);
/* The same for text where later entries cover what they overlap of earlier ones (JIT maps). */
int uw_symbols_build_latest(struct uw_symbols_builder *b, struct uw_symbols **ret_symbols);

/* ---- sources ---- */
/* symtab.c. @path: the image's path for the target, to find the debug file next to it. */
int uw_symbols_of_elf(const struct uw_elf *elf, const struct uw_layout *layout, const char *path,
		      struct uw_source *source, struct uw_symbols **ret_symbols);
/* perfmap.c.  The text of a perf map. */
int uw_symbols_of_perf_map(int fd, struct uw_symbols **ret_symbols);
/* Names of code with times (jit-index.h), of one reading: copies the arrays. */
struct jit_part;
int uw_symbols_of_codes(const struct jit_part *from, uint64_t until, bool timeless,
			struct uw_symbols **ret_symbols);
