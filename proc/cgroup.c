/* cgroup.c - the cgroup of a process, from the text of /proc/PID/cgroup (cgroups(7)).  Thread: loader.
 *
 *   0::/system.slice/docker-1234.scope     version 2, one line
 *   9:name=systemd:/user.slice             version 1, a line for each hierarchy
 *   4:memory:/docker/1234
 *
 * One path represents the process: version 2's, which is the container's wherever containers use it.
 * Machines with both versions mounted may leave all processes at its root and group them in version
 * 1: then the hierarchy of perf events, systemd's, else the first one in which the process is not at
 * the root. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "proc/procfs.h"

enum {
	TEXT_MAX =
		128 << 10, /* a line is a path at most (4 KiB), and there are some 14 hierarchies */
	CGROUP_MAX = 4095,
};

struct line {
	const char *controllers, *path; /* not NUL-terminated */
	size_t controllers_len, path_len;
	bool v2;
};

/* The line at *p, without its newline; moves past it.  false: it is none. */
static bool next_line(const char **p, struct line *ret)
{
	const char *line = *p, *end = strchrnul(line, '\n');
	const char *first = memchr(line, ':', (size_t)(end - line)), *second;

	*p = *end ? end + 1 : end;
	second = first ? memchr(first + 1, ':', (size_t)(end - first) - 1) : NULL;
	if (!second || second[1] != '/' || end - second - 1 > CGROUP_MAX)
		return false;
	*ret = (struct line){
		.controllers = first + 1,
		.controllers_len = (size_t)(second - first) - 1,
		.path = second + 1,
		.path_len = (size_t)(end - second) - 1,
		.v2 = second == first + 1,
	};
	return true;
}

/* Is @name one of the comma-separated controllers? */
static bool has_controller(const struct line *line, const char *name)
{
	const char *p = line->controllers, *end = p + line->controllers_len;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t len = (size_t)((comma ? comma : end) - p);

		if (len == strlen(name) && !memcmp(p, name, len))
			return true;
		p += len + 1;
	}
	return false;
}

/* How well the line represents the process. */
static unsigned rank(const struct line *line)
{
	if (line->path_len == 1) /* the root */
		return 1;
	if (line->v2)
		return 5;
	if (has_controller(line, "perf_event"))
		return 4;
	return has_controller(line, "name=systemd") ? 3 : 2;
}

int procfs_cgroup_find(const char *text, const char **ret_path, size_t *ret_len)
{
	struct line best = {0}, line;

	while (*text) {
		if (next_line(&text, &line) && (!best.path || rank(&line) > rank(&best)))
			best = line;
	}
	if (!best.path)
		return fail(-ENODATA);
	*ret_path = best.path;
	*ret_len = best.path_len;
	return 0;
}

int procfs_cgroup_parse(const char *text, char **ret_path)
{
	const char *found;
	char *path;
	size_t len;
	int r = procfs_cgroup_find(text, &found, &len);

	if (r < 0)
		return trace(r);
	path = strndup(found, len);
	if (!path)
		return fail(-ENOMEM);
	*ret_path = path;
	return 0;
}

int procfs_cgroup(const char *root, uint32_t pid, char **ret_path)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, root, pid, "cgroup");

	if (r >= 0)
		r = read_file(path, TEXT_MAX, &text, NULL);
	if (r >= 0)
		r = procfs_cgroup_parse(text, ret_path);
	return r < 0 ? trace(r) : 0;
}

bool procfs_cgroup_below(const char *path, const char *wanted)
{
	size_t len;

	path += *path == '/';
	wanted += *wanted == '/';
	len = strlen(wanted);
	while (len && wanted[len - 1] == '/')
		len--;
	return !len || (!strncmp(path, wanted, len) && (path[len] == '/' || !path[len]));
}

bool procfs_cgroup_has_dots(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && len <= 2 && strspn(path, ".") >= len)
			return true;
		path += len + (path[len] == '/');
	}
	return false;
}
