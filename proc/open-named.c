/* open-named.c - see open-named.h.
 *
 * The kernel is the judge where it can be had: it walks the whole path, and nothing can be changed
 * between its look and its answer.
 *
 *   root           as the target's owner (fsuid, no groups); of root's own processes as root
 *   a daemon with CAP_DAC_READ_SEARCH   without it: as anybody; where that is refused, with it, but then
 *                  the file must be the owner's
 *   anyone else    as he is
 *
 * Who leads us through a folder or group that only we are in is found by the file's mode.  Links lead
 * no farther than to the target's root (RESOLVE_IN_ROOT; before Linux 5.6 they lead into ours). */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "proc/open-named.h"

enum { ANYBODY = 65534, MOUNTS_MAX = 4 << 20 };

/* ---- rights given up for a call ---- */

struct lowered {
	struct caps caps;
	bool rights, user;
	gid_t group;
};

#define READ_ALL (CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_DAC_READ_SEARCH))

static void become(struct lowered *l, uint32_t owner)
{
	uid_t to = owner == PROCFS_NO_OWNER ? ANYBODY : owner;

	/* Without these rights (a daemon that stayed root) the file's mode is left to judge by. */
	if (!(l->caps.effective & CAPS_BIT(CAP_SETUID)) ||
	    !(l->caps.effective & CAPS_BIT(CAP_SETGID)))
		return;
	/* These are of the thread alone; the libc's are of all threads. */
	(void)syscall(SYS_setgroups, 0, NULL);
	l->group = (gid_t)setfsgid(ANYBODY);
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
	l->rights = less.effective != l->caps.effective && caps_set(&less) >= 0;
}

static void raise_again(struct lowered *l)
{
	int e = errno;

	if (l->rights)
		(void)caps_set(&l->caps);
	if (l->user) {
		(void)setfsuid(geteuid());
		(void)setfsgid(l->group);
		/* the kernel takes it away with each change of user; see base/child.c */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	errno = e;
}

/* ---- one file ---- */

static int enter(struct procfs_gate *gate, uint64_t device)
{
	return gate ? gate->enter(gate, device) : 0;
}

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
	return procfs_read_regular(at, gate, ret_stat);
}

int procfs_open_beneath(int dir, const char *path, struct procfs_gate *gate, struct stat *ret_stat)
{
	return open_at(dir, path, true, gate, ret_stat);
}

static bool is_allowed(const struct procfs_named *f, const struct stat *st, bool lent)
{
	bool own = f->owner != PROCFS_NO_OWNER && st->st_uid == f->owner;

	if (f->made) /* who may write into the folder can have put a second name of root's file there */
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
	if (r == -EACCES && l.rights)
		r = open_if_allowed(dir, f, true, ret_stat);
	return r;
}

/* ---- whose root ---- */

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

/* mountinfo may be read of anyone, where /proc/PID/root may not.  Of who has ended nothing can be known but
 * his number: the map's name has the one that he had inside. */
static bool is_our_place(const char *root, uint32_t pid, const char *path)
{
	char at[PROCFS_PATH_MAX], ours[PROCFS_PATH_MAX], theirs[PROCFS_PATH_MAX];
	_cleanup_(freep) char *own = NULL, *his = NULL;
	int r = procfs_path(at, root, pid, "mountinfo");

	if (r >= 0)
		r = read_file(at, MOUNTS_MAX, &his, NULL);
	if (r == -ENOENT || r == -ESRCH || r == -EINVAL || r == -ENOTDIR) {
		(void)snprintf(at, sizeof(at), "/tmp/perf-%u.map", pid);
		return !strcmp(at, path);
	}
	return r >= 0 && read_file("/proc/self/mountinfo", MOUNTS_MAX, &own, NULL) >= 0 &&
	       place_of(his, path, theirs) && place_of(own, path, ours) && !strcmp(ours, theirs);
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
