/* rows.h - a fold as a table: one row a function, process, thread, module, cgroup or
 * reason.  Thread: main (of a command).
 *
 * A row's total counts each sample once, however often its function recurs. */
#pragma once

#include "profile/fold.h"
#include "profile/profile-export.h"

struct row {
	/* symbol, module (UINT32_MAX: none), index in processes (the first of its name, but for REPORT_PID) or in
	 * threads, string of a cgroup (0: none), symbol of a reason (UINT32_MAX: it ran) */
	uint32_t id;
	uint32_t seen;	      /* private: group + 1 */
	uint32_t n_processes; /* of REPORT_PROCESS: that have samples */
	bool inlined;	      /* a function: in all stacks */
	bool all_guessed;     /* private: in the group of `seen` */
	uint64_t self_count, self_weight, count, weight;
	/* A function, a module: of the stacks in which all its calls are guesses. */
	uint64_t guessed_weight;
};
struct rows {
	struct row *list;
	size_t n, room;
	uint32_t *by_id; /* number in list + 1; 0: none */
	size_t n_ids;	 /* the last stands for UINT32_MAX */
};

/* -ENOMEM, -E2BIG. */
int rows_fill(struct rows *rows, struct fold *fold, enum report_by by);
void rows_deinit(struct rows *rows);
/* Leaves out rows with less than @least in all. */
void rows_leave_out(struct rows *rows, uint64_t least);
/* Largest first; of equal rows the other figures decide, and at last what was met first. */
void rows_sort(struct rows *rows, const struct fold *fold, enum report_by by,
	       enum report_sort sort);
/* The name of a row.  Into @to where the trace has none. */
const char *row_name(const struct fold *fold, enum report_by by, const struct row *row,
		     char to[32]);
/* Are totals more than self figures? */
static inline bool rows_have_totals(enum report_by by)
{
	return by == REPORT_FUNCTION || by == REPORT_MODULE;
}
