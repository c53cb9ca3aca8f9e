/* snapshot-file.c - see snapshot-file.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cli/snapshot-file.h"
#include "base/error.h"

enum { NUMBERS_MAX = 10000 }; /* of snapshots next to one trace */

static int make_name(const char *path, unsigned number, char *name, size_t size)
{
	static const char suffix[] = ".pftrace";
	size_t len = strlen(path), end = sizeof(suffix) - 1;
	int n;

	if (len > end && !strcmp(path + len - end, suffix))
		len -= end;
	n = snprintf(name, size, "%.*s-%u%s", (int)len, path, number, suffix);
	return n < 0 || (size_t)n >= size ? fail(-ENAMETOOLONG) : 0;
}

int snapshot_file_open(const char *path, char *name, size_t size)
{
	for (unsigned n = 1; n < NUMBERS_MAX; n++) {
		int fd, r = make_name(path, n, name, size);

		if (r < 0)
			return trace(r);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : fail(-errno);
	}
	return fail(-EEXIST);
}
