/* file-places.h - where files of another day or machine are: the build-id cache of perf, a folder with
 * copies at their paths, folders of debug files.  They belong to our own user.  Thread: any. */
#pragma once

#include "symbols/module.h"

struct file_places {		 /* all borrowed; NULL: none */
	const char *symfs;	 /* holds copies of files and debug files, each at its path */
	const char *buildid_dir; /* perf's cache; NULL: $PERF_BUILDID_DIR or ~/.debug */
	const char *archive;	 /* the same, asked before it (cli/archive.h) */
	const char *debug_dir;	 /* asked before /usr/lib/debug */
	const char *fetched;	 /* cache of debuginfod (cli/debuginfod.h), for symbolize() alone */
};

/* The folder of the build-id cache; "" where there is none. */
void file_places_cache(const struct file_places *places, char *to, size_t size);
/* The copy below symfs.  With a build id it is that of @id; without one the user vouches for it and
 * *ret_proved is false.  A descriptor, or -ENOENT. */
int file_places_open_copy(const struct file_places *places, const char *path,
			  const struct uw_build_id *id, bool *ret_proved);
/* The file in the build-id cache.  A descriptor, or -ENOENT. */
int file_places_open_cached(const struct file_places *places, const struct uw_build_id *id);
/* The file @name ("elf", "vdso", "debug") of a build id in the archive alone.  It is not checked: its bytes are foreign.  A
 * descriptor, or -ENOENT. */
int file_places_open_archived(const struct file_places *places, const struct uw_build_id *id,
			      const char *name);
/* The debug file for which @path, as symbols/debugfile.h asks, is the usual place.  It is not
 * checked.  A descriptor, or -ENOENT. */
int file_places_open_debug(const struct file_places *places, const char *path);
/* The debug file of a build id: below debug_dir, symfs, in the cache, or in /usr/lib/debug.  A descriptor, or -ENOENT. */
int file_places_open_debug_id(const struct file_places *places, const struct uw_build_id *id);
