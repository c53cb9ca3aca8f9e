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
#include "cli/trigger-socket.h"
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
static int find_owner(const char *name, pid_t *ret_pid)
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
	*ret_pid = owner.pid;
	return 0;
}

int trace_name_start(const char *name)
{
	pid_t pid;
	int r = find_owner(name, &pid);

	if (r >= 0)
		r = trigger_socket_send(geteuid(), (uint32_t)pid, NULL);
	if (r < 0)
		return r == -ESRCH ? -EALREADY : r; /* it does not listen: it was not deferred */
	return r == TRIGGER_STARTED ? 0 : -EALREADY;
}

int trace_name_stop(const char *name)
{
	_cleanup_(fd_closep) int pidfd = -1;
	struct pollfd gone;
	pid_t pid;
	int r = find_owner(name, &pid);

	if (r < 0)
		return r;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return fail(-errno);
	if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
		return errno == ESRCH ? 0 : fail(-errno);
	gone = (struct pollfd){.fd = pidfd, .events = POLLIN};
	while (poll(&gone, 1, -1) < 0)
		if (errno != EINTR)
			return fail(-errno);
	return 0;
}
