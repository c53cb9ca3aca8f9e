/* record-scope.c - see record-scope.h.  A process that the kernel shows nothing of is not recorded. */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/record-scope.h"
#include "proc/procfs.h"

#define CGROUPS "/sys/fs/cgroup"

static int find_user(const char *user, uint32_t *ret_uid)
{
	const struct passwd *entry;
	uint64_t uid;

	if (parse_u64(user, 10, UINT32_MAX - 1, &uid) == 0) {
		*ret_uid = (uint32_t)uid;
		return 0;
	}
	errno = 0;
	entry = getpwnam(user);
	if (!entry && is_shortage(-errno)) {
		int r = -errno;

		log_error("record: -u %.64s: %s", user, strerror(-r));
		return fail(r);
	}
	if (!entry) {
		log_error("record: -u %.64s: there is no user of this name", user);
		return fail(-EINVAL);
	}
	*ret_uid = entry->pw_uid;
	return 0;
}

/* In version 2, or in one hierarchy of version 1. */
static bool has_folder(const char *cgroup)
{
	char path[4096];
	struct dirent *entry;
	bool found = false;
	DIR *folders;

	if (access(CGROUPS "/cgroup.controllers", F_OK) == 0) {
		(void)snprintf(path, sizeof(path), CGROUPS "/%s/.", cgroup);
		return access(path, F_OK) == 0;
	}
	folders = opendir(CGROUPS);
	while (folders && !found && (entry = readdir(folders))) {
		(void)snprintf(path, sizeof(path), CGROUPS "/%s/%s/.", entry->d_name, cgroup);
		found = entry->d_name[0] != '.' && access(path, F_OK) == 0;
	}
	if (folders)
		(void)closedir(folders);
	return found;
}

/* In a container the folders of its own cgroup may have other paths.  1, 0; < 0: not known. */
static int has_process(const char *cgroup)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	bool found = false;
	size_t n = 0;
	int r = procfs_pids("", &pids, &n);

	for (size_t i = 0; i < n && !found; i++) {
		_cleanup_(freep) char *path = NULL;

		r = procfs_cgroup("", pids[i], &path);
		if (is_shortage(r))
			break;
		found = r == 0 && procfs_cgroup_below(path, cgroup);
	}
	return is_shortage(r) ? trace(r) : found;
}

static int check_cgroup(const char *cgroup)
{
	bool dots = procfs_cgroup_has_dots(cgroup);
	int r = !dots && has_folder(cgroup) ? 1 : has_process(cgroup);

	if (r < 0)
		log_error("record: -G %.256s: %s", cgroup, strerror(-r));
	if (r)
		return r < 0 ? trace(r) : 0;
	if (dots) {
		log_error("record: -G %.256s: `.` and `..` may lead out of the root of the "
			  "cgroups, and no process is in a cgroup of this path; "
			  "hint: its path from the root as `systemd-cgls` shows it, / for all",
			  cgroup);
		return fail(-EINVAL);
	}
	log_error(
		"record: -G %.256s: no cgroup of this name is in " CGROUPS ", and no process is "
		"in it (`systemd-cgls` lists the cgroups, `cat /proc/PID/cgroup` the cgroups of a "
		"process)",
		cgroup);
	return fail(-EINVAL);
}

int record_scope_init(struct record_scope *scope, const char *user, const char *cgroup)
{
	int r = 0;

	*scope = (struct record_scope){.by_user = user != NULL, .cgroup = cgroup};
	if (user)
		r = find_user(user, &scope->uid);
	if (r == 0 && cgroup)
		r = check_cgroup(cgroup);
	return r < 0 ? trace(r) : 0;
}

/* proc_pid_status(5): "Uid:\t" real, effective ... */
static bool is_of_user(uint32_t pid, uint32_t uid)
{
	_cleanup_(freep) char *status = NULL;
	char path[64];
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (read_file(path, 65536, &status, NULL) < 0)
		return false;
	line = strstr(status, "\nUid:\t");
	return line && strtoul(line + 6, NULL, 10) == uid;
}

bool record_scope_wants(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	const struct record_scope *scope = arg;
	_cleanup_(freep) char *cgroup = NULL;

	(void)cmdline;
	(void)len;
	if (scope->by_user && !is_of_user(pid, scope->uid))
		return false;
	return !scope->cgroup ||
	       (procfs_cgroup("", pid, &cgroup) == 0 && procfs_cgroup_below(cgroup, scope->cgroup));
}
