/* rights-filter.c - system calls that are not on the list fail (rights-calls.c has them).  Thread: main.
 *
 *   of another machine (int 0x80) ─► killed
 *   clone3, newer than all that was known ─► ENOSYS, not logged: a libc then takes what it took before
 *   mmap, mprotect, socket, clone ─► by an argument
 *   on the list ─► allowed        else ─► EPERM: a session may then fail, the process does not die
 *
 * The program only loads, compares and jumps: the kernel (from 5.11) tries it for each number once and
 * keeps a bit for those that are allowed whatever their arguments, so that a call costs next to
 * nothing; before, it is walked from low numbers up, two comparisons for a run of them.  Made here and
 * not by libseccomp, which takes 1.7 ms of each start for a list of this length; this takes 0.2. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/rights-private.h"

#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#error "seccomp's name for this machine is missing here"
#endif

#define WRITE_EXEC (PROT_WRITE | PROT_EXEC)

/* ---- the program ---- */

struct program {
	struct sock_filter *code;
	size_t n;
	uint32_t otherwise;
};

static void emit(struct program *p, uint16_t code, uint32_t k)
{
	p->code[p->n++] = (struct sock_filter){.code = code, .k = k};
}

static void emit_load(struct program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

/* The lower half, which has all bits that are looked at; both machines are little-endian. */
static void emit_load_argument(struct program *p, size_t i)
{
	emit_load(p, offsetof(struct seccomp_data, args) + i * sizeof(uint64_t));
}

/* BPF_JEQ, JGE, JGT, JSET: the next @n instructions are for when it holds. */
static void emit_if(struct program *p, uint16_t test, uint32_t k, uint8_t n)
{
	emit(p, BPF_JMP | BPF_K | test, k);
	p->code[p->n - 1].jf = n;
}

/* The next instruction is for when it does not hold. */
static void emit_unless(struct program *p, uint16_t test, uint32_t k)
{
	emit(p, BPF_JMP | BPF_K | test, k);
	p->code[p->n - 1].jt = 1;
}

static void emit_return(struct program *p, uint32_t what)
{
	emit(p, BPF_RET | BPF_K, what);
}

static void emit_map(struct program *p, uint32_t call)
{
	emit_if(p, BPF_JEQ, call, 5);
	emit_load_argument(p, 2);
	emit(p, BPF_ALU | BPF_AND | BPF_K, WRITE_EXEC);
	emit_if(p, BPF_JEQ, WRITE_EXEC, 1);
	emit_return(p, p->otherwise);
	emit_return(p, SECCOMP_RET_ALLOW);
}

static void emit_by_argument(struct program *p)
{
	emit_map(p, SYS_mmap);
	emit_map(p, SYS_mprotect);
	emit_if(p, BPF_JEQ, SYS_socket, 4);
	emit_load_argument(p, 0);
	emit_if(p, BPF_JEQ, AF_UNIX, 1);
	emit_return(p, SECCOMP_RET_ALLOW);
	emit_return(p, p->otherwise);
	/* No namespace is made (the flags are argument 0 but on s390).  clone3() has its flags in memory,
	 * where no filter sees them. */
	emit_if(p, BPF_JEQ, SYS_clone, 4);
	emit_load_argument(p, 0);
	emit_if(p, BPF_JSET, NAMESPACES, 1);
	emit_return(p, p->otherwise);
	emit_return(p, SECCOMP_RET_ALLOW);
}

static struct program begin(struct sock_filter *code, uint32_t otherwise)
{
	struct program p = {.code = code, .otherwise = otherwise};

	emit_load(&p, offsetof(struct seccomp_data, arch));
	emit_unless(&p, BPF_JEQ, MACHINE);
	emit_return(&p, SECCOMP_RET_KILL_PROCESS);
	emit_load(&p, offsetof(struct seccomp_data, nr));
	return p;
}

/* Ends in @absent for what does not exist for us, goes on behind for all else. */
static void emit_absent(struct program *p, uint32_t absent)
{
	emit_if(p, BPF_JEQ, SYS_clone3, 1);
	emit_return(p, absent);
	emit_if(p, BPF_JGT, RIGHTS_NEWEST, 2);
	emit_unless(p, BPF_JGT, RIGHTS_NEWEST + RIGHTS_NEWER);
	emit_return(p, absent);
}

size_t rights_absent_program(struct sock_filter ret[static RIGHTS_PROGRAM])
{
	struct program p = begin(ret, SECCOMP_RET_ALLOW);

	emit_absent(&p, SECCOMP_RET_ERRNO | ENOSYS);
	emit_return(&p, SECCOMP_RET_ALLOW);
	return p.n;
}

size_t rights_program(enum rights_list list, uint32_t otherwise,
		      struct sock_filter ret[static RIGHTS_PROGRAM])
{
	struct program p = begin(ret, otherwise);
	int calls[RIGHTS_CALLS];
	size_t n = rights_calls(list, calls), end;

	emit_by_argument(&p);
	emit_absent(&p, SECCOMP_RET_ALLOW);
	/* Ascending: whoever comes to a run of numbers is above those before. */
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && calls[end] <= calls[end - 1] + 1;)
			end++;
		emit_unless(&p, BPF_JGE, (uint32_t)calls[i]);
		emit_return(&p, otherwise);
		emit_unless(&p, BPF_JGT, (uint32_t)calls[end - 1]);
		emit_return(&p, SECCOMP_RET_ALLOW);
	}
	emit_return(&p, otherwise);
	return p.n;
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
	const char *file = getenv("PERFWIND_REFUSED");

	refused_aloud = told;
	if (file && *file)
		(void)snprintf(refused_file, sizeof(refused_file), "%s", file);
	return told || *refused_file;
}

/* SPEC_ALLOW: before 5.16 all reading of memory is slowed down in who has a filter, against code of strangers that is run
 * there (speculative store bypass); we run none. */
static int load(struct sock_filter *code, size_t n, unsigned flags)
{
	const struct sock_fprog program = {.len = (unsigned short)n, .filter = code};

	flags |= SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0 ? -errno : 0;
}

/* Two filters, and the stricter counts.  The kernel logs for one what it refuses; what a libc tries first is no news. */
static int load_both(enum rights_list list, uint32_t otherwise)
{
	struct sock_filter code[RIGHTS_PROGRAM];
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

	if (r >= 0)
		r = load(code, rights_absent_program(code), 0);
	if (r >= 0)
		r = load(code, rights_program(list, otherwise, code), SECCOMP_FILTER_FLAG_LOG);
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
		r = load_both(list, told ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM);
	if (r < 0)
		(void)snprintf(error, size, "the filter of system calls cannot be loaded: %s",
			       strerror(-r));
	return r < 0 ? fail(r) : 0;
}
