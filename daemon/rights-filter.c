/* rights-filter.c - system calls that are not on the list fail (rights-calls.c has them).  Thread: main.
 *
 *   of another machine (int 0x80) ─► killed
 *   clone3, newer than all that was known ─► ENOSYS, not logged: a libc then takes what it took before
 *   mmap, mprotect, socket, clone ─► by an argument
 *   on the list ─► allowed        else ─► EPERM: a session may then fail, the process does not die
 *
 * Two filters, and the stricter counts: the kernel logs for one what it refuses, and what a libc tries
 * first is no news. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/rights-private.h"

#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

/* ---- the filters ---- */

static int add(scmp_filter_ctx ctx, uint32_t action, int call)
{
	return seccomp_rule_add_exact(ctx, action, call, 0);
}

static int allow_by_argument(scmp_filter_ctx ctx)
{
	static const int mapping[] = {SYS_mmap, SYS_mprotect};
	int r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SYS_socket, 1,
				       SCMP_A0(SCMP_CMP_EQ, AF_UNIX));

	/* No namespace is made (the flags are argument 0 but on s390).  clone3() has its flags in memory, where no filter
	 * sees them. */
	if (r >= 0)
		r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SYS_clone, 1,
					   SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
	/* Writable or executable: both at once is neither rule's. */
	for (size_t i = 0; i < ARRAY_SIZE(mapping) && r >= 0; i++) {
		r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, mapping[i], 1,
					   SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE, 0));
		if (r >= 0)
			r = seccomp_rule_add_exact(
				ctx, SCMP_ACT_ALLOW, mapping[i], 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE | PROT_EXEC, PROT_WRITE));
	}
	return r;
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

int rights_listed(enum rights_list list, uint32_t otherwise, scmp_filter_ctx *ret_filter)
{
	int calls[RIGHTS_CALLS], r = begin(otherwise, ret_filter);
	size_t n = rights_calls(list, calls);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = add(*ret_filter, SCMP_ACT_ALLOW, calls[i]);
	if (r >= 0)
		r = allow_by_argument(*ret_filter);
	if (r >= 0)
		r = add_absent(*ret_filter, SCMP_ACT_ALLOW);
	if (r >= 0)
		(void)seccomp_attr_set(*ret_filter, SCMP_FLTATR_CTL_LOG, 1); /* from 4.14 */
	return end(r, ret_filter);
}

/* ---- what is refused ---- */

/* A handler is given nothing. */
static char refused_file[PATH_MAX];
static bool refused_aloud;

/* Thread: signal.  Says which call it was and makes it fail, as without being told. */
static void refused(int sig, siginfo_t *info, void *context)
{
	static const char before[] = "perfwind: the filter refuses system call ";
	ucontext_t *uc = context;
	char text[sizeof(before) + 16];
	size_t len = sizeof(before) - 1;
	unsigned number = (unsigned)info->si_syscall, scale = 1;
	int e = errno, fd;

	(void)sig;
	memcpy(text, before, len);
	while (number / scale >= 10)
		scale *= 10;
	for (; scale; scale /= 10)
		text[len++] = (char)('0' + number / scale % 10);
	text[len++] = '\n';
	fd = *refused_file ? open(refused_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)
			   : -1;
	if (fd >= 0)
		(void)!write(fd, text, len);
	if (fd < 0 || refused_aloud)
		(void)!write(STDERR_FILENO, text, len);
	(void)fd_close(fd);
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
	if (file && *file)
		(void)snprintf(refused_file, sizeof(refused_file), "%s", file);
	return told || *refused_file;
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

int rights_filter(enum rights_list list, bool told, char *error, size_t size)
{
	const struct sigaction action = {.sa_sigaction = refused,
					 .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
	int r = 0;

	told = is_told(told);
	if (told && sigaction(SIGSYS, &action, NULL) < 0)
		r = -errno;
	if (r >= 0)
		r = load_both(list, told ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM));
	if (r < 0)
		(void)snprintf(error, size, "the filter of system calls cannot be loaded: %s",
			       strerror(-r));
	return r < 0 ? fail(r) : 0;
}
