/* folded.c - `comm;root;...;leaf count` lines, as the flame graph tools read them.  Thread: main.
 *
 * The format has no escapes: a semicolon in a name (they stand in C++ lambdas and in thread names)
 * becomes a colon, controls become '?'.  Kernel functions end in "_[k]" and stacks that reached no
 * root begin with their marker, as the stackcollapse tools do.  Lines are in byte order, so that
 * two exports can be compared. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "profile/export.h"
#include "profile/fold.h"
#include "profile/text.h"

struct folded {
	struct fold fold;
	struct buffer texts; /* the cleaned names of the symbols, one after the other */
	size_t *text_at;     /* by symbol; [n_symbols] is the end */
	struct string_table lines;
	uint64_t *values; /* by line, from 0 */
	size_t values_room;
	uint32_t *calls;
};

static void folded_deinit(struct folded *f)
{
	fold_deinit(&f->fold);
	buffer_deinit(&f->texts);
	string_table_deinit(&f->lines);
	free(f->text_at);
	free(f->values);
	free(f->calls);
}

static void append_name(struct buffer *b, const char *name)
{
	size_t from = b->len;

	text_clean(b, name);
	for (size_t i = from; i < b->len; i++)
		if (b->data[i] == ';')
			b->data[i] = ':';
}

static int clean_names(struct folded *f)
{
	f->text_at = calloc((size_t)f->fold.n_symbols + 1, sizeof(*f->text_at));
	f->calls = calloc(f->fold.max_depth + 1, sizeof(*f->calls));
	if (!f->text_at || !f->calls)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < f->fold.n_symbols; i++) {
		append_name(&f->texts, fold_symbol_name(&f->fold, i));
		if (f->fold.symbols[i].kind == FOLD_KERNEL)
			buffer_append(&f->texts, "_[k]", 4);
		f->text_at[i + 1] = f->texts.len;
	}
	return f->texts.bad ? fail(-ENOMEM) : 0;
}

static int add_value(struct folded *f, const struct buffer *line, uint64_t value)
{
	uint32_t id;
	int r;

	if (line->bad)
		return fail(-ENOMEM);
	r = string_table_add(&f->lines, line->data, line->len, &id, NULL);
	if (r < 0)
		return trace(r);
	if (id > f->values_room) {
		size_t room = f->values_room ? f->values_room * 2 : 256;
		uint64_t *more = reallocarray(f->values, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		memset(more + f->values_room, 0, (room - f->values_room) * sizeof(*more));
		f->values = more;
		f->values_room = room;
	}
	f->values[id - 1] += value;
	return 0;
}

static int add_groups(struct folded *f, bool weight)
{
	_cleanup_(buffer_deinit) struct buffer line = {0};
	int r;

	for (size_t i = 0; i < f->fold.n_groups; i++) {
		const struct fold_group *g = &f->fold.groups[i];
		size_t n = fold_stack(&f->fold, g, f->calls);
		char name[32];

		line.len = 0;
		append_name(&line, fold_thread_name(&f->fold, g->thread, name));
		for (size_t k = 0; k < n; k++) {
			uint32_t symbol = fold_call_symbol(f->calls[k]);

			buffer_append(&line, ";", 1);
			buffer_append(&line, f->texts.data + f->text_at[symbol],
				      f->text_at[symbol + 1] - f->text_at[symbol]);
		}
		r = add_value(f, &line, weight ? g->weight : g->count);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int compare_lines(const void *a, const void *b, void *context)
{
	const struct string_table *lines = context;

	return strcmp(string_table_text(lines, *(const uint32_t *)a),
		      string_table_text(lines, *(const uint32_t *)b));
}

static int write_lines(struct folded *f, FILE *out)
{
	_cleanup_(freep) uint32_t *order = calloc((size_t)f->lines.n_entries + 1, sizeof(*order));

	if (!order)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < f->lines.n_entries; i++)
		order[i] = i + 1;
	qsort_r(order, f->lines.n_entries, sizeof(*order), compare_lines, &f->lines);
	for (uint32_t i = 0; i < f->lines.n_entries; i++)
		fprintf(out, "%s %llu\n", string_table_text(&f->lines, order[i]),
			(unsigned long long)f->values[order[i] - 1]);
	return export_finish(out);
}

int export_folded(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(folded_deinit) struct folded f = {0};
	int r;

	r = fold_init(&f.fold, profile, options ? &options->only : NULL);
	if (r < 0)
		return trace(r);
	r = clean_names(&f);
	if (r < 0)
		return trace(r);
	r = add_groups(&f, options && options->weight);
	if (r < 0)
		return trace(r);
	return write_lines(&f, out);
}
