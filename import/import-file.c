/* import-file.c - to which mappings a path's build id applies.  Thread: main.
 *
 * perf makes its table of build ids (HEADER_BUILD_ID) at the end of the recording, from the files at
 * each path then.  One path may have had several files: a file was replaced while it ran, or a
 * container has another file there.  So the build id of a path applies to
 *
 *   the file at the path now                if device, inode and generation are the mapping's
 *   a path with one file in the recording   on the machine of the recording, if inode and generation
 *                                           are the mapping's, or the file at the path is newer than
 *                                           the recording; on another machine, where inodes mean
 *                                           nothing, always
 *
 * and to no other mapping: that one is identified by its inode, which matches no other file.  A
 * record with its own build id (--buildid-mmap) needs none of this.
 *
 * The number of files of a path is known after a look at all mappings of the recording.  That is
 * done in advance, but only when needed: not while each mapped file is the one at its path.  A pipe
 * can be read only once: a build id that was applied to a path's first file, before a second one
 * appeared, is counted and reported. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "import/import-private.h"
#include "proc/open-file.h"
#include "proc/procfs.h"

/* The files mapped under a path of the table; as many as the table has. */
struct import_path {
	struct uw_file_id file; /* the first */
	bool several;
	bool looked;		       /* `sameness` is known */
	bool trusted;		       /* the build id was applied to the first */
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

/* Records of mappings from before the recording have no generation (0). */
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

/* The entry of the mapping's path, with its file counted; NULL: no memory. */
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
		im->trusted_early += p->trusted && p->sameness != PROCFS_SAME;
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

/* Is the file at the path newer than the recording, or gone?  (Built again, or removed: as on another
 * machine, only the build id identifies what was mapped.) */
static bool came_later(const struct import *im, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return st.st_ctim.tv_sec > im->written_at;
}

/* The first file of a path, the only one so far. */
static enum procfs_sameness look_first(const struct import *im, const struct record_event *e)
{
	enum procfs_sameness sameness;

	if (!im->same_kernel)
		return PROCFS_SAME_INODE;
	sameness = look(e);
	return sameness == PROCFS_OTHER && came_later(im, e->mmap.path) ? PROCFS_SAME_INODE
									: sameness;
}

/* Called for each mapping of the recording. */
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

/* Once.  If the file cannot be read now it is treated as a pipe. */
static void look_over(struct import *im)
{
	int r;

	if (im->looked_over)
		return;
	im->looked_over = true;
	r = perfdata_scan(im->file, count_file, im);
	if (r < 0)
		log_verbose("its mappings could not be read in advance: %s", strerror(-r));
}

static bool is_of_mapping(struct import *im, const struct perfdata_build_id *id,
			  const struct record_event *e)
{
	struct import_path *p;

	if (!e->mmap.inode)
		return true; /* not known: only the path identifies it */
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
	p->trusted = p->sameness != PROCFS_OTHER;
	return p->trusted;
}

/* Counts the files that another file has replaced, for a note. */
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

/* `perf inject --jit` writes mappings of files that it made of a jitdump's code, with a generation that is not the file's (1;
 * tools/perf/util/jitdump.c): jitted-PID-NUMBER.so. */
static bool is_injected(const struct record_event *e)
{
	static const char digits[] = "0123456789";
	const char *slash = strrchr(e->mmap.path, '/'), *name = slash ? slash + 1 : "";
	size_t n;

	if (e->mmap.generation != 1 || strncmp(name, "jitted-", 7) != 0)
		return false;
	n = strspn(name += 7, digits);
	if (!n || name[n] != '-')
		return false;
	name += n + 1;
	n = strspn(name, digits);
	return n && !strcmp(name + n, ".so");
}

void import_file_id(struct import *im, struct record_event *e)
{
	const struct perfdata_build_id *id;

	if (is_injected(e))
		e->mmap.generation = 0; /* not known */
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
