/* html.c - one self-contained flame graph page.  Thread: main.
 *
 * The page is built in: flame.html, its style and its program (three files, one behind the other;
 * no library). Its marks are replaced here:
 *   @STYLE@, @SCRIPT@  by those files
 *   @TITLE@  as HTML text
 *   @DATA@   one JSON object, in an element that is never run:
 *     title, event, unit, base, facts [[label, value, warn]...], notes [text...]
 *     names    process and thread names
 *     modules  paths;  kernel: indices of the kernel's
 *     fn, fm, fk  by function: name, module (-1: none), kind (fold_kind)
 *     kinds, fl  the kinds of code (protos/frame-kind.h), and the kind of each function; absent when all are
 *              native
 *     threads  [pid, tid, name of the process, of the thread, number of nodes], heaviest process first
 *     up, f, c, w  by node, all threads one behind the other, each a forest in preorder:
 *              up  levels to climb from the node before to the parent
 *              f   function; -1 - function when it is an inlined call
 *              c   own samples;  w  own weight less c * base (of most events nearly always 0)
 *     guessed  nodes that were found without unwind information or by an earlier stack; absent when
 *              there are none
 *
 * Sums, merging and inversion are the page's work, so that a big profile stays a small file.
 *
 * Nodes are visited once, in preorder, and kept as a few bytes each until their array is written. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/column.h"
#include "profile/profile-export.h"
#include "profile/summary.h"
#include "profile/profile-text.h"
#include "profile/walk.h"

/* Found from the root, where the build runs. */
__asm__(".pushsection .rodata\n"
	"flame_html: .incbin \"profile/flame.html\"\n"
	"flame_html_end:\n"
	"flame_css: .incbin \"profile/flame.css\"\n"
	"flame_css_end:\n"
	"flame_js: .incbin \"profile/flame-view.js\"\n"
	"	.incbin \"profile/flame-draw.js\"\n"
	"	.incbin \"profile/flame-page.js\"\n"
	"flame_js_end: .byte 0\n"
	".popsection\n");
enum { FLUSH = 1 << 20 };
extern const char flame_html[], flame_html_end[], flame_css[], flame_css_end[], flame_js[],
	flame_js_end[];

/* Their distance; as numbers, for they are objects of their own to a compiler. */
#define SIZE_OF(name) ((size_t)((uintptr_t)name##_end - (uintptr_t)name))

struct html_thread {
	uint32_t process, thread, n_nodes;
	uint32_t first, n; /* in order */
	uint64_t weight, count, process_weight, process_count;
};

struct html {
	struct fold fold;
	struct walk walk;
	struct string_table names;
	struct html_thread *threads;
	uint32_t *order;  /* groups, by thread, marker, stack */
	uint32_t *number; /* by symbol: its number in the page, from 1; 0: not used */
	uint32_t *used;	  /* by number: the symbol */
	struct column up, function, count, weight, guessed;
	uint64_t columns_held;
	uint32_t n_threads, n_used, n_nodes;
	uint32_t climb; /* levels left since the last node */
	uint64_t base;
	FILE *file;
	uint64_t written;
	struct buffer out; /* not yet in the file */
};

static void html_deinit(struct html *h)
{
	struct column *const columns[] = {&h->up, &h->function, &h->count, &h->weight, &h->guessed};

	walk_deinit(&h->walk);
	fold_deinit(&h->fold);
	string_table_deinit(&h->names);
	free(h->threads);
	free(h->order);
	free(h->number);
	free(h->used);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		column_deinit(columns[i]);
	buffer_deinit(&h->out);
}

static void flush(struct html *h, bool all)
{
	if (h->out.len < FLUSH && !all)
		return;
	(void)fwrite(h->out.data, 1, h->out.len, h->file);
	h->written += h->out.len;
	h->out.len = 0;
}

static void put(struct html *h, const char *text)
{
	buffer_append(&h->out, text, strlen(text));
}

/* Cleaned: controls and marks that turn the direction of text would garble the page, though not
 * escape it. */
static void put_string(struct html *h, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};

	text_clean(&clean, text);
	if (clean.bad)
		h->out.bad = true;
	text_json(&h->out, clean.len ? (const char *)clean.data : "", clean.len);
	flush(h, false);
}

/* Numbers are most of the file: no printf. */
static void put_number(struct html *h, bool first, int64_t value)
{
	char text[24];
	size_t at = sizeof(text);
	uint64_t v = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	do
		text[--at] = (char)('0' + v % 10);
	while (v /= 10);
	if (value < 0)
		text[--at] = '-';
	if (!first)
		text[--at] = ',';
	buffer_append(&h->out, text + at, sizeof(text) - at);
	flush(h, false);
}

static void put_column(struct html *h, const struct column *column)
{
	struct column_reader r = column_read(column);

	for (uint32_t i = 0; i < h->n_nodes; i++)
		put_number(h, !i, column_next(&r));
}

/* ---- nodes ---- */

static int enter(void *arg, const struct walk_call *call)
{
	struct html *h = arg;
	uint32_t *number = &h->number[call->symbol];
	int64_t function;
	uint64_t bytes;
	int r;

	if (!*number) {
		h->used[h->n_used++] = call->symbol;
		*number = h->n_used;
	}
	function = (int64_t)*number - 1;
	column_add(&h->up, h->climb);
	column_add(&h->function, call->inlined ? -1 - function : function);
	column_add(&h->count, (int64_t)call->self_count);
	column_add(&h->weight, (int64_t)(call->self_weight - call->self_count * h->base));
	column_add(&h->guessed, call->guessed);
	h->climb = 0;
	h->n_nodes++;
	if (h->up.bytes.bad || h->function.bytes.bad || h->count.bytes.bad || h->weight.bytes.bad ||
	    h->guessed.bytes.bad)
		return fail(-ENOMEM);
	bytes = h->up.bytes.len + h->function.bytes.len + h->count.bytes.len + h->weight.bytes.len +
		h->guessed.bytes.len;
	if (bytes - h->columns_held < FLUSH)
		return 0;
	r = fold_hold(&h->fold, (int64_t)(bytes - h->columns_held), "calls in its trees");
	h->columns_held = bytes;
	return r < 0 ? trace(r) : 0;
}

static void leave(void *arg)
{
	((struct html *)arg)->climb++;
}

static int compare_groups(const void *a, const void *b, void *html)
{
	const struct html *h = html;
	const struct fold_group *x = &h->fold.groups[*(const uint32_t *)a],
				*y = &h->fold.groups[*(const uint32_t *)b];

	return ascend(x->thread, y->thread) ?:
	       ascend(x->marker, y->marker) ?:
	       ascend(x->stack, y->stack);
}

/* The heaviest process first, and in it the heaviest thread. */
static int compare_threads(const void *a, const void *b)
{
	const struct html_thread *x = a, *y = b;

	return ascend(y->process_weight, x->process_weight) ?:
	       ascend(y->process_count, x->process_count) ?:
	       ascend(x->process, y->process) ?:
	       ascend(y->weight, x->weight) ?:
	       ascend(y->count, x->count) ?:
	       ascend(x->thread, y->thread);
}

/* Sums by process go to its first thread, then to all. */
static int sum_processes(struct html *h)
{
	_cleanup_(freep) struct html_thread **first = NULL;
	int r = fold_array(&h->fold, h->fold.profile->n_processes, sizeof(struct html_thread *),
			   "processes", &first);

	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < h->n_threads; i++) {
		struct html_thread *t = &h->threads[i], **of = &first[t->process];

		*of = *of ? *of : t;
		(*of)->process_weight += t->weight;
		(*of)->process_count += t->count;
	}
	for (uint32_t i = 0; i < h->n_threads; i++) {
		struct html_thread *t = &h->threads[i];

		t->process_weight = first[t->process]->process_weight;
		t->process_count = first[t->process]->process_count;
	}
	return 0;
}

static int find_threads(struct html *h)
{
	size_t n = h->fold.n_groups;
	struct html_thread *t = NULL;
	int r = fold_order(&h->fold, compare_groups, h, &h->order);

	for (uint32_t i = 0; i < n && r == 0; i++) /* groups are by process and thread */
		h->n_threads += !i || h->fold.groups[i - 1].thread != h->fold.groups[i].thread;
	if (r == 0) /* and as much for sorting */
		r = fold_hold(&h->fold, (int64_t)(h->n_threads * sizeof(*t)), "threads");
	if (r == 0)
		r = fold_array(&h->fold, h->n_threads, sizeof(*t), "threads", &h->threads);
	if (r < 0)
		return trace(r);
	h->n_threads = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct fold_group *g = &h->fold.groups[h->order[i]];

		if (!t || t->thread != g->thread) {
			t = &h->threads[h->n_threads++];
			t->thread = g->thread;
			t->process = fold_process(&h->fold, g);
			t->first = i;
		}
		t->n++;
		t->weight += g->weight;
		t->count += g->count;
	}
	r = sum_processes(h);
	if (r < 0)
		return trace(r);
	qsort(h->threads, h->n_threads, sizeof(*h->threads), compare_threads);
	return 0;
}

static int visit_threads(struct html *h)
{
	const struct walk_visitor visitor = {.enter = enter, .leave = leave, .arg = h};
	int r = 0;

	for (uint32_t i = 0; i < h->n_threads && r == 0; i++) {
		struct html_thread *t = &h->threads[i];
		uint32_t before = h->n_nodes;

		h->climb = 0;
		r = walk_marked(&h->walk, h->order + t->first, t->n, &visitor);
		t->n_nodes = h->n_nodes - before;
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- the page ---- */

static int compare_weights(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return ascend(x, y);
}

/* The weight that most samples have: the median of the groups' means. */
static int find_base(struct html *h)
{
	int64_t bytes =
		(int64_t)(h->fold.n_groups * 2 * sizeof(uint64_t)); /* half of it for sorting */
	_cleanup_(freep) uint64_t *means = NULL;
	int r = fold_hold(&h->fold, bytes, "different stacks of threads");

	if (r < 0)
		return trace(r);
	means = calloc(h->fold.n_groups + 1, sizeof(*means));
	if (!means)
		return fail(-ENOMEM);
	for (size_t i = 0; i < h->fold.n_groups; i++)
		means[i] = h->fold.groups[i].weight / h->fold.groups[i].count;
	qsort(means, h->fold.n_groups, sizeof(*means), compare_weights);
	h->base = min_u64(means[h->fold.n_groups / 2], 1ull << 40);
	return fold_hold(&h->fold, -bytes, "");
}

static void put_head(struct html *h, const struct export_options *options)
{
	const struct profile *p = h->fold.profile;
	struct summary summary;

	summary_init(&summary, &h->fold);
	put(h, "{\"title\":");
	put_string(h, options && options->title ? fold_base_name(options->title) : "profile");
	put(h, ",\"event\":");
	put_string(h, p->event_name);
	put(h, ",\"unit\":");
	put_string(h, p->weight_unit);
	buffer_printf(&h->out, ",\"base\":%llu,\"facts\":[", (unsigned long long)h->base);
	for (size_t i = 0; i < summary.n; i++) {
		put(h, i ? ",[" : "[");
		put_string(h, summary.facts[i].label);
		put(h, ",");
		put_string(h, summary.facts[i].value);
		put(h, summary.facts[i].warn ? ",1]" : ",0]");
	}
	put(h, "],\"notes\":[");
	for (size_t i = 0; i < p->n_notes; i++) {
		put(h, i ? "," : "");
		put_string(h, string_table_text(&p->strings, p->notes[i]));
	}
	put(h, "]");
}

static int add_name(struct html *h, const char *name, int64_t *ret_index)
{
	size_t len = strlen(name);
	bool is_new;
	uint32_t id;
	int r = string_table_add(&h->names, name, len, &id, &is_new);

	if (r >= 0 && is_new)
		r = fold_hold(&h->fold, (int64_t)len + 64, "names of threads");
	if (r < 0)
		return trace(r);
	*ret_index = (int64_t)id - 1;
	return 0;
}

static int put_thread(struct html *h, bool first, const struct html_thread *t)
{
	const struct profile *p = h->fold.profile;
	int64_t process_name, thread_name;
	char name[32];
	int r;

	r = add_name(h, fold_process_name(&h->fold, t->process, name), &process_name);
	if (r == 0)
		r = add_name(h, fold_thread_name(&h->fold, t->thread, name), &thread_name);
	if (r < 0)
		return trace(r);
	put(h, first ? "[" : ",[");
	put_number(h, true, p->processes[t->process].pid);
	put_number(h, false, p->threads[t->thread].tid);
	put_number(h, false, process_name);
	put_number(h, false, thread_name);
	put_number(h, false, t->n_nodes);
	put(h, "]");
	return 0;
}

static int put_threads(struct html *h)
{
	int r;

	put(h, ",\"threads\":[");
	for (uint32_t i = 0; i < h->n_threads; i++) {
		r = put_thread(h, !i, &h->threads[i]);
		if (r < 0)
			return trace(r);
	}
	put(h, "],\"names\":[");
	for (uint32_t id = 1; id <= h->names.n_entries; id++) {
		put(h, id > 1 ? "," : "");
		put_string(h, string_table_text(&h->names, id));
	}
	put(h, "]");
	return 0;
}

static void put_kinds(struct html *h)
{
	bool any = false;

	for (uint32_t i = 0; i < h->n_used; i++)
		any |= h->fold.symbols[h->used[i]].frame_kind != FRAME_NATIVE;
	if (!any)
		return;
	put(h, ",\"kinds\":[");
	for (unsigned kind = 0; kind < FRAME_KINDS; kind++) {
		put(h, kind ? "," : "");
		put_string(h, frame_kind_name(kind));
	}
	put(h, "],\"fl\":[");
	for (uint32_t i = 0; i < h->n_used; i++)
		put_number(h, !i, h->fold.symbols[h->used[i]].frame_kind);
	put(h, "]");
}

static void put_functions(struct html *h)
{
	const struct profile *p = h->fold.profile;
	bool first = true;

	put(h, ",\"modules\":[");
	for (size_t i = 0; i < p->n_modules; i++) {
		put(h, i ? "," : "");
		put_string(h, p->modules[i].path
				      ? string_table_text(&p->strings, p->modules[i].path)
				      : "");
	}
	put(h, "],\"kernel\":[");
	for (size_t i = 0; i < p->n_modules; i++)
		if (p->modules[i].kernel) {
			put_number(h, first, (int64_t)i);
			first = false;
		}
	put(h, "],\"fn\":[");
	for (uint32_t i = 0; i < h->n_used; i++) {
		put(h, i ? "," : "");
		put_string(h, fold_symbol_name(&h->fold, h->used[i]));
	}
	put(h, "],\"fm\":[");
	for (uint32_t i = 0; i < h->n_used; i++) {
		uint32_t module = h->fold.symbols[h->used[i]].module;

		put_number(h, !i, module < p->n_modules ? (int64_t)module : -1);
	}
	put(h, "],\"fk\":[");
	for (uint32_t i = 0; i < h->n_used; i++)
		put_number(h, !i, h->fold.symbols[h->used[i]].kind);
	put(h, "]");
	put_kinds(h);
}

static void put_guesses(struct html *h)
{
	struct column_reader r = column_read(&h->guessed);
	bool first = true;

	for (uint32_t i = 0; i < h->n_nodes; i++)
		if (column_next(&r)) {
			put(h, first ? ",\"guessed\":[" : "");
			put_number(h, first, i);
			first = false;
		}
	put(h, first ? "" : "]");
}

static void put_nodes(struct html *h)
{
	put(h, ",\"up\":[");
	put_column(h, &h->up);
	put(h, "],\"f\":[");
	put_column(h, &h->function);
	put(h, "],\"c\":[");
	put_column(h, &h->count);
	put(h, "],\"w\":[");
	put_column(h, &h->weight);
	put(h, "]");
	put_guesses(h);
	put(h, "}");
}

static int put_data(struct html *h, const struct export_options *options)
{
	int r;

	put_head(h, options);
	r = put_threads(h);
	if (r < 0)
		return trace(r);
	put_functions(h);
	put_nodes(h);
	flush(h, true);
	return h->out.bad ? fail(-ENOMEM) : 0;
}

static int html_prepare(struct html *h, const struct profile *profile,
			const struct export_options *options)
{
	int r = fold_init(&h->fold, profile, options ? &options->only : NULL);

	h->up.sparse = h->count.sparse = h->weight.sparse = h->guessed.sparse = true;
	if (r == 0)
		r = find_base(h);
	if (r == 0)
		r = find_threads(h);
	if (r == 0)
		r = fold_array(&h->fold, h->fold.n_symbols, sizeof(*h->number), "functions",
			       &h->number);
	if (r == 0)
		r = fold_array(&h->fold, h->fold.n_symbols, sizeof(*h->used), "functions",
			       &h->used);
	if (r == 0)
		r = walk_init(&h->walk, &h->fold);
	if (r == 0)
		r = visit_threads(h);
	return r < 0 ? trace(r) : 0;
}

/* Of the page, the next piece up to @mark (NULL: its end). */
static void write_up_to(struct html *h, const char **at, const char *mark)
{
	size_t left = SIZE_OF(flame_html) - (size_t)(*at - flame_html);
	const char *end = mark ? memmem(*at, left, mark, strlen(mark)) : *at + left;

	(void)fwrite(*at, 1, (size_t)(end - *at), h->file);
	*at = end + (mark ? strlen(mark) : 0);
}

/* The marks in their order. */
static int write_page(struct html *h, const struct export_options *options)
{
	const char *name = options && options->title ? fold_base_name(options->title) : "profile";
	const char *at = flame_html;
	int r;

	write_up_to(h, &at, "@TITLE@");
	text_html(&h->out, name, strlen(name));
	flush(h, true);
	write_up_to(h, &at, "@STYLE@");
	(void)fwrite(flame_css, 1, SIZE_OF(flame_css), h->file);
	write_up_to(h, &at, "@DATA@");
	r = put_data(h, options);
	if (r < 0)
		return trace(r);
	write_up_to(h, &at, "@SCRIPT@");
	(void)fwrite(flame_js, 1, SIZE_OF(flame_js), h->file);
	write_up_to(h, &at, NULL);
	return text_finish(h->file);
}

int export_html(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(html_deinit) struct html h = {.file = out};
	int r = html_prepare(&h, profile, options);

	return r < 0 ? trace(r) : write_page(&h, options);
}
