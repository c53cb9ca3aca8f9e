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
 * A record that has its own build id (--buildid-mmap) needs none of this.
 *
 * How many files a path has is known once all mappings of the recording were looked at.  That is
 * done beforehand, but only when it matters: nobody asks while each file is the one that stands
 * there.  A pipe can be read only once: what was believed of a path's first file, before a second
 * one came, is counted and told. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "import/import-private.h"
#include "proc/open-file.h"
#include "proc/procfs.h"

/* What has been mapped under a path of the table; as many as that may have. */
struct import_path {
	struct uw_file_id file; /* the first */
	bool several;
	bool looked; /* the next is known */
	bool believed;
	enum procfs_sameness sameness; /* of the first */
};

static struct uw_file_id file_of(const struct record_event *e)
{
	return (struct uw_file_id){
		.major = e->mmap.major,
		.minor = e->mmap.minor,
		.inode = e->mmap.inode,
		.generation = e->mmap.generation,
	};
}

/* perf tells no generation (0) of what was mapped before it began. */
static bool is_same_file(const struct uw_file_id *a, const struct uw_file_id *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       (!a->generation || !b->generation || a->generation == b->generation);
}

static struct import_path *path_new(struct import *im, uint64_t hash)
{
	struct import_path *paths;

	if (im->paths.n_used == PERFDATA_MAX_BUILD_IDS)
		return NULL;
	if (is_power_of_two(im->paths.n_used + 1)) {
		paths = reallocarray(im->path_files, (im->paths.n_used + 1) * 2, sizeof(*paths));
		if (!paths)
			return NULL;
		im->path_files = paths;
	}
	if (table_put(&im->paths, hash, im->paths.n_used) < 0)
		return NULL;
	paths = &im->path_files[im->paths.n_used - 1];
	*paths = (struct import_path){0};
	return paths;
}

/* Of the mapping's path, with its file counted; NULL: no memory. */
static struct import_path *path_of(struct import *im, const struct record_event *e)
{
	const struct uw_file_id file = file_of(e);
	uint64_t hash = hash_bytes(e->mmap.path, strlen(e->mmap.path)), index;
	struct import_path *p =
		table_get(&im->paths, hash, &index) ? &im->path_files[index] : path_new(im, hash);

	if (!p || e->mmap.build_id_len)
		return p;
	if (!p->file.inode)
		p->file = file;
	else if (!is_same_file(&p->file, &file) && !p->several) {
		p->several = true;
		im->believed_early += p->believed && p->sameness != PROCFS_SAME;
	}
	if (!p->file.generation && !p->several)
		p->file.generation = file.generation;
	return p;
}

static enum procfs_sameness look(const struct record_event *e)
{
	const struct uw_file_id file = file_of(e);

	return procfs_compare(e->mmap.path, &file);
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

/* One of the mappings beforehand. */
static void count_file(void *arg, const struct record_event *e)
{
	const struct perfdata_build_id *id;
	struct import *im = arg;
	struct import_path *p;

	if (!e->mmap.inode && !e->mmap.build_id_len)
		return;
	id = perfdata_build_id(im->file, e->mmap.path);
	if (!id || id->several)
		return;
	p = path_of(im, e);
	if (p && e->mmap.build_id_len)
		p->several |= e->mmap.build_id_len != id->len ||
			      memcmp(e->mmap.build_id, id->bytes, id->len) != 0;
}

/* Once.  What cannot be read now is as a pipe. */
static void look_over(struct import *im)
{
	int r;

	if (im->looked_over)
		return;
	im->looked_over = true;
	r = perfdata_scan(im->file, count_file, im);
	if (r < 0)
		log_verbose("its mappings could not be looked over: %s", strerror(-r));
}

static bool is_of_mapping(struct import *im, const struct perfdata_build_id *id,
			  const struct record_event *e)
{
	struct import_path *p;

	if (!e->mmap.inode)
		return true; /* not told: the path is all there is */
	p = path_of(im, e);
	if (p && !p->several && !p->looked) {
		p->sameness = look_first(im, e);
		p->looked = true;
		if (p->sameness != PROCFS_SAME && !id->several) {
			look_over(im);
			p = path_of(im, e); /* it may have moved */
		}
	}
	if (!p || p->several || id->several)
		return look(e) == PROCFS_SAME;
	p->believed = p->sameness != PROCFS_OTHER;
	return p->believed;
}

/* Counts the files that another one stands for today, for a note. */
static void note_replaced(struct import *im, const struct record_event *e)
{
	const uint64_t words[] = {(uint64_t)e->mmap.major << 32 | e->mmap.minor, e->mmap.inode,
				  e->mmap.generation};
	uint64_t file = hash_bytes(words, sizeof(words)), there;

	if (!(e->mmap.prot & PROT_EXEC) || im->replaced.n_used == PERFDATA_MAX_BUILD_IDS ||
	    table_get(&im->replaced, file, &there) || access(e->mmap.path, F_OK) != 0)
		return;
	log_verbose("%s: the file at this path is not the one that was mapped", e->mmap.path);
	(void)table_put(&im->replaced, file, 1);
}

void import_file_id(struct import *im, struct record_event *e)
{
	const struct perfdata_build_id *id;

	im->has_build_ids |= e->mmap.build_id_len != 0;
	if (e->mmap.build_id_len || !(id = perfdata_build_id(im->file, e->mmap.path)))
		return;
	im->has_build_ids = true;
	if (!is_of_mapping(im, id, e)) {
		note_replaced(im, e);
		return;
	}
	e->mmap.build_id_len = id->len;
	memcpy(e->mmap.build_id, id->bytes, sizeof(e->mmap.build_id));
}
