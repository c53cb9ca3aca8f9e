/* hook-filter.c - programs that a hook is loaded into, under a seccomp filter that traps (SIGSYS).
 *
 * A trap in an answer kills no process; a trap of their own does to them what it does without the hook.
 * openat() and getppid() are trapped, or what the number selects. */
#include <sys/syscall.h>

#include "hook-program.h"
#include "trap-calls.h"

static void trap(int nr)
{
	check(trap_calls(nr ? (unsigned)nr : SYS_openat, nr ? (unsigned)nr : SYS_getppid),
	      "no filter");
}

static void mode_trap(int nr)
{
	trap(nr);
	await_end();
	_exit(0);
}

/* The filter was there before the program. */
static void mode_exec(int nr)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", nr);
	trap(nr);
	execl("/proc/self/exe", "hook-filter", "end", number, (char *)NULL);
}

static void mode_end(int nr)
{
	(void)nr;
	await_end();
	_exit(0);
}

/* A process that blocks SIGSYS dies of a trap, with or without a handler. */
static void mode_blocked(int nr)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	mode_trap(nr);
}

static volatile sig_atomic_t trapped;

static void own_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	trapped = info->si_syscall;
	own_calls++;
}

static void child_dies(int trapping, sighandler_t handler)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		signal(SIGSYS, handler);
		if (trapping)
			syscall(SYS_getppid);
		else
			kill(getpid(), SIGSYS);
		_exit(0);
	}
	await_child(child, !trapping && handler == SIG_IGN ? 0 : SIGSYS,
		    trapping ? "a trap does not kill" : "SIGSYS does not what it did");
}

static void mode_own(int nr)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO}, old;

	trap(nr);
	check(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "not the default");
	child_dies(0, SIG_DFL);
	child_dies(0, SIG_IGN);
	child_dies(1, SIG_DFL);
	child_dies(1, SIG_IGN);
	action.sa_sigaction = own_trap;
	check(sigaction(SIGSYS, &action, NULL) == 0, "set");
	await_end();
	check(own_calls == 0, "its own handler was called for a trap in the answer");
	syscall(SYS_getppid);
	check(own_calls == 1 && trapped == SYS_getppid, "its own handler was not called");
	check(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_sigaction == own_trap,
	      "its handler is not seen");
	_exit(0);
}

static const struct mode modes[] = {
	{"trap", mode_trap}, {"blocked", mode_blocked}, {"own", mode_own},
	{"exec", mode_exec}, {"end", mode_end},
};

int main(int argc, char **argv)
{
	return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
