/* test-peer.c - the process that made a connection: found either way, and its end is reported. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/listen-fds.h"
#include "base/peer.h"
#include "tests/unit/cmocka.h"

/* The accepted end of a connection that a child has made; we have its own end too. */
static int connected(pid_t *ret_child, int *ret_theirs)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = ""};
	int pair[2], listener, fd;
	socklen_t len;

	(void)snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "test-peer-%d", getpid());
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.sun_path + 1));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	pair[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(pair[0] >= 0);
	*ret_child = fork();
	if (!*ret_child) {
		if (connect(pair[0], (struct sockaddr *)&at, len) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	close(listener);
	*ret_theirs = pair[0];
	return fd;
}

static void runs_and_ends(bool by_socket)
{
	struct pollfd pfd = {.events = POLLIN};
	int theirs, fd;
	pid_t child;

	fd = connected(&child, &theirs);
	pfd.fd = peer_pidfd(fd, by_socket, (uint32_t)child);
	if (by_socket && pfd.fd < 0) {
		print_message("no SO_PEERPIDFD here\n");
	} else {
		assert_true(pfd.fd >= 0);
		assert_int_equal(poll(&pfd, 1, 0), 0);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(poll(&pfd, 1, 20000), 1);
		close(pfd.fd);
	}
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	/* Newer kernels give one for a reaped process, too: its end is reported at once. */
	pfd.fd = peer_pidfd(fd, by_socket, (uint32_t)child);
	if (pfd.fd < 0)
		assert_int_equal(pfd.fd, -ESRCH);
	else
		assert_int_equal(poll(&pfd, 1, 0), 1);
	if (pfd.fd >= 0)
		close(pfd.fd);
	close(fd);
	close(theirs);
}

static void test_by_socket(void **state)
{
	(void)state;
	runs_and_ends(true);
}

static void test_by_number(void **state)
{
	(void)state;
	runs_and_ends(false);
	assert_int_equal(peer_pidfd(-1, false, 0), -EINVAL);
	assert_int_equal(peer_pidfd(-1, false, INT32_MAX), -ESRCH);
}

static void test_addresses(void **state)
{
	struct sockaddr_un at;
	char long_name[sizeof(at.sun_path) + 1];
	socklen_t len;

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	assert_int_equal(unix_address("", &at, &len), -ENAMETOOLONG);
	assert_int_equal(unix_address("@", &at, &len), -ENAMETOOLONG);
	assert_int_equal(unix_address(long_name, &at, &len), -ENAMETOOLONG);
	assert_int_equal(unix_address("/a", &at, &len), 0);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 3); /* its NUL counts */
	assert_int_equal(unix_address("@a", &at, &len), 0);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 2);
	assert_memory_equal(at.sun_path, "\0a", 2);
}

/* No process listens; then this process does, and a full backlog is waited for with an end. */
static void test_connections(void **state)
{
	int listener, fd[8], n = 0, r;
	struct ucred peer = {0};
	char name[64];

	(void)state;
	(void)snprintf(name, sizeof(name), "@test-peer-connect-%d", getpid());
	assert_int_equal(unix_connect(name, 0, 0, &peer, &fd[0]), -ECONNREFUSED);
	assert_int_equal(listen_at(name, 0, &listener), 0);
	assert_int_equal(listen(listener, 1), 0);
	while ((r = unix_connect(name, 0, 1000, &peer, &fd[n])) == 0) {
		assert_int_equal(peer.pid, getpid());
		assert_true(++n < 8);
	}
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(unix_connect(name, SOCK_NONBLOCK, 0, NULL, &fd[n]), -EAGAIN);
	assert_true(n > 0);
	while (n)
		close(fd[--n]);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_socket),
		cmocka_unit_test(test_by_number),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
