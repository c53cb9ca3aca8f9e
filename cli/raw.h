/* raw.h - the file of `record --perf-data`.  Thread: main. */
#pragma once

#include "perf/perfdata/perfdata-out.h"

/* Creates @path; an existing file is renamed to PATH.old, *ret_replaced then.  Failures are logged. */
int raw_open(const char *path, size_t n_events, bool *ret_replaced, struct perfdata_out **ret_raw);
/* As before raw_open(), where nothing was recorded. */
void raw_discard(const char *path, bool replaced);
/* Does nothing for NULL.  Failures are logged. */
int raw_finish(struct perfdata_out *raw, const char *path);
