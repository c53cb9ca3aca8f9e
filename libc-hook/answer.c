/* answer.c - see answer.h.
 *
 * Runs in a signal handler of another program: system calls only, no allocation, no lock, no libc
 * function.  /proc/thread-self rather than /proc/self: after the main thread's pthread_exit()
 * /proc/self/maps reads empty.
 *
 * No state of the process is changed, except for one moment where it is not dumpable and has opted
 * in nevertheless: its mem then belongs to root, and can be opened while the process is dumpable.
 * (maps always opens.)  No fork() falls into that moment (life.h).  Threads that answer at the same
 * time may undo each other's: hence again. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "libc-hook/answer.h"
#include "libc-hook/hook-proto.h"
#include "libc-hook/life.h"
#include "libc-hook/syscalls.h"

enum { FIRST_FREE = 3, EXPOSE_TRIES = 4, SOCKET = HOOK_DESCRIPTORS };

/* For a child made by clone(): the descriptors of the last answer, and whether the process was
 * dumpable for it.  Not taken back afterwards, as a child's memory is copied later than its
 * descriptors. */
static struct {
	atomic_int fd;
	atomic_ulong inode;
} last[HOOK_DESCRIPTORS + 1];
static atomic_bool was_exposed;

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

static unsigned long inode_of(int fd)
{
	struct stat st;

	return sys2(SYS_fstat, fd, &st) < 0 ? 0 : st.st_ino;
}

static int keep(int which, long fd)
{
	int kept = above_stdio((int)fd);

	if (kept >= 0) {
		atomic_store(&last[which].fd, kept);
		atomic_store(&last[which].inode, inode_of(kept));
	}
	return kept;
}

static int open_own(int which)
{
	const char *path = which == HOOK_MAPS ? "/proc/thread-self/maps" : "/proc/thread-self/mem";

	return keep(which, sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
}

static int open_mem(bool may_expose)
{
	int fd = open_own(HOOK_MEM);

	for (int i = 0; i < EXPOSE_TRIES && fd == -EACCES && may_expose; i++) {
		if (sys1(SYS_prctl, PR_GET_DUMPABLE) != 1) {
			atomic_store(&was_exposed, true);
			if (sys2(SYS_prctl, PR_SET_DUMPABLE, 1) < 0)
				return fd;
			fd = open_own(HOOK_MEM);
			/* 2 (suidsafe) cannot be set by a process: the stricter 0 stands for it. */
			(void)sys2(SYS_prctl, PR_SET_DUMPABLE, 0);
		} else {
			fd = open_own(HOOK_MEM);
		}
	}
	return fd;
}

static int reach_daemon(const struct hook_config *config)
{
	static const struct timeval wait = {.tv_usec = ANSWER_WAIT_MS * 1000};
	int fd = keep(SOCKET, sys3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	long r;

	if (fd < 0)
		return fd;
	/* While its backlog is full, wait in the kernel's queue: with retries, another process that
	 * waits there would always be accepted first. */
	r = sys5(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (r == 0)
		r = sys3(SYS_connect, fd, &config->address, config->address_len);
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

static void send_descriptors(const struct hook_config *config, bool may_expose)
{
	int fds[HOOK_DESCRIPTORS], to = -1;

	fds[HOOK_MEM] = open_mem(may_expose);
	fds[HOOK_MAPS] = fds[HOOK_MEM] >= 0 ? open_own(HOOK_MAPS) : -1;
	if (fds[HOOK_MAPS] >= 0)
		to = reach_daemon(config);
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
	enum life_answer how;

	if (!config->address_len)
		return;
	/* A process that is not dumpable hides its memory for a reason. */
	if (!config->nondumpable && sys1(SYS_prctl, PR_GET_DUMPABLE) != 1)
		return;
	how = life_answer();
	if (how == LIFE_FORKING)
		return;
	/* The memory's owner would stay dumpable if its child of vfork() were killed meanwhile. */
	send_descriptors(config, config->nondumpable && how == LIFE_OWN);
	if (how == LIFE_OWN)
		life_answered();
}

/* ---- a child of clone() ---- */

void hook_answer_leftovers(bool undo)
{
	for (int i = 0; i <= HOOK_DESCRIPTORS; i++) {
		int fd = atomic_exchange(&last[i].fd, 0);
		unsigned long inode = atomic_load(&last[i].inode);

		if (fd && undo && inode && inode_of(fd) == inode)
			(void)sys1(SYS_close, fd);
	}
	if (atomic_exchange(&was_exposed, false) && undo && sys1(SYS_prctl, PR_GET_DUMPABLE) == 1)
		(void)sys2(SYS_prctl, PR_SET_DUMPABLE, 0);
}
