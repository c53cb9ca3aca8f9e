/* report-marks.h - `report --by mark`: sections of programs by name, slowest first.  Thread: main (of a command). */
#pragma once

#include "profile/fold.h"
#include "profile/profile-export.h"

/* Rows by p99 of a section's duration: p50, p99, longest, number, the samples inside (also in sections within it); then the longest
 * section of each row with its heaviest stacks.  All forms of options->form.  -ENOMEM; -EIO, -ENOSPC of @out. */
int report_marks(struct fold *fold, const struct report_options *options, FILE *out);
