/* hook-cost.c - what a request costs the program that consents.  hook-cost SOCKET ROUNDS; run with
 * libperfwind-hook.so loaded and SOCKET in its environment ("@name": abstract), or without it.
 *
 * It asks itself: the signal is unblocked and there is one thread, so it is handled before sigqueue()
 * returns, and the time around that call is the whole interruption.  A child takes connections and
 * descriptors as they come.  One line: requests that were sent, answers, requests that may have been given up; then ns of a
 * request (median, mean, 99 %), of another signal of that number (median: what handling any signal costs), of a fixed
 * piece of work before the first request and after the last (the best of many: what is left behind).
 *
 * There are as many answers as requests, but where the child has not run for so long that its backlog was full: the
 * hook then gives up after ANSWER_WAIT_MS, and the request has taken that long. */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libc-hook/answer.h"
#include "libc-hook/hook-proto.h"

enum { MAX_ROUNDS = 1000000, WORK_REPEATS = 50, WORK_CALLS = 20000, SETTLE_MS = 1000 };

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int listen_at(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (len >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = 0;
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -1;
	return listen(fd, 128) < 0 ? -1 : fd;
}

/* One connection: true when both descriptors came. */
static int take(int listener)
{
	union {
		char bytes[CMSG_SPACE(HOOK_DESCRIPTORS * sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	int fds[HOOK_DESCRIPTORS], fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), both = 0;
	struct cmsghdr *c;

	if (fd < 0)
		return 0;
	if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) == 1 && (c = CMSG_FIRSTHDR(&message)) &&
	    c->cmsg_len == CMSG_LEN(sizeof(fds))) {
		memcpy(fds, CMSG_DATA(c), sizeof(fds));
		(void)close(fds[HOOK_MAPS]);
		(void)close(fds[HOOK_MEM]);
		both = 1;
	}
	(void)close(fd);
	return both;
}

/* The child: until nothing has come for a while after @stop reads its end. */
static void serve(int listener, int stop, int result)
{
	struct pollfd p[] = {{.fd = listener, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
	uint32_t answers = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (poll(p, 2, SETTLE_MS) >= 0) {
		if (p[0].revents)
			answers += (uint32_t)take(listener);
		else if (p[1].revents)
			break;
	}
	_exit(write(result, &answers, sizeof(answers)) != sizeof(answers));
}

/* 0: the signal could not be queued (RLIMIT_SIGPENDING is of all that the user runs). */
static uint64_t ask(int value)
{
	const union sigval v = {.sival_int = value};
	uint64_t start = now();

	return sigqueue(getpid(), HOOK_SIGNAL, v) < 0 ? 0 : now() - start;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void ask_often(int value, uint64_t *times, size_t n, uint64_t *ret_sum)
{
	*ret_sum = 0;
	for (size_t i = 0; i < n; i++) {
		times[i] = ask(value);
		*ret_sum += times[i];
	}
	qsort(times, n, sizeof(*times), compare);
}

/* Of @n ascending times. */
static size_t n_below(const uint64_t *times, size_t n, uint64_t limit)
{
	size_t below = 0;

	while (below < n && times[below] < limit)
		below++;
	return below;
}

/* System calls, as they are what a handler or a filter left behind would slow down. */
static uint64_t work(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < WORK_REPEATS; i++) {
		uint64_t start = now(), took;

		for (int j = 0; j < WORK_CALLS; j++)
			(void)syscall(SYS_getppid);
		took = now() - start;
		best = took < best ? took : best;
	}
	return best / WORK_CALLS;
}

static int measure(size_t n, int stop, int result)
{
	uint64_t *times = calloc(n, sizeof(*times)), sum, other_sum, before, after, median, late;
	size_t sent, slow;
	uint32_t answers = 0;

	if (!times)
		return 1;
	before = work();
	ask_often(HOOK_VALUE, times, n, &sum);
	median = times[n / 2];
	late = times[n - 1 - n / 100];
	sent = n - n_below(times, n, 1);
	slow = n - n_below(times, n, ANSWER_WAIT_MS * 1000000ull);
	after = work();
	ask_often(HOOK_VALUE + 1, times, n, &other_sum);
	(void)close(stop);
	if (read(result, &answers, sizeof(answers)) != sizeof(answers))
		answers = 0;
	printf("%zu %u %zu %lu %lu %lu %lu %lu %lu\n", sent, answers, slow, median, sum / n, late,
	       times[n / 2], before, after);
	free(times);
	return 0;
}

int main(int argc, char **argv)
{
	size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	int stop[2], result[2], listener;
	pid_t child;

	if (!n || n > MAX_ROUNDS) {
		fprintf(stderr, "usage: hook-cost SOCKET ROUNDS\n");
		return 2;
	}
	listener = listen_at(argv[1]);
	if (listener < 0 || pipe(stop) < 0 || pipe(result) < 0 || (child = fork()) < 0) {
		perror("hook-cost");
		return 1;
	}
	if (!child) {
		(void)close(stop[1]);
		serve(listener, stop[0], result[1]);
	}
	(void)close(listener);
	(void)close(result[1]);
	if (measure(n, stop[1], result[0]))
		return 1;
	return waitpid(child, NULL, 0) < 0;
}
