/* stat-targets.c - see stat-targets.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "cli/stat-targets.h"
#include "proc/procfs.h"

/* The CPUs of each target; n 0: one target for all CPUs. */
struct places {
	uint32_t *cpus;
	size_t n;
};

static int fail_with(const char *what, int r)
{
	log_error("stat: %s: %s", what, strerror(-r));
	return r;
}

/* A new row. */
static int add_row(struct stat_targets *t, const char *label)
{
	if (t->n_rows == t->rows_room && !array_grow(t->labels, t->rows_room, 16))
		return fail_with("rows", fail(-ENOMEM));
	(void)snprintf(t->labels[t->n_rows++], sizeof(t->labels[0]), "%s", label);
	return 0;
}

static int add(struct stat_targets *t, const struct counters_target *target)
{
	if (t->n == t->room && !array_grow(t->list, t->room, 16))
		return fail_with("targets", fail(-ENOMEM));
	t->list[t->n++] = *target;
	return 0;
}

/* @target on each CPU; @by_cpu: a CPU is a row. */
static int add_on_cpus(struct stat_targets *t, const struct places *places,
		       struct counters_target target, bool by_cpu)
{
	int r = 0;

	target.cpu = -1;
	if (!places->n)
		return add(t, &target);
	for (size_t i = 0; i < places->n && r >= 0; i++) {
		target.cpu = (int)places->cpus[i];
		target.row = by_cpu ? (uint32_t)i : target.row;
		r = add(t, &target);
	}
	return r;
}

/* "NAME-TID", safe on a terminal and in CSV.  A command that waits has the name that its exec will give it. */
static void thread_label(const struct stat_scope *scope, uint32_t pid, uint32_t tid, char label[64])
{
	const char *slash = scope->child ? strrchr(scope->command, '/') : NULL;
	char comm[16] = "?";

	if (scope->child && tid == scope->child)
		(void)snprintf(comm, sizeof(comm), "%s", slash ? slash + 1 : scope->command);
	else
		(void)procfs_thread_comm("", pid, tid, comm);
	for (char *c = comm; *c; c++)
		if ((unsigned char)*c < 0x21 || (unsigned char)*c > 0x7e || *c == ',' || *c == '"')
			*c = '_';
	(void)snprintf(label, 64, "%s-%u", comm, tid);
}

static int add_thread(struct stat_targets *t, const struct stat_scope *scope,
		      const struct places *places, uint32_t pid, uint32_t tid)
{
	struct counters_target target = {.tid = (pid_t)tid, .cgroup_fd = -1};
	char label[64];
	int r = 0;

	if (scope->by == STAT_THREAD || (scope->by == STAT_PROCESS && pid == tid)) {
		thread_label(scope, pid, tid, label);
		r = add_row(t, label);
	}
	if (scope->by == STAT_THREAD || scope->by == STAT_PROCESS)
		target.row = (uint32_t)t->n_rows - 1;
	return r < 0 ? r : add_on_cpus(t, places, target, scope->by == STAT_CPU);
}

static int add_process(struct stat_targets *t, const struct stat_scope *scope,
		       const struct places *places, uint32_t pid)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n;
	int r = procfs_threads("", pid, &tids, &n);

	if (is_shortage(r))
		return fail_with("threads", r);
	/* Ascending: the thread that the process is named after is the first, but after exit of it. */
	if (r < 0 || !n || (scope->by == STAT_PROCESS && tids[0] != pid))
		return -ESRCH;
	for (size_t i = 0; i < n; i++) {
		r = add_thread(t, scope, places, pid, tids[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_processes(struct stat_targets *t, const struct stat_scope *scope,
			 const struct places *places, const uint32_t *pids, size_t n, bool named)
{
	for (size_t i = 0; i < n; i++) {
		int r = add_process(t, scope, places, pids[i]);

		if (r == -ESRCH && named)
			log_error("stat: -p %u: there is no process with this id", pids[i]);
		if (r < 0 && (r != -ESRCH || named))
			return r;
	}
	return 0;
}

static int add_threads(struct stat_targets *t, const struct stat_scope *scope,
		       const struct places *places)
{
	for (size_t i = 0; i < scope->n_tids; i++) {
		struct procfs_status status;
		int r = procfs_status("", scope->tids[i], &status);

		if (is_shortage(r))
			return fail_with("threads", r);
		if (r < 0) {
			log_error("stat: -t %u: there is no thread with this id", scope->tids[i]);
			return fail(-ESRCH);
		}
		r = add_thread(t, scope, places, status.pid, scope->tids[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The folder of a cgroup in the hierarchy that perf events belong to: version 2's, wherever that is mounted, or their own of
 * version 1. */
static int open_cgroup(const char *path)
{
	static const char *const mounts[] = {"/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/unified",
					     "/sys/fs/cgroup"};
	char folder[4200], file[4300];

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		int fd;

		(void)snprintf(file, sizeof(file), "%s/cgroup.procs", mounts[i]);
		fd = open(file, O_PATH | O_CLOEXEC);
		if (fd < 0 && is_shortage(-errno))
			return fail(-errno);
		if (fd < 0)
			continue;
		(void)fd_close(fd);
		(void)snprintf(folder, sizeof(folder), "%s/%s", mounts[i], path);
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (is_shortage(-errno))
			return fail(-errno);
	}
	return fail(-ENOENT);
}

static int add_cgroups(struct stat_targets *t, const struct stat_scope *scope,
		       const struct places *places)
{
	const char *at = scope->cgroups;

	for (;;) {
		size_t len = strcspn(at, ",");
		struct counters_target target = {.tid = -1};
		char path[4096];
		int r;

		(void)snprintf(path, sizeof(path), "%.*s", (int)min_u64(len, 4000), at);
		if (t->n_cgroups == ARRAY_SIZE(t->cgroup_fds)) {
			log_error("stat: at most %zu cgroups", t->n_cgroups);
			return fail(-EINVAL);
		}
		if (procfs_cgroup_has_dots(path)) {
			log_error("stat: -G %.256s: `.` and `..` may lead out of the root of the "
				  "cgroups; "
				  "hint: its path from the root as `systemd-cgls` shows it, / for "
				  "all",
				  path);
			return fail(-EINVAL);
		}
		target.cgroup_fd = open_cgroup(path);
		if (is_shortage(target.cgroup_fd))
			return fail_with("cgroups", target.cgroup_fd);
		if (target.cgroup_fd < 0) {
			log_error("stat: -G %.256s: there is no cgroup of this name "
				  "(`systemd-cgls` lists "
				  "the cgroups)",
				  path);
			return fail(-EINVAL);
		}
		t->cgroup_fds[t->n_cgroups++] = target.cgroup_fd;
		target.row = (uint32_t)t->n_rows;
		r = add_row(t, path);
		if (r >= 0)
			r = add_on_cpus(t, places, target, false);
		if (r < 0)
			return r;
		at += len;
		if (!*at)
			return 0;
		at++;
	}
}

/* -C, all CPUs for the machine, cgroups and rows of CPUs; else none. */
static int find_places(const struct stat_scope *scope, struct places *places)
{
	int r = 0;

	if (scope->cpus) {
		r = perf_parse_cpu_list(scope->cpus, &places->cpus, &places->n);
		if (r == -EINVAL)
			log_error("stat: --cpu takes a list like 0-3,8: '%.64s' is not one",
				  scope->cpus);
		return r < 0 && r != -EINVAL ? fail_with("CPUs", r) : r;
	}
	if (scope->by == STAT_CPU || scope->cgroups ||
	    (scope->all && (scope->by == STAT_TOTAL || scope->by == STAT_CPU)))
		r = perf_online_cpus(&places->cpus, &places->n);
	return r < 0 ? fail_with("CPUs", r) : 0;
}

static int add_all(struct stat_targets *t, const struct stat_scope *scope,
		   const struct places *places)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	size_t n;
	int r;

	if (scope->by == STAT_TOTAL || scope->by == STAT_CPU)
		return add_on_cpus(t, places, (struct counters_target){.tid = -1, .cgroup_fd = -1},
				   scope->by == STAT_CPU);
	r = procfs_pids("", &pids, &n);
	return r < 0 ? fail_with("/proc", r) : add_processes(t, scope, places, pids, n, false);
}

int stat_targets_init(struct stat_targets *t, const struct stat_scope *scope)
{
	struct places places = {.n = 0};
	char label[64];
	int r = find_places(scope, &places);

	*t = (struct stat_targets){.labelled = scope->by != STAT_TOTAL || scope->cgroups};
	if (r >= 0 && scope->by == STAT_CPU && !scope->cgroups)
		for (size_t i = 0; i < places.n && r >= 0; i++) {
			(void)snprintf(label, sizeof(label), "CPU%u", places.cpus[i]);
			r = add_row(t, label);
		}
	if (r >= 0 && scope->cgroups)
		r = add_cgroups(t, scope, &places);
	else if (r >= 0 && scope->all)
		r = add_all(t, scope, &places);
	if (r >= 0)
		r = add_processes(t, scope, &places, scope->pids, scope->n_pids, true);
	if (r >= 0)
		r = add_threads(t, scope, &places);
	if (r >= 0 && scope->child)
		r = add_thread(t, scope, &places, scope->child, scope->child);
	if (r >= 0 && !t->labelled)
		r = add_row(t, "");
	free(places.cpus);
	return r < 0 ? trace(r) : 0;
}

void stat_targets_deinit(struct stat_targets *t)
{
	for (size_t i = 0; i < t->n_cgroups; i++)
		(void)fd_close(t->cgroup_fds[i]);
	free(t->list);
	free(t->labels);
	*t = (struct stat_targets){.n = 0};
}
