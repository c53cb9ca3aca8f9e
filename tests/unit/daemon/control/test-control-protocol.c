/* test-control-protocol.c - messages of the control socket: split and joined in any way, too long, with
 * descriptors; requests that are none. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/control/control-protocol.h"
#include "tests/unit/cmocka.h"

static struct control_stream here, there;

static int setup(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	control_stream_init(&here, fds[0], 1000);
	control_stream_init(&there, fds[1], 1000);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	control_stream_deinit(&here);
	control_stream_deinit(&there);
	return 0;
}

static void expect(uint32_t type, const char *text)
{
	const uint8_t *data;
	uint32_t got;
	size_t len;

	assert_int_equal(control_next(&there, &got, &data, &len), 0);
	assert_int_equal(got, type);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(data, text, len);
}

static void expect_none(void)
{
	const uint8_t *data;
	uint32_t type;
	size_t len;

	assert_int_equal(control_next(&there, &type, &data, &len), CONTROL_NONE);
}

static void test_joined(void **state)
{
	(void)state;
	assert_int_equal(control_queue(&here, CONTROL_NOTE, "one", 3), 0);
	assert_int_equal(control_queue(&here, CONTROL_STOP, NULL, 0), 0);
	assert_int_equal(control_queue(&here, CONTROL_FAILED, "three", 5), 0);
	assert_int_equal(control_waiting(&here), 3 * 8 + 8);
	assert_int_equal(control_send(&here), 0);
	assert_int_equal(control_waiting(&here), 0);
	assert_int_equal(control_receive(&there), 0);
	expect(CONTROL_NOTE, "one");
	expect(CONTROL_STOP, "");
	expect(CONTROL_FAILED, "three");
	expect_none();
	assert_int_equal(control_receive(&there), CONTROL_NONE);
	control_stream_deinit(&here);
	assert_int_equal(control_receive(&there), CONTROL_CLOSED);
}

static void test_split(void **state)
{
	/* size 5, type 18, by hand */
	static const char bytes[] = "\5\0\0\0\22\0\0\0hello";

	(void)state;
	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		expect_none();
		assert_int_equal(send(here.fd, bytes + i, 1, 0), 1);
		assert_int_equal(control_receive(&there), 0);
	}
	expect(CONTROL_NOTE, "hello");
}

static void test_too_long(void **state)
{
	static const uint8_t head[] = {0xe9, 3, 0, 0, 1, 0, 0, 0}; /* 1,001 */
	const uint8_t *data;
	uint32_t type;
	size_t len;

	(void)state;
	assert_int_equal(send(here.fd, head, sizeof(head), 0), sizeof(head));
	assert_int_equal(control_receive(&there), 0);
	assert_int_equal(control_next(&there, &type, &data, &len), -EMSGSIZE);
}

/* Nothing is received past what one message may be: a peer that pours costs no memory. */
static void test_pours(void **state)
{
	uint8_t zeros[3000] = {0xe8, 3, 0, 0, 1}; /* 1,000 bytes of it are the message's */

	(void)state;
	assert_int_equal(send(here.fd, zeros, sizeof(zeros), 0), sizeof(zeros));
	assert_int_equal(control_receive(&there), 0);
	assert_int_equal(there.in.len, 1008);
	assert_int_equal(control_receive(&there), -EMSGSIZE);
}

static void test_descriptor(void **state)
{
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(sizeof(int))];
	} u = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t) "\1", 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};
	int next = fcntl(here.fd, F_DUPFD_CLOEXEC, 0), after;

	(void)state;
	(void)close(next);
	memcpy(CMSG_DATA(&u.head), &here.fd, sizeof(int));
	assert_int_equal(sendmsg(here.fd, &msg, 0), 1);
	assert_int_equal(control_receive(&there), -EBADMSG);
	after = fcntl(here.fd, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(after, next); /* none has come to stay */
	(void)close(after);
}

static int n_open(void)
{
	int fd = fcntl(here.fd, F_DUPFD_CLOEXEC, 0);

	(void)close(fd);
	return fd;
}

/* One goes with the first byte, to a peer that expects it. */
static void test_carried(void **state)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), got = -1, before;

	(void)state;
	assert_int_equal(control_carry(&here, fd), 0);
	assert_int_equal(control_queue(&here, CONTROL_NOTE, "one", 3), 0);
	assert_int_equal(control_send(&here), 0);
	assert_int_equal(here.carried, 0);
	before = n_open();
	assert_int_equal(control_receive(&there), -EBADMSG);
	assert_int_equal(n_open(), before);
	assert_int_equal(control_receive_with(&there, &got), 0);
	assert_int_equal(got, before);
	assert_int_equal(fcntl(got, F_GETFD), FD_CLOEXEC);
	expect(CONTROL_NOTE, "one");
	/* A second one is refused, and closed. */
	assert_int_equal(control_carry(&here, open("/dev/null", O_RDWR | O_CLOEXEC)), 0);
	assert_int_equal(control_queue(&here, CONTROL_NOTE, "two", 3), 0);
	assert_int_equal(control_send(&here), 0);
	before = n_open();
	assert_int_equal(control_receive_with(&there, &got), -EBADMSG);
	assert_int_equal(n_open(), before);
	(void)close(got);
}

static void test_two_carried(void **state)
{
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(2 * sizeof(int))];
	} u = {.head = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t) "\1", 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};
	int fds[2] = {here.fd, here.fd}, got = -1, before = n_open();

	(void)state;
	memcpy(CMSG_DATA(&u.head), fds, sizeof(fds));
	assert_int_equal(sendmsg(here.fd, &msg, 0), 1);
	assert_int_equal(control_receive_with(&there, &got), -EBADMSG);
	assert_int_equal(got, -1);
	assert_int_equal(n_open(), before);
}

/* Taken back before it is sent: closed. */
static void test_not_carried(void **state)
{
	int before = n_open(), got = -1;

	(void)state;
	assert_int_equal(control_carry(&here, open("/dev/null", O_RDWR | O_CLOEXEC)), 0);
	assert_int_equal(control_carry(&here, -1), 0);
	assert_int_equal(n_open(), before);
	assert_int_equal(control_queue(&here, CONTROL_NOTE, "one", 3), 0);
	assert_int_equal(control_send(&here), 0);
	assert_int_equal(control_receive_with(&there, &got), 0);
	assert_int_equal(got, -1);
}

/* What the socket does not take waits, and is whole when it has come. */
static void test_pending(void **state)
{
	enum { N = 3000, SIZE = 900 };
	char text[SIZE];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		assert_int_equal(control_queue(&here, CONTROL_NOTE, text, sizeof(text)), 0);
	}
	assert_int_equal(control_send(&here), CONTROL_PENDING);
	while (n < N) {
		const uint8_t *data;
		uint32_t type;
		size_t len;
		int r = control_next(&there, &type, &data, &len);

		if (r == CONTROL_NONE) {
			assert_true(control_send(&here) >= 0);
			assert_int_equal(control_receive(&there), 0);
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(len, SIZE);
		assert_int_equal(data[0], 'a' + n % 26);
		assert_int_equal(data[SIZE - 1], 'a' + n % 26);
		n++;
	}
	assert_int_equal(control_waiting(&here), 0);
}

static void test_peer_gone(void **state)
{
	(void)state;
	control_stream_deinit(&there);
	assert_int_equal(control_queue(&here, CONTROL_NOTE, "one", 3), 0);
	assert_int_equal(control_send(&here), -EPIPE);
}

static void test_request(void **state)
{
	static uint32_t pids[CONTROL_PIDS_MAX + 1];
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT, *got;
	uint8_t bytes[8192];
	size_t len;

	(void)state;
	request.has_version = true;
	request.version = CONTROL_VERSION;
	pids[1] = 77;
	request.pids = pids;
	request.n_pids = 2;
	len = pb__control_request__pack(&request, bytes);
	got = control_request_unpack(bytes, len);
	assert_non_null(got);
	assert_int_equal(got->n_pids, 2);
	assert_int_equal(got->pids[1], 77);
	pb__control_request__free_unpacked(got, NULL);

	assert_null(control_request_unpack(bytes, len - 1)); /* cut */
	got = control_request_unpack("\x08\x63", 2); /* of another version: the reason is sent */
	assert_non_null(got);
	assert_int_equal(got->version, 99);
	pb__control_request__free_unpacked(got, NULL);
	assert_null(control_request_unpack("\xff\xff\xff\xff", 4));
	request.n_pids = CONTROL_PIDS_MAX + 1;
	len = pb__control_request__pack(&request, bytes);
	assert_null(control_request_unpack(bytes, len));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Whole packets are counted; the mark of a loss goes into the first one, and the rest stays as it is. */
static void test_packets(void **state)
{
	/* Two packets: of a field of 2 bytes, and an empty one. */
	static const uint8_t two[] = {0x0a, 2, 0x40, 7, 0x0a, 0}, cut[] = {0x0a, 9, 0x40};
	_cleanup_(buffer_deinit) struct buffer b = {0};

	(void)state;
	assert_int_equal(control_packets_count(two, sizeof(two)), 2);
	assert_int_equal(control_packets_count(two, 4), 1);
	assert_int_equal(control_packets_count(two, 0), 0);
	assert_int_equal(control_packets_count(cut, sizeof(cut)), 0);
	control_packets_mark_loss(&b, two, sizeof(two));
	assert_int_equal(control_packets_count(b.data, b.len), 2);
	/* previous_packet_dropped = 42, a varint: tag 0xd0 0x02 */
	assert_int_equal(b.len, sizeof(two) + 3);
	assert_memory_equal(b.data, "\x0a\5\x40\7\xd0\2\1\x0a\0", 9);
	b.len = 0;
	control_packets_mark_loss(&b, cut, sizeof(cut));
	assert_int_equal(b.len, sizeof(cut));
	assert_memory_equal(b.data, cut, sizeof(cut));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_joined),	TEST(test_split),	TEST(test_too_long),
		TEST(test_pours),	TEST(test_descriptor),	TEST(test_pending),
		TEST(test_peer_gone),	TEST(test_request),	TEST(test_carried),
		TEST(test_two_carried), TEST(test_not_carried), cmocka_unit_test(test_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
