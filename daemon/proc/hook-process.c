/* hook-process.c - see hook-process.h.
 *
 * fork() without exec, possibly out of a process with threads: what runs in the child takes no lock
 * that another thread could have held (no log; malloc is usable in the child of fork in every libc
 * that we know).  It closes all that it inherited at once, so that nobody's pipe stays open through
 * it, and ends with the channel. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/proc/hook-process.h"
#include "daemon/proc/hook-server.h"

struct hook_work {
	_Atomic uint32_t pid;
};

struct said {
	uint32_t what, value;
};

/* ---- the child ---- */

struct child {
	struct hook_server server;
	int channel;
	bool begun;
};

static int report(struct child *c, uint32_t kind, uint32_t value, const int *fds)
{
	struct hook_report r = {.kind = kind, .value = value};
	struct iovec iov = {.iov_base = &r, .iov_len = sizeof(r)};
	union {
		char bytes[CMSG_SPACE(HOOK_DESCRIPTORS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	memcpy(r.counts, c->server.counts, sizeof(r.counts));
	if (fds) {
		struct cmsghdr *h;

		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(HOOK_DESCRIPTORS * sizeof(int));
		memcpy(CMSG_DATA(h), fds, HOOK_DESCRIPTORS * sizeof(int));
	}
	return sendmsg(c->channel, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int verified(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	return report(arg, HOOK_REPORT_FILES, pid, fds);
}

/* false: main is gone. */
static bool listen_to_main(struct child *c)
{
	struct said said;
	ssize_t n;

	while ((n = recv(c->channel, &said, sizeof(said), MSG_DONTWAIT)) == sizeof(said)) {
		if (said.what == HOOK_SAY_EXPECT)
			(void)hook_server_expect(&c->server, said.value);
		else if (said.what == HOOK_SAY_FORGET)
			hook_server_forget(&c->server, said.value);
		else if (said.what == HOOK_SAY_BEGIN)
			c->begun = true;
		else
			(void)report(c, HOOK_REPORT_PONG, said.value, NULL);
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void hear_main(void *arg)
{
	(void)listen_to_main(arg); /* that main is gone is seen by the next wait */
}

static void close_all_but(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;

	if (low > 0)
		(void)syscall(SYS_close_range, 0, low - 1, 0);
	if (high > low + 1)
		(void)syscall(SYS_close_range, low + 1, high - 1, 0);
	(void)syscall(SYS_close_range, high + 1, ~0u, 0);
}

static void run(struct child *c)
{
	bool said = false;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "pw-hook");
	close_all_but(c->channel, c->server.listen_fd);
	hook_server_init(&c->server);
	while (!c->begun) {
		struct pollfd pfd = {.fd = c->channel, .events = POLLIN};

		if (poll(&pfd, 1, -1) == 1 && !listen_to_main(c))
			return;
	}
	for (;;) {
		/* What main says comes first: that it expects whom it has just asked. */
		if (hook_server_wait(&c->server, c->channel, -1, &said) < 0 || !listen_to_main(c))
			return;
		hook_server_take(&c->server);
	}
}

/* ---- main ---- */

int hook_process_start(int listen_fd, bool peer_pidfd, struct hook_process *ret_process)
{
	struct hook_work *work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child = {
		.server = {.listen_fd = listen_fd,
			   .peer_pidfd = peer_pidfd,
			   .verified = verified,
			   .hear = hear_main},
	};
	int pair[2];
	pid_t pid;

	if (work == MAP_FAILED)
		return fail(-errno);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		int e = errno;

		(void)munmap(work, sizeof(*work));
		return fail(-e);
	}
	pid = fork();
	if (!pid) {
		child.channel = pair[1];
		child.server.at_work = &work->pid;
		child.server.arg = &child;
		run(&child);
		_exit(0);
	}
	(void)fd_close(pair[1]);
	if (pid < 0) {
		int e = errno;

		(void)fd_close(pair[0]);
		(void)munmap(work, sizeof(*work));
		return fail(-e);
	}
	*ret_process = (struct hook_process){.pid = pid, .fd = pair[0], .work = work};
	return 0;
}

int hook_process_say(struct hook_process *p, enum hook_say what, uint32_t value)
{
	const struct said said = {.what = what, .value = value};

	if (send(p->fd, &said, sizeof(said), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return fail(errno == EAGAIN ? -EAGAIN : -EPIPE);
}

int hook_process_hear(struct hook_process *p, struct hook_report *ret_report,
		      int ret_fds[static HOOK_DESCRIPTORS])
{
	struct hook_report r;
	struct iovec iov = {.iov_base = &r, .iov_len = sizeof(r)};
	union {
		char bytes[CMSG_SPACE(HOOK_DESCRIPTORS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c;
	ssize_t n = recvmsg(p->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN; /* the usual end of a round */
	if (n != sizeof(r))
		return fail(-EPIPE);
	for (size_t i = 0; i < HOOK_DESCRIPTORS; i++)
		ret_fds[i] = -1;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(c),
		       min_u64(c->cmsg_len - CMSG_LEN(0), HOOK_DESCRIPTORS * sizeof(int)));
	*ret_report = r;
	return 0;
}

uint32_t hook_process_at_work(const struct hook_process *p)
{
	return atomic_load(&p->work->pid);
}

pid_t hook_process_end(struct hook_process *p)
{
	pid_t pid = p->pid;

	if (p->fd < 0)
		return 0;
	p->fd = fd_close(p->fd);
	(void)munmap(p->work, sizeof(*p->work));
	(void)kill(pid, SIGKILL);
	return waitpid(pid, NULL, WNOHANG) == pid ? 0 : pid;
}
