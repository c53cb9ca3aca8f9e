/* rows.c - see rows.h.  `seen` holds the last group that was added to a row. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/rows.h"
#include "protos/wait-module.h"

const char *const report_by_names[] = {
	[REPORT_FUNCTION] = "function", [REPORT_PROCESS] = "process", [REPORT_THREAD] = "thread",
	[REPORT_MODULE] = "module",	[REPORT_CGROUP] = "cgroup",   [REPORT_PID] = "pid",
	[REPORT_REASON] = "reason",	[REPORT_MARK] = "mark",	      NULL,
};
const char *const report_sort_names[] = {
	[REPORT_SORT_SELF] = "self",
	[REPORT_SORT_TOTAL] = "total",
	[REPORT_SORT_SAMPLES] = "samples",
	[REPORT_SORT_NAME] = "name",
	NULL,
};

void rows_deinit(struct rows *rows)
{
	free(rows->list);
	free(rows->by_id);
	*rows = (struct rows){0};
}

/* As many ids as the thing that rows are of has. */
static int rows_init(struct rows *rows, struct fold *fold, enum report_by by)
{
	const struct profile *p = fold->profile;
	const size_t n[] = {
		[REPORT_FUNCTION] = fold->n_symbols,
		[REPORT_PROCESS] = p->n_processes,
		[REPORT_THREAD] = p->n_threads,
		[REPORT_MODULE] = p->n_modules,
		[REPORT_CGROUP] = p->strings.n_entries + 1,
		[REPORT_PID] = p->n_processes,
		[REPORT_REASON] = fold->n_symbols,
		[REPORT_MARK] = 0, /* no rows of these */
	};
	int r = fold_array(fold, n[by], sizeof(*rows->by_id), "rows", &rows->by_id);

	rows->n_ids = n[by] + 1;
	return r < 0 ? trace(r) : 0;
}

static int row_get(struct rows *rows, struct fold *fold, uint32_t id, struct row **ret_row)
{
	uint32_t *number = &rows->by_id[min_u64(id, rows->n_ids - 1)];

	if (!*number) {
		/* And as much again for sorting. */
		int r = rows->n < rows->room
				? 0
				: fold_grow(fold, rows->list, rows->room, 256, 2, "rows");

		if (r < 0)
			return trace(r);
		rows->list[rows->n++] = (struct row){.id = id, .inlined = true};
		*number = (uint32_t)rows->n;
	}
	*ret_row = &rows->list[*number - 1];
	return 0;
}

/* @call: with its bits. */
static int add_to_row(struct rows *rows, struct fold *fold, uint32_t id, uint32_t group, bool self,
		      uint32_t call)
{
	bool guessed = call & FOLD_GUESSED;
	const struct fold_group *g = &fold->groups[group];
	struct row *row = NULL;
	int r = row_get(rows, fold, id, &row);

	if (r < 0)
		return trace(r);
	row->inlined &= (call & FOLD_INLINED) != 0;
	/* Groups are ordered by process. */
	if (!row->seen || fold_process(fold, &fold->groups[row->seen - 1]) != fold_process(fold, g))
		row->n_processes++;
	if (row->seen != group + 1) {
		row->seen = group + 1;
		row->count += g->count;
		row->weight += g->weight;
		row->all_guessed = guessed;
		row->guessed_weight += guessed ? g->weight : 0;
	} else if (row->all_guessed && !guessed) {
		row->all_guessed = false;
		row->guessed_weight -= g->weight;
	}
	if (self) {
		row->self_count += g->count;
		row->self_weight += g->weight;
	}
	return 0;
}

static int add_calls(struct rows *rows, struct fold *fold, enum report_by by, uint32_t group,
		     const uint32_t *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint32_t symbol = fold_call_symbol(calls[i]), id = symbol;

		if (by == REPORT_MODULE) {
			/* A marker is not code: it has a row among modules only if it is all there is. */
			if (fold->symbols[symbol].kind == FOLD_MARKER && n > 1)
				continue;
			id = fold->symbols[symbol].module;
		}
		r = add_to_row(rows, fold, id, group, i + 1 == n, calls[i]);
	}
	return r < 0 ? trace(r) : 0;
}

/* Is it the reason of a wait (protos/wait-module.h)? */
static bool is_wait(const struct fold *f, uint32_t symbol)
{
	return !strcmp(fold_symbol_module(f, symbol), WAIT_MODULE) &&
	       fold_symbol_name(f, symbol)[0] == '[';
}

/* The symbol that stands for why the thread waited; UINT32_MAX: it ran. */
static uint32_t reason_of(const struct fold *fold, const uint32_t *calls, size_t n)
{
	uint32_t symbol = n ? fold_call_symbol(calls[n - 1]) : UINT32_MAX;

	return n && is_wait(fold, symbol) &&
			       strcmp(fold_symbol_name(fold, symbol), WAIT_RUNNING_FRAME) != 0
		       ? symbol
		       : UINT32_MAX;
}

static int fill(struct rows *rows, struct fold *fold, enum report_by by, const uint32_t *first,
		uint32_t *calls)
{
	int r = 0;

	for (uint32_t i = 0; i < fold->n_groups && r == 0; i++) {
		const struct fold_group *g = &fold->groups[i];
		uint32_t process = fold_process(fold, g), id;

		if (by == REPORT_FUNCTION || by == REPORT_MODULE) {
			r = add_calls(rows, fold, by, i, calls, fold_stack(fold, g, calls));
			continue;
		}
		id = by == REPORT_REASON    ? reason_of(fold, calls, fold_stack(fold, g, calls))
		     : by == REPORT_PROCESS ? first[process]
		     : by == REPORT_THREAD  ? g->thread
		     : by == REPORT_CGROUP  ? fold->profile->processes[process].cgroup
					    : process;
		r = add_to_row(rows, fold, id, i, true, 0);
	}
	return r < 0 ? trace(r) : 0;
}

int rows_fill(struct rows *rows, struct fold *fold, enum report_by by)
{
	_cleanup_(freep) uint32_t *calls = calloc(fold->max_depth + 1, sizeof(*calls));
	_cleanup_(freep) uint32_t *first = NULL;
	int r = calls ? rows_init(rows, fold, by) : fail(-ENOMEM);

	if (r >= 0 && by == REPORT_PROCESS)
		r = fold_same_names(fold, &first);
	if (r >= 0)
		r = fill(rows, fold, by, first, calls);
	if (r < 0)
		rows_deinit(rows);
	return r < 0 ? trace(r) : 0;
}

const char *row_name(const struct fold *f, enum report_by by, const struct row *row, char to[32])
{
	const struct profile *p = f->profile;

	switch (by) {
	case REPORT_FUNCTION:
		return fold_symbol_name(f, row->id);
	case REPORT_MODULE:
		return row->id < p->n_modules && p->modules[row->id].path
			       ? string_table_text(&p->strings, p->modules[row->id].path)
			       : "[no module]";
	case REPORT_CGROUP:
		return row->id ? string_table_text(&p->strings, row->id) : "[unknown]";
	case REPORT_THREAD:
		return fold_thread_name(f, row->id, to);
	case REPORT_REASON: { /* "[sleep]" without its brackets */
		const char *name =
			row->id < f->n_symbols ? fold_symbol_name(f, row->id) + 1 : "running";

		(void)snprintf(to, 32, "%.*s", (int)strcspn(name, "]"), name);
		return to;
	}
	case REPORT_PROCESS:
	case REPORT_PID:
	case REPORT_MARK:
		break;
	}
	return fold_process_name(f, row->id, to);
}

/* ---- order ---- */

struct order {
	const struct fold *fold;
	enum report_by by;
	enum report_sort sort;
};

/* A step for each key: a sum of comparisons costs a quarter more. */
#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? 1 : -1

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct order *order = arg;
	const struct row *x = a, *y = b;
	char one[32], two[32];

	if (order->sort == REPORT_SORT_NAME) {
		int r = strcmp(row_name(order->fold, order->by, x, one),
			       row_name(order->fold, order->by, y, two));

		if (r)
			return r;
	}
	if (order->sort == REPORT_SORT_TOTAL) {
		COMPARE(x->weight, y->weight);
		COMPARE(x->count, y->count);
	}
	if (order->sort == REPORT_SORT_SAMPLES) {
		COMPARE(x->self_count, y->self_count);
		COMPARE(x->count, y->count);
	}
	COMPARE(x->self_weight, y->self_weight);
	COMPARE(x->self_count, y->self_count);
	COMPARE(x->weight, y->weight);
	COMPARE(x->count, y->count);
	COMPARE(y->id, x->id);
	return 0;
}

void rows_leave_out(struct rows *rows, uint64_t least)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->n; i++)
		if (max_u64(rows->list[i].weight, rows->list[i].self_weight) >= least)
			rows->list[kept++] = rows->list[i];
	rows->n = kept;
}

void rows_sort(struct rows *rows, const struct fold *fold, enum report_by by, enum report_sort sort)
{
	struct order order = {fold, by, sort};

	if (rows->n)
		qsort_r(rows->list, rows->n, sizeof(*rows->list), compare_rows, &order);
}
