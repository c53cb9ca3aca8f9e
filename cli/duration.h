/* duration.h - times as a person writes them.  Thread: any. */
#pragma once

#include "base/util.h"

#define DURATION_UNITS "us, ms, s, min, h or d"
/* "500ms", "1.5s", "10min", "2h", "1d" -> nanoseconds, at least 1 and at most 1000 days; a number, then the unit.
 * @usual_unit: of a number without one, e.g. "s"; NULL: that is refused.  -EINVAL. */
int duration_parse(const char *text, const char *usual_unit, uint64_t *ret_ns);
