/* actions.h - what the program set for the signals whose handlers are ours in the kernel: its own
 * actions, of which it sees nothing but its own.  Thread: any; action_take: signal.
 *
 * HOOK_SIGNAL, since a program may have its own use for it, and SIGSYS, since a seccomp filter may
 * answer a system call of ours with it. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef int action_function(int, const struct sigaction *, struct sigaction *);
typedef void action_handler(int, siginfo_t *, void *);

/* Before all else: what the libc does. */
void action_init(action_function *real);
/* From now on @handler is called for @signal, and what was set is the program's.  < 0: as before. */
int action_begin(int signal, action_handler *handler);
/* The program's is set again, as nothing may follow. */
void action_end(int signal);
bool action_begun(int signal);

/* sigaction(2) and siginterrupt(3) as the program sees them, of a signal that has begun; < 0 with
 * errno. */
int action_set(int signal, const struct sigaction *action, struct sigaction *old);
int action_interrupts(int signal, bool interrupts);
/* What siginterrupt() asked of the signal()s to come. */
bool action_has_interrupts(int signal);

/* What the program wants to have called now.  It is told as the kernel would tell it: an action
 * with SA_RESETHAND once. */
struct action_taken {
	action_handler *handler; /* NULL: none */
	uint64_t mask;		 /* blocked meanwhile, besides what is already */
	bool ignored;
};
struct action_taken action_take(int signal);
