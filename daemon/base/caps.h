/* caps.h - the capabilities of the calling thread.  Thread: any. */
#pragma once

#include <linux/capability.h>

#include "daemon/base/util.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38 /* Linux 5.8 */
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40 /* Linux 5.9 */
#endif
#define CAPS_BIT(cap) (1ull << (cap))

struct caps {
	uint64_t effective, permitted, inheritable; /* CAPS_BIT() */
};

int caps_get(struct caps *ret_caps);
int caps_set(const struct caps *caps);
/* Gives up for good what is not in @mask.  What is kept is in effect as far as it was. */
int caps_keep(uint64_t mask);
