/* report-tree.c - the call tree on a terminal.  Thread: main.
 *
 *   total %  self %      time    samples
 *    100.00    0.00   12.43 s     12,431  python3 (4242)
 *    100.00    0.00   12.43 s     12,431  └─ _start
 *     99.10    0.02   12.31 s     12,301     main          a chain is not indented
 *     60.00    1.00    7.40 s      7,400     ├─ run
 *     55.00   55.00    6.80 s      6,800     │  eval
 *     39.10   39.10    4.91 s      4,901     └─ load
 *
 * A name with " ?" behind it was found by its frame pointer alone, at least in some of the stacks.
 *
 * Walked with a stack of its own: a tree is as deep as the deepest stack of calls. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/calltree.h"
#include "profile/report.h"

enum { MIN_NAME = 24, NUMBERS = 7 + 8 + 10 + 11 + 2, INDENT = 3 };

struct level { /* to be visited */
	uint32_t node;
	uint32_t indent; /* marks drawn before it */
};
struct walk {
	struct report *report;
	struct calltree tree;
	struct level *stack;
	size_t n, room;
	struct buffer bars; /* by indent: is a vertical bar drawn there */
	uint64_t least;	    /* lighter branches are left out */
	uint32_t n_printed, limit;
	bool more; /* the limit cut something */
};

static void walk_deinit(struct walk *w)
{
	calltree_deinit(&w->tree);
	free(w->stack);
	buffer_deinit(&w->bars);
}

static bool is_shown(const struct walk *w, uint32_t node)
{
	return w->tree.nodes[node].weight >= w->least && w->tree.nodes[node].count;
}

static uint32_t next_shown(const struct walk *w, uint32_t node)
{
	for (; node; node = w->tree.nodes[node].next)
		if (is_shown(w, node))
			return node;
	return 0;
}

static void print_node_name(struct walk *w, const struct calltree_node *n, uint32_t indent)
{
	struct report *report = w->report;
	const struct fold *f = &report->fold;
	int width = report->options->width - NUMBERS - (int)(indent * INDENT);
	size_t columns =
		report->options->width <= 0 ? 0 : (size_t)(width < MIN_NAME ? MIN_NAME : width);
	enum fold_kind kind;
	char name[32];

	if (n->guessed && columns)
		columns -= 2;
	if (n->kind == CALLTREE_PROCESS) {
		char pid[32];
		int len = snprintf(pid, sizeof(pid), " (%u)", f->profile->processes[n->id].pid);

		report_name(report, COLOUR_BOLD, fold_process_name(f, n->id, name), columns, 0);
		report_colour(report, COLOUR_DIM, pid, (size_t)len);
		return;
	}
	kind = f->symbols[n->id].kind;
	report_name(report,
		    kind == FOLD_KERNEL	  ? COLOUR_KERNEL
		    : kind == FOLD_MARKER ? COLOUR_WARN
					  : COLOUR_NONE,
		    fold_symbol_name(f, n->id), columns, 0);
	if (n->guessed)
		report_colour(report, COLOUR_WARN, " ?", 2);
}

/* @branch: has brothers or begins a level, and so a mark of its own; @last of them. */
static void print_node(struct walk *w, uint32_t node, uint32_t indent, bool branch, bool last)
{
	struct report *report = w->report;
	const struct calltree_node *n = &w->tree.nodes[node];
	char number[32];

	report_percent(report, n->weight, report->fold.weight);
	buffer_printf(&report->out, " %7.2f", text_percent(n->self_weight, report->fold.weight));
	buffer_printf(&report->out, " %9s",
		      text_weight(n->weight, report->fold.profile->weight_unit, number));
	buffer_printf(&report->out, " %10s  ", text_count(n->count, number));
	for (uint32_t i = 0; i < indent; i++) {
		const char *mark = w->bars.data[i] ? "│  " : "   ";

		if (branch && i + 1 == indent)
			mark = last ? "└─ " : "├─ ";
		report_colour(report, COLOUR_DIM, mark, strlen(mark));
	}
	print_node_name(w, n, indent);
	buffer_append(&report->out, "\n", 1);
	w->n_printed++;
}

static int push(struct walk *w, uint32_t node, uint32_t indent)
{
	if (w->n == w->room) {
		size_t room = w->room ? w->room * 2 : 256;
		struct level *more = reallocarray(w->stack, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		w->stack = more;
		w->room = room;
	}
	w->stack[w->n++] = (struct level){node, indent};
	return 0;
}

/* Prints @node, which is child of a node whose children stand at @indent; returns its children's
 * indent. */
static uint32_t visit(struct walk *w, uint32_t node, uint32_t indent)
{
	const struct calltree_node *n = &w->tree.nodes[node];
	uint32_t first = next_shown(w, w->tree.nodes[n->parent].child);
	bool last = !next_shown(w, n->next), alone = first == node && last;
	/* A chain goes on below its first link: only a fork, or the first below a process, is a
	 * branch. */
	bool branch = indent && (!alone || w->tree.nodes[n->parent].kind == CALLTREE_PROCESS);

	while (w->bars.len <= indent + 1)
		buffer_append(&w->bars, "", 1);
	if (w->bars.bad)
		return indent;
	print_node(w, node, indent, branch, last);
	if (branch)
		w->bars.data[indent - 1] = !last;
	first = next_shown(w, n->child);
	if (!first)
		return indent;
	return n->kind == CALLTREE_PROCESS || next_shown(w, w->tree.nodes[first].next) ? indent + 1
										       : indent;
}

static int walk_tree(struct walk *w)
{
	uint32_t first = next_shown(w, w->tree.nodes[0].child);
	int r = first ? push(w, first, 0) : 0;

	while (w->n && r == 0) {
		struct level at = w->stack[--w->n];
		uint32_t next, child, indent;

		if (w->limit && w->n_printed == w->limit) {
			w->more = true;
			break;
		}
		indent = visit(w, at.node, at.indent);
		r = report_flush(w->report, false);
		if (r < 0)
			break;
		next = next_shown(w, w->tree.nodes[at.node].next);
		child = next_shown(w, w->tree.nodes[at.node].child);
		if (next)
			r = push(w, next, at.indent);
		if (child && r == 0)
			r = push(w, child, indent);
	}
	return r < 0 ? trace(r) : 0;
}

int report_tree(struct report *report)
{
	_cleanup_(walk_deinit) struct walk w = {.report = report, .limit = report->options->limit};
	static const char head[] = "total %  self %      time    samples  call\n";
	int r;

	w.least = (uint64_t)((double)report->fold.weight * report->options->min_percent / 100);
	r = calltree_init(&w.tree, &report->fold, true, false, w.least);
	if (r < 0)
		return trace(r);
	report_colour(report, COLOUR_DIM, head, sizeof(head) - 1);
	r = walk_tree(&w);
	if (r < 0)
		return trace(r);
	if (w.more)
		buffer_printf(
			&report->out,
			"... and more (--limit 0 shows all, --min-percent leaves out the light)\n");
	return w.bars.bad ? fail(-ENOMEM) : 0;
}
