/* jitdump.h - names of code that a JIT compiler made, from a jit-PID.dump.  Private to unwinder/.
 * Thread: loader. */
#pragma once

#include "symbols/symbols.h"

enum { UW_JIT_NAME_MAX = 1024 };

bool uw_jitdump_is(int fd);
/* Adds all that is written whole.  To be built by uw_symbols_build_latest(). */
int uw_jitdump_add(struct uw_symbols_builder *b, int fd);
