/* peer.c - see peer.h. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/peer.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* asm-generic/socket.h, Linux 6.5 */
#endif

int peer_pidfd(int fd, bool by_socket, uint32_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (!by_socket)
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0)
		pidfd = -1;
	if (pidfd >= 0)
		return pidfd;
	/* For a process that was reaped the socket gives ENODATA or EINVAL, by kernel version. */
	return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? fail(-errno)
	       : by_socket || errno == ESRCH			     ? -ESRCH
								     : -errno;
}
