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
 *     threads  [pid, tid, name of the process, of the thread, number of nodes] heaviest process
 * first up, f, c, w  by node, all threads one behind the other, each a forest in preorder: up
 * levels to climb from the node before to the parent f   function; -1 - function when it is an
 * inlined call c   own samples;  w  own weight less c * base (of most events nearly always 0)
 *     guessed  nodes that were found without unwind information or by an earlier stack; not there when there are none
 * Sums, merging and inversion are the page's work, so that a big profile stays a small file. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "profile/calltree.h"
#include "profile/export.h"
#include "profile/summary.h"
#include "profile/text.h"

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
extern const char flame_html[], flame_html_end[], flame_css[], flame_css_end[], flame_js[],
	flame_js_end[];

/* Their distance; as numbers, for they are objects of their own to a compiler. */
#define SIZE_OF(name) ((size_t)((uintptr_t)name##_end - (uintptr_t)name))

struct html {
	struct fold fold;
	struct calltree tree;
	struct string_table names;
	uint32_t *order;  /* nodes in preorder, calls only */
	uint32_t *number; /* by symbol: its number in the page, from 1; 0: not used */
	uint32_t *used;	  /* by number: the symbol */
	uint32_t n_order, n_used;
	uint32_t *up; /* by order */
	uint64_t base;
	struct buffer out;
};

static void html_deinit(struct html *h)
{
	fold_deinit(&h->fold);
	calltree_deinit(&h->tree);
	string_table_deinit(&h->names);
	free(h->order);
	free(h->number);
	free(h->used);
	free(h->up);
	buffer_deinit(&h->out);
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
}

/* The nodes below @top in preorder, with their climbs.  No recursion: stacks are deep. */
static uint32_t order_nodes(struct html *h, uint32_t top)
{
	const struct calltree_node *nodes = h->tree.nodes;
	uint32_t n = 0, at = nodes[top].child, climb = 0;

	while (at) {
		uint32_t symbol = nodes[at].id;

		if (!h->number[symbol]) {
			h->used[h->n_used++] = symbol;
			h->number[symbol] = h->n_used;
		}
		h->up[h->n_order] = climb;
		h->order[h->n_order++] = at;
		n++;
		climb = 0;
		if (nodes[at].child) {
			at = nodes[at].child;
			continue;
		}
		climb = 1;
		while (!nodes[at].next && nodes[at].parent != top) {
			at = nodes[at].parent;
			climb++;
		}
		at = nodes[at].next;
	}
	return n;
}

static int compare_weights(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The weight that most samples have: the median of the groups' means. */
static int find_base(struct html *h)
{
	_cleanup_(freep) uint64_t *means = calloc(h->fold.n_groups + 1, sizeof(*means));

	if (!means)
		return fail(-ENOMEM);
	for (size_t i = 0; i < h->fold.n_groups; i++)
		means[i] = h->fold.groups[i].weight / h->fold.groups[i].count;
	qsort(means, h->fold.n_groups, sizeof(*means), compare_weights);
	h->base = min_u64(means[h->fold.n_groups / 2], 1ull << 40);
	return 0;
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
	uint32_t id;
	int r = string_table_add(&h->names, name, strlen(name), &id, NULL);

	if (r < 0)
		return trace(r);
	*ret_index = (int64_t)id - 1;
	return 0;
}

static int put_thread(struct html *h, bool first, uint32_t process, uint32_t thread)
{
	const struct profile *p = h->fold.profile;
	uint32_t process_id = h->tree.nodes[process].id, thread_id = h->tree.nodes[thread].id;
	int64_t process_name, thread_name;
	char name[32];
	int r;

	r = add_name(h, fold_process_name(&h->fold, process_id, name), &process_name);
	if (r == 0)
		r = add_name(h, fold_thread_name(&h->fold, thread_id, name), &thread_name);
	if (r < 0)
		return trace(r);
	put(h, first ? "[" : ",[");
	put_number(h, true, p->processes[process_id].pid);
	put_number(h, false, p->threads[thread_id].tid);
	put_number(h, false, process_name);
	put_number(h, false, thread_name);
	put_number(h, false, order_nodes(h, thread));
	put(h, "]");
	return 0;
}

static int put_threads(struct html *h)
{
	bool first = true;
	int r;

	put(h, ",\"threads\":[");
	calltree_for_each_child(&h->tree, 0, process)
		calltree_for_each_child(&h->tree, process, thread)
	{
		r = put_thread(h, first, process, thread);
		if (r < 0)
			return trace(r);
		first = false;
	}
	put(h, "],\"names\":[");
	for (uint32_t id = 1; id <= h->names.n_entries; id++) {
		put(h, id > 1 ? "," : "");
		put_string(h, string_table_text(&h->names, id));
	}
	put(h, "]");
	return 0;
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
}

static void put_guesses(struct html *h)
{
	bool first = true;

	for (uint32_t i = 0; i < h->n_order; i++)
		if (h->tree.nodes[h->order[i]].guessed) {
			put(h, first ? ",\"guessed\":[" : "");
			put_number(h, first, i);
			first = false;
		}
	put(h, first ? "" : "]");
}

static void put_nodes(struct html *h)
{
	put(h, ",\"up\":[");
	for (uint32_t i = 0; i < h->n_order; i++)
		put_number(h, !i, h->up[i]);
	put(h, "],\"f\":[");
	for (uint32_t i = 0; i < h->n_order; i++) {
		const struct calltree_node *n = &h->tree.nodes[h->order[i]];
		int64_t function = (int64_t)h->number[n->id] - 1;

		put_number(h, !i, n->inlined ? -1 - function : function);
	}
	put(h, "],\"c\":[");
	for (uint32_t i = 0; i < h->n_order; i++)
		put_number(h, !i, (int64_t)h->tree.nodes[h->order[i]].self_count);
	put(h, "],\"w\":[");
	for (uint32_t i = 0; i < h->n_order; i++) {
		const struct calltree_node *n = &h->tree.nodes[h->order[i]];

		put_number(h, !i, (int64_t)(n->self_weight - n->self_count * h->base));
	}
	put(h, "]");
	put_guesses(h);
	put(h, "}");
}

static int put_data(struct html *h, const struct export_options *options)
{
	int r = find_base(h);

	if (r < 0)
		return trace(r);
	put_head(h, options);
	r = put_threads(h);
	if (r < 0)
		return trace(r);
	put_functions(h);
	put_nodes(h);
	return h->out.bad ? fail(-ENOMEM) : 0;
}

static int html_prepare(struct html *h, const struct profile *profile,
			const struct export_options *options)
{
	int r = fold_init(&h->fold, profile, options ? &options->only : NULL);

	if (r == 0)
		r = calltree_init(&h->tree, &h->fold, true, true);
	if (r < 0)
		return trace(r);
	h->order = calloc(h->tree.n_nodes, sizeof(*h->order));
	h->up = calloc(h->tree.n_nodes, sizeof(*h->up));
	h->number = calloc((size_t)h->fold.n_symbols + 1, sizeof(*h->number));
	h->used = calloc((size_t)h->fold.n_symbols + 1, sizeof(*h->used));
	return h->order && h->up && h->number && h->used ? 0 : fail(-ENOMEM);
}

struct part {
	const char *mark; /* what it replaces; NULL: the end */
	const void *data;
	size_t len;
};

/* @parts in the order of their marks. */
static void write_page(const struct part *parts, FILE *out)
{
	const char *at = flame_html;
	size_t left = SIZE_OF(flame_html);

	for (;; parts++) {
		const char *end = parts->mark ? memmem(at, left, parts->mark, strlen(parts->mark))
					      : at + left;

		(void)fwrite(at, 1, (size_t)(end - at), out);
		if (!parts->mark)
			return;
		(void)fwrite(parts->data, 1, parts->len, out);
		left -= (size_t)(end - at) + strlen(parts->mark);
		at = end + strlen(parts->mark);
	}
}

int export_html(const struct profile *profile, const struct export_options *options, FILE *out)
{
	const char *name = options && options->title ? fold_base_name(options->title) : "profile";
	_cleanup_(buffer_deinit) struct buffer title = {0};
	_cleanup_(html_deinit) struct html h = {0};
	int r;

	r = html_prepare(&h, profile, options);
	if (r == 0)
		r = put_data(&h, options);
	if (r < 0)
		return trace(r);
	text_html(&title, name, strlen(name));
	if (title.bad)
		return fail(-ENOMEM);
	write_page((const struct part[]){{"@TITLE@", title.data, title.len},
					 {"@STYLE@", flame_css, SIZE_OF(flame_css)},
					 {"@DATA@", h.out.data, h.out.len},
					 {"@SCRIPT@", flame_js, SIZE_OF(flame_js)},
					 {0}},
		   out);
	return export_finish(out);
}
