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
/* Process-wide: limits what caps_keep_as_helper() keeps in helper processes that are made from now on to @mask; the default
 * is all. Thread: main, before it has helpers. */
void caps_limit_helpers(uint64_t mask);
/* In a helper process: makes the permitted capabilities in @mask effective, within caps_limit_helpers(), and drops all others. */
int caps_keep_as_helper(uint64_t mask);
/* Limits the effective capabilities to @mask; the others stay permitted as far as helper processes
 * may have them. For a thread that makes them. */
int caps_lay_aside(uint64_t mask);
