/* report.c - the report on a terminal: the verdict, then a table or a tree.  Thread: main.
 *
 *   self % self time    n  | total %  total    n  | name                      module
 *
 * A row's total counts each sample once, however often its function recurs: `seen` holds the last
 * group that was added to a row. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/calltree.h"
#include "profile/fold.h"
#include "profile/profile-export.h"
#include "profile/profile-text.h"
#include "profile/summary.h"

enum report_colour {
	COLOUR_NONE,
	COLOUR_DIM,
	COLOUR_BOLD,
	COLOUR_HOT,
	COLOUR_WARM,
	COLOUR_KERNEL,
	COLOUR_WARN
};

struct report {
	const struct report_options *options;
	struct fold fold;
	struct buffer out; /* on its way to the file */
	FILE *file;
	uint64_t written; /* bytes */
};

const char *const report_by_names[] = {
	[REPORT_FUNCTION] = "function", [REPORT_PROCESS] = "process", [REPORT_THREAD] = "thread",
	[REPORT_MODULE] = "module",	[REPORT_CGROUP] = "cgroup",   NULL,
};

struct row {
	uint32_t id;   /* symbol, module, index in processes or threads, or string of a cgroup */
	uint32_t seen; /* group + 1 */
	uint64_t self_count, self_weight, count, weight;
};
/* WIDE: a terminal where a second column of counts leaves enough for the names. */
enum { MODULE_COLUMNS = 24, NAME_COLUMNS = 16, WIDE = 120, FLUSH = 1 << 20 };
#define MAX_TEXT (4ull << 30) /* of a trace below 100 MiB */

struct rows {
	struct row *list;
	size_t n, room;
	uint32_t *by_id; /* number in list + 1; 0: none */
	size_t n_ids;	 /* the last stands for UINT32_MAX */
};

static void rows_deinit(struct rows *rows)
{
	free(rows->list);
	free(rows->by_id);
}

/* Writes what is in `out` when it is much, or @all. */
static int report_flush(struct report *report, bool all)
{
	size_t len = report->out.len;

	if (report->out.bad)
		return fail(-ENOMEM);
	if (len < FLUSH && !all)
		return 0;
	(void)fwrite(report->out.data, 1, len, report->file);
	report->written += len;
	report->out.len = 0;
	return fold_limit(&report->fold, report->written, MAX_TEXT, "bytes of text");
}

/* Appends @len bytes of @text between the marks of a colour (when colours are on). */
static void report_colour(struct report *report, enum report_colour colour, const char *text,
			  size_t len)
{
	static const char *const marks[] = {
		[COLOUR_NONE] = "",	    [COLOUR_DIM] = "\033[2m",
		[COLOUR_BOLD] = "\033[1m",  [COLOUR_HOT] = "\033[31m",
		[COLOUR_WARM] = "\033[33m", [COLOUR_KERNEL] = "\033[36m",
		[COLOUR_WARN] = "\033[33m",
	};
	bool on = report->options->colour && colour != COLOUR_NONE;

	if (on)
		buffer_append(&report->out, marks[colour], strlen(marks[colour]));
	buffer_append(&report->out, text, len);
	if (on)
		buffer_append(&report->out, "\033[0m", 4);
}

/* The colour of a share of the whole. */
static enum report_colour report_heat(double percent)
{
	return percent >= 10 ? COLOUR_HOT : percent >= 1 ? COLOUR_WARM : COLOUR_NONE;
}

/* Appends a name, cleaned, cut to @columns (0: no limit) and padded to @pad; in @colour. */
static void report_name(struct report *report, enum report_colour colour, const char *name,
			size_t columns, size_t pad)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0}, fit = {0};
	size_t used;

	text_clean(&clean, name);
	used = text_fit(&fit, (const char *)clean.data, clean.len,
			columns ? columns : SIZE_MAX / 4);
	if (clean.bad || fit.bad)
		report->out.bad = true;
	if (fit.len)
		report_colour(report, colour, (const char *)fit.data, fit.len);
	if (used < pad)
		buffer_printf(&report->out, "%*s", (int)(pad - used), "");
}

/* "  12.34" in heat colour. */
static void report_percent(struct report *report, uint64_t part, uint64_t whole)
{
	double percent = text_percent(part, whole);
	char text[32];
	int n = snprintf(text, sizeof(text), "%7.2f", percent);

	report_colour(report, report_heat(percent), text, (size_t)n);
}

/* As many ids as the thing that rows are of has. */
static int rows_init(struct rows *rows, struct report *report)
{
	const struct profile *p = report->fold.profile;
	const size_t n[] = {
		[REPORT_FUNCTION] = report->fold.n_symbols,
		[REPORT_PROCESS] = p->n_processes,
		[REPORT_THREAD] = p->n_threads,
		[REPORT_MODULE] = p->n_modules,
		[REPORT_CGROUP] = p->strings.n_entries + 1,
	};
	int r;

	rows->n_ids = n[report->options->by] + 1;
	r = fold_hold(&report->fold, (int64_t)(rows->n_ids * sizeof(*rows->by_id)), "rows");
	if (r < 0)
		return trace(r);
	rows->by_id = calloc(rows->n_ids, sizeof(*rows->by_id));
	return rows->by_id ? 0 : fail(-ENOMEM);
}

static int row_get(struct rows *rows, struct report *report, const struct row *new,
		   struct row **ret_row)
{
	uint32_t *number = &rows->by_id[min_u64(new->id, rows->n_ids - 1)];
	int r;

	if (!*number) {
		if (rows->n == rows->room) {
			size_t room = rows->room ? rows->room * 2 : 256;
			struct row *more;

			/* And as much again for sorting. */
			r = fold_hold(&report->fold,
				      (int64_t)((room - rows->room) * 2 * sizeof(*more)), "rows");
			if (r < 0)
				return trace(r);
			more = reallocarray(rows->list, room, sizeof(*more));
			if (!more)
				return fail(-ENOMEM);
			rows->list = more;
			rows->room = room;
		}
		rows->list[rows->n++] = *new;
		*number = (uint32_t)rows->n;
	}
	*ret_row = &rows->list[*number - 1];
	return 0;
}

static int add_to_row(struct rows *rows, struct report *report, const struct row *new,
		      uint32_t group, bool self)
{
	const struct fold_group *g = &report->fold.groups[group];
	struct row *row = NULL;
	int r = row_get(rows, report, new, &row);

	if (r < 0)
		return trace(r);
	if (row->seen != group + 1) {
		row->seen = group + 1;
		row->count += g->count;
		row->weight += g->weight;
	}
	if (self) {
		row->self_count += g->count;
		row->self_weight += g->weight;
	}
	return 0;
}

static int add_calls(struct rows *rows, struct report *report, uint32_t group,
		     const uint32_t *calls, size_t n)
{
	const struct fold *fold = &report->fold;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint32_t symbol = fold_call_symbol(calls[i]), id = symbol;

		if (report->options->by == REPORT_MODULE) {
			/* A marker is no code: it has no row among modules, unless it is all there
			 * is. */
			if (fold->symbols[symbol].kind == FOLD_MARKER && n > 1)
				continue;
			id = fold->symbols[symbol].module;
		}
		r = add_to_row(rows, report, &(struct row){.id = id}, group, i + 1 == n);
	}
	return r < 0 ? trace(r) : 0;
}

static int fill_rows(struct rows *rows, struct report *report)
{
	const struct fold *fold = &report->fold;
	const struct profile *p = fold->profile;
	_cleanup_(freep) uint32_t *calls = calloc(fold->max_depth + 1, sizeof(*calls));
	int r = calls ? rows_init(rows, report) : fail(-ENOMEM);

	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < fold->n_groups && r == 0; i++) {
		const struct fold_group *g = &fold->groups[i];
		uint32_t process = fold_process(fold, g);

		if (report->options->by == REPORT_PROCESS)
			r = add_to_row(rows, report, &(struct row){.id = process}, i, true);
		else if (report->options->by == REPORT_THREAD)
			r = add_to_row(rows, report, &(struct row){.id = g->thread}, i, true);
		else if (report->options->by == REPORT_CGROUP)
			r = add_to_row(rows, report,
				       &(struct row){.id = p->processes[process].cgroup}, i, true);
		else
			r = add_calls(rows, report, i, calls, fold_stack(fold, g, calls));
	}
	return r < 0 ? trace(r) : 0;
}

#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? 1 : -1

/* Heaviest first: by self, then total; at last by what was met first. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	COMPARE(x->self_weight, y->self_weight);
	COMPARE(x->self_count, y->self_count);
	COMPARE(x->weight, y->weight);
	COMPARE(x->count, y->count);
	COMPARE(y->id, x->id);
	return 0;
}

/* How a row stands: names cut to @columns (0: not at all), functions padded to @pad, modules cut to
 * @module, counts in @count columns. */
struct names {
	size_t columns, pad, module, count;
	bool total_count;
};

static void print_id(struct report *report, uint32_t id)
{
	char number[32];
	int n = snprintf(number, sizeof(number), "%9u  ", id);

	report_colour(report, COLOUR_DIM, number, (size_t)n);
}

static void print_row_name(struct report *report, const struct row *row, const struct names *names)
{
	const struct fold *f = &report->fold;
	const struct profile *p = f->profile;
	enum report_by by = report->options->by;
	char name[32];

	buffer_append(&report->out, "  ", 2);
	if (by == REPORT_FUNCTION) {
		enum fold_kind kind = f->symbols[row->id].kind;
		const char *module = fold_symbol_module(f, row->id);

		report_name(report,
			    kind == FOLD_KERNEL	  ? COLOUR_KERNEL
			    : kind == FOLD_MARKER ? COLOUR_WARN
						  : COLOUR_BOLD,
			    fold_symbol_name(f, row->id), names->columns, *module ? names->pad : 0);
		if (*module) {
			buffer_append(&report->out, "  ", 2);
			report_name(report, COLOUR_DIM,
				    kind == FOLD_KERNEL ? "kernel" : fold_base_name(module),
				    names->columns ? names->module : 0, 0);
		}
	} else if (by == REPORT_MODULE) {
		bool known = row->id < p->n_modules && p->modules[row->id].path;

		report_name(report, COLOUR_BOLD,
			    known ? string_table_text(&p->strings, p->modules[row->id].path)
				  : "[no module]",
			    names->columns, 0);
	} else if (by == REPORT_CGROUP) {
		report_name(report, COLOUR_BOLD,
			    row->id ? string_table_text(&p->strings, row->id) : "[unknown]",
			    names->columns, 0);
	} else if (by == REPORT_PROCESS) {
		print_id(report, p->processes[row->id].pid);
		report_name(report, COLOUR_BOLD, fold_process_name(f, row->id, name),
			    names->columns, 0);
	} else {
		print_id(report, p->threads[row->id].tid);
		report_name(report, COLOUR_BOLD, fold_thread_name(f, row->id, name), names->columns,
			    18);
		buffer_append(&report->out, "  ", 2);
		report_name(report, COLOUR_DIM,
			    fold_process_name(f, p->threads[row->id].process, name), names->columns,
			    0);
	}
	buffer_append(&report->out, "\n", 1);
}

/* @columns of the count; 0: none. */
static void print_numbers(struct report *report, uint64_t weight, uint64_t count, size_t columns)
{
	char number[32];

	report_percent(report, weight, report->fold.weight);
	buffer_printf(&report->out, " %9s",
		      text_weight(weight, report->fold.profile->weight_unit, number));
	if (columns)
		buffer_printf(&report->out, " %*s", (int)columns, text_count(count, number));
}

/* The widest of the names shown, in columns. */
static struct names longest_names(const struct fold *f, const struct rows *rows, size_t n)
{
	struct names names = {.pad = strlen("function"), .module = strlen("module")};

	for (size_t i = 0; i < n; i++) {
		const char *name = fold_symbol_name(f, rows->list[i].id);
		const char *module = fold_base_name(fold_symbol_module(f, rows->list[i].id));

		names.pad = max_u64(names.pad, text_columns(name, strlen(name)));
		names.module = max_u64(names.module, text_columns(module, strlen(module)));
	}
	return names;
}

static struct names names_of(const struct report *report, const struct rows *rows, size_t n)
{
	enum report_by by = report->options->by;
	bool totals = by == REPORT_FUNCTION || by == REPORT_MODULE;
	int width = report->options->width, left = width;
	struct names names = {0};
	char number[32];

	if (by == REPORT_FUNCTION)
		names = longest_names(&report->fold, rows, n);
	names.count = max_u64(strlen("samples"), strlen(text_count(report->fold.count, number)));
	names.total_count = totals && (width <= 0 || width >= WIDE);
	/* Not on a terminal names are whole, and modules stand under each other as far as that is
	 * sensible. */
	if (width <= 0) {
		names.pad = min_u64(names.pad, 48);
		return names;
	}
	left -= (int)(7 + 10 + 1 + names.count) + 2;
	if (totals)
		left -= 1 + 7 + 10 + (names.total_count ? 1 + (int)names.count : 0);
	else if (by != REPORT_CGROUP)
		left -= 11; /* the pid */
	names.module = min_u64(names.module, MODULE_COLUMNS);
	left -= by == REPORT_FUNCTION ? (int)names.module + 2 : 0;
	names.columns = (size_t)(left < NAME_COLUMNS ? NAME_COLUMNS : left);
	names.pad = min_u64(names.pad, names.columns);
	return names;
}

static void print_head(struct report *report, const struct names *names)
{
	enum report_by by = report->options->by;
	bool totals = by == REPORT_FUNCTION || by == REPORT_MODULE;
	const char *unit = strcmp(report->fold.profile->weight_unit, "ns")
				   ? report->fold.profile->weight_unit
				   : "time";
	char line[256];
	int n;

	n = snprintf(line, sizeof(line), "%7s %9s %*s", totals ? "self %" : "%", unit,
		     (int)names->count, "samples");
	report_colour(report, COLOUR_DIM, line, (size_t)n);
	n = totals ? snprintf(line, sizeof(line), " %7s %9s", "total %", unit) : 0;
	if (names->total_count)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %*s", (int)names->count,
			      "samples");
	if (totals)
		report_colour(report, COLOUR_DIM, line, (size_t)n);
	if (by == REPORT_FUNCTION)
		n = snprintf(line, sizeof(line), "  %-*s  module", (int)min_u64(names->pad, 128),
			     "function");
	else if (by == REPORT_MODULE)
		n = snprintf(line, sizeof(line), "  module");
	else if (by == REPORT_CGROUP)
		n = snprintf(line, sizeof(line), "  cgroup");
	else if (by == REPORT_PROCESS)
		n = snprintf(line, sizeof(line), "        pid  process");
	else
		n = snprintf(line, sizeof(line), "        tid  %-18s  process", "thread");
	report_colour(report, COLOUR_DIM, line, (size_t)n);
	buffer_append(&report->out, "\n", 1);
}

static int print_table(struct report *report)
{
	_cleanup_(rows_deinit) struct rows rows = {0};
	bool totals =
		report->options->by == REPORT_FUNCTION || report->options->by == REPORT_MODULE;
	struct names names;
	char number[32];
	size_t n;
	int r;

	r = fill_rows(&rows, report);
	if (r < 0)
		return trace(r);
	if (rows.n)
		qsort(rows.list, rows.n, sizeof(*rows.list), compare_rows);
	n = report->options->limit ? min_u64(rows.n, report->options->limit) : rows.n;
	names = names_of(report, &rows, n);
	print_head(report, &names);
	for (size_t i = 0; i < n; i++) {
		print_numbers(report, rows.list[i].self_weight, rows.list[i].self_count,
			      names.count);
		if (totals) {
			buffer_append(&report->out, " ", 1);
			print_numbers(report, rows.list[i].weight, rows.list[i].count,
				      names.total_count ? names.count : 0);
		}
		print_row_name(report, &rows.list[i], &names);
		r = report_flush(report, false);
		if (r < 0)
			return trace(r);
	}
	if (n < rows.n)
		buffer_printf(&report->out, "... and %s more (--limit 0 shows all)\n",
			      text_count(rows.n - n, number));
	return 0;
}

static void print_summary(struct report *report)
{
	const struct profile *p = report->fold.profile;
	struct summary summary;

	summary_init(&summary, &report->fold);
	for (size_t i = 0; i < summary.n; i++) {
		char label[32];
		int n = snprintf(label, sizeof(label), "%-16s", summary.facts[i].label);

		report_colour(report, COLOUR_DIM, label, (size_t)n);
		report_name(report, summary.facts[i].warn ? COLOUR_WARN : COLOUR_NONE,
			    summary.facts[i].value, 0, 0);
		buffer_append(&report->out, "\n", 1);
	}
	for (size_t i = 0; i < p->n_notes; i++) {
		report_colour(report, COLOUR_DIM, "Note            ", 16);
		report_name(report, COLOUR_NONE, string_table_text(&p->strings, p->notes[i]), 0, 0);
		buffer_append(&report->out, "\n", 1);
	}
	buffer_append(&report->out, "\n", 1);
}

static void report_deinit(struct report *report)
{
	fold_deinit(&report->fold);
	buffer_deinit(&report->out);
}

/* ---- the call tree ----
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

static int report_tree(struct report *report)
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

int report_write(const struct profile *profile, const struct report_options *options, FILE *out)
{
	_cleanup_(report_deinit) struct report report = {.options = options, .file = out};
	int r;

	r = fold_init(&report.fold, profile, &options->only);
	if (r < 0)
		return trace(r);
	if (!options->no_summary)
		print_summary(&report);
	if (!report.fold.n_groups)
		buffer_printf(&report.out, "no samples\n");
	else
		r = options->tree ? report_tree(&report) : print_table(&report);
	if (r < 0)
		return trace(r);
	r = report_flush(&report, true);
	return r < 0 ? trace(r) : text_finish(out);
}
