/* closer.h - the end of a connection that anyone may have made.  Thread: one at a time.
 *
 * What lies in a socket's queue is let go by whoever closes it last, and a peer can have put there
 * what takes long to let go: a TCP socket with SO_LINGER and bytes that nobody takes keeps close()
 * for as long as the peer has said.  (Descriptors in a queue need not be received for that; so
 * bytes are looked at with MSG_PEEK before they are received, and what brings descriptors is not.)
 *
 * So a connection with more in its queue than bytes is closed by a process that is made for it when
 * first needed (base/child.h); one that is stuck gets company. */
#pragma once

#include <sys/types.h>

#include "base/util.h"

#define CLOSER_NAME "pw-close"

struct closer {
	pid_t pid; /* 0: none yet */
	int fd;
};

void closer_init(struct closer *closer);
/* What is under way is gone on with by the process's end. */
void closer_deinit(struct closer *closer);
/* Consumes @fd, a connected unix stream socket that nobody else reads. */
void closer_close(struct closer *closer, int fd);
/* The same without a look, of any socket: one that listens, with its queue. */
void closer_pass(struct closer *closer, int fd);

/* For a connection that is read otherwise than by closer_receive(): a byte out of band (AF_UNIX has
 * these since 5.15) hides what it brings from MSG_PEEK and keeps the socket readable without anything
 * to read; in line it is a byte like others.  -errno. */
int closer_show_all(int fd);
/* Up to @room bytes of a unix stream socket, and never descriptors.  0: the peer is gone; -EBADMSG:
 * descriptors lie among or behind these bytes; all stays where it is.  -EAGAIN, -ECONNRESET ... */
ssize_t closer_receive(int fd, void *to, size_t room);
