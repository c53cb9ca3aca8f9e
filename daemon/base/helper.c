/* helper.c - see helper.h.
 *
 * The child of a process with threads: it has the one thread that forked, and of the locks of the
 * libraries only the allocator's are put right by fork().  So it takes no other: it logs nothing and
 * uses stdio on memory alone.  All signals are blocked, as a terminal's Ctrl-C reaches it too, and
 * what was asked before is still to be answered; it ends with its socket, with the thread that made
 * it (PR_SET_PDEATHSIG), or by SIGKILL.
 *
 * One that sleeps in the kernel for good stays a child of ours after SIGKILL.  These are kept in a
 * list and reaped when the next helper is made or freed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/helper.h"

enum {
	PAGE = 4096,
	DEATH_MS = 20, /* how long an end is waited for; a process that is idle takes one or two */
	LEFT_MAX = 256,
};

struct helper {
	pid_t pid;
	int fd, pidfd;
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

/* Nothing of ours stays open in it: an output file, a pipe whose reader waits for its end, the
 * events of a recording. */
static void keep_only(int fd)
{
	for (int i = 0; i < 3; i++)
		(void)close(i);
	for (int i = 0; i < 3; i++)
		(void)open("/dev/null", O_RDWR); /* NOLINT: 0, 1 and 2, and not to be closed */
	if (fd > 3)
		(void)syscall(SYS_close_range, 3u, (unsigned)fd - 1, 0u);
	(void)syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0u);
}

static void __attribute__((noreturn)) helper_run(const struct helper *h, int fd, pid_t parent,
						 const struct helper_role *role, const void *arg)
{
	uint8_t *request;
	void *kept;

	log_level = LOG_LEVEL_QUIET;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_NAME, role->name);
	/* The road's priority is not for this. */
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	keep_only(fd);
	request = malloc(HELPER_REQUEST_MAX);
	kept = role->begin ? role->begin(arg) : NULL;
	while (request && (kept || !role->begin) && serve_one(h, fd, role, kept, request))
		;
	_exit(0);
}

/* ---- the list of those that did not die ---- */

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t left[LEFT_MAX]; /* children are the process's, not a session's: hence here */
static size_t n_left;

static void reap_left(void)
{
	(void)pthread_mutex_lock(&left_lock);
	for (size_t i = 0; i < n_left;) {
		if (waitpid(left[i], NULL, WNOHANG) == 0)
			i++;
		else
			left[i] = left[--n_left];
	}
	(void)pthread_mutex_unlock(&left_lock);
}

static void leave(pid_t pid)
{
	(void)pthread_mutex_lock(&left_lock);
	if (n_left < LEFT_MAX)
		left[n_left++] = pid;
	(void)pthread_mutex_unlock(&left_lock);
}

/* ---- the asker ---- */

static int helper_start(struct helper *h, const struct helper_role *role, const void *arg)
{
	pid_t parent = getpid();
	sigset_t all, before;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	h->pid = fork();
	if (h->pid == 0)
		helper_run(h, pair[1], parent, role, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)fd_close(pair[1]);
	h->fd = pair[0];
	if (h->pid < 0)
		return fail(-errno);
	/* later helpers have no use for this one's window */
	(void)madvise(h->window, PAGE + h->room, MADV_DONTFORK);
	h->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	return h->pidfd < 0 ? fail(-errno) : 0;
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
	reap_left();
	h->fd = h->pidfd = -1;
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

/* Until the process is there no more, some milliseconds at most. */
static bool reap(const struct helper *h)
{
	struct pollfd pfd = {.fd = h->pidfd, .events = POLLIN};

	if (h->pidfd >= 0 && waitpid(h->pid, NULL, WNOHANG) == 0) {
		(void)poll(&pfd, 1, DEATH_MS);
		return waitpid(h->pid, NULL, WNOHANG) != 0;
	}
	return h->pidfd >= 0 || waitpid(h->pid, NULL, WNOHANG) != 0;
}

struct helper *helper_free(struct helper *h)
{
	if (!h)
		return NULL;
	if (h->pid > 0) {
		/* It is not reaped yet, so the number is still its own. */
		(void)kill(h->pid, SIGKILL);
		if (!reap(h))
			leave(h->pid);
	}
	(void)fd_close(h->fd);
	(void)fd_close(h->pidfd);
	if (h->window)
		(void)munmap(h->window, PAGE + h->room);
	free(h);
	reap_left();
	return NULL;
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
	char path[64];
	_cleanup_(freep) char *text = NULL;
	const char *state;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", h->pid);
	if (read_file(path, 4096, &text, NULL) < 0)
		return false;
	state = strrchr(text, ')'); /* "PID (NAME) STATE ..." */
	return state && state[1] == ' ' && state[2] == 'R';
}
