/* functions.c - programs built with -finstrument-functions: a mark at each begin and end of a function, by address.
 * Thread: any, signal handlers included.
 *
 * The stack pointer goes with each mark: the reader (marks/mark-functions) closes by it the functions that were left by an
 * exception or longjmp(), which make no call of ours.  Other stacks than the thread's are reported where a program makes them
 * known to the libc: an address on one of these stacks is never compared with an address on another. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include "libmarks/marks.h"

#define EXPORTED __attribute__((visibility("default"), no_instrument_function))

enum { FRAME_WORDS = 32 };

static int (*real_sigaltstack)(const stack_t *, stack_t *);
static int (*real_swapcontext)(ucontext_t *, const ucontext_t *);
static int (*real_setcontext)(const ucontext_t *);

EXPORTED void __cyg_profile_func_enter(void *function, void *site);
EXPORTED void __cyg_profile_func_exit(void *function, void *site);

/* The C++ runtime's state of a thread (Itanium C++ ABI, 2.2.2). */
struct cxa_globals {
	void *caught;
	unsigned uncaught;
};
#pragma weak __cxa_get_globals
struct cxa_globals *__cxa_get_globals(void);

static unsigned uncaught(void)
{
	unsigned n = __cxa_get_globals ? __cxa_get_globals()->uncaught : 0;

	return n < MARKS_UNCAUGHT ? n : MARKS_UNCAUGHT;
}

/* Where the frame that ends at @end begins: its return address is @site.  Nothing beyond that word is read.  0: not known. */
static uintptr_t frame_begin(const uintptr_t *end, uintptr_t site)
{
#ifdef __x86_64__
	for (int i = 0; i < FRAME_WORDS; i++)
		if (end[i] == site)
			return (uintptr_t)&end[i + 1];
#endif
	(void)end;
	(void)site;
	return 0;
}

void __cyg_profile_func_enter(void *function, void *site)
{
	const uintptr_t *end = __builtin_dwarf_cfa(); /* of the frame that called this */
	uintptr_t words[2];

	if (!marks_wanted(MARKS_FUNCTIONS))
		return;
	words[0] = (uintptr_t)site;
	words[1] = frame_begin(end, (uintptr_t)site);
	marks_put(MARKS_ENTER | uncaught() << 8, (const char *)words, sizeof(words),
		  (uintptr_t)function, (uintptr_t)end);
}

void __cyg_profile_func_exit(void *function, void *site)
{
	unsigned tail = __builtin_return_address(0) == site ? MARKS_TAIL : 0;

	if (marks_wanted(MARKS_FUNCTIONS))
		marks_put(MARKS_LEAVE | (uncaught() | tail) << 8, (const char *)&site, sizeof(site),
			  (uintptr_t)function, (uintptr_t)__builtin_dwarf_cfa());
}

static void report(const stack_t *stack)
{
	if (stack && stack->ss_size && !(stack->ss_flags & SS_DISABLE) &&
	    marks_wanted(MARKS_FUNCTIONS))
		marks_put(MARKS_STACK, NULL, 0, (uintptr_t)stack->ss_sp,
			  (uintptr_t)stack->ss_sp + stack->ss_size);
}

static void *find(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		errno = ENOSYS;
	return found;
}

EXPORTED int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	if (!real_sigaltstack)
		functions_begin();
	report(stack);
	return real_sigaltstack ? real_sigaltstack(stack, old) : -1;
}

EXPORTED int swapcontext(ucontext_t *restrict save, const ucontext_t *restrict to)
{
	if (!real_swapcontext)
		functions_begin();
	report(&to->uc_stack);
	return real_swapcontext ? real_swapcontext(save, to) : -1;
}

EXPORTED int setcontext(const ucontext_t *to)
{
	if (!real_setcontext)
		functions_begin();
	report(&to->uc_stack);
	return real_setcontext ? real_setcontext(to) : -1;
}

void functions_begin(void)
{
	real_sigaltstack = (int (*)(const stack_t *, stack_t *))find("sigaltstack");
	real_swapcontext = (int (*)(ucontext_t *, const ucontext_t *))find("swapcontext");
	real_setcontext = (int (*)(const ucontext_t *))find("setcontext");
}
