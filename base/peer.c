/* peer.c - see peer.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/peer.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* asm-generic/socket.h, Linux 6.5 */
#endif

int unix_address(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_len)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	bool abstract = *name == '@';

	if (len < 1 + (size_t)abstract || len >= sizeof(address.sun_path))
		return fail(-ENAMETOOLONG);
	memcpy(address.sun_path, name, len);
	if (abstract)
		address.sun_path[0] = 0;
	*ret_address = address;
	/* a NUL would be part of an abstract name */
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + !abstract);
	return 0;
}

int unix_connect(const char *name, int flags, uint64_t wait_us, struct ucred *ret_peer, int *ret_fd)
{
	const struct timeval wait = {(time_t)(wait_us / 1000000), (suseconds_t)(wait_us % 1000000)},
			     no_limit = {0};
	_cleanup_(fd_closep) int fd = -1;
	socklen_t len, peer_len = sizeof(*ret_peer);
	struct sockaddr_un address;
	int r = unix_address(name, &address, &len);

	if (r < 0)
		return trace(r);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
	    connect(fd, (const struct sockaddr *)&address, len) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &no_limit, sizeof(no_limit)) < 0 ||
	    (ret_peer && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &peer_len) < 0))
		return -errno; /* not traced: an answer more often than a fault */
	*ret_fd = take_fd(fd);
	return 0;
}

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
	return is_shortage(-errno) ? fail(-errno) : by_socket || errno == ESRCH ? -ESRCH : -errno;
}
