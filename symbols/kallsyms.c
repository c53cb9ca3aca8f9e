/* kallsyms.c - the kernel's symbols: looked up, and what comes and goes.
 *
 *   address type name [module]     a line each, 200,000 and more; sorted in parts only
 *
 * Text symbols are kept in one array by address and one block of names (kallsyms-read.c), or in one
 * of each for every part of a file that was asked for (kallsyms-copy.c).  What comes and goes later
 * (BPF programs, trampolines: PERF_RECORD_KSYMBOL) lies in an overlay with its own names; a symbol
 * of the text that goes is only marked, as the array is never changed. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/kallsyms-private.h"

enum { OVERLAY_MAX = 64 << 10, DISTANCE_MAX = 1 << 20 };
#define GONE UINT32_MAX

struct uw_kallsyms *uw_kallsyms_free(struct uw_kallsyms *ks)
{
	if (!ks)
		return NULL;
	for (size_t i = 0; i < ks->n_extras; i++)
		free(ks->extras[i].name);
	free(ks->extras);
	(void)kallsyms_copy_free(ks->copy);
	buffer_deinit(&ks->symbols);
	buffer_deinit(&ks->names);
	free(ks);
	return NULL;
}

int uw_kallsyms_new(int fd, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = NULL;
	int r = kallsyms_read(fd, false, &ks);

	if (r < 0)
		return trace(r);
	*ret_kallsyms = ks->n ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

/* The first symbol and the last, not moved; false: there is none. */
static bool range_of(const struct uw_kallsyms *ks, uint64_t *ret_first, uint64_t *ret_last)
{
	if (ks->copy) {
		kallsyms_copy_range(ks->copy, ret_first, ret_last);
		return true;
	}
	if (!ks->n)
		return false;
	*ret_first = kallsyms_symbols(ks)[0].start;
	*ret_last = kallsyms_symbols(ks)[ks->n - 1].start;
	return true;
}

/* To where _text is in another run of the same kernel.  false: no such place. */
static bool move(struct uw_kallsyms *ks, uint64_t text)
{
	uint64_t first, last;

	if (!ks->text || !range_of(ks, &first, &last))
		return false;
	ks->by = text - ks->text;
	return first + ks->by <= last + ks->by;
}

int uw_kallsyms_new_moved(int fd, uint64_t text, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	int r;

	if (!ks)
		return fail(-ENOMEM);
	r = kallsyms_copy_new(fd, &ks->copy);
	if (r == 0) {
		ks->text = kallsyms_copy_text(ks->copy);
	} else if (r == KALLSYMS_WHOLE) {
		ks = uw_kallsyms_free(ks);
		r = kallsyms_read(fd, true, &ks);
	}
	if (r < 0)
		return trace(r);
	*ret_kallsyms = move(ks, text) ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

/* ---- looking up ---- */

/* The last symbol at or below, not moved, and whose names it has; NULL: none. */
static struct symbol *symbol_below(const struct uw_kallsyms *ks, uint64_t address,
				   const struct uw_kallsyms **ret_in)
{
	const struct uw_kallsyms *in = ks->copy ? kallsyms_copy_part(ks->copy, address) : ks;
	size_t low = 0, high = in ? in->n : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (kallsyms_symbols(in)[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_in = in;
	return low ? &kallsyms_symbols(in)[low - 1] : NULL;
}

bool uw_kallsyms_spans(const struct uw_kallsyms *ks, uint64_t address)
{
	uint64_t first, last;

	return range_of(ks, &first, &last) && address >= first + ks->by && address <= last + ks->by;
}

/* The number of extras that begin at or below. */
static size_t extras_below(const struct uw_kallsyms *ks, uint64_t address)
{
	size_t low = 0, high = ks->n_extras;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ks->extras[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const char *uw_kallsyms_name(const struct uw_kallsyms *ks, uint64_t address, uint64_t *ret_start)
{
	size_t i = extras_below(ks, address);
	const struct uw_kallsyms *in;
	const struct symbol *s;

	if (i && address - ks->extras[i - 1].start < ks->extras[i - 1].len) {
		*ret_start = ks->extras[i - 1].start;
		return ks->extras[i - 1].name;
	}
	s = symbol_below(ks, address - ks->by, &in);
	if (!s || address - ks->by - s->start > DISTANCE_MAX || s->name == GONE)
		return NULL;
	*ret_start = s->start + ks->by;
	return (const char *)in->names.data + s->name;
}

/* ---- what comes and goes ---- */

static void remove_extras(struct uw_kallsyms *ks, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		free(ks->extras[i].name);
	memmove(ks->extras + from, ks->extras + to, (ks->n_extras - to) * sizeof(*ks->extras));
	ks->n_extras -= to - from;
}

static int insert_extra(struct uw_kallsyms *ks, size_t at, struct extra extra)
{
	if (ks->n_extras == ks->room) {
		size_t room = ks->room ? ks->room * 2 : 64;
		struct extra *more = reallocarray(ks->extras, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		ks->extras = more;
		ks->room = room;
	}
	memmove(ks->extras + at + 1, ks->extras + at, (ks->n_extras - at) * sizeof(*ks->extras));
	ks->extras[at] = extra;
	ks->n_extras++;
	return 0;
}

int uw_kallsyms_add(struct uw_kallsyms *ks, uint64_t start, uint32_t len, const char *name)
{
	struct extra extra = {.start = start, .len = len ? len : 1};
	size_t from, to;
	int r;

	if (!start || !*name)
		return 0;
	from = extras_below(ks, start);
	if (from && start - ks->extras[from - 1].start < ks->extras[from - 1].len)
		from--; /* the new one is written over it */
	for (to = from; to < ks->n_extras &&
			(ks->extras[to].start < start || ks->extras[to].start - start < extra.len);)
		to++;
	if (from < to)
		remove_extras(ks, from, to);
	if (ks->n_extras >= OVERLAY_MAX)
		return 0;
	extra.name = strndup(name, KALLSYMS_NAME_MAX);
	if (!extra.name)
		return fail(-ENOMEM);
	r = insert_extra(ks, from, extra);
	if (r < 0)
		free(extra.name);
	return trace(r);
}

void uw_kallsyms_remove(struct uw_kallsyms *ks, uint64_t start)
{
	size_t i = extras_below(ks, start);
	const struct uw_kallsyms *in;
	struct symbol *s;

	if (i && ks->extras[i - 1].start == start)
		remove_extras(ks, i - 1, i);
	s = symbol_below(ks, start - ks->by, &in);
	if (s && s->start == start - ks->by)
		s->name = GONE;
}
