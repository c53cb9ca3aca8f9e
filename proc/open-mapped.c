/* open-mapped.c - the file behind a mapping, or nothing.
 *
 *   1  /proc/PID/map_files/START-END   the very file, deleted or replaced by now; wants
 * CAP_CHECKPOINT_RESTORE (or CAP_SYS_ADMIN) and a mapping that is still there 2  /proc/PID/root +
 * PATH           what stands at the path as the process sees it; wants ptrace rights 3  PATH as we
 * see it: the same in our own mount namespace, and for the dead
 *
 * What is found is believed only if it is what was mapped.  The build id decides where one is
 * known, else device and inode.  stat() tells another device than maps does on filesystems with
 * many devices (btrfs, overlayfs): there the inode alone agrees, which is good enough to use and
 * not to call proved.
 *
 * A path may lead anywhere: to a FIFO that never answers, to a watchdog that starts when it is
 * opened.  So it is opened without opening (O_PATH), looked at, and only a regular file is opened
 * for reading. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/open-named.h"
#include "proc/procfs.h"

enum agreement { AGREES_NOT, AGREES_LIKELY, AGREES };

uint64_t procfs_device(int fd)
{
	struct statx stx;

	/* DONT_SYNC: what the kernel knows already, so that no file system is asked */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) < 0)
		return 0;
	return makedev(stx.stx_dev_major, stx.stx_dev_minor);
}

static int enter(struct procfs_gate *gate, uint64_t device)
{
	return gate ? gate->enter(gate, device) : 0;
}

int procfs_read_regular(int at, struct procfs_gate *gate, struct stat *ret_stat)
{
	char again[64];
	int fd, r = enter(gate, procfs_device(at));

	if (r < 0)
		return trace(r);
	if (fstat(at, ret_stat) < 0)
		return fail(-errno);
	if (!S_ISREG(ret_stat->st_mode))
		return fail(-EINVAL);
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? fail(-errno) : fd;
}

int procfs_open_regular(const char *path, struct procfs_gate *gate, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int at = -1;

	(void)enter(gate, 0);
	at = open(path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -errno; /* the usual answer of the first tries: not by fail() */
	return procfs_read_regular(at, gate, ret_stat);
}

static enum agreement build_id_agrees(int fd, const struct uw_build_id *id,
				      struct procfs_gate *gate)
{
	struct uw_source source = {.fd = fd};
	struct uw_build_id found;
	int r = gate && gate->build_id ? gate->build_id(gate, fd, &found)
				       : uw_source_build_id(&source, &found);

	if (r < 0 || found.len != id->len)
		return AGREES_NOT;
	return memcmp(found.bytes, id->bytes, id->len) ? AGREES_NOT : AGREES;
}

/* Is it another file that was given the number of the one that was mapped?  Where the file system
 * tells (MMAP2 and FS_IOC_GETVERSION: the inode's generation). */
static bool is_later(int fd, const struct uw_file_id *id)
{
	long generation = 0;

	return id->generation && ioctl(fd, FS_IOC_GETVERSION, &generation) == 0 &&
	       (uint32_t)generation && (uint32_t)generation != (uint32_t)id->generation;
}

static enum agreement agrees(int fd, const struct stat *st, const struct uw_file_id *id,
			     bool by_mapping, struct procfs_gate *gate)
{
	if (id->build_id.len)
		return build_id_agrees(fd, &id->build_id, gate);
	if (!id->inode)
		return AGREES_LIKELY; /* nothing is known that could speak against it */
	if (st->st_ino != id->inode || is_later(fd, id))
		return AGREES_NOT;
	if (by_mapping || st->st_dev == makedev(id->major, id->minor))
		return AGREES;
	return AGREES_LIKELY;
}

enum procfs_sameness procfs_compare(const char *path, const struct uw_file_id *id)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	fd = procfs_open_regular(path, NULL, &st);
	if (fd < 0 || st.st_ino != id->inode || is_later(fd, id))
		return PROCFS_OTHER;
	return st.st_dev == makedev(id->major, id->minor) ? PROCFS_SAME : PROCFS_SAME_INODE;
}

static int try_open(const char *path, const struct uw_file_id *id, bool by_mapping,
		    struct procfs_gate *gate, int *ret_fd, bool *ret_proved)
{
	_cleanup_(fd_closep) int fd = -1;
	enum agreement agreement;
	struct stat st;

	fd = procfs_open_regular(path, gate, &st);
	if (fd < 0)
		return fd;
	agreement = agrees(fd, &st, id, by_mapping, gate);
	if (agreement == AGREES_NOT)
		return -ENOENT;
	*ret_fd = take_fd(fd);
	*ret_proved = agreement == AGREES;
	return 0;
}

/* The program itself, deleted or not, wants less than map_files does: plain ptrace access.  Most
 * mappings are of other files, so it has to be proved to be this one. */
static int open_program(const char *root, uint32_t pid, const struct uw_file_id *id,
			struct procfs_gate *gate, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	char at[PROCFS_PATH_MAX];
	bool proved = false;
	int n = snprintf(at, sizeof(at), "%s/proc/%u/exe", root, pid);

	if (n < 0 || n >= (int)sizeof(at) || try_open(at, id, false, gate, &fd, &proved) < 0 ||
	    !proved)
		return -ENOENT;
	*ret_fd = take_fd(fd);
	return 0;
}

/* By its name below a root (@pid 0: ours): what its owner could read, or what the kernel says he has mapped. */
static int try_named(const char *root, uint32_t pid, const struct procfs_named *f,
		     const struct uw_file_id *id, int *ret_fd, bool *ret_proved)
{
	_cleanup_(fd_closep) int dir = procfs_open_root(root, pid), fd = -1;
	enum agreement agreement;
	struct stat st;

	if (dir < 0)
		return dir;
	fd = procfs_open_named_at(dir, f, &st);
	if (fd == -EACCES && id->inode) {
		fd = procfs_open_beneath(dir, f->path, f->gate, &st);
		if (fd >= 0 && (st.st_ino != id->inode ||
				st.st_dev != makedev(id->major, id->minor) || is_later(fd, id)))
			return fail(-EACCES);
	}
	if (fd < 0)
		return fd;
	agreement = agrees(fd, &st, id, false, f->gate);
	if (agreement == AGREES_NOT)
		return -ENOENT;
	*ret_fd = take_fd(fd);
	*ret_proved = agreement == AGREES;
	return 0;
}

/* Device and inode, where only the build id was told. */
static void ask_inode(const char *root, uint32_t pid, uint64_t start, struct uw_file_id *id)
{
	char path[PROCFS_PATH_MAX], file[PROCFS_PATH_MAX];
	_cleanup_(fd_closep) int maps = -1;
	struct uw_build_id build_id;
	struct procfs_map map;

	if (procfs_path(path, root, pid, "maps") < 0)
		return;
	maps = open(path, O_RDONLY | O_CLOEXEC);
	if (maps < 0 || procfs_query(maps, start, &map, &build_id, file, sizeof(file)) < 0)
		return;
	id->major = map.major;
	id->minor = map.minor;
	id->inode = map.inode;
}

/* Where no descriptor is left, no other way leads to the file either. */
static bool out_of_files(int r)
{
	return r == -EMFILE || r == -ENFILE;
}

static int by_path(const char *root, uint32_t pid, const struct procfs_named *f,
		   const struct uw_file_id *id, int *ret_fd, bool *ret_proved)
{
	int r = try_named(root, pid, f, id, ret_fd, ret_proved), ours;

	if (r == 0 || out_of_files(r))
		return r;
	ours = try_named("", 0, f, id, ret_fd, ret_proved);
	return ours < 0 && (r == -EACCES || r == -EPERM) ? -EACCES : ours;
}

int procfs_open_mapped(const char *root, uint32_t pid, uint64_t start, uint64_t end,
		       const char *path, const struct uw_file_id *id, uint32_t owner,
		       struct procfs_gate *gate, int *ret_fd, bool *ret_proved)
{
	const struct procfs_named named = {.path = path, .owner = owner, .gate = gate};
	struct uw_file_id asked = *id;
	char at[PROCFS_PATH_MAX];
	bool denied = false;
	int r = -ENOENT;

	if (start < end) {
		(void)snprintf(at, sizeof(at), "%s/proc/%u/map_files/%llx-%llx", root, pid,
			       (unsigned long long)start, (unsigned long long)end);
		r = try_open(at, id, true, gate, ret_fd, ret_proved);
	}
	if (r == 0 || out_of_files(r))
		return r;
	denied = r == -EACCES || r == -EPERM;
	if (denied && open_program(root, pid, id, gate, ret_fd) == 0) {
		*ret_proved = true;
		return 0;
	}
	if (*path != '/')
		return fail(denied ? -EACCES : -ENOENT);
	r = by_path(root, pid, &named, id, ret_fd, ret_proved);
	if (r == -EACCES && !id->inode && start < end) {
		ask_inode(root, pid, start, &asked);
		if (asked.inode)
			r = by_path(root, pid, &named, &asked, ret_fd, ret_proved);
	}
	if (r == 0 || out_of_files(r))
		return r;
	denied |= r == -EACCES || r == -EPERM;
	return fail(denied ? -EACCES : -ENOENT);
}
