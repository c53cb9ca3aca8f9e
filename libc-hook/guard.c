/* guard.c - see guard.h.
 *
 * Whether there is a filter cannot be asked without a system call, and each may be trapped, the one
 * that sets a handler as well.  So the handler is there from the beginning.  (A filter that kills
 * cannot be survived: by default the daemon asks no process under a filter.)
 *
 * Where the program has no handler, a trap is to kill, and by the kernel's own hand: the call is
 * made again with the signal blocked.  That takes no system call, so no filter can be in the way. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "libc-hook/actions.h"
#include "libc-hook/guard.h"
#include "libc-hook/syscalls.h"

/* si_code of a filter's trap and of PR_SET_SYSCALL_USER_DISPATCH: asm-generic/siginfo.h */
enum { TRAP_SECCOMP = 1, TRAP_USER_DISPATCH = 2 };

static const uint64_t SYS_BIT = UINT64_C(1) << (SIGSYS - 1);

/* The kernel's mask is the first word of the libc's. */
static uint64_t mask_of(const ucontext_t *uc)
{
	uint64_t word;

	memcpy(&word, &uc->uc_sigmask, sizeof(word));
	return word;
}

bool guard_holds(const void *context)
{
	return !(mask_of(context) & SYS_BIT);
}

static void refuse(ucontext_t *uc)
{
#ifdef __x86_64__
	uc->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
	uc->uc_mcontext.regs[0] = (unsigned long)-ENOSYS;
#endif
}

/* Back to before the instruction; its arguments and number the kernel has left in place. */
static bool step_back(ucontext_t *uc)
{
#ifdef __x86_64__
	const unsigned char *pc = (const unsigned char *)uc->uc_mcontext.gregs[REG_RIP];

	/* syscall, int 0x80; not the page of vsyscalls */
	if ((uintptr_t)pc >> 63 ||
	    !((pc[-2] == 0x0f && pc[-1] == 0x05) || (pc[-2] == 0xcd && pc[-1] == 0x80)))
		return false;
	uc->uc_mcontext.gregs[REG_RIP] -= 2;
#else
	uc->uc_mcontext.pc -= 4;
#endif
	return true;
}

/* The kernel's default for a program without a handler. */
static void act_as_default(siginfo_t *info, bool trapped, ucontext_t *uc)
{
	static const uint64_t none[4]; /* the kernel's sigaction: SIG_DFL */

	if (trapped && step_back(uc)) {
		uint64_t mask = mask_of(uc) | SYS_BIT;

		memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
		return;
	}
	(void)sys4(SYS_rt_sigaction, SIGSYS, none, NULL, sizeof(uint64_t));
	(void)sys4(SYS_rt_tgsigqueueinfo, sys0(SYS_getpid), sys0(SYS_gettid), SIGSYS, info);
}

void guard_handler(int signal, siginfo_t *info, void *context)
{
	bool trapped = info->si_code == TRAP_SECCOMP || info->si_code == TRAP_USER_DISPATCH;
	struct action_taken program;

	if (trapped && info->si_call_addr == (void *)hook_syscall_return) {
		refuse(context);
		return;
	}
	program = action_take(signal);
	if (program.handler)
		program.handler(signal, info, context);
	else if (trapped || !program.ignored)
		act_as_default(info, trapped, context);
}
