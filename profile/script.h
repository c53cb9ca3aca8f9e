/* script.h - samples as text, one a paragraph, as perf-script(1) prints them.  Thread: main (of a command).
 *
 *   comm  PID/TID [CPU] SECONDS.MICROSECONDS:     PERIOD EVENT:
 *   <tab> ADDRESS function (module)
 *
 * ADDRESS is that in the file of the module.  An inlined call has the address of the next one outwards. */
#pragma once

#include "profile/profile.h"

/* @only may be NULL; @limit 0: all.  -EIO, -ENOSPC: @out; -ENOENT: the function is not there. */
int script_write(const struct profile *profile, const struct profile_filter *only, uint64_t limit,
		 FILE *out);
