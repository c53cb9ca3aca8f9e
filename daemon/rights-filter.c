/* rights-filter.c - the system calls that the daemon makes, and no others.  Thread: main.
 *
 * A list of what is allowed, by name: libseccomp knows the numbers of each machine and what a libc
 * may call instead.  What is missing fails with EPERM: a session may then fail, the daemon does not
 * die.  No network but AF_UNIX, no program is run, no memory is writable and executable, nothing is
 * mounted, renamed, traced or made a module of. */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/rights.h"

#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

static const int allowed[] = {
	/* files */
	SCMP_SYS(access),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(fadvise64),
	SCMP_SYS(fcntl),
	SCMP_SYS(flock),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(fsync),
	SCMP_SYS(ftruncate),
	SCMP_SYS(getcwd),
	SCMP_SYS(getdents64),
	SCMP_SYS(ioctl),
	SCMP_SYS(lseek),
	SCMP_SYS(lstat),
	SCMP_SYS(memfd_create),
	SCMP_SYS(newfstatat),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(read),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(readv),
	SCMP_SYS(sendfile), /* a module's copy, for libunwind and libdw */
	SCMP_SYS(stat),
	SCMP_SYS(statfs),
	SCMP_SYS(statx),
	SCMP_SYS(umask),
	SCMP_SYS(mkdir), /* the folder of our sockets */
	SCMP_SYS(mkdirat),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(pwrite64),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	/* memory */
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(mincore), /* libunwind: is an address one of ours? */
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	/* threads, processes of our own, signals */
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(futex),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(gettid),
	SCMP_SYS(kill),
	SCMP_SYS(membarrier),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(prctl),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rseq),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(setpgid),
	SCMP_SYS(setsid),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(signalfd4),
	SCMP_SYS(tgkill),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(arch_prctl),
	/* who and how much */
	SCMP_SYS(capget),
	SCMP_SYS(capset),
	SCMP_SYS(getegid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getgroups),
	SCMP_SYS(getpriority),
	SCMP_SYS(getrandom),
	SCMP_SYS(getresgid),
	SCMP_SYS(getresuid),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(getuid),
	SCMP_SYS(prlimit64),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_yield),
	SCMP_SYS(setpriority),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
	SCMP_SYS(getcpu),
	/* time and waiting */
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(eventfd2),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(nanosleep),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(pselect6),
	SCMP_SYS(select),
	SCMP_SYS(time),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(timerfd_settime),
	/* sockets; which, is below */
	SCMP_SYS(accept4),
	SCMP_SYS(accept),
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt),
	SCMP_SYS(listen),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(socketpair),
	/* the work */
	SCMP_SYS(perf_event_open),
	SCMP_SYS(process_vm_readv),
};

static int add_all(scmp_filter_ctx ctx)
{
	static const int mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(allowed) && r >= 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* No namespace is made (the flags are argument 0 but on s390).  clone3() has its flags in memory, where no filter
	 * sees them; without it a libc takes clone(). */
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* Writable or executable: both at once is neither rule's. */
	for (size_t i = 0; i < ARRAY_SIZE(mapping) && r >= 0; i++) {
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, mapping[i], 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE, 0));
		if (r >= 0)
			r = seccomp_rule_add(
				ctx, SCMP_ACT_ALLOW, mapping[i], 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE | PROT_EXEC, PROT_WRITE));
	}
	return r;
}

/* Thread: signal.  Says which call it was and makes it fail, as without --verbose. */
static void refused(int sig, siginfo_t *info, void *context)
{
	static const char before[] = "perfwind: the filter refuses system call ";
	ucontext_t *uc = context;
	char text[sizeof(before) + 16];
	size_t len = sizeof(before) - 1;
	unsigned number = (unsigned)info->si_syscall, scale = 1;

	(void)sig;
	memcpy(text, before, len);
	while (number / scale >= 10)
		scale *= 10;
	for (; scale; scale /= 10)
		text[len++] = (char)('0' + number / scale % 10);
	text[len++] = '\n';
	(void)!write(STDERR_FILENO, text, len);
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
	uc->uc_mcontext.regs[0] = (uint64_t)-EPERM;
#endif
}

int rights_filter(bool told, char *error, size_t size)
{
	const struct sigaction action = {.sa_sigaction = refused,
					 .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
	scmp_filter_ctx ctx = seccomp_init(told ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM));
	int r = ctx ? 0 : -ENOMEM;

	if (r >= 0 && told && sigaction(SIGSYS, &action, NULL) < 0)
		r = -errno;
	if (r >= 0)
		r = add_all(ctx);
	if (r >= 0)
		(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_LOG,
				       1); /* where the kernel can: 4.14 */
	if (r >= 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	if (r < 0)
		(void)snprintf(error, size, "the filter of system calls cannot be loaded: %s",
			       strerror(-r));
	return r < 0 ? fail(r) : 0;
}
