/* actions.h - the program's own actions for the signals with handlers of ours in the kernel. The
 * program sees only its own actions.  Thread: any; action_take: signal.
 *
 * HOOK_SIGNAL, since a program may have its own use for it, and SIGSYS, since a seccomp filter may
 * answer a system call of ours with it.
 *
 * The kernel kills a process if its alternate stack has no room for a signal's frame, before any code
 * of ours runs.  So no request pushes a frame where there may be none:
 *
 *   a handler of the program runs there    HOOK_SIGNAL is in its sa_mask (action_set_other)
 *   none runs; the stack fits one frame    our handler may use it (action_stack)
 *   none runs; the stack is smaller        our handlers are taken off (action_stack) */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int action_function(int, const struct sigaction *, struct sigaction *);
typedef void action_handler(int, siginfo_t *, void *);

/* First of all: sets the libc's functions. */
void action_init(action_function *real);
/* From now on @handler is called for @signal, and the previous action is the program's. < 0:
 * unchanged. */
int action_begin(int signal, action_handler *handler);
/* The program's is set again, as nothing may follow. */
void action_end(int signal);
bool action_begun(int signal);

/* Handlers on an alternate stack that were set before ours. */
void action_mask_earlier(void);
/* sigaction(2) of any other signal, by @real. */
int action_set_other(action_function *real, int signal, const struct sigaction *action,
		     struct sigaction *old);
/* Before a thread sets an alternate stack of @size bytes. */
void action_stack(size_t size);

/* sigaction(2) and siginterrupt(3) as the program sees them, of a signal that has begun; < 0 with
 * errno. */
int action_set(int signal, const struct sigaction *action, struct sigaction *old);
int action_interrupts(int signal, bool interrupts);
/* The flags that siginterrupt() set for later calls of signal(). */
bool action_has_interrupts(int signal);

/* The action of the program for this signal, consumed as by the kernel: an action with SA_RESETHAND
 * once. */
struct action_taken {
	action_handler *handler; /* NULL: none */
	uint64_t mask;		 /* blocked meanwhile, besides what is already */
	bool ignored;
};
struct action_taken action_take(int signal);
