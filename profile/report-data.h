/* report-data.h - what a report shows, and its rows for programs: JSON, or CSV (RFC 4180).  Private to the report.  Thread: main. */
#pragma once

#include "profile/calltree.h"
#include "profile/profile-export.h"

/* What a row or a branch that is shown weighs at least. */
uint64_t report_least_weight(const struct fold *f, const struct report_options *o);
/* The tree of all, or of the callers or callees of one function. */
int report_tree_init(struct calltree *tree, struct fold *fold, const struct report_options *o,
		     uint64_t least);

/* -ENOMEM, -E2BIG, -ENOENT: the function is not there. */
int report_data(struct fold *fold, const struct report_options *options, FILE *out);
