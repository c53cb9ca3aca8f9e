/* hook-target.c - programs that a hook is loaded into, and what they do with its signal. */
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hook-program.h"

static void own_action(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_signo == signal)
		own_calls++;
}

static void mode_idle(int number)
{
	int before = count_files();

	(void)number;
	await_end();
	check(count_files() == before, "a descriptor was left behind");
}

/* Interrupted calls are started again, and errno stays. */
static void mode_errno(int number)
{
	char c;

	(void)number;
	errno = ERANGE;
	puts("ready");
	fflush(stdout);
	errno = ERANGE;
	check(read(0, &c, 1) >= 0, "a read was interrupted");
	check(errno == ERANGE, "errno was changed");
}

static void mode_sigaction(int number)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO}, old;

	(void)number;
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

static void mode_signal(int number)
{
	(void)number;
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
static void mode_main_gone(int number)
{
	pthread_t thread;

	(void)number;
	check(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
	pthread_exit(NULL);
}

static void mode_fork(int number)
{
	pid_t child = fork();
	int status;

	(void)number;
	if (!child) {
		printf("child %d\n", (int)getpid());
		await_end();
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0, "the child ended badly");
}

/* A child that shares our memory sets its own action: ours must stay. */
static void mode_vfork(int number)
{
	struct sigaction old;
	pid_t child;
	int status;

	(void)number;
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

static void mode_nondumpable(int number)
{
	(void)number;
	prctl(PR_SET_DUMPABLE, 0);
	await_end();
	check(prctl(PR_GET_DUMPABLE) == 0, "it was left dumpable");
}

static void mode_closed(int number)
{
	close(2);
	mode_idle(number);
}

/* The same in a child of fork() that has set nothing itself yet. */
static void mode_fork_vfork(int number)
{
	struct sigaction old;
	pid_t child;

	(void)number;
	check(signal(SIGURG, own_handler) == SIG_DFL, "not the default");
	child = fork();
	if (!child) {
		child = vfork();
		if (!child) {
			signal(SIGURG, SIG_DFL);
			_exit(0);
		}
		await_child(child, 0, "the grandchild ended badly");
		raise(SIGURG);
		check(own_calls == 1, "the child's own handler was not called");
		check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == own_handler,
		      "the child's was changed");
		exit(0);
	}
	await_child(child, 0, "the child ended badly");
	await_end();
}

/* signal() as it is with -std=c11, where there is one. */
static void set_once(void)
{
#ifdef __GLIBC__
	check(__sysv_signal(SIGURG, own_handler) == SIG_DFL, "not the default");
#else
	struct sigaction action = {.sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	action.sa_handler = own_handler;
	check(sigaction(SIGURG, &action, NULL) == 0, "set");
#endif
}

/* A handler that is called once: for a signal of its own, however many others come. */
static void mode_once(int number)
{
	struct sigaction old;

	(void)number;
	set_once();
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == own_handler &&
		      (unsigned)old.sa_flags & SA_RESETHAND && !(old.sa_flags & SA_RESTART),
	      "it is not set once");
	raise(SIGURG);
	check(own_calls == 1, "its own handler was not called");
	raise(SIGURG);
	check(own_calls == 1, "its own handler was called twice");
	set_once();
	await_end();
	check(own_calls == 1, "its own handler was called for the daemon's request");
	raise(SIGURG);
	check(own_calls == 2, "its own handler is gone");
	check(sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "reset");
}

/* What would be ignored by now interrupts nothing. */
static void mode_spent(int number)
{
	char c;

	(void)number;
	set_once();
	raise(SIGURG);
	puts("ready");
	fflush(stdout);
	check(read(0, &c, 1) >= 0, "a read was interrupted");
	check(own_calls == 1, "its own handler was called again");
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* The other ways to set a handler, as they are in the libc for any other signal. */
static void mode_held(int number)
{
	sighandler_t (*const setters[])(int, sighandler_t) = {
		signal,
#ifdef __GLIBC__
		ssignal,
#endif
		sigset,
	};
	struct sigaction urgent, other;

	(void)number;
	for (size_t i = 0; i < 2 * sizeof(setters) / sizeof(setters[0]); i++) {
		check(siginterrupt(SIGURG, i & 1) == 0 && siginterrupt(SIGUSR2, i & 1) == 0,
		      "siginterrupt");
		check(setters[i / 2](SIGURG, own_handler) == setters[i / 2](SIGUSR2, own_handler),
		      "another one was set before");
		check(sigaction(SIGURG, NULL, &urgent) == 0 &&
			      sigaction(SIGUSR2, NULL, &other) == 0 &&
			      urgent.sa_handler == own_handler &&
			      (urgent.sa_flags & SA_RESTART) == (other.sa_flags & SA_RESTART),
		      "it is not set as another one is");
	}
	check(sigset(SIGURG, SIG_HOLD) == own_handler && sigset(SIGURG, SIG_HOLD) == SIG_HOLD &&
		      sigset(SIGURG, own_handler) == SIG_HOLD &&
		      sigset(SIGURG, own_handler) == own_handler,
	      "held and let go");
	own_calls = 0;
	await_end();
	check(own_calls == 0, "its own handler was called for the daemon's request");
	raise(SIGURG);
	check(own_calls == 1, "its own handler was not called");
	check(sigignore(SIGURG) == 0 && signal(SIGURG, SIG_DFL) == SIG_IGN, "not ignored");
}

static sigset_t seen_mask;

static void look_at_mask(int signal)
{
	own_calls += signal == SIGURG;
	sigprocmask(SIG_BLOCK, NULL, &seen_mask);
}

/* In its handler is blocked what the program wants to be. */
static void mode_mask(int number)
{
	struct sigaction action = {.sa_handler = look_at_mask};

	(void)number;
	sigaddset(&action.sa_mask, SIGUSR1);
	for (int nodefer = 0; nodefer < 2; nodefer++) {
		action.sa_flags = nodefer ? SA_NODEFER : 0;
		check(sigaction(SIGURG, &action, NULL) == 0, "set");
		raise(SIGURG);
		for (int s = 1; s < 32; s++)
			check(sigismember(&seen_mask, s) ==
				      (s == SIGUSR1 || (s == SIGURG && !nodefer)),
			      "another mask than it has asked for");
		sigprocmask(SIG_BLOCK, NULL, &seen_mask);
		check(!sigismember(&seen_mask, SIGUSR1), "the mask was not put back");
	}
	await_end();
	check(own_calls == 2, "its own handler was called for the daemon's request");
}

static char *stack_top;
static volatile size_t frame_size;

static void measure(int signal)
{
	(void)signal;
	frame_size = (size_t)(stack_top - (char *)__builtin_frame_address(0));
}

static char *seen_stack;

static void look_at_stack(int signal)
{
	own_calls += signal == SIGURG;
	seen_stack = __builtin_frame_address(0);
}

static void put_stack(char *memory, size_t size)
{
	stack_t stack = {.ss_sp = memory, .ss_size = size};

	check(sigaltstack(&stack, NULL) == 0, "no stack");
	stack_top = memory + size;
}

/* A stack of its own for signals that leaves a handler too little for an answer: 600 bytes, or what
 * the kernel's smallest stack leaves.  What is below stays as it is. */
static void mode_stack(int number)
{
	enum { BELOW = 65536, LARGE = 65536, LEFT = 600, SMALLEST = 2048 };
	struct sigaction action = {.sa_handler = measure, .sa_flags = SA_ONSTACK};
	char *memory = malloc(BELOW + LARGE);
	size_t size;

	(void)number;
	check(memory != NULL, "no memory");
	put_stack(memory + BELOW, LARGE);
	check(sigaction(SIGUSR2, &action, NULL) == 0, "set");
	raise(SIGUSR2);
	size = frame_size + LEFT;
	put_stack(memory + BELOW, size > SMALLEST ? size : SMALLEST);
	/* Its own handler has the stack that it asked for: the thread's. */
	check(signal(SIGURG, look_at_stack) == SIG_DFL, "not the default");
	raise(SIGURG);
	check(own_calls == 1 && (seen_stack < memory || seen_stack >= memory + BELOW + LARGE),
	      "its own handler was called on another stack");
	signal(SIGURG, SIG_DFL);
	memset(memory, 0x5a, BELOW);
	await_end();
	for (size_t i = 0; i < BELOW; i++)
		check(memory[i] == 0x5a, "the stack was too small");
}

/* A handler set by a system call: the kernel's struct, with the restorer that is there. */
static void mode_raw(int number)
{
	unsigned long action[4];

	(void)number;
	check(syscall(SYS_rt_sigaction, SIGURG, NULL, action, 8) == 0, "read");
	action[0] = (unsigned long)own_handler;
	check(syscall(SYS_rt_sigaction, SIGURG, action, NULL, 8) == 0, "set");
	await_end();
	check(own_calls >= 1, "its own handler did not have the signal");
}

static const struct mode modes[] = {
	{"idle", mode_idle},
	{"errno", mode_errno},
	{"sigaction", mode_sigaction},
	{"signal", mode_signal},
	{"main-gone", mode_main_gone},
	{"fork", mode_fork},
	{"vfork", mode_vfork},
	{"fork-vfork", mode_fork_vfork},
	{"nondumpable", mode_nondumpable},
	{"closed", mode_closed},
	{"once", mode_once},
	{"spent", mode_spent},
	{"held", mode_held},
	{"mask", mode_mask},
	{"stack", mode_stack},
	{"raw", mode_raw},
};

int main(int argc, char **argv)
{
	return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
