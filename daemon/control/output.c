/* output.c - see output.h.  Thread: the helper process's, which may hang.
 * The look is by getsockopt() and getpeername(), which ask nothing of a file system: what is no
 * socket says ENOTSOCK, and fstat() of it might never answer. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"
#include "daemon/control/output.h"

enum { FDS = 2 }; /* one, and another that says that there are more */

const char *output_reason(enum output_verdict verdict)
{
	static const char *const reasons[OUTPUT_VERDICTS] = {
		[OUTPUT_GOOD] = "",
		[OUTPUT_NONE] = "no descriptor for the packets came with the request",
		[OUTPUT_MANY] = "more descriptors came than the one for the packets",
		[OUTPUT_NOT_RECEIVED] = "the descriptor for the packets may not be received here",
		[OUTPUT_NO_SOCKET] = "the descriptor for the packets is no socket: one end of "
				     "socketpair(AF_UNIX, SOCK_STREAM) is taken",
		[OUTPUT_NOT_UNIX] = "the socket for the packets is not AF_UNIX: one end of "
				    "socketpair(AF_UNIX, SOCK_STREAM) is taken",
		[OUTPUT_NO_STREAM] = "the socket for the packets is not SOCK_STREAM",
		[OUTPUT_NOT_CONNECTED] = "the socket for the packets is not connected",
		[OUTPUT_NAMED] =
			"the socket for the packets leads to a socket with a name: one end "
			"of socketpair(AF_UNIX, SOCK_STREAM) is taken",
	};

	return (size_t)verdict < OUTPUT_VERDICTS ? reasons[verdict] : "";
}

/* -1: not even a socket. */
static int option_of(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

static bool is_unnamed(int fd, int (*name_of)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_un at;
	socklen_t len = sizeof(at);

	return name_of(fd, (struct sockaddr *)&at, &len) == 0 && len <= sizeof(sa_family_t);
}

static int own_name(int fd, struct sockaddr *at, socklen_t *len)
{
	return getsockname(fd, at, len);
}

static int peer_name(int fd, struct sockaddr *at, socklen_t *len)
{
	return getpeername(fd, at, len);
}

static enum output_verdict judge(int fd)
{
	struct sockaddr_un at;
	socklen_t len = sizeof(at);
	int domain = option_of(fd, SO_DOMAIN);

	if (domain < 0)
		return OUTPUT_NO_SOCKET;
	if (domain != AF_UNIX)
		return OUTPUT_NOT_UNIX;
	if (option_of(fd, SO_TYPE) != SOCK_STREAM)
		return OUTPUT_NO_STREAM;
	if (option_of(fd, SO_ACCEPTCONN) || getpeername(fd, (struct sockaddr *)&at, &len) < 0)
		return OUTPUT_NOT_CONNECTED;
	return is_unnamed(fd, own_name) && is_unnamed(fd, peer_name) ? OUTPUT_GOOD : OUTPUT_NAMED;
}

enum output_verdict output_look(int connection, int fds[static 2], size_t *ret_n)
{
	union {
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(connection, &m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*ret_n = 0;
	if (n <= 0)
		return OUTPUT_NONE;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*ret_n = min_u64((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), FDS);
		memcpy(fds, CMSG_DATA(c), *ret_n * sizeof(int));
	}
	/* What was cut off stays in the queue. */
	if (*ret_n == FDS || (*ret_n && (m.msg_flags & MSG_CTRUNC)))
		return OUTPUT_MANY;
	if (!*ret_n) /* a security module may keep it from us */
		return m.msg_flags & MSG_CTRUNC ? OUTPUT_NOT_RECEIVED : OUTPUT_NONE;
	return judge(fds[0]);
}

/* ---- the role ---- */

struct looked {
	int fds[FDS];
	size_t n;
};

static void *begin(const void *arg)
{
	(void)arg;
	return calloc(1, sizeof(struct looked));
}

static void serve(void *kept, struct helper_call *call)
{
	struct looked *l = kept;

	for (size_t i = 0; i < l->n; i++)
		(void)fd_close(l->fds[i]);
	l->n = 0;
	call->answer[0] = OUTPUT_GOOD;
	call->answer_len = 1;
	if (call->request_len != 1 || call->request[0] != OUTPUT_LOOK)
		return;
	call->answer[0] = (uint8_t)output_look(call->fd, l->fds, &l->n);
	if (call->answer[0] != OUTPUT_GOOD)
		return;
	call->answer_fd = l->fds[0];
	l->n = 0;
}

const struct helper_role output_role = {
	.name = OUTPUT_NAME,
	.room = 4096,
	.calls = CHILD_CALLS_GIVEN,
	.begin = begin,
	.serve = serve,
};
