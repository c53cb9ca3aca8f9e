/* child.c - see child.h.
 *
 * The child of a process with threads: it has the one thread that forked, and of the locks of the
 * libraries only the allocator's are put right by fork().  All signals are blocked, as a terminal's
 * Ctrl-C reaches it too, and what was asked before is still to be answered; but SIGSYS, which nobody
 * sends: blocked, a system call that is refused and told (rights.h) would end the process.
 *
 * One that sleeps in the kernel for good stays a child of ours after SIGKILL: hence the list. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/caps.h"
#include "daemon/base/child.h"
#include "daemon/base/error.h"

enum { LEFT_MAX = 256, STDIO = 3 };

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

/* Nothing of ours stays open in it: an output file, a pipe whose reader waits for its end, the
 * events of a recording. */
static void keep_only(const int keep[static CHILD_KEPT])
{
	int low = keep[0] < keep[1] ? keep[0] : keep[1],
	    high = keep[0] < keep[1] ? keep[1] : keep[0];
	unsigned first = STDIO;

	for (int i = 0; i < STDIO; i++) {
		if (i == low || i == high)
			continue;
		(void)close(i);
		(void)open("/dev/null", O_RDWR); /* NOLINT: 0, 1 or 2, and not to be closed */
	}
	for (int i = 0; i < CHILD_KEPT; i++) {
		int fd = i ? high : low;

		if (fd > (int)first)
			(void)syscall(SYS_close_range, first, (unsigned)fd - 1, 0u);
		if (fd >= (int)first)
			first = (unsigned)fd + 1;
	}
	(void)syscall(SYS_close_range, first, ~0u, 0u);
}

static void __attribute__((noreturn)) child_run(const struct child *c, pid_t parent)
{
	/* Somebody may have held it when we were forked, and the children are not ours. */
	left_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	n_left = 0;
	log_level = LOG_LEVEL_QUIET;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_NAME, c->name);
	if (caps_keep_lent(c->rights) < 0)
		_exit(1);
	/* The road's priority is not for this. */
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	keep_only(c->keep);
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
