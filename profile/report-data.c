/* report-data.c - see report-data.h.
 *
 * docs/json.md has the fields.  A call tree is written in preorder, with the depth of each call. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-text.h"
#include "profile/report-data.h"
#include "profile/rows.h"
#include "profile/summary.h"

enum { FLUSH = 1 << 20 };

uint64_t report_least_weight(const struct fold *f, const struct report_options *o)
{
	return (uint64_t)((double)f->weight * o->min_percent / 100);
}

int report_tree_init(struct calltree *tree, struct fold *fold, const struct report_options *o,
		     uint64_t least)
{
	int r;

	if (o->callers || o->callees)
		r = calltree_init_focus(tree, fold, o->callers ? o->callers : o->callees,
					o->callers != NULL);
	else
		r = calltree_init(tree, fold, true, false, least);
	return r < 0 ? trace(r) : 0;
}

struct data {
	const struct report_options *options;
	struct fold *fold;
	struct buffer out;
	FILE *file;
	bool json, first; /* of a row's fields */
	uint64_t n_rows;
};

static int flush(struct data *d, bool all)
{
	if (d->out.bad)
		return fail(-ENOMEM);
	if (!d->out.len || (d->out.len < FLUSH && !all))
		return 0;
	(void)fwrite(d->out.data, 1, d->out.len, d->file);
	d->out.len = 0;
	return 0;
}

/* ---- fields ---- */

static void begin_field(struct data *d, const char *name)
{
	if (d->json)
		buffer_printf(&d->out, "%s\"%s\": ", d->first ? "" : ", ", name);
	else if (!d->first)
		buffer_append(&d->out, ",", 1);
	d->first = false;
}

static void text_field(struct data *d, const char *name, const char *value)
{
	begin_field(d, name);
	if (d->json)
		text_json(&d->out, value, strlen(value));
	else
		text_csv(&d->out, value);
}

static void number_field(struct data *d, const char *name, uint64_t value)
{
	begin_field(d, name);
	buffer_printf(&d->out, "%" PRIu64, value);
}

static void percent_field(struct data *d, const char *name, uint64_t part, uint64_t whole)
{
	begin_field(d, name);
	buffer_printf(&d->out, "%.3f", text_percent(part, whole));
}

static void bool_field(struct data *d, const char *name, bool value)
{
	begin_field(d, name);
	buffer_printf(&d->out, "%s", value ? "true" : "false");
}

static void figures(struct data *d, uint64_t self_weight, uint64_t self_count, uint64_t weight,
		    uint64_t count)
{
	percent_field(d, "self_percent", self_weight, d->fold->weight);
	number_field(d, "self", self_weight);
	number_field(d, "self_samples", self_count);
	percent_field(d, "total_percent", weight, d->fold->weight);
	number_field(d, "total", weight);
	number_field(d, "total_samples", count);
}

static void begin_row(struct data *d)
{
	if (d->json)
		buffer_printf(&d->out, "%s\n{", d->n_rows ? "," : "");
	d->n_rows++;
	d->first = true;
}

static int end_row(struct data *d)
{
	buffer_printf(&d->out, d->json ? "}" : "\r\n");
	return flush(d, false);
}

/* ---- the table ---- */

/* The kind of a call's code. */
static void kind_field(struct data *d, uint32_t symbol, bool inlined)
{
	const struct fold_symbol *s = &d->fold->symbols[symbol];
	enum frame_kind kind = s->kind == FOLD_KERNEL ? FRAME_KERNEL : s->frame_kind;

	if (s->kind == FOLD_MARKER)
		text_field(d, "frame_kind", "");
	else
		text_field(d, "frame_kind",
			   frame_kind_name(inlined && kind == FRAME_NATIVE ? FRAME_INLINED : kind));
}

static void row_fields(struct data *d, const struct row *row)
{
	const struct fold *f = d->fold;
	const struct profile *p = f->profile;
	enum report_by by = d->options->by;
	char name[32];

	text_field(d, report_by_names[by == REPORT_PID ? REPORT_PROCESS : by],
		   row_name(f, by, row, name));
	if (by == REPORT_FUNCTION) {
		text_field(d, "module", fold_symbol_module(f, row->id));
		bool_field(d, "inlined", row->inlined);
		kind_field(d, row->id, row->inlined);
	} else if (by == REPORT_THREAD) {
		number_field(d, "tid", p->threads[row->id].tid);
		number_field(d, "pid", p->processes[p->threads[row->id].process].pid);
		text_field(d, "process", fold_process_name(f, p->threads[row->id].process, name));
	} else if (by == REPORT_PROCESS || by == REPORT_PID) {
		number_field(d, "pid", p->processes[row->id].pid);
		number_field(d, "processes", by == REPORT_PID ? 1 : row->n_processes);
	}
	if (rows_have_totals(by))
		percent_field(d, "guessed_percent", row->guessed_weight, row->weight);
	figures(d, row->self_weight, row->self_count, row->weight, row->count);
}

static void csv_head(struct data *d, const char *names)
{
	if (!d->json)
		buffer_printf(&d->out,
			      "%s,self_percent,self,self_samples,total_percent,total,"
			      "total_samples\r\n",
			      names);
}

static int write_table(struct data *d)
{
	static const char *const heads[] = {
		[REPORT_FUNCTION] = "function,module,inlined,frame_kind,guessed_percent",
		[REPORT_MODULE] = "module,guessed_percent",
		[REPORT_CGROUP] = "cgroup",
		[REPORT_THREAD] = "thread,tid,pid,process",
		[REPORT_PROCESS] = "process,pid,processes",
		[REPORT_PID] = "process,pid,processes",
		[REPORT_REASON] = "reason",
	};
	_cleanup_(rows_deinit) struct rows rows = {0};
	enum report_by by = d->options->by;
	int r = rows_fill(&rows, d->fold, by);
	size_t n;

	if (r < 0)
		return trace(r);
	rows_leave_out(&rows, report_least_weight(d->fold, d->options));
	rows_sort(&rows, d->fold, by, d->options->sort);
	n = d->options->limit ? min_u64(rows.n, d->options->limit) : rows.n;
	csv_head(d, heads[by]);
	for (size_t i = 0; i < n && r == 0; i++) {
		begin_row(d);
		row_fields(d, &rows.list[i]);
		r = end_row(d);
	}
	return r;
}

/* ---- the tree ---- */

static void node_fields(struct data *d, const struct calltree_node *n, uint32_t depth)
{
	const struct fold *f = d->fold;
	bool process = n->kind == CALLTREE_PROCESS;
	char name[32];

	number_field(d, "depth", depth);
	text_field(d, "kind", process ? "process" : "call");
	text_field(d, "name",
		   process ? fold_process_name(f, n->id, name) : fold_symbol_name(f, n->id));
	text_field(d, "module", process ? "" : fold_symbol_module(f, n->id));
	bool_field(d, "inlined", n->inlined);
	if (process)
		text_field(d, "frame_kind", "");
	else
		kind_field(d, n->id, n->inlined);
	percent_field(d, "guessed_percent", n->guessed_weight, n->weight);
	percent_field(d, "path_guessed_percent", n->path_guessed_weight, n->weight);
	figures(d, n->self_weight, n->self_count, n->weight, n->count);
}

static int write_tree(struct data *d)
{
	const struct report_options *o = d->options;
	uint64_t least = report_least_weight(d->fold, o);
	struct calltree tree;
	uint32_t depth = 0, at;
	int r;

	r = report_tree_init(&tree, d->fold, o, least);
	if (r < 0)
		return trace(r);
	csv_head(d,
		 "depth,kind,name,module,inlined,frame_kind,guessed_percent,path_guessed_percent");
	at = tree.nodes[0].child;
	while (at && r == 0 && (!o->limit || d->n_rows < o->limit)) {
		const struct calltree_node *n = &tree.nodes[at];
		bool shown = n->weight >= least && n->count;

		if (shown) {
			begin_row(d);
			node_fields(d, n, depth);
			r = end_row(d);
		}
		if (shown && n->child && (!o->max_depth || depth + 1 < o->max_depth)) {
			at = n->child;
			depth++;
			continue;
		}
		while (at && !tree.nodes[at].next) {
			at = tree.nodes[at].parent;
			depth--;
		}
		at = tree.nodes[at].next;
	}
	calltree_deinit(&tree);
	return r;
}

int report_data(struct fold *fold, const struct report_options *options, FILE *out)
{
	const struct profile *p = fold->profile;
	struct data d = {.options = options,
			 .fold = fold,
			 .file = out,
			 .json = options->form == REPORT_JSON,
			 .first = true};
	bool tree = options->tree || options->callers || options->callees;
	int r;

	if (d.json) {
		buffer_append(&d.out, "{", 1);
		text_field(&d, "event", p->event_name);
		text_field(&d, "unit", p->weight_unit);
		number_field(&d, "samples", fold->count);
		number_field(&d, "weight", fold->weight);
		begin_field(&d, "duration_s");
		buffer_printf(&d.out, "%.3f", summary_duration(p));
		begin_field(&d, tree ? "calls" : "rows");
		buffer_append(&d.out, "[", 1);
	}
	r = tree ? write_tree(&d) : write_table(&d);
	if (d.json)
		buffer_printf(&d.out, "\n]}\n");
	if (r == 0)
		r = flush(&d, true);
	buffer_deinit(&d.out);
	return r < 0 ? trace(r) : 0;
}
