/* jit-index.c - see jit-index.h.
 *
 * Each reading of a jitdump adds a part, so a reading costs what it adds; a part that is not half as large as the one before it is
 * merged with that.
 *
 *   parts    [       160,000       ][ 30,000 ][900][7]      a search begins with the last one
 *
 *   codes    by start; some share addresses: memory of code that was freed is used again
 *   reach    of each entry: the highest end of it and the entries before it, so a search knows when nothing more can cover an
 *            address
 *   changes  when code was loaded that shares its memory with other code of this part or of those before it, in order
 *   lines    of each code some, by address; their file is a text of the pool, as names are
 *
 * Codes, lines and bytes of the pool have numbers of the whole dump: code of one part can have the name and the lines that code of an
 * earlier one has, from where it was moved.  Parts can overlap: what two readings have both is the same. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/unshared.h"
#include "symbols/jit-index.h"

/* Codes that a search looks at, from the nearest start downwards and of one start the latest first.  Runtimes
 * use an address again a few times; a dump written by an attacker has a million codes at one address. */
enum { STEPS_MAX = 512, KIND_MAX = 64 /* characters that show the kind */ };

/* By the names that runtimes give their code: CPython's py::function:file (Python/perf_trampoline.c), V8's
 * TAG:*function file:line (src/logging/log.cc: mark * ~ ^ + for the tier). */
enum frame_kind jit_kind_of_name(const char *name, size_t len)
{
	static const char *const tags[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};

	if (len > 4 && !memcmp(name, "py::", 4))
		return FRAME_PYTHON;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		size_t tag = strlen(tags[i]);

		if (len > tag && !memcmp(name, tags[i], tag))
			return FRAME_JS;
	}
	return FRAME_NATIVE;
}

/* ---- memory ---- */

void *uw_block_new(size_t n, size_t size)
{
	return unshared_new((n + 1) * size);
}

void uw_block_free(void *data, size_t n, size_t size)
{
	unshared_free(data, (n + 1) * size);
}

static int copy(const void *from, size_t n, size_t size, void **ret_copy)
{
	void *to = uw_block_new(n, size);

	if (!to)
		return fail(-ENOMEM);
	if (n)
		memcpy(to, from, n * size);
	*ret_copy = to;
	return 0;
}

int uw_block_unpack(struct cursor *from, size_t size, void **ret_data, size_t *ret_n)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len % size)
		return fail(-EBADMSG);
	*ret_n = len / size;
	return trace(copy(p, *ret_n, size, ret_data));
}

static void part_deinit(struct jit_part *part)
{
	uw_block_free(part->codes, part->n, sizeof(*part->codes));
	free(part->reach);
	free(part->changes);
	uw_block_free(part->lines, part->n_lines, sizeof(*part->lines));
	uw_block_free(part->pool, part->pool_len, 1);
	*part = (struct jit_part){.n = 0};
}

struct jit_index *jit_index_free(struct jit_index *index)
{
	if (!index)
		return NULL;
	for (size_t i = 0; i < index->n_parts; i++)
		part_deinit(&index->parts[i]);
	free(index);
	return NULL;
}

static void index_freep(struct jit_index **index)
{
	(void)jit_index_free(*index);
}

static size_t part_bytes(const struct jit_part *part)
{
	return part->n * (sizeof(*part->codes) + sizeof(*part->reach)) +
	       part->n_changes * sizeof(*part->changes) + part->n_lines * sizeof(*part->lines) +
	       part->pool_len;
}

size_t jit_index_bytes(const struct jit_index *index)
{
	size_t bytes = sizeof(*index);

	for (size_t i = 0; i < index->n_parts; i++)
		bytes += part_bytes(&index->parts[i]);
	return bytes;
}

/* ---- building ---- */

static int by_start(const void *left, const void *right)
{
	const struct jit_code *a = left, *b = right;

	return ascend(a->start, b->start) ?: ascend(a->order, b->order);
}

/* Of sorted codes. */
static int make_reach(struct jit_part *part)
{
	uint64_t reach = 0;

	part->reach = reallocarray(NULL, part->n + 1, sizeof(*part->reach));
	if (!part->reach)
		return fail(-ENOMEM);
	for (size_t i = 0; i < part->n; i++) {
		reach = max_u64(reach, part->codes[i].start + part->codes[i].size);
		part->reach[i] = reach;
	}
	return 0;
}

static int by_time(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return ascend(*a, *b);
}

/* Has the part code where @code is? */
static bool overlaps(const struct jit_part *part, const struct jit_code *code)
{
	/* The first code behind it. */
	size_t low = bisect(i, part->n, part->codes[i].start < code->start + code->size);

	return low && part->reach[low - 1] > code->start;
}

/* Shares code @i of @part, which stands behind the parts of @index, its memory? */
static bool is_shared(const struct jit_index *index, const struct jit_part *part, size_t i)
{
	const struct jit_code *code = &part->codes[i];

	if ((i && code->start < part->reach[i - 1]) ||
	    (i + 1 < part->n && code[1].start - code->start < code->size))
		return true;
	for (size_t k = 0; k < index->n_parts; k++)
		if (overlaps(&index->parts[k], code))
			return true;
	return false;
}

static int make_changes(const struct jit_index *index, struct jit_part *part)
{
	/* What the parts before it have, too, is not code over other code. */
	uint32_t known = index->n_parts ? index->parts[index->n_parts - 1].end.codes : 0;
	size_t room = 0;

	free(take(part->changes));
	part->n_changes = 0;
	for (size_t i = 0; i < part->n; i++) {
		part->newest = max_u64(part->newest, part->codes[i].time);
		if (part->codes[i].order < known || !is_shared(index, part, i))
			continue;
		if (part->n_changes == room && !array_grow(part->changes, room, 16))
			return fail(-ENOMEM);
		part->changes[part->n_changes++] = part->codes[i].time;
	}
	if (part->n_changes)
		qsort(part->changes, part->n_changes, sizeof(*part->changes), by_time);
	return 0;
}

/* Memory for all of @a and of @b behind it, which can begin before it where that was asked for earlier. */
static int room_for(const struct jit_part *a, const struct jit_part *b, struct jit_part *ret_part)
{
	ret_part->first = (struct uw_extent){
		.codes = (uint32_t)min_u64(a->first.codes, b->first.codes),
		.lines = (uint32_t)min_u64(a->first.lines, b->first.lines),
		.pool = (uint32_t)min_u64(a->first.pool, b->first.pool),
	};
	ret_part->end = b->end;
	ret_part->n = a->n + b->n;
	ret_part->n_lines = b->end.lines - ret_part->first.lines;
	ret_part->pool_len = b->end.pool - ret_part->first.pool;
	ret_part->n_changes = a->n_changes + b->n_changes;
	ret_part->codes = uw_block_new(ret_part->n, sizeof(*ret_part->codes));
	ret_part->lines = uw_block_new(ret_part->n_lines, sizeof(*ret_part->lines));
	ret_part->pool = uw_block_new(ret_part->pool_len, 1);
	ret_part->changes = reallocarray(NULL, ret_part->n_changes + 1, sizeof(*ret_part->changes));
	return ret_part->codes && ret_part->lines && ret_part->pool && ret_part->changes
		       ? 0
		       : fail(-ENOMEM);
}

/* @b into @a, the one before it. */
static int merge(struct jit_part *a, struct jit_part *b)
{
	struct jit_part both = {.newest = b->newest};
	int r = room_for(a, b, &both);

	for (size_t i = 0, j = 0; r >= 0 && i + j < both.n;) {
		bool first = j == b->n || (i < a->n && by_start(&a->codes[i], &b->codes[j]) <= 0);

		both.codes[i + j] = first ? a->codes[i] : b->codes[j];
		i += first;
		j += !first;
	}
	if (r >= 0)
		r = make_reach(&both);
	if (r < 0) {
		part_deinit(&both);
		return trace(r);
	}
	memcpy(both.lines + (a->first.lines - both.first.lines), a->lines,
	       a->n_lines * sizeof(*a->lines));
	memcpy(both.lines + (b->first.lines - both.first.lines), b->lines,
	       b->n_lines * sizeof(*b->lines));
	memcpy(both.pool + (a->first.pool - both.first.pool), a->pool, a->pool_len);
	memcpy(both.pool + (b->first.pool - both.first.pool), b->pool, b->pool_len);
	for (size_t i = 0, j = 0; i + j < both.n_changes;) {
		bool first =
			j == b->n_changes || (i < a->n_changes && a->changes[i] <= b->changes[j]);

		both.changes[i + j] = first ? a->changes[i] : b->changes[j];
		i += first;
		j += !first;
	}
	part_deinit(a);
	part_deinit(b);
	*a = both;
	return 0;
}

/* Consumes @part, of sorted codes.  -ENOMEM: the index is as it was. */
static int add_part(struct jit_index *index, struct jit_part *part)
{
	struct jit_part *last = &index->parts[index->n_parts];
	int r = index->n_parts < JIT_PARTS_MAX ? 0 : fail(-ENOMEM);

	part->newest = index->n_parts ? last[-1].newest : 0;
	if (r >= 0 && !part->reach)
		r = make_reach(part);
	if (r >= 0)
		r = make_changes(index, part);
	if (r < 0) {
		part_deinit(part);
		return trace(r);
	}
	index->overlaps |= part->n_changes > 0;
	*last = *part;
	*part = (struct jit_part){.n = 0};
	index->n_parts++;
	for (; index->n_parts > 1; last--) {
		if (index->n_parts < JIT_PARTS_MAX && last[-1].n / 2 >= last->n)
			break;
		if (merge(last - 1, last) < 0)
			break;
		index->n_parts--;
	}
	return 0;
}

int jit_index_new(const struct jit_part *from, struct jit_index **ret_index)
{
	_cleanup_(index_freep) struct jit_index *index = calloc(1, sizeof(*index));
	struct jit_part part = {.first = from->first,
				.end = from->end,
				.n = from->n,
				.n_lines = from->n_lines,
				.pool_len = from->pool_len};
	int r;

	if (!index)
		return fail(-ENOMEM);
	r = copy(from->codes, part.n, sizeof(*part.codes), (void **)&part.codes);
	if (r >= 0)
		r = copy(from->lines, part.n_lines, sizeof(*part.lines), (void **)&part.lines);
	if (r >= 0)
		r = copy(from->pool, part.pool_len, 1, (void **)&part.pool);
	if (r < 0) {
		part_deinit(&part);
		return trace(r);
	}
	if (part.n)
		qsort(part.codes, part.n, sizeof(*part.codes), by_start);
	r = add_part(index, &part);
	if (r < 0)
		return trace(r);
	*ret_index = take(index);
	return 0;
}

bool jit_index_is_whole(const struct jit_index *index)
{
	const struct uw_extent *first = &index->parts[0].first;

	return !first->codes && !first->lines && !first->pool;
}

static bool is_within(const struct uw_extent *a, const struct uw_extent *b)
{
	return a->codes <= b->codes && a->lines <= b->lines && a->pool <= b->pool;
}

int jit_index_append(struct jit_index *index, struct jit_index *more)
{
	const struct uw_extent *end = &index->parts[index->n_parts - 1].end;
	const struct jit_part *part = &more->parts[0];
	size_t n = part->n, n_lines = part->n_lines, pool_len = part->pool_len;
	int r;

	for (size_t i = 0; i < index->n_parts; i++) {
		n += index->parts[i].n;
		n_lines += index->parts[i].n_lines;
		pool_len += index->parts[i].pool_len;
	}
	/* What two answers had is there twice. */
	if (more->n_parts != 1 || n > 2 * JIT_CODES_MAX || n_lines > 2 * JIT_LINES_MAX ||
	    pool_len > 2 * JIT_POOL_MAX || !is_within(&part->first, end) ||
	    !is_within(end, &part->end))
		return fail(-EBADMSG);
	r = add_part(index, &more->parts[0]);
	if (r < 0)
		return trace(r);
	index->until = more->until;
	index->timeless = more->timeless;
	return 0;
}

/* ---- lookup of code ---- */

static const char *text_of(const struct jit_index *index, uint32_t at)
{
	const struct jit_part *part = &index->parts[index->n_parts - 1];

	while (part->first.pool > at)
		part--;
	return part->pool + (at - part->first.pool);
}

static void line_of(const struct jit_index *index, const struct jit_code *code, uint64_t address,
		    struct uw_symbol *symbol)
{
	const struct jit_part *part = &index->parts[index->n_parts - 1];
	const struct jit_line *lines;
	size_t low;

	while (part->first.lines > code->lines)
		part--;
	lines = part->lines + (code->lines - part->first.lines);
	/* The first line behind the address. */
	low = bisect(i, min_u64(code->n_lines, part->end.lines - code->lines),
		     lines[i].at <= address - code->start);
	if (!low)
		return;
	symbol->line = lines[low - 1].line;
	symbol->file = text_of(index, lines[low - 1].file);
}

/* Is @a the better one at @time? */
static bool is_better(const struct jit_code *a, const struct jit_code *b, uint64_t time)
{
	bool there = a->time <= time;

	if (there != (b->time <= time))
		return there;
	if (a->time != b->time)
		return (a->time > b->time) == there;
	return (a->order > b->order) == there;
}

/* The code of the part that is better than @best, if any. */
static const struct jit_code *part_find(const struct jit_part *part, uint64_t address,
					uint64_t time, const struct jit_code *best, unsigned *steps)
{
	/* The first code behind the address. */
	size_t low = bisect(i, part->n, part->codes[i].start <= address);

	for (size_t i = low; i > 0 && *steps && part->reach[i - 1] > address; i--, --*steps) {
		const struct jit_code *code = &part->codes[i - 1];

		if (address - code->start < code->size && (!best || is_better(code, best, time)))
			best = code;
	}
	return best;
}

/* The code that was at @address at @time (CLOCK_MONOTONIC ns; UINT64_MAX: now): the latest one, or if it was made known
 * after its first call, the first one.  false: none. */
bool jit_index_find(const struct jit_index *index, uint64_t address, uint64_t time,
		    struct uw_symbol *ret_symbol)
{
	const struct jit_code *best = NULL;
	unsigned steps = STEPS_MAX;

	if (!jit_index_is_whole(index)) /* names and lines of its code can be before it */
		return false;
	for (size_t i = index->n_parts; i > 0; i--) {
		if (best && best->time <= time && best->time > index->parts[i - 1].newest)
			break;
		best = part_find(&index->parts[i - 1], address, time, best, &steps);
	}
	if (!best)
		return false;
	*ret_symbol = (struct uw_symbol){
		.name = text_of(index, best->name), .start = best->start, .size = best->size};
	ret_symbol->kind = jit_kind_of_name(ret_symbol->name, strnlen(ret_symbol->name, KIND_MAX));
	if (best->n_lines)
		line_of(index, best, address, ret_symbol);
	return true;
}

void jit_index_last(const struct jit_index *index, uint64_t time, uint64_t *ret_since,
		    uint64_t *ret_until)
{
	for (size_t k = 0; k < index->n_parts; k++) {
		const struct jit_part *part = &index->parts[k];
		/* The first change behind the time. */
		size_t low = bisect(i, part->n_changes, part->changes[i] <= time);

		if (low)
			*ret_since = max_u64(*ret_since, part->changes[low - 1]);
		if (low < part->n_changes)
			*ret_until = min_u64(*ret_until, part->changes[low]);
	}
}

/* ---- to another process ---- */

void jit_index_pack(const struct jit_index *index, struct packer *to)
{
	const struct jit_part *part = &index->parts[0];

	assert(index->n_parts == 1);
	packer_block(to, part->codes, part->n * sizeof(*part->codes));
	packer_block(to, part->lines, part->n_lines * sizeof(*part->lines));
	packer_block(to, part->pool, part->pool_len);
	packer_put(to, &part->first, sizeof(part->first));
	packer_u64(to, index->until);
	packer_u64(to, index->timeless);
}

/* Where the part ends, within the limits of a dump.  false: it is too large. */
static bool find_end(struct jit_part *part)
{
	uint64_t codes = part->first.codes + part->n, lines = part->first.lines + part->n_lines;
	uint64_t pool = part->first.pool + part->pool_len;

	part->end = (struct uw_extent){(uint32_t)codes, (uint32_t)lines, (uint32_t)pool};
	return codes <= JIT_CODES_MAX && lines <= JIT_LINES_MAX && pool <= JIT_POOL_MAX;
}

/* Does each code lie in the address space, with a name and lines that are there, behind the one before it? */
static bool is_sound(const struct jit_part *part)
{
	if (part->pool_len && part->pool[part->pool_len - 1])
		return false;
	for (size_t i = 0; i < part->n; i++) {
		const struct jit_code *code = &part->codes[i];

		if (!code->size || code->start > UINT64_MAX - code->size ||
		    code->name >= part->end.pool || code->lines > part->end.lines ||
		    code->n_lines > part->end.lines - code->lines ||
		    (i && by_start(&part->codes[i - 1], code) >= 0))
			return false;
	}
	for (size_t i = 0; i < part->n_lines; i++)
		if (part->lines[i].file >= part->end.pool)
			return false;
	return true;
}

static int unpack_part(struct cursor *from, struct jit_part *part)
{
	const void *first;
	int r = uw_block_unpack(from, sizeof(*part->codes), (void **)&part->codes, &part->n);

	if (r >= 0)
		r = uw_block_unpack(from, sizeof(*part->lines), (void **)&part->lines,
				    &part->n_lines);
	if (r >= 0)
		r = uw_block_unpack(from, 1, (void **)&part->pool, &part->pool_len);
	if (r < 0)
		return trace(r);
	first = cursor_bytes(from, sizeof(part->first));
	if (!first)
		return fail(-EBADMSG);
	memcpy(&part->first, first, sizeof(part->first));
	return find_end(part) && is_sound(part) ? 0 : fail(-EBADMSG);
}

int jit_index_unpack(struct cursor *from, struct jit_index **ret_index)
{
	_cleanup_(index_freep) struct jit_index *index = calloc(1, sizeof(*index));
	struct jit_part part = {.n = 0};
	int r = index ? unpack_part(from, &part) : fail(-ENOMEM);

	if (r < 0) {
		part_deinit(&part);
		return trace(r);
	}
	r = add_part(index, &part);
	index->until = cursor_u64(from);
	index->timeless = cursor_u64(from) != 0;
	if (r >= 0 && from->bad)
		r = fail(-EBADMSG);
	if (r < 0)
		return trace(r);
	*ret_index = take(index);
	return 0;
}
