/* debugfile.c - see debugfile.h.
 *
 * Where to look is GDB's convention ("Separate Debug Files" in its manual).  What is found is a
 * file that a target may have put there, so it is believed only if its build id is the image's or,
 * by debuglink, its CRC-32 is the one that the image names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/base/error.h"
#include "unwinder/debugfile.h"
#include "unwinder/parts.h"

#define CRC_FILE_MAX (4ull << 30)

/* O_NONBLOCK: a FIFO in the place of a file must not stop us. */
static int open_plain(struct uw_source *source, const char *path)
{
	struct stat st;
	int fd;

	if (source->open)
		fd = source->open(source, path);
	else
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -ENOENT;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fd_close(fd);
	return fd;
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

/* @fd, which is consumed, if it has this build id; -1, or -ENOMEM. */
static int with_build_id(int fd, const struct uw_build_id *id)
{
	int r;

	if (fd < 0)
		return -1;
	r = same_build_id(fd, id);
	if (r > 0)
		return fd;
	(void)fd_close(fd);
	return r < 0 ? trace(r) : -1;
}

static bool same_crc(int fd, uint32_t crc)
{
	uint8_t buffer[64 << 10];
	uLong sum = crc32(0, NULL, 0);
	uint64_t at = 0;

	while (at < CRC_FILE_MAX) {
		ssize_t n = pread(fd, buffer, sizeof(buffer), (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			return (uint32_t)sum == crc;
		sum = crc32(sum, buffer, (uInt)n);
		at += (uint64_t)n;
	}
	return false;
}

/* A descriptor, -1, or -ENOMEM; so are those below. */
static int open_by_build_id(const struct uw_build_id *id, struct uw_source *source)
{
	char path[128];
	int n = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", id->bytes[0]);

	for (unsigned i = 1; i < id->len; i++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x", id->bytes[i]);
	(void)snprintf(path + n, sizeof(path) - (size_t)n, ".debug");
	return with_build_id(open_plain(source, path), id);
}

/* A file name, NUL, padding to 4, CRC-32.  @unchecked: takes what has the name. */
static int open_by_link(const struct uw_elf *elf, const char *path, struct uw_source *source,
			bool unchecked)
{
	static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".gnu_debuglink");
	_cleanup_(uw_section_deinit) struct uw_section link = {0};
	const char *name, *slash = strrchr(path, '/');
	uint32_t crc;
	size_t len;
	int r;

	if (!shdr || path[0] != '/')
		return -1;
	r = uw_elf_load_section(elf, shdr, PATH_MAX, &link);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : -1;
	name = (const char *)link.data;
	len = strnlen(name, link.size);
	if (!len || len > NAME_MAX || memchr(name, '/', len) ||
	    ((len + 4) & ~(size_t)3) + 4 > link.size)
		return -1;
	memcpy(&crc, link.data + ((len + 4) & ~(size_t)3), sizeof(crc));
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		char at[PATH_MAX];
		int n = snprintf(at, sizeof(at), forms[i], (int)(slash - path), path, name), fd;

		if (n < 0 || (size_t)n >= sizeof(at) || !strcmp(at, path))
			continue;
		fd = open_plain(source, at);
		if (fd < 0)
			continue;
		if (unchecked || same_crc(fd, crc))
			return fd;
		fd_close(fd);
	}
	return -1;
}

int uw_debugfile_open_id(const struct uw_build_id *id, const char *path, struct uw_source *source)
{
	int fd = id->len > 1 ? open_by_build_id(id, source) : -1;

	if (fd == -1 && path[0] == '/')
		fd = with_build_id(open_plain(source, path), id);
	return fd;
}

static int open_of(const struct uw_elf *elf, const char *path, struct uw_source *source,
		   bool unchecked)
{
	struct uw_build_id id;
	int fd = -1;

	uw_elf_build_id(elf, &id);
	if (id.len > 1)
		fd = open_by_build_id(&id, source);
	return fd == -1 ? open_by_link(elf, path, source, unchecked) : fd;
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
		return false;
	fd_close(fd);
	return true;
}
