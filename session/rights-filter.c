/* rights-filter.c - system calls that are not on the list fail (rights-calls.c has them).  Thread: main.
 *
 *   of another machine (int 0x80) ─► killed
 *   clone3, newer than all that was known ─► ENOSYS, not logged: a libc then takes what it took before
 *   mmap, mprotect, open, socket, clone, prlimit, setpriority, fcntl, ioctl ─► by an argument
 *   on the list ─► allowed        else ─► EPERM: a session may then fail, the process does not die
 *
 * Two filters, and the stricter counts: the kernel logs for one what it refuses, and what a libc tries
 * first is no news.  Helper processes get a third, which is made here too, as they are forked from threads
 * that other threads' locks could stop (base/child.h). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "proc/procfs.h"
#include "session/rights-private.h"

/* Opened with any of these a file is written, made or emptied (O_TMPFILE wants O_WRONLY or O_RDWR). */
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC)
#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

enum { PROGRAM_MAX = 4096 * sizeof(struct sock_filter) };

static int refused_fd = -1; /* of PERFWIND_REFUSED; 2 in a helper process */
static bool refused_aloud;

/* ---- the filters ---- */

static int add(scmp_filter_ctx ctx, uint32_t action, int call)
{
	return seccomp_rule_add_exact(ctx, action, call, 0);
}

static int allow_if(scmp_filter_ctx ctx, int call, struct scmp_arg_cmp argument)
{
	return seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, call, 1, argument);
}

/* A command writes its output file, which is made when the first packet comes. */
static int allow_opening(scmp_filter_ctx ctx, enum rights_list list)
{
	int r = 0;

	if (list == RIGHTS_COMMAND)
		return add(ctx, SCMP_ACT_ALLOW, SYS_openat);
	if (list != RIGHTS_GIVEN)
		r = allow_if(ctx, SYS_openat, SCMP_A2(SCMP_CMP_MASKED_EQ, WRITING, O_RDONLY));
	return r;
}

/* Root's helper processes become the one user that they may be. */
static int allow_becoming(scmp_filter_ctx ctx)
{
	static const int of_command[] = {SYS_setresgid, SYS_setresuid};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(of_command) && r >= 0; i++)
		r = seccomp_rule_add_exact(
			ctx, SCMP_ACT_ALLOW, of_command[i], 3, SCMP_A0(SCMP_CMP_EQ, CHILD_USER),
			SCMP_A1(SCMP_CMP_EQ, CHILD_USER), SCMP_A2(SCMP_CMP_EQ, CHILD_USER));
	return r;
}

/* A limit or priority of another process can end it (RLIMIT_CPU) or stop it, so a helper process may set its own only. */
static int allow_for_itself(scmp_filter_ctx ctx, enum rights_list list)
{
	int r = list == RIGHTS_GIVEN ? 0 : allow_if(ctx, SYS_prlimit64, SCMP_A0(SCMP_CMP_EQ, 0));

	if (r >= 0 && list == RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_sched_setscheduler, SCMP_A0(SCMP_CMP_EQ, 0));
	if (r >= 0 && (list == RIGHTS_OPEN || list == RIGHTS_GIVEN))
		r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SYS_setpriority, 2,
					   SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS),
					   SCMP_A1(SCMP_CMP_EQ, 0));
	return r;
}

/* F_SETOWN and F_SETSIG with O_ASYNC send any signal to any process of the same user; TIOCSTI types into a terminal. */
static int allow_controls(scmp_filter_ctx ctx, enum rights_list list)
{
	static const unsigned of_descriptors[] = {F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
	static const unsigned of_files[] = {FIONREAD, FS_IOC_GETVERSION, PROCFS_QUERY};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(of_descriptors) && r >= 0; i++)
		r = allow_if(ctx, SYS_fcntl, SCMP_A1(SCMP_CMP_EQ, of_descriptors[i]));
	for (size_t i = 0; i < ARRAY_SIZE(of_files) && r >= 0 && list != RIGHTS_GIVEN; i++)
		r = allow_if(ctx, SYS_ioctl, SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, of_files[i]));
	/* Signal 0: does the process exist? */
	if (r >= 0 && list == RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_pidfd_send_signal, SCMP_A1(SCMP_CMP_EQ, 0));
	return r;
}

static bool is_of_helper(enum rights_list list)
{
	return list >= RIGHTS_ACCEPT;
}

static int allow_by_argument(scmp_filter_ctx ctx, enum rights_list list)
{
	/* No code comes after the start: what a library may load later is loaded before (rights_filter). */
	int r = allow_if(ctx, SYS_mmap, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	if (r >= 0)
		r = allow_if(ctx, SYS_mprotect, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r >= 0)
		r = allow_opening(ctx, list);
	if (r >= 0)
		r = allow_for_itself(ctx, list);
	if (r >= 0 && is_of_helper(list))
		r = allow_controls(ctx, list);
	if (list == RIGHTS_OPEN || list == RIGHTS_GIVEN)
		return r;
	if (r >= 0 && list == RIGHTS_COMMAND)
		r = allow_becoming(ctx);
	if (r >= 0 && list != RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_socket, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* No namespace is made (the flags are argument 0 but on s390).  clone3() has its flags in memory, where no filter
	 * sees them. */
	return r < 0 ? r : allow_if(ctx, SYS_clone, SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
}

/* What does not exist for us. */
static int add_absent(scmp_filter_ctx ctx, uint32_t action)
{
	int r = add(ctx, action, SYS_clone3);

	for (int i = 1; i <= RIGHTS_NEWER && r >= 0; i++)
		r = add(ctx, action, RIGHTS_NEWEST + i);
	return r;
}

static int begin(uint32_t otherwise, scmp_filter_ctx *ret_filter)
{
	*ret_filter = seccomp_init(otherwise);
	return *ret_filter ? seccomp_attr_set(*ret_filter, SCMP_FLTATR_ACT_BADARCH,
					      SCMP_ACT_KILL_PROCESS)
			   : -ENOMEM;
}

static int end(int r, scmp_filter_ctx *filter)
{
	if (r >= 0)
		return 0;
	seccomp_release(*filter);
	*filter = NULL;
	return fail(r);
}

int rights_absent(scmp_filter_ctx *ret_filter)
{
	int r = begin(SCMP_ACT_ALLOW, ret_filter);

	if (r >= 0)
		r = add_absent(*ret_filter, SCMP_ACT_ERRNO(ENOSYS));
	return end(r, ret_filter);
}

/* libdw looks for the path of a descriptor (realpath), and does without it. */
static int refuse_silently(scmp_filter_ctx ctx)
{
	int r = add(ctx, SCMP_ACT_ERRNO(EACCES), SYS_readlinkat);

#if defined(__x86_64__)
	if (r >= 0)
		r = add(ctx, SCMP_ACT_ERRNO(EACCES), SYS_readlink);
#endif
	return r;
}

int rights_listed(enum rights_list list, uint32_t otherwise, scmp_filter_ctx *ret_filter)
{
	int calls[RIGHTS_CALLS], r = begin(otherwise, ret_filter);
	size_t n = rights_calls(list, calls);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = add(*ret_filter, SCMP_ACT_ALLOW, calls[i]);
	if (r >= 0)
		r = allow_by_argument(*ret_filter, list);
	if (r >= 0)
		r = add_absent(*ret_filter, SCMP_ACT_ALLOW);
	if (r >= 0 && list == RIGHTS_GIVEN)
		r = refuse_silently(*ret_filter);
	if (r >= 0)
		(void)seccomp_attr_set(*ret_filter, SCMP_FLTATR_CTL_LOG, 1); /* from 4.14 */
	return end(r, ret_filter);
}

/* ---- what is refused ---- */

/* Thread: signal.  Says which call it was and makes it fail, as without being told. */
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
static bool is_told(bool told)
{
	const char *file = secure_getenv("PERFWIND_REFUSED");

	refused_aloud = told;
	if (file && *file && refused_fd < 0)
		refused_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	child_error(&refused_fd);
	return told || refused_fd >= 0;
}

/* CTL_SSB: before 5.16 all reading of memory is slowed down in who has a filter, against code of strangers that is run
 * there (speculative store bypass); we run none.  CTL_OPTIMIZE: a tree, where the kernel keeps no answers (before 5.11).
 * Without them, where it has to be. */
static int load(scmp_filter_ctx filter)
{
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return seccomp_load(filter);
}

static int load_both(enum rights_list list, uint32_t otherwise)
{
	scmp_filter_ctx absent = NULL, listed = NULL;
	int r = rights_absent(&absent);

	if (r >= 0)
		r = rights_listed(list, otherwise, &listed);
	if (r >= 0)
		r = load(absent);
	if (r >= 0)
		r = load(listed);
	seccomp_release(absent);
	seccomp_release(listed);
	return r;
}

/* ---- helper processes ---- */

int rights_program(scmp_filter_ctx filter, struct sock_fprog *ret_program)
{
	_cleanup_(fd_closep) int fd = memfd_create("filter", MFD_CLOEXEC);
	_cleanup_(freep) char *code = NULL;
	size_t len;
	int r = fd < 0 ? -errno : seccomp_export_bpf(filter, fd);

	if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r >= 0)
		r = read_fd(fd, PROGRAM_MAX, &code, &len);
	if (r < 0)
		return fail(r);
	ret_program->len = (unsigned short)(len / sizeof(*ret_program->filter));
	ret_program->filter = (void *)take(code);
	return 0;
}

static int filter_children(uint32_t otherwise)
{
	static const enum rights_list lists[] = {
		[CHILD_CALLS_ACCEPT] = RIGHTS_ACCEPT,
		[CHILD_CALLS_OPEN] = RIGHTS_OPEN,
		[CHILD_CALLS_GIVEN] = RIGHTS_GIVEN,
	};
	int r = 0;

	for (enum child_calls i = CHILD_CALLS_ACCEPT; i <= CHILD_CALLS_GIVEN && r >= 0; i++) {
		struct sock_fprog program;
		scmp_filter_ctx filter = NULL;

		r = rights_listed(lists[i], otherwise, &filter);
		if (r >= 0)
			(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		if (r >= 0)
			r = rights_program(filter, &program);
		if (r >= 0)
			child_filter(i, &program);
		seccomp_release(filter);
	}
	return r;
}

/* Modules of the libc's data bases are loaded with the first look-up that asks them, and so now. */
static void load_libraries(void)
{
	(void)getpwnam("-");
	(void)getpwuid((uid_t)-1);
	(void)getgrnam("-");
}

int rights_filter(enum rights_list list, bool told, char *error, size_t size)
{
	const struct sigaction action = {.sa_sigaction = refused,
					 .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
	uint32_t otherwise;
	int r = 0;

	told = is_told(told);
	otherwise = told ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
	if (list == RIGHTS_DAEMON)
		load_libraries();
	if (told && sigaction(SIGSYS, &action, NULL) < 0)
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
