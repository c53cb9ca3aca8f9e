/* peer.h - the process at the other end of a connection, held to its life.  Thread: any. */
#pragma once

#include "base/util.h"

/* A pidfd of whoever has made the connection @fd: by the socket itself where @by_socket says that the
 * kernel can (FEATURE_PEER_PIDFD, Linux 6.5), else by @pid, which SO_PEERCRED has told: if it has been
 * given to another process meanwhile, of that one.  -ESRCH: it is gone, where the pidfd does not say
 * so; -EINVAL: it has no number here; -EMFILE ... */
int peer_pidfd(int fd, bool by_socket, uint32_t pid);
