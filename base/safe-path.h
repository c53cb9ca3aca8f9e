/* safe-path.h - files that no other user can have made, changed or replaced.  Thread: any. */
#pragma once

#include "base/util.h"

/* Does @path, absolute and without symbolic links (realpath(3), /proc/PID/maps), name a folder or a regular file that belongs to root or
 * to the effective user, as each folder above it does, and that other users cannot write?  A folder can be sticky instead (/tmp):
 * others can make entries there, and neither replace nor remove one of ours. */
bool safe_path(const char *path);
