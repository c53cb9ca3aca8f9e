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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"

enum {
	LEFT_MAX = 256,
	RUNNING_MAX = 256,
	STDIO = 3,
	SPARE_MS = 200, /* for the pid of a spare that waits for a CPU */
};
#define SPARE_NAME "pw-spare"
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

static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static int spare_fd = -1; /* ◄── a spare's pid; an order and its descriptors ──► */
static size_t n_spare_users;

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pid_t pid;
	const char *name;
} left[LEFT_MAX]; /* children are the process's, not a session's: hence here */
static size_t n_left;
static pid_t running[RUNNING_MAX]; /* under the same lock */
static size_t n_running;
static uint64_t peak_kb;

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
		if (i == low || i == high || (error_fd && *error_fd == i))
			continue;
		(void)close(i);
		(void)open("/dev/null", O_RDONLY); /* NOLINT: 0, 1 or 2, and not to be closed */
	}
	if (error_fd && *error_fd >= 0 && *error_fd != STDERR_FILENO && low != STDERR_FILENO &&
	    high != STDERR_FILENO)
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

/* ---- memory ---- */

static uint64_t kb_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* A child maps files of the program only, and shares its window: both are in our memory too. */
static uint64_t own_kb(const char *text)
{
	uint64_t most = kb_after(text, "\nVmHWM:"),
		 shared = kb_after(text, "\nRssFile:") + kb_after(text, "\nRssShmem:");

	return most > shared ? most - shared : 0;
}

static uint64_t read_own_kb(pid_t pid)
{
	_cleanup_(freep) char *text = NULL;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return read_file(path, 8192, &text, NULL) < 0 ? 0 : own_kb(text);
}

/* The sum is a bound, as each has its most at a time of its own.  @ending is counted a last time; @ended_kb > 0: it has ended, and
 * this was its most. */
static void note_peak(pid_t ending, uint64_t ended_kb)
{
	uint64_t kb = ended_kb;

	for (size_t i = 0; i < n_running; i++) {
		bool ends = running[i] == ending;

		if (!ends || !ended_kb)
			kb += read_own_kb(running[i]);
		if (ends)
			running[i--] = running[--n_running];
	}
	peak_kb = max_u64(peak_kb, kb);
}

uint64_t child_peak_kb(void)
{
	uint64_t kb;

	(void)pthread_mutex_lock(&left_lock);
	note_peak(-1, 0);
	kb = peak_kb;
	(void)pthread_mutex_unlock(&left_lock);
	return kb;
}

/* ---- start and end ---- */

/* Another thread may have held the locks at the fork, and its children are not ours. */
static void begin_child(void)
{
	left_lock = spare_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	n_left = n_running = 0;
	spare_fd = -1;
	log_level = LOG_LEVEL_QUIET;
}

static void __attribute__((noreturn)) child_run(const struct child *c, pid_t parent)
{
	begin_child();
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
	/* Samples wait for what it reads.  A session of its own has its own share of the CPUs (sched(7), autogroup), however many
	 * programs run in the terminal's.  A real-time priority is for the pipeline alone. */
	(void)setsid();
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	if (give_up(c) < 0)
		_exit(1);
	c->run(c->arg);
	_exit(0);
}

static pid_t fork_blocked(void)
{
	sigset_t all, before;
	pid_t pid;
	int e;

	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGSYS);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	e = errno;
	if (pid != 0)
		(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -e : pid;
}

/* ---- the spare ---- */

struct order {
	struct child child; /* keep: >= 0 where a descriptor comes with it */
	int nice;
	bool expendable;
	_Alignas(8) uint8_t arg[CHILD_ARG_MAX];
};

static void __attribute__((noreturn))
become(struct order *order, const struct fd_message *m, pid_t parent)
{
	for (size_t i = 0, n = 0; i < CHILD_KEPT; i++)
		if (order->child.keep[i] >= 0)
			order->child.keep[i] = n < m->n ? m->fds[n++] : -1;
	memcpy(order->arg, order->child.keep, sizeof(order->child.keep));
	order->child.arg = order->arg;
	are_expendable = order->expendable;
	(void)setpriority(PRIO_PROCESS, 0, order->nice);
	child_run(&order->child, parent);
}

/* The process has one thread, so what follows clone() needs none of the libc's fork(). */
static void __attribute__((noreturn)) spare_run(int fd, pid_t parent)
{
	const int keep[CHILD_KEPT] = {fd, -1};
	struct order order;
	struct fd_message m;

	begin_child();
	keep_only(keep);
	(void)prctl(PR_SET_NAME, SPARE_NAME);
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	(void)caps_lay_aside(CAPS_BIT(CAP_KILL));
	for (;;) {
		pid_t pid = (pid_t)syscall(SYS_getpid);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || fd_message_send(fd, &pid, sizeof(pid), NULL, 0, 0) < 0)
			_exit(0);
		if (fd_message_receive(fd, &order, sizeof(order), CHILD_KEPT, 0, &m) !=
		    sizeof(order))
			_exit(0);
		if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) != 0)
			become(&order, &m, parent); /* also without a next one */
		fd_message_close(&m);
	}
}

void child_spare(void)
{
	pid_t parent = getpid(), pid = -1;
	int pair[2];

	(void)pthread_mutex_lock(&spare_lock);
	n_spare_users++;
	if (spare_fd < 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		pid = fork_blocked();
		if (pid == 0)
			spare_run(pair[1], parent);
		(void)fd_close(pair[1]);
		if (pid > 0)
			spare_fd = pair[0];
		else
			(void)fd_close(pair[0]);
	}
	(void)pthread_mutex_unlock(&spare_lock);
}

/* The pid of the process that waits for an order; < 0: none. */
static pid_t spare_pid(void)
{
	struct pollfd p = {.fd = spare_fd, .events = POLLIN};
	pid_t pid;

	if (poll(&p, 1, SPARE_MS) <= 0)
		return -EAGAIN;
	if (recv(spare_fd, &pid, sizeof(pid), MSG_DONTWAIT) == sizeof(pid))
		return pid;
	spare_fd = fd_close(spare_fd);
	return -EPIPE;
}

void child_spare_end(void)
{
	pid_t pid = -1;

	(void)pthread_mutex_lock(&spare_lock);
	if (--n_spare_users == 0 && spare_fd >= 0) {
		pid = spare_pid();
		spare_fd = fd_close(spare_fd);
	}
	(void)pthread_mutex_unlock(&spare_lock);
	if (pid > 0)
		child_end(pid, SPARE_NAME, SPARE_MS);
}

static int use_spare(const struct child *child, pid_t *ret_pid)
{
	struct order order = {.child = *child, .expendable = are_expendable};
	int fds[CHILD_KEPT], r = -EAGAIN;
	size_t n = 0;

	if (child->arg_size > sizeof(order.arg))
		return fail(-E2BIG);
	memcpy(order.arg, child->arg, child->arg_size);
	order.nice = getpriority(PRIO_PROCESS, 0);
	for (int i = 0; i < CHILD_KEPT; i++)
		if (child->keep[i] >= 0)
			fds[n++] = child->keep[i];
	(void)pthread_mutex_lock(&spare_lock);
	if (spare_fd >= 0)
		r = spare_pid();
	if (r > 0) {
		*ret_pid = r;
		if (fd_message_send(spare_fd, &order, sizeof(order), fds, n, 0) < 0) {
			spare_fd = fd_close(spare_fd);
			child_end(r, SPARE_NAME, 0);
			r = -EPIPE;
		}
	}
	(void)pthread_mutex_unlock(&spare_lock);
	return r > 0 ? 0 : r;
}

int child_start(const struct child *child, pid_t *ret_pid)
{
	pid_t parent = getpid(), pid;

	(void)pthread_mutex_lock(&left_lock);
	reap_left();
	(void)pthread_mutex_unlock(&left_lock);
	if (!child->arg_size || use_spare(child, &pid) < 0)
		pid = fork_blocked();
	if (pid == 0)
		child_run(child, parent);
	if (pid < 0)
		return fail(pid);
	(void)pthread_mutex_lock(&left_lock);
	/* Others share our memory at the fork, and their makers wait for their ends. */
	if (child->calls != CHILD_CALLS_OURS && n_running < RUNNING_MAX)
		running[n_running++] = pid;
	(void)pthread_mutex_unlock(&left_lock);
	*ret_pid = pid;
	return 0;
}

void child_end(pid_t pid, const char *name, int wait_ms)
{
	struct rusage used = {0};
	/* If it has ended by itself, this is the end of its number. */
	bool ended = wait4(pid, NULL, WNOHANG, &used) == pid;
	_cleanup_(fd_closep) int pidfd =
		wait_ms && !ended ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};

	(void)pthread_mutex_lock(&left_lock);
	note_peak(pid, ended ? (uint64_t)used.ru_maxrss : 0);
	(void)pthread_mutex_unlock(&left_lock);
	if (ended)
		return;
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
