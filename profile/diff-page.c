/* diff-page.c - the flame graph of diff.h.
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
#include "profile/diff.h"
#include "profile/profile-text.h"

__asm__(".pushsection .rodata\n"
	"diff_page: .incbin \"profile/diff-page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char diff_page[];
#define DATA_MARK "@DATA@"

/* Narrower calls cannot be seen: a share of all. */
#define PAGE_MIN 0.0002

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

int diff_page_write(const struct diff *d, const char *const names[2], FILE *out)
{
	_cleanup_(freep) int64_t *numbers = number_nodes(&d->tree, d->scale);
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const char *mark = strstr(diff_page, DATA_MARK);

	if (!numbers)
		return fail(-ENOMEM);
	(void)fwrite(diff_page, 1, (size_t)(mark - diff_page), out);
	text_json_append(&b, "{\"a\": ", names[0]);
	text_json_append(&b, ",\n\"b\": ", names[1]);
	text_json_append(&b, ",\n\"unit\": ", d->unit);
	buffer_printf(&b, ",\n\"scale\": %.9g,\n\"names\": [", d->scale);
	for (uint32_t i = 1; i <= d->tree.names.n_entries; i++)
		text_json_append(&b, i > 1 ? "," : "", string_table_text(&d->tree.names, i));
	buffer_printf(&b, "],\n");
	put_nodes(&d->tree, numbers, &b);
	buffer_printf(&b, "}");
	if (b.bad)
		return fail(-ENOMEM);
	(void)fwrite(b.data, 1, b.len, out);
	fputs(mark + strlen(DATA_MARK), out);
	return text_finish(out);
}
