/* report.c - the report: the verdict, then a table or a tree, on a terminal or as JSON or CSV.  Thread: main.
 *
 *   self % self time    n  | total %  total    n  | name                      module */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/calltree.h"
#include "profile/fold.h"
#include "profile/profile-export.h"
#include "profile/profile-text.h"
#include "profile/report-data.h"
#include "profile/report-marks.h"
#include "profile/rows.h"
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
	struct buffer out; /* not yet in the file */
	FILE *file;
	uint64_t written; /* bytes */
	bool guessed;	  /* a name has the mark */
};

/* WIDE: a terminal where a second column of counts leaves enough for the names.  NARROW: where neither counts nor modules
 * do. */
#define INLINED " (inlined)"
enum {
	MODULE_COLUMNS = 24,
	NAME_COLUMNS = 16,
	THREAD_COLUMNS = 18,
	NARROW = 72,
	WIDE = 120,
	FLUSH = 1 << 20
};
#define MAX_TEXT (4ull << 30) /* of a trace below 100 MiB */

/* Writes what is in `out` when it is much, or @all. */
static int report_flush(struct report *report, bool all)
{
	size_t len = report->out.len;

	if (report->out.bad)
		return fail(-ENOMEM);
	if (len < FLUSH && !all)
		return 0;
	if (len)
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

/* Appends a name, cleaned, cut to @columns (0: no limit) and padded to @pad; in @colour.  Returns the columns of the name. */
static size_t report_name(struct report *report, enum report_colour colour, const char *name,
			  size_t columns, size_t pad)
{
	_cleanup_(buffer_deinit) struct buffer fit = {0};
	size_t used = text_fit_clean(&fit, name, columns);

	report->out.bad |= fit.bad;
	if (fit.len)
		report_colour(report, colour, (const char *)fit.data, fit.len);
	if (used < pad)
		buffer_printf(&report->out, "%*s", (int)(pad - used), "");
	return used;
}

/* "  12.34" in heat colour. */
static void report_percent(struct report *report, uint64_t part, uint64_t whole)
{
	double percent = text_percent(part, whole);
	char text[32];
	int n = snprintf(text, sizeof(text), "%7.2f", percent);

	report_colour(report, report_heat(percent), text, (size_t)n);
}

/* How a row stands: names cut to @columns (0: not at all), functions padded to @pad, modules cut to
 * @module (0: none, where names are cut), counts in @count columns (0: none). */
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

/* In place of a pid: so many have this name. */
static void print_many(struct report *report, uint32_t n)
{
	char number[32], text[48];
	int len = (int)strlen(text_count(n, number));

	len = snprintf(text, sizeof(text), "%*s%s  ", len < 7 ? 9 - len : 2, "x ", number);
	report_colour(report, COLOUR_DIM, text, (size_t)len);
}

/* " ?", or " ? 12 %": all or a share of the weight is a guess.  "" for 1 % or less. */
static int guess_mark(uint64_t guessed, uint64_t weight, char *to, size_t size)
{
	double share = text_percent(guessed, weight);

	if (share > 1 && share <= 99)
		return snprintf(to, size, " ? %.0f %%", share);
	return snprintf(to, size, "%s", share > 99 ? " ?" : "");
}

enum { MARKS = 32 };

/* The marks behind a name: that it is inlined, and how much of it is a guess. */
static size_t name_marks(bool inlined, uint64_t guessed, uint64_t weight, char to[MARKS])
{
	size_t n = (size_t)snprintf(to, MARKS, "%s", inlined ? INLINED : "");

	return n + (size_t)guess_mark(guessed, weight, to + n, MARKS - n);
}

static size_t row_marks(const struct report *report, const struct row *row, char to[MARKS])
{
	return name_marks(report->options->by == REPORT_FUNCTION && row->inlined,
			  row->guessed_weight, row->weight, to);
}

/* @marks: of @len bytes, each a column. */
static void report_name_marks(struct report *report, const char *marks, size_t len)
{
	bool guessed = memchr(marks, '?', len);

	report_colour(report, guessed ? COLOUR_WARN : COLOUR_DIM, marks, len);
	report->guessed |= guessed;
}

static void print_function(struct report *report, const struct row *row, const struct names *names)
{
	const struct fold *f = &report->fold;
	enum fold_kind kind = f->symbols[row->id].kind;
	const char *module = fold_symbol_module(f, row->id);
	char marks[MARKS];
	size_t len = row_marks(report, row, marks), used;

	used = report_name(report,
			   kind == FOLD_KERNEL	 ? COLOUR_KERNEL
			   : kind == FOLD_MARKER ? COLOUR_WARN
						 : COLOUR_BOLD,
			   fold_symbol_name(f, row->id), names->columns ? names->columns - len : 0,
			   0);
	report_name_marks(report, marks, len);
	used += len;
	if (!*module || (names->columns && !names->module))
		return;
	buffer_printf(&report->out, "%*s", (int)(used < names->pad ? names->pad - used : 0) + 2,
		      "");
	report_name(report, COLOUR_DIM, kind == FOLD_KERNEL ? "kernel" : fold_base_name(module),
		    names->columns ? names->module : 0, 0);
}

static void print_row_name(struct report *report, const struct row *row, const struct names *names)
{
	const struct fold *f = &report->fold;
	const struct profile *p = f->profile;
	enum report_by by = report->options->by;
	char name[32], marks[MARKS];
	size_t len;

	if (by == REPORT_FUNCTION) {
		print_function(report, row, names);
	} else if (by == REPORT_MODULE || by == REPORT_CGROUP || by == REPORT_REASON) {
		len = row_marks(report, row, marks);
		report_name(report, COLOUR_BOLD, row_name(f, by, row, name),
			    names->columns ? names->columns - len : 0, 0);
		report_name_marks(report, marks, len);
	} else if (by == REPORT_THREAD) {
		print_id(report, p->threads[row->id].tid);
		report_name(report, COLOUR_BOLD, fold_thread_name(f, row->id, name),
			    names->columns ? names->pad : 0, names->pad);
		buffer_append(&report->out, "  ", 2);
		report_name(report, COLOUR_DIM,
			    fold_process_name(f, p->threads[row->id].process, name), names->columns,
			    0);
	} else {
		if (by == REPORT_PROCESS && row->n_processes > 1)
			print_many(report, row->n_processes);
		else
			print_id(report, p->processes[row->id].pid);
		report_name(report, COLOUR_BOLD, fold_process_name(f, row->id, name),
			    names->columns, 0);
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
static struct names longest_names(const struct report *report, const struct rows *rows, size_t n)
{
	const struct fold *f = &report->fold;
	struct names names = {.pad = strlen("function"), .module = strlen("module")};

	for (size_t i = 0; i < n; i++) {
		const char *name = fold_symbol_name(f, rows->list[i].id);
		const char *module = fold_base_name(fold_symbol_module(f, rows->list[i].id));
		char marks[MARKS];
		size_t len = row_marks(report, &rows->list[i], marks);

		names.pad = max_u64(names.pad, text_columns(name, strlen(name)) + len);
		names.module = max_u64(names.module, text_columns(module, strlen(module)));
	}
	return names;
}

static struct names names_of(const struct report *report, const struct rows *rows, size_t n)
{
	enum report_by by = report->options->by;
	bool totals = rows_have_totals(by);
	int width = report->options->width, left = width;
	struct names names = {0};
	char number[32];

	if (by == REPORT_FUNCTION)
		names = longest_names(report, rows, n);
	if (by == REPORT_THREAD)
		names.pad = THREAD_COLUMNS;
	names.count = max_u64(strlen("samples"), strlen(text_count(report->fold.count, number)));
	names.total_count = totals && (width <= 0 || width >= WIDE);
	/* Not on a terminal names are whole, and modules stand under each other as far as that is
	 * sensible. */
	if (width <= 0) {
		names.pad = min_u64(names.pad, 48);
		return names;
	}
	if ((totals || by == REPORT_THREAD) && width < NARROW)
		names.count = 0;
	left -= (int)(7 + 10 + (names.count ? 1 + names.count : 0)) + 2;
	if (totals)
		left -= 1 + 7 + 10 + (names.total_count ? 1 + (int)names.count : 0);
	else if (by != REPORT_CGROUP && by != REPORT_REASON)
		left -= 11; /* the pid */
	names.module = width < NARROW ? 0 : min_u64(names.module, MODULE_COLUMNS);
	left -= by == REPORT_FUNCTION && names.module ? (int)names.module + 2 : 0;
	if (by == REPORT_THREAD) { /* two names */
		names.pad = width < NARROW ? NAME_COLUMNS : THREAD_COLUMNS;
		left -= (int)names.pad + 2;
		names.columns = (size_t)(left < NAME_COLUMNS / 2 ? NAME_COLUMNS / 2 : left);
		return names;
	}
	names.columns = (size_t)(left < NAME_COLUMNS ? NAME_COLUMNS : left);
	names.pad = min_u64(names.pad, names.columns);
	return names;
}

/* The head of a column of weights. */
static const char *unit_name(const struct report *report)
{
	const char *unit = report->fold.profile->weight_unit;

	return strcmp(unit, "ns") ? unit : "time";
}

static void print_head(struct report *report, const struct names *names)
{
	enum report_by by = report->options->by;
	bool totals = rows_have_totals(by);
	const char *unit = unit_name(report);
	char line[256];
	int n;

	n = snprintf(line, sizeof(line), "%7s %9s", totals ? "self %" : "%", unit);
	if (names->count)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %*s", (int)names->count,
			      "samples");
	report_colour(report, COLOUR_DIM, line, (size_t)n);
	n = totals ? snprintf(line, sizeof(line), " %7s %9s", "total %", unit) : 0;
	if (names->total_count)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %*s", (int)names->count,
			      "samples");
	if (totals)
		report_colour(report, COLOUR_DIM, line, (size_t)n);
	if (by == REPORT_FUNCTION && names->columns && !names->module)
		n = snprintf(line, sizeof(line), "  function");
	else if (by == REPORT_FUNCTION)
		n = snprintf(line, sizeof(line), "  %-*s  module", (int)min_u64(names->pad, 128),
			     "function");
	else if (by == REPORT_MODULE)
		n = snprintf(line, sizeof(line), "  module");
	else if (by == REPORT_CGROUP || by == REPORT_REASON)
		n = snprintf(line, sizeof(line), "  %s", report_by_names[by]);
	else if (by == REPORT_PROCESS || by == REPORT_PID)
		n = snprintf(line, sizeof(line), "        pid  process");
	else
		n = snprintf(line, sizeof(line), "        tid  %-*s  process", (int)names->pad,
			     "thread");
	report_colour(report, COLOUR_DIM, line, (size_t)n);
	buffer_append(&report->out, "\n", 1);
}

/* Leaves the rows that match, in their order. */
static void match_rows(const struct report *report, struct rows *rows)
{
	const struct report_options *o = report->options;
	char name[32];
	size_t kept = 0;

	for (size_t i = 0; o->match && i < rows->n; i++) {
		const struct row *row = &rows->list[i];

		if (strcasestr(row_name(&report->fold, o->by, row, name), o->match) ||
		    (o->by == REPORT_FUNCTION &&
		     strcasestr(fold_symbol_module(&report->fold, row->id), o->match)))
			rows->list[kept++] = *row;
	}
	if (o->match)
		rows->n = kept;
}

/* The first row to be shown. */
static size_t place_cursor(const struct report *report, const struct rows *rows)
{
	struct report_cursor *c = report->options->cursor;
	uint32_t shown = report->options->limit ? report->options->limit : UINT32_MAX;
	char name[32];

	if (!c)
		return 0;
	c->name[0] = 0;
	c->row = rows->n ? (uint32_t)min_u64(c->row, rows->n - 1) : 0;
	if (c->top > c->row)
		c->top = c->row;
	if (c->row - c->top >= shown)
		c->top = c->row - shown + 1;
	if (rows->n)
		(void)snprintf(
			c->name, sizeof(c->name), "%s",
			row_name(&report->fold, report->options->by, &rows->list[c->row], name));
	return c->top;
}

static void print_row(struct report *report, const struct row *row, const struct names *names)
{
	print_numbers(report, row->self_weight, row->self_count, names->count);
	if (rows_have_totals(report->options->by)) {
		buffer_append(&report->out, " ", 1);
		print_numbers(report, row->weight, row->count,
			      names->total_count ? names->count : 0);
	}
}

/* Below names with the mark of guesses. */
static void explain_guesses(struct report *report, const char *what)
{
	if (report->guessed && !report->options->cursor)
		buffer_printf(&report->out,
			      "\n?      %s is a guess and may be wrong: nothing proved it, as code "
			      "has no\n"
			      "       unwind information, or memory was read after the sample\n"
			      "? N %%  the same in N %% of the samples\n",
			      what);
}

static int print_table(struct report *report)
{
	_cleanup_(rows_deinit) struct rows rows = {0};
	const struct report_options *o = report->options;
	struct names names;
	char number[32];
	size_t first, n;
	int r = rows_fill(&rows, &report->fold, o->by);

	if (r < 0)
		return trace(r);
	rows_leave_out(&rows, report_least_weight(&report->fold, o));
	rows_sort(&rows, &report->fold, o->by, o->sort);
	match_rows(report, &rows);
	first = place_cursor(report, &rows);
	n = o->limit ? min_u64(rows.n - first, o->limit) : rows.n - first;
	names = names_of(report, &rows, first + n);
	print_head(report, &names);
	for (size_t i = first; i < first + n; i++) {
		print_row(report, &rows.list[i], &names);
		buffer_append(&report->out, o->cursor && i == o->cursor->row ? "> " : "  ", 2);
		print_row_name(report, &rows.list[i], &names);
		r = report_flush(report, false);
		if (r < 0)
			return trace(r);
	}
	if (first + n < rows.n)
		buffer_printf(&report->out,
			      o->cursor ? "... and %s more\n"
					: "... and %s more (--limit 0 shows all)\n",
			      text_count(rows.n - first - n, number));
	explain_guesses(report, "each call of this row");
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
 * " ?" or " ? 12 %" behind a name: the call or one above it was guessed, in all or in this share of the samples.  A line below the
 * tree states it.
 *
 * Walked with a stack of its own: a tree is as deep as the deepest stack of calls. */

enum { MIN_NAME = 24, NUMBERS = 7 + 8 + 10 + 2, COUNT = 11, INDENT = 3 };

struct level { /* to be visited */
	uint32_t node;
	uint32_t indent; /* marks drawn before it */
	uint32_t depth;	 /* calls above it */
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

static const char *text_pid(uint32_t pid, char to[32])
{
	(void)snprintf(to, 32, "%u", pid);
	return to;
}

/* On a narrow terminal the tree has no counts. */
static bool has_counts(const struct report *report)
{
	return report->options->width <= 0 || report->options->width >= NARROW;
}

/* Columns for the bars and the name of a node; 0: no limit. */
static int node_columns(const struct report *report)
{
	int width = report->options->width;

	return width <= 0 ? 0 : width - NUMBERS - (has_counts(report) ? COUNT : 0);
}

/* The bars that leave room for a name: the innermost. */
static uint32_t bars_shown(const struct report *report, uint32_t indent)
{
	int columns = node_columns(report), room = (columns - MIN_NAME) / INDENT;

	if (!columns || indent <= (uint32_t)(room > 0 ? room : 0))
		return indent;
	return room > 0 ? (uint32_t)room : 0;
}

static void print_node_name(struct walk *w, const struct calltree_node *n, uint32_t indent)
{
	struct report *report = w->report;
	const struct fold *f = &report->fold;
	int width = node_columns(report) - (int)(indent * INDENT);
	size_t columns = !node_columns(report) ? 0 : (size_t)(width < MIN_NAME ? MIN_NAME : width);
	enum fold_kind kind;
	char name[32], marks[MARKS];
	size_t len;

	if (n->kind == CALLTREE_PROCESS) {
		bool many = n->n_processes > 1;

		len = (size_t)snprintf(marks, sizeof(marks), " (%s%s)",
				       many ? text_count(n->n_processes, name)
					    : text_pid(f->profile->processes[n->id].pid, name),
				       many ? " processes" : "");
		report_name(report, COLOUR_BOLD, fold_process_name(f, n->id, name),
			    columns > len ? columns - len : columns, 0);
		report_colour(report, COLOUR_DIM, marks, len);
		return;
	}
	len = name_marks(n->inlined, n->path_guessed_weight, n->weight, marks);
	kind = f->symbols[n->id].kind;
	report_name(report,
		    kind == FOLD_KERNEL	  ? COLOUR_KERNEL
		    : kind == FOLD_MARKER ? COLOUR_WARN
					  : COLOUR_NONE,
		    fold_symbol_name(f, n->id), columns > len ? columns - len : columns, 0);
	report_name_marks(report, marks, len);
}

/* @branch: has brothers or begins a level, and so a mark of its own; @last: the last brother. */
static void print_node(struct walk *w, uint32_t node, uint32_t indent, bool branch, bool last)
{
	struct report *report = w->report;
	const struct calltree_node *n = &w->tree.nodes[node];
	uint32_t shown = bars_shown(report, indent);
	char number[32];

	report_percent(report, n->weight, report->fold.weight);
	buffer_printf(&report->out, " %7.2f", text_percent(n->self_weight, report->fold.weight));
	buffer_printf(&report->out, " %9s",
		      text_weight(n->weight, report->fold.profile->weight_unit, number));
	if (has_counts(report))
		buffer_printf(&report->out, " %10s", text_count(n->count, number));
	buffer_append(&report->out, "  ", 2);
	for (uint32_t i = indent - shown; i < indent; i++) {
		const char *mark = w->bars.data[i] ? "│  " : "   ";

		if (branch && i + 1 == indent)
			mark = last ? "└─ " : "├─ ";
		report_colour(report, COLOUR_DIM, mark, strlen(mark));
	}
	print_node_name(w, n, shown);
	buffer_append(&report->out, "\n", 1);
	w->n_printed++;
}

static int push(struct walk *w, uint32_t node, uint32_t indent, uint32_t depth)
{
	if (w->n == w->room && !array_grow(w->stack, w->room, 256))
		return fail(-ENOMEM);
	w->stack[w->n++] = (struct level){node, indent, depth};
	return 0;
}

/* Prints @node, a child of a node with children at @indent; returns its children's
 * indent. */
static uint32_t visit(struct walk *w, uint32_t node, uint32_t indent)
{
	const struct calltree_node *n = &w->tree.nodes[node];
	uint32_t first = next_shown(w, w->tree.nodes[n->parent].child);
	bool last = !next_shown(w, n->next), alone = first == node && last;
	/* A chain goes on below its first link: only a fork, or the first below a process, is a
	 * branch. */
	bool branch = indent && (!alone || w->tree.nodes[n->parent].kind == CALLTREE_PROCESS);

	while (w->bars.len <= indent + 1 && !w->bars.bad)
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
	uint32_t deepest = w->report->options->max_depth;
	int r = first ? push(w, first, 0, 0) : 0;

	while (w->n && r == 0) {
		struct level at = w->stack[--w->n];
		uint32_t next, child, indent, depth = at.depth;

		if (w->limit && w->n_printed == w->limit) {
			w->more = true;
			break;
		}
		indent = visit(w, at.node, at.indent);
		r = w->bars.bad ? fail(-ENOMEM) : report_flush(w->report, false);
		if (r < 0)
			break;
		next = next_shown(w, w->tree.nodes[at.node].next);
		child = next_shown(w, w->tree.nodes[at.node].child);
		if (next)
			r = push(w, next, at.indent, depth);
		depth += w->tree.nodes[at.node].kind == CALLTREE_CALL;
		if (child && r == 0 && (!deepest || depth < deepest))
			r = push(w, child, indent, depth);
	}
	return r < 0 ? trace(r) : 0;
}

static int report_tree(struct report *report)
{
	_cleanup_(walk_deinit) struct walk w = {.report = report, .limit = report->options->limit};
	char head[96];
	int r, n;

	w.least = report_least_weight(&report->fold, report->options);
	r = report_tree_init(&w.tree, &report->fold, report->options, w.least);
	if (r < 0)
		return trace(r);
	n = snprintf(head, sizeof(head), "total %%  self %% %9s%s  %s\n", unit_name(report),
		     has_counts(report) ? "    samples" : "",
		     report->options->callers ? "called by" : "call");
	report_colour(report, COLOUR_DIM, head, (size_t)n);
	r = walk_tree(&w);
	if (r < 0)
		return trace(r);
	if (w.more)
		buffer_printf(
			&report->out,
			report->options->cursor
				? "... and more\n"
				: "... and more (--limit 0 shows all, --min-percent leaves out "
				  "the light)\n");
	explain_guesses(report, "this call, or one above it,");
	return 0;
}

/* ---- all of it ---- */

static int write_text(struct report *report)
{
	const struct report_options *o = report->options;
	int r = 0;

	if (!o->no_summary)
		print_summary(report);
	if (o->by == REPORT_MARK) {
		r = report_flush(report, true);
		return r < 0 ? trace(r) : trace(report_marks(&report->fold, o, report->file));
	}
	if (!report->fold.n_groups)
		buffer_printf(&report->out, "no samples\n");
	else
		r = o->tree || o->callers || o->callees ? report_tree(report) : print_table(report);
	if (r < 0)
		return trace(r);
	return report_flush(report, true);
}

int report_write(const struct profile *profile, const struct report_options *options, FILE *out)
{
	_cleanup_(report_deinit) struct report report = {.options = options, .file = out};
	int r = fold_init(&report.fold, profile, &options->only);

	if (r == 0)
		r = options->form == REPORT_TEXT ? write_text(&report)
		    : options->by == REPORT_MARK ? report_marks(&report.fold, options, out)
						 : report_data(&report.fold, options, out);
	return r < 0 ? trace(r) : text_finish(out);
}
