/* test-hook-process.c - the hook process from main's side: what it receives, what it hands back, and
 * that it can be got rid of. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "session/consent/consent.h"
#include "tests/unit/cmocka.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;
static int listener;

static int start_listener(void **state)
{
	(void)state;
	(void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
		       "perfwind-test-process-%d", getpid());
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(address.sun_path + 1));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return bind(listener, (struct sockaddr *)&address, address_len) || listen(listener, 16);
}

static void hear(struct hook_process *p, struct hook_report *report, int *fds)
{
	struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
	int r;

	while ((r = hook_process_hear(p, report, fds)) == -EAGAIN)
		assert_int_equal(poll(&pfd, 1, 20000), 1);
	assert_int_equal(r, 0);
}

/* A peer that connects on the first command, sends its own two on the second one, then stays. */
static pid_t peer(int go)
{
	pid_t pid = fork();

	if (!pid) {
		union {
			char bytes[CMSG_SPACE(2 * sizeof(int))];
			struct cmsghdr align;
		} control = {0};
		char byte = HOOK_BYTE;
		struct iovec iov = {.iov_base = &byte, .iov_len = 1};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control.bytes,
				   .msg_controllen = sizeof(control.bytes)};
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		int fds[] = {open("/proc/self/maps", O_RDONLY), open("/proc/self/mem", O_RDONLY)};
		int to = socket(AF_UNIX, SOCK_STREAM, 0);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
		if (read(go, &byte, 1) != 1)
			_exit(2);
		if (connect(to, (struct sockaddr *)&address, address_len) < 0 ||
		    read(go, &byte, 1) != 1)
			_exit(3);
		byte = HOOK_BYTE;
		if (sendmsg(to, &m, 0) != 1)
			_exit(4);
		for (;;)
			pause();
	}
	return pid;
}

static void test_files(void **state)
{
	struct hook_process p;
	struct hook_report report;
	int fds[HOOK_DESCRIPTORS], go[2];
	char text[64], link[64], path[64];
	uint64_t counts[HOOK_VERDICTS], past[HOOK_VERDICTS] = {[HOOK_GOOD] = 5};
	uint32_t uid;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(hook_process_start(listener, false, &p), 0);
	assert_int_equal(hook_process_send(&p, HOOK_SEND_BEGIN, 0), 0);
	pid = peer(go[0]);
	assert_int_equal(hook_process_send(&p, HOOK_SEND_EXPECT, (uint32_t)pid), 0);
	assert_int_equal(write(go[1], "g", 1), 1);
	hear(&p, &report, fds);
	assert_int_equal(report.kind, HOOK_REPORT_TAKEN);
	assert_int_equal(report.value, pid);
	assert_int_equal(write(go[1], "g", 1), 1);
	hear(&p, &report, fds);
	assert_int_equal(report.kind, HOOK_REPORT_FILES);
	assert_int_equal(report.value, pid);
	assert_true(fds[HOOK_MAPS] >= 0 && fds[HOOK_MEM] >= 0);
	assert_int_equal(fcntl(fds[HOOK_MAPS], F_GETFD), FD_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[HOOK_MAPS]);
	n = readlink(path, link, sizeof(link) - 1);
	assert_true(n > 0);
	link[n] = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	assert_string_equal(link, path);
	assert_true(pread(fds[HOOK_MAPS], text, sizeof(text), 0) > 0);
	close(fds[HOOK_MAPS]);
	close(fds[HOOK_MEM]);
	assert_int_equal(hook_process_send(&p, HOOK_SEND_PING, 7), 0);
	hear(&p, &report, fds);
	assert_int_equal(report.kind, HOOK_REPORT_PONG);
	assert_int_equal(report.value, 7);
	hook_process_counts(&p, counts);
	assert_int_equal(counts[HOOK_GOOD], 1);
	assert_int_equal(fds[HOOK_MAPS], -1);
	assert_int_equal(hook_process_at_work(&p, &uid), 0);
	hook_process_end(&p, 1000, past);
	assert_int_equal(past[HOOK_GOOD], 6);
	hook_process_counts(&p, counts);
	assert_int_equal(counts[HOOK_GOOD], 0);
	hook_process_end(&p, 0, past); /* again: nothing */
	assert_int_equal(past[HOOK_GOOD], 6);
	assert_int_equal(hook_process_at_work(&p, &uid), 0);
	assert_int_equal(child_left(HOOK_PROCESS_NAME), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(go[0]);
	close(go[1]);
}

/* One that hangs: what is sent piles up, then is refused; its end does not wait for it. */
static void test_hangs(void **state)
{
	uint64_t past[HOOK_VERDICTS] = {0};
	struct hook_process p;
	struct hook_report report;
	int fds[HOOK_DESCRIPTORS], r, n = 0;

	(void)state;
	assert_int_equal(hook_process_start(listener, true, &p), 0);
	assert_int_equal(kill(p.pid, SIGSTOP), 0);
	while ((r = hook_process_send(&p, HOOK_SEND_PING, (uint32_t)n)) == 0 && n < 100000)
		n++;
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(hook_process_hear(&p, &report, fds), -EAGAIN);
	hook_process_end(&p, 1000, past);
}

static void test_dies(void **state)
{
	uint64_t past[HOOK_VERDICTS] = {0};
	struct hook_process p;
	struct hook_report report;
	int fds[HOOK_DESCRIPTORS];
	struct pollfd pfd = {.events = POLLIN};

	(void)state;
	assert_int_equal(hook_process_start(listener, true, &p), 0);
	pfd.fd = p.fd;
	assert_int_equal(kill(p.pid, SIGKILL), 0);
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	assert_int_equal(hook_process_hear(&p, &report, fds), -EPIPE);
	assert_int_equal(hook_process_send(&p, HOOK_SEND_PING, 1), -EPIPE);
	hook_process_end(&p, 1000, past);
}

/* It holds nothing of ours open: the other end of a pipe is seen to close. */
static void test_inherits_nothing(void **state)
{
	uint64_t past[HOOK_VERDICTS] = {0};
	struct hook_process p;
	struct pollfd pfd = {.events = POLLIN};
	int pipe_fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(hook_process_start(listener, true, &p), 0);
	close(pipe_fds[1]);
	pfd.fd = pipe_fds[0];
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 0);
	close(pipe_fds[0]);
	hook_process_end(&p, 1000, past);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_hangs),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_inherits_nothing),
	};

	return cmocka_run_group_tests(tests, start_listener, NULL);
}
