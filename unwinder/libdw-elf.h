/* libdw-elf.h - the modules' files as libelf handles, for the libdw engine.  Private to unwinder/.
 * Thread: the engine's; elfutils handles are never shared between threads.
 *
 * One Elf a module, for all processes: read by pread on the image's descriptor, never mapped (a
 * target that truncates its file would kill us).  A module without a file (the vDSO) is read once
 * out of the memory of the first process that is unwound through it, where its space has that. */
#pragma once

#include <gelf.h>

#include "base/table.h"
#include "symbols/image.h"
#include "unwinder/space.h"

struct libdw_elf {
	Elf *elf; /* NULL: cannot be had */
	uint64_t low,
		high; /* vaddrs: the first segment's start by its alignment, the last one's end */
	void *bytes;  /* owned: a memory module's image */
};

struct libdw_elfs {
	struct table by_serial; /* module serial -> struct libdw_elf */
};

void libdw_elfs_deinit(struct libdw_elfs *elfs);
/* Borrowed until the module is forgotten.  @map's module is READY.  -ENOMEM. */
int libdw_elfs_get(struct libdw_elfs *elfs, const struct uw_map *map, const struct uw_space *space,
		   struct libdw_elf **ret_image);
/* NULL: all.  After the Dwfls that use them. */
void libdw_elfs_forget(struct libdw_elfs *elfs, const struct uw_module *module);
