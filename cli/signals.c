/* signals.c - see signals.h. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/signals.h"
#include "base/error.h"

int signals_watch(struct loop *loop, struct loop_source *source, const int *signals, size_t n,
		  int (*ready)(struct loop_source *, uint32_t))
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	_cleanup_(fd_closep) int fd = -1;
	sigset_t set;
	int r;

	sigemptyset(&set);
	for (size_t i = 0; i < n; i++)
		sigaddset(&set, signals[i]);
	(void)sigaction(SIGPIPE, &ignored, NULL);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return fail(-errno);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return fail(-errno);
	r = loop_add(loop, source, fd, EPOLLIN, ready);
	if (r < 0)
		return trace(r);
	(void)take_fd(fd);
	return 0;
}

void signals_unwatch(struct loop *loop, struct loop_source *source)
{
	int fd = source->fd;

	loop_remove(loop, source);
	(void)fd_close(fd);
}

int signals_next_from(const struct loop_source *source, uint32_t *ret_pid)
{
	struct signalfd_siginfo si;

	if (read(source->fd, &si, sizeof(si)) != sizeof(si))
		return 0;
	*ret_pid = si.ssi_pid;
	return (int)si.ssi_signo;
}

int signals_next(const struct loop_source *source)
{
	uint32_t pid;

	return signals_next_from(source, &pid);
}
