/* frame-pair.h - a socket pair: our end is a frame stream, the other end is what a test makes of it. */
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/producer/frame.h"
#include "tests/unit/cmocka.h"

struct pair {
	struct frame_stream stream;
	int peer;
};

static inline void pair_init(struct pair *p)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	assert_int_equal(frame_stream_init(&p->stream, fds[0]), 0);
	p->peer = fds[1];
}

static inline void pair_deinit(struct pair *p)
{
	frame_stream_deinit(&p->stream);
	p->peer = fd_close(p->peer);
}

/* Sends with @n_fds copies of standard input riding along. */
static inline void peer_send(int peer, const void *data, size_t len, size_t n_fds)
{
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	assert_true(n_fds <= 8);
	if (n_fds) {
		struct cmsghdr *c;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){STDIN_FILENO}, sizeof(int));
	}
	assert_int_equal(sendmsg(peer, &msg, MSG_NOSIGNAL), len);
}

/* How many descriptors this process has open. */
static inline unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
