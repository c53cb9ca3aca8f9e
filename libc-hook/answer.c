/* answer.c - see answer.h.
 *
 * Runs in a signal handler of somebody else's program: system calls only, nothing allocated, no
 * lock, no libc function.  /proc/thread-self rather than /proc/self: after the main thread's
 * pthread_exit() /proc/self/maps reads empty.
 *
 * A seccomp filter may answer one of our calls with SIGSYS, whose default action is to kill.  While
 * we work under a filter, and only if the program has no SIGSYS handler of its own, one of ours
 * turns that into -ENOSYS.  (A filter that kills outright cannot be survived: the daemon asks no
 * process under a filter unless it is told to.) */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#include "libc-hook/answer.h"
#include "libc-hook/hook_proto.h"
#include "libc-hook/syscalls.h"

enum { SECCOMP_FILTER = 2, FIRST_FREE = 3 };

/* The kernel's own struct sigaction; the libc's is another one.  asm/signal.h */
struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
#ifdef __x86_64__
	void (*restorer)(void);
#endif
	uint64_t mask;
};

#ifdef __x86_64__
enum { SA_RESTORER_FLAG = 0x04000000 };
/* The name and bytes are those that unwinders know as a signal trampoline. */
__asm__(".pushsection .text\n"
	".type hook_restore_rt,@function\n"
	"hook_restore_rt:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	".size hook_restore_rt, .-hook_restore_rt\n"
	".popsection\n");
void hook_restore_rt(void) __attribute__((visibility("hidden")));
#endif

static void refused(int signal, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)signal;
	(void)info;
#ifdef __x86_64__
	uc->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
	uc->uc_mcontext.regs[0] = (unsigned long)-ENOSYS;
#endif
}

static long kernel_action(const struct kernel_sigaction *action, struct kernel_sigaction *old)
{
	return sys4(SYS_rt_sigaction, SIGSYS, action, old, sizeof(uint64_t));
}

static bool guard_begin(void)
{
	struct kernel_sigaction guard = {.handler = refused, .flags = SA_SIGINFO | SA_ONSTACK};
	struct kernel_sigaction old;

	if (sys1(SYS_prctl, PR_GET_SECCOMP) != SECCOMP_FILTER)
		return false;
	if (kernel_action(NULL, &old) < 0 || (void *)old.handler != (void *)SIG_DFL)
		return false;
#ifdef __x86_64__
	guard.flags |= SA_RESTORER_FLAG;
	guard.restorer = hook_restore_rt;
#endif
	return kernel_action(&guard, NULL) == 0;
}

static void guard_end(void)
{
	struct kernel_sigaction now, none = {0};

	/* Unless the program has set one meanwhile. */
	if (kernel_action(NULL, &now) == 0 && now.handler == refused)
		(void)kernel_action(&none, NULL);
}

/* A program may run with 0, 1 or 2 closed: ours must not be taken for them. */
static int above_stdio(int fd)
{
	long moved;

	if (fd < 0 || fd >= FIRST_FREE)
		return fd;
	moved = sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FIRST_FREE);
	(void)sys1(SYS_close, fd);
	return (int)moved;
}

static int open_own(const char *path)
{
	return above_stdio((int)sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
}

static int reach_daemon(const struct hook_config *config)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int fd = above_stdio(
		(int)sys3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	long r = -EAGAIN;

	if (fd < 0)
		return fd;
	for (int i = 0; i <= ANSWER_WAIT_MS; i++) {
		r = sys3(SYS_connect, fd, &config->address, config->address_len);
		if (r != -EAGAIN) /* its backlog is full */
			break;
		if (i < ANSWER_WAIT_MS)
			(void)sys2(SYS_nanosleep, &pause, NULL);
	}
	if (r == 0)
		return fd;
	(void)sys1(SYS_close, fd);
	return (int)r;
}

static void send_both(int to, const int *fds)
{
	union {
		char bytes[CMSG_SPACE(HOOK_DESCRIPTORS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = HOOK_BYTE;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(HOOK_DESCRIPTORS * sizeof(int));
	for (int i = 0; i < HOOK_DESCRIPTORS; i++)
		((int *)(void *)CMSG_DATA(c))[i] = fds[i];
	(void)sys3(SYS_sendmsg, to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_descriptors(const struct hook_config *config)
{
	int fds[HOOK_DESCRIPTORS] = {-1, -1}, to;

	fds[HOOK_MAPS] = open_own("/proc/thread-self/maps");
	fds[HOOK_MEM] = open_own("/proc/thread-self/mem");
	to = fds[HOOK_MAPS] >= 0 && fds[HOOK_MEM] >= 0 ? reach_daemon(config) : -1;
	if (to >= 0) {
		send_both(to, fds);
		(void)sys1(SYS_close, to);
	}
	for (int i = 0; i < HOOK_DESCRIPTORS; i++) {
		if (fds[i] >= 0)
			(void)sys1(SYS_close, fds[i]);
	}
}

void hook_answer(const struct hook_config *config)
{
	bool guarded, hidden;

	if (!config->address_len)
		return;
	guarded = guard_begin();
	/* What is not dumpable keeps its memory from others for a reason. */
	hidden = sys1(SYS_prctl, PR_GET_DUMPABLE) != 1;
	if (!hidden) {
		send_descriptors(config);
	} else if (config->nondumpable) {
		long was = sys1(SYS_prctl, PR_GET_DUMPABLE);

		/* Its files in /proc belong to root until it is dumpable. */
		if (sys2(SYS_prctl, PR_SET_DUMPABLE, 1) == 0) {
			send_descriptors(config);
			/* 2 (suidsafe) cannot be set by a process: the stricter 0 stands for it. */
			(void)sys2(SYS_prctl, PR_SET_DUMPABLE, was == 1);
		}
	}
	if (guarded)
		guard_end();
}
