/* test-control-client.c - a client from its connection to its end: the order of its messages, and the answers. */
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/log.h"
#include "daemon/control/control.c"
#include "tests/unit/daemon/control/control-fixture.h"

static struct control_fixture f;

static int set_up(void **state)
{
	(void)state;
	control_fixture_init(&f);
	control_fixture_connect(&f, geteuid());
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	control_fixture_deinit(&f);
	return 0;
}

static void send_type(enum control_type type)
{
	assert_int_equal(control_queue(&f.client, type, NULL, 0), 0);
	assert_true(control_send(&f.client) >= 0);
}

static void begin(const Pb__ControlRequest *q)
{
	control_fixture_begin(&f, q);
}

static void expect_end(void)
{
	const char *text = "";
	size_t len = 0;

	assert_int_equal(control_fixture_hear(&f, &text, &len), 0);
}

static struct control_counts counts(void)
{
	struct control_counts c;

	control_counts(f.control, &c);
	return c;
}

/* ... of the child's CPU time. */
static void run_ms(uint64_t ms)
{
	uint64_t until = fixture_used_ns(f.child) + ms * NSEC_PER_MSEC;

	while (fixture_used_ns(f.child) < until)
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
}

static void test_whole(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	const char *text = "";
	Pb__ControlSummary *m;
	uint64_t skipped = 0;
	uint32_t type;
	size_t len = 0;

	(void)state;
	begin(&q);
	run_ms(100);
	send_type(CONTROL_STOP);
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	assert_int_equal(type, CONTROL_DONE);
	m = control_summary_unpack(text, len);
	assert_non_null(m);
	for (size_t i = 0; i < m->n_skipped; i++)
		skipped += m->skipped[i];
	assert_true(m->received > 0);
	assert_int_equal(m->received, m->emitted + skipped);
	expect_end();
	/* All packets were there before the word of the end was good, and then their end. */
	control_fixture_read(&f);
	assert_int_equal(f.packets, -1);
	assert_true(m->stream_bytes > 0);
	assert_int_equal(f.got.len, m->stream_bytes);
	pb__control_summary__free_unpacked(m, NULL);
	assert_int_equal(counts().accepted, 1);
}

/* Packets up to RENEWED, and whether the first packet begins incremental state. */
static void asks_renewal(size_t *from, bool *ret_any, bool *ret_begins)
{
	const char *text = "";
	Pb__ControlSummary *m;
	const uint8_t *packet;
	uint32_t type;
	size_t len = 0, n;
	struct cursor c;

	*ret_any = *ret_begins = false;
	send_type(CONTROL_RENEW);
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	assert_int_equal(type, CONTROL_RENEWED);
	m = control_summary_unpack(text, len);
	assert_non_null(m);
	while (f.got.len < m->stream_bytes) {
		assert_int_equal(loop_run_once(&f.loop, 20), 0);
		control_fixture_read(&f);
	}
	c = cursor_of(f.got.data + *from, m->stream_bytes - *from);
	*from = m->stream_bytes;
	pb__control_summary__free_unpacked(m, NULL);
	while (sink_next_packet(&c, (const void **)&packet, &n)) {
		Pb__TracePacket *p = pb__trace_packet__unpack(NULL, n, packet);

		assert_non_null(p);
		*ret_any |= p->perf_sample != NULL;
		*ret_begins |= p->trace_packet_defaults != NULL;
		pb__trace_packet__free_unpacked(p, NULL);
	}
	assert_false(c.bad); /* the position is between two packets */
}

static void test_renew(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	bool any, begins;
	size_t at = 0;

	(void)state;
	begin(&q);
	for (int i = 0; i < 3; i++) {
		/* (Samples wait for the mappings of their process, which a helper process reads.) */
		any = false;
		for (int k = 0; k < 100 && !any; k++) {
			run_ms(100);
			asks_renewal(&at, &any, &begins);
		}
		assert_true(any);
		assert_true(begins); /* each interval can be read by itself */
	}
	/* The second one before the answer to the first. */
	assert_int_equal(control_queue(&f.client, CONTROL_RENEW, NULL, 0), 0);
	send_type(CONTROL_RENEW);
	expect_end();
	assert_int_equal(counts().refused, 1);
}

/* One that comes too early waits. */
static void test_renew_early(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	const char *text = "";
	uint32_t type;
	size_t len = 0;

	(void)state;
	begin(&q);
	f.control->clients->renew_from = UINT64_MAX;
	send_type(CONTROL_RENEW);
	while (!f.control->clients->renews)
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
	run_ms(300);
	assert_true(f.control->clients->renew_waits);
	f.control->clients->renew_from = 0;
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	assert_int_equal(type, CONTROL_RENEWED);
	/* So does a client that was answered just now. */
	assert_true(f.control->clients->renew_from > 0);
}

static bool is_of(pid_t pid)
{
	return f.control->clients && f.control->clients->requester.ids.pid == (uint32_t)pid;
}

/* The process that asked has gone, and left its connection where it stays open: in a queue, or to another. */
static void test_requester_ends(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t child;

	(void)state;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", f.path);
	control_stream_deinit(&f.client);
	child = fork();
	if (!child) {
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	for (int i = 0; i < 2000 && !is_of(child); i++)
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	assert_true(is_of(child));
	control_stream_init(&f.client, fd, CONTROL_REPLY_MAX);
	f.packets = fd_close(f.packets);
	begin(&q);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	expect_end();
	assert_int_equal(f.control->n_clients, 0);
}

/* The types of all messages that have come. */
static uint32_t types_so_far(void)
{
	const uint8_t *data;
	uint32_t type, types = 0;
	size_t len;

	while (control_receive_with(&f.client, &f.packets) == 0)
		while (control_next(&f.client, &type, &data, &len) == 0)
			types |= 1u << type;
	return types;
}

/* For a client that does not read its messages no more are made: they would use our memory. */
static void test_renew_unread(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	struct client *c;
	const int least = 1;
	size_t waiting;

	(void)state;
	begin(&q);
	c = f.control->clients;
	assert_int_equal(setsockopt(c->stream.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	for (int i = 0; i < 200 && !control_waiting(&c->stream); i++) {
		c->renew_from = 0;
		send_type(CONTROL_RENEW);
		do {
			assert_int_equal(loop_run_once(&f.loop, 5), 0);
		} while (c->renews);
	}
	waiting = control_waiting(&c->stream);
	assert_true(waiting > 0);
	send_type(CONTROL_RENEW);
	run_ms(300);
	c->renew_from = 0;
	run_ms(300);
	assert_true(c->renew_waits);
	assert_int_equal(control_waiting(&c->stream), waiting);
	/* He reads: it goes on. */
	for (int i = 0; i < 2000 && c->renew_waits; i++) {
		(void)types_so_far();
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
	}
	assert_false(c->renew_waits);
}

static void test_out_of_turn(void **state)
{
	static const enum control_type types[] = {CONTROL_STOP, CONTROL_RENEW, CONTROL_PACKETS_1};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		control_fixture_connect(&f, geteuid());
		send_type(types[i]);
		expect_end();
		assert_int_equal(counts().refused, i + 1);
	}
	assert_int_equal(counts().accepted, 0);
}

static void test_garbage(void **state)
{
	(void)state;
	assert_int_equal(control_queue(&f.client, CONTROL_REQUEST, "\377\377", 2), 0);
	assert_true(control_send(&f.client) >= 0);
	expect_end();
	assert_int_equal(counts().refused, 1);
}

/* What own privileges lacked is in the step's line, without what a terminal would obey. */
static void test_step(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	static char note[] = "no \33[31mright";
	char line[128];

	(void)state;
	q.note = note;
	(void)snprintf(line, sizeof(line), "daemon for user %u (own privileges: no ?[31mright)",
		       geteuid());
	if (geteuid()) {
		print_message("needs root: another user's message differs\n");
		skip();
	}
	control_fixture_ask(&f, &q);
	control_fixture_expect(&f, CONTROL_NOTE, line);
}

/* The client is gone: so is its recording, and its place is free. */
static void test_leaves(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);

	(void)state;
	f.settings.max_recordings = 1;
	control_set_settings(f.control, &f.settings);
	for (unsigned i = 1; i <= 3; i++) {
		begin(&q);
		control_stream_deinit(&f.client);
		for (int j = 0; j < 2000 && f.control->n_clients; j++)
			assert_int_equal(loop_run_once(&f.loop, 10), 0);
		assert_int_equal(counts().accepted, i);
		control_fixture_connect(&f, geteuid());
	}
}

/* PROGRESS is sent whatever is gathered for the client at that moment: a client that reads gets it,
 * and writes its file then. */
static void test_progress(void **state)
{
	static const uint8_t packet[] = {0x0a, 0};
	Pb__ControlRequest q = control_fixture_request(&f);
	uint64_t until = fixture_used_ns(f.child) + 10 * NSEC_PER_SEC;
	uint32_t types = 0;

	(void)state;
	begin(&q);
	while (!(types & 1u << CONTROL_PROGRESS) && fixture_used_ns(f.child) < until) {
		struct sink *sink = &f.control->clients->sink;

		assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
		types |= types_so_far();
		control_fixture_read(&f);
	}
	control_fixture_read(&f);
	assert_true(f.got.len > 0);
	assert_true(types & 1u << CONTROL_PROGRESS);
}

/* No process reads the packets any more: the recording ends, and its client gets the reason. */
static void test_output_closed(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	const char *text = "";
	uint32_t type;
	size_t len = 0;

	(void)state;
	begin(&q);
	run_ms(50);
	f.packets = fd_close(f.packets);
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	assert_int_equal(type, CONTROL_FAILED);
	assert_memory_equal(text, "the client has closed its end", 29);
	control_fixture_expect(&f, CONTROL_DONE, NULL);
	expect_end();
}

/* A client that is gone does not wait for its packets' end; one that has its end still reads the rest. */
static void test_output_ends(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);

	(void)state;
	begin(&q);
	assert_true(f.packets >= 0);
	control_stream_deinit(&f.client);
	for (int i = 0; i < 500 && f.packets >= 0; i++) {
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
		control_fixture_read(&f);
	}
	assert_int_equal(f.packets, -1);
	assert_int_equal(f.control->n_clients, 0);
}

static int send_descriptor(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {.iov_base = control.bytes, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	return sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Nothing that the client does to its end keeps memory of the daemon, or lies in the daemon's queue. */
static void test_output_bounded(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	const int room = 64 << 20;
	struct client *c;

	(void)state;
	begin(&q);
	c = f.control->clients;
	assert_int_equal(send_descriptor(f.packets, f.client.fd), -EPIPE);
	assert_int_equal(send(f.packets, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
	(void)setsockopt(f.packets, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	(void)setsockopt(f.packets, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	for (int i = 0; i < 1000; i++) {
		uint8_t packet[4096] = {SINK_PACKET_TAG, 0xfd, 0x1f}; /* 4,093 */
		int unread;

		assert_int_equal(c->sink.write(&c->sink, packet, sizeof(packet)), 0);
		assert_true(client_send(c) >= 0);
		assert_int_equal(ioctl(c->output.fd, SIOCOUTQ, &unread), 0);
		/* one buffer more than the limit, which the kernel doubles */
		assert_true(unread < 2 * CONTROL_OUTPUT_ROOM + (64 << 10));
	}
	assert_true(control_waiting(&c->output) > 0);
	assert_int_equal(shutdown(f.packets, SHUT_RDWR), 0);
	control_fixture_expect(&f, CONTROL_FAILED, "the client has closed its end");
}

/* A descriptor with the request, as version 2 had it: the client gets the reason, and the descriptor is not received. */
static void test_descriptor(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(control_carry(&f.client, pair[0]), 0);
	control_fixture_ask(&f, &q);
	control_fixture_expect(&f, CONTROL_DENIED, "has a descriptor, as in version 2");
	expect_end();
	assert_int_equal(counts().denied, 1);
	/* Behind the first byte it is not a request of an old client. */
	control_fixture_connect(&f, geteuid());
	begin(&q);
	assert_int_equal(send_descriptor(f.client.fd, pair[1]), 0);
	expect_end();
	assert_int_equal(counts().refused, 1);
	close(pair[1]);
}

static void test_version(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);

	(void)state;
	q.version = 1;
	control_fixture_ask(&f, &q);
	control_fixture_expect(&f, CONTROL_DENIED, "the request is of version 1");
	expect_end();
	assert_int_equal(counts().accepted, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_whole),	 EACH(test_renew),	   EACH(test_renew_early),
		EACH(test_renew_unread), EACH(test_out_of_turn),   EACH(test_garbage),
		EACH(test_step),	 EACH(test_leaves),	   EACH(test_requester_ends),
		EACH(test_progress),	 EACH(test_output_closed), EACH(test_output_bounded),
		EACH(test_output_ends),	 EACH(test_descriptor),	   EACH(test_version),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
