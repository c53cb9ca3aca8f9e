/* snapshot-file.h - files of snapshots next to a trace: "DIR/NAME-3.pftrace" of "DIR/NAME.pftrace".  Thread: main. */
#pragma once

#include "base/util.h"

/* Makes the file with the next free number, mode 0600, and sets @name.  The file is new: an older snapshot stays, and no link is
 * followed.  Returns its descriptor; < 0: -errno, @name is the last one tried. */
int snapshot_file_open(const char *path, char *name, size_t size);
