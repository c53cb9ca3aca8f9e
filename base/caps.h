/* caps.h - the capabilities of the calling thread.  Thread: any. */
#pragma once

#include <linux/capability.h>

#include "base/util.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38 /* Linux 5.8 */
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40 /* Linux 5.9 */
#endif
#define CAPS_BIT(cap) (1ull << (cap))
#define CAPS_ALL (~0ull)

struct caps {
	uint64_t effective, permitted, inheritable; /* CAPS_BIT() */
};

int caps_get(struct caps *ret_caps);
int caps_set(const struct caps *caps);
/* Drops all capabilities that are not in @mask, permanently. The others stay in effect as far as
 * they were. */
int caps_keep(uint64_t mask);
/* Process-wide, for caps_keep_lent(): what helper processes that are made from now on may have of ours at most;
 * everything unless told.  Thread: main, before it has helpers. */
void caps_lend_only(uint64_t mask);
/* Of those of @mask that are lent all that we may have are in effect from here on, the others are given up. */
int caps_keep_lent(uint64_t mask);
/* In effect is @mask from here on, as far as it was; of others stays what can be lent to helper processes, but not in
 * effect.  For a thread that makes them. */
int caps_lay_aside(uint64_t mask);
