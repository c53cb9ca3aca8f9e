/* report-data.h - the report for programs.  Private to profile/.  Thread: main. */
#pragma once

#include "profile/calltree.h"
#include "profile/profile-export.h"

/* As JSON or CSV.  -ENOMEM, -E2BIG, -ENOENT: no such function. */
int report_write_data(struct fold *fold, const struct report_options *options, FILE *out);
/* The tree of all, or of the callers or callees of one function. */
int report_tree_init(struct calltree *tree, struct fold *fold, const struct report_options *options,
		     uint64_t least);
