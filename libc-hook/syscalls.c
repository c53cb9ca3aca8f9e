/* syscalls.c - see syscalls.h. */
#include <stddef.h>
#include <time.h>

#include "libc-hook/syscalls.h"

/* The kernel takes the number in rax and the fourth argument in r10, not in rcx; on aarch64 the number in x8. */
#if defined(__x86_64__)
#define ENTER                 \
	"	mov %rdi, %rax\n"   \
	"	mov %rsi, %rdi\n"   \
	"	mov %rdx, %rsi\n"   \
	"	mov %rcx, %rdx\n"   \
	"	mov %r8, %r10\n"    \
	"	mov %r9, %r8\n"     \
	"	mov 8(%rsp), %r9\n" \
	"	syscall\n"
#elif defined(__aarch64__)
#define ENTER           \
	"	mov x8, x0\n" \
	"	mov x0, x1\n" \
	"	mov x1, x2\n" \
	"	mov x2, x3\n" \
	"	mov x3, x4\n" \
	"	mov x4, x5\n" \
	"	mov x5, x6\n" \
	"	svc #0\n"
#else
#error "how is a system call made on this machine?"
#endif

__asm__(".pushsection .text\n"
	".hidden hook_syscall\n"
	".globl hook_syscall\n"
	".type hook_syscall,%function\n"
	"hook_syscall:\n"
	"	.cfi_startproc\n" ENTER ".hidden hook_syscall_return\n"
	".globl hook_syscall_return\n"
	"hook_syscall_return:\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size hook_syscall, .-hook_syscall\n"
	".popsection\n");

void hook_pause(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	(void)sys2(SYS_nanosleep, &pause, NULL);
}
