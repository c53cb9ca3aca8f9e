/* peer.h - a pidfd of the process at the other end of a connection.  Thread: any. */
#pragma once

#include "base/util.h"

/* A pidfd of the process that made the connection @fd. With @by_socket from the socket itself
 * (FEATURE_PEER_PIDFD, Linux 6.5), else by @pid from SO_PEERCRED: if that pid was reused meanwhile,
 * of the new process. -ESRCH: the process is gone; -EINVAL: it has no pid in this namespace;
 * -EMFILE ... */
int peer_pidfd(int fd, bool by_socket, uint32_t pid);
