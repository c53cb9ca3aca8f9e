/* folded.c - `comm;root;...;leaf count` lines, as the flame graph tools read them.  Thread: main.
 *
 * The format has no escapes: a semicolon in a name (they stand in C++ lambdas and in thread names)
 * becomes a colon, controls become '?'.  Kernel functions end in "_[k]", code of a language's runtime in
 * "_[j]" or another letter (suffix_of()), and stacks that reached no root begin with their marker, as the
 * stackcollapse tools do.  Lines are in byte order (of names without "_[i]"), so that two exports can be compared.
 *
 * Lines are not kept: all of a big profile's are gigabytes.  A walk visits them in their order, which
 * names as they stand in a line have: "f\n" at its end, "f;" before another, with "f(int);" between. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-export.h"
#include "profile/fold.h"
#include "profile/profile-text.h"
#include "profile/walk.h"

enum { LINE_MAX_BYTES = 16 << 20 };
#define MAX_TEXT (8ull << 30) /* of a trace below 100 MiB */

struct folded {
	struct fold fold;
	struct walk walk;
	FILE *out;
	bool weight, inlined;
	struct buffer texts; /* the cleaned names of the symbols, one after the other */
	size_t *text_at;     /* by symbol; [n_symbols] is the end */
	/* by symbol: the place of its name in the order of bytes, at a line's end and in a line */
	uint32_t *end_rank, *rank;
	uint32_t *thread_rank; /* by thread: the same of its name */
	struct group_key {
		uint32_t thread, first; /* ranks: of the name, of the first call (or marker) */
	} * keys;			/* by group */
	uint32_t *order;		/* groups, in the order of lines as far as keys decide */
	struct buffer line;
	size_t *starts; /* in line, of the calls that are open */
	size_t n_starts, room_starts;
	uint64_t written;
};

static void folded_deinit(struct folded *f)
{
	walk_deinit(&f->walk);
	fold_deinit(&f->fold);
	buffer_deinit(&f->texts);
	buffer_deinit(&f->line);
	free(f->text_at);
	free(f->end_rank);
	free(f->rank);
	free(f->thread_rank);
	free(f->keys);
	free(f->order);
	free(f->starts);
}

static void append_name(struct buffer *b, const char *name)
{
	size_t from = b->len;

	text_clean(b, name);
	for (size_t i = from; i < b->len; i++)
		if (b->data[i] == ';')
			b->data[i] = ':';
}

/* As the flame graph tools colour them: _[k] kernel, _[j] JIT; async-profiler has _[0] interpreted and _[1] C1 besides.
 * Other kinds keep the suffix of reports. */
static const char *suffix_of(const struct fold_symbol *symbol)
{
	static const char *const suffixes[FRAME_KINDS] = {
		[FRAME_JAVA_INTERPRETED] = "_[0]",
		[FRAME_JAVA_C1] = "_[1]",
		[FRAME_JAVA_C2] = "_[j]",
		[FRAME_JS] = "_[j]",
	};

	return symbol->kind == FOLD_KERNEL ? "_[k]" : suffixes[symbol->frame_kind];
}

static void clean_name(struct folded *f, uint32_t symbol)
{
	const char *suffix = suffix_of(&f->fold.symbols[symbol]);
	size_t from = f->texts.len, kind = fold_kind_suffix(&f->fold, symbol);

	append_name(&f->texts, fold_symbol_name(&f->fold, symbol));
	if (!suffix)
		return;
	f->texts.len -= min_u64(kind, f->texts.len - from);
	buffer_append(&f->texts, suffix, strlen(suffix));
}

static int clean_names(struct folded *f)
{
	size_t from = 0;
	int r = fold_array(&f->fold, f->fold.n_symbols, sizeof(*f->text_at), "functions",
			   &f->text_at);

	for (uint32_t i = 0; i < f->fold.n_symbols && r == 0; i++) {
		clean_name(f, i);
		f->text_at[i + 1] = f->texts.len;
		r = fold_hold(&f->fold, (int64_t)(f->texts.len - from), "names");
		from = f->texts.len;
	}
	if (r < 0)
		return trace(r);
	return f->texts.bad ? fail(-ENOMEM) : 0;
}

/* ---- the order of names ---- */

/* A name as it stands in a line: with what follows it. */
struct place {
	const uint8_t *text;
	size_t len;
	char end;
};

static int compare_places(const struct place *x, const struct place *y)
{
	size_t len = min_u64(x->len, y->len);
	int r = len ? memcmp(x->text, y->text, len) : 0, a, b;

	if (r || (x->len == y->len && x->end == y->end))
		return r;
	a = x->len > len ? x->text[len] : x->end;
	b = y->len > len ? y->text[len] : y->end;
	return a - b;
}

/* Number 2 s is symbol s at a line's end, 2 s + 1 the same before another. */
static struct place symbol_place(const struct folded *f, uint32_t number)
{
	uint32_t symbol = number / 2;

	return (struct place){f->texts.data + f->text_at[symbol],
			      f->text_at[symbol + 1] - f->text_at[symbol], number % 2 ? ';' : 0};
}

static int compare_symbols(const void *a, const void *b, void *folded)
{
	struct place x = symbol_place(folded, *(const uint32_t *)a),
		     y = symbol_place(folded, *(const uint32_t *)b);

	return compare_places(&x, &y);
}

static int rank_symbols(struct folded *f)
{
	uint32_t n = f->fold.n_symbols * 2, rank = 0;
	_cleanup_(freep) uint32_t *order = NULL;
	int r = fold_array(&f->fold, f->fold.n_symbols, sizeof(*f->rank), "functions", &f->rank);

	if (r == 0)
		r = fold_array(&f->fold, f->fold.n_symbols, sizeof(*f->rank), "functions",
			       &f->end_rank);
	if (r == 0)
		r = fold_array(&f->fold, n * 2, sizeof(*order), "functions",
			       &order); /* as much for sorting */
	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_symbols, f);
	for (uint32_t i = 0; i < n; i++) {
		rank += i && compare_symbols(&order[i - 1], &order[i], f);
		(order[i] % 2 ? f->rank : f->end_rank)[order[i] / 2] = rank;
	}
	return fold_hold(&f->fold, -(int64_t)((n * 2 + 1) * sizeof(*order)), "");
}

static const char *thread_text(const struct folded *f, uint32_t thread, struct buffer *to)
{
	char name[32];

	to->len = 0;
	append_name(to, fold_thread_name(&f->fold, thread, name));
	buffer_append(to, ";", 2); /* and the NUL */
	return to->bad ? "" : (const char *)to->data;
}

/* Cleaned names of threads, each once, and the name that each thread has. */
struct thread_names {
	struct string_table names;
	uint32_t *by_thread;
};

static void thread_names_deinit(struct thread_names *t)
{
	string_table_deinit(&t->names);
	free(t->by_thread);
}

static int compare_texts(const void *a, const void *b, void *names)
{
	return strcmp(string_table_text(names, *(const uint32_t *)a),
		      string_table_text(names, *(const uint32_t *)b));
}

static int name_threads(struct folded *f, struct thread_names *t)
{
	_cleanup_(buffer_deinit) struct buffer text = {0};
	size_t n = f->fold.profile->n_threads;
	bool is_new;
	int r = fold_array(&f->fold, n, sizeof(*t->by_thread), "threads", &t->by_thread);

	for (uint32_t i = 0; i < n && r == 0; i++) {
		const char *name = thread_text(f, i, &text);

		r = text.bad ? fail(-ENOMEM)
			     : string_table_add(&t->names, name, strlen(name), &t->by_thread[i],
						&is_new);
		if (r == 0 && is_new)
			r = fold_hold(&f->fold, (int64_t)text.len + 64, "names of threads");
	}
	return r < 0 ? trace(r) : 0;
}

static int rank_threads(struct folded *f)
{
	_cleanup_(thread_names_deinit) struct thread_names t = {0};
	_cleanup_(freep) uint32_t *order = NULL;
	int64_t held = (int64_t)f->fold.held;
	int r = name_threads(f, &t);
	size_t n = t.names.n_entries;

	if (r == 0)
		r = fold_array(&f->fold, n * 3, sizeof(*order), "names of threads", &order);
	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i + 1;
	qsort_r(order, n, sizeof(*order), compare_texts, &t.names);
	for (uint32_t i = 0; i < n; i++) /* the second third: rank by id */
		order[n + order[i]] = i;
	for (size_t i = 0; i < f->fold.profile->n_threads; i++)
		t.by_thread[i] = order[n + t.by_thread[i]];
	f->thread_rank = take(t.by_thread);
	r = fold_hold(&f->fold, held - (int64_t)f->fold.held, "");
	return r < 0 ? trace(r)
		     : fold_hold(&f->fold, (int64_t)(f->fold.profile->n_threads * sizeof(uint32_t)),
				 "threads");
}

/* ---- the order of groups ---- */

/* By node: its root; error frames are none, so that of nodes above them is the next one. */
static int find_roots(struct folded *f, uint32_t **ret_roots)
{
	const struct profile *p = f->fold.profile;
	int r = fold_array(&f->fold, p->n_nodes, sizeof(**ret_roots),
			   "different calls in its stacks", ret_roots);

	for (uint32_t i = 0; i < p->n_nodes && r == 0; i++) {
		uint32_t up = p->nodes[i].up;

		(*ret_roots)[i] =
			up == UINT32_MAX || fold_is_error(&f->fold, up) ? i : (*ret_roots)[up];
	}
	return r < 0 ? trace(r) : 0;
}

static struct group_key key_of(const struct folded *f, const struct fold_group *g,
			       const uint32_t *roots)
{
	const struct fold *fold = &f->fold;
	bool has_stack = g->stack != UINT32_MAX && !fold_is_error(fold, g->stack);
	uint32_t symbol = g->marker, frame, root;
	bool last = !has_stack;

	if (symbol == UINT32_MAX) {
		root = roots[g->stack];
		frame = fold->profile->nodes[root].frame;
		symbol = fold_call_symbol(fold->calls[fold->first_call[frame + 1] - 1]);
		last = root == g->stack &&
		       fold->first_call[frame + 1] - fold->first_call[frame] == 1;
	}
	return (struct group_key){f->thread_rank[g->thread],
				  last ? f->end_rank[symbol] : f->rank[symbol]};
}

static int compare_keys(const struct folded *f, uint32_t a, uint32_t b)
{
	return ascend(f->keys[a].thread, f->keys[b].thread) ?:
	       ascend(f->keys[a].first, f->keys[b].first) ?:
	       ascend(f->fold.groups[a].marker, f->fold.groups[b].marker);
}

static int compare_groups(const void *a, const void *b, void *folded)
{
	const struct folded *f = folded;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return compare_keys(f, x, y) ?: ascend(f->fold.groups[x].stack, f->fold.groups[y].stack);
}

static int order_groups(struct folded *f)
{
	const char *const what = "different stacks of threads";
	_cleanup_(freep) uint32_t *roots = NULL;
	size_t n = f->fold.n_groups;
	int r = fold_array(&f->fold, n, sizeof(*f->keys), what, &f->keys);

	if (r == 0)
		r = find_roots(f, &roots);
	for (uint32_t i = 0; i < n && r == 0; i++)
		f->keys[i] = key_of(f, &f->fold.groups[i], roots);
	if (r == 0)
		r = fold_order(&f->fold, compare_groups, f, &f->order);
	if (r < 0)
		return trace(r);
	return fold_hold(&f->fold, -(int64_t)((f->fold.profile->n_nodes + 1) * sizeof(*roots)), "");
}

/* ---- lines ---- */

static int put_line(struct folded *f, uint64_t count, uint64_t weight)
{
	char number[32];
	int n = snprintf(number, sizeof(number), " %llu\n",
			 (unsigned long long)(f->weight ? weight : count));

	(void)fwrite(f->line.data, 1, f->line.len, f->out);
	(void)fwrite(number, 1, (size_t)n, f->out);
	f->written += f->line.len + (size_t)n;
	return fold_limit(&f->fold, f->written, MAX_TEXT, "bytes of lines");
}

static int enter(void *arg, const struct walk_call *call)
{
	struct folded *f = arg;

	if (f->n_starts == f->room_starts && !array_grow(f->starts, f->room_starts, 256))
		return fail(-ENOMEM);
	f->starts[f->n_starts++] = f->line.len;
	buffer_append(&f->line, ";", 1);
	buffer_append(&f->line, f->texts.data + f->text_at[call->symbol],
		      f->text_at[call->symbol + 1] - f->text_at[call->symbol]);
	if (f->inlined && call->inlined)
		buffer_append(&f->line, "_[i]", 4);
	if (f->line.bad)
		return fail(-ENOMEM);
	if (f->line.len > LINE_MAX_BYTES)
		return fold_limit(&f->fold, f->line.len, LINE_MAX_BYTES, "bytes in a line");
	return call->self_count ? put_line(f, call->self_count, call->self_weight) : 0;
}

static void leave(void *arg)
{
	struct folded *f = arg;

	f->line.len = f->starts[--f->n_starts];
}

/* The groups of equal keys. */
static int put_groups(struct folded *f, const uint32_t *order, size_t n)
{
	const struct walk_visitor visitor = {
		.rank = f->rank, .end_rank = f->end_rank, .enter = enter, .leave = leave, .arg = f};
	const struct fold_group *first = &f->fold.groups[order[0]];
	char name[32];

	f->line.len = 0;
	append_name(&f->line, fold_thread_name(&f->fold, first->thread, name));
	return walk_marked(&f->walk, order, n, &visitor);
}

static int put_all(struct folded *f)
{
	size_t n = f->fold.n_groups;
	int r = 0;

	for (size_t first = 0, end; first < n && r == 0; first = end) {
		for (end = first + 1; end < n && !compare_keys(f, f->order[first], f->order[end]);
		     end++)
			;
		r = put_groups(f, f->order + first, end - first);
	}
	return r < 0 ? trace(r) : text_finish(f->out);
}

int export_folded(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(folded_deinit) struct folded f = {.out = out,
						    .weight = options && options->weight,
						    .inlined = options && options->inlined};
	int r;

	r = fold_init(&f.fold, profile, options ? &options->only : NULL);
	if (r == 0)
		r = clean_names(&f);
	if (r == 0)
		r = rank_symbols(&f);
	if (r == 0)
		r = rank_threads(&f);
	if (r == 0)
		r = order_groups(&f);
	if (r == 0)
		r = walk_init(&f.walk, &f.fold);
	return r < 0 ? trace(r) : put_all(&f);
}
