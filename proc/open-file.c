/* open-file.c - see open-file.h.
 *
 * A path may lead anywhere: to a FIFO that never answers, to a watchdog that starts when it is
 * opened.  So it is opened without opening (O_PATH), looked at, and only a regular file is opened
 * for reading.
 *
 * The rule for files under names that a target chose: the kernel decides where possible.  It walks the
 * whole path, and nothing can change between its check and its answer.
 *
 *   root                                as the target's owner (fsuid, no groups); for root's own
 *                                       processes as root
 *   a daemon with CAP_DAC_READ_SEARCH   without it: as any user; where that is refused, with it, but
 *                                       then the file must be the owner's
 *   any other user                      with its own privileges
 *
 * The file's mode reveals a path through a folder or group that only we may enter.  Links lead no
 * farther than to the target's root (RESOLVE_IN_ROOT; before Linux 5.6 they lead into ours).
 *
 * The file behind a mapping is looked for at these places:
 *
 *   1  /proc/PID/map_files/START-END   the very file, even if deleted or replaced by now; needs
 *                                      CAP_CHECKPOINT_RESTORE (or CAP_SYS_ADMIN) and a mapping that
 *                                      is still there
 *   2  /proc/PID/root + PATH           what is at the path as the process sees it; needs ptrace
 *                                      access
 *   3  PATH as we see it               the same in our own mount namespace, and for the dead
 *
 * A file found there is trusted only if it is the one that was mapped.  The build id decides where
 * one is known, else device and inode.  stat() reports another device than maps does on filesystems
 * with many devices (btrfs, overlayfs): there the inode alone agrees, which is good enough to use
 * and not to call proved. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "proc/open-file.h"

enum { OVERFLOW_ID = 65534, MOUNTS_MAX = 4 << 20 };

enum agreement { AGREES_NOT, AGREES_LIKELY, AGREES };

/* ---- regular files ---- */

uint64_t procfs_device(int fd)
{
	struct statx stx;

	/* DONT_SYNC: only what the kernel has cached, no request to the file system */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) < 0)
		return 0;
	return makedev(stx.stx_dev_major, stx.stx_dev_minor);
}

static int enter(struct procfs_gate *gate, uint64_t device)
{
	return gate ? gate->enter(gate, device) : 0;
}

static int read_regular(int at, struct procfs_gate *gate, struct stat *ret_stat)
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
	return read_regular(at, gate, ret_stat);
}

/* ---- privileges given up for a call ---- */

struct lowered {
	struct caps caps;
	bool caps_lowered, user;
	gid_t group;
};

#define READ_ALL (CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_DAC_READ_SEARCH))

static void become(struct lowered *l, uint32_t owner)
{
	uid_t to = owner == PROCFS_NO_OWNER ? OVERFLOW_ID : owner;

	/* Without these capabilities (a daemon that stayed root) the file's mode decides. */
	if (!(l->caps.effective & CAPS_BIT(CAP_SETUID)) ||
	    !(l->caps.effective & CAPS_BIT(CAP_SETGID)))
		return;
	/* These calls change this thread only; the libc's change all threads. */
	(void)syscall(SYS_setgroups, 0, NULL);
	l->group = (gid_t)setfsgid(OVERFLOW_ID);
	(void)setfsuid(to);
	l->user = true;
}

static void lower(struct lowered *l, uint32_t owner)
{
	struct caps less;

	*l = (struct lowered){0};
	if (caps_get(&l->caps) < 0)
		return;
	if (geteuid() == 0) {
		if (owner != 0)
			become(l, owner);
		return;
	}
	less = l->caps;
	less.effective &= ~READ_ALL;
	l->caps_lowered = less.effective != l->caps.effective && caps_set(&less) >= 0;
}

static void raise_again(struct lowered *l)
{
	int e = errno;

	if (l->caps_lowered)
		(void)caps_set(&l->caps);
	if (l->user) {
		(void)setfsuid(geteuid());
		(void)setfsgid(l->group);
		/* the kernel takes it away with each change of user; see base/child.c */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	errno = e;
}

/* ---- one file, by the rule ---- */

static int open_at(int dir, const char *path, bool follow, struct procfs_gate *gate,
		   struct stat *ret_stat)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
			       .resolve = RESOLVE_IN_ROOT};
	_cleanup_(fd_closep) int at = -1;

	(void)enter(gate, 0);
	at = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (at < 0 && errno == ENOSYS)
		at = openat(dir, path + strspn(path, "/"), (int)how.flags);
	if (at < 0)
		return -errno; /* the usual answer of the first tries: not by fail() */
	return read_regular(at, gate, ret_stat);
}

static int open_beneath(int dir, const char *path, struct procfs_gate *gate, struct stat *ret_stat)
{
	return open_at(dir, path, true, gate, ret_stat);
}

static bool is_allowed(const struct procfs_named *f, const struct stat *st, bool lent)
{
	bool own = f->owner != PROCFS_NO_OWNER && st->st_uid == f->owner;

	if (f->made) /* a user that may write into the folder can have linked root's file there */
		return st->st_nlink == 1 && !(st->st_mode & S_IWOTH) &&
		       (own || (!lent && st->st_uid == 0 && (st->st_mode & S_IROTH)));
	if (own)
		return true;
	return !lent && ((st->st_mode & S_IROTH) || f->owner == geteuid());
}

static int open_if_allowed(int dir, const struct procfs_named *f, bool lent, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int fd = open_at(dir, f->path, !f->made, f->gate, ret_stat);

	if (fd < 0)
		return fd;
	return is_allowed(f, ret_stat, lent) ? take_fd(fd) : fail(-EACCES);
}

int procfs_open_named_at(int dir, const struct procfs_named *f, struct stat *ret_stat)
{
	struct lowered l;
	int r;

	lower(&l, f->owner);
	r = open_if_allowed(dir, f, false, ret_stat);
	raise_again(&l);
	if (r == -EACCES && l.caps_lowered)
		r = open_if_allowed(dir, f, true, ret_stat);
	return r;
}

/* ---- the root of the target, or ours ---- */

int procfs_open_root(const char *root, uint32_t pid)
{
	char path[PROCFS_PATH_MAX] = "/";
	int fd, r = pid ? procfs_path(path, root, pid, "root") : 0;

	if (r < 0)
		return trace(r);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Field @n, from 0, of a line; *ret_len is 0 past its end. */
static const char *field(const char *line, unsigned n, size_t *ret_len)
{
	for (; n; n--) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	*ret_len = strcspn(line, " \n");
	return line;
}

/* "DEVICE FOLDER" of the file system that has @path, and the rest: two of these are one if they are the same file. */
static bool place_of(const char *mounts, const char *path, char place[static PROCFS_PATH_MAX])
{
	size_t deepest = 0;
	bool found = false;

	/* 36 35 98:0 /mnt1 /mnt2 rw,noatime ... : id, parent, device, what of it, where (proc(5)) */
	for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t dev_len, of_len, at_len;
		const char *dev = field(line, 2, &dev_len), *of = field(line, 3, &of_len),
			   *at = field(line, 4, &at_len);

		at_len -= at_len == 1; /* "/" */
		of_len -= of_len == 1;
		if (strncmp(path, at, at_len) != 0 || path[at_len] != '/' || at_len < deepest)
			continue;
		deepest = at_len; /* of two at one place the later covers the other */
		found = snprintf(place, PROCFS_PATH_MAX, "%.*s %.*s%s", (int)dev_len, dev,
				 (int)of_len, of, path + at_len) < PROCFS_PATH_MAX;
	}
	return found;
}

/* mountinfo of any process may be read, /proc/PID/root may not.  Of a process that has ended only the pid
 * is known: the map is named by the pid inside its namespace. */
static bool is_our_place(const char *root, uint32_t pid, const char *path)
{
	char at[PROCFS_PATH_MAX], ours[PROCFS_PATH_MAX], theirs[PROCFS_PATH_MAX];
	_cleanup_(freep) char *own = NULL, *target = NULL;
	int r = procfs_path(at, root, pid, "mountinfo");

	if (r >= 0)
		r = read_file(at, MOUNTS_MAX, &target, NULL);
	if (r == -ENOENT || r == -ESRCH || r == -EINVAL || r == -ENOTDIR) {
		(void)snprintf(at, sizeof(at), "/tmp/perf-%u.map", pid);
		return !strcmp(at, path);
	}
	return r >= 0 && read_file("/proc/self/mountinfo", MOUNTS_MAX, &own, NULL) >= 0 &&
	       place_of(target, path, theirs) && place_of(own, path, ours) && !strcmp(ours, theirs);
}

int procfs_open_named(const char *root, uint32_t pid, const struct procfs_named *f)
{
	_cleanup_(fd_closep) int theirs = procfs_open_root(root, pid), ours = -1;
	struct stat st;
	int r = theirs < 0 ? theirs : procfs_open_named_at(theirs, f, &st);

	if (r >= 0 || (f->made && theirs >= 0))
		return r;
	if (f->made && !is_our_place(root, pid, f->path))
		return fail(-EXDEV);
	ours = procfs_open_root("", 0);
	return ours < 0 ? fail(ours) : procfs_open_named_at(ours, f, &st);
}

/* ---- the file behind a mapping ---- */

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

/* Is it another file that got the inode number of the one that was mapped?  Known where the file system
 * has generations of inodes (MMAP2 and FS_IOC_GETVERSION). */
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
		return AGREES_LIKELY; /* nothing is known that contradicts it */
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

/* By its name below a root (@pid 0: ours): a file that the owner could read, or that the kernel reports
 * as mapped. */
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
		fd = open_beneath(dir, f->path, f->gate, &st);
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

/* Device and inode, where only the build id is known. */
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
