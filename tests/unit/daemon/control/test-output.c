/* test-output.c - which descriptors are taken for packets: one end of a socket pair, and nothing
 * else that can be sent. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/control/control-protocol.h"
#include "daemon/control/output.h"
#include "tests/unit/cmocka.h"

static int here, there;

static int set_up(void **state)
{
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	here = pair[0];
	there = pair[1];
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(here);
	close(there);
	return 0;
}

/* One byte with @n descriptors. */
static void send_fds(const int *fds, size_t n)
{
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(16 * sizeof(int))];
	} u = {.head = {CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t) "\1", 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		m.msg_control = &u;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		memcpy(CMSG_DATA(&u.head), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(here, &m, 0), 1);
}

static int n_open(void)
{
	int fd = fcntl(here, F_DUPFD_CLOEXEC, 0);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* What is said of @fd (closed), which is closed again by whoever looks. */
static void expect(enum output_verdict wanted, int fd)
{
	int fds[2], before;
	char byte;
	size_t n;

	assert_true(fd >= 0);
	send_fds(&fd, 1);
	close(fd);
	before = n_open();
	assert_int_equal(output_look(there, fds, &n), wanted);
	assert_int_equal(n, 1);
	/* It is still there, for whoever looks again. */
	close(fds[0]);
	assert_int_equal(output_look(there, fds, &n), wanted);
	assert_int_equal(n, 1);
	close(fds[0]);
	assert_int_equal(n_open(), before);
	assert_int_equal(recv(there, &byte, 1, 0), 1);
}

static int socket_of(int domain, int type)
{
	return socket(domain, type | SOCK_CLOEXEC, 0);
}

static void test_files(void **state)
{
	int fds[2];

	(void)state;
	expect(OUTPUT_NO_SOCKET, open("/dev/null", O_RDWR));
	expect(OUTPUT_NO_SOCKET, open("/tmp", O_RDWR | O_TMPFILE, 0600));
	expect(OUTPUT_NO_SOCKET, open("/tmp", O_PATH));
	expect(OUTPUT_NO_SOCKET, open("/tmp", O_RDONLY | O_DIRECTORY));
	expect(OUTPUT_NO_SOCKET, open("/proc/self/maps", O_RDONLY));
	expect(OUTPUT_NO_SOCKET, memfd_create("output", 0));
	expect(OUTPUT_NO_SOCKET, epoll_create1(0));
	expect(OUTPUT_NO_SOCKET, eventfd(0, 0));
	assert_int_equal(pipe(fds), 0);
	expect(OUTPUT_NO_SOCKET, fds[0]);
	expect(OUTPUT_NO_SOCKET, fds[1]);
}

static void test_sockets(void **state)
{
	int fds[2];

	(void)state;
	expect(OUTPUT_NOT_UNIX, socket_of(AF_INET, SOCK_STREAM));
	expect(OUTPUT_NOT_UNIX, socket_of(AF_NETLINK, SOCK_RAW));
	expect(OUTPUT_NO_STREAM, socket_of(AF_UNIX, SOCK_DGRAM));
	expect(OUTPUT_NO_STREAM, socket_of(AF_UNIX, SOCK_SEQPACKET));
	expect(OUTPUT_NOT_CONNECTED, socket_of(AF_UNIX, SOCK_STREAM));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	expect(OUTPUT_NO_STREAM, fds[0]);
	close(fds[1]);
}

/* The client's end of a connection, the server's end of it, and the socket that listens. */
static void test_named(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listens = socket_of(AF_UNIX, SOCK_STREAM), connected = socket_of(AF_UNIX, SOCK_STREAM);

	(void)state;
	(void)snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "test-output-%d", getpid());
	assert_int_equal(bind(listens, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listens, 4), 0);
	assert_int_equal(connect(connected, (struct sockaddr *)&at, sizeof(at)), 0);
	expect(OUTPUT_NAMED, accept4(listens, NULL, NULL, SOCK_CLOEXEC));
	expect(OUTPUT_NAMED, connected);
	expect(OUTPUT_NOT_CONNECTED, listens);
}

static void test_numbers(void **state)
{
	int fds[16] = {here, here, here, here}, got[2], before = n_open();
	size_t n;
	char byte;

	(void)state;
	assert_int_equal(output_look(there, got, &n), OUTPUT_NONE); /* nothing yet */
	assert_int_equal(n, 0);
	send_fds(fds, 0);
	assert_int_equal(output_look(there, got, &n), OUTPUT_NONE);
	assert_int_equal(n, 0);
	assert_int_equal(recv(there, &byte, 1, 0), 1);
	for (size_t i = 2; i <= 4; i++) {
		send_fds(fds, i);
		assert_int_equal(output_look(there, got, &n), OUTPUT_MANY);
		assert_int_equal(n, 2);
		close(got[0]);
		close(got[1]);
		assert_int_equal(recv(there, &byte, 1, 0), 1);
	}
	assert_int_equal(n_open(), before);
}

static void ask(struct helper *h, uint8_t what, int fd, enum output_verdict wanted, int *ret_fd)
{
	const uint8_t *answer;
	size_t len;

	assert_int_equal(helper_ask(h, &what, 1, fd), 0);
	assert_int_equal(helper_wait(h, 20 * NSEC_PER_SEC, &answer, &len, ret_fd), 0);
	assert_int_equal(len, 1);
	assert_int_equal(answer[0], wanted);
}

/* By the helper process: a good one is handed over, and others are its own affair. */
static void test_role(void **state)
{
	struct helper *h;
	int pair[2], fd, bad = open("/dev/null", O_RDWR | O_CLOEXEC);
	char byte;

	(void)state;
	assert_int_equal(helper_new(&output_role, NULL, &h), 0);
	send_fds(&bad, 1);
	ask(h, OUTPUT_LOOK, there, OUTPUT_NO_SOCKET, &fd);
	assert_int_equal(fd, -1);
	ask(h, OUTPUT_LET_GO, -1, OUTPUT_GOOD, &fd);
	assert_int_equal(fd, -1);
	assert_int_equal(recv(there, &byte, 1, 0), 1);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	send_fds(&pair[0], 1);
	close(pair[0]);
	ask(h, OUTPUT_LOOK, there, OUTPUT_GOOD, &fd);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(recv(pair[1], &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	/* Ours is the last once the connection's byte is taken: its peer sees the end. */
	assert_int_equal(recv(there, &byte, 1, 0), 1);
	ask(h, OUTPUT_LET_GO, -1, OUTPUT_GOOD, &bad);
	close(fd);
	assert_int_equal(recv(pair[1], &byte, 1, 0), 0);
	close(pair[1]);
	(void)helper_free(h);
}

static void test_reasons(void **state)
{
	(void)state;
	assert_string_equal(output_reason(OUTPUT_GOOD), "");
	for (int i = 1; i < OUTPUT_VERDICTS; i++)
		assert_true(strlen(output_reason((enum output_verdict)i)) > 10);
	assert_string_equal(output_reason((enum output_verdict)255), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_files),   EACH(test_sockets), EACH(test_named),
		EACH(test_numbers), EACH(test_role),	EACH(test_reasons),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
