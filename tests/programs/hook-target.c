/* hook-target.c - programs that a hook is loaded into.  hook-target MODE; says "ready" on standard
 * output, then does what the mode says until it is told to end by a byte (or the end) of standard
 * input.  Ends with 0, or with a line on standard error and 1. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t own_calls;

static void own_handler(int signal)
{
	(void)signal;
	own_calls++;
}

static void own_action(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_signo == signal)
		own_calls++;
}

static void check(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "hook-target: %s\n", what);
	exit(1);
}

static int count_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Until standard input says so; a signal does not end it. */
static void await_end(void)
{
	char c;

	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
}

static void mode_idle(void)
{
	int before = count_files();

	await_end();
	check(count_files() == before, "a descriptor was left behind");
}

/* Interrupted calls are started again, and errno stays. */
static void mode_errno(void)
{
	char c;

	errno = ERANGE;
	puts("ready");
	fflush(stdout);
	errno = ERANGE;
	check(read(0, &c, 1) >= 0, "a read was interrupted");
	check(errno == ERANGE, "errno was changed");
}

static void mode_sigaction(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO}, old;

	action.sa_sigaction = own_action;
	sigaddset(&action.sa_mask, SIGUSR1);
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "not the default");
	check(sigaction(SIGURG, &action, &old) == 0 && old.sa_handler == SIG_DFL, "set");
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_sigaction == own_action &&
		      old.sa_flags == SA_SIGINFO && sigismember(&old.sa_mask, SIGUSR1),
	      "the program does not see its own action");
	raise(SIGURG);
	check(own_calls == 1, "its own handler was not called");
	await_end();
	check(own_calls == 1, "its own handler was called for the daemon's request");
	action = (struct sigaction){.sa_flags = (int)SA_RESETHAND};
	action.sa_handler = own_handler;
	check(sigaction(SIGURG, &action, NULL) == 0, "set again");
	raise(SIGURG);
	raise(SIGURG);
	check(own_calls == 2, "SA_RESETHAND");
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "reset");
}

static void mode_signal(void)
{
	check(signal(SIGURG, own_handler) == SIG_DFL, "not the default");
	raise(SIGURG);
	check(own_calls == 1, "its own handler was not called");
	await_end();
	check(own_calls == 1, "its own handler was called for the daemon's request");
	check(signal(SIGURG, SIG_IGN) == own_handler, "the program does not see its own handler");
	raise(SIGURG);
	check(own_calls == 1, "called though ignored");
	check(signal(SIGUSR1, own_handler) == SIG_DFL, "another signal");
	raise(SIGUSR1);
	check(own_calls == 2, "another signal's handler");
}

static void *work(void *arg)
{
	await_end();
	(void)arg;
	_exit(0);
}

/* The main thread has gone: its own /proc files read empty. */
static void mode_main_gone(void)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
	pthread_exit(NULL);
}

static void mode_fork(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		printf("child %d\n", (int)getpid());
		await_end();
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0, "the child ended badly");
}

/* A child that shares our memory sets its own action: ours must stay. */
static void mode_vfork(void)
{
	struct sigaction old;
	pid_t child;
	int status;

	check(signal(SIGURG, own_handler) == SIG_DFL, "not the default");
	child = vfork();
	if (!child) {
		signal(SIGURG, SIG_DFL);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0, "the child ended badly");
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == own_handler,
	      "it was changed");
	await_end();
}

static void mode_nondumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	await_end();
	check(prctl(PR_GET_DUMPABLE) == 0, "it was left dumpable");
}

static void mode_closed(void)
{
	close(2);
	mode_idle();
}

/* SIGSYS for socket(): what cannot be sent is not sent, and nothing dies. */
static void mode_seccomp(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	struct sigaction old;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "no filter");
	mode_idle();
	check(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_handler == SIG_DFL,
	      "a handler of SIGSYS was left behind");
}

static const struct mode {
	const char *name;
	void (*run)(void);
} modes[] = {
	{"idle", mode_idle},	       {"errno", mode_errno},
	{"sigaction", mode_sigaction}, {"signal", mode_signal},
	{"main-gone", mode_main_gone}, {"fork", mode_fork},
	{"vfork", mode_vfork},	       {"nondumpable", mode_nondumpable},
	{"closed", mode_closed},       {"seccomp", mode_seccomp},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		return 0;
	}
	fprintf(stderr, "usage: hook-target MODE\n");
	return 2;
}
