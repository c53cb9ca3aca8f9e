/* known-limits.h - limits of the machine that this user was shown by an earlier command.  Thread: main.
 *
 * They are lines of the file "limits" in the user's cache folder (base/cache-dir.h), the latest last.  Without that folder,
 * and with PERFWIND_NOTES=all in the environment, none is known. */
#pragma once

#include "base/util.h"

/* Were all of the lines shown before?  If not, they are remembered: the caller shows them now. */
bool known_limits(const char *const lines[], size_t n);
