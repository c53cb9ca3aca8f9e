/* episode-folder.h - where the episodes of `perfwind watch` are.  Thread: main. */
#pragma once

#include <limits.h>

/* @wanted, or NULL for the user's default: /var/lib/perfwind/episodes for root, else $XDG_STATE_HOME/perfwind/episodes or
 * ~/.local/state/perfwind/episodes.  < 0: logged. */
int episode_folder_find(const char *wanted, char to[PATH_MAX]);
/* The same, and makes it, with mode 0700, and the folders above it that are missing.  -EPERM: another user can write it. */
int episode_folder_make(const char *wanted, char to[PATH_MAX]);
