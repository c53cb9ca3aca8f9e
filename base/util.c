/* util.c - see util.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"

int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = saved;
	return -1;
}

FILE *file_create(const char *path, int flags)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (file)
		fd = -1; /* is the stream's */
	return file;
}

void use_hard_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 ||
	    limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit((__rlimit_resource_t)resource, &limit);
}

size_t share_of_files(size_t n)
{
	struct rlimit limit = {1024, 1024};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return max_u64(limit.rlim_cur / n, 1);
}

uint64_t clock_ns(int clock)
{
	struct timespec ts = {0};

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int parse_u64(const char *text, int base, uint64_t max, uint64_t *ret_value)
{
	unsigned long long v;
	char *end;

	/* strtoull() skips blanks and takes a sign: neither is a number to us. */
	if (!((*text >= '0' && *text <= '9') ||
	      (base == 16 && strchr("abcdefABCDEF", *text) && *text)))
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, base);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || v > max)
		return -ERANGE;
	*ret_value = v;
	return 0;
}

int read_fd(int fd, size_t max, char **ret_text, size_t *ret_len)
{
	_cleanup_(freep) char *text = NULL;
	size_t len = 0, room = 0;

	for (;;) {
		ssize_t n;

		if (len + 1 >= room) {
			char *more;

			room = room ? room * 2 : 4096;
			more = realloc(text, room);
			if (!more)
				return fail(-ENOMEM);
			text = more;
		}
		n = read(fd, text + len, room - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > max)
			return fail(-EFBIG);
	}
	text[len] = 0;
	*ret_text = take(text);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int read_file(const char *path, size_t max, char **ret_text, size_t *ret_len)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno; /* not traced: a missing file is an answer more often than a fault */
	return read_fd(fd, max, ret_text, ret_len);
}

ssize_t read_fd_at(int fd, void *to, size_t len, uint64_t offset)
{
	size_t have = 0;

	if (offset > INT64_MAX - len)
		return 0; /* beyond the end of any file */
	while (have < len) {
		ssize_t n = pread(fd, (char *)to + have, len - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

size_t sort_unique_u32(uint32_t *list, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), compare_u32);
	for (size_t i = 0; i < n; i++)
		if (!kept || list[kept - 1] != list[i])
			list[kept++] = list[i];
	return kept;
}
