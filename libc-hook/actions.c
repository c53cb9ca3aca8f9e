/* actions.c - see actions.h.
 *
 * The program's action is published by an index, so that a handler, which may interrupt
 * sigaction() itself, always sees a whole one.
 *
 * Why a mask and not a limit on the size of alternate stacks: no size is enough, since a handler may
 * have used up any part of its stack when the next signal comes.  A handler that was set by a raw
 * system call, or that unblocks HOOK_SIGNAL itself, is not covered; nor is glibc's handler for
 * setuid() in threads where the only alternate stack was set before the first thread was made.
 *
 * Why our handlers use alternate stacks at all: programs that run on stacks smaller than a frame
 * (fibers) rely on every handler having SA_ONSTACK.  An alternate stack belongs to a thread and
 * SA_ONSTACK to the process, so the first stack that is too small removes the handlers permanently:
 * HOOK_SIGNAL is then ignored without a frame, and SigCgt in /proc shows it.  Before a program has
 * set any alternate stack, our handlers have no SA_ONSTACK: one that was set by a raw system call
 * is not entered. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "libc-hook/actions.h"
#include "libc-hook/hook-proto.h"
#include "libc-hook/life.h"
#include "libc-hook/stack.h"
#include "libc-hook/syscalls.h"

/* A handler that is held up between two of its instructions while so many are set may see a later
 * one. */
enum { SLOTS = 32 };

/* The signals that the libcs keep for themselves: glibc two of these, musl three. */
enum { LIBC_FIRST = 32, LIBC_LAST = 34 };

static action_function *real_sigaction;

static struct watched {
	int signal;
	action_handler *ours; /* NULL: not begun */
	atomic_bool interrupts;
	/* A writer fills the next slot and then publishes it. */
	struct sigaction slots[SLOTS];
	atomic_uint current, reserved;
} watched[2];

/* The alternate stacks that the program has set; it only grows. */
static atomic_int stacks;
enum { STACKS_NONE, STACKS_USED, STACKS_TOO_SMALL };

/* Signals with a sa_mask in which HOOK_SIGNAL is ours, not the program's. */
static _Atomic uint64_t masked;

/* The kernel's own; the libc's is another one.  asm-generic/signal.h, asm/signal.h */
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static struct watched *find(int signal)
{
	return signal == HOOK_SIGNAL ? &watched[0] : signal == SIGSYS ? &watched[1] : NULL;
}

void action_init(action_function *real)
{
	real_sigaction = real;
}

bool action_begun(int signal)
{
	const struct watched *w = find(signal);

	return w && w->ours && atomic_load(&stacks) != STACKS_TOO_SMALL;
}

static bool handles(const struct sigaction *action)
{
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static uint64_t bit(int signal)
{
	return UINT64_C(1) << (signal - 1);
}

/* The kernel's words for a libc's set: the first 64 bits in every libc. */
static uint64_t word_of(const sigset_t *set)
{
	uint64_t word;

	memcpy(&word, set, sizeof(word));
	return word;
}

static void set_word(sigset_t *set, uint64_t word)
{
	memset(set, 0, sizeof(*set));
	memcpy(set, &word, sizeof(word));
}

/* Nothing interrupts an answer: a handler that leaves by longjmp(), or a thread that is cancelled,
 * would leave its descriptors behind.  Except signals of a fault of our own, or of a filter, which
 * kill if they are blocked.  The program's own mask is set before its handler is called. */
static uint64_t all_but_faults(void)
{
	return ~(bit(SIGSYS) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) |
		 bit(SIGTRAP) | bit(SIGABRT));
}

/* Our handler, with the flags that the program chose: SA_RESTART and SA_ONSTACK. */
static int install(const struct watched *w, const struct sigaction *program, int seen)
{
	struct sigaction ours = *program;
	unsigned flags = SA_RESTART | (seen == STACKS_USED ? SA_ONSTACK : 0);

	if (seen == STACKS_TOO_SMALL)
		return real_sigaction(w->signal, program, NULL);
	ours.sa_sigaction = w->ours;
	if (w->signal == HOOK_SIGNAL)
		set_word(&ours.sa_mask, all_but_faults());
	else if (handles(program))
		flags |= SA_NODEFER;
	else
		set_word(&ours.sa_mask, 0);
	if (handles(program))
		flags &= (unsigned)program->sa_flags;
	if (w->signal != HOOK_SIGNAL && flags & SA_ONSTACK)
		set_word(&ours.sa_mask, word_of(&ours.sa_mask) | bit(HOOK_SIGNAL));
	ours.sa_flags = (int)(SA_SIGINFO | flags);
	return real_sigaction(w->signal, &ours, NULL);
}

/* Sets the published action in the kernel. Of threads that do this at the same time, the last one
 * has seen the latest of both. */
static int refresh(const struct watched *w)
{
	unsigned current;
	int seen;

	do {
		current = atomic_load(&w->current);
		seen = atomic_load(&stacks);
		if (install(w, &w->slots[current % SLOTS], seen) < 0)
			return -1;
	} while (current != atomic_load(&w->current) || seen != atomic_load(&stacks));
	return 0;
}

int action_begin(int signal, action_handler *handler)
{
	struct watched *w = find(signal);

	if (atomic_load(&stacks) == STACKS_TOO_SMALL ||
	    real_sigaction(signal, NULL, &w->slots[0]) < 0)
		return -1;
	w->signal = signal;
	w->ours = handler;
	if (refresh(w) < 0) {
		w->ours = NULL;
		return -1;
	}
	return 0;
}

void action_end(int signal)
{
	struct watched *w = find(signal);

	w->ours = NULL;
	(void)real_sigaction(signal, &w->slots[atomic_load(&w->current) % SLOTS], NULL);
}

int action_set(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct watched *w = find(signal);
	struct sigaction before = w->slots[atomic_load(&w->current) % SLOTS], wanted;
	int r;

	/* A child of vfork() has our memory, but signal actions of its own. */
	if (life_is_borrowed()) {
		r = real_sigaction(signal, action, old);
		if (r == 0 && old && old->sa_sigaction == w->ours)
			*old = before;
		return r;
	}
	if (action) {
		unsigned next = atomic_fetch_add(&w->reserved, 1) + 1;
		unsigned was = atomic_load(&w->current), now = next;

		wanted = *action; /* @old may be the same memory */
		/* A program that found our handler by a system call restores it. */
		if (wanted.sa_sigaction == w->ours)
			wanted = before;
		w->slots[next % SLOTS] = wanted;
		atomic_store(&w->current, next);
		if (refresh(w) < 0) {
			(void)atomic_compare_exchange_strong(&w->current, &now, was);
			return -1;
		}
	}
	if (old)
		*old = before;
	return 0;
}

int action_interrupts(int signal, bool interrupts)
{
	struct watched *w = find(signal);
	struct sigaction action;

	if (action_set(signal, NULL, &action) < 0)
		return -1;
	atomic_store(&w->interrupts, interrupts);
	if (interrupts)
		action.sa_flags &= ~SA_RESTART;
	else
		action.sa_flags |= SA_RESTART;
	return action_set(signal, &action, NULL);
}

bool action_has_interrupts(int signal)
{
	return atomic_load(&find(signal)->interrupts);
}

/* The program handles it no more, so that it is ours alone again. */
static void reclaim(const struct watched *w)
{
	struct kernel_sigaction now;

	if (sys4(SYS_rt_sigaction, w->signal, NULL, &now, sizeof(now.mask)) < 0 ||
	    now.handler != (void *)w->ours)
		return;
	now.flags |= SA_RESTART | (atomic_load(&stacks) == STACKS_USED ? SA_ONSTACK : 0);
	(void)sys4(SYS_rt_sigaction, w->signal, &now, NULL, sizeof(now.mask));
}

struct action_taken action_take(int signal)
{
	struct watched *w = find(signal);
	struct sigaction *slot = &w->slots[atomic_load(&w->current) % SLOTS];
	unsigned flags = (unsigned)slot->sa_flags;
	struct action_taken taken = {.mask = word_of(&slot->sa_mask)};
	sighandler_t handler = __atomic_load_n(&slot->sa_handler, __ATOMIC_SEQ_CST);

	if (!(flags & SA_NODEFER) || flags & SA_ONSTACK)
		taken.mask |= bit(signal);
	if (handler != SIG_DFL && handler != SIG_IGN && flags & SA_RESETHAND &&
	    !life_is_borrowed()) {
		handler = __atomic_exchange_n(&slot->sa_handler, SIG_DFL, __ATOMIC_SEQ_CST);
		reclaim(w);
	}
	taken.ignored = handler == SIG_IGN;
	/* With three arguments also without SA_SIGINFO, as the kernel does. */
	if (handler != SIG_DFL && handler != SIG_IGN)
		taken.handler = (action_handler *)(void *)handler;
	return taken;
}

/* ---- alternate stacks ---- */

static bool on_stack(unsigned long flags, const void *handler)
{
	return flags & SA_ONSTACK && handler != (const void *)SIG_DFL &&
	       handler != (const void *)SIG_IGN;
}

static bool lacks(const struct sigaction *action)
{
	return on_stack((unsigned)action->sa_flags, (const void *)action->sa_handler) &&
	       !(word_of(&action->sa_mask) & bit(HOOK_SIGNAL));
}

static void note_masked(int signal, bool ours)
{
	/* A child of vfork() has our memory, but signal actions of its own. */
	if (!(atomic_load(&masked) & bit(signal)) == !ours || life_is_borrowed())
		return;
	if (ours)
		(void)atomic_fetch_or(&masked, bit(signal));
	else
		(void)atomic_fetch_and(&masked, ~bit(signal));
}

int action_set_other(action_function *real, int signal, const struct sigaction *action,
		     struct sigaction *old)
{
	bool known = signal > 0 && signal <= 64;
	bool was_ours = known && atomic_load(&masked) & bit(signal);
	bool ours = known && action && lacks(action) && action_begun(HOOK_SIGNAL);
	struct sigaction wanted;
	int r;

	if (ours) {
		wanted = *action;
		set_word(&wanted.sa_mask, word_of(&wanted.sa_mask) | bit(HOOK_SIGNAL));
	}
	r = real(signal, ours ? &wanted : action, old);
	if (r < 0)
		return r;
	if (old && was_ours && on_stack((unsigned)old->sa_flags, (const void *)old->sa_handler))
		set_word(&old->sa_mask, word_of(&old->sa_mask) & ~bit(HOOK_SIGNAL));
	if (action && known)
		note_masked(signal, ours);
	return r;
}

/* Of the signals from @first to @last. */
static void mask_present(int first, int last)
{
	struct kernel_sigaction action;

	for (int signal = first; signal <= last; signal++) {
		if (find(signal) ||
		    sys4(SYS_rt_sigaction, signal, NULL, &action, sizeof(action.mask)) < 0 ||
		    !on_stack(action.flags, action.handler) || action.mask & bit(HOOK_SIGNAL))
			continue;
		action.mask |= bit(HOOK_SIGNAL);
		if (sys4(SYS_rt_sigaction, signal, &action, NULL, sizeof(action.mask)) == 0)
			note_masked(signal, true);
	}
}

void action_mask_earlier(void)
{
	mask_present(1, 64);
}

void action_stack(size_t size)
{
	int wanted =
		stack_takes_frame(size, getauxval(AT_MINSIGSTKSZ)) ? STACKS_USED : STACKS_TOO_SMALL;
	int now = atomic_load(&stacks);

	/* The libc sets its own handlers for threads without our functions. */
	if (action_begun(HOOK_SIGNAL))
		mask_present(LIBC_FIRST, LIBC_LAST);
	if (wanted <= now)
		return;
	if (life_is_borrowed()) { /* its parent's actions are not its own */
		for (size_t i = 0; i < 2 && wanted == STACKS_TOO_SMALL; i++)
			if (watched[i].ours)
				(void)install(&watched[i],
					      &watched[i].slots[watched[i].current % SLOTS],
					      wanted);
		return;
	}
	while (now < wanted && !atomic_compare_exchange_weak(&stacks, &now, wanted))
		;
	for (size_t i = 0; i < 2; i++)
		if (watched[i].ours)
			(void)refresh(&watched[i]);
}
