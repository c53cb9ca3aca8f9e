/* kernel-copy.h - the copies of /proc/kallsyms that perf keeps.  Thread: any.
 *
 * `perf record` puts one beside its copies of files, by the kernel's build id, unless told not to
 * (-N): ~/.debug/[kernel.kallsyms]/BUILD-ID/kallsyms (tools/perf/util/build-id.c). */
#pragma once

#include "base/util.h"

/* -ENOENT and the like: there is none.  It is a file of somebody's, to be checked as any other. */
int kernel_copy_open(const uint8_t *build_id, size_t len, int *ret_fd);
