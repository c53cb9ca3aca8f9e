/* hook-during.c - programs that a hook is loaded into, where something else happens in the middle of
 * an answer: fork() and clone() in another thread, a handler that leaves by longjmp(), the end of a
 * child of vfork(). */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "hook-program.h"

enum { LEFT_FILES = 1, LEFT_DUMPABLE = 2, HIGHEST = 16 };

static int files;
static bool hidden, raw;
static atomic_bool over;
static atomic_int forks;

/* A descriptor more than there were, or what was not dumpable is. */
static bool answering(void)
{
	if (hidden && prctl(PR_GET_DUMPABLE) == 1)
		return true;
	for (int fd = 3, n = 3; fd < HIGHEST; fd++) {
		n += fcntl(fd, F_GETFD) >= 0;
		if (n > files)
			return true;
	}
	return false;
}

static void child(void)
{
	struct sigaction old;

	/* The first that the hook knows of a child that the libc did not make. */
	if (raw)
		sigaction(SIGURG, NULL, &old);
	_exit((count_files() != files ? LEFT_FILES : 0) |
	      (hidden && prctl(PR_GET_DUMPABLE) == 1 ? LEFT_DUMPABLE : 0));
}

static void *fork_meanwhile(void *arg)
{
	while (!atomic_load(&over)) {
		pid_t pid;

		if (!answering())
			continue;
		pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
		if (!pid)
			child();
		await_child(pid, 0,
			    "a child has the answer's descriptors (256) or is dumpable (512)");
		if (atomic_fetch_add(&forks, 1) == 0)
			check(write(1, "f", 1) == 1, "nobody listens"); /* it has happened */
	}
	return arg;
}

static void mode_fork(int number)
{
	pthread_t thread;
	sigset_t urgent;

	hidden = number;
	if (hidden)
		prctl(PR_SET_DUMPABLE, 0);
	files = count_files();
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	sigprocmask(SIG_BLOCK, &urgent, NULL);
	check(pthread_create(&thread, NULL, fork_meanwhile, NULL) == 0, "no thread");
	sigprocmask(SIG_UNBLOCK, &urgent, NULL);
	await_end();
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	check(atomic_load(&forks) > 0, "nothing happened during an answer");
	check(count_files() == files, "a descriptor was left behind");
}

static void mode_clone(int number)
{
	raw = true;
	mode_fork(number);
}

static sigjmp_buf back;

static void leave(int signal)
{
	(void)signal;
	own_calls++;
	siglongjmp(back, 1);
}

static void mode_longjmp(int number)
{
	struct itimerval often = {.it_interval.tv_usec = 700, .it_value.tv_usec = 700}, never = {0};
	char c;

	(void)number;
	files = count_files();
	signal(SIGALRM, leave);
	puts("ready");
	fflush(stdout);
	if (!sigsetjmp(back, 1))
		setitimer(ITIMER_REAL, &often, NULL);
	while (read(0, &c, 1) < 0)
		;
	setitimer(ITIMER_REAL, &never, NULL);
	check(own_calls > 10, "the alarm did not ring");
	check(count_files() == files, "a descriptor was left behind");
}

/* Its child is killed while it answers. */
static void mode_vfork(int number)
{
	pid_t pid = vfork();
	char line[32];

	(void)number;
	if (!pid) {
		int n = snprintf(line, sizeof(line), "child %d\nready\n", (int)getpid());

		if (write(1, line, (size_t)n) == n)
			for (;;)
				pause();
		_exit(1);
	}
	await_child(pid, SIGKILL, "the child was not killed");
	while (read(0, line, 1) < 0 && errno == EINTR)
		;
}

static const struct mode modes[] = {
	{"fork", mode_fork},
	{"clone", mode_clone},
	{"longjmp", mode_longjmp},
	{"vfork", mode_vfork},
};

int main(int argc, char **argv)
{
	return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
