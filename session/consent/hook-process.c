/* hook-process.c - the hook process (hook-process.h): a child of base/child.h that ends with its
 * channel. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "session/consent/hook-process.h"
#include "session/consent/hook-server.h"

struct hook_work {
	_Atomic uint64_t at_work;
	_Atomic uint64_t counts[HOOK_VERDICTS];
};

struct message {
	uint32_t what, value;
};

/* ---- the child ---- */

struct server {
	struct hook_server server;
	int channel;
	bool begun;
};

static int report(struct server *c, uint32_t kind, uint32_t value, const int *fds)
{
	const struct hook_report r = {.kind = kind, .value = value};
	ssize_t n = fd_message_send(c->channel, &r, sizeof(r), fds, fds ? HOOK_DESCRIPTORS : 0,
				    MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

static int verified(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	return report(arg, HOOK_REPORT_FILES, pid, fds);
}

static void taken(void *arg, uint32_t pid)
{
	(void)report(arg, HOOK_REPORT_TAKEN, pid, NULL);
}

static void lost(void *arg, uint32_t pid)
{
	(void)report(arg, HOOK_REPORT_LOST, pid, NULL);
}

/* false: main is gone. */
static bool listen_to_main(struct server *c)
{
	struct message message;
	ssize_t n;

	while ((n = recv(c->channel, &message, sizeof(message), MSG_DONTWAIT)) == sizeof(message)) {
		if (message.what == HOOK_SEND_EXPECT)
			(void)hook_server_expect(&c->server, message.value);
		else if (message.what == HOOK_SEND_FORGET)
			hook_server_forget(&c->server, message.value);
		else if (message.what == HOOK_SEND_BEGIN)
			c->begun = true;
		else
			(void)report(c, HOOK_REPORT_PONG, message.value, NULL);
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void hear_main(void *arg)
{
	(void)listen_to_main(arg); /* the next wait notices an end of main */
}

static void run(void *arg)
{
	struct server *c = arg;
	bool message = false;

	hook_server_init(&c->server);
	while (!c->begun) {
		struct pollfd pfd = {.fd = c->channel, .events = POLLIN};

		if (poll(&pfd, 1, -1) == 1 && !listen_to_main(c))
			return;
	}
	for (;;) {
		/* The messages of main come first: they name the processes that were just asked. */
		if (hook_server_wait(&c->server, c->channel, -1, &message) < 0 ||
		    !listen_to_main(c))
			return;
		hook_server_take(&c->server);
	}
}

/* ---- main ---- */

int hook_process_start(int listen_fd, bool peer_pidfd, struct hook_process *ret_process)
{
	struct hook_work *work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct server server = {
		.server = {.listen_fd = listen_fd,
			   .peer_pidfd = peer_pidfd,
			   .at_work = &work->at_work,
			   .counts = work->counts,
			   .verified = verified,
			   .taken = taken,
			   .lost = lost,
			   .hear = hear_main,
			   .arg = &server},
	};
	struct child child = {
		.name = HOOK_PROCESS_NAME, .calls = CHILD_CALLS_ACCEPT, .run = run, .arg = &server};
	int pair[2], r;
	pid_t pid;

	if (work == MAP_FAILED)
		return fail(-errno);
	r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? fail(-errno) : 0;
	if (r >= 0) {
		server.channel = child.keep[0] = pair[1];
		child.keep[1] = listen_fd;
		r = child_start(&child, &pid);
		(void)madvise(work, sizeof(*work), MADV_DONTFORK); /* for this child alone */
		(void)fd_close(pair[1]);
		if (r < 0)
			(void)fd_close(pair[0]);
	}
	if (r < 0) {
		(void)munmap(work, sizeof(*work));
		return trace(r);
	}
	*ret_process = (struct hook_process){.pid = pid, .fd = pair[0], .work = work};
	return 0;
}

int hook_process_send(struct hook_process *p, enum hook_message what, uint32_t value)
{
	const struct message message = {.what = what, .value = value};

	if (send(p->fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return fail(errno == EAGAIN ? -EAGAIN : -EPIPE);
}

int hook_process_hear(struct hook_process *p, struct hook_report *ret_report,
		      int ret_fds[static HOOK_DESCRIPTORS])
{
	struct hook_report r;
	struct fd_message m;
	ssize_t n = fd_message_receive(p->fd, &r, sizeof(r), HOOK_DESCRIPTORS, MSG_DONTWAIT, &m);

	if (n == -EAGAIN)
		return -EAGAIN; /* the normal end of a round */
	if (n != sizeof(r)) {
		fd_message_close(&m);
		return fail(-EPIPE);
	}
	for (size_t i = 0; i < HOOK_DESCRIPTORS; i++)
		ret_fds[i] = i < m.n ? m.fds[i] : -1;
	*ret_report = r;
	return 0;
}

uint32_t hook_process_at_work(const struct hook_process *p, uint32_t *ret_uid)
{
	uint64_t at_work = p->fd >= 0 ? atomic_load(&p->work->at_work) : 0;

	*ret_uid = hook_at_work_uid(at_work);
	return hook_at_work_pid(at_work);
}

void hook_process_counts(const struct hook_process *p, uint64_t ret_counts[static HOOK_VERDICTS])
{
	for (int i = 0; i < HOOK_VERDICTS; i++)
		ret_counts[i] = p->fd >= 0 ? atomic_load(&p->work->counts[i]) : 0;
}

void hook_process_end(struct hook_process *p, int wait_ms, uint64_t counts[static HOOK_VERDICTS])
{
	if (p->fd < 0)
		return;
	p->fd = fd_close(p->fd);
	child_end(p->pid, HOOK_PROCESS_NAME, wait_ms);
	for (int i = 0; i < HOOK_VERDICTS; i++)
		counts[i] += atomic_load(&p->work->counts[i]);
	(void)munmap(p->work, sizeof(*p->work));
}
