/* syscalls.h - system calls made directly.  Thread: any, signal handlers included.
 * The libc's wrappers write errno and may be cancellation points; this does neither.  Returns
 * -errno on failure, as the kernel does.
 *
 * All use one instruction, so that the handler of SIGSYS can distinguish them from the program's by
 * the address behind it (si_call_addr). */
#pragma once

#include <sys/syscall.h>

__attribute__((visibility("hidden"))) long hook_syscall(long n, long a, long b, long c, long d,
							long e, long f);
/* Where that instruction returns to. */
extern const char hook_syscall_return[] __attribute__((visibility("hidden")));

#define sys6(n, a, b, c, d, e, f) \
	hook_syscall((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define sys5(n, a, b, c, d, e) sys6(n, a, b, c, d, e, 0)
#define sys4(n, a, b, c, d) sys6(n, a, b, c, d, 0, 0)
#define sys3(n, a, b, c) sys6(n, a, b, c, 0, 0, 0)
#define sys2(n, a, b) sys6(n, a, b, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, a, 0, 0, 0, 0, 0)
#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)

/* A millisecond at most: a signal ends it. */
void hook_pause(void);
