/* fuzz-control.c - any bytes over the control socket, up to the unpacked request.
 *
 * Input: a byte that is the size of the pieces (0: all at once; from 240 on: all at once, and with the
 * first byte as many descriptors as it is above 240), then the peer's bytes.  Memory stays within one message, an
 * unpacked request keeps to its bounds, and no descriptor stays but the one that a client expects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/control/control-protocol.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool take_all(struct control_stream *s)
{
	const uint8_t *message;
	uint32_t type;
	size_t len;
	int r;

	while ((r = control_next(s, &type, &message, &len)) == 0) {
		Pb__ControlRequest *q = control_request_unpack(message, len);
		Pb__ControlSummary *m = control_summary_unpack(message, len);

		CHECK(len <= CONTROL_REQUEST_MAX);
		CHECK(!q || q->n_pids <= CONTROL_PIDS_MAX);
		if (q)
			pb__control_request__free_unpacked(q, NULL);
		if (m)
			pb__control_summary__free_unpacked(m, NULL);
	}
	return r == CONTROL_NONE;
}

static ssize_t send_all(int fd, const uint8_t *data, size_t len, size_t n_fds)
{
	union {
		char bytes[CMSG_SPACE(15 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align =
			(struct cmsghdr){CMSG_LEN(n_fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(fd));
	}
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* As the daemon, which takes no descriptor; or as a client, which takes one. */
static int receive(struct control_stream *s, size_t n_fds)
{
	int r = control_receive(s), fd = -1;

	CHECK(!n_fds || r == -EBADMSG);
	if (r != -EBADMSG)
		return r;
	r = control_receive_with(s, &fd);
	CHECK(n_fds == 1 ? r == 0 && fd >= 0 : r == -EBADMSG && fd < 0);
	if (fd >= 0)
		(void)close(fd);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_stream s;
	size_t piece, n_fds;
	int fds[2];

	if (!size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return 0;
	n_fds = *data >= 240 ? *data - 240u : 0;
	piece = *data && *data < 240 ? *data : size;
	data++;
	size--;
	control_stream_init(&s, fds[0], CONTROL_REQUEST_MAX);
	while (size) {
		size_t n = piece < size ? piece : size;
		ssize_t sent = send_all(fds[1], data, n, n_fds);

		if (sent <= 0)
			break;
		data += sent;
		size -= (size_t)sent;
		if (receive(&s, n_fds) != 0 || !take_all(&s))
			break;
		n_fds = 0;
		CHECK(s.in.len <= 2 * (CONTROL_REQUEST_MAX + 8));
	}
	control_stream_deinit(&s);
	(void)close(fds[1]);
	return 0;
}
