/* trace-name.c - see trace-name.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/trace-name.h"
#include "base/error.h"

static int open_name(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_len)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int n, fd;

	if (strlen(name) > TRACE_NAME_MAX)
		return fail(-ENAMETOOLONG);
	/* A leading NUL selects the abstract namespace: no file, no cleanup. */
	n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "perfwind/%u/%s",
		     (unsigned)getuid(), name);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(-errno);
	*ret_address = address;
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return fd;
}

int trace_name_take(const char *name, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t len;

	fd = open_name(name, &address, &len);
	if (fd < 0)
		return trace(fd);
	if (bind(fd, (const struct sockaddr *)&address, len) < 0 || listen(fd, 4) < 0)
		return fail(-errno);
	*ret_fd = take_fd(fd);
	return 0;
}

/* The listening process, if it belongs to this user: another user may have bound the name. */
static int find_owner(const char *name, int *ret_pidfd)
{
	_cleanup_(fd_closep) int fd = -1;
	struct ucred owner;
	struct sockaddr_un address;
	socklen_t len, size = sizeof(owner);

	fd = open_name(name, &address, &len);
	if (fd < 0)
		return trace(fd);
	if (connect(fd, (const struct sockaddr *)&address, len) < 0)
		return errno == ECONNREFUSED ? -ENOENT : fail(-errno);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &size) < 0)
		return fail(-errno);
	if (owner.uid != getuid() || owner.pid <= 0)
		return fail(-EPERM);
	*ret_pidfd = (int)syscall(SYS_pidfd_open, owner.pid, 0);
	return *ret_pidfd < 0 ? fail(-errno) : 0;
}

int trace_name_stop(const char *name)
{
	_cleanup_(fd_closep) int pidfd = -1;
	int r = find_owner(name, &pidfd);
	struct pollfd gone;

	if (r < 0)
		return r;
	if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
		return errno == ESRCH ? 0 : fail(-errno);
	gone = (struct pollfd){.fd = pidfd, .events = POLLIN};
	while (poll(&gone, 1, -1) < 0)
		if (errno != EINTR)
			return fail(-errno);
	return 0;
}
