/* fd-message.c - see fd-message.h.
 *
 * The room for control data is CMSG_LEN(), not CMSG_SPACE(): its padding would have room for one descriptor more. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd-message.h"

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(FD_MESSAGE_MAX * sizeof(int))];
};

ssize_t fd_message_send(int to, const void *data, size_t len, const int *fds, size_t n, int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control = {0};
	ssize_t sent;

	assert(n <= FD_MESSAGE_MAX);
	if (n) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	do {
		sent = sendmsg(to, &m, MSG_NOSIGNAL | flags);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

ssize_t fd_message_receive(int from, void *to, size_t room, size_t max, int flags,
			   struct fd_message *ret)
{
	struct iovec iov = {.iov_base = to, .iov_len = room};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control;
	struct cmsghdr *c;
	ssize_t n;

	assert(max <= FD_MESSAGE_MAX);
	*ret = (struct fd_message){0};
	do {
		m.msg_control = max ? control.bytes : NULL;
		m.msg_controllen = max ? CMSG_LEN(max * sizeof(int)) : 0;
		n = recvmsg(from, &m, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	ret->more = m.msg_flags & MSG_CTRUNC;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret->fds, CMSG_DATA(c), ret->n * sizeof(int));
	}
	if (!n)
		fd_message_close(ret);
	return n;
}

void fd_message_close(struct fd_message *m)
{
	for (; m->n; m->n--)
		(void)fd_close(m->fds[m->n - 1]);
}
