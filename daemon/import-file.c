/* import-file.c - which mappings a path's build id speaks for.  Thread: main.
 *
 * perf's table of build ids (HEADER_BUILD_ID) is made at the recording's end, from what stands at
 * each path then.  Several files may have had one path: one was replaced while it ran, or another
 * stands there in a container.  So the id of a path is believed of
 *
 *   the file that stands there now          if device, inode and generation are the mapping's
 *   a path with one file in the recording   on its own machine if inode and generation are, or
 *                                           what stands there came after the recording; on
 *                                           another one, where inodes say nothing, always
 *
 * and of nothing else: such a mapping keeps its inode for a name, by which no other file is taken.
 * A record that has its own build id (--buildid-mmap) needs none of this. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/import-private.h"
#include "daemon/proc/procfs.h"

enum {
	MAX_PATHS = 65536, /* of those behind them nothing is known: as if they had several files */
	SAMENESS = 3,	   /* the low bits of `paths`' values: enum procfs_sameness */
};
#define SEVERAL UINT64_MAX

static uint64_t hash_of(const struct record_event *e)
{
	const uint64_t words[] = {(uint64_t)e->mmap.major << 32 | e->mmap.minor, e->mmap.inode,
				  e->mmap.generation};

	return hash_bytes(words, sizeof(words)) & ~(uint64_t)SAMENESS;
}

static enum procfs_sameness look(const struct record_event *e)
{
	return procfs_compare(e->mmap.path, &(struct uw_file_id){
						    .major = e->mmap.major,
						    .minor = e->mmap.minor,
						    .inode = e->mmap.inode,
						    .generation = e->mmap.generation,
					    });
}

/* When the table was made another file stood at the path: what stands there now came later.  (Built
 * or installed again: as on another machine the id alone says whether it is the same.) */
static bool came_later(const struct import *im, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ctim.tv_sec > im->written_at;
}

/* The first of a path, which is its only one so far. */
static enum procfs_sameness look_first(const struct import *im, const struct record_event *e)
{
	enum procfs_sameness sameness;

	if (!im->same_kernel)
		return PROCFS_SAME_INODE;
	sameness = look(e);
	return sameness == PROCFS_OTHER && came_later(im, e->mmap.path) ? PROCFS_SAME_INODE
									: sameness;
}

static bool is_of_mapping(struct import *im, const struct perfdata_build_id *id,
			  const struct record_event *e)
{
	uint64_t path = hash_bytes(e->mmap.path, strlen(e->mmap.path)), file = hash_of(e);
	uint64_t known = SEVERAL;
	bool is_new = !table_get(&im->paths, path, &known);

	if (!e->mmap.inode)
		return true; /* not told: the path is all there is */
	if (is_new && !id->several && im->paths.n_used < MAX_PATHS) {
		known = file | look_first(im, e);
		if (table_put(&im->paths, path, known) < 0)
			known = SEVERAL;
	} else if (!is_new && known != SEVERAL && (known & ~(uint64_t)SAMENESS) != file) {
		known = SEVERAL;
		(void)table_put(&im->paths, path, known); /* replaces: never fails */
	}
	if (known == SEVERAL)
		return look(e) == PROCFS_SAME;
	return (known & SAMENESS) != PROCFS_OTHER;
}

void import_file_id(struct import *im, struct record_event *e)
{
	const struct perfdata_build_id *id;
	uint64_t file = hash_of(e), there;

	im->has_build_ids |= e->mmap.build_id_len != 0;
	if (e->mmap.build_id_len || !(id = perfdata_build_id(im->file, e->mmap.path)))
		return;
	im->has_build_ids = true;
	if (is_of_mapping(im, id, e)) {
		e->mmap.build_id_len = id->len;
		memcpy(e->mmap.build_id, id->bytes, sizeof(e->mmap.build_id));
	} else if (e->mmap.prot & 4 && im->replaced.n_used < MAX_PATHS &&
		   !table_get(&im->replaced, file, &there) && access(e->mmap.path, F_OK) == 0) {
		log_verbose("%s: the file at this path is not the one that was mapped",
			    e->mmap.path);
		(void)table_put(&im->replaced, file, 1); /* a count for a note */
	}
}
