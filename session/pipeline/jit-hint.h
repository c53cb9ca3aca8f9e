/* jit-hint.h - how to get names for the code of a JIT compiler.  Thread: main. */
#pragma once

#include "proc/process.h"

/* By the runtime that @process has mapped: what to start it with.  NULL: no runtime that is known. */
const char *jit_hint(const struct process *process);

/* The name of JIT code without a symbol that the function @caller runs; NULL: not known. */
const char *jit_name_by_caller(const char *caller);

/* Is it a CPython that has no -X perf, and was started with it?  @cmdline: NUL-separated; @maps: the text of its
 * /proc/PID/maps.  Its minor version (6 to 11), 0: no. */
unsigned jit_hint_old_python(const char *cmdline, size_t cmdline_len, const char *maps,
			     size_t maps_len);
