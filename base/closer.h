/* closer.h - the end of a connection that anyone may have made.  Thread: one at a time.
 *
 * The last close() of a socket releases the contents of its queue, and a peer can have queued
 * descriptors that take long to release: a TCP socket with SO_LINGER and unread bytes blocks
 * close() for as long as the peer has set. (The descriptors need not be received for that; so bytes
 * are inspected with MSG_PEEK before they are received, and messages with descriptors are not
 * received.)
 *
 * So a connection with descriptors in its queue is closed by a separate process, made when first
 * needed (base/child.h). When it is stuck, another one is made. */
#pragma once

#include <sys/types.h>

#include "base/util.h"

#define CLOSER_NAME "pw-close"

struct closer {
	pid_t pid; /* 0: none yet */
	int fd;
};

void closer_init(struct closer *closer);
/* Work in progress is finished by the exit of the process. */
void closer_deinit(struct closer *closer);
/* Consumes @fd, a connected unix stream socket that no other thread or process reads. */
void closer_close(struct closer *closer, int fd);
/* The same without a look, of any socket: one that listens, with its queue. */
void closer_pass(struct closer *closer, int fd);

/* For a connection that is not read by closer_receive(): an out-of-band byte (AF_UNIX has these
 * since 5.15) hides its descriptors from MSG_PEEK and keeps the socket readable with nothing to
 * read; inline it is an ordinary byte.  -errno. */
int closer_show_all(int fd);
/* Up to @room bytes of a unix stream socket, and never descriptors.  0: the peer is gone; -EBADMSG:
 * there are descriptors among or behind these bytes; all stays in the queue.  -EAGAIN, -ECONNRESET
 * ... */
ssize_t closer_receive(int fd, void *to, size_t room);
