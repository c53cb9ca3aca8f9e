/* child.c - see child.h.
 *
 * The child of a process with threads: it has the one thread that forked, and of the locks of the
 * libraries only the allocator's are put right by fork().  All signals are blocked, because a
 * terminal's Ctrl-C reaches it too, and requests must still be answered. Except SIGSYS, which no
 * process sends: if it were blocked, a denied system call that is reported (rights.h) would end the
 * process.
 *
 * A process that sleeps in the kernel permanently stays our child after SIGKILL: hence the list. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/child.h"
#include "base/error.h"

enum { LEFT_MAX = 256, STDIO = 3 };
#define EXPENDABLE "1000" /* the most: less weighs less than the memory of a large parent */

/* linux/landlock.h of 6.12; rights that an older kernel does not know are left out by its version.
 */
struct landlock_ruleset {
	uint64_t fs, net, scoped;
};
enum {
	LANDLOCK_CREATE_RULESET = 444,
	LANDLOCK_RESTRICT_SELF = 446,
	LANDLOCK_VERSION = 1, /* a flag: return the version */
};

static struct sock_fprog filters[CHILD_CALLS_N], quiet_filters[CHILD_CALLS_N];
static bool has_landlock, are_expendable;
static int *error_fd; /* of child_error() */

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pid_t pid;
	const char *name;
} left[LEFT_MAX]; /* children are the process's, not a session's: hence here */
static size_t n_left;

static void reap_left(void)
{
	for (size_t i = 0; i < n_left;) {
		if (waitpid(left[i].pid, NULL, WNOHANG) == 0)
			i++;
		else
			left[i] = left[--n_left];
	}
}

size_t child_left(const char *name)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&left_lock);
	reap_left();
	for (size_t i = 0; i < n_left; i++)
		n += !strcmp(left[i].name, name);
	(void)pthread_mutex_unlock(&left_lock);
	return n;
}

/* None of our descriptors stays open in it: an output file, a pipe where a reader waits for the end,
 * the events of a recording. */
static void keep_only(const int keep[static CHILD_KEPT])
{
	int low = keep[0] < keep[1] ? keep[0] : keep[1],
	    high = keep[0] < keep[1] ? keep[1] : keep[0];
	unsigned first = STDIO;

	for (int i = 0; i < STDIO; i++) {
		if (i == low || i == high)
			continue;
		(void)close(i);
		(void)open("/dev/null", O_RDONLY); /* NOLINT: 0, 1 or 2, and not to be closed */
	}
	if (error_fd && *error_fd >= 0 && low != STDERR_FILENO && high != STDERR_FILENO)
		*error_fd = dup2(*error_fd, STDERR_FILENO);
	for (int i = 0; i < CHILD_KEPT; i++) {
		int fd = i ? high : low;

		if (fd > (int)first)
			(void)syscall(SYS_close_range, first, (unsigned)fd - 1, 0u);
		if (fd >= (int)first)
			first = (unsigned)fd + 1;
	}
	(void)syscall(SYS_close_range, first, ~0u, 0u);
}

/* ---- dropping privileges ---- */

void child_filter(enum child_calls calls, const struct sock_fprog *program,
		  const struct sock_fprog *quiet)
{
	free(filters[calls].filter);
	free(quiet_filters[calls].filter);
	filters[calls] = *program;
	quiet_filters[calls] = *quiet;
}

void child_error(int *fd)
{
	error_fd = fd;
}

void child_landlock(bool has)
{
	has_landlock = has;
}

void child_expendable(bool on)
{
	are_expendable = on;
}

/* All rights that can be restricted, and no rule that permits any. */
static int leave_files(void)
{
	/* Added by version: file rights, ports, abstract sockets and signals. */
	static const uint64_t files[] = {0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff};
	long version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
	size_t known = version < 1 ? 0 : min_u64((uint64_t)version, ARRAY_SIZE(files) - 1);
	const struct landlock_ruleset all = {
		.fs = files[known],
		.net = known >= 4 ? 3 : 0,
		.scoped = known >= 6 ? 3 : 0,
	};
	size_t size = known >= 6 ? 24 : known >= 4 ? 16 : 8;
	int fd, r;

	if (!known)
		return fail(-EOPNOTSUPP);
	fd = (int)syscall(LANDLOCK_CREATE_RULESET, &all, size, 0);
	if (fd < 0)
		return fail(-errno);
	r = syscall(LANDLOCK_RESTRICT_SELF, fd, 0) < 0 ? -errno : 0;
	fd_close(fd);
	return r < 0 ? fail(r) : 0;
}

/* A user namespace may not have that user: then the child stays root, without capabilities. */
static void become_other(void)
{
	const uint64_t needed = CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_KILL);
	struct caps caps;

	/* CAP_KILL is for the parent, which ends it. */
	if (geteuid() != 0 || caps_get(&caps) < 0 || (caps.permitted & needed) != needed)
		return;
	caps.effective = caps.permitted;
	(void)caps_set(&caps);
	/* These act on the thread alone; the libc's functions act on all threads. */
	(void)syscall(SYS_setgroups, 0, NULL);
	(void)syscall(SYS_setresgid, CHILD_USER, CHILD_USER, CHILD_USER);
	(void)syscall(SYS_setresuid, CHILD_USER, CHILD_USER, CHILD_USER);
}

static void be_expendable(void)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)write_all(fd, EXPENDABLE, strlen(EXPENDABLE));
}

static int load(const struct sock_fprog *filter, unsigned flags)
{
	return filter->len && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				      flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW, filter) < 0
		       ? fail(-errno)
		       : 0;
}

static int give_up(const struct child *c)
{
	int r = 0;

	keep_only(c->keep);
	if (c->calls == CHILD_CALLS_GIVEN && has_landlock)
		r = leave_files();
	if (r >= 0)
		r = load(&quiet_filters[c->calls], 0);
	return r < 0 ? r : load(&filters[c->calls], SECCOMP_FILTER_FLAG_LOG);
}

/* ---- start and end ---- */

static void __attribute__((noreturn)) child_run(const struct child *c, pid_t parent)
{
	/* Another thread may have held it at the fork, and its children are not ours. */
	left_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	n_left = 0;
	log_level = LOG_LEVEL_QUIET;
	if (are_expendable && !c->needed)
		be_expendable();
	if (c->other_user)
		become_other();
	/* After a change of user, which the kernel forgets it with. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_NAME, c->name);
	if (caps_keep_as_helper(c->rights) < 0)
		_exit(1);
	/* The priority of the pipeline is not for helper processes. */
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	if (give_up(c) < 0)
		_exit(1);
	c->run(c->arg);
	_exit(0);
}

int child_start(const struct child *child, pid_t *ret_pid)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;
	int e;

	(void)pthread_mutex_lock(&left_lock);
	reap_left();
	(void)pthread_mutex_unlock(&left_lock);
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGSYS);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	e = errno;
	if (pid == 0)
		child_run(child, parent);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return fail(-e);
	*ret_pid = pid;
	return 0;
}

void child_end(pid_t pid, const char *name, int wait_ms)
{
	/* It is not reaped yet, so the number is still its own. */
	_cleanup_(fd_closep) int pidfd = wait_ms ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};

	(void)kill(pid, SIGKILL);
	if (pidfd >= 0 && waitpid(pid, NULL, WNOHANG) == 0)
		(void)poll(&pfd, 1, wait_ms);
	(void)pthread_mutex_lock(&left_lock);
	if (waitpid(pid, NULL, WNOHANG) == 0 && n_left < LEFT_MAX) {
		left[n_left].pid = pid;
		left[n_left++].name = name;
	}
	reap_left();
	(void)pthread_mutex_unlock(&left_lock);
}

bool child_runnable(pid_t pid)
{
	char path[64];
	_cleanup_(freep) char *text = NULL;
	const char *state;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_file(path, 4096, &text, NULL) < 0)
		return false;
	state = strrchr(text, ')'); /* "PID (NAME) STATE ..." */
	return state && state[1] == ' ' && state[2] == 'R';
}
