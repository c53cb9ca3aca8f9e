/* file-places.c - see file-places.h.
 *
 * perf keeps files by build id (perf-buildid-cache(1)):
 *
 *   DIR/.build-id/ab/cdef...      a link to the folder of the file, which has elf, debug, kallsyms or
 *                                 vdso in it; up to perf 4.11 a link to the file itself
 *
 * /usr/lib/debug is laid out as DIR/.build-id/ab/cdef....debug, and by paths. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "proc/file-places.h"
#include "proc/open-file.h"

static const char debug_files[] = "/usr/lib/debug/", by_id[] = "/usr/lib/debug/.build-id/";

void file_places_cache(const struct file_places *places, char *to, size_t size)
{
	const char *folder = places->buildid_dir, *home = getenv("HOME");
	int n;

	if (!folder)
		folder = getenv("PERF_BUILDID_DIR");
	if (!folder && !home) {
		*to = 0;
		return;
	}
	n = snprintf(to, size, "%s%s", folder ? folder : home, folder ? "" : "/.debug");
	if (n < 0 || (size_t)n >= size)
		*to = 0;
}

/* Opens FOLDER + PATH + NAME, if it is a regular file. */
static int open_below(const char *folder, const char *path, const char *name)
{
	char full[PATH_MAX];
	struct stat st;
	int fd, n = snprintf(full, sizeof(full), "%s%s%s", folder, path, name);

	if (n < 0 || (size_t)n >= sizeof(full))
		return -ENOENT;
	fd = procfs_open_regular(full, NULL, &st);
	return fd < 0 ? -ENOENT : fd;
}

static bool has_build_id(int fd, const struct uw_build_id *id)
{
	struct uw_source source = {.fd = fd};
	struct uw_build_id found;

	return uw_source_build_id(&source, &found) >= 0 && found.len == id->len &&
	       !memcmp(found.bytes, id->bytes, id->len);
}

int file_places_open_copy(const struct file_places *places, const char *path,
			  const struct uw_build_id *id, bool *ret_proved)
{
	_cleanup_(fd_closep) int fd = -1;

	if (!places->symfs || path[0] != '/')
		return -ENOENT;
	fd = open_below(places->symfs, path, "");
	if (fd < 0 || (id->len && !has_build_id(fd, id)))
		return -ENOENT;
	*ret_proved = id->len != 0;
	return take_fd(fd);
}

/* In the archive, else in the cache. */
static int open_by_id(const struct file_places *places, const char *id, const char *name)
{
	char folder[PATH_MAX];
	int fd = places->archive ? open_below(places->archive, id, name) : -ENOENT;

	if (fd >= 0)
		return fd;
	file_places_cache(places, folder, sizeof(folder));
	return *folder ? open_below(folder, id, name) : -ENOENT;
}

/* "/.build-id/ab/cdef..." */
static bool path_of_id(const struct uw_build_id *id, char path[64])
{
	size_t n;

	if (id->len < 2 || id->len > UW_BUILD_ID_MAX)
		return false;
	n = (size_t)snprintf(path, 64, "/.build-id/%02x/", id->bytes[0]);
	for (unsigned i = 1; i < id->len; i++)
		n += (size_t)snprintf(path + n, 64 - n, "%02x", id->bytes[i]);
	return true;
}

int file_places_open_archived(const struct file_places *places, const struct uw_build_id *id,
			      const char *name)
{
	char path[64], behind[16];

	if (!places->archive || !path_of_id(id, path))
		return -ENOENT;
	(void)snprintf(behind, sizeof(behind), "/%s", name);
	return open_below(places->archive, path, behind);
}

int file_places_open_cached(const struct file_places *places, const struct uw_build_id *id)
{
	static const char *const names[] = {"/elf", "/vdso", ""};
	char path[64];

	if (!path_of_id(id, path))
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int fd = open_by_id(places, path, names[i]);

		if (fd >= 0 && has_build_id(fd, id))
			return fd;
		(void)fd_close(fd);
	}
	return -ENOENT;
}

/* /usr/lib/debug/.build-id/ab/cdef.debug is .build-id/ab/cdef/debug in the cache. */
static int open_cached_debug(const struct file_places *places, const char *path)
{
	char id[PATH_MAX];
	size_t len = strlen(path), tail = strlen(".debug");

	if (strncmp(path, by_id, strlen(by_id)) != 0 || len < strlen(by_id) + tail ||
	    strcmp(path + len - tail, ".debug") != 0)
		return -ENOENT;
	path += strlen(debug_files) - 1;
	(void)snprintf(id, sizeof(id), "%.*s", (int)(strlen(path) - tail), path);
	return open_by_id(places, id, "/debug");
}

int file_places_open_debug(const struct file_places *places, const char *path)
{
	bool usual = !strncmp(path, debug_files, strlen(debug_files));
	int fd = -ENOENT;

	if (places->debug_dir && usual)
		fd = open_below(places->debug_dir, path + strlen(debug_files) - 1, "");
	if (fd < 0 && places->symfs && path[0] == '/')
		fd = open_below(places->symfs, path, "");
	return fd < 0 ? open_cached_debug(places, path) : fd;
}

int file_places_open_debug_id(const struct file_places *places, const struct uw_build_id *id)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[128];
	struct stat st;
	size_t n;

	if (id->len < 2 || id->len > UW_BUILD_ID_MAX)
		return -ENOENT;
	n = (size_t)snprintf(path, sizeof(path), "%s%02x/", by_id, id->bytes[0]);
	for (unsigned i = 1; i < id->len; i++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%02x", id->bytes[i]);
	(void)snprintf(path + n, sizeof(path) - n, ".debug");
	fd = file_places_open_debug(places, path);
	if (fd < 0)
		fd = procfs_open_regular(path, NULL, &st);
	return fd >= 0 && has_build_id(fd, id) ? take_fd(fd) : -ENOENT;
}
