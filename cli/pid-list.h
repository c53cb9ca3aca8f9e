/* pid-list.h - the argument of -p.  Thread: main. */
#pragma once

#include "base/util.h"

/* Appends the ids of "12,345" or "12\n345\n" (the output of pgrep) to @pids[0..*n), at most @max in all.  -EINVAL: logged. */
int pid_list_add(const char *value, uint32_t *pids, size_t *n, size_t max);
