/* symbols.c - see symbols.h.
 *
 * The index is two blocks: entries of 16 bytes sorted by address, and the names that they kept.  A
 * lookup is a binary search between two marks, one for every few entries, as each step of it waits
 * for memory; as sized symbols may lie inside others (hand-written assembly), it steps back a few
 * entries when the nearest one ends too early.  A name of another kind than FRAME_NATIVE has the kind
 * before it, a byte below FRAME_KINDS. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf.h"
#include "symbols/jit-index.h"
#include "symbols/module.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

enum {
	NESTING_MAX = 32,
	MARKED = 8, /* entries for a mark, or more */
	AHEAD = 16, /* names are prefetched this many entries before they are copied */
};
_Static_assert(UW_SYMBOL_NAME_MAX < UINT16_MAX, "entries have 16 bits for it");
_Static_assert((int)FRAME_KINDS <= ' ', "a kind is not a character of a name");

struct entry {
	uint64_t start;
	uint32_t size; /* 0: up to the next; UINT32_MAX: that or more */
	uint32_t name;
};

struct range {
	uint64_t start, end;
};

struct uw_symbols {
	struct entry *entries;
	size_t n;
	uint32_t *
		marks; /* of 2^shift bytes each, from the first entry on: its first entry; then n */
	size_t n_marks;
	unsigned shift;
	char *pool;
	size_t pool_len;
	struct range *ranges; /* executable; none: everywhere */
	size_t n_ranges;
	struct jit_index *index; /* of a jitdump: all of it; NULL: none */
	bool full;
};

struct uw_symbol_entry { /* while building */
	uint64_t start;
	uint32_t size, name, order;
	int16_t rank;
	uint16_t len; /* of the name */
};

struct uw_symbols *uw_symbols_free(struct uw_symbols *symbols)
{
	if (!symbols)
		return NULL;
	uw_block_free(symbols->entries, symbols->n, sizeof(*symbols->entries));
	free(symbols->marks);
	uw_block_free(symbols->pool, symbols->pool_len, 1);
	uw_block_free(symbols->ranges, symbols->n_ranges, sizeof(*symbols->ranges));
	(void)jit_index_free(symbols->index);
	free(symbols);
	return NULL;
}

static void symbols_freep(struct uw_symbols **symbols)
{
	uw_symbols_free(*symbols);
}

size_t uw_symbols_bytes(const struct uw_symbols *symbols)
{
	return sizeof(*symbols) + symbols->n * sizeof(struct entry) +
	       symbols->n_marks * sizeof(*symbols->marks) + symbols->pool_len +
	       symbols->n_ranges * sizeof(struct range) +
	       (symbols->index ? jit_index_bytes(symbols->index) : 0);
}

bool uw_symbols_have_times(const struct uw_symbols *symbols)
{
	return symbols->index;
}

struct uw_extent uw_symbols_extent(const struct uw_symbols *symbols)
{
	const struct jit_index *index = symbols->index;

	return index ? index->parts[index->n_parts - 1].end : (struct uw_extent){.codes = 0};
}

bool uw_symbols_continue(const struct uw_symbols *symbols)
{
	return symbols->index && !jit_index_is_whole(symbols->index);
}

int uw_symbols_renew(struct uw_symbols **symbols, struct uw_symbols *next)
{
	struct jit_index *index = (*symbols)->index;
	int r;

	if (!uw_symbols_continue(next)) {
		(void)uw_symbols_free(*symbols);
		*symbols = next;
		return 0;
	}
	r = index ? jit_index_append(index, next->index) : fail(-EBADMSG);
	(void)uw_symbols_free(next);
	return trace(r);
}

bool uw_symbols_overlap(const struct uw_symbols *symbols)
{
	return symbols->index && symbols->index->overlaps;
}

uint64_t uw_symbols_until(const struct uw_symbols *symbols)
{
	return symbols->index ? symbols->index->until : UINT64_MAX;
}

int uw_symbols_of_codes(const struct jit_part *from, uint64_t until, bool timeless,
			struct uw_symbols **ret_symbols)
{
	_cleanup_(symbols_freep) struct uw_symbols *symbols = calloc(1, sizeof(*symbols));
	int r;

	if (!symbols)
		return fail(-ENOMEM);
	r = jit_index_new(from, &symbols->index);
	if (r < 0)
		return trace(r);
	symbols->index->until = until;
	symbols->index->timeless = timeless;
	symbols->full = true;
	*ret_symbols = take(symbols);
	return 0;
}

bool uw_symbols_full(const struct uw_symbols *symbols)
{
	return symbols->full;
}

/* ---- lookup ---- */

static const struct range *range_of(const struct uw_symbols *symbols, uint64_t vaddr)
{
	for (size_t i = 0; i < symbols->n_ranges; i++)
		if (vaddr >= symbols->ranges[i].start && vaddr < symbols->ranges[i].end)
			return &symbols->ranges[i];
	return NULL;
}

/* The size of an entry without one: up to the next symbol or the end of its segment. */
static uint64_t open_size(const struct uw_symbols *symbols, size_t i)
{
	const struct entry *e = &symbols->entries[i];
	const struct range *range = range_of(symbols, e->start);
	uint64_t end = range ? range->end : e->start;

	if (i + 1 < symbols->n && symbols->entries[i + 1].start < end)
		end = symbols->entries[i + 1].start;
	return end - e->start;
}

/* Where the first entry beyond vaddr is: *ret_low to *ret_high. */
static void between_marks(const struct uw_symbols *symbols, uint64_t vaddr, size_t *ret_low,
			  size_t *ret_high)
{
	uint64_t mark;

	*ret_low = 0;
	*ret_high = symbols->n;
	if (!symbols->n_marks || vaddr < symbols->entries[0].start)
		return;
	mark = (vaddr - symbols->entries[0].start) >> symbols->shift;
	*ret_low = symbols->marks[min_u64(mark, symbols->n_marks - 1)];
	*ret_high = symbols->marks[min_u64(mark + 1, symbols->n_marks - 1)];
}

bool uw_symbols_find(const struct uw_symbols *symbols, uint64_t vaddr, struct uw_symbol *ret_symbol)
{
	size_t low, high;

	if (symbols->index)
		return jit_index_find(symbols->index, vaddr, UINT64_MAX, ret_symbol);
	between_marks(symbols, vaddr, &low, &high);
	while (low < high) { /* the first entry beyond vaddr */
		size_t mid = low + (high - low) / 2;

		if (symbols->entries[mid].start <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i > 0 && low - i < NESTING_MAX; i--) {
		const struct entry *e = &symbols->entries[i - 1];
		uint64_t size = e->size ? e->size : open_size(symbols, i - 1);

		if (vaddr - e->start >= size)
			continue;
		*ret_symbol = (struct uw_symbol){
			.name = symbols->pool + e->name,
			.start = e->start,
			.size = size,
		};
		if ((uint8_t)*ret_symbol->name < FRAME_KINDS)
			ret_symbol->kind = (enum frame_kind) * ret_symbol->name++;
		return true;
	}
	return false;
}

bool uw_symbols_find_at(const struct uw_symbols *symbols, uint64_t vaddr, uint64_t time,
			struct uw_symbol *ret_symbol)
{
	return symbols->index ? jit_index_find(symbols->index, vaddr, time, ret_symbol)
			      : uw_symbols_find(symbols, vaddr, ret_symbol);
}

bool uw_symbols_timeless(const struct uw_symbols *symbols)
{
	return symbols->index && symbols->index->timeless;
}

void uw_symbols_last(const struct uw_symbols *symbols, uint64_t time, uint64_t *ret_since,
		     uint64_t *ret_until)
{
	*ret_since = 0;
	*ret_until = UINT64_MAX;
	if (symbols->index)
		jit_index_last(symbols->index, time, ret_since, ret_until);
}

static int make_marks(struct uw_symbols *s)
{
	uint64_t first, span;
	size_t at = 0;

	if (s->n <= MARKED)
		return 0;
	first = s->entries[0].start;
	span = s->entries[s->n - 1].start - first;
	while (span >> s->shift > s->n / MARKED)
		s->shift++;
	s->marks = reallocarray(NULL, (span >> s->shift) + 2, sizeof(*s->marks));
	if (!s->marks)
		return fail(-ENOMEM);
	s->n_marks = (span >> s->shift) + 2;
	for (size_t i = 0; i < s->n_marks; i++) {
		while (at < s->n && (s->entries[at].start - first) >> s->shift < i)
			at++;
		s->marks[i] = (uint32_t)at;
	}
	return 0;
}

/* ---- to another process ---- */

void uw_symbols_pack(const struct uw_symbols *symbols, struct packer *to)
{
	packer_u64(to, symbols->full);
	packer_block(to, symbols->entries, symbols->n * sizeof(*symbols->entries));
	packer_block(to, symbols->pool, symbols->pool_len);
	packer_block(to, symbols->ranges, symbols->n_ranges * sizeof(*symbols->ranges));
	packer_u64(to, symbols->index != NULL);
	if (symbols->index)
		jit_index_pack(symbols->index, to);
}

/* Checks the invariants of a lookup: ascending, each entry with a name, and the last name ends. */
static bool in_order(const struct uw_symbols *s)
{
	if (s->n && (!s->pool_len || s->pool[s->pool_len - 1]))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->entries[i].name >= s->pool_len || !s->pool[s->entries[i].name] ||
		    (i && s->entries[i].start <= s->entries[i - 1].start))
			return false;
	return true;
}

int uw_symbols_unpack(struct cursor *from, struct uw_symbols **ret_symbols)
{
	_cleanup_(symbols_freep) struct uw_symbols *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(-ENOMEM);
	s->full = cursor_u64(from);
	r = uw_block_unpack(from, sizeof(*s->entries), (void **)&s->entries, &s->n);
	if (r >= 0)
		r = uw_block_unpack(from, 1, (void **)&s->pool, &s->pool_len);
	if (r >= 0)
		r = uw_block_unpack(from, sizeof(*s->ranges), (void **)&s->ranges, &s->n_ranges);
	if (r < 0)
		return trace(r);
	if (s->n_ranges > UW_ELF_PHDRS_MAX || !in_order(s))
		return fail(-EBADMSG);
	r = cursor_u64(from) ? jit_index_unpack(from, &s->index) : 0;
	if (r >= 0 && from->bad)
		r = fail(-EBADMSG);
	if (r < 0)
		return trace(r);
	r = make_marks(s);
	if (r < 0)
		return trace(r);
	*ret_symbols = take(s);
	return 0;
}

/* ---- building ---- */

void uw_symbols_builder_deinit(struct uw_symbols_builder *b)
{
	free(b->entries);
	free(b->pool);
	for (size_t i = 0; i < b->n_texts; i++)
		free(b->texts[i].text);
	*b = (struct uw_symbols_builder){0};
}

static bool executable(const struct uw_layout *layout, uint64_t start)
{
	if (!layout)
		return true;
	for (size_t i = 0; i < layout->n_segments; i++) {
		const struct uw_segment *s = &layout->segments[i];

		if (s->exec && start >= s->vaddr && start - s->vaddr < s->memsz)
			return true;
	}
	return false;
}

static int pool_add(struct uw_symbols_builder *b, const char *name, size_t len)
{
	if (b->pool_room - b->pool_len < len + 1) {
		size_t room = (b->pool_room ? b->pool_room * 2 : 64 << 10) + len + 1;
		char *more = realloc(b->pool, room);

		if (!more)
			return fail(-ENOMEM);
		b->pool = more;
		b->pool_room = room;
	}
	memcpy(b->pool + b->pool_len, name, len);
	b->pool[b->pool_len + len] = 0;
	b->pool_len += len + 1;
	return 0;
}

/* ---- names that stay where they are ----
 *
 * Most of a large file's symbols have names of its string table, and half of the time went into copies of these: the first copy
 * is that of the names that are kept. */

bool uw_symbols_take_text(struct uw_symbols_builder *b, char *text, size_t len)
{
	const struct uw_symbols_text *last = b->n_texts ? &b->texts[b->n_texts - 1] : NULL;
	uint64_t at = last ? last->at + last->len : UW_SYMBOL_POOL_MAX;

	if (b->n_texts == UW_SYMBOL_TEXTS || len > UINT32_MAX - at)
		return false;
	b->texts[b->n_texts++] = (struct uw_symbols_text){text, len, at};
	return true;
}

/* As entries have it; false: it is in none of the texts. */
static bool find_in_texts(const struct uw_symbols_builder *b, const char *name, uint32_t *ret_at)
{
	for (size_t i = b->n_texts; i > 0; i--) {
		const struct uw_symbols_text *t = &b->texts[i - 1];
		uintptr_t offset = (uintptr_t)name - (uintptr_t)t->text;

		if (offset >= t->len)
			continue;
		*ret_at = (uint32_t)(t->at + offset);
		return true;
	}
	return false;
}

static const char *name_of(const struct uw_symbols_builder *b, uint32_t at)
{
	size_t i = b->n_texts;

	if (at < UW_SYMBOL_POOL_MAX)
		return b->pool + at;
	while (b->texts[i - 1].at > at)
		i--;
	return b->texts[i - 1].text + (at - b->texts[i - 1].at);
}

/* As symbols.h describes it, without the length. */
static int full_rank(int rank, const char *name)
{
	int binding = rank & UW_RANK_BINDING;
	/* __GI_f is glibc's own f for calls inside of it. */
	int underscores = !strncmp(name, "__GI_", 5) ? 7 : (int)min_u64(strspn(name, "_"), 7);

	return (rank - binding) * 16 + (binding > UW_RANK_LOCAL ? 32 : 0) + (7 - underscores) * 4 +
	       binding;
}

/* @kind: of FRAME_NATIVE none is kept. */
static int pool_add_name(struct uw_symbols_builder *b, const char *name, size_t len,
			 enum frame_kind kind)
{
	const char byte = (char)kind;
	int r = kind == FRAME_NATIVE ? 0 : pool_add(b, &byte, 1);

	if (r >= 0 && kind != FRAME_NATIVE)
		b->pool_len--; /* the NUL */
	return r < 0 ? trace(r) : pool_add(b, name, len);
}

int uw_symbols_add(struct uw_symbols_builder *b, uint64_t start, uint64_t size, const char *name,
		   size_t len, int rank)
{
	return uw_symbols_add_kind(b, start, size, name, len, rank, FRAME_NATIVE);
}

int uw_symbols_add_kind(struct uw_symbols_builder *b, uint64_t start, uint64_t size,
			const char *name, size_t len, int rank, enum frame_kind kind)
{
	size_t before = kind != FRAME_NATIVE;
	uint32_t at = (uint32_t)b->pool_len;
	int r = 0;

	if (!len || (uint8_t)*name < FRAME_KINDS || len > UW_SYMBOL_NAME_MAX ||
	    b->n >= UW_SYMBOLS_MAX || b->pool_len + b->texts_used + len >= UW_SYMBOL_POOL_MAX ||
	    !executable(b->layout, start))
		return 0;
	if (b->n == b->room && !array_grow(b->entries, b->room, 1024))
		return fail(-ENOMEM);
	if (!before && find_in_texts(b, name, &at))
		b->texts_used += len + 1;
	else
		r = pool_add_name(b, name, len, kind);
	if (r < 0)
		return trace(r);
	b->entries[b->n] = (struct uw_symbol_entry){
		.start = start,
		.size = (uint32_t)min_u64(size, UINT32_MAX),
		.name = at,
		.order = (uint32_t)b->n,
		.rank = (int16_t)full_rank(rank + (size ? UW_RANK_SIZED : 0),
					   name_of(b, at) + before),
		.len = (uint16_t)(len + before),
	};
	b->n++;
	return 0;
}

static int by_start_and_rank(const void *left, const void *right)
{
	const struct uw_symbol_entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int by_start_and_age(const void *left, const void *right)
{
	const struct uw_symbol_entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Of names that are equal in all else (strtol, strtoq) the first by the alphabet, whatever table they come from. */
static bool is_earlier_name(const struct uw_symbols_builder *b, const struct uw_symbol_entry *e,
			    const struct uw_symbol_entry *kept)
{
	return e->rank == kept->rank && e->size == kept->size && e->len == kept->len &&
	       memcmp(name_of(b, e->name), name_of(b, kept->name), e->len) < 0;
}

/* One name an address; labels without a size inside a function that has one are not functions. */
static void keep_best(struct uw_symbols_builder *b)
{
	uint64_t last = 0, cover = 0;
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		const struct uw_symbol_entry *e = &b->entries[i];

		if (n && e->start == last) {
			if (b->entries[n - 1].start == last &&
			    is_earlier_name(b, e, &b->entries[n - 1]))
				b->entries[n - 1] = *e;
			continue;
		}
		if (!e->size && e->start < cover)
			continue;
		last = e->start;
		if (e->size && e->start <= UINT64_MAX - e->size)
			cover = max_u64(cover, e->start + e->size);
		b->entries[n++] = *e;
	}
	b->n = n;
}

/* Code that later code was written over is gone, all of it. */
static void keep_latest(struct uw_symbols_builder *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct uw_symbol_entry e = b->entries[i];
		bool dead = false;

		while (n && e.start - b->entries[n - 1].start < b->entries[n - 1].size && !dead) {
			if (b->entries[n - 1].order > e.order)
				dead = true;
			else
				n--;
		}
		if (!dead)
			b->entries[n++] = e;
	}
	b->n = n;
}

static int copy_ranges(const struct uw_layout *layout, struct uw_symbols *symbols)
{
	if (!layout)
		return 0;
	for (size_t i = 0; i < layout->n_segments; i++)
		symbols->n_ranges += layout->segments[i].exec;
	symbols->ranges = uw_block_new(symbols->n_ranges, sizeof(*symbols->ranges));
	if (!symbols->ranges)
		return fail(-ENOMEM);
	symbols->n_ranges = 0;
	for (size_t i = 0; i < layout->n_segments; i++) {
		const struct uw_segment *s = &layout->segments[i];

		if (s->exec)
			symbols->ranges[symbols->n_ranges++] =
				(struct range){s->vaddr, s->vaddr + s->memsz};
	}
	return 0;
}

static int pack(struct uw_symbols_builder *b, struct uw_symbols **ret_symbols)
{
	_cleanup_(symbols_freep) struct uw_symbols *symbols = calloc(1, sizeof(*symbols));
	size_t len = 0;
	int r;

	if (!symbols)
		return fail(-ENOMEM);
	r = copy_ranges(b->layout, symbols);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < b->n; i++)
		len += b->entries[i].len + 1u;
	symbols->n = b->n;
	symbols->pool_len = len;
	symbols->entries = uw_block_new(b->n, sizeof(*symbols->entries));
	symbols->pool = uw_block_new(len, 1);
	if (!symbols->entries || !symbols->pool)
		return fail(-ENOMEM);
	for (size_t i = 0, at = 0; i < b->n; i++) {
		const struct uw_symbol_entry *e = &b->entries[i];

		if (i + AHEAD < b->n)
			__builtin_prefetch(name_of(b, b->entries[i + AHEAD].name));
		symbols->entries[i] = (struct entry){e->start, e->size, (uint32_t)at};
		memcpy(symbols->pool + at, name_of(b, e->name), e->len);
		symbols->pool[at + e->len] = 0;
		at += e->len + 1u;
	}
	symbols->full = b->full;
	r = make_marks(symbols);
	if (r < 0)
		return trace(r);
	*ret_symbols = take(symbols);
	return 0;
}

/* Sorts by start, stable: one pass for each digit that a start has. */
static bool sort_by_digits(struct uw_symbol_entry *entries, size_t n)
{
	enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
	struct uw_symbol_entry *from = entries, *to;
	_cleanup_(freep) struct uw_symbol_entry *room = reallocarray(NULL, n, sizeof(*room));
	uint64_t least = UINT64_MAX, most = 0;

	if (!room)
		return false;
	for (size_t i = 0; i < n; i++) {
		least = min_u64(least, entries[i].start);
		most = max_u64(most, entries[i].start);
	}
	to = room;
	for (unsigned shift = 0; shift < 64 && (most - least) >> shift; shift += DIGIT_BITS) {
		uint32_t at[DIGITS + 1] = {0};
		struct uw_symbol_entry *other = from;

		for (size_t i = 0; i < n; i++)
			at[((from[i].start - least) >> shift & (DIGITS - 1)) + 1]++;
		for (size_t i = 1; i < DIGITS; i++)
			at[i] += at[i - 1];
		for (size_t i = 0; i < n; i++)
			to[at[(from[i].start - least) >> shift & (DIGITS - 1)]++] = from[i];
		from = to;
		to = other;
	}
	if (from != entries)
		memcpy(entries, from, n * sizeof(*entries));
	return true;
}

/* As qsort() by @compare, with the start as first key: a third of its time for 40,000 symbols. */
static void sort_entries(struct uw_symbol_entry *entries, size_t n,
			 int (*compare)(const void *, const void *))
{
	size_t end;

	if (n < 256 || !sort_by_digits(entries, n)) {
		qsort(entries, n, sizeof(*entries), compare);
		return;
	}
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && entries[end].start == entries[i].start;)
			end++;
		if (end > i + 1)
			qsort(entries + i, end - i, sizeof(*entries), compare);
	}
}

static int finish(struct uw_symbols_builder *b, int (*compare)(const void *, const void *),
		  void (*keep)(struct uw_symbols_builder *), struct uw_symbols **ret_symbols)
{
	int r;

	if (b->n)
		sort_entries(b->entries, b->n, compare);
	keep(b);
	r = pack(b, ret_symbols);
	uw_symbols_builder_deinit(b);
	return trace(r);
}

int uw_symbols_build(struct uw_symbols_builder *b, struct uw_symbols **ret_symbols)
{
	return finish(b, by_start_and_rank, keep_best, ret_symbols);
}

int uw_symbols_build_latest(struct uw_symbols_builder *b, struct uw_symbols **ret_symbols)
{
	return finish(b, by_start_and_age, keep_latest, ret_symbols);
}
