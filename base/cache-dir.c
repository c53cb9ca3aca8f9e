/* cache-dir.c - see cache-dir.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "base/error.h"
#include "base/safe-path.h"

enum { FOLDER_MODE = 0700, FILE_MODE = 0600, OF_OTHERS = 077, WRITABLE_BY_OTHERS = 022 };
enum { FILES_MAX = 4096 };

/* ---- the folder ---- */

static int open_own(int parent, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (mkdirat(parent, name, FOLDER_MODE) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & WRITABLE_BY_OTHERS))
		return -EPERM;
	return take_fd(fd);
}

int cache_dir_open_in(const char *base)
{
	_cleanup_(fd_closep) int parent = -1;
	char path[PATH_MAX];

	if (!realpath(base, path))
		return -errno;
	parent = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (parent < 0)
		return -errno; /* -ENOTDIR of /dev/null: also for root there is none */
	return safe_path(path) ? open_own(parent, "perfwind") : -EPERM;
}

int cache_dir_open(void)
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	char path[PATH_MAX];

	if (base && *base == '/') {
		int r = cache_dir_open_in(base);

		/* Root with the environment of another user. */
		if (r != -EPERM || geteuid() != 0)
			return r;
	}
	if (geteuid() == 0)
		return cache_dir_open_in("/var/cache");
	if (!home || *home != '/' ||
	    snprintf(path, sizeof(path), "%s/.cache", home) >= (int)sizeof(path))
		return -ENOENT;
	(void)mkdir(path, FOLDER_MODE);
	return cache_dir_open_in(path);
}

/* ---- files ---- */

int cache_dir_open_file(int dir, const char *name, size_t max, int *ret_fd, size_t *ret_len)
{
	_cleanup_(fd_closep) int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ELOOP ? -EPERM : -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
	    (st.st_mode & OF_OTHERS))
		return -EPERM;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	*ret_len = (size_t)st.st_size;
	*ret_fd = take_fd(fd);
	return 0;
}

int cache_dir_read(int dir, const char *name, size_t max, uint8_t **ret_data, size_t *ret_len)
{
	_cleanup_(freep) uint8_t *data = NULL;
	_cleanup_(fd_closep) int fd = -1;
	size_t len;
	ssize_t n;
	int r = cache_dir_open_file(dir, name, max, &fd, &len);

	if (r < 0)
		return r;
	data = malloc(len + 1);
	if (!data)
		return fail(-ENOMEM);
	n = read_fd_at(fd, data, len, 0);
	if (n < 0)
		return (int)n;
	*ret_len = (size_t)n;
	*ret_data = take(data);
	return 0;
}

int cache_dir_write(int dir, const char *name, const void *data, size_t len)
{
	char new_name[NAME_MAX];
	int fd, r;

	if (snprintf(new_name, sizeof(new_name), "%s.new-%d", name, (int)gettid()) >=
	    (int)sizeof(new_name))
		return -ENAMETOOLONG;
	(void)unlinkat(dir, new_name, 0); /* of a process that was killed */
	fd = openat(dir, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return -errno;
	r = write_all(fd, data, len);
	(void)fd_close(fd);
	if (r >= 0 && renameat(dir, new_name, dir, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, new_name, 0);
	return r;
}

/* ---- the limit ---- */

struct kept {
	struct timespec at;
	uint64_t bytes;
	char name[NAME_MAX + 1];
};

static int by_age(const void *left, const void *right)
{
	const struct kept *a = left, *b = right;

	return ascend(a->at.tv_sec, b->at.tv_sec) ?: ascend(a->at.tv_nsec, b->at.tv_nsec);
}

/* Files beyond FILES_MAX are found the next time. */
static size_t list_files(int dir, const char *prefix, struct kept *files)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	size_t n = 0;

	if (!stream) {
		(void)fd_close(copy);
		return 0;
	}
	while (n < FILES_MAX && (entry = readdir(stream))) {
		struct kept *file = &files[n];
		struct stat st;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
		    fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISDIR(st.st_mode))
			continue;
		file->at = st.st_mtim;
		file->bytes = (uint64_t)st.st_size;
		(void)snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		n++;
	}
	(void)closedir(stream);
	return n;
}

void cache_dir_trim(int dir, const char *prefix, uint64_t max)
{
	_cleanup_(freep) struct kept *files = calloc(FILES_MAX, sizeof(*files));
	size_t n = files ? list_files(dir, prefix, files) : 0;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += files[i].bytes;
	if (sum <= max)
		return;
	qsort(files, n, sizeof(*files), by_age);
	for (size_t i = 0; i < n && sum > max; i++) {
		(void)unlinkat(dir, files[i].name, 0);
		sum -= files[i].bytes;
	}
}
