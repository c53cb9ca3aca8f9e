/* error.h - how a failure is reported. Thread: any.
 *
 * An int result is 0 (done), < 0 (a -errno, fatal here, passed on unchanged) or > 0 (an outcome of
 * the function's own enum, handled by the caller, never passed on).  A new failure is `return
 * fail(-errno)`, one that is passed on `return trace(r)`.  At debug level the two print file and
 * line at each hop, which is a stack trace of the failure; otherwise they cost a compare. */
#pragma once

#include <errno.h>
#include <stdbool.h>

#include "base/log.h"

int error_note(int r, const char *kind, const char *file, int line);

#define fail(r) (log_level >= LOG_LEVEL_DEBUG ? error_note((r), "failed", __FILE__, __LINE__) : (r))
#define trace(r) \
	(log_level >= LOG_LEVEL_DEBUG ? error_note((r), "passed on", __FILE__, __LINE__) : (r))

/* No memory or no descriptor: of the object nothing is known, also not that it does not exist. */
static inline bool is_shortage(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}
