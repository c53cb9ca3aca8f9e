/* test-frame.c - the frame stream.  Cases of the stock deserialiser's own test are named as there
 * (tests/README.md has the table). */
#include <errno.h>

#include "base/error.h"
#include "tests/unit/daemon/producer/frame-pair.h"

/* A frame with an IPCFrame of @len bytes of @fill. */
static size_t make_frame(uint8_t *to, size_t len, uint8_t fill)
{
	uint32_t head = (uint32_t)len;

	memcpy(to, &head, 4);
	memset(to + 4, fill, len);
	return 4 + len;
}

static void expect_frame(struct frame_stream *s, size_t len, uint8_t fill)
{
	const uint8_t *data;
	size_t n;

	assert_int_equal(frame_next(s, &data, &n), 0);
	assert_int_equal(n, len);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(data[i], fill);
}

static void expect_none(struct frame_stream *s)
{
	const uint8_t *data;
	size_t n;

	assert_int_equal(frame_next(s, &data, &n), FRAME_NONE);
}

static void test_whole_messages(void **state)
{
	uint8_t frame[64];
	struct pair p;

	(void)state;
	pair_init(&p);
	for (uint8_t i = 1; i <= 20; i++) {
		peer_send(p.peer, frame, make_frame(frame, i, i), 0);
		assert_int_equal(frame_receive(&p.stream), 0);
		expect_frame(&p.stream, i, i);
		expect_none(&p.stream);
	}
	pair_deinit(&p);
}

static void test_fragmented(void **state)
{
	uint8_t frames[300];
	size_t len = make_frame(frames, 100, 7);
	struct pair p;

	(void)state;
	pair_init(&p);
	len += make_frame(frames + len, 50, 8);
	peer_send(p.peer, frames, 60, 0);
	assert_int_equal(frame_receive(&p.stream), 0);
	expect_none(&p.stream);
	peer_send(p.peer, frames + 60, 60, 0); /* the first one's end, the second one's begin */
	assert_int_equal(frame_receive(&p.stream), 0);
	expect_frame(&p.stream, 100, 7);
	expect_none(&p.stream);
	peer_send(p.peer, frames + 120, len - 120, 0);
	assert_int_equal(frame_receive(&p.stream), 0);
	expect_frame(&p.stream, 50, 8);
	expect_none(&p.stream);
	pair_deinit(&p);
}

static void test_nothing_to_receive(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	assert_int_equal(frame_receive(&p.stream), FRAME_NONE);
	expect_none(&p.stream);
	(void)fd_close(p.peer);
	p.peer = -1;
	assert_int_equal(frame_receive(&p.stream), FRAME_CLOSED);
	pair_deinit(&p);
}

static void test_empty_payload(void **state)
{
	uint8_t frames[64];
	size_t len = make_frame(frames, 0, 0);
	struct pair p;

	(void)state;
	pair_init(&p);
	len += make_frame(frames + len, 0, 0);
	len += make_frame(frames + len, 3, 9);
	len += make_frame(frames + len, 0, 0);
	peer_send(p.peer, frames, len, 0);
	assert_int_equal(frame_receive(&p.stream), 0);
	expect_frame(&p.stream, 3, 9);
	expect_none(&p.stream);
	pair_deinit(&p);
}

static void test_several_in_one(void **state)
{
	uint8_t frames[4096];
	size_t len = 0;
	struct pair p;

	(void)state;
	pair_init(&p);
	for (uint8_t i = 1; i <= 40; i++)
		len += make_frame(frames + len, i, i);
	peer_send(p.peer, frames, len, 0);
	assert_int_equal(frame_receive(&p.stream), 0);
	for (uint8_t i = 1; i <= 40; i++)
		expect_frame(&p.stream, i, i);
	expect_none(&p.stream);
	pair_deinit(&p);
}

static void test_reject_very_large(void **state)
{
	static const uint32_t sizes[] = {131069, 131073, 1u << 24, UINT32_MAX};
	const uint8_t *data;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint8_t frames[64];
		size_t len = make_frame(frames, 5, 1);
		struct pair p;

		pair_init(&p);
		memcpy(frames + len, &sizes[i], 4);
		peer_send(p.peer, frames, len + 4, 0);
		assert_int_equal(frame_receive(&p.stream), 0);
		expect_frame(&p.stream, 5, 1); /* what stood before it is good */
		assert_int_equal(frame_next(&p.stream, &data, &n), -EMSGSIZE);
		assert_int_equal(frame_next(&p.stream, &data, &n), -EMSGSIZE);
		pair_deinit(&p);
	}
}

static void test_highly_fragmented(void **state)
{
	uint8_t frames[256];
	size_t len = 0, n_frames = 0, n;
	const uint8_t *data;
	struct pair p;

	(void)state;
	pair_init(&p);
	for (uint8_t i = 1; i <= 10; i++)
		len += make_frame(frames + len, i, i);
	for (size_t i = 0; i < len; i++) {
		peer_send(p.peer, frames + i, 1, 0);
		assert_int_equal(frame_receive(&p.stream), 0);
		if (frame_next(&p.stream, &data, &n) == 0) {
			assert_int_equal(n, ++n_frames);
			assert_int_equal(data[n - 1], n_frames);
		}
	}
	assert_int_equal(n_frames, 10);
	pair_deinit(&p);
}

/* Exactly 128 KiB with its head; the socket holds less, so it comes in parts. */
static void test_fill_capacity(void **state)
{
	_cleanup_(freep) uint8_t *frame = malloc(2 * FRAME_BUFFER);
	size_t len, sent = 0;
	struct pair p;

	(void)state;
	pair_init(&p);
	len = make_frame(frame, FRAME_MAX, 3);
	assert_int_equal(len, 131072);
	len += make_frame(frame + len, 1, 4);
	while (sent < len) {
		ssize_t n = send(p.peer, frame + sent, len - sent, MSG_DONTWAIT);

		assert_true(n > 0);
		sent += (size_t)n;
		if (sent < FRAME_BUFFER)
			expect_none(&p.stream);
		if (p.stream.to - p.stream.from < FRAME_BUFFER)
			while (p.stream.to - p.stream.from < FRAME_BUFFER &&
			       frame_receive(&p.stream) == 0)
				;
	}
	expect_frame(&p.stream, FRAME_MAX, 3);
	(void)frame_receive(&p.stream);
	expect_frame(&p.stream, 1, 4);
	pair_deinit(&p);
}

/* ---- descriptors ---- */

static void test_receive_descriptor(void **state)
{
	unsigned before = open_fds();
	uint8_t frame[16];
	size_t len = make_frame(frame, 4, 1);
	struct pair p;
	int fd;

	(void)state;
	pair_init(&p);
	assert_int_equal(frame_take_fd(&p.stream), -1);
	peer_send(p.peer, frame, len, 1);
	assert_int_equal(frame_receive(&p.stream), 0);
	fd = frame_take_fd(&p.stream);
	assert_true(fd > 2);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(frame_take_fd(&p.stream), -1);
	(void)fd_close(fd);
	/* The first one was not taken: the second one replaces it, and neither leaks. */
	peer_send(p.peer, frame, len, 1);
	assert_int_equal(frame_receive(&p.stream), 0);
	peer_send(p.peer, frame, len, 1);
	assert_int_equal(frame_receive(&p.stream), 0);
	pair_deinit(&p);
	assert_int_equal(open_fds(), before);
}

static void test_too_many_descriptors(void **state)
{
	unsigned before = open_fds();
	uint8_t frame[16];
	size_t len = make_frame(frame, 4, 1);

	(void)state;
	/* 8: more than there is room for, so the kernel cuts them off (MSG_CTRUNC). */
	for (size_t n = 2; n <= 8; n += 3) {
		struct pair p;

		pair_init(&p);
		peer_send(p.peer, frame, len, n);
		assert_int_equal(frame_receive(&p.stream), -EBADMSG);
		pair_deinit(&p);
	}
	assert_int_equal(open_fds(), before);
}

/* ---- sending ---- */

static Pb__IPCFrame bind_frame(Pb__IPCFrame__BindService *bind, char *name)
{
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	pb__ipcframe__bind_service__init(bind);
	bind->service_name = name;
	frame.has_request_id = true;
	frame.request_id = 1;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_BIND_SERVICE;
	frame.msg_bind_service = bind;
	return frame;
}

/* The first frame of a stock producer (ipc-session.txt, line 1). */
static void test_bytes_of_bind(void **state)
{
	static const char expected[] = "\x12\0\0\0\x10\x01\x1a\x0e\x0a\x0cProducerPort";
	static char name[] = "ProducerPort";
	Pb__IPCFrame__BindService bind;
	Pb__IPCFrame frame = bind_frame(&bind, name);
	uint8_t got[64];
	struct pair p;

	(void)state;
	pair_init(&p);
	assert_int_equal(frame_queue(&p.stream, &frame), 0);
	assert_int_equal(frame_send(&p.stream), 0);
	assert_int_equal(recv(p.peer, got, sizeof(got), 0), 22);
	assert_memory_equal(got, expected, 22);
	pair_deinit(&p);
}

static void test_queue_limits(void **state)
{
	_cleanup_(freep) char *name = malloc(FRAME_MAX + 1);
	Pb__IPCFrame__BindService bind;
	Pb__IPCFrame frame;
	struct pair p;
	size_t n = 0;
	int r;

	(void)state;
	pair_init(&p);
	/* request_id 2 bytes, two heads of 4 bytes each, then the name. */
	memset(name, 'x', FRAME_MAX);
	name[FRAME_MAX - 10] = 0;
	frame = bind_frame(&bind, name);
	assert_int_equal(pb__ipcframe__get_packed_size(&frame), FRAME_MAX);
	assert_int_equal(frame_queue(&p.stream, &frame), 0);
	name[FRAME_MAX - 10] = 'x';
	name[FRAME_MAX - 9] = 0;
	assert_int_equal(frame_queue(&p.stream, &frame), -EMSGSIZE);
	name[FRAME_MAX - 10] = 0;
	while ((r = frame_queue(&p.stream, &frame)) == 0)
		n++;
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(n, 31); /* 32 of 128 KiB in 4 MiB */
	pair_deinit(&p);
}

/* A peer that reads slowly gets every byte, in order. */
static void test_partial_sends(void **state)
{
	_cleanup_(freep) uint8_t *got = malloc(FRAME_BUFFER);
	static char name[1001];
	Pb__IPCFrame__BindService bind;
	Pb__IPCFrame frame;
	struct pair p;
	bool pended = false;
	unsigned n_read = 0, n_sent = 2000;
	size_t have = 0;

	(void)state;
	pair_init(&p);
	memset(name, 'n', 1000);
	frame = bind_frame(&bind, name);
	for (unsigned i = 0; i < n_sent; i++) {
		frame.request_id = 1000 + i;
		assert_int_equal(frame_queue(&p.stream, &frame), 0);
	}
	while (n_read < n_sent) {
		ssize_t n;
		size_t at = 0;
		int r = frame_send(&p.stream);

		assert_true(r == 0 || r == FRAME_PENDING);
		pended |= r == FRAME_PENDING;
		n = recv(p.peer, got + have, 7777, MSG_DONTWAIT);
		assert_true(n > 0);
		have += (size_t)n;
		for (uint32_t len; at + 4 <= have; at += 4 + len) {
			Pb__IPCFrame *f;

			memcpy(&len, got + at, 4);
			if (have - at - 4 < len)
				break;
			f = (void *)frame_unpack(&pb__ipcframe__descriptor, got + at + 4, len);
			assert_non_null(f);
			assert_int_equal(f->request_id, 1000 + n_read++);
			message_freep(&f);
		}
		memmove(got, got + at, have - at);
		have -= at;
	}
	assert_true(pended);
	assert_int_equal(frame_send(&p.stream), 0);
	assert_int_equal(p.stream.out.room, 0); /* a big queue's memory is given back */
	pair_deinit(&p);
}

static void test_send_to_closed_peer(void **state)
{
	static char name[] = "x";
	Pb__IPCFrame__BindService bind;
	Pb__IPCFrame frame = bind_frame(&bind, name);
	struct pair p;

	(void)state;
	pair_init(&p);
	p.peer = fd_close(p.peer);
	assert_int_equal(frame_queue(&p.stream, &frame), 0);
	assert_int_equal(frame_send(&p.stream), -EPIPE); /* and no SIGPIPE */
	pair_deinit(&p);
}

/* ---- messages ---- */

static bool unpacks(const char *bytes, size_t len)
{
	ProtobufCMessage *m = frame_unpack(&pb__ipcframe__descriptor, bytes, len);
	bool is = m != NULL;

	message_freep(&m);
	return is;
}
#define UNPACKS(bytes) unpacks(bytes, sizeof(bytes) - 1)

static void test_unpack(void **state)
{
	char many[64];

	(void)state;
	assert_true(unpacks(NULL, 0)); /* a message without fields */
	assert_true(UNPACKS("\x10\x01"));
	assert_true(UNPACKS("\x10\x01\x32\x00"));
	/* Lengths as padded four-byte varints, as the service writes them. */
	assert_true(UNPACKS("\x10\x01\x32\x82\x80\x80\x00\x08\x01"));
	assert_true(UNPACKS("\xf8\x7f\x05"));	   /* an unknown field */
	assert_false(UNPACKS("\x10"));		   /* no value */
	assert_false(UNPACKS("\x32\x05\x08\x01")); /* beyond the end */
	assert_false(UNPACKS("\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
	assert_false(UNPACKS("\x13"));		   /* a group */
	assert_false(UNPACKS("\x16\x00"));	   /* not a wire type */
	assert_false(UNPACKS("\x00\x01"));	   /* field 0 */
	assert_false(UNPACKS("\x32\x02\x32\x05")); /* damage below */
	/* One message over and over would be merged each time. */
	for (size_t i = 0; i < 32; i++)
		memcpy(many + 2 * i, "\x32\x00", 2);
	assert_true(unpacks(many, 32));
	assert_false(unpacks(many, 34));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_messages),
		cmocka_unit_test(test_fragmented),
		cmocka_unit_test(test_nothing_to_receive),
		cmocka_unit_test(test_empty_payload),
		cmocka_unit_test(test_several_in_one),
		cmocka_unit_test(test_reject_very_large),
		cmocka_unit_test(test_highly_fragmented),
		cmocka_unit_test(test_fill_capacity),
		cmocka_unit_test(test_receive_descriptor),
		cmocka_unit_test(test_too_many_descriptors),
		cmocka_unit_test(test_bytes_of_bind),
		cmocka_unit_test(test_queue_limits),
		cmocka_unit_test(test_partial_sends),
		cmocka_unit_test(test_send_to_closed_peer),
		cmocka_unit_test(test_unpack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
