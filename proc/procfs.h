/* procfs.h - reading /proc.  Thread: loader (and main before a session starts).
 * @root is "" on a machine, a directory holding a fake proc/ in tests. */
#pragma once

#include <sys/stat.h>

#include "symbols/modules.h"

enum { PROCFS_PATH_MAX = 4096 + 128 };
/* "ROOT/proc/PID/NAME".  -ENAMETOOLONG. */
int procfs_path(char path[static PROCFS_PATH_MAX], const char *root, uint32_t pid,
		const char *name);

/* All threads of @pid, ascending.  Returns new memory.  -ESRCH: gone. */
int procfs_threads(const char *root, uint32_t pid, uint32_t **ret_tids, size_t *ret_n);
/* All pids.  Returns new memory. */
int procfs_pids(const char *root, uint32_t **ret_pids, size_t *ret_n);
/* The same a few at a time, in any order: of tens of thousands no caller waits for all.  Returns new. */
struct procfs_pids;
int procfs_pids_open(const char *root, struct procfs_pids **ret_pids);
/* Up to @room more; 0: these were all. */
size_t procfs_pids_next(struct procfs_pids *pids, uint32_t *ret_pids, size_t room);
/* The threads of @pid in the same way.  Returns new.  -ESRCH: gone. */
int procfs_threads_open(const char *root, uint32_t pid, struct procfs_pids **ret_tids);
struct procfs_pids *procfs_pids_free(struct procfs_pids *pids);
/* The pids of @of that exist and all their descendants, each once, ascending; where @most (0: any
 * number) are exceeded, some, but more than @most.  Returns new memory. */
int procfs_families(const char *root, const uint32_t *of, size_t n_of, size_t most,
		    uint32_t **ret_pids, size_t *ret_n);
int procfs_parent(const char *root, uint32_t pid, uint32_t *ret_ppid);

#define PROCFS_NO_OWNER UINT32_MAX /* not known, or several */
struct procfs_status {
	uint32_t pid, ppid,
		ns_pid; /* ns_pid: the last of NSpid, the pid as the process sees itself */
	uint32_t uid;
	uint32_t owner; /* the same where all four user ids are it, else PROCFS_NO_OWNER */
	char comm[16];
	bool kernel_thread, zombie;
	uint32_t n_threads;   /* 0 when all have ended */
	uint64_t start_ticks; /* field 22 of stat */
	uint64_t utime_ticks, stime_ticks;
};
int procfs_status(const char *root, uint32_t pid, struct procfs_status *ret_status);
/* The number of the thread as it sees itself: the last of NSpid.  -ESRCH: gone. */
int procfs_thread_ns_tid(const char *root, uint32_t pid, uint32_t tid, uint32_t *ret_tid);
int procfs_thread_comm(const char *root, uint32_t pid, uint32_t tid, char ret_comm[16]);
/* /proc/PID/cmdline, at most 4096 bytes; NUL-separated.  Returns new memory. */
int procfs_cmdline(const char *root, uint32_t pid, char **ret_text, size_t *ret_len);
/* The path of its cgroup, from the root of our own cgroup namespace.  Version 2's; where it is at that
 * root or there is none, version 1's (cgroup.c).  Returns new memory.  -ENODATA: the kernel has none. */
int procfs_cgroup(const char *root, uint32_t pid, char **ret_path);
/* The same of the file's text. */
/* Is @path the cgroup @wanted or below it?  A slash at the begin or end of @wanted has no effect. */
bool procfs_cgroup_below(const char *path, const char *wanted);
/* Has it a component "." or "..", so that as a folder it may lie outside of the root?  In /proc/PID/cgroup "/../x" is a cgroup outside
 * of our cgroup namespace. */
bool procfs_cgroup_has_dots(const char *path);
int procfs_cgroup_parse(const char *text, char **ret_path);
/* The same in place, not NUL-terminated. */
int procfs_cgroup_find(const char *text, const char **ret_path, size_t *ret_len);
/* The text of /proc/PID/maps, at most 64 MiB.  Returns new memory. */
int procfs_maps(const char *root, uint32_t pid, char **ret_text, size_t *ret_len);
/* The same of an open descriptor.  -ESRCH: it reads empty, as its address space is gone. */
int procfs_maps_of_fd(int fd, char **ret_text, size_t *ret_len);

/* One line of maps. */
struct procfs_map {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
	bool exec, read, write, shared;
	const char *path; /* not NUL-terminated: path_len */
	size_t path_len;
};
/* Parses the line at *p (up to @end), moves past it.  0; PROCFS_MAPS_END; -EBADMSG (the line is
 * skipped). */
enum { PROCFS_MAPS_END = 1 };
int procfs_maps_next(const char **p, const char *end, struct procfs_map *ret_map);

#define PROCFS_QUERY 0xc0686611u /* PROCMAP_QUERY: _IOWR('f', 17, 104 bytes) */
/* The mapping at @address by PROCMAP_QUERY (6.11) on an open maps fd, with its build id (len 0:
 * none) and its path copied into @path.  -ENOTTY where the ioctl is not there, -ENOENT where
 * nothing is mapped, -ESRCH when the address space is gone, -ENAMETOOLONG when the path does not
 * fit. */
int procfs_query(int maps_fd, uint64_t address, struct procfs_map *ret_map,
		 struct uw_build_id *ret_id, char *path, size_t path_size);
/* CPU time used on @cpus (NULL: all) from /proc/stat, in ns: all but idle, iowait and steal. */
int procfs_busy_ns(const char *root, const uint32_t *cpus, size_t n_cpus, uint64_t *ret_busy_ns);
