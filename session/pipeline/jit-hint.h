/* jit-hint.h - how to get names for the code of a JIT compiler.  Thread: main. */
#pragma once

#include "proc/process.h"

/* By the runtime that @process has mapped: what to start it with.  NULL: no runtime that is known. */
const char *jit_hint(const struct process *process);
