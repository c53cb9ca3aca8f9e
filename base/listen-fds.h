/* listen-fds.h - listening sockets: those that a service manager hands over, and our own.
 * Thread: main. */
#pragma once

#include "base/util.h"

/* The inherited descriptor that is called @name: by systemd (sd_listen_fds(3): LISTEN_PID,
 * LISTEN_FDS, LISTEN_FDNAMES; numbers from 3 on), or by Android's init (its
 * ANDROID_SOCKET_perfwind_NAME, for `socket perfwind_NAME stream` in the .rc, bound and made to
 * listen by us).  0 and *ret_fd, non-blocking and closed by exec; LISTEN_FDS_NONE when none of that
 * name was given; -EINVAL when it is not a listening AF_UNIX stream socket, or when the environment
 * does not follow the protocol. */
enum { LISTEN_FDS_NONE = 1 };
int listen_fds_find(const char *name, int *ret_fd);

/* A listening AF_UNIX stream socket at @path with file mode @mode, in place of a socket without a
 * listener; or in the abstract namespace, where @path begins with '@'. -EADDRINUSE when there is a
 * listener, -EEXIST when something else is there, -ENAMETOOLONG. */
int listen_at(const char *path, unsigned mode, int *ret_fd);
