/* closer.c - see closer.h.
 *
 *   shut for reading (nothing more can come) ─► looked into ─┬─ bytes only ──► closed here
 *                                                            └─ else ──► pw-close, over a socket pair
 *
 * Each message means that our copy of the descriptor in the message before is closed: then the copy
 * of the process is the last. A socket pair holds some hundreds of descriptors, even when the process is
 * stuck. When it is full (or rejects a socket that carries sockets that carry sockets), another
 * process is made, which inherits this descriptor; the old one is killed, and its exit closes its
 * descriptors: at exit sockets do not linger. Where no process can be made any more the connection
 * stays open: a descriptor is lost, but the thread does not hang. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/closer.h"
#include "base/error.h"
#include "base/fd-message.h"

enum { LEFT_MAX = 64, LOOK_BYTES = 4096 };

struct birth {
	int channel, first;
};

static void run(void *arg)
{
	struct birth *b = arg;
	int held = b->first;
	struct fd_message m;
	char byte;

	while (fd_message_receive(b->channel, &byte, 1, 1, 0, &m) > 0) {
		(void)fd_close(held);
		held = m.n ? m.fds[0] : -1;
	}
	(void)fd_close(held);
}

static int send_message(const struct closer *c, int fd)
{
	const char byte = 0;
	ssize_t n = fd_message_send(c->fd, &byte, 1, &fd, fd >= 0 ? 1 : 0, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

static int another(struct closer *c, int fd)
{
	struct birth birth = {.first = fd};
	struct child child = {
		.name = CLOSER_NAME, .calls = CHILD_CALLS_GIVEN, .run = run, .arg = &birth};
	int pair[2], r;

	if (child_left(CLOSER_NAME) >= LEFT_MAX)
		return fail(-EAGAIN);
	closer_deinit(c);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	birth.channel = child.keep[0] = pair[1];
	child.keep[1] = fd;
	r = child_start(&child, &c->pid);
	(void)fd_close(pair[1]);
	if (r < 0) {
		(void)fd_close(pair[0]);
		return trace(r);
	}
	c->fd = pair[0];
	return 0;
}

void closer_pass(struct closer *c, int fd)
{
	if ((!c->pid || send_message(c, fd) < 0) && another(c, fd) < 0)
		return;
	(void)fd_close(fd);
	(void)send_message(c, -1); /* if it does not fit, the next message means the same */
}

int closer_show_all(int fd)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0 ? fail(-errno) : 0;
}

ssize_t closer_receive(int fd, void *to, size_t room)
{
	struct iovec iov = {.iov_base = to, .iov_len = room};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1}; /* no room for descriptors */
	ssize_t n = closer_show_all(fd);

	if (n < 0)
		return trace((int)n);
	do {
		n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0 && (m.msg_flags & MSG_CTRUNC))
		return -EBADMSG;
	/* No more than was seen: later bytes may carry descriptors. */
	if (n > 0)
		n = recv(fd, to, (size_t)n, MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* The queue has only bytes, and all of it was seen: MSG_PEEK ends at an out-of-band byte, inline or
 * not. */
static bool is_bytes_only(int fd)
{
	char bytes[LOOK_BYTES];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int queued = 0;
	ssize_t n;

	if (closer_show_all(fd) < 0)
		return false;
	(void)shutdown(fd, SHUT_RD);
	n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	return ioctl(fd, FIONREAD, &queued) == 0 && queued == (n > 0 ? n : 0) &&
	       n < (ssize_t)sizeof(bytes) && !(m.msg_flags & MSG_CTRUNC);
}

void closer_close(struct closer *c, int fd)
{
	if (fd < 0)
		return;
	if (is_bytes_only(fd))
		(void)fd_close(fd);
	else
		closer_pass(c, fd);
}

void closer_init(struct closer *c)
{
	*c = (struct closer){.fd = -1};
}

void closer_deinit(struct closer *c)
{
	if (c->pid)
		child_end(c->pid, CLOSER_NAME, 0);
	(void)fd_close(c->fd);
	closer_init(c);
}
