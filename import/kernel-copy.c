/* kernel-copy.c - see kernel-copy.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "import/kernel-copy.h"

enum { ID_MAX = 20 };

/* -errno, or a regular file. */
static int open_one(const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	/* O_NONBLOCK: if it is a FIFO, do not wait for a writer */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	return take_fd(fd);
}

int kernel_copy_open(const struct file_places *places, const uint8_t *build_id, size_t len,
		     int *ret_fd)
{
	char hex[2 * ID_MAX + 1] = "", folder[PATH_MAX], path[PATH_MAX];
	int fd, n;

	if (len < 2 || len > ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
	if (places->archive) {
		n = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s/kallsyms", places->archive,
			     hex, hex + 2);
		fd = n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : open_one(path);
		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
	}
	file_places_cache(places, folder, sizeof(folder));
	if (!*folder)
		return -ENOENT;
	n = snprintf(path, sizeof(path), "%s/[kernel.kallsyms]/%s/kallsyms", folder, hex);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open_one(path);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}
