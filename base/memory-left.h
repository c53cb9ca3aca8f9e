/* memory-left.h - how much memory the cgroups of this process leave it.  Thread: any. */
#pragma once

#include "base/util.h"

/* Bytes until the tightest limit of its memory cgroup or one above (memory.max; version 1: memory.limit_in_bytes), without what the
 * kernel takes back first, the page cache.  UINT64_MAX: no limit, or none that can be read.  @root: "" or a folder in place of /. */
uint64_t memory_left(const char *root);
