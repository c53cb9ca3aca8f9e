/* episode-folder.h - where the episodes of `perfwind watch` are.  Thread: main. */
#pragma once

#include <limits.h>

/* @wanted, or NULL for the user's default: /var/lib/perfwind/episodes for root, else $XDG_STATE_HOME/perfwind/episodes or
 * ~/.local/state/perfwind/episodes.  < 0: logged. */
int episode_folder_find(const char *wanted, char to[PATH_MAX]);
