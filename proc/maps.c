/* maps.c - mappings of a process: the text of /proc/PID/maps, line by line, or one by address.
 *
 *   7f1c2a400000-7f1c2a428000 r-xp 00001000 08:01 131090                     /usr/lib/libc.so.6
 *   start        end          perm offset   dev   inode (decimal), blanks    path to the line's end
 *
 * fs/proc/task_mmu.c: a newline in a path is written as \012, so a line is one mapping.  The text
 * is foreign all the same (another process may hand it over): a line that is not of this form is
 * skipped.  Digits are read by hand: the text of a big process has tens of thousands of lines. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"

enum { MAPS_MAX = 64 << 20, MAPS_READ = 16 << 10 };

int procfs_maps(const char *root, uint32_t pid, char **ret_text, size_t *ret_len)
{
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, root, pid, "maps");

	if (r < 0)
		return trace(r);
	r = read_file(path, MAPS_MAX, ret_text, ret_len);
	if (r == -ENOENT)
		r = -ESRCH;
	return r < 0 ? trace(r) : 0;
}

/* By position: the descriptor is read repeatedly, and the process that sent it may move its offset. */
int procfs_maps_of_fd(int fd, char **ret_text, size_t *ret_len)
{
	_cleanup_(freep) char *text = NULL;
	size_t len = 0, room = 0;
	ssize_t n;

	do {
		if (room - len < MAPS_READ) {
			char *more;

			if (len > MAPS_MAX)
				return fail(-EFBIG);
			room = room ? room * 2 : 4 * (size_t)MAPS_READ;
			more = realloc(text, room + 1);
			if (!more)
				return fail(-ENOMEM);
			text = more;
		}
		n = pread(fd, text + len, room - len, (off_t)len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		len += (size_t)n;
	} while (n);
	if (!len)
		return fail(-ESRCH);
	text[len] = 0;
	*ret_text = take(text);
	*ret_len = len;
	return 0;
}

/* The value of a lower-case hex digit plus one; 0: none. */
static const uint8_t digits[256] = {
	['0'] = 1,  ['1'] = 2,	['2'] = 3,  ['3'] = 4,	['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,	['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

/* A number in hex that ends in @stop, which is read as well. */
static bool read_hex(const uint8_t **p, const uint8_t *end, uint64_t max, char stop, uint64_t *ret)
{
	const uint8_t *at = *p;
	uint64_t v = 0;

	for (; at < end && digits[*at]; at++) {
		if (v >> 60)
			return false;
		v = v << 4 | (digits[*at] - 1u);
	}
	if (at == *p || at == end || *at != (uint8_t)stop || v > max)
		return false;
	*p = at + 1;
	*ret = v;
	return true;
}

static bool read_decimal(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	const uint8_t *at = *p;
	uint64_t v = 0;

	for (; at < end && *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)*at - '0', &v))
			return false;
	}
	if (at == *p || (at < end && *at != ' '))
		return false;
	*p = at;
	*ret = v;
	return true;
}

static bool read_flag(uint8_t c, char set, char clear, bool *ret)
{
	*ret = c == (uint8_t)set;
	return *ret || c == (uint8_t)clear;
}

static bool read_permissions(const uint8_t **p, const uint8_t *end, struct procfs_map *map)
{
	const uint8_t *c = *p;

	if (end - c < 5 || c[4] != ' ')
		return false;
	*p += 5;
	return read_flag(c[0], 'r', '-', &map->read) && read_flag(c[1], 'w', '-', &map->write) &&
	       read_flag(c[2], 'x', '-', &map->exec) && read_flag(c[3], 's', 'p', &map->shared);
}

static bool read_line(const uint8_t *p, const uint8_t *end, struct procfs_map *map)
{
	uint64_t major, minor;

	if (!read_hex(&p, end, UINT64_MAX, '-', &map->start) ||
	    !read_hex(&p, end, UINT64_MAX, ' ', &map->end) || map->start >= map->end ||
	    !read_permissions(&p, end, map) || !read_hex(&p, end, UINT64_MAX, ' ', &map->offset) ||
	    !read_hex(&p, end, UINT32_MAX, ':', &major) ||
	    !read_hex(&p, end, UINT32_MAX, ' ', &minor) || !read_decimal(&p, end, &map->inode))
		return false;
	while (p < end && *p == ' ')
		p++;
	map->major = (uint32_t)major;
	map->minor = (uint32_t)minor;
	map->path = (const char *)p;
	map->path_len = (size_t)(end - p);
	return true;
}

int procfs_maps_next(const char **p, const char *end, struct procfs_map *ret_map)
{
	struct procfs_map map;
	const char *line = *p, *newline;

	if (line >= end)
		return PROCFS_MAPS_END;
	newline = memchr(line, '\n', (size_t)(end - line));
	if (!newline)
		newline = end;
	*p = newline < end ? newline + 1 : end;
	if (!read_line((const uint8_t *)line, (const uint8_t *)newline, &map))
		return -EBADMSG; /* not by fail(): junk must not fill the log */
	*ret_map = map;
	return 0;
}

/* ---- one mapping by address ----
 *
 * By ioctl on an open /proc/PID/maps (Linux 6.11): half a microsecond, against 0.2 to 10 ms for the whole text, and it gives the
 * build id.  The definitions are our own, from the uapi's numbers: the build machine's headers are older. */

struct query {
	uint64_t size;
	uint64_t flags; /* 0: the mapping that covers the address, of any kind */
	uint64_t address;
	uint64_t start, end, vma_flags, page_size, offset, inode; /* out */
	uint32_t major, minor;					  /* out */
	uint32_t name_size, build_id_size; /* room; out: what was written, 0: none */
	uint64_t name, build_id;
};
_Static_assert(sizeof(struct query) == 104, "struct procmap_query");

enum { VMA_READ = 1, VMA_WRITE = 2, VMA_EXEC = 4, VMA_SHARED = 8 };

_Static_assert(PROCFS_QUERY == _IOWR('f', 17, struct query), "PROCMAP_QUERY");

int procfs_query(int maps_fd, uint64_t address, struct procfs_map *ret_map,
		 struct uw_build_id *ret_id, char *path, size_t path_size)
{
	struct uw_build_id id = {0};
	struct query q = {
		.size = sizeof(q),
		.address = address,
		.name_size = (uint32_t)min_u64(path_size, 4096),
		.name = (uintptr_t)path,
		.build_id_size = sizeof(id.bytes),
		.build_id = (uintptr_t)id.bytes,
	};

	if (!path_size)
		q.name = 0;
	if (ioctl(maps_fd, PROCFS_QUERY, &q) < 0)
		return fail(-errno);
	/* name_size counts the NUL */
	if (q.start >= q.end || q.name_size > path_size || q.build_id_size > sizeof(id.bytes))
		return fail(-EBADMSG);
	id.len = (uint8_t)q.build_id_size;
	if (path_size)
		path[q.name_size ? q.name_size - 1 : 0] = 0;
	*ret_id = id;
	*ret_map = (struct procfs_map){
		.start = q.start,
		.end = q.end,
		.offset = q.offset,
		.inode = q.inode,
		.major = q.major,
		.minor = q.minor,
		.read = q.vma_flags & VMA_READ,
		.write = q.vma_flags & VMA_WRITE,
		.exec = q.vma_flags & VMA_EXEC,
		.shared = q.vma_flags & VMA_SHARED,
		.path = path,
		.path_len = q.name_size ? q.name_size - 1 : 0,
	};
	return 0;
}
