/* pid-list.h - the processes that -p names.  Thread: main. */
#pragma once

#include "base/util.h"

/* Adds "12,345" to @pids[0..*n), at most @max in all.  -EINVAL: it has been told. */
int pid_list_add(const char *value, uint32_t *pids, size_t *n, size_t max);
