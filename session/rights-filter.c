/* rights-filter.c - see rights-filter.h.  Thread: main.
 *
 *   of another machine (int 0x80) ─► killed
 *   clone3, newer than all known calls ─► ENOSYS, not logged: a libc then uses an older call
 *   mmap, mprotect, open, socket, clone, prlimit, setpriority, fcntl, ioctl ─► by an argument
 *   on the list ─► allowed        else ─► EPERM: a session may then fail, the process does not die
 *
 * Two filters, and the stricter counts: the kernel logs the calls that one of them refuses, and the calls that a libc
 * tries first are not worth a line.  Helper processes get a third one.  It is made here, before there are threads,
 * because a forked child must not take locks that other threads may hold (base/child.h).
 *
 * No process uses a network other than AF_UNIX, runs a program, makes memory executable, mounts or traces
 * anything or loads a module.  A helper process inherits the list of the process that makes it and adds
 * its own, so a call has to be on both. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "proc/procfs.h"
#include "session/rights-filter.h"

/* Any of these flags opens a file for writing, creates or truncates it (O_TMPFILE needs O_WRONLY or O_RDWR). */
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC)
#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

static int refused_fd = -1; /* of PERFWIND_REFUSED; 2 in a helper process */
static bool refused_aloud;

/* ---- the lists ---- */

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
	if (list == RIGHTS_OPEN || list == RIGHTS_ACCEPT)
		APPEND(of_open);
	if (list == RIGHTS_ACCEPT)
		APPEND(of_accept);
	if (is_sanitized)
		APPEND(of_sanitizers);
	qsort(ret, n, sizeof(*ret), ascending);
	return n;
}

/* ---- the filters ---- */

#define WHOLE UINT64_MAX

static void allow_if(struct rights_rules *rules, long call, uint32_t argument, uint64_t mask,
		     uint64_t value)
{
	rights_rules_add_if(rules, SECCOMP_RET_ALLOW, call,
			    &(struct rights_test){argument, mask, value}, 1);
}

/* A command creates its output file when the first packet arrives. */
static void allow_opening(struct rights_rules *rules, enum rights_list list)
{
	if (list == RIGHTS_COMMAND)
		rights_rules_add(rules, SECCOMP_RET_ALLOW, SYS_openat);
	else if (list != RIGHTS_GIVEN)
		allow_if(rules, SYS_openat, 2, WRITING, O_RDONLY);
}

/* Root's helper processes become CHILD_USER, and no other user. */
static void allow_becoming(struct rights_rules *rules)
{
	static const long ids_of_command[] = {SYS_setresgid, SYS_setresuid};
	static const struct rights_test tests[] = {
		{0, WHOLE, CHILD_USER}, {1, WHOLE, CHILD_USER}, {2, WHOLE, CHILD_USER}};

	for (size_t i = 0; i < ARRAY_SIZE(ids_of_command); i++)
		rights_rules_add_if(rules, SECCOMP_RET_ALLOW, ids_of_command[i], tests,
				    ARRAY_SIZE(tests));
}

/* A limit or priority of another process can end it (RLIMIT_CPU) or stop it, so a helper process may set its own only. */
static void allow_for_itself(struct rights_rules *rules, enum rights_list list)
{
	static const struct rights_test own_priority[] = {{0, WHOLE, PRIO_PROCESS}, {1, WHOLE, 0}};

	if (list != RIGHTS_GIVEN)
		allow_if(rules, SYS_prlimit64, 0, WHOLE, 0);
	if (list == RIGHTS_ACCEPT)
		allow_if(rules, SYS_sched_setscheduler, 0, WHOLE, 0);
	if (list == RIGHTS_OPEN || list == RIGHTS_GIVEN)
		rights_rules_add_if(rules, SECCOMP_RET_ALLOW, SYS_setpriority, own_priority,
				    ARRAY_SIZE(own_priority));
}

/* F_SETOWN and F_SETSIG with O_ASYNC send any signal to any process of the same user; TIOCSTI types into a terminal. */
static void allow_controls(struct rights_rules *rules, enum rights_list list)
{
	static const unsigned of_descriptors[] = {F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
	static const unsigned of_files[] = {FIONREAD, FS_IOC_GETVERSION, PROCFS_QUERY};

	for (size_t i = 0; i < ARRAY_SIZE(of_descriptors); i++)
		allow_if(rules, SYS_fcntl, 1, WHOLE, of_descriptors[i]);
	for (size_t i = 0; i < ARRAY_SIZE(of_files) && list != RIGHTS_GIVEN; i++)
		allow_if(rules, SYS_ioctl, 1, UINT32_MAX, of_files[i]);
	/* Signal 0: does the process exist? */
	if (list == RIGHTS_ACCEPT)
		allow_if(rules, SYS_pidfd_send_signal, 1, WHOLE, 0);
}

static bool is_of_helper(enum rights_list list)
{
	return list >= RIGHTS_ACCEPT;
}

static void allow_by_argument(struct rights_rules *rules, enum rights_list list)
{
	/* No code is loaded after the start (load_libraries). */
	allow_if(rules, SYS_mmap, 2, PROT_EXEC, 0);
	allow_if(rules, SYS_mprotect, 2, PROT_EXEC, 0);
	allow_opening(rules, list);
	allow_for_itself(rules, list);
	if (is_of_helper(list))
		allow_controls(rules, list);
	if (list == RIGHTS_OPEN || list == RIGHTS_GIVEN)
		return;
	if (list == RIGHTS_COMMAND)
		allow_becoming(rules);
	if (list != RIGHTS_ACCEPT)
		allow_if(rules, SYS_socket, 0, WHOLE, AF_UNIX);
	/* No namespaces (the flags are argument 0, except on s390).  clone3() has its flags in memory, where no filter sees
	 * them. */
	allow_if(rules, SYS_clone, 0, NAMESPACES, 0);
}

/* Calls that are answered as if the kernel did not have them. */
static void add_absent(struct rights_rules *rules, uint32_t action)
{
	rights_rules_add(rules, action, SYS_clone3);
	for (int i = 1; i <= RIGHTS_NEWER; i++)
		rights_rules_add(rules, action, RIGHTS_NEWEST + i);
}

int rights_absent(struct rights_program *ret_program)
{
	struct rights_rules rules = {.n = 0, .otherwise = SECCOMP_RET_ALLOW};

	add_absent(&rules, SECCOMP_RET_ERRNO | ENOSYS);
	return trace(rights_program_make(&rules, ret_program));
}

/* Libraries try these calls and do without: libdw reads the path of a descriptor (realpath), and malloc() reads
 * /proc/sys/vm/overcommit_memory before it shrinks a heap (glibc, check_may_shrink_heap). */
static void refuse_silently(struct rights_rules *rules)
{
	static const struct rights_test plain = {2, WHOLE, O_RDONLY | O_CLOEXEC};
	const uint32_t action = SECCOMP_RET_ERRNO | EACCES;

	rights_rules_add(rules, action, SYS_readlinkat);
	rights_rules_add_if(rules, action, SYS_openat, &plain, 1);
#if defined(__x86_64__)
	rights_rules_add(rules, action, SYS_readlink);
#endif
}

int rights_listed(enum rights_list list, uint32_t otherwise, struct rights_program *ret_program)
{
	struct rights_rules rules = {.n = 0, .otherwise = otherwise};
	int calls[RIGHTS_CALLS];
	size_t n = rights_calls(list, calls);

	for (size_t i = 0; i < n; i++)
		rights_rules_add(&rules, SECCOMP_RET_ALLOW, calls[i]);
	allow_by_argument(&rules, list);
	add_absent(&rules, SECCOMP_RET_ALLOW);
	if (list == RIGHTS_GIVEN)
		refuse_silently(&rules);
	return trace(rights_program_make(&rules, ret_program));
}

/* ---- refused calls ---- */

/* Thread: signal.  Reports the call, which then fails as it does without a report. */
static void refused(int sig, siginfo_t *info, void *context)
{
	static const char before[] = "perfwind: the filter refuses system call ";
	ucontext_t *uc = context;
	char text[sizeof(before) + 16];
	size_t len = sizeof(before) - 1;
	unsigned number = (unsigned)info->si_syscall, scale = 1;
	int e = errno;

	(void)sig;
	memcpy(text, before, len);
	while (number / scale >= 10)
		scale *= 10;
	for (; scale; scale /= 10)
		text[len++] = (char)('0' + number / scale % 10);
	text[len++] = '\n';
	if (refused_fd >= 0)
		(void)!write(refused_fd, text, len);
	if (refused_fd < 0 || refused_aloud)
		(void)!write(STDERR_FILENO, text, len);
	errno = e;
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
	uc->uc_mcontext.regs[0] = (uint64_t)-EPERM;
#endif
}

/* A helper process has no standard error, so tests name a file. */
static bool is_reported(bool aloud)
{
	const char *file = secure_getenv("PERFWIND_REFUSED");

	refused_aloud = aloud;
	if (file && *file && refused_fd < 0)
		refused_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	child_error(&refused_fd);
	return aloud || refused_fd >= 0;
}

/* SPEC_ALLOW: before 5.16 a filter slows down all reading of memory in its process, as a defence against code of strangers that
 * runs there (speculative store bypass); there is none here. */
static int load(const struct rights_program *program, unsigned flags)
{
	const struct sock_fprog code = {program->n, (struct sock_filter *)(uintptr_t)program->code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		       &code) < 0
		       ? -errno
		       : 0;
}

static int load_both(enum rights_list list, uint32_t otherwise)
{
	struct rights_program absent, listed;
	int r = rights_absent(&absent);

	if (r >= 0)
		r = rights_listed(list, otherwise, &listed);
	if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r >= 0)
		r = load(&absent, 0);
	return r < 0 ? r : load(&listed, SECCOMP_FILTER_FLAG_LOG);
}

/* ---- helper processes ---- */

static int filter_children(uint32_t otherwise)
{
	static const enum rights_list lists[] = {
		[CHILD_CALLS_ACCEPT] = RIGHTS_ACCEPT,
		[CHILD_CALLS_OPEN] = RIGHTS_OPEN,
		[CHILD_CALLS_GIVEN] = RIGHTS_GIVEN,
	};
	struct rights_program program;
	int r = 0;

	for (enum child_calls i = CHILD_CALLS_ACCEPT; i <= CHILD_CALLS_GIVEN && r >= 0; i++) {
		struct sock_fprog code;

		r = rights_listed(lists[i], otherwise, &program);
		if (r < 0)
			break;
		code.len = program.n;
		code.filter = reallocarray(NULL, program.n, sizeof(*code.filter));
		if (!code.filter)
			return fail(-ENOMEM);
		memcpy(code.filter, program.code, program.n * sizeof(*code.filter));
		child_filter(i, &code);
	}
	return r;
}

/* The libc loads the modules of its data bases with the first look-up: so look up now. */
static void load_libraries(void)
{
	(void)getpwnam("-");
	(void)getpwuid((uid_t)-1);
	(void)getgrnam("-");
}

int rights_filter(enum rights_list list, bool aloud, char *error, size_t size)
{
	const struct sigaction action = {.sa_sigaction = refused,
					 .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
	bool reported;
	uint32_t otherwise;
	int r = 0;

	reported = is_reported(aloud);
	otherwise = reported ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
	if (list == RIGHTS_DAEMON)
		load_libraries();
	if (reported && sigaction(SIGSYS, &action, NULL) < 0)
		r = -errno;
	if (r >= 0)
		r = filter_children(otherwise);
	if (r >= 0)
		r = load_both(list, otherwise);
	if (r < 0)
		(void)snprintf(error, size, "the filter of system calls cannot be loaded: %s",
			       strerror(-r));
	return r < 0 ? fail(r) : 0;
}
