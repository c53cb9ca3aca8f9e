/* raw.h - the file of `record --perf-data`.  Thread: main. */
#pragma once

#include "perf/perfdata/perfdata-out.h"

/* @path is made anew, what was there is kept as PATH.old.  A failure has been told. */
int raw_open(const char *path, size_t n_events, struct perfdata_out **ret_raw);
/* @raw NULL: nothing to do.  A failure has been told. */
int raw_finish(struct perfdata_out *raw, const char *path);
