/* consent-blame.h - who hung a hook process, and is asked no more.  Thread: main.
 *
 * A process is blamed for its life: its pid may be another's tomorrow.  Its user after some of them,
 * since a user can make as many processes as there would be hook processes to hang. */
#pragma once

#include "base/table.h"

enum { BLAMES_OF_A_USER = 3 };

struct consent_blame {
	struct table processes; /* pid -> start time */
	struct table users;	/* uid -> how often */
};

void consent_blame_deinit(struct consent_blame *blame);
/* @root as in procfs.h. */
void consent_blame_put(struct consent_blame *blame, const char *root, uint32_t pid, uint32_t uid);
bool consent_blame_has(const struct consent_blame *blame, const char *root, uint32_t pid);
