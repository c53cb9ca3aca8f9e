/* syscalls.h - system calls made directly.  Thread: any, signal handlers included.
 * The libc's wrappers write errno and may be cancellation points; these do neither.  All return
 * -errno on failure, as the kernel does. */
#pragma once

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long sys_call(long n, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sys_call(long n, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#error "how is a system call made on this machine?"
#endif

#define sys4(n, a, b, c, d) sys_call((n), (long)(a), (long)(b), (long)(c), (long)(d))
#define sys3(n, a, b, c) sys4(n, a, b, c, 0)
#define sys2(n, a, b) sys4(n, a, b, 0, 0)
#define sys1(n, a) sys4(n, a, 0, 0, 0)
