/* peer.h - connections to processes of this machine, and the process at their other end.  Thread: any. */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "base/util.h"

/* The address of the AF_UNIX socket @name: a path, or with '@' a name in the abstract namespace.  -ENAMETOOLONG, also of an empty
 * one. */
int unix_address(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_len);
/* A stream connection.  @flags: SOCK_NONBLOCK; @wait_us: how long a full backlog is waited for, 0: without a bound.  *ret_peer
 * (may be NULL): the process that listens, 0 where it has no pid here.  -ECONNREFUSED, -ENOENT, -EAGAIN (the backlog) ... */
int unix_connect(const char *name, int flags, uint64_t wait_us, struct ucred *ret_peer,
		 int *ret_fd);

/* A pidfd of the process that made the connection @fd. With @by_socket from the socket itself
 * (FEATURE_PEER_PIDFD, Linux 6.5), else by @pid from SO_PEERCRED: if that pid was reused meanwhile,
 * of the new process. -ESRCH: the process is gone; -EINVAL: it has no pid in this namespace;
 * -EMFILE ... */
int peer_pidfd(int fd, bool by_socket, uint32_t pid);
