/* hook-check.c - verification of descriptors (hook-check.h).
 *
 *   readlink, statx without sync   come first: the owner of a file cannot stall these
 *   same device as our /proc       it is a procfs file; its inode must equal that of
 *                                  /proc/PID/task/TID/NAME, which no file of another process has
 *   another device                 fstatfs must report procfs (another instance: of a container).
 *                                  Then the name decides: the link must be /NSPID/... below a mount
 *                                  of a whole procfs in the mount list of the peer, because a bind
 *                                  mount could show the folder of one process under another pid
 *
 * The mounts are read between two reads of the link, since mounts can be moved.  A target that
 * wins that race passes off a process that it can read itself as its own: a wrong stack in a
 * trace, but no data that the target could not have read. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "session/consent/hook-check.h"
#include "proc/procfs.h"

enum { LINK_MAX_BYTES = 4096, FDINFO_MAX = 64 << 10, MOUNTS_MAX = 4 << 20 };

const char *hook_verdict_word(enum hook_verdict verdict)
{
	static const char *const words[HOOK_VERDICTS] = {
		[HOOK_GOOD] = "good",
		[HOOK_STRANGER] = "stranger",
		[HOOK_GONE] = "gone",
		[HOOK_THREAD_GONE] = "thread-gone",
		[HOOK_SILENT] = "silent",
		[HOOK_NO_MESSAGE] = "no-message",
		[HOOK_NOT_TWO] = "not-two",
		[HOOK_WRITABLE] = "writable",
		[HOOK_NOT_PROC] = "not-proc",
		[HOOK_NOT_ITS_OWN] = "not-its-own",
		[HOOK_NOT_PASSED] = "not-passed",
	};

	return words[verdict];
}

static const char *const file_names[HOOK_DESCRIPTORS] = {
	[HOOK_MAPS] = "maps",
	[HOOK_MEM] = "mem",
};

/* The path of a descriptor: MOUNT/PID/NAME or MOUNT/PID/task/TID/NAME. */
struct link {
	char path[LINK_MAX_BYTES];
	size_t mount_len;  /* of the path, up to the '/' before PID */
	uint32_t pid, tid; /* tid 0: the first form */
	bool deleted;	   /* the process or thread has ended, and the kernel marks the link */
};

/* The number between the last two slashes of path[0..*len); cuts it off. */
static bool last_number(const char *path, size_t *len, uint32_t *ret)
{
	size_t end = *len, start = end;
	char digits[16];
	uint64_t v;

	while (start && path[start - 1] != '/')
		start--;
	if (!start || end - start >= sizeof(digits))
		return false;
	memcpy(digits, path + start, end - start);
	digits[end - start] = 0;
	if (digits[0] == '0' || parse_u64(digits, 10, INT32_MAX, &v) < 0)
		return false;
	*ret = (uint32_t)v;
	*len = start - 1;
	return true;
}

static bool cut_end(const char *path, size_t *len, const char *end)
{
	size_t n = strlen(end);

	if (*len < n || memcmp(path + *len - n, end, n) != 0)
		return false;
	*len -= n;
	return true;
}

static bool read_link(int fd, const char *name, struct link *link)
{
	char at[64];
	ssize_t n;
	size_t len;

	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	n = readlink(at, link->path, sizeof(link->path));
	if (n <= 0 || (size_t)n >= sizeof(link->path))
		return false;
	link->path[n] = 0;
	len = (size_t)n;
	link->deleted = cut_end(link->path, &len, " (deleted)");
	link->tid = 0;
	if (!cut_end(link->path, &len, name) || !cut_end(link->path, &len, "/") ||
	    !last_number(link->path, &len, &link->pid))
		return false;
	if (cut_end(link->path, &len, "/task")) {
		link->tid = link->pid;
		if (!last_number(link->path, &len, &link->pid))
			return false;
	}
	link->mount_len = len;
	return true;
}

static bool stat_file(int at, const char *path, struct statx *sx)
{
	int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | (*path ? 0 : AT_EMPTY_PATH);

	return statx(at, path, flags, STATX_TYPE | STATX_INO, sx) == 0;
}

static bool same_device(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

/* ---- another instance of procfs ---- */

static bool mount_id(int fd, uint64_t *ret)
{
	_cleanup_(freep) char *text = NULL;
	char at[64], *id, *end;

	(void)snprintf(at, sizeof(at), "/proc/self/fdinfo/%d", fd);
	if (read_file(at, FDINFO_MAX, &text, NULL) < 0)
		return false;
	id = strstr(text, "mnt_id:\t");
	if (!id)
		return false;
	id += strlen("mnt_id:\t");
	end = strchr(id, '\n');
	if (end)
		*end = 0;
	return parse_u64(id, 10, INT32_MAX, ret) >= 0;
}

/* The @n-th word of a line, from 0. */
static const char *word_at(const char *line, unsigned n, size_t *ret_len)
{
	for (; n; n--) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	*ret_len = strcspn(line, " \n");
	return line;
}

/* proc(5), mountinfo: id parent major:minor root mountpoint ... */
static bool is_whole_mount(const char *line, const struct link *link)
{
	size_t root_len, point_len;
	const char *root = word_at(line, 3, &root_len), *point = word_at(line, 4, &point_len);

	return root_len == 1 && *root == '/' && point_len == link->mount_len &&
	       !memcmp(point, link->path, point_len);
}

/* Is the mount that @fd was opened through one of a whole procfs, at the beginning of @link? */
static bool mounted_whole(uint32_t pid, int fd, const struct link *link)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	uint64_t wanted;

	if (!mount_id(fd, &wanted) || procfs_path(path, "", pid, "mountinfo") < 0 ||
	    read_file(path, MOUNTS_MAX, &text, NULL) < 0)
		return false;
	for (const char *line = text; *line;) {
		char digits[16] = "";
		uint64_t id;
		size_t len;
		const char *word = word_at(line, 0, &len);

		if (len < sizeof(digits))
			memcpy(digits, word, len);
		if (parse_u64(digits, 10, INT32_MAX, &id) >= 0 && id == wanted)
			return is_whole_mount(line, link);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static enum hook_verdict check_elsewhere(uint32_t pid, int fd, const char *name,
					 const struct link *link)
{
	struct procfs_status status;
	struct link again;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return HOOK_NOT_PROC;
	if (procfs_status("", pid, &status) < 0)
		return HOOK_GONE;
	if (link->deleted && link->tid && link->pid == status.ns_pid)
		return HOOK_THREAD_GONE;
	if (link->pid != status.ns_pid || !mounted_whole(pid, fd, link) ||
	    !read_link(fd, name, &again) || strcmp(again.path, link->path) != 0)
		return HOOK_NOT_ITS_OWN;
	return HOOK_GOOD;
}

/* ---- our instance of procfs ---- */

static enum hook_verdict check_here(uint32_t pid, const struct statx *sx, const char *name,
				    const struct link *link)
{
	char path[PROCFS_PATH_MAX], file[64];
	struct statx own;

	if (link->tid)
		(void)snprintf(file, sizeof(file), "task/%u/%s", link->tid, name);
	else
		(void)snprintf(file, sizeof(file), "%s", name);
	if (procfs_path(path, "", pid, file) < 0)
		return HOOK_NOT_ITS_OWN;
	if (!stat_file(AT_FDCWD, path, &own))
		return errno == ENOENT && link->tid && link->pid == pid ? HOOK_THREAD_GONE
									: HOOK_NOT_ITS_OWN;
	if (!same_device(&own, sx) || own.stx_ino != sx->stx_ino)
		return HOOK_NOT_ITS_OWN;
	return HOOK_GOOD;
}

static enum hook_verdict check_one(uint32_t pid, int fd, const char *name)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx sx, proc;
	struct link link;

	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH))
		return HOOK_WRITABLE;
	if (!stat_file(fd, "", &sx) || !S_ISREG(sx.stx_mode) ||
	    !stat_file(AT_FDCWD, "/proc", &proc))
		return HOOK_NOT_PROC;
	/* A file of another name is rejected without further calls on it. */
	if (!read_link(fd, name, &link))
		return same_device(&sx, &proc) ? HOOK_NOT_ITS_OWN : HOOK_NOT_PROC;
	if (same_device(&sx, &proc))
		return check_here(pid, &sx, name, &link);
	return check_elsewhere(pid, fd, name, &link);
}

enum hook_verdict hook_check(uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	for (size_t i = 0; i < HOOK_DESCRIPTORS; i++) {
		enum hook_verdict verdict = check_one(pid, fds[i], file_names[i]);

		if (verdict != HOOK_GOOD)
			return verdict;
	}
	return HOOK_GOOD;
}
