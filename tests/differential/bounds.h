/* bounds.h - a recording's answers against what native promises of any recording.  Thread: any, one.
 *
 *   WHOLE    in no fewer samples than by the better oracle, and wherever an oracle reaches a root
 *   CUT      only of copies as long as their room
 *   FAILED   in at most 0.05 % of all samples, for whatever reason */
#pragma once

#include "tests/differential/agree.h"

enum { BOUNDS_FAILED_PER = 2000 }; /* samples for each that may be FAILED */

/* @answers: native's (or another's that is to be held to them), libunwind's and libdw's.  Prints each bound and what is there, and returns how
 * many are not kept.  Fewer than @least samples break a bound, too. */
unsigned bounds_print(const struct samples *samples, struct answers *const answers[3],
		      uint64_t least);
