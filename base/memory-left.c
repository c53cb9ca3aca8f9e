/* memory-left.c - see memory-left.h.
 *
 *   /proc/self/cgroup       0::/a/b            version 2: memory.max, memory.current, memory.stat
 *                           4:memory:/a/b      version 1: memory.limit_in_bytes, memory.usage_in_bytes, memory.stat
 *
 * In a container the path may begin above what is mounted: folders that are not there are passed over, up to the mount. */
#include "base/memory-left.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 10 };

/* Version 1 has a number for none: LONG_MAX, without a part of a page. */
static const uint64_t NO_LIMIT = 1ull << 62;

struct hierarchy {
	const char *mount, *limit, *usage;
	const char *cached[2]; /* keys of memory.stat: with all cgroups below */
};

static const struct hierarchy hierarchies[] = {
	{"/sys/fs/cgroup/memory",
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 {"total_inactive_file ", "total_active_file "}},
	{"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
};

/* The number in @folder/@name, after @key at the start of a line; UINT64_MAX: none. */
static uint64_t number_of(const char *folder, const char *name, const char *key)
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) ||
	    read_file(path, TEXT_MAX, &text, NULL) < 0)
		return UINT64_MAX;
	for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
		uint64_t n;

		end = strchr(line, '\n');
		if (end)
			*end = 0;
		if (strncmp(line, key, strlen(key)) == 0 &&
		    parse_u64(line + strlen(key), 10, UINT64_MAX, &n) >= 0)
			return n;
	}
	return UINT64_MAX;
}

static uint64_t left_in(const struct hierarchy *h, const char *folder)
{
	uint64_t limit = number_of(folder, h->limit, ""), used, cached = 0;

	if (limit >= NO_LIMIT) /* the kernel takes 0.2 ms for memory.stat */
		return UINT64_MAX;
	used = number_of(folder, h->usage, "");
	if (used == UINT64_MAX)
		return UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(h->cached); i++) {
		uint64_t n = number_of(folder, "memory.stat", h->cached[i]);

		cached += n == UINT64_MAX ? 0 : min_u64(n, used);
	}
	used -= min_u64(used, cached);
	return limit - min_u64(limit, used);
}

static uint64_t left_below(const struct hierarchy *h, const char *root, const char *cgroup)
{
	char folder[PATH_MAX];
	uint64_t left = UINT64_MAX;
	size_t mount;

	if (snprintf(folder, sizeof(folder), "%s%s%s", root, h->mount, cgroup) >=
	    (int)sizeof(folder))
		return UINT64_MAX;
	mount = strlen(root) + strlen(h->mount);
	for (;;) {
		char *slash;

		left = min_u64(left, left_in(h, folder));
		slash = strrchr(folder + mount, '/');
		if (!slash)
			return left;
		*slash = 0;
	}
}

/* Is "memory" one of the comma-separated names before @end? */
static bool has_memory(const char *names, const char *end)
{
	static const char memory[] = "memory";
	size_t n = sizeof(memory) - 1;

	for (const char *p = names; p && p < end; p = memchr(p, ',', (size_t)(end - p))) {
		p += *p == ',';
		if ((size_t)(end - p) >= n && strncmp(p, memory, n) == 0 &&
		    (p + n == end || p[n] == ','))
			return true;
	}
	return false;
}

uint64_t memory_left(const char *root)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t left = UINT64_MAX;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int)sizeof(path) ||
	    read_file(path, TEXT_MAX, &text, NULL) < 0)
		return UINT64_MAX;
	for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
		char *names = strchr(line, ':'), *cgroup;

		end = strchr(line, '\n');
		if (end)
			*end = 0;
		cgroup = names ? strchr(names + 1, ':') : NULL;
		if (!cgroup || strstr(cgroup, "/.."))
			continue;
		if (names + 1 == cgroup)
			left = min_u64(left, left_below(&hierarchies[1], root, cgroup + 1));
		else if (has_memory(names + 1, cgroup))
			left = min_u64(left, left_below(&hierarchies[0], root, cgroup + 1));
	}
	return left;
}
