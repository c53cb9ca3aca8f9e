/* open-file.h - opening files that a target maps or names.  Thread: the loader's, which must be the
 * only one of its process where privileges are given up for a call (a helper process).
 *
 * A target chooses the path of a perf map, of a debug file next to a program, and of a mapping.  A
 * symbolic link there may lead to any file, also to one that we may read and the target's owner may
 * not: our names would reveal its content.  One rule covers all files: a file is read only if the
 * owner of the target made it, or could read it.  What the kernel itself reports as mapped
 * (map_files, exe, device and inode) needs no rule. */
#pragma once

#include <sys/stat.h>

#include "proc/procfs.h"

/* Asked before the first call that a file's file system could leave unanswered; @device: st_dev, or 0
 * when a path is to be walked.  < 0: the file is not touched. */
struct procfs_gate {
	int (*enter)(struct procfs_gate *gate, uint64_t device);
	/* Reads the build id of an open file in another process; NULL: it is read here. */
	int (*build_id)(struct procfs_gate *gate, int fd, struct uw_build_id *ret_id);
};
/* Opens @path if it is a regular file; does not block on other types.  @gate may be NULL.  Returns a
 * descriptor. */
int procfs_open_regular(const char *path, struct procfs_gate *gate, struct stat *ret_stat);
/* The device of an open file, without a request to its file system; 0: not known. */
uint64_t procfs_device(int fd);

/* A file by its name, as the target sees it. */
struct procfs_named {
	const char *path; /* absolute, as the target sees it */
	uint32_t owner;	  /* the user that chose the path; PROCFS_NO_OWNER: any user */
	/* It is identified by its place alone (a perf map): only the owner or root may have written it,
	 * and no link is followed to it. */
	bool made;
	struct procfs_gate *gate; /* may be NULL */
};
/* Below @dir, which is "/" to the target.  A descriptor; -EACCES: the rule refuses it. */
int procfs_open_named_at(int dir, const struct procfs_named *file, struct stat *ret_stat);
/* The target's root, or ours (@pid 0), to open below. */
int procfs_open_root(const char *root, uint32_t pid);
/* As the target sees it (its root), else as we do.  A file that is `made` is opened as we see it only
 * where that is the same place as far as can be known; -EXDEV: it is another.  -EACCES: the rule
 * refuses it.  Returns a descriptor. */
int procfs_open_named(const char *root, uint32_t pid, const struct procfs_named *file);

/* Opens the file behind a mapping, by the likeliest of: /proc/PID/map_files, /proc/PID/root/PATH,
 * PATH.  Trusted only if @id agrees (build id, else device and inode); *ret_proved reports whether it
 * was proved.  By a path only a file that @owner could read or has mapped.  -ENOENT/-EACCES when none
 * fits, -EMFILE/-ENFILE when there was no descriptor to look. */
int procfs_open_mapped(const char *root, uint32_t pid, uint64_t start, uint64_t end,
		       const char *path, const struct uw_file_id *id, uint32_t owner,
		       struct procfs_gate *gate, int *ret_fd, bool *ret_proved);

/* Is the file at @path the one of @id's inode?  PROCFS_OTHER where it cannot be checked. */
enum procfs_sameness {
	PROCFS_OTHER,
	PROCFS_SAME_INODE, /* on another device, or the device is reported differently */
	PROCFS_SAME,
};
enum procfs_sameness procfs_compare(const char *path, const struct uw_file_id *id);
