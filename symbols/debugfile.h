/* debugfile.h - the separate file with an image's debug information.  Private to symbols/. Thread:
 * loader. */
#pragma once

#include "symbols/elf.h"

enum { UW_DEBUGFILE_NONE = 1 };
/* Looks by build id, then by .gnu_debuglink, never on the network.  0 and a descriptor that is the
 * caller's; UW_DEBUGFILE_NONE; -ENOMEM.  @path: the image's own, as the target sees it. */
int uw_debugfile_open(const struct uw_elf *elf, const char *path, struct uw_source *source,
		      int *ret_fd);
/* Is there one, as far as is known without reading it whole?  It is not verified yet. */
bool uw_debugfile_may_exist(const struct uw_elf *elf, const char *path, struct uw_source *source);
/* The file of a build id: in /usr/lib/debug/.build-id, or at @path when that is absolute.  < 0:
 * none. */
int uw_debugfile_open_id(const struct uw_build_id *id, const char *path, struct uw_source *source);
