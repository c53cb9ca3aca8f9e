/* interpose.c - see interpose.h.
 *
 * The functions exported here replace the libc's functions of the same name.  Those are called for
 * every signal but the two that are watched (actions.h); for these the program sees its own
 * actions, set as that function of the libc sets them.  sighold(), sigrelse() and sigpause() only
 * change a mask.  A program that sets a handler by a system call of its own takes the signal away
 * from us: it never answers, and its handler gets the daemon's one request.  (So does sigvec(),
 * which glibc has for old programs only.) */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "libc-hook/interpose.h"

#define EXPORTED __attribute__((visibility("default")))

typedef sighandler_t setter(int, sighandler_t);

enum real {
	REAL_SIGACTION,
	REAL_SIGNAL,
	REAL_BSD_SIGNAL,
	REAL_SSIGNAL,
	REAL_SYSV_SIGNAL,
	REAL___SYSV_SIGNAL,
	REAL_SIGSET,
	REAL_SIGIGNORE,
	REAL_SIGINTERRUPT,
	REAL_SIGALTSTACK,
	REALS
};

static void *found[REALS];

/* The kernel refuses less, on every machine. */
enum { SMALLEST_STACK = 2048 };

static void *find(enum real which)
{
	static const char *const names[REALS] = {
		"sigaction",	 "signal", "bsd_signal", "ssignal",	 "sysv_signal",
		"__sysv_signal", "sigset", "sigignore",	 "siginterrupt", "sigaltstack",
	};

	if (!found[which])
		found[which] = dlsym(RTLD_NEXT, names[which]);
	if (!found[which])
		errno = ENOSYS;
	return found[which];
}

action_function *interpose_begin(void)
{
	void *front;

	for (enum real i = 0; i < REALS; i++)
		(void)find(i);
	front = dlsym(RTLD_DEFAULT, "sigaction");
	(void)dlerror(); /* a function that the libc lacks is not an error of the program */
	return front == found[REAL_SIGACTION] ? NULL : (action_function *)found[REAL_SIGACTION];
}

EXPORTED int sigaction(int signal, const struct sigaction *restrict action,
		       struct sigaction *restrict old)
{
	action_function *real = (action_function *)find(REAL_SIGACTION);

	if (action_begun(signal))
		return action_set(signal, action, old);
	return real ? action_set_other(real, signal, action, old) : -1;
}

EXPORTED int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
int __sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	return sigaction(signal, action, old);
}

static sighandler_t set(int signal, sighandler_t handler, unsigned flags)
{
	struct sigaction action = {.sa_flags = (int)flags}, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	action.sa_handler = handler;
	return action_set(signal, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* siginterrupt() changes the present action; with glibc also later ones of signal(). */
#pragma weak gnu_get_libc_version
const char *gnu_get_libc_version(void);

static bool restarts(int signal)
{
	return !gnu_get_libc_version || !action_has_interrupts(signal);
}

static sighandler_t set_bsd(enum real which, int signal, sighandler_t handler)
{
	setter *real;

	if (action_begun(signal))
		return set(signal, handler, restarts(signal) ? SA_RESTART : 0);
	real = (setter *)find(which);
	return real ? real(signal, handler) : SIG_ERR;
}

EXPORTED sighandler_t signal(int signal, sighandler_t handler)
{
	return set_bsd(REAL_SIGNAL, signal, handler);
}

EXPORTED sighandler_t bsd_signal(int signal, sighandler_t handler);
sighandler_t bsd_signal(int signal, sighandler_t handler)
{
	return set_bsd(REAL_BSD_SIGNAL, signal, handler);
}

EXPORTED sighandler_t ssignal(int signal, sighandler_t handler)
{
	return set_bsd(REAL_SSIGNAL, signal, handler);
}

/* signal() for programs of -std=c11: the handler runs once, and calls are interrupted. */
static sighandler_t set_sysv(enum real which, int signal, sighandler_t handler)
{
	setter *real;

	if (action_begun(signal))
		return set(signal, handler, SA_RESETHAND | SA_NODEFER);
	real = (setter *)find(which);
	return real ? real(signal, handler) : SIG_ERR;
}

EXPORTED sighandler_t sysv_signal(int signal, sighandler_t handler)
{
	return set_sysv(REAL_SYSV_SIGNAL, signal, handler);
}

EXPORTED sighandler_t __sysv_signal(int signal, sighandler_t handler)
{
	return set_sysv(REAL___SYSV_SIGNAL, signal, handler);
}

static sighandler_t set_held(int signal, sighandler_t handler)
{
	struct sigaction now;
	sigset_t one, was;
	bool hold = handler == SIG_HOLD;

	(void)sigemptyset(&one);
	(void)sigaddset(&one, signal);
	if (hold && action_set(signal, NULL, &now) < 0)
		return SIG_ERR;
	if (!hold) {
		now.sa_handler = set(signal, handler, 0);
		if (now.sa_handler == SIG_ERR)
			return SIG_ERR;
	}
	if (sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &one, &was) < 0)
		return SIG_ERR;
	return sigismember(&was, signal) ? SIG_HOLD : now.sa_handler;
}

EXPORTED sighandler_t sigset(int signal, sighandler_t handler)
{
	setter *real;

	if (action_begun(signal))
		return set_held(signal, handler);
	real = (setter *)find(REAL_SIGSET);
	return real ? real(signal, handler) : SIG_ERR;
}

EXPORTED int sigignore(int signal)
{
	int (*real)(int);

	if (action_begun(signal))
		return set(signal, SIG_IGN, 0) == SIG_ERR ? -1 : 0;
	real = (int (*)(int))find(REAL_SIGIGNORE);
	return real ? real(signal) : -1;
}

EXPORTED int siginterrupt(int signal, int interrupt)
{
	int (*real)(int, int);

	if (action_begun(signal))
		return action_interrupts(signal, interrupt != 0);
	real = (int (*)(int, int))find(REAL_SIGINTERRUPT);
	return real ? real(signal, interrupt) : -1;
}

/* Before it is there: from then on a signal may enter it. */
EXPORTED int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	int (*real)(const stack_t *, stack_t *) =
		(int (*)(const stack_t *, stack_t *))find(REAL_SIGALTSTACK);

	if (stack && !(stack->ss_flags & SS_DISABLE) && stack->ss_size >= SMALLEST_STACK)
		action_stack(stack->ss_size);
	return real ? real(stack, old) : -1;
}
