/* diff-text.c - the text and the JSON object of diff.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "profile/diff.h"
#include "profile/profile-text.h"
#include "profile/summary.h"

enum {
	PATH_CALLS = 6,
	NAME_COLUMNS = 16, /* at least, on a terminal */
	ROW_COLUMNS = 44,  /* before the name */
	PAIR_COLUMNS = 38, /* without the names and the module */
};

/* "process;main;work" up to @node; of more than @most calls those between the process and the inner ones become "...".
 * 0: all. */
static void diff_tree_path(const struct diff_tree *t, uint32_t node, size_t most, struct buffer *to)
{
	size_t depth = 0;
	uint32_t process = node;

	for (uint32_t i = node; i != UINT32_MAX; i = t->nodes[i].up, depth++)
		process = i;
	most = most && most < depth ? most : depth;
	if (most < depth)
		buffer_printf(to, "%s;%s", string_table_text(&t->names, t->nodes[process].name),
			      most + 1 < depth ? "...;" : "");
	for (size_t left = most; left; left--) {
		uint32_t at = node;

		for (size_t i = 1; i < left; i++)
			at = t->nodes[at].up;
		buffer_printf(to, "%s%s", left < most ? ";" : "",
			      string_table_text(&t->names, t->nodes[at].name));
	}
}

static const char *by_name(const struct diff_options *o)
{
	return diff_by_names[o->tree ? DIFF_BY_TREE : (int)o->by];
}

/* ---- text ---- */

static void print_profile(const struct diff *d, size_t which, const char *name, struct buffer *out)
{
	char number[32], weight[32];

	buffer_printf(out, "%c  ", which ? 'B' : 'A');
	text_clean(out, name);
	buffer_printf(out, ": %s samples, %s%s%s, %.1f s", text_count(d->count[which], number),
		      text_weight(d->weight[which], d->unit, weight),
		      strcmp(d->unit, "ns") ? " " : "", strcmp(d->unit, "ns") ? d->unit : "",
		      d->seconds[which]);
	if (which)
		buffer_printf(out, " (%+.1f %%)",
			      100 * ((double)d->weight[1] / (double)d->weight[0] - 1));
	buffer_append(out, "\n", 1);
}

static void print_scale(const struct diff *d, const struct diff_options *o, struct buffer *out)
{
	char a[32], b[32];

	switch (d->scaled) {
	case DIFF_MEDIAN:
		buffer_printf(out,
			      "B is scaled by %.3f: the middle one of %zu rows has not changed\n",
			      d->scale, d->n_middle);
		break;
	case DIFF_SECOND:
		buffer_printf(out, "B is scaled by %.3f: per second of recording\n", d->scale);
		break;
	case DIFF_SHARE:
		buffer_printf(out, "B is scaled by %.3f: shares of the whole%s\n", d->scale,
			      d->fell_back ? " are compared, as too few rows have samples for a "
					     "median (as recorded: --normalise total)"
					   : "");
		break;
	case DIFF_SAMPLES:
		buffer_printf(out, "B is scaled by %.3f: per sample\n", d->scale);
		break;
	case DIFF_COUNTER:
		buffer_printf(out, "B is scaled by %.3f: per ", d->scale);
		text_clean(out, o->counter);
		buffer_printf(out, " (A: %s, B: %s)\n", text_count(d->counted[0], a),
			      text_count(d->counted[1], b));
		break;
	case DIFF_TOTAL:
		buffer_printf(out, "compared as recorded%s\n",
			      d->fell_back
				      ? ", as too few rows have samples for a median (where the "
					"recordings have different lengths: --normalise share)"
				      : "");
		break;
	}
}

/* How much more a row is than it was: "+20.0 %", "new", "gone". */
static const char *text_relative(const struct diff *d, const struct diff_row *row, char to[32])
{
	if (!row->weight[0] && !row->weight[1])
		return "-";
	if (!row->weight[0])
		return "new";
	if (!row->weight[1])
		return "gone";
	(void)snprintf(to, 32, "%+.1f %%",
		       100 * (d->scale * (double)row->weight[1] / (double)row->weight[0] - 1));
	return to;
}

/* The process and the innermost calls of a path: on a terminal as many as fit @columns. */
static void print_path(const struct diff *d, const struct diff_row *row, size_t columns,
		       struct buffer *out)
{
	for (size_t most = PATH_CALLS; most; most--) {
		_cleanup_(buffer_deinit) struct buffer path = {0};

		diff_tree_path(&d->tree, row->node, most, &path);
		buffer_append(&path, "", 1);
		out->bad |= path.bad;
		if (path.bad)
			return;
		if (columns && most > 1 &&
		    text_columns((const char *)path.data, path.len - 1) > columns)
			continue;
		(void)text_fit_clean(out, (const char *)path.data, columns);
		return;
	}
}

/* Left of a line on a terminal, after @used columns, for each of @n names; 0: no limit. */
static size_t name_columns(const struct diff_options *o, size_t used, size_t n)
{
	size_t width = o->width > 0 ? (size_t)o->width : 0;

	return !width ? 0 : width < used + n * NAME_COLUMNS ? NAME_COLUMNS : (width - used) / n;
}

static void json_name(const struct diff *d, const struct diff_row *row,
		      const struct diff_options *o, struct buffer *out)
{
	_cleanup_(buffer_deinit) struct buffer path = {0};

	if (!o->tree) {
		text_json_append(out, "", row->name);
		return;
	}
	diff_tree_path(&d->tree, row->node, 0, &path);
	out->bad |= path.bad;
	text_json(out, (const char *)path.data, path.len);
}

static void print_row(const struct diff *d, const struct diff_row *row,
		      const struct diff_options *o, struct buffer *out)
{
	bool mark = o->colour && row->significant;
	size_t module = *row->module ? 2 + text_columns(row->module, strlen(row->module)) : 0;
	size_t columns = name_columns(o, ROW_COLUMNS + module, 1);
	char relative[32];

	buffer_printf(out, "%s%+8.2f%s %7.2f %7.2f %7.2f %9s  ",
		      !mark		? ""
		      : row->change > 0 ? "\033[31m"
					: "\033[32m",
		      row->change, mark ? "\033[0m" : "", row->error,
		      text_percent(row->weight[0], d->weight[0]),
		      text_percent(row->weight[1], d->weight[1]), text_relative(d, row, relative));
	if (o->tree)
		print_path(d, row, columns, out);
	else
		(void)text_fit_clean(out, row->name, columns);
	if (*row->module) {
		buffer_append(out, "  ", 2);
		text_clean(out, row->module);
	}
	buffer_append(out, "\n", 1);
}

/* The two rows of a pair. */
static void find_pair(const struct diff *d, uint32_t pair, const struct diff_row **ret_gone,
		      const struct diff_row **ret_to)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->rows[i].pair == pair)
			*(d->rows[i].weight[1] ? ret_to : ret_gone) = &d->rows[i];
}

static void print_pairs(const struct diff *d, const struct diff_options *o, struct buffer *out)
{
	const struct diff_row *gone = NULL, *to = NULL;

	if (d->n_pairs)
		buffer_printf(out,
			      "\nrenamed, or inlined into another: the cost is the same\n"
			      "%8s %7s %7s  %s\n",
			      "change", "A %", "B %", "function");
	for (uint32_t i = 1; i <= d->n_pairs; i++) {
		size_t columns;

		find_pair(d, i, &gone, &to);
		columns = name_columns(o, PAIR_COLUMNS + strlen(gone->module), 2);
		buffer_printf(out, "%+8.2f %7.2f %7.2f  ", gone->change + to->change,
			      text_percent(gone->weight[0] + to->weight[0], d->weight[0]),
			      text_percent(to->weight[1], d->weight[1]));
		(void)text_fit_clean(out, gone->name, columns);
		buffer_printf(out, "  %s  ", to->weight[0] ? "into" : "is now");
		(void)text_fit_clean(out, to->name, columns);
		buffer_append(out, "  ", 2);
		text_clean(out, gone->module);
		buffer_append(out, "\n", 1);
	}
}

/* What the scale hides, and what too few rows show. */
static void print_whole(const struct diff *d, struct buffer *out)
{
	if (diff_whole_is_significant(d))
		buffer_printf(out, "all of B is %.1f +- %.1f %% %s than all of A%s\n",
			      fabs(d->whole_change), d->whole_error,
			      d->whole_change > 0 ? "more" : "less",
			      diff_hides_whole(d) ? ", as recorded: if both did the same work, "
						    "--normalise total compares (and --fail-above "
						    "counts) this change too"
						  : "");
}

/* Different names are the reason where little of either is in rows of both. */
static void print_common(const struct diff *d, const struct diff_options *o, struct buffer *out)
{
	uint64_t alone[2] = {0, 0};
	double percent[2];

	if (o->total) /* a row includes others */
		return;
	for (size_t i = 0; i < d->n; i++)
		for (size_t k = 0; k < 2; k++)
			alone[k] += d->rows[i].weight[!k] ? 0 : d->rows[i].weight[k];
	for (size_t k = 0; k < 2; k++)
		percent[k] = text_percent(alone[k], d->weight[k]);
	if (percent[0] > 50 && percent[1] > 50)
		buffer_printf(out,
			      "%.0f %% of A and %.0f %% of B are in rows that the other does not "
			      "have: their names differ%s\n",
			      percent[0], percent[1],
			      o->tree && !diff_has_programs(d) ? " (--by function leaves out "
								 "the names of processes)"
							       : "");
}

static void print_text(const struct diff *d, const struct diff_options *o,
		       const char *const names[2], struct buffer *out)
{
	size_t n = 0, significant = 0, rest;
	char number[32];

	print_profile(d, 0, names[0], out);
	print_profile(d, 1, names[1], out);
	print_scale(d, o, out);
	for (size_t i = 0; i < d->n; i++)
		significant += d->rows[i].significant;
	if (!significant)
		buffer_printf(out, "no significant change\n");
	print_whole(d, out);
	print_common(d, o, out);
	buffer_append(out, "\n", 1);
	for (; n < (o->all ? d->n : significant) && (!o->limit || n < o->limit); n++) {
		if (!n)
			buffer_printf(out, "%8s %7s %7s %7s %9s  %s\n", "change", "+-", "A %",
				      "B %", "relative", by_name(o));
		print_row(d, &d->rows[n], o, out);
	}
	rest = d->n - n - (o->all ? 0 : 2 * (size_t)d->n_pairs);
	if (rest)
		buffer_printf(out, "... and %s more%s\n", text_count(rest, number),
			      n < significant ? " (--limit 0 shows all)"
					      : " without a significant change (--all shows them)");
	print_pairs(d, o, out);
}

/* ---- JSON ---- */

static void json_profile(const struct diff *d, size_t which, const char *name, struct buffer *out)
{
	text_json_append(out, which ? "\"b\": {\"file\": " : "\"a\": {\"file\": ", name);
	buffer_printf(
		out, ", \"samples\": %" PRIu64 ", \"weight\": %" PRIu64 ", \"duration_s\": %.3f}, ",
		d->count[which], d->weight[which], d->seconds[which]);
}

static void json_pairs(const struct diff *d, struct buffer *out)
{
	const struct diff_row *gone = NULL, *to = NULL;

	if (!d->n_pairs)
		return;
	buffer_printf(out, ", \"renamed\": [");
	for (uint32_t i = 1; i <= d->n_pairs; i++) {
		find_pair(d, i, &gone, &to);
		text_json_append(out, i > 1 ? ",{\"from\": " : "{\"from\": ", gone->name);
		text_json_append(out, ", \"to\": ", to->name);
		buffer_printf(
			out, ", \"a\": %" PRIu64 ", \"b\": %" PRIu64 ", \"change_percent\": %.3f}",
			gone->weight[0] + to->weight[0], to->weight[1], gone->change + to->change);
	}
	buffer_printf(out, "]");
}

static void print_json(const struct diff *d, const struct diff_options *o,
		       const char *const names[2], struct buffer *out)
{
	buffer_append(out, "{", 1);
	json_profile(d, 0, names[0], out);
	json_profile(d, 1, names[1], out);
	text_json_append(out, "\"unit\": ", d->unit);
	text_json_append(out, ", \"normalise\": ",
			 d->scaled == DIFF_COUNTER ? o->counter : diff_scale_names[d->scaled]);
	buffer_printf(out,
		      ", \"scale\": %.6f, \"whole_change_percent\": %.3f, "
		      "\"whole_error_percent\": %.3f, \"failed\": %s, \"rows\": [",
		      d->scale, d->whole_change, d->whole_error,
		      diff_fails(d, o) ? "true" : "false");
	for (size_t i = 0, n = 0; i < d->n && (!o->limit || n < o->limit); i++) {
		const struct diff_row *row = &d->rows[i];

		if (!row->significant && !o->all)
			break;
		buffer_printf(out, "%s\n{\"%s\": ", n++ ? "," : "", by_name(o));
		json_name(d, row, o, out);
		buffer_printf(out,
			      ", \"a\": %" PRIu64 ", \"b\": %" PRIu64 ", \"a_samples\": %" PRIu64
			      ", \"b_samples\": %" PRIu64
			      ", \"change_percent\": %.3f, \"error_percent\": %.3f, "
			      "\"significant\": %s}",
			      row->weight[0], row->weight[1], row->count[0], row->count[1],
			      row->change, row->error, row->significant ? "true" : "false");
	}
	buffer_printf(out, "\n]");
	json_pairs(d, out);
	buffer_printf(out, "}\n");
}

int diff_write(const struct diff *d, const struct diff_options *o, const char *const names[2],
	       FILE *file)
{
	_cleanup_(buffer_deinit) struct buffer out = {0};

	if (o->json)
		print_json(d, o, names, &out);
	else
		print_text(d, o, names, &out);
	if (out.bad)
		return fail(-ENOMEM);
	(void)fwrite(out.data, 1, out.len, file);
	return text_finish(file);
}
