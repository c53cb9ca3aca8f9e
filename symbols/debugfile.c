/* debugfile.c - see debugfile.h.
 *
 * Where to look is GDB's convention ("Separate Debug Files" in its manual).  What is found is a
 * file that a target may have put there, so it is trusted only if its build id is the image's or,
 * by debuglink, its CRC-32 is the one that the image names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "symbols/debugfile.h"
#include "symbols/parts.h"

#define CRC_FILE_MAX (4ull << 30)

enum { BY_LINK = 3, PLACES = 1 + BY_LINK };

/* Where a file may be: first by build id, then by debuglink. */
struct places {
	const char *paths[PLACES];
	size_t n, n_by_id;
	uint32_t crc;
	char by_id[128], by_link[BY_LINK][PATH_MAX];
};

/* O_NONBLOCK: a FIFO in the place of a file must not stop us. */
static int open_one(struct uw_source *source, const char *path)
{
	int fd;

	if (source->open)
		return source->open(source, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* The first from *@at on that is there: *@at is its number; -1: none; -ENOMEM: also out of descriptors, so that it
 * may be there nevertheless. */
static int open_next(const struct places *places, size_t *at, struct uw_source *source)
{
	for (; *at < places->n; (*at)++) {
		size_t index = 0;
		struct stat st;
		int fd = source->open_first ? source->open_first(source, places->paths + *at,
								 places->n - *at, &index)
					    : open_one(source, places->paths[*at]);

		if (is_shortage(fd))
			return fail(-ENOMEM);
		if (fd < 0 && source->open_first)
			break;
		*at += index;
		if (fd >= 0 && *at < places->n && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return fd;
		(void)fd_close(fd);
	}
	return -1;
}

/* 1, 0, or -ENOMEM. */
static int same_build_id(int fd, const struct uw_build_id *id)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	struct uw_build_id found;
	int r = uw_elf_open_fd(&elf, fd);

	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	uw_elf_build_id(&elf, &found);
	return uw_build_id_equal(&found, id);
}

static bool same_crc(int fd, uint32_t crc)
{
	uint8_t buffer[64 << 10];
	uLong sum = crc32(0, NULL, 0);
	uint64_t at = 0;

	while (at < CRC_FILE_MAX) {
		ssize_t n = read_fd_at(fd, buffer, sizeof(buffer), at);

		if (n < 0)
			return false;
		if (n == 0)
			return (uint32_t)sum == crc;
		sum = crc32(sum, buffer, (uInt)n);
		at += (uint64_t)n;
	}
	return false;
}

/* ---- places ---- */

static void add_build_id(struct places *places, const struct uw_build_id *id)
{
	char *path = places->by_id;
	size_t size = sizeof(places->by_id), n;

	if (id->len < 2)
		return;
	n = (size_t)snprintf(path, size, "/usr/lib/debug/.build-id/%02x/", id->bytes[0]);
	for (unsigned i = 1; i < id->len; i++)
		n += (size_t)snprintf(path + n, size - n, "%02x", id->bytes[i]);
	(void)snprintf(path + n, size - n, ".debug");
	places->paths[places->n++] = path;
	places->n_by_id = places->n;
}

/* .gnu_debuglink: a file name, NUL, padding to 4, CRC-32. */
static int add_link(struct places *places, const struct uw_elf *elf, const char *path)
{
	static const char *const forms[BY_LINK] = {"%.*s/%s", "%.*s/.debug/%s",
						   "/usr/lib/debug%.*s/%s"};
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".gnu_debuglink");
	_cleanup_(uw_section_deinit) struct uw_section link = {0};
	const char *name, *slash = strrchr(path, '/');
	size_t len;
	int r;

	if (!shdr || path[0] != '/')
		return 0;
	r = uw_elf_load_section(elf, shdr, PATH_MAX, &link);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	name = (const char *)link.data;
	len = strnlen(name, link.size);
	if (!len || len > NAME_MAX || memchr(name, '/', len) ||
	    ((len + 4) & ~(size_t)3) + 4 > link.size)
		return 0;
	memcpy(&places->crc, link.data + ((len + 4) & ~(size_t)3), sizeof(places->crc));
	for (size_t i = 0; i < BY_LINK; i++) {
		char *at = places->by_link[i];
		int n = snprintf(at, PATH_MAX, forms[i], (int)(slash - path), path, name);

		if (n >= 0 && n < PATH_MAX && strcmp(at, path) != 0)
			places->paths[places->n++] = at;
	}
	return 0;
}

/* ---- files ---- */

/* A descriptor, -1, or -ENOMEM; so are the next two.  The first places->n_by_id places have the build id, the others the link's CRC.
 * @unchecked: takes what has the link's name. */
static int open_right(struct places *places, const struct uw_build_id *id, bool unchecked,
		      struct uw_source *source)
{
	for (size_t at = 0; at < places->n; at++) {
		int fd = open_next(places, &at, source), r;

		if (fd == -ENOMEM)
			return trace(fd);
		if (fd < 0)
			break;
		r = at < places->n_by_id ? same_build_id(fd, id)
					 : unchecked || same_crc(fd, places->crc);
		if (r > 0)
			return fd;
		(void)fd_close(fd);
		if (r < 0)
			return trace(r);
	}
	return -1;
}

int uw_debugfile_open_id(const struct uw_build_id *id, const char *path, struct uw_source *source)
{
	struct places places = {.n = 0};

	add_build_id(&places, id);
	if (path[0] == '/')
		places.paths[places.n++] = path;
	places.n_by_id = places.n;
	return open_right(&places, id, false, source);
}

static int open_of(const struct uw_elf *elf, const char *path, struct uw_source *source,
		   bool unchecked)
{
	struct places places = {.n = 0};
	struct uw_build_id id;
	int r;

	uw_elf_build_id(elf, &id);
	add_build_id(&places, &id);
	r = add_link(&places, elf, path);
	return r < 0 ? trace(r) : open_right(&places, &id, unchecked, source);
}

int uw_debugfile_open(const struct uw_elf *elf, const char *path, struct uw_source *source,
		      int *ret_fd)
{
	int fd = open_of(elf, path, source, false);

	if (fd < 0)
		return fd == -ENOMEM ? fd : UW_DEBUGFILE_NONE;
	*ret_fd = fd;
	return 0;
}

bool uw_debugfile_may_exist(const struct uw_elf *elf, const char *path, struct uw_source *source)
{
	int fd = open_of(elf, path, source, true);

	if (fd < 0)
		return fd == -ENOMEM;
	fd_close(fd);
	return true;
}
