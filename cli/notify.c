/* notify.c - see notify.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "cli/notify.h"
#include "base/error.h"
#include "base/peer.h"

void notify_state(const char *text)
{
	const char *name = getenv("NOTIFY_SOCKET");
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un a;
	socklen_t len;

	/* A path or an abstract name; vsock addresses are for virtual machines. */
	if (!name || (*name != '/' && *name != '@') || unix_address(name, &a, &len) < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
			     (const struct sockaddr *)&a, len);
}

void notify_reloading(void)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lu",
		       clock_ns(CLOCK_MONOTONIC) / 1000);
	notify_state(text);
}

int notify_check_fd(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return fail(-errno);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return fail(-EBADF);
	return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? fail(-errno) : 0;
}
