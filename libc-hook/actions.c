/* actions.c - see actions.h.
 *
 * The program's action is published by an index, so that a handler, which may interrupt
 * sigaction() itself, always sees a whole one. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "libc-hook/actions.h"
#include "libc-hook/hook_proto.h"
#include "libc-hook/life.h"
#include "libc-hook/syscalls.h"

/* A handler that is held up between two of its instructions while so many are set may see a later
 * one. */
enum { SLOTS = 32 };

static action_function *real_sigaction;

static struct watched {
	int signal;
	action_handler *ours; /* NULL: not begun */
	atomic_bool interrupts;
	/* A writer fills the next slot and then publishes it. */
	struct sigaction slots[SLOTS];
	atomic_uint current, reserved;
} watched[2];

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

	return w && w->ours;
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
 * would leave its descriptors behind.  But for what a fault of our own, or a filter, would bring,
 * which kills if it is blocked.  The program's own mask is set before its handler is called. */
static uint64_t all_but_faults(void)
{
	return ~(bit(SIGSYS) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) |
		 bit(SIGTRAP) | bit(SIGABRT));
}

/* Ours, with the habits that the program chose: does a call go on, and on which stack. */
static int install(const struct watched *w, const struct sigaction *program)
{
	struct sigaction ours = *program;
	unsigned flags = SA_RESTART | SA_ONSTACK;

	ours.sa_sigaction = w->ours;
	if (w->signal == HOOK_SIGNAL)
		set_word(&ours.sa_mask, all_but_faults());
	else if (handles(program))
		flags |= SA_NODEFER;
	else
		set_word(&ours.sa_mask, 0);
	if (handles(program))
		flags &= (unsigned)program->sa_flags;
	ours.sa_flags = (int)(SA_SIGINFO | flags);
	return real_sigaction(w->signal, &ours, NULL);
}

int action_begin(int signal, action_handler *handler)
{
	struct watched *w = find(signal);

	if (real_sigaction(signal, NULL, &w->slots[0]) < 0)
		return -1;
	w->signal = signal;
	w->ours = handler;
	if (install(w, &w->slots[0]) < 0) {
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

		wanted = *action; /* @old may be the same memory */
		/* Whoever has learned of ours by a system call gives back what he found. */
		if (wanted.sa_sigaction == w->ours)
			wanted = before;
		w->slots[next % SLOTS] = wanted;
		if (install(w, &wanted) < 0)
			return -1;
		atomic_store(&w->current, next);
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
	now.flags |= SA_RESTART | SA_ONSTACK;
	(void)sys4(SYS_rt_sigaction, w->signal, &now, NULL, sizeof(now.mask));
}

struct action_taken action_take(int signal)
{
	struct watched *w = find(signal);
	struct sigaction *slot = &w->slots[atomic_load(&w->current) % SLOTS];
	unsigned flags = (unsigned)slot->sa_flags;
	struct action_taken taken = {.mask = word_of(&slot->sa_mask)};
	sighandler_t handler = __atomic_load_n(&slot->sa_handler, __ATOMIC_SEQ_CST);

	if (!(flags & SA_NODEFER))
		taken.mask |= bit(signal);
	if (handler != SIG_DFL && handler != SIG_IGN && flags & SA_RESETHAND &&
	    !life_is_borrowed()) {
		handler = __atomic_exchange_n(&slot->sa_handler, SIG_DFL, __ATOMIC_SEQ_CST);
		reclaim(w);
	}
	taken.ignored = handler == SIG_IGN;
	/* With its three arguments also where SA_SIGINFO was not asked for, as from the kernel. */
	if (handler != SIG_DFL && handler != SIG_IGN)
		taken.handler = (action_handler *)(void *)handler;
	return taken;
}
