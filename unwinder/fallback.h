/* fallback.h - frame pointers in place of unwind information that fails.  Private to unwinder/.  Thread: the engine's.
 *
 *   stacks of a module that fail          a stack that failed, by frame pointers
 *   more than 5 %, at least 20            ... ─► ... ─► f ─► start_thread ─► clone3
 *           │                                                 └─ known root of the thread ─┘
 *           └─ 95 % of these walks reach the known root: the module is switched
 *
 * The known root is the outermost frames of the thread's last whole stack, else of one of its process.  From the switch on a
 * stack that fails in the module is completed by such a walk, where the walk of this very stack reaches the root.  Its frames
 * are marked as guessed, and the result as `by_fp`. */
#pragma once

#include "unwinder/engine.h"

struct uw_fallback;
/* -ENOMEM. */
int uw_fallback_new(struct uw_fallback **ret_fallback);
struct uw_fallback *uw_fallback_free(struct uw_fallback *fallback);
/* A result of engine native: counts it, and completes it if it failed in a module that is switched. */
void uw_fallback_look(struct uw_fallback *fallback, const struct uw_snapshot *snapshot,
		      struct uw_result *res);
