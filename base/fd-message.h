/* fd-message.h - messages with descriptors (SCM_RIGHTS) over unix sockets.  Thread: any; in helper processes too. */
#pragma once

#include <sys/types.h>

#include "base/util.h"

enum { FD_MESSAGE_MAX = 8 }; /* descriptors of one message */

struct fd_message {
	int fds[FD_MESSAGE_MAX]; /* owned by the receiver, O_CLOEXEC */
	size_t n;
	bool more; /* there were more than had room: the kernel has dropped these */
};

/* Sends up to @len bytes and, with the first byte, copies of @n <= FD_MESSAGE_MAX descriptors.  @flags: of
 * sendmsg(2); MSG_NOSIGNAL is always set.  The number of bytes; -errno, never -EINTR. */
ssize_t fd_message_send(int to, const void *data, size_t len, const int *fds, size_t n, int flags);
/* Receives up to @room bytes and @max <= FD_MESSAGE_MAX descriptors.  @flags: of recvmsg(2).  The number of bytes, 0:
 * the peer is gone; -errno, never -EINTR.  *ret_message is always set, and has no descriptor where there are no bytes. */
ssize_t fd_message_receive(int from, void *to, size_t room, size_t max, int flags,
			   struct fd_message *ret_message);
void fd_message_close(struct fd_message *message);
