/* diff-inlined.h - inlined calls of two profiles, of which one has none.  Thread: main.
 *
 * A recording has none of a module without debug information, of a build without optimisation, and with --no-inline.  Compared by
 * name, the inlined calls of the other would be new functions, and the functions that contain them would cost less:
 *
 *   A (--no-inline)    work 50 %
 *   B                  work 0 %, step 20 % and scale 30 % inlined into it   ─► work 50 % */
#pragma once

#include "profile/profile.h"

/* The inlined calls of @p in modules of which @other has some addresses and no inlined call count for the functions that contain them: of the same build all, of another
 * one those that @other does not have as functions.  > 0: some do, and *ret_module is the base name of the module of one, borrowed
 * from @p.  -ENOMEM. */
int diff_merge_inlined(struct profile *p, const struct profile *other, const char **ret_module);
