/* diff.c - see diff.h.
 *
 * A row has n samples of the mean weight w.  The error of its weight has three parts:
 *
 *   sampling   sqrt(n + 1) w: samples that fall by chance, Poisson.  One more, so that a row of none has an error
 *   runs       2 % of the weight: two runs of one program differ by about this (caches, frequency, other load)
 *   spread     what is left: if the middle row differs by more errors than chance allows, all errors are multiplied
 *
 * The last assumes that most rows that both profiles have did not change; rows of one profile alone mean nothing for runs,
 * else two different programs would have no significant change.  The interval is that of the normal distribution at 0.05 / rows
 * (Bonferroni), so that one false row in 20 comparisons is expected, not one in 20 rows.
 *
 * The page is built in: diff-page.html, in which @DATA@ is replaced by one JSON object, in an element that is never run:
 *   a, b       names of the files;  unit; scale (of B)
 *   names      texts
 *   up, name, wa, wb   by node: the parent (-1: none), a text, weights with all below in A and B; a parent is before its
 *              children */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "profile/diff.h"
#include "profile/profile-text.h"
#include "profile/rows.h"
#include "profile/summary.h"

enum {
	MIDDLE_SAMPLES = 50, /* in both profiles: rows that the median of the ratios is of */
	MIDDLE_ROWS = 5,     /* with fewer the median means nothing */
	TESTED_SAMPLES = 10, /* in both together */
	SPREAD_ROWS = 8,
	PATH_CALLS = 6,
	TREE_NODES = 1 << 20,
};
#define RUN_ERROR 0.02
/* Of the cost of a function that is gone, what its successor may have more or less. */
#define PAIR_LEFT 0.2

__asm__(".pushsection .rodata\n"
	"diff_page: .incbin \"profile/diff-page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char diff_page[];
#define DATA_MARK "@DATA@"

/* Narrower calls cannot be seen: a share of all. */
#define PAGE_MIN 0.0002

const char *const diff_scale_names[] = {"median", "total", "second", "share", "samples", NULL};
const char *const diff_by_names[] = {
	[REPORT_FUNCTION] = "function", [REPORT_PROCESS] = "process", [REPORT_THREAD] = "thread",
	[REPORT_MODULE] = "module",	[DIFF_BY_TREE] = "tree",      NULL};

/* ---- the tree of calls ---- */

static void diff_tree_deinit(struct diff_tree *t)
{
	string_table_deinit(&t->names);
	table_deinit(&t->children);
	free(t->nodes);
	*t = (struct diff_tree){.n = 0};
}

static int tree_add_node(struct diff_tree *t, struct fold *f, uint32_t up, uint32_t name,
			 uint32_t *ret_node)
{
	uint64_t key = (uint64_t)(up + 1) << 32 | name, found;
	int r;

	if (table_get(&t->children, key, &found)) {
		*ret_node = (uint32_t)found;
		return 0;
	}
	r = fold_limit(f, t->n + 1, TREE_NODES, "call paths");
	if (r >= 0 && t->n == t->room && !array_grow(t->nodes, t->room, 1024))
		r = fail(-ENOMEM);
	if (r >= 0)
		r = table_put(&t->children, key, t->n);
	if (r < 0)
		return trace(r);
	*ret_node = (uint32_t)t->n;
	t->nodes[t->n++] = (struct diff_tree_node){.up = up, .name = name};
	return 0;
}

static int tree_add_name(struct diff_tree *t, const char *name, uint32_t *ret)
{
	return string_table_add(&t->names, name, strlen(name), ret, NULL);
}

static int tree_add_group(struct diff_tree *t, struct fold *f, const struct fold_group *g,
			  const uint32_t *calls, size_t n, size_t which)
{
	uint32_t up = UINT32_MAX, name;
	char process[32];
	int r = tree_add_name(t, fold_process_name(f, fold_process(f, g), process), &name);

	for (size_t i = 0; r >= 0; i++) {
		r = tree_add_node(t, f, up, name, &up);
		if (r < 0)
			break;
		t->nodes[up].count[which] += g->count;
		t->nodes[up].weight[which] += g->weight;
		if (i == n) {
			t->nodes[up].self_count[which] += g->count;
			t->nodes[up].self_weight[which] += g->weight;
			return 0;
		}
		r = tree_add_name(t, fold_symbol_name(f, fold_call_symbol(calls[i])), &name);
	}
	return trace(r);
}

/* Adds the groups of @fold to side @which (0: A, 1: B).  -ENOMEM; -E2BIG: profile_strerror(). */
static int diff_tree_add(struct diff_tree *t, struct fold *f, size_t which)
{
	_cleanup_(freep) uint32_t *calls = calloc(f->max_depth + 1, sizeof(*calls));
	int r = calls ? 0 : fail(-ENOMEM);

	for (size_t i = 0; i < f->n_groups && r >= 0; i++)
		r = tree_add_group(t, f, &f->groups[i], calls, fold_stack(f, &f->groups[i], calls),
				   which);
	return r < 0 ? trace(r) : 0;
}

/* "process;main;work" up to @node; of more than @most calls the outer ones become "...".  0: all. */
static void diff_tree_path(const struct diff_tree *t, uint32_t node, size_t most, struct buffer *to)
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

void diff_deinit(struct diff *d)
{
	string_table_deinit(&d->names);
	string_table_deinit(&d->modules);
	diff_tree_deinit(&d->tree);
	free(d->rows);
	*d = (struct diff){0};
}

/* ---- rows ---- */

static int make_room(struct diff *d)
{
	return d->n < d->room || array_grow(d->rows, d->room, 256) ? 0 : fail(-ENOMEM);
}

static int get_row(struct diff *d, const char *name, const char *module, struct diff_row **ret_row)
{
	uint32_t id, module_id;
	bool is_new;
	int r = string_table_add(&d->names, name, strlen(name), &id, &is_new);

	if (r >= 0)
		r = string_table_add(&d->modules, module, strlen(module), &module_id, NULL);
	if (r < 0)
		return trace(r);
	if (is_new) {
		if (make_room(d) < 0)
			return fail(-ENOMEM);
		d->rows[d->n++] =
			(struct diff_row){.name = string_table_text(&d->names, id),
					  .module = string_table_text(&d->modules, module_id)};
	}
	*ret_row = &d->rows[id - 1]; /* names are numbered from 1 in their order */
	return 0;
}

/* Each call path with samples is a row. */
static int add_paths(struct diff *d, bool total)
{
	for (uint32_t i = 0; i < d->tree.n; i++) {
		const struct diff_tree_node *node = &d->tree.nodes[i];
		const uint32_t *count = total ? node->count : node->self_count;
		const uint64_t *weight = total ? node->weight : node->self_weight;

		if (!count[0] && !count[1])
			continue;
		if (make_room(d) < 0)
			return fail(-ENOMEM);
		d->rows[d->n++] = (struct diff_row){
			.name = string_table_text(&d->tree.names, node->name),
			.module = "",
			.node = i,
			.count = {count[0], count[1]},
			.weight = {weight[0], weight[1]},
		};
	}
	return 0;
}

static int add_profile(struct diff *d, const struct profile *p, const struct diff_options *o,
		       size_t which)
{
	_cleanup_(rows_deinit) struct rows rows = {0};
	struct fold fold;
	int r = fold_init(&fold, p, &o->only);

	if (r < 0)
		return trace(r);
	if (o->tree || o->page)
		r = diff_tree_add(&d->tree, &fold, which);
	if (r >= 0 && !o->tree)
		r = rows_fill(&rows, &fold, o->by);
	for (size_t i = 0; i < rows.n && r >= 0; i++) {
		const struct row *from = &rows.list[i];
		const char *module = o->by == REPORT_FUNCTION
					     ? fold_base_name(fold_symbol_module(&fold, from->id))
					     : "";
		struct diff_row *row = NULL;
		char name[32];

		r = get_row(d, row_name(&fold, o->by, from, name), module, &row);
		if (r < 0)
			break;
		row->count[which] += o->total ? from->count : from->self_count;
		row->weight[which] += o->total ? from->weight : from->self_weight;
	}
	d->count[which] = fold.count;
	d->weight[which] = fold.weight;
	d->seconds[which] = summary_duration(p);
	fold_deinit(&fold);
	return r < 0 ? trace(r) : 0;
}

/* ---- scale ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* @n > 0. */
static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The ratios of the rows with enough samples, in @to (room for all rows). */
static size_t middle_ratios(const struct diff *d, double *to)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct diff_row *row = &d->rows[i];

		if (row->count[0] >= MIDDLE_SAMPLES && row->count[1] >= MIDDLE_SAMPLES &&
		    row->weight[0] && row->weight[1])
			to[n++] = (double)row->weight[0] / (double)row->weight[1];
	}
	return n;
}

static bool is_counter(const char *name, const char *wanted, bool whole)
{
	size_t len = strlen(wanted);

	return !strncmp(name, wanted, len) && (!name[len] || (!whole && name[len] == ':'));
}

static const char *follower_name(const struct profile *p, size_t i)
{
	return string_table_text(&p->strings, p->followers[i].name);
}

/* The sum of a follower of the chosen event, or of the weights of an event.  @ret_error: of the sum, relative. */
static bool find_counter(const struct profile *p, const char *wanted, uint64_t *ret_count,
			 double *ret_error)
{
	for (int whole = 1; whole >= 0; whole--) {
		for (size_t i = 0; i < p->n_followers; i++)
			if (p->followers[i].event == p->event &&
			    is_counter(follower_name(p, i), wanted, whole)) {
				*ret_count = p->followers[i].count;
				*ret_error = 0;
				return true;
			}
		for (size_t e = 0; e < p->n_events; e++) {
			const struct profile_sample *all =
				p->all_samples ? p->all_samples : p->samples;
			size_t n = p->all_samples ? p->n_all_samples : p->n_samples;

			if (!is_counter(p->events[e].name, wanted, whole))
				continue;
			*ret_count = 0;
			for (size_t i = 0; i < n; i++)
				*ret_count += all[i].event == e ? all[i].weight : 0;
			*ret_error = 1 / sqrt((double)max_u64(1, p->events[e].n_samples));
			return true;
		}
	}
	return false;
}

/* Of both traces. */
static int add_counters(struct diff *d, const struct profile *const profiles[2], const char *wanted,
			char *error, size_t size)
{
	double errors[2] = {0, 0};

	for (size_t i = 0; i < 2; i++) {
		const struct profile *p = profiles[i];
		size_t n;

		if (find_counter(p, wanted, &d->counted[i], &errors[i]) && d->counted[i])
			continue;
		n = (size_t)snprintf(error, size, "the %s trace has no count of %.100s; it has:",
				     i ? "second" : "first", wanted);
		for (size_t e = 0; e < p->n_events && n < size; e++)
			n += (size_t)snprintf(error + n, size - n, " %s", p->events[e].name);
		for (size_t f = 0; f < p->n_followers && n < size; f++)
			if (p->followers[f].event == p->event)
				n += (size_t)snprintf(error + n, size - n, " %s",
						      follower_name(p, f));
		return fail(-EINVAL);
	}
	d->counter_error = hypot(errors[0], errors[1]);
	return 0;
}

/* Sets the scale of B; returns its relative error.  Too few rows for a median: as recorded, and fell_back. */
static double choose_scale(struct diff *d, enum diff_scale wanted, double *scratch)
{
	size_t n;

	d->scaled = wanted;
	d->scale = 1;
	if (wanted == DIFF_SHARE) {
		d->scale = (double)d->weight[0] / (double)d->weight[1];
	} else if (wanted == DIFF_SAMPLES) {
		d->scale = (double)d->count[0] / (double)d->count[1];
	} else if (wanted == DIFF_COUNTER) {
		d->scale = (double)d->counted[0] / (double)d->counted[1];
		return d->counter_error;
	} else if (wanted == DIFF_SECOND && d->seconds[0] > 0 && d->seconds[1] > 0) {
		d->scale = d->seconds[0] / d->seconds[1];
	} else if (wanted == DIFF_MEDIAN && (n = middle_ratios(d, scratch)) >= MIDDLE_ROWS) {
		double spread;

		d->n_middle = n;
		d->scale = median(scratch, n);
		for (size_t i = 0; i < n; i++)
			scratch[i] = fabs(scratch[i] / d->scale - 1);
		/* The error of a median is 1.25 times that of a mean. */
		spread = 1.4826 * median(scratch, n);
		return 1.25 * spread / sqrt((double)n);
	} else {
		d->scaled = DIFF_TOTAL;
		d->fell_back = wanted != DIFF_TOTAL;
	}
	return 0;
}

/* ---- errors ---- */

/* The z of the normal distribution beyond which the share @tail of each side lies. */
static double normal_quantile(double tail)
{
	double low = 0, high = 40;

	for (int i = 0; i < 100; i++) {
		double z = (low + high) / 2;

		if (erfc(z / M_SQRT2) / 2 > tail)
			low = z;
		else
			high = z;
	}
	return high;
}

static bool is_tested(const struct diff_row *row)
{
	return row->count[0] + row->count[1] >= TESTED_SAMPLES;
}

/* Of the change of a row in weight: sampling, runs and scale. */
static double error_of(const struct diff *d, const struct diff_row *row, double scale_error)
{
	double variance = 0;

	for (size_t i = 0; i < 2; i++) {
		double scale = i ? d->scale : 1, weight = scale * (double)row->weight[i];
		/* A row without samples is weighed as the profile is. */
		double mean = row->count[i] ? weight / (double)row->count[i]
					    : scale * (double)d->weight[i] / (double)d->count[i];
		double sampling = mean * mean * ((double)row->count[i] + 1);

		variance += sampling + RUN_ERROR * RUN_ERROR * weight * weight;
	}
	variance += scale_error * scale_error * d->scale * d->scale * (double)row->weight[1] *
		    (double)row->weight[1];
	return sqrt(variance);
}

static double change_of(const struct diff *d, const struct diff_row *row)
{
	return d->scale * (double)row->weight[1] - (double)row->weight[0];
}

static void judge(struct diff *d, double scale_error, double *scratch)
{
	double whole = (double)d->weight[0], spread = 1, z;
	size_t n = 0, tested = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct diff_row *row = &d->rows[i];

		if (!is_tested(row))
			continue;
		tested++;
		if (row->count[0] && row->count[1])
			scratch[n++] = fabs(change_of(d, row)) / error_of(d, row, scale_error);
	}
	if (n >= SPREAD_ROWS)
		spread = 1.4826 * median(scratch, n);
	/* Of n rows chance alone makes it 1 +- 1.17 / sqrt(n). */
	if (spread < 1 + 2 * 1.17 / sqrt((double)(n ? n : 1)))
		spread = 1;
	z = normal_quantile(0.025 / (double)(tested ? tested : 1));
	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *row = &d->rows[i];

		row->change = 100 * change_of(d, row) / whole;
		row->error = 100 * z * spread * error_of(d, row, scale_error) / whole;
		row->significant = is_tested(row) && fabs(row->change) > row->error;
	}
}

/* Too few rows for a median.  Two recordings of the same work have the same shares, whatever their lengths: then shares
 * are compared.  Else no row is known to be unchanged, and the profiles are compared as recorded. */
static void judge_few(struct diff *d, double *scratch)
{
	bool same = true;

	judge(d, choose_scale(d, DIFF_SHARE, scratch), scratch);
	for (size_t i = 0; i < d->n && same; i++)
		same = !d->rows[i].significant;
	if (same)
		return;
	judge(d, choose_scale(d, DIFF_TOTAL, scratch), scratch);
}

/* Where the cost of @gone may have gone: a function of the same module with a change that makes up for it. */
static struct diff_row *partner_of(const struct diff *d, const struct diff_row *gone)
{
	struct diff_row *best = NULL;

	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *row = &d->rows[i];
		double left = fabs(row->change + gone->change);

		if (row->pair || !row->significant || row->change <= 0 ||
		    strcmp(row->module, gone->module) != 0 ||
		    left > PAIR_LEFT * fabs(gone->change) || left > hypot(row->error, gone->error))
			continue;
		/* A new one before one that grew. */
		if (!best || (!row->weight[0] && best->weight[0]) ||
		    (!row->weight[0] == !best->weight[0] &&
		     left < fabs(best->change + gone->change)))
			best = row;
	}
	return best;
}

static void find_pairs(struct diff *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *gone = &d->rows[i], *partner;

		if (gone->weight[1] || !gone->significant)
			continue;
		partner = partner_of(d, gone);
		if (!partner)
			continue;
		gone->pair = partner->pair = ++d->n_pairs;
		gone->significant = partner->significant = false;
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;

	if (x->significant != y->significant)
		return x->significant ? -1 : 1;
	return ascend(fabs(y->change), fabs(x->change)) ?:
	       ascend(x->node, y->node) ?: /* of call paths the outer one */
	       strcmp(x->name, y->name);
}

int diff_init(struct diff *d, const struct profile *a, const struct profile *b,
	      const struct diff_options *o, char *error, size_t error_size)
{
	const struct profile *const profiles[] = {a, b};
	_cleanup_(freep) double *scratch = NULL;
	int r = 0;

	*d = (struct diff){0};
	if (strcmp(a->weight_unit, b->weight_unit)) {
		(void)snprintf(error, error_size,
			       "%s and %s count different things (%s, %s): choose with --event",
			       a->event_name, b->event_name, a->weight_unit, b->weight_unit);
		return fail(-EINVAL);
	}
	(void)snprintf(d->unit, sizeof(d->unit), "%s", a->weight_unit);
	for (size_t i = 0; i < 2 && r >= 0; i++) {
		r = add_profile(d, profiles[i], o, i);
		if (r < 0)
			(void)snprintf(error, error_size, "%s", profile_strerror(profiles[i], r));
		else if (!d->weight[i]) {
			(void)snprintf(error, error_size, "the %s trace has no sample of these",
				       i ? "second" : "first");
			r = fail(-EINVAL);
		}
	}
	if (r >= 0 && o->scale == DIFF_COUNTER)
		r = add_counters(d, profiles, o->counter, error, error_size);
	if (r >= 0 && o->tree)
		r = add_paths(d, o->total);
	scratch = r >= 0 ? calloc(d->n + 1, sizeof(*scratch)) : NULL;
	if (r >= 0 && !scratch)
		r = fail(-ENOMEM);
	if (r < 0) {
		diff_deinit(d);
		return trace(r);
	}
	judge(d, choose_scale(d, o->scale, scratch), scratch);
	if (d->fell_back && o->scale == DIFF_MEDIAN)
		judge_few(d, scratch);
	qsort(d->rows, d->n, sizeof(*d->rows), compare_rows);
	if (o->by == REPORT_FUNCTION && !o->tree && !o->total)
		find_pairs(d);
	if (d->n_pairs)
		qsort(d->rows, d->n, sizeof(*d->rows), compare_rows);
	return 0;
}

bool diff_fails(const struct diff *d, const struct diff_options *o)
{
	for (size_t i = 0; i < d->n && o->fail_above >= 0; i++)
		if (d->rows[i].significant && d->rows[i].change > o->fail_above)
			return true;
	return false;
}

static const char *by_name(const struct diff_options *o)
{
	return diff_by_names[o->tree ? DIFF_BY_TREE : (int)o->by];
}

/* ---- the page ---- */

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
				      ? ": too few rows to scale B by; for recordings of different "
					"length: --normalise share"
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

/* The innermost calls of a path. */
static void print_path(const struct diff *d, const struct diff_row *row, struct buffer *out)
{
	_cleanup_(buffer_deinit) struct buffer path = {0};

	diff_tree_path(&d->tree, row->node, PATH_CALLS, &path);
	buffer_append(&path, "", 1);
	if (!path.bad)
		text_clean(out, (const char *)path.data);
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
	text_json(out, (const char *)path.data, path.len);
}

static void print_row(const struct diff *d, const struct diff_row *row,
		      const struct diff_options *o, struct buffer *out)
{
	bool mark = o->colour && row->significant;
	char relative[32];

	buffer_printf(out, "%s%+8.2f%s %7.2f %7.2f %7.2f %9s  ",
		      !mark		? ""
		      : row->change > 0 ? "\033[31m"
					: "\033[32m",
		      row->change, mark ? "\033[0m" : "", row->error,
		      text_percent(row->weight[0], d->weight[0]),
		      text_percent(row->weight[1], d->weight[1]), text_relative(d, row, relative));
	if (o->tree)
		print_path(d, row, out);
	else
		text_clean(out, row->name);
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

static void print_pairs(const struct diff *d, struct buffer *out)
{
	const struct diff_row *gone = NULL, *to = NULL;

	if (d->n_pairs)
		buffer_printf(out,
			      "\nrenamed, or inlined into another: the cost is the same\n"
			      "%8s %7s %7s  %s\n",
			      "change", "A %", "B %", "function");
	for (uint32_t i = 1; i <= d->n_pairs; i++) {
		find_pair(d, i, &gone, &to);
		buffer_printf(out, "%+8.2f %7.2f %7.2f  ", gone->change + to->change,
			      text_percent(gone->weight[0] + to->weight[0], d->weight[0]),
			      text_percent(to->weight[1], d->weight[1]));
		text_clean(out, gone->name);
		buffer_printf(out, "  %s  ", to->weight[0] ? "into" : "is now");
		text_clean(out, to->name);
		buffer_append(out, "  ", 2);
		text_clean(out, gone->module);
		buffer_append(out, "\n", 1);
	}
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
	print_pairs(d, out);
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
	buffer_printf(out, ", \"scale\": %.6f, \"failed\": %s, \"rows\": [", d->scale,
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
