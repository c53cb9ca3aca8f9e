/* helper.c - see helper.h.  The process is a base/child.h: it ends with its socket, with the thread
 * that made it, or by SIGKILL. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/error.h"
#include "daemon/base/helper.h"

enum {
	PAGE = 4096,
	DEATH_MS = 20, /* how long an end is waited for; a process that is idle takes one or two */
};

struct helper {
	const char *name;
	pid_t pid;
	int fd;
	uint8_t *window; /* [page: mark][room] */
	size_t room;
	bool busy, ended;
	size_t answer_len;
};

struct answer_head {
	uint64_t len;
};

/* ---- messages ---- */

/* Up to @room bytes and one descriptor; 0: the other side is gone. */
static ssize_t receive(int fd, void *to, size_t room, int *ret_fd, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = to, .iov_len = room};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	const struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	*ret_fd = -1;
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return n;
}

static int deliver(int fd, const void *data, size_t len, int sent_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (sent_fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &sent_fd, sizeof(int));
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* ---- the helper process ---- */

static bool serve_one(const struct helper *h, int fd, const struct helper_role *role, void *kept,
		      uint8_t *request)
{
	struct helper_call call = {
		.request = request,
		.answer = h->window + PAGE,
		.room = h->room,
		.answer_fd = -1,
		.mark = (_Atomic uint64_t *)(void *)h->window,
	};
	ssize_t n = receive(fd, request, HELPER_REQUEST_MAX, &call.fd, 0);
	struct answer_head head;
	int r;

	if (n <= 0)
		return false;
	call.request_len = (size_t)n;
	role->serve(kept, &call);
	atomic_store(call.mark, 0);
	head.len = call.answer_len;
	r = deliver(fd, &head, sizeof(head), call.answer_fd);
	(void)fd_close(call.fd);
	(void)fd_close(call.answer_fd);
	return r >= 0;
}

struct start {
	const struct helper *helper;
	const struct helper_role *role;
	const void *arg;
	int fd;
};

static void helper_run(void *arg)
{
	const struct start *s = arg;
	uint8_t *request = malloc(HELPER_REQUEST_MAX);
	void *kept = s->role->begin ? s->role->begin(s->arg) : NULL;

	while (request && (kept || !s->role->begin) &&
	       serve_one(s->helper, s->fd, s->role, kept, request))
		;
}

/* ---- the asker ---- */

static int helper_start(struct helper *h, const struct helper_role *role, const void *arg)
{
	struct start start = {.helper = h, .role = role, .arg = arg};
	struct child child = {
		.name = role->name,
		.rights = role->rights,
		.calls = role->calls,
		.run = helper_run,
		.arg = &start,
	};
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	start.fd = child.keep[0] = pair[1];
	child.keep[1] = -1;
	r = child_start(&child, &h->pid);
	(void)fd_close(pair[1]);
	h->fd = pair[0];
	if (r < 0)
		return trace(r);
	/* later helpers have no use for this one's window */
	(void)madvise(h->window, PAGE + h->room, MADV_DONTFORK);
	return 0;
}

/* Address space alone, but where the kernel promises no more than it has: then less has to do. */
static int make_window(struct helper *h, size_t room)
{
	void *window = MAP_FAILED;

	for (; room >= PAGE; room /= 2) {
		window = mmap(NULL, PAGE + room, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (window != MAP_FAILED)
			break;
	}
	if (window == MAP_FAILED)
		return fail(-ENOMEM);
	h->window = window;
	h->room = room;
	return 0;
}

int helper_new(const struct helper_role *role, const void *arg, struct helper **ret_helper)
{
	struct helper *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return fail(-ENOMEM);
	h->name = role->name;
	h->fd = -1;
	h->pid = -1;
	r = make_window(h, role->room);
	if (r >= 0)
		r = helper_start(h, role, arg);
	if (r < 0) {
		(void)helper_free(h);
		return fail(r);
	}
	*ret_helper = h;
	return 0;
}

static struct helper *end(struct helper *h, int wait_ms)
{
	if (!h)
		return NULL;
	if (h->pid > 0)
		child_end(h->pid, h->name, wait_ms);
	(void)fd_close(h->fd);
	if (h->window)
		(void)munmap(h->window, PAGE + h->room);
	free(h);
	return NULL;
}

struct helper *helper_free(struct helper *h)
{
	return end(h, DEATH_MS);
}

struct helper *helper_abandon(struct helper *h)
{
	return end(h, 0);
}

int helper_ask(struct helper *h, const void *request, size_t len, int fd)
{
	int r;

	if (h->ended)
		return -EPIPE;
	if (h->busy)
		return fail(-EBUSY);
	if (len > HELPER_REQUEST_MAX)
		return fail(-EMSGSIZE);
	r = deliver(h->fd, request, len, fd);
	if (r == -ECONNRESET || r == -EPIPE) {
		h->ended = true;
		return -EPIPE;
	}
	if (r < 0)
		return fail(r);
	h->busy = true;
	return 0;
}

int helper_answer(struct helper *h, const uint8_t **ret_answer, size_t *ret_len, int *ret_fd)
{
	struct answer_head head;
	int fd;
	ssize_t n;

	if (!h->busy)
		return h->ended ? -EPIPE : fail(-EINVAL);
	n = receive(h->fd, &head, sizeof(head), &fd, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return HELPER_WAITING;
	h->busy = false;
	if (n != sizeof(head) || head.len > h->room) {
		(void)fd_close(fd);
		h->ended = true;
		return -EPIPE;
	}
	h->answer_len = head.len;
	*ret_answer = h->window + PAGE;
	*ret_len = head.len;
	*ret_fd = fd;
	return 0;
}

int helper_wait(struct helper *h, uint64_t timeout_ns, const uint8_t **ret_answer, size_t *ret_len,
		int *ret_fd)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(timeout_ns % NSEC_PER_SEC),
	};
	struct pollfd pfd = {.fd = h->fd, .events = POLLIN};

	(void)ppoll(&pfd, 1, &timeout, NULL);
	return helper_answer(h, ret_answer, ret_len, ret_fd);
}

void helper_done(struct helper *h)
{
	if (h->answer_len > HELPER_KEPT_BYTES)
		(void)madvise(h->window + PAGE, h->room, MADV_REMOVE);
	h->answer_len = 0;
}

int helper_fd(const struct helper *h)
{
	return h->fd;
}

int helper_pid(const struct helper *h)
{
	return h->pid;
}

uint64_t helper_mark(const struct helper *h)
{
	return atomic_load((const _Atomic uint64_t *)(const void *)h->window);
}

uint64_t helper_cpu_ns(const struct helper *h)
{
	clockid_t clock;
	struct timespec ts;

	if (clock_getcpuclockid(h->pid, &clock) || clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

bool helper_runnable(const struct helper *h)
{
	return child_runnable(h->pid);
}
