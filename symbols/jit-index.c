/* jit-index.c - see jit-index.h. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
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

struct jit_index *jit_index_free(struct jit_index *index)
{
	if (!index)
		return NULL;
	free(index->codes);
	free(index->reach);
	free(index->lines);
	free(index->pool);
	free(index);
	return NULL;
}

static void index_freep(struct jit_index **index)
{
	(void)jit_index_free(*index);
}

size_t jit_index_bytes(const struct jit_index *index)
{
	return sizeof(*index) + index->n * (sizeof(*index->codes) + sizeof(*index->reach)) +
	       index->n_lines * sizeof(*index->lines) + index->pool_len;
}

/* ---- building ---- */

static int by_start(const void *left, const void *right)
{
	const struct jit_code *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Of sorted codes. */
static int make_reach(struct jit_index *index)
{
	uint64_t reach = 0;

	index->reach = reallocarray(NULL, index->n + 1, sizeof(*index->reach));
	if (!index->reach)
		return fail(-ENOMEM);
	for (size_t i = 0; i < index->n; i++) {
		index->overlaps |= index->codes[i].start < reach;
		reach = max_u64(reach, index->codes[i].start + index->codes[i].size);
		index->reach[i] = reach;
	}
	return 0;
}

static int copy(const void *from, size_t n, size_t size, void **ret_copy)
{
	void *to = reallocarray(NULL, n + 1, size);

	if (!to)
		return fail(-ENOMEM);
	if (n)
		memcpy(to, from, n * size);
	*ret_copy = to;
	return 0;
}

int jit_index_new(const struct jit_index *from, struct jit_index **ret_index)
{
	_cleanup_(index_freep) struct jit_index *index = calloc(1, sizeof(*index));
	int r = index ? 0 : fail(-ENOMEM);

	if (r >= 0)
		r = copy(from->codes, from->n, sizeof(*from->codes), (void **)&index->codes);
	if (r >= 0)
		r = copy(from->lines, from->n_lines, sizeof(*from->lines), (void **)&index->lines);
	if (r >= 0)
		r = copy(from->pool, from->pool_len, 1, (void **)&index->pool);
	if (r < 0)
		return trace(r);
	index->n = from->n;
	index->n_lines = from->n_lines;
	index->pool_len = from->pool_len;
	index->until = from->until;
	if (index->n)
		qsort(index->codes, index->n, sizeof(*index->codes), by_start);
	r = make_reach(index);
	if (r < 0)
		return trace(r);
	*ret_index = take(index);
	return 0;
}

/* ---- lookup ---- */

static void line_of(const struct jit_index *index, const struct jit_code *code, uint64_t address,
		    struct uw_symbol *symbol)
{
	const struct jit_line *lines = index->lines + code->lines;
	size_t low = 0, high = code->n_lines;

	while (low < high) { /* the first line behind the address */
		size_t mid = low + (high - low) / 2;

		if (lines[mid].at <= address - code->start)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return;
	symbol->line = lines[low - 1].line;
	symbol->file = index->pool + lines[low - 1].file;
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

bool jit_index_find(const struct jit_index *index, uint64_t address, uint64_t time,
		    struct uw_symbol *ret_symbol)
{
	const struct jit_code *best = NULL;
	size_t low = 0, high = index->n;

	while (low < high) { /* the first code behind the address */
		size_t mid = low + (high - low) / 2;

		if (index->codes[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i > 0 && low - i < STEPS_MAX && index->reach[i - 1] > address; i--) {
		const struct jit_code *code = &index->codes[i - 1];

		if (address - code->start < code->size && (!best || is_better(code, best, time)))
			best = code;
	}
	if (!best)
		return false;
	*ret_symbol = (struct uw_symbol){
		.name = index->pool + best->name, .start = best->start, .size = best->size};
	ret_symbol->kind = jit_kind_of_name(ret_symbol->name, strnlen(ret_symbol->name, KIND_MAX));
	line_of(index, best, address, ret_symbol);
	return true;
}

/* ---- to another process ---- */

void jit_index_pack(const struct jit_index *index, struct packer *to)
{
	packer_block(to, index->codes, index->n * sizeof(*index->codes));
	packer_block(to, index->lines, index->n_lines * sizeof(*index->lines));
	packer_block(to, index->pool, index->pool_len);
	packer_u64(to, index->until);
}

static int unpack_block(struct cursor *from, size_t size, void **ret_data, size_t *ret_n)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len % size)
		return fail(-EBADMSG);
	*ret_n = len / size;
	return trace(copy(p, *ret_n, size, ret_data));
}

/* Does each code lie in the address space, with a name and lines that are there, behind the one before it? */
static bool is_sound(const struct jit_index *index)
{
	if ((index->n || index->n_lines) && (!index->pool_len || index->pool[index->pool_len - 1]))
		return false;
	for (size_t i = 0; i < index->n; i++) {
		const struct jit_code *code = &index->codes[i];

		if (!code->size || code->start > UINT64_MAX - code->size ||
		    code->name >= index->pool_len || code->lines > index->n_lines ||
		    code->n_lines > index->n_lines - code->lines ||
		    (i && by_start(&index->codes[i - 1], code) >= 0))
			return false;
	}
	for (size_t i = 0; i < index->n_lines; i++)
		if (index->lines[i].file >= index->pool_len)
			return false;
	return true;
}

int jit_index_unpack(struct cursor *from, struct jit_index **ret_index)
{
	_cleanup_(index_freep) struct jit_index *index = calloc(1, sizeof(*index));
	int r = index ? 0 : fail(-ENOMEM);

	if (r >= 0)
		r = unpack_block(from, sizeof(*index->codes), (void **)&index->codes, &index->n);
	if (r >= 0)
		r = unpack_block(from, sizeof(*index->lines), (void **)&index->lines,
				 &index->n_lines);
	if (r >= 0)
		r = unpack_block(from, 1, (void **)&index->pool, &index->pool_len);
	index->until = cursor_u64(from);
	if (r >= 0 && (from->bad || !is_sound(index)))
		r = fail(-EBADMSG);
	if (r >= 0)
		r = make_reach(index);
	if (r < 0)
		return trace(r);
	*ret_index = take(index);
	return 0;
}
