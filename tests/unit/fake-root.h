/* fake-root.h - a folder of one test program with files as below /sys and /proc. */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/cmocka.h"

static char root[] = "/tmp/perfwind-root-XXXXXX"; /* fake_root_make() */

static inline void fake_root_make(void)
{
	assert_non_null(mkdtemp(root));
}

/* @path: from the root, with a slash first; its folders are made. */
static inline void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	for (const char *p = path + 1; (p = strchr(p, '/')); p++) {
		(void)snprintf(full, sizeof(full), "%s%.*s", root, (int)(p - path), path);
		assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
	}
	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static inline int fake_root_remove_one(const char *path, const struct stat *st, int flag,
				       struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline int fake_root_remove(void)
{
	return nftw(root, fake_root_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
