/* guard.h - SIGSYS: no system call of ours kills the program that a seccomp filter keeps from it.
 * Thread: signal. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* Set once, before the program runs, and never changed: a call that is trapped in an answer comes
 * back with -ENOSYS; every other SIGSYS has its effect as without us. */
void guard_handler(int signal, siginfo_t *info, void *context);
/* Would a trap be handled in the handler that has @context? The kernel kills a thread that blocks
 * it. */
bool guard_holds(const void *context);
