/* open-named.h - files whose names a target chose.  Thread: loader's, which must be the only one of its process where
 * rights are to be given up for a call (a helper process).
 *
 * A perf map, a debug file beside a program, a path that was mapped: who runs the target says what stands there, and a
 * symbolic link there may lead to anything.  We may read what he may not, so without a rule of our own our names would show
 * it to him.  The one rule for all of them: a file is read only if the owner of the target made it, or could read it.
 * What the kernel itself says was mapped (map_files, exe, device and inode) needs no rule: see open-mapped.c. */
#pragma once

#include <sys/stat.h>

#include "proc/procfs.h"

struct procfs_named {
	const char *path; /* absolute, as the target sees it */
	uint32_t owner;	  /* whose word the path is; PROCFS_NO_OWNER: anyone's */
	/* It is named by its place alone (a perf map): nobody but the owner or root may have written it,
	 * and no link is followed to it. */
	bool made;
	struct procfs_gate *gate; /* may be NULL */
};
/* Below @dir, which is "/" to the target.  A descriptor; -EACCES: the rule refuses it. */
int procfs_open_named_at(int dir, const struct procfs_named *file, struct stat *ret_stat);
/* As the target sees it (its root), else as we do.  Of one that is `made` only where that is the same
 * place as far as can be known; -EXDEV: it is another. */
int procfs_open_named(const char *root, uint32_t pid, const struct procfs_named *file);
/* The same file without the rule: only for who can prove that it is the mapped one. */
int procfs_open_beneath(int dir, const char *path, struct procfs_gate *gate, struct stat *ret_stat);
/* The target's root, or ours (@pid 0), to open beneath. */
int procfs_open_root(const char *root, uint32_t pid);
