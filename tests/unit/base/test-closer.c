/* test-closer.c - connections with bytes, with descriptors and with what makes close() take an hour.
 * That nothing here waits for it is the test: it would not end otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/child.h"
#include "base/closer.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/lingering.h"

enum { MANY = 1500 };

static struct closer closer;

static int set_up(void **state)
{
	(void)state;
	closer_init(&closer);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	closer_deinit(&closer);
	while (child_left(CLOSER_NAME))
		(void)poll(NULL, 0, 1);
	return 0;
}

static size_t n_open(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void send_how(int to, const char *data, size_t len, int fd, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (char *)(uintptr_t)data, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	assert_int_equal(sendmsg(to, &m, MSG_NOSIGNAL | flags), len);
}

static void send_with(int to, const char *data, size_t len, int fd)
{
	send_how(to, data, len, fd, 0);
}

/* Ours is in the queue of ret: nowhere else. */
static int connection_with_lingering(int *ret_other)
{
	int pair[2], fd = lingering(ret_other);

	assert_true(fd >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	send_with(pair[1], "x", 1, fd);
	(void)close(fd);
	(void)close(pair[1]);
	return pair[0];
}

/* Bytes alone need no process. */
static void test_plain(void **state)
{
	size_t before = n_open();
	int pair[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(send(pair[0], "bye", 3, 0), 3);
	closer_close(&closer, pair[0]);
	assert_int_equal(recv(pair[1], &byte, 1, 0), 1); /* what was sent is still received */
	assert_int_equal(close(pair[1]), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(send(pair[1], "x", 1, 0), 1);
	closer_close(&closer, pair[0]);
	assert_int_equal(send(pair[1], "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(close(pair[1]), 0);
	closer_close(&closer, -1);
	assert_int_equal(closer.pid, 0);
	assert_int_equal(n_open(), before);
}

/* Descriptors that close at once, behind bytes too: the process's work, and it is done. */
static void test_descriptors(void **state)
{
	size_t before = n_open();
	static const char page[8192];

	(void)state;
	for (size_t in_front = 0; in_front <= sizeof(page); in_front += sizeof(page) / 2) {
		int pair[2], pipe_fds[2];
		char byte;

		assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		if (in_front)
			assert_int_equal(send(pair[1], page, in_front, 0), in_front);
		send_with(pair[1], "x", 1, pipe_fds[1]);
		(void)close(pipe_fds[1]);
		closer_close(&closer, pair[0]);
		assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* its other end is closed */
		(void)close(pipe_fds[0]);
		(void)close(pair[1]);
	}
	assert_true(closer.pid > 0);
	closer_deinit(&closer);
	assert_int_equal(n_open(), before);
}

static void test_lingers(void **state)
{
	int others[2];
	pid_t first;

	(void)state;
	closer_close(&closer, connection_with_lingering(&others[0]));
	first = closer.pid;
	assert_true(first > 0);
	closer_close(&closer, connection_with_lingering(&others[1]));
	assert_int_equal(closer.pid, first); /* behind the one that is stuck */
	closer_deinit(&closer);
	while (child_left(CLOSER_NAME)) /* killed, it does not linger */
		(void)poll(NULL, 0, 1);
	(void)close(others[0]);
	(void)close(others[1]);
}

/* Behind and with a byte out of band, which MSG_PEEK passes over. */
static void test_out_of_band(void **state)
{
	int pair[2], others[2], fd;
	char bytes[8];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	if (send(pair[1], "!", 1, MSG_OOB) < 0)
		skip(); /* Linux before 5.15 */
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), 1);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), -EAGAIN);
	fd = lingering(&others[0]);
	assert_int_equal(send(pair[1], "a!", 2, MSG_OOB), 2);
	send_with(pair[1], "x", 1, fd);
	(void)close(fd);
	closer_close(&closer, pair[0]);
	assert_true(closer.pid > 0);
	(void)close(pair[1]);
	closer_deinit(&closer);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fd = lingering(&others[1]);
	send_how(pair[1], "!", 1, fd, MSG_OOB);
	(void)close(fd);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), -EBADMSG);
	closer_close(&closer, pair[0]);
	assert_true(closer.pid > 0);
	(void)close(pair[1]);
	closer_deinit(&closer);
	while (child_left(CLOSER_NAME))
		(void)poll(NULL, 0, 1);
	(void)close(others[0]);
	(void)close(others[1]);
}

/* More than one takes while it is stuck: another one is made. */
static void test_many(void **state)
{
	size_t before;
	pid_t first;
	int other;

	(void)state;
	closer_close(&closer, connection_with_lingering(&other));
	first = closer.pid;
	before = n_open();
	for (int i = 0; i < MANY; i++) {
		int pair[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		send_with(pair[1], "x", 1, null);
		closer_close(&closer, pair[0]);
		(void)close(pair[1]);
		(void)close(null);
	}
	assert_int_not_equal(closer.pid, first);
	assert_int_equal(n_open(), before);
	(void)close(other);
}

/* A socket that listens, with a connection in its queue that has a connection in its own. */
static void test_listener(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other, fd,
	    to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(connect(to, (struct sockaddr *)&address, len), 0);
	fd = lingering(&other);
	send_with(to, "x", 1, fd);
	(void)close(fd);
	closer_pass(&closer, listener);
	(void)close(to);
	(void)close(other);
}

static void test_receive(void **state)
{
	char bytes[8] = "";
	int pair[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t before;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	before = n_open();
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), -EAGAIN);
	assert_int_equal(send(pair[1], "abc", 3, 0), 3);
	assert_int_equal(closer_receive(pair[0], bytes, 2), 2);
	assert_memory_equal(bytes, "ab", 2);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), 1);
	assert_memory_equal(bytes, "c", 1);
	send_with(pair[1], "d", 1, null);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), -EBADMSG);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), -EBADMSG);
	assert_int_equal(n_open(), before);
	(void)close(pair[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	(void)close(pair[1]);
	assert_int_equal(closer_receive(pair[0], bytes, sizeof(bytes)), 0);
	(void)close(pair[0]);
	(void)close(null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_plain),	EACH(test_descriptors), EACH(test_lingers),
		EACH(test_out_of_band), EACH(test_many),	EACH(test_listener),
		EACH(test_receive),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
