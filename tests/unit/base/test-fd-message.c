/* test-fd-message.c - descriptors over sockets: what is sent arrives, and what has no room stays open nowhere. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd-message.h"
#include "tests/unit/cmocka.h"

static void pair_of(int type, int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
}

static void pair_close(int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

/* The number that the next descriptor gets: lower numbers are all in use. */
static int lowest_free(void)
{
	int fd = dup2(STDIN_FILENO, fcntl(STDIN_FILENO, F_DUPFD, 3));

	close(fd);
	return fd;
}

static bool is_same(int a, int b)
{
	struct stat sa, sb;

	assert_int_equal(fstat(a, &sa), 0);
	assert_int_equal(fstat(b, &sb), 0);
	return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static void test_sent(void **state)
{
	int pair[2], pipes[2];
	struct fd_message m;
	char data[8];

	(void)state;
	pair_of(SOCK_STREAM, pair);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(fd_message_send(pair[0], "abc", 3, pipes, 2, 0), 3);
	assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), FD_MESSAGE_MAX, 0, &m), 3);
	assert_memory_equal(data, "abc", 3);
	assert_int_equal(m.n, 2);
	assert_false(m.more);
	for (size_t i = 0; i < 2; i++) {
		assert_true(m.fds[i] != pipes[i] && is_same(m.fds[i], pipes[i]));
		assert_true(fcntl(m.fds[i], F_GETFD) & FD_CLOEXEC);
	}
	fd_message_close(&m);
	assert_int_equal(m.n, 0);
	/* Without descriptors. */
	assert_int_equal(fd_message_send(pair[0], "x", 1, NULL, 0, 0), 1);
	assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), 1, 0, &m), 1);
	assert_int_equal(m.n, 0);
	assert_false(m.more);
	close(pipes[0]);
	close(pipes[1]);
	pair_close(pair);
}

static void test_more_than_room(void **state)
{
	int pair[2], fds[FD_MESSAGE_MAX], before;
	struct fd_message m;
	char data[8];

	(void)state;
	pair_of(SOCK_STREAM, pair);
	before = lowest_free();
	for (size_t i = 0; i < FD_MESSAGE_MAX; i++)
		fds[i] = STDIN_FILENO;
	for (size_t max = 0; max <= FD_MESSAGE_MAX; max++) {
		assert_int_equal(fd_message_send(pair[0], "p", 1, fds, FD_MESSAGE_MAX, 0), 1);
		assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), max, 0, &m), 1);
		/* Exactly @max, and no descriptor in the padding. */
		assert_int_equal(m.n, max);
		assert_int_equal(m.more, max < FD_MESSAGE_MAX);
		fd_message_close(&m);
		assert_int_equal(lowest_free(), before);
	}
	pair_close(pair);
}

static void test_without_bytes(void **state)
{
	int pair[2], one = STDIN_FILENO, before;
	struct fd_message m;
	char data[8];

	(void)state;
	/* An empty datagram with a descriptor reads like an end. */
	pair_of(SOCK_SEQPACKET, pair);
	before = lowest_free();
	assert_int_equal(fd_message_send(pair[0], "", 0, &one, 1, 0), 0);
	assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), 1, 0, &m), 0);
	assert_int_equal(m.n, 0);
	assert_int_equal(lowest_free(), before);
	assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), 1, MSG_DONTWAIT, &m),
			 -EAGAIN);
	assert_int_equal(m.n, 0);
	close(pair[0]);
	assert_int_equal(fd_message_receive(pair[1], data, sizeof(data), 1, 0, &m), 0);
	assert_int_equal(fd_message_send(pair[1], "x", 1, NULL, 0, 0), -EPIPE); /* and no SIGPIPE */
	close(pair[1]);
	assert_int_equal(fd_message_send(pair[1], "x", 1, NULL, 0, 0), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_more_than_room),
		cmocka_unit_test(test_without_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
