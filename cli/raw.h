/* raw.h - the file of `record --perf-data`.  Thread: main. */
#pragma once

#include "perf/perfdata/perfdata-out.h"

/* Creates @path; an existing file is renamed to PATH.old.  Failures are logged. */
int raw_open(const char *path, size_t n_events, struct perfdata_out **ret_raw);
/* Does nothing for NULL.  Failures are logged. */
int raw_finish(struct perfdata_out *raw, const char *path);
