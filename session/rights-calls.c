/* rights-calls.c - the lists of system calls: see rights-filter.h.  Thread: main, and when perfwind is built. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/util.h"
#include "session/rights-filter.h"

static const int of_both[] = {
	/* files */
	SYS_close,
	SYS_close_range,
	SYS_dup3,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_fadvise64,
	SYS_fcntl,
	SYS_flock,
	SYS_fstat,
	SYS_fstatfs,
	SYS_fsync,
	SYS_ftruncate,
	SYS_getcwd,
	SYS_getdents64,
	SYS_ioctl,
	SYS_lseek,
	SYS_memfd_create,
	SYS_newfstatat,
	SYS_openat2, /* its flags are in memory, where no filter sees them */
	SYS_pipe2,
	SYS_pread64,
	SYS_preadv,
	SYS_read,
	SYS_readlinkat,
	SYS_readv,
	SYS_sendfile, /* a module's copy, for libunwind and libdw */
	SYS_statfs,
	SYS_statx,
	SYS_umask,
	SYS_mkdirat,
	SYS_unlinkat,
	SYS_write,
	SYS_writev,
	SYS_pwrite64,
	SYS_fchmod,
	SYS_fchmodat,
	/* memory */
	SYS_brk,
	SYS_madvise,
	SYS_mincore, /* libunwind: is an address one of ours? */
	SYS_mremap,
	SYS_munmap,
	SYS_mlock,
	SYS_munlock,
	/* threads, processes of our own, signals */
	SYS_exit,
	SYS_exit_group,
	SYS_futex,
	SYS_get_robust_list,
	SYS_getpid,
	SYS_getppid,
	SYS_gettid,
	SYS_kill,
	SYS_membarrier,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_prctl,
	SYS_restart_syscall,
	SYS_rseq,
	SYS_seccomp, /* the shorter list of a helper process */
	SYS_rt_sigaction,
	SYS_rt_sigpending,
	SYS_rt_sigprocmask,
	SYS_rt_sigqueueinfo,
	SYS_rt_sigreturn,
	SYS_rt_sigtimedwait,
	SYS_set_robust_list,
	SYS_set_tid_address,
	SYS_setpgid,
	SYS_setsid,
	SYS_sigaltstack,
	SYS_signalfd4,
	SYS_tgkill,
	SYS_wait4,
	SYS_waitid,
	/* identity and limits */
	SYS_capget,
	SYS_capset,
	SYS_getegid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getgroups,
	SYS_getpriority,
	SYS_getrandom,
	SYS_getresgid,
	SYS_getresuid,
	SYS_getrlimit,
	SYS_getrusage,
	SYS_getuid,
	SYS_sched_getaffinity,
	SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_sched_get_priority_max,
	SYS_sched_get_priority_min,
	SYS_sched_setscheduler,
	SYS_sched_yield,
	SYS_setpriority,
	SYS_sysinfo,
	SYS_uname,
	SYS_getcpu,
	/* time and waiting */
	SYS_clock_getres,
	SYS_clock_gettime,
	SYS_clock_nanosleep,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_eventfd2,
	SYS_gettimeofday,
	SYS_nanosleep,
	SYS_ppoll,
	SYS_pselect6,
	SYS_timerfd_create,
	SYS_timerfd_gettime,
	SYS_timerfd_settime,
	/* sockets; which, is below */
	SYS_accept4,
	SYS_accept,
	SYS_bind,
	SYS_connect,
	SYS_getpeername,
	SYS_getsockname,
	SYS_getsockopt,
	SYS_listen,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_sendmsg,
	SYS_sendto,
	SYS_sendmmsg,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_socketpair,
	/* the work */
	SYS_perf_event_open,
	SYS_process_vm_readv,
	/* for the same as above, by another libc or another version of it */
	SYS_dup,
	SYS_fdatasync,
	SYS_getpgid,
	SYS_getsid,
	SYS_mlock2,
	SYS_preadv2,
	SYS_pwritev,
	SYS_pwritev2,
	SYS_rt_sigsuspend,
	SYS_rt_tgsigqueueinfo,
	SYS_tkill,
/* older forms of those above, which other machines do not have */
#if defined(__x86_64__)
	SYS_access,
	SYS_arch_prctl,
	SYS_chmod,
	SYS_dup2,
	SYS_epoll_wait,
	SYS_fork,
	SYS_getpgrp,
	SYS_lstat,
	SYS_mkdir,
	SYS_pause,
	SYS_pipe,
	SYS_poll,
	SYS_readlink,
	SYS_select,
	SYS_stat,
	SYS_time,
	SYS_unlink,
	SYS_vfork,
#endif
};

/* Newer than the headers of the oldest distribution; one number on all machines. */
static const int newer[] = {
	444,	  /* landlock_create_ruleset, landlock_restrict_self: what helper processes lose */
	446, 441, /* epoll_pwait2 */
	449,	  /* futex_waitv */
	452,	  /* fchmodat2: fchmodat() of glibc 2.39 */
	453,	  /* map_shadow_stack: a thread's, by glibc 2.42 */
	454,	  /* futex_wake */
	455,	  /* futex_wait */
	456,	  /* futex_requeue */
	462,	  /* mseal: a libc's, of what it has relocated */
#if defined(__x86_64__)
	/* The kernel puts them into a probed function of ours; it lets them pass itself from 6.14 on. */
	335, /* uretprobe */
	336, /* uprobe */
#endif
};

static const int of_command[] = {
/* an existing FILE becomes FILE.old */
#if defined(__x86_64__)
	SYS_rename,
#endif
	SYS_renameat,
	SYS_renameat2,
	/* root's helper opens what a target names as the target's owner */
	SYS_setfsgid,
	SYS_setfsuid,
	SYS_setgroups,
};

/* RIGHTS_GIVEN: reads given descriptors, and computes. */
static const int of_given[] = {
	SYS_close,
	SYS_fstat,
	SYS_lseek,
	SYS_newfstatat, /* fstat() of some versions of glibc */
	SYS_pread64,
	SYS_preadv,
	SYS_read,
	SYS_readv,
	SYS_write,
	SYS_brk,
	SYS_madvise,
	SYS_mremap,
	SYS_munmap,
	SYS_exit,
	SYS_exit_group,
	SYS_futex,
	SYS_getpid,
	SYS_gettid,
	SYS_restart_syscall,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_getrandom,
	SYS_sched_getaffinity, /* malloc() asks how many CPUs there are */
	SYS_sched_yield,
	SYS_sysinfo, /* qsort() asks how much memory there is */
	SYS_clock_getres,
	SYS_clock_gettime,
	SYS_clock_nanosleep,
	SYS_gettimeofday,
	SYS_getpeername,
	SYS_getsockname,
	SYS_getsockopt,
	SYS_ppoll,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_sendmsg,
	SYS_sendto,
#if defined(__x86_64__)
	SYS_poll,
	SYS_time,
#endif
};

/* RIGHTS_BPF in addition: libbpf and what it asks of the kernel.  Opening for reading is by an argument. */
static const int of_bpf[] = {
	SYS_bpf,    SYS_memfd_create, /* newer ones keep numbers of descriptors with it */
	SYS_dup3,   SYS_faccessat,    SYS_faccessat2, SYS_uname,
#if defined(__x86_64__)
	SYS_access, SYS_dup2,
#endif
};

/* RIGHTS_OPEN in addition: reads files and processes by name. */
static const int of_open[] = {
	SYS_close_range, SYS_dup3,	SYS_faccessat,	SYS_faccessat2,	  SYS_fadvise64,
	SYS_fstatfs,	 SYS_getcwd,	SYS_getdents64, SYS_memfd_create, SYS_openat2,
	SYS_readlinkat,	 SYS_sendfile,	SYS_statfs,	SYS_statx,	  SYS_capget,
	SYS_capset,	 SYS_getegid,	SYS_geteuid,	SYS_getgid,	  SYS_getgroups,
	SYS_getppid,	 SYS_getresgid, SYS_getresuid,	SYS_getuid,	  SYS_getrlimit,
	SYS_prctl,	 SYS_setfsgid,	SYS_setfsuid,	SYS_setgroups,	  SYS_uname,
#if defined(__x86_64__)
	SYS_lstat,	 SYS_readlink,	SYS_stat,
#endif
};

/* RIGHTS_ACCEPT in addition: accepts connections on a given socket, and starts and ends the process that closes them. */
static const int of_accept[] = {
	SYS_accept4,
	SYS_get_robust_list,
	SYS_kill,
	SYS_pidfd_open,
	SYS_rseq,
	SYS_seccomp,
	SYS_set_robust_list,
	SYS_setsid,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_socketpair,
	SYS_wait4,
	444, /* landlock_create_ruleset, landlock_restrict_self */
	446,
#if defined(__x86_64__)
	SYS_fork,
#endif
};

/* LeakSanitizer starts a process that traces this one. */
static const int of_sanitizers[] = {
#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
	SYS_getdents,
#endif
	SYS_ptrace,
};
#if defined(__SANITIZE_ADDRESS__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

_Static_assert(ARRAY_SIZE(of_both) + ARRAY_SIZE(newer) + ARRAY_SIZE(of_command) +
			       ARRAY_SIZE(of_sanitizers) <=
		       RIGHTS_CALLS,
	       "the room for them");

#define APPEND(from) (memcpy(ret + n, from, sizeof(from)), n += ARRAY_SIZE(from))

static int ascending(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

size_t rights_calls(enum rights_list list, int ret[static RIGHTS_CALLS])
{
	size_t n = 0;

	if (list == RIGHTS_DAEMON || list == RIGHTS_COMMAND) {
		APPEND(of_both);
		APPEND(newer);
	} else {
		APPEND(of_given);
		if (is_sanitized)
			ret[n++] = SYS_sigaltstack; /* at each call that does not return */
	}
	if (list == RIGHTS_COMMAND)
		APPEND(of_command);
	if (list == RIGHTS_BPF)
		APPEND(of_bpf);
	if (list == RIGHTS_OPEN || list == RIGHTS_ACCEPT)
		APPEND(of_open);
	if (list == RIGHTS_ACCEPT)
		APPEND(of_accept);
	if (is_sanitized)
		APPEND(of_sanitizers);
	qsort(ret, n, sizeof(*ret), ascending);
	return n;
}
