/* record-usdt.h - `-e usdt:PROVIDER:NAME`: which file has the probe.  Thread: main. */
#pragma once

#include "perf/spec-list.h"

/* "usdt:PROVIDER:NAME" with the path of the file that has the probe, in @to: the program of @command (NULL: none; looked up in $PATH),
 * or a file that one of @pids runs code of and that no other user can change (base/safe-path.h).  Any other event, and one
 * that is not found, as it is; a message names a file that was not searched. */
const char *record_usdt(const char *event, const char *command, const uint32_t *pids, size_t n_pids,
			char to[SPEC_EVENT_MAX]);
