/* cache-dir.h - files that a later run of the same user can use again.  Thread: any.
 *
 *   a user    $XDG_CACHE_HOME/perfwind, else ~/.cache/perfwind
 *   root      $XDG_CACHE_HOME/perfwind, else /var/cache/perfwind
 *
 * A user has a folder of its own, and no user reads what another wrote: each folder on the path belongs to root or to the
 * user, and no other user can write it.  So root's sudo, which may keep the environment of another user, uses no folder of
 * that user.  A program with capabilities of its file has no cache: its user may not see all that it sees.
 *
 * A cache is never needed: every failure means that there is none.  The content of a file is checked by its reader. */
#pragma once

#include "base/util.h"

/* A descriptor of the folder, made (mode 0700) where it is absent; -errno: there is none, or it is not safe (-EPERM). */
int cache_dir_open(void);
/* The same below @base, which exists. */
int cache_dir_open_in(const char *base);

/* A descriptor of a file for reading, and its size.  -ENOENT: absent; -EPERM: of another user, of a mode that others can use, or not a
 * plain file; -EFBIG: over @max bytes. */
int cache_dir_open_file(int dir, const char *name, size_t max, int *ret_fd, size_t *ret_len);
/* Its content as new memory. */
int cache_dir_read(int dir, const char *name, size_t max, uint8_t **ret_data, size_t *ret_len);
/* Replaces a file at once (mode 0600): a reader sees the old content or the new one. */
int cache_dir_write(int dir, const char *name, const void *data, size_t len);
/* Removes the oldest files with names that begin with @prefix, until these files have @max bytes at most. */
void cache_dir_trim(int dir, const char *prefix, uint64_t max);
