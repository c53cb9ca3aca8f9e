/* trace-name.c - see trace-name.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/trace-name.h"
#include "cli/trigger-socket.h"
#include "base/error.h"
#include "base/listen-fds.h"
#include "base/peer.h"

/* The abstract name: no file, no cleanup. */
static int name_of(const char *name, char to[static 128])
{
	_Static_assert(TRACE_NAME_MAX + sizeof("@perfwind/4294967295/") <= 108, "of sun_path");
	if (strlen(name) > TRACE_NAME_MAX)
		return fail(-ENAMETOOLONG);
	(void)snprintf(to, 128, "@perfwind/%u/%s", (unsigned)getuid(), name);
	return 0;
}

int trace_name_take(const char *name, int *ret_fd)
{
	char socket[128];
	int r = name_of(name, socket);

	return r < 0 ? trace(r) : trace(listen_at(socket, 0, ret_fd));
}

/* The listening process, if it belongs to this user: another user may have bound the name. */
static int find_owner(const char *name, pid_t *ret_pid)
{
	_cleanup_(fd_closep) int fd = -1;
	char socket[128];
	struct ucred owner;
	int r = name_of(name, socket);

	if (r < 0)
		return trace(r);
	r = unix_connect(socket, 0, 0, &owner, &fd);
	if (r < 0)
		return r == -ECONNREFUSED ? -ENOENT : fail(r);
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
