/* rights-filter.c - see rights-filter.h.  Thread: main.
 *
 *   of another machine (int 0x80) ─► killed
 *   clone3, newer than all known calls ─► ENOSYS, not logged: a libc then uses an older call
 *   mmap, mprotect, open, socket, clone, prlimit, setpriority, fcntl, ioctl ─► by an argument
 *   on the list ─► allowed        else ─► EPERM: a session may then fail, the process does not die
 *
 * Two filters, and the stricter counts: the kernel logs the calls that one filter refuses, and the calls that a libc
 * tries first are not worth a line.  Helper processes get a third one.
 * libseccomp makes all filters when perfwind is built (rights-generate.c).
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
#include "session/rights-programs.h" /* of_daemon ...: generated */

static int refused_fd = -1; /* of PERFWIND_REFUSED; 2 in a helper process */
static bool refused_aloud;

/* ---- the programs ---- */

#define PROGRAM(code)                     \
	{                                 \
		(code), ARRAY_SIZE(code), \
	}
static const struct {
	const struct sock_filter *code;
	size_t n;
} made[] = {
	[RIGHTS_DAEMON] = PROGRAM(of_daemon), [RIGHTS_COMMAND] = PROGRAM(of_command),
	[RIGHTS_ACCEPT] = PROGRAM(of_accept), [RIGHTS_OPEN] = PROGRAM(of_open),
	[RIGHTS_GIVEN] = PROGRAM(of_given),   [RIGHTS_BPF] = PROGRAM(of_bpf),
};

static int copy(const struct sock_filter *code, size_t n, struct rights_program *ret_program)
{
	if (n > RIGHTS_PROGRAM)
		return fail(-E2BIG);
	memcpy(ret_program->code, code, n * sizeof(*code));
	ret_program->n = (uint16_t)n;
	return 0;
}

int rights_absent(struct rights_program *ret_program)
{
	return copy(of_absent, ARRAY_SIZE(of_absent), ret_program);
}

int rights_tried(enum rights_list list, struct rights_program *ret_program)
{
	return copy(of_tried, list == RIGHTS_GIVEN ? ARRAY_SIZE(of_tried) : 0, ret_program);
}

/* No rule of a list ends in EPERM: it stands for `otherwise`. */
int rights_listed(enum rights_list list, uint32_t otherwise, struct rights_program *ret_program)
{
	int r = copy(made[list].code, made[list].n, ret_program);

	for (size_t i = 0; r >= 0 && i < ret_program->n; i++) {
		struct sock_filter *insn = &ret_program->code[i];

		if (insn->code == (BPF_RET | BPF_K) && insn->k == (SECCOMP_RET_ERRNO | EPERM))
			insn->k = otherwise;
	}
	return r < 0 ? trace(r) : 0;
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

static int copy_for_child(const struct rights_program *program, struct sock_fprog *ret_code)
{
	ret_code->len = program->n;
	ret_code->filter = reallocarray(NULL, program->n, sizeof(*ret_code->filter));
	if (program->n && !ret_code->filter)
		return fail(-ENOMEM);
	memcpy(ret_code->filter, program->code, program->n * sizeof(*ret_code->filter));
	return 0;
}

static int filter_children(uint32_t otherwise)
{
	static const enum rights_list lists[] = {
		[CHILD_CALLS_ACCEPT] = RIGHTS_ACCEPT,
		[CHILD_CALLS_OPEN] = RIGHTS_OPEN,
		[CHILD_CALLS_GIVEN] = RIGHTS_GIVEN,
		[CHILD_CALLS_BPF] = RIGHTS_BPF,
	};
	struct rights_program program;
	int r = 0;

	for (enum child_calls i = CHILD_CALLS_ACCEPT; i < CHILD_CALLS_N && r >= 0; i++) {
		struct sock_fprog code = {0}, tried = {0};

		r = rights_tried(lists[i], &program);
		if (r >= 0 && program.n)
			r = copy_for_child(&program, &tried);
		if (r >= 0)
			r = rights_listed(lists[i], otherwise, &program);
		if (r >= 0)
			r = copy_for_child(&program, &code);
		if (r >= 0)
			child_filter(i, &code, &tried);
		else
			free(tried.filter);
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

static int filter_helpers(bool aloud, uint32_t *ret_otherwise)
{
	const struct sigaction action = {.sa_sigaction = refused,
					 .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
	bool reported = is_reported(aloud);

	*ret_otherwise = reported ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
	if (reported && sigaction(SIGSYS, &action, NULL) < 0)
		return -errno;
	return filter_children(*ret_otherwise);
}

int rights_filter_helpers(bool aloud)
{
	uint32_t otherwise;

	return filter_helpers(aloud, &otherwise);
}

int rights_filter(enum rights_list list, bool aloud, char *error, size_t size)
{
	uint32_t otherwise;
	int r;

	if (list == RIGHTS_DAEMON)
		load_libraries();
	r = filter_helpers(aloud, &otherwise);
	if (r >= 0)
		r = load_both(list, otherwise);
	if (r < 0)
		(void)snprintf(error, size, "the filter of system calls cannot be loaded: %s",
			       strerror(-r));
	return r < 0 ? fail(r) : 0;
}
