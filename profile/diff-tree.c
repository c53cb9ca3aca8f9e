/* diff-tree.c - see diff-tree.h.
 *
 * The page is built in: diff-page.html, in which @DATA@ is replaced by one JSON object, in an element that is never run:
 *   a, b       names of the files;  unit; scale (of B)
 *   names      texts
 *   up, name, wa, wb   by node: the parent (-1: none), a text, weights with all below in A and B; a parent is before its
 *              children */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/diff-tree.h"
#include "profile/profile-text.h"

__asm__(".pushsection .rodata\n"
	"diff_page: .incbin \"profile/diff-page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char diff_page[];
#define DATA_MARK "@DATA@"

/* Narrower calls cannot be seen: a share of all. */
#define PAGE_MIN 0.0002

void diff_tree_deinit(struct diff_tree *t)
{
	string_table_deinit(&t->names);
	table_deinit(&t->children);
	free(t->nodes);
	*t = (struct diff_tree){.n = 0};
}

static int add_node(struct diff_tree *t, struct fold *f, uint32_t up, uint32_t name,
		    uint32_t *ret_node)
{
	uint64_t key = (uint64_t)(up + 1) << 32 | name, found;
	int r;

	if (table_get(&t->children, key, &found)) {
		*ret_node = (uint32_t)found;
		return 0;
	}
	r = fold_limit(f, t->n + 1, DIFF_TREE_NODES, "call paths");
	if (r >= 0 && t->n == t->room) {
		size_t room = t->room ? t->room * 2 : 1024;
		struct diff_tree_node *more = reallocarray(t->nodes, room, sizeof(*more));

		r = more ? 0 : fail(-ENOMEM);
		t->nodes = more ? more : t->nodes;
		t->room = more ? room : t->room;
	}
	if (r >= 0)
		r = table_put(&t->children, key, t->n);
	if (r < 0)
		return trace(r);
	*ret_node = (uint32_t)t->n;
	t->nodes[t->n++] = (struct diff_tree_node){.up = up, .name = name};
	return 0;
}

static int add_name(struct diff_tree *t, const char *name, uint32_t *ret)
{
	return string_table_add(&t->names, name, strlen(name), ret, NULL);
}

static int add_group(struct diff_tree *t, struct fold *f, const struct fold_group *g,
		     const uint32_t *calls, size_t n, size_t which)
{
	uint32_t up = UINT32_MAX, name;
	char process[32];
	int r = add_name(t, fold_process_name(f, fold_process(f, g), process), &name);

	for (size_t i = 0; r >= 0; i++) {
		r = add_node(t, f, up, name, &up);
		if (r < 0)
			break;
		t->nodes[up].count[which] += g->count;
		t->nodes[up].weight[which] += g->weight;
		if (i == n) {
			t->nodes[up].self_count[which] += g->count;
			t->nodes[up].self_weight[which] += g->weight;
			return 0;
		}
		r = add_name(t, fold_symbol_name(f, fold_call_symbol(calls[i])), &name);
	}
	return trace(r);
}

int diff_tree_add(struct diff_tree *t, struct fold *f, size_t which)
{
	_cleanup_(freep) uint32_t *calls = calloc(f->max_depth + 1, sizeof(*calls));
	int r = calls ? 0 : fail(-ENOMEM);

	for (size_t i = 0; i < f->n_groups && r >= 0; i++)
		r = add_group(t, f, &f->groups[i], calls, fold_stack(f, &f->groups[i], calls),
			      which);
	return r < 0 ? trace(r) : 0;
}

void diff_tree_path(const struct diff_tree *t, uint32_t node, size_t most, struct buffer *to)
{
	size_t depth = 0;

	for (uint32_t i = node; i != UINT32_MAX; i = t->nodes[i].up)
		depth++;
	most = most && most < depth ? most : depth;
	if (most < depth)
		buffer_printf(to, "...;");
	for (size_t left = most; left; left--) {
		uint32_t at = node;

		for (size_t i = 1; i < left; i++)
			at = t->nodes[at].up;
		buffer_printf(to, "%s%s", left < most ? ";" : "",
			      string_table_text(&t->names, t->nodes[at].name));
	}
}

/* ---- the page ---- */

static void put_text(struct buffer *b, const char *key, const char *text)
{
	buffer_printf(b, "\"%s\": ", key);
	text_json(b, text, strlen(text));
	buffer_printf(b, ",\n");
}

/* By node: its number on the page; -1: too narrow.  @scale: of B. */
static int64_t *number_nodes(const struct diff_tree *t, double scale)
{
	int64_t *numbers = calloc(t->n + 1, sizeof(*numbers)), n = 0;
	double all = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->nodes[i].up == UINT32_MAX)
			all += (double)t->nodes[i].weight[0] +
			       scale * (double)t->nodes[i].weight[1];
	for (size_t i = 0; i < t->n && numbers; i++) {
		const struct diff_tree_node *node = &t->nodes[i];
		double width = (double)node->weight[0] + scale * (double)node->weight[1];

		/* A child is never wider than its parent, which is before it. */
		numbers[i] = width >= PAGE_MIN * all ? n++ : -1;
	}
	return numbers;
}

static void put_nodes(const struct diff_tree *t, const int64_t *numbers, struct buffer *b)
{
	static const char *const keys[] = {"up", "name", "wa", "wb"};

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		const char *comma = "";

		buffer_printf(b, "\"%s\": [", keys[k]);
		for (size_t i = 0; i < t->n; i++) {
			const struct diff_tree_node *node = &t->nodes[i];

			if (numbers[i] < 0)
				continue;
			buffer_printf(b, "%s%" PRId64, comma,
				      k == 0   ? node->up == UINT32_MAX ? -1 : numbers[node->up]
					: k == 1 ? (int64_t)node->name - 1
					       : (int64_t)node->weight[k - 2]);
			comma = ",";
		}
		buffer_printf(b, "]%s\n", k + 1 < ARRAY_SIZE(keys) ? "," : "");
	}
}

int diff_tree_page(const struct diff_tree *t, const struct diff_page *page, FILE *out)
{
	_cleanup_(freep) int64_t *numbers = number_nodes(t, page->scale);
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const char *mark = strstr(diff_page, DATA_MARK);

	if (!numbers)
		return fail(-ENOMEM);
	(void)fwrite(diff_page, 1, (size_t)(mark - diff_page), out);
	buffer_printf(&b, "{");
	put_text(&b, "a", page->names[0]);
	put_text(&b, "b", page->names[1]);
	put_text(&b, "unit", page->unit);
	buffer_printf(&b, "\"scale\": %.9g,\n\"names\": [", page->scale);
	for (uint32_t i = 1; i <= t->names.n_entries; i++) {
		const char *name = string_table_text(&t->names, i);

		buffer_printf(&b, "%s", i > 1 ? "," : "");
		text_json(&b, name, strlen(name));
	}
	buffer_printf(&b, "],\n");
	put_nodes(t, numbers, &b);
	buffer_printf(&b, "}");
	if (b.bad)
		return fail(-ENOMEM);
	(void)fwrite(b.data, 1, b.len, out);
	fputs(mark + strlen(DATA_MARK), out);
	return text_finish(out);
}
