/* test-control-sink.c - a client that does not read: what waits is bounded, what is lost is counted,
 * and what comes behind it is marked and can be read.  Packets are built by hand. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/control/control.c"
#include "protos/trace.pb-c.h"
#include "tests/unit/cmocka.h"

enum { WAITING = 64 << 10, ROOM = 1100 };

static struct control control;
static struct loop loop;
static struct client client;
static int peer;

static int ready(struct loop_source *source, uint32_t events)
{
	(void)source;
	return events & EPOLLOUT ? client_send(&client) : 0;
}

static int set_up(void **state)
{
	int fds[2], size = 4096;

	(void)state;
	if (loop_init(&loop) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ||
	    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0)
		return -1;
	control = (struct control){.loop = &loop};
	client = (struct client){.control = &control, .source.fd = -1, .stream.fd = -1};
	control_stream_init(&client.output, fds[0], 0);
	peer = fds[1];
	client_sink_init(&client);
	client.recording.max_waiting = WAITING;
	return loop_add(&loop, &client.output_source, fds[0], 0, ready);
}

static int tear_down(void **state)
{
	(void)state;
	client_output_close(&client);
	control_stream_deinit(&client.stream);
	peer = fd_close(peer);
	loop_deinit(&loop);
	return 0;
}

/* A TracePacket with timestamp @n, below 128, and 998 bytes of an unknown field (99). */
static size_t packet_of(uint8_t n, uint8_t *to)
{
	uint8_t *p = to;

	*p++ = 0x0a; /* Trace.packet */
	*p++ = 0xec; /* 1,004 = 2 + 2 + 2 + 998 */
	*p++ = 0x07;
	*p++ = 8 << 3; /* timestamp = n */
	*p++ = n;
	*p++ = 0x9a; /* field 99, bytes: 99 << 3 | 2 = 794 */
	*p++ = 0x06;
	*p++ = 0xe6; /* 998 */
	*p++ = 0x07;
	memset(p, 'x', 998);
	return (size_t)(p + 998 - to);
}

static void put(uint8_t n, int expected)
{
	uint8_t packet[ROOM];
	size_t len = packet_of(n, packet);

	assert_int_equal(client.sink.write(&client.sink, packet, len), expected);
}

/* All that is there: the packets' numbers, and the first one that reports a loss. */
static size_t take_all(uint8_t *numbers, int *ret_dropped_at)
{
	static uint8_t bytes[256 * ROOM];
	size_t len = 0;
	ssize_t got;
	Pb__Trace *t;

	*ret_dropped_at = -1;
	do {
		got = recv(peer, bytes + len, sizeof(bytes) - len, MSG_DONTWAIT);
		len += got > 0 ? (size_t)got : 0;
		assert_true(client_send(&client) >= 0);
	} while (got > 0 || control_waiting(&client.output));
	t = pb__trace__unpack(NULL, len, bytes);
	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		if (t->packet[i]->previous_packet_dropped && *ret_dropped_at < 0)
			*ret_dropped_at = (int)i;
		numbers[i] = (uint8_t)t->packet[i]->timestamp;
	}
	len = t->n_packet;
	pb__trace__free_unpacked(t, NULL);
	return len;
}

static void test_in_order(void **state)
{
	uint8_t numbers[256];
	int dropped;

	(void)state;
	for (uint8_t i = 0; i < 10; i++)
		put(i, 0);
	assert_int_equal(client.sink.flush(&client.sink), 0);
	assert_int_equal(take_all(numbers, &dropped), 10);
	for (uint8_t i = 0; i < 10; i++)
		assert_int_equal(numbers[i], i);
	assert_int_equal(dropped, -1);
	assert_int_equal(client.sink.dropped, 0);
}

static void test_not_read(void **state)
{
	uint8_t numbers[256];
	int dropped;
	size_t n;

	(void)state;
	for (uint8_t i = 0; i < 120; i++)
		put(i, 0);
	assert_true(control_waiting(&client.output) <= WAITING);
	assert_true(client.sink.dropped > 0);
	assert_true(client.lost);
	n = take_all(numbers, &dropped);
	/* What was lost was counted, and is the end: no hole before it. */
	assert_int_equal(n + client.sink.dropped, 120);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(numbers[i], i);
	assert_int_equal(dropped, -1);
	/* There is room: the writer is to begin again.  Packets before that are of no use. */
	assert_true(client.sink.renew);
	put(121, 0);
	assert_int_equal(n + client.sink.dropped, 121);
	client.sink.renew = false; /* it does */
	put(122, 0);
	put(123, 0);
	assert_int_equal(client.sink.flush(&client.sink), 0);
	assert_int_equal(take_all(numbers, &dropped), 2);
	assert_int_equal(numbers[0], 122);
	assert_int_equal(numbers[1], 123);
	assert_int_equal(dropped, 0);
	assert_int_equal(n + client.sink.dropped, 121);
}

/* A trace session's packets cannot be written again: that is its end. */
static void test_trace(void **state)
{
	uint8_t packet[ROOM];
	size_t len = packet_of(1, packet), n = 0;
	int r;

	(void)state;
	client.recording.trace = (struct trace_session *)&control; /* only that there is one */
	do {
		r = client.sink.write(&client.sink, packet, len);
	} while (r == 0 && ++n < 1000);
	assert_int_equal(r, -ENOBUFS);
	assert_true(control_waiting(&client.output) <= WAITING);
	client.recording.trace = NULL;
}

static void test_gone(void **state)
{
	int r = 0;

	(void)state;
	peer = fd_close(peer);
	for (uint8_t i = 0; i < 120 && r >= 0; i++) {
		uint8_t packet[ROOM];
		size_t len = packet_of(i, packet);

		r = client.sink.write(&client.sink, packet, len);
		if (r >= 0)
			r = client.sink.flush(&client.sink);
	}
	assert_int_equal(r, -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_in_order),
		EACH(test_not_read),
		EACH(test_trace),
		EACH(test_gone),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
