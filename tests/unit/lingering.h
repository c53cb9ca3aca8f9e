/* lingering.h - what outlives its end: a TCP socket with bytes that no process takes, of which the last close() waits for an hour (it may
 * stand in the queue of a connection that anyone makes); a thread. */
#pragma once

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINGERS_S = 3600 };

/* < 0: it cannot be made.  The other end, *ret_other, is not to be closed meanwhile. */
static inline int lingering(int *ret_other)
{
	const struct linger linger = {.l_onoff = 1, .l_linger = LINGERS_S};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	static char bytes[65536];

	*ret_other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(*ret_other, (struct sockaddr *)&at, len) < 0 || listen(*ret_other, 1) < 0 ||
	    getsockname(*ret_other, (struct sockaddr *)&at, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&at, len) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
		return -1;
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

/* pthread_join() returns a moment before the thread is gone. */
static inline void await_thread_end(pid_t tid)
{
	while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
		(void)sched_yield();
}
