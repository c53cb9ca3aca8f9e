/* diff.c - see diff.h.
 *
 * A row has n samples of the mean weight w.  The error of its weight has three parts:
 *
 *   sampling   sqrt(n + 1) w: samples that fall by chance, Poisson.  One more, so that a row of none has an error
 *   runs       2 % of the weight: two runs of one program differ by about this (caches, frequency, other load)
 *   spread     what is left: if the middle row differs by more errors than chance allows, all errors are multiplied.
 *              Measured around the ratio that the rows share, not around the chosen scale: if one function takes more
 *              of each second, the others take less, and that is not noise
 *
 * The last assumes that most rows that both profiles have did not change; rows of one profile alone mean nothing for runs,
 * else two different programs would have no significant change.  The interval is that of the normal distribution at 0.05 / rows
 * (Bonferroni), so that one false row in 20 comparisons is expected, not one in 20 rows.
 *
 * The whole is one comparison more, of its own: that it grew means something only where both did the same work, on a machine
 * of the same speed, which --normalise total states.
 */
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
	TREE_NODES = 1 << 20,
};
#define RUN_ERROR 0.02
/* Of the cost of a function that is gone, what its successor may have more or less. */
#define PAIR_LEFT 0.2

const char *const diff_scale_names[] = {"median", "total", "second", "share", "samples", NULL};
const char *const diff_by_names[] = {
	[REPORT_FUNCTION] = "function", [REPORT_PROCESS] = "process", [REPORT_THREAD] = "thread",
	[REPORT_MODULE] = "module",	[DIFF_BY_TREE] = "tree",      NULL};

/* ---- names ---- */

/* Of the only process that has samples, by name; of its main thread, and of the module of that name. */
static void find_program(struct diff_program *program, const struct fold *f)
{
	const struct profile *p = f->profile;
	const char *one = NULL;
	char unused[32]; /* the process has a name */

	for (size_t i = 0; i < f->n_groups; i++) {
		uint32_t thread = f->groups[i].thread, process = p->threads[thread].process;
		const char *name = profile_process_name(p, process);

		if (!*name || !strcmp(name, "?") || (one && strcmp(name, one) != 0))
			return;
		one = name;
		if (p->threads[thread].tid == p->processes[process].pid)
			program->thread = fold_thread_name(f, thread, unused);
	}
	program->process = one;
	for (size_t i = 0; one && i < p->n_modules; i++) {
		uint32_t path = p->modules[i].path;
		const char *text = path ? string_table_text(&p->strings, path) : "";

		if (!strcmp(fold_base_name(text), one)) {
			program->module = text;
			(void)snprintf(program->code, sizeof(program->code), "[%s]", one);
		}
	}
}

bool diff_renames(const struct diff *d)
{
	return diff_has_programs(d) && strcmp(d->programs[0].process, d->programs[1].process) != 0;
}

/* Code that a runtime made: the module has the pid in its name, and so has a function without one. */
static bool is_jit(const char *name, enum report_by by)
{
	const char *before = by == REPORT_MODULE ? "/tmp/perf-" : "[perf-",
		   *behind = by == REPORT_MODULE ? ".map" : ".map]";
	size_t len = strlen(before), digits;

	if (strncmp(name, before, len) != 0)
		return false;
	digits = strspn(name + len, "0123456789");
	return digits && !strcmp(name + len + digits, behind);
}

/* The name in A of a row of side @which. */
static const char *match_name(const struct diff *d, size_t which, enum report_by by,
			      const char *name)
{
	const struct diff_program *a = &d->programs[0], *b = &d->programs[1];
	const char *from = by == REPORT_PROCESS	 ? b->process
			   : by == REPORT_THREAD ? b->thread
			   : by == REPORT_MODULE ? b->module
						 : b->code,
		   *to = by == REPORT_PROCESS  ? a->process
			 : by == REPORT_THREAD ? a->thread
			 : by == REPORT_MODULE ? a->module
					       : a->code;

	if ((by == REPORT_MODULE || by == REPORT_FUNCTION) && is_jit(name, by))
		return "[jit]";
	return which && diff_has_programs(d) && from && to && *to && !strcmp(name, from) ? to
											 : name;
}

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

static int tree_add_group(struct diff *d, struct fold *f, const struct fold_group *g,
			  const uint32_t *calls, size_t n, size_t which)
{
	struct diff_tree *t = &d->tree;
	uint32_t up = UINT32_MAX, name;
	char process[32];
	int r = tree_add_name(t,
			      match_name(d, which, REPORT_PROCESS,
					 fold_process_name(f, fold_process(f, g), process)),
			      &name);

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
		r = tree_add_name(t,
				  match_name(d, which, REPORT_FUNCTION,
					     fold_symbol_name(f, fold_call_symbol(calls[i]))),
				  &name);
	}
	return trace(r);
}

/* Adds the groups of @fold to side @which (0: A, 1: B).  -ENOMEM; -E2BIG: profile_strerror(). */
static int diff_tree_add(struct diff *d, struct fold *f, size_t which)
{
	_cleanup_(freep) uint32_t *calls = calloc(f->max_depth + 1, sizeof(*calls));
	int r = calls ? 0 : fail(-ENOMEM);

	for (size_t i = 0; i < f->n_groups && r >= 0; i++)
		r = tree_add_group(d, f, &f->groups[i], calls, fold_stack(f, &f->groups[i], calls),
				   which);
	return r < 0 ? trace(r) : 0;
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
	find_program(&d->programs[which], &fold);
	if (o->tree || o->page)
		r = diff_tree_add(d, &fold, which);
	if (r >= 0 && !o->tree)
		r = rows_fill(&rows, &fold, o->by);
	for (size_t i = 0; i < rows.n && r >= 0; i++) {
		const struct row *from = &rows.list[i];
		const char *module = "";
		struct diff_row *row = NULL;
		char name[32];

		if (o->by == REPORT_FUNCTION)
			module = fold_base_name(match_name(d, which, REPORT_MODULE,
							   fold_symbol_module(&fold, from->id)));
		r = get_row(d, match_name(d, which, o->by, row_name(&fold, o->by, from, name)),
			    module, &row);
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

static bool is_common(const struct diff_row *row, uint64_t least)
{
	return is_tested(row) && row->count[0] >= least && row->count[1] >= least &&
	       row->weight[0] && row->weight[1];
}

/* The ratio that the rows share; of few samples it would be that of the shorter profile. */
static double common_scale(const struct diff *d, double *scratch)
{
	size_t n = 0;

	if (d->scaled == DIFF_MEDIAN)
		return d->scale;
	for (size_t i = 0; i < d->n; i++)
		if (is_common(&d->rows[i], TESTED_SAMPLES))
			scratch[n++] = (double)d->rows[i].weight[0] / (double)d->rows[i].weight[1];
	return n >= MIDDLE_ROWS ? median(scratch, n) : d->scale;
}

/* How much the rows that both profiles have differ from what they have in common, in errors. */
static double spread_of(struct diff *d, double scale_error, double *scratch)
{
	double scale = d->scale, spread;
	size_t n = 0;

	d->scale = common_scale(d, scratch);
	for (size_t i = 0; i < d->n; i++)
		if (is_common(&d->rows[i], 1))
			scratch[n++] = fabs(change_of(d, &d->rows[i])) /
				       error_of(d, &d->rows[i], scale_error);
	d->scale = scale;
	if (n < SPREAD_ROWS)
		return 1;
	spread = 1.4826 * median(scratch, n);
	/* Of n rows chance alone makes it 1 +- 1.17 / sqrt(n). */
	return spread < 1 + 2 * 1.17 / sqrt((double)n) ? 1 : spread;
}

static void judge(struct diff *d, double scale_error, double *scratch)
{
	double whole = (double)d->weight[0], spread = spread_of(d, scale_error, scratch), z;
	size_t tested = 0;

	for (size_t i = 0; i < d->n; i++)
		tested += is_tested(&d->rows[i]);
	z = normal_quantile(0.025 / (double)(tested ? tested : 1));
	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *row = &d->rows[i];

		row->change = 100 * change_of(d, row) / whole;
		row->error = 100 * z * spread * error_of(d, row, scale_error) / whole;
		row->significant = is_tested(row) && fabs(row->change) > row->error;
	}
}

static void judge_whole(struct diff *d)
{
	const struct diff_row all = {.count = {d->count[0], d->count[1]},
				     .weight = {d->weight[0], d->weight[1]}};
	double scale = d->scale, whole = (double)d->weight[0];

	if (diff_hides_whole(d))
		d->scale = 1;
	d->whole_change = 100 * change_of(d, &all) / whole;
	d->whole_error = 100 * normal_quantile(0.025) * error_of(d, &all, d->counter_error) / whole;
	d->scale = scale;
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
	d->fell_back = true;
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
	judge_whole(d);
	qsort(d->rows, d->n, sizeof(*d->rows), compare_rows);
	if (o->by == REPORT_FUNCTION && !o->tree && !o->total)
		find_pairs(d);
	if (d->n_pairs)
		qsort(d->rows, d->n, sizeof(*d->rows), compare_rows);
	return 0;
}

bool diff_fails(const struct diff *d, const struct diff_options *o)
{
	if (o->fail_above >= 0 && !diff_hides_whole(d) && diff_whole_is_significant(d) &&
	    d->whole_change > o->fail_above)
		return true;
	for (size_t i = 0; i < d->n && o->fail_above >= 0; i++)
		if (d->rows[i].significant && d->rows[i].change > o->fail_above)
			return true;
	return false;
}
