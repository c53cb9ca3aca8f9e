/* record-waits.h - `record --off-cpu` and `--wall`: the event that stands for them.  Thread: main. */
#pragma once

#include "cli/record-options.h"
#include "config/session-options.h"

enum session_waits record_waits(const struct record_args *args);
/* Sets waits, and waking where this user may read tracefs. */
void record_waits_set(const struct record_args *args, struct session_options *options);
/* What is sampled besides switches: nothing (off CPU), or a clock.  Turns args->frequency into a period. */
void record_waits_event(struct record_args *args, struct perf_spec *ret_spec);
