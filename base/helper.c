/* helper.c - see helper.h.  The process is a base/child.h: it ends with its socket, with the thread
 * that made it, or by SIGKILL. */
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/helper.h"

enum {
	PAGE = 4096,
	DEATH_MS = 20, /* how long an end is waited for; a process that is idle takes one or two */
};

struct window {
	uint8_t *at; /* [page: mark][room] */
	size_t room;
};

struct helper {
	const char *name, *partner_name;
	pid_t pid, partner; /* -1: none */
	int fd;
	struct window window, partner_window;
	bool busy, ended;
	size_t answer_len, partner_len;
};

enum head_kind { ANSWER = 1, QUESTION };
struct head {
	uint64_t kind;
	uint64_t len, partner_len; /* of an answer */
};

/* ---- messages ---- */

/* Up to @room bytes and one descriptor, -1: none; 0: the other side is gone.  Further descriptors, and all where @ret_fd
 * is NULL, are dropped by the kernel. */
static ssize_t receive(int fd, void *to, size_t room, int *ret_fd, int flags)
{
	struct fd_message m;
	ssize_t n = fd_message_receive(fd, to, room, ret_fd ? 1 : 0, flags, &m);

	if (ret_fd)
		*ret_fd = m.n ? m.fds[0] : -1;
	return n;
}

static int deliver(int fd, const void *data, size_t len, int sent_fd)
{
	ssize_t n = fd_message_send(fd, data, len, &sent_fd, sent_fd >= 0 ? 1 : 0, 0);

	return n < 0 ? (int)n : 0;
}

/* ---- the helper process ---- */

struct start {
	int fds[CHILD_KEPT]; /* the socket, and that of the partner, -1: none */
	bool is_partner;
	struct window window; /* `at` NULL: it comes as the first message */
	const struct helper_role *role;
	const void *arg; /* NULL: `bytes` */
	_Alignas(8) uint8_t bytes[HELPER_ARG_MAX];
};
_Static_assert(sizeof(struct start) <= CHILD_ARG_MAX && offsetof(struct start, fds) == 0,
	       "as the spare passes it on");

static bool serve_one(const struct start *s, void *kept, uint8_t *request)
{
	struct helper_call call = {
		.request = request,
		.answer = s->window.at + PAGE,
		.room = s->window.room,
		.answer_fd = -1,
		.mark = (_Atomic uint64_t *)(void *)s->window.at,
		.partner = s->fds[s->is_partner ? 0 : 1],
	};
	ssize_t n = receive(s->fds[0], request, HELPER_REQUEST_MAX, &call.fd, 0);
	struct head head = {.kind = ANSWER};
	int r;

	if (n <= 0)
		return false;
	call.request_len = (size_t)n;
	s->role->serve(kept, &call);
	atomic_store(call.mark, 0);
	head.len = call.answer_len;
	head.partner_len = call.partner_len;
	r = call.partner_lost ? -EPIPE : deliver(s->fds[0], &head, sizeof(head), call.answer_fd);
	(void)fd_close(call.fd);
	(void)fd_close(call.answer_fd);
	return r >= 0;
}

enum { IDLE_MS = 200 };

/* A request can need many megabytes, which the allocator keeps for the next one: they go back when none comes. */
static void wait_idle(int fd)
{
#ifdef __GLIBC__
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, IDLE_MS) == 0)
		(void)malloc_trim(0);
#endif
}

static void receive_window(int from, struct window *w)
{
	_cleanup_(fd_closep) int fd = -1;

	if (receive(from, &w->room, sizeof(w->room), &fd, 0) != sizeof(w->room))
		return;
	w->at = mmap(NULL, PAGE + w->room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (w->at == MAP_FAILED)
		w->at = NULL;
}

static void helper_run(void *arg)
{
	struct start *s = arg;
	uint8_t *request = malloc(HELPER_REQUEST_MAX);
	void *kept = s->role->begin ? s->role->begin(s->arg ? s->arg : s->bytes) : NULL;

	if (!s->window.at)
		receive_window(s->fds[0], &s->window);
	while (request && s->window.at && (kept || !s->role->begin) && serve_one(s, kept, request))
		wait_idle(s->fds[0]);
}

/* ---- between two ---- */

static int lose(struct helper_call *call)
{
	call->partner_lost = true;
	return fail(-EPIPE);
}

int helper_partner_reply(struct helper_call *call, const void *reply, size_t len, int fd)
{
	return deliver(call->partner, reply, len, fd) < 0 ? lose(call) : 0;
}

int helper_partner_ask(struct helper_call *call, const void *request, size_t len, int fd)
{
	if (len > HELPER_REQUEST_MAX)
		return fail(-EMSGSIZE);
	return trace(helper_partner_reply(call, request, len, fd));
}

int helper_partner_receive(struct helper_call *call, void *question, size_t room, size_t *ret_len)
{
	uint8_t bytes[sizeof(struct head) + HELPER_REQUEST_MAX];
	struct head head;
	ssize_t n = receive(call->partner, bytes, sizeof(bytes), NULL, 0);

	if (n < (ssize_t)sizeof(head))
		return lose(call);
	memcpy(&head, bytes, sizeof(head));
	n -= (ssize_t)sizeof(head);
	if (head.kind == QUESTION && (size_t)n <= room) {
		memcpy(question, bytes + sizeof(head), (size_t)n);
		*ret_len = (size_t)n;
		return HELPER_ASKED;
	}
	if (head.kind != ANSWER)
		return lose(call);
	call->partner_len = head.len;
	return 0;
}

int helper_send_back(struct helper_call *call, const void *word, size_t len)
{
	uint8_t bytes[sizeof(struct head) + HELPER_REQUEST_MAX];
	const struct head head = {.kind = QUESTION};

	if (len > HELPER_REQUEST_MAX)
		return fail(-EMSGSIZE);
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), word, len);
	return trace(deliver(call->partner, bytes, sizeof(head) + len, -1));
}

ssize_t helper_ask_back(struct helper_call *call, const void *question, size_t len, void *reply,
			size_t room, int *ret_fd)
{
	int r = helper_send_back(call, question, len);
	ssize_t n;

	if (r < 0)
		return trace(r);
	n = receive(call->partner, reply, room, ret_fd, 0);
	if (n > 0)
		return n;
	_exit(0); /* the first one has ended, and so the request */
}

/* ---- the asker ---- */

/* Memory for a window that a process gets as a descriptor; it can write to it, and not shrink it under us.  -1: none (a limit on
 * the size of files counts here too, and the kernel would send a signal). */
static int window_memory(size_t len)
{
	_cleanup_(fd_closep) int fd = -1;
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur < len)
		return -1;
	fd = memfd_create("window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)len) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	return take_fd(fd);
}

/* Address space only; where the kernel does not overcommit, a smaller window has to suffice.  @fd: its memory, -1: a child that is
 * forked from here has it.
 */
static int make_window(struct window *w, size_t room, int fd)
{
	void *window = MAP_FAILED;

	for (; room >= PAGE; room /= 2) {
		window = mmap(NULL, PAGE + room, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
		if (window != MAP_FAILED)
			break;
	}
	if (window == MAP_FAILED)
		return fail(-ENOMEM);
	*w = (struct window){window, room};
	return 0;
}

/* One of the processes, with its window: processes that are made later do not need it.  @own: our end of its socket. */
static int start_process(struct window *window, struct start *start, int own, pid_t *ret_pid)
{
	const struct helper_role *role = start->role;
	_cleanup_(fd_closep) int memory = role->from_spare ? window_memory(PAGE + role->room) : -1;
	struct child child = {
		.name = role->name,
		.keep = {start->fds[0], start->fds[1]},
		.rights = role->rights,
		.calls = role->calls,
		.other_user = role->other_user,
		.run = helper_run,
		.arg = start,
		.arg_size = memory >= 0 ? sizeof(*start) : 0,
	};
	int r = make_window(window, role->room, memory);

	if (r >= 0 && memory >= 0) {
		(void)madvise(window->at, PAGE + window->room, MADV_DONTFORK);
		r = deliver(own, &window->room, sizeof(window->room), memory);
	}
	if (memory < 0)
		start->window = *window;
	if (r >= 0)
		r = child_start(&child, ret_pid);
	if (r >= 0)
		(void)madvise(window->at, PAGE + window->room, MADV_DONTFORK);
	return trace(r);
}

static struct start start_of(const struct helper_role *role, const void *arg)
{
	struct start start = {.role = role, .fds = {-1, -1}, .arg = arg};

	if (role->from_spare && role->arg_size <= sizeof(start.bytes)) {
		start.arg = NULL;
		if (role->arg_size)
			memcpy(start.bytes, arg, role->arg_size);
	}
	return start;
}

static int start_partner(struct helper *h, const struct helper_role *role, const void *arg,
			 int *ret_fd)
{
	struct start start = start_of(role, arg);
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	start.is_partner = true;
	start.fds[0] = pair[1];
	r = start_process(&h->partner_window, &start, pair[0], &h->partner);
	(void)fd_close(pair[1]);
	if (r >= 0)
		*ret_fd = pair[0];
	else
		(void)fd_close(pair[0]);
	return trace(r);
}

static int helper_start(struct helper *h, const struct helper_role *role, const void *arg)
{
	_cleanup_(fd_closep) int partner = -1;
	struct start start = start_of(role, arg);
	int pair[2], r = role->partner ? start_partner(h, role->partner, arg, &partner) : 0;

	if (r < 0)
		return trace(r);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	start.fds[0] = pair[1];
	start.fds[1] = partner;
	h->fd = pair[0];
	r = start_process(&h->window, &start, pair[0], &h->pid);
	(void)fd_close(pair[1]);
	return trace(r);
}

int helper_new(const struct helper_role *role, const void *arg, struct helper **ret_helper)
{
	struct helper *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return fail(-ENOMEM);
	h->name = role->name;
	h->partner_name = role->partner ? role->partner->name : NULL;
	h->fd = -1;
	h->pid = h->partner = -1;
	r = helper_start(h, role, arg);
	if (r < 0) {
		(void)helper_free(h);
		return fail(r);
	}
	*ret_helper = h;
	return 0;
}

static void window_free(struct window *w)
{
	if (w->at)
		(void)munmap(w->at, PAGE + w->room);
}

struct helper *helper_free(struct helper *h)
{
	if (!h)
		return NULL;
	if (h->partner > 0)
		(void)kill(h->partner, SIGKILL); /* so that both end at a time */
	if (h->pid > 0)
		child_end(h->pid, h->name, DEATH_MS);
	if (h->partner > 0)
		child_end(h->partner, h->partner_name, DEATH_MS);
	(void)fd_close(h->fd);
	window_free(&h->window);
	window_free(&h->partner_window);
	free(h);
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
	struct head head;
	int fd;
	ssize_t n;

	if (!h->busy)
		return h->ended ? -EPIPE : fail(-EINVAL);
	n = receive(h->fd, &head, sizeof(head), &fd, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return HELPER_WAITING;
	h->busy = false;
	if (n != sizeof(head) || head.len > h->window.room ||
	    head.partner_len > h->partner_window.room) {
		(void)fd_close(fd);
		h->ended = true;
		return -EPIPE;
	}
	h->answer_len = head.len;
	h->partner_len = head.partner_len;
	*ret_answer = h->window.at + PAGE;
	*ret_len = head.len;
	*ret_fd = fd;
	return 0;
}

const uint8_t *helper_partner_answer(const struct helper *h, size_t *ret_len)
{
	*ret_len = h->partner_len;
	return h->partner_len ? h->partner_window.at + PAGE : NULL;
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

static void empty(const struct window *w, size_t *len)
{
	if (*len > HELPER_KEPT_BYTES)
		(void)madvise(w->at + PAGE, w->room, MADV_REMOVE);
	*len = 0;
}

void helper_done(struct helper *h)
{
	empty(&h->window, &h->answer_len);
	empty(&h->partner_window, &h->partner_len);
}

int helper_fd(const struct helper *h)
{
	return h->fd;
}

int helper_pid(const struct helper *h)
{
	return h->pid;
}

int helper_partner_pid(const struct helper *h)
{
	return h->partner;
}

uint64_t helper_mark(const struct helper *h)
{
	return atomic_load((const _Atomic uint64_t *)(const void *)h->window.at);
}

static uint64_t cpu_ns_of(pid_t pid)
{
	clockid_t clock;
	struct timespec ts;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t helper_cpu_ns(const struct helper *h)
{
	return cpu_ns_of(h->pid) + cpu_ns_of(h->partner);
}

bool helper_runnable(const struct helper *h)
{
	return child_runnable(h->pid) || (h->partner > 0 && child_runnable(h->partner));
}
