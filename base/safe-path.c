/* safe-path.c - see safe-path.h. */
#include "base/safe-path.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_safe(const char *path, bool whole)
{
	struct stat st;

	if (lstat(path, &st) < 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
		return false;
	if (S_ISREG(st.st_mode))
		return whole && !(st.st_mode & (S_IWGRP | S_IWOTH));
	return S_ISDIR(st.st_mode) &&
	       (!(st.st_mode & (S_IWGRP | S_IWOTH)) || (st.st_mode & S_ISVTX));
}

bool safe_path(const char *path)
{
	char part[PATH_MAX];

	if (*path != '/' || strlen(path) >= sizeof(part))
		return false;
	for (const char *p = path; *p; p++) {
		size_t len = p == path ? 1 : (size_t)(p - path);

		if (*p != '/')
			continue;
		memcpy(part, path, len);
		part[len] = 0;
		if (!is_safe(part, false))
			return false;
	}
	return is_safe(path, true);
}
