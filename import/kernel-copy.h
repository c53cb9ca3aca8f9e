/* kernel-copy.h - the copies of /proc/kallsyms that perf keeps.  Thread: any.
 *
 * `perf record` stores one for each build id of a kernel, next to its copies of files (not with -N):
 * ~/.debug/[kernel.kallsyms]/BUILD-ID/kallsyms (tools/perf/util/build-id.c). */
#pragma once

#include "base/util.h"
#include "proc/file-places.h"

/* -ENOENT and the like: there is none.  Any user may have written the file: its content must be
 * checked. */
int kernel_copy_open(const struct file_places *places, const uint8_t *build_id, size_t len,
		     int *ret_fd);
