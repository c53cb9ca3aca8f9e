/* archive.h - a tarball of `perf archive` as a build-id cache.  Thread: main (of a command).
 *
 *   command ── descriptor ──► pw-unpack (process): bzip2, gzip or xz, tar; opens nothing, no privileges
 *      │ ◄──── build id, kind, bytes ─┘
 *      └─► FOLDER/.build-id/ab/cdef.../elf     names made of the build id alone
 *
 * The folder is in $TMPDIR, or /var/tmp, belongs to this command, and is removed with it, also when it is killed (pw-archive). */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/util.h"

enum { ARCHIVE_FILES_MAX = 65536 };
#define ARCHIVE_BYTES_MAX (4ull << 30) /* of all its files */

struct archive {
	char folder[PATH_MAX]; /* as file_places.archive; "": none */
	pid_t keeper;
	int alive;
};

/* Unpacks the tarball at @path.  Logs a failure: -EINVAL for a file that is none, -errno; files that came before damage
 * or beyond ARCHIVE_BYTES_MAX are kept, and a line states it. */
int archive_unpack(const char *path, struct archive *ret);
/* Removes the folder.  Borrows an archive that may be empty (zeros). */
void archive_deinit(struct archive *archive);
