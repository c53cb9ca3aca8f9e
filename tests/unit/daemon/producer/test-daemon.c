/* test-daemon.c - data sources and their answers, against a service played by hand.  No perf event
 * is opened here: what a session gives is for tests/integration/daemon.sh. */
#include <errno.h>
#include <sys/mman.h>

#include "base/error.h"
#include "daemon/producer/daemon.h"
#include "tests/unit/capture.h"
#include "tests/unit/daemon/producer/fake-service.h"

enum { PAGE = 4096 };

/* DataSourceConfig: name, target_buffer 1, tracing_session_id 1; of metatrace, and of linux.perf
 * with an Android-only field. */
#define METATRACE "\x0a\x12perfetto.metatrace\x10\x01\x20\x01"
#define REFUSED "\x0a\x0alinux.perf\x10\x01\x20\x01\xfa\x06\x04\x92\x01\x01x"
#define COUNTING "\x0a\x0alinux.perf\x10\x01\x20\x01"

struct test {
	struct service s;
	struct daemon *daemon;
	uint64_t command;
	uint8_t *memory;
};

static void on_stopped(void *arg)
{
	note(arg, "stopped; ");
}

static void test_begin(struct test *t, const char *name)
{
	struct daemon_options options = {
		.socket = t->s.name,
		.producer_name = "a.producer",
		.settings = settings_default,
		.serving = on_serving,
		.lost = on_lost,
		.stopped = on_stopped,
		.arg = &t->s,
	};

	*t = (struct test){0};
	service_init_alone(&t->s, name);
	service_listen(&t->s);
	options.settings.max_sources = 3;
	assert_int_equal(daemon_new(&options, &t->s.loop, &t->daemon), 0);
	service_accept(&t->s);
	t->command = service_begin(&t->s);
	assert_string_equal(t->s.events, "serving; ");
}

/* One page; the service frees its chunks when the test demands it. */
static void give_memory(struct test *t)
{
	static const char body[] = "\x08\x01\x10\x01\x1a\x04\x1a\x02\x08\x04";
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t frame[32];
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {frame, 18};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	t->memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(t->memory != MAP_FAILED);
	memcpy(frame, "\x0e\0\0\0\x10\x03\x32\x0a", 8);
	memcpy(frame + 8, body, 10);
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	assert_int_equal(t->command, 3); /* the request id in the frame */
	assert_int_equal(sendmsg(t->s.stream.fd, &msg, 0), 18);
	(void)fd_close(fd);
	pump(&t->s);
}

/* The service has read all chunks. */
static void free_chunks(struct test *t)
{
	memset(t->memory + 8, 0, PAGE - 8);
	__atomic_store_n((uint32_t *)(void *)t->memory, 0, __ATOMIC_RELEASE);
}

static void test_end(struct test *t)
{
	t->daemon = daemon_free(t->daemon);
	service_deinit(&t->s);
	if (t->memory)
		(void)munmap(t->memory, PAGE);
}

static void instance_command(struct test *t, uint8_t field, uint8_t id, const char *config,
			     size_t len)
{
	uint8_t body[128] = {
		(uint8_t)(field << 3 | 2), (uint8_t)(len + 4), 0x08, id, 0x12, (uint8_t)len};

	memcpy(body + 6, config, len);
	service_command(&t->s, t->command, (const char *)body, 6 + len);
}
#define SETUP(t, id, config) instance_command(t, 6, id, config, sizeof(config) - 1)
#define START(t, id, config) instance_command(t, 1, id, config, sizeof(config) - 1)
#define STOP(t, id) COMMAND(&(t)->s, (t)->command, "\x12\x02\x08" id)
#define EXPECT_STOPPED(t, id) (void)EXPECT_CALL(&(t)->s, STOPPED, "\x08" id, false)
#define EXPECT_FLUSHED(t, id) (void)EXPECT_CALL(&(t)->s, COMMIT, "\x18" id, false)

static void test_stops(void **state)
{
	struct test t;

	(void)state;
	test_begin(&t, "stops");
	STOP(&t, "\x07"); /* never heard of */
	EXPECT_STOPPED(&t, "\x07");
	SETUP(&t, 1, COUNTING);
	SETUP(&t, 1, COUNTING);
	assert_int_equal(daemon_n_instances(t.daemon), 1);
	STOP(&t, "\x01"); /* before its start */
	EXPECT_STOPPED(&t, "\x01");
	assert_int_equal(daemon_n_instances(t.daemon), 0);
	SETUP(&t, 2, REFUSED);
	START(&t, 2, REFUSED);
	expect_quiet(&t.s);
	STOP(&t, "\x02");
	EXPECT_STOPPED(&t, "\x02");
	COMMAND(&t.s, t.command, "\x32\x02\x08\x02"); /* no config at all */
	STOP(&t, "\x02");
	EXPECT_STOPPED(&t, "\x02");
	/* No memory yet: it cannot start, and its stop is answered. */
	SETUP(&t, 3, COUNTING);
	START(&t, 3, COUNTING);
	expect_quiet(&t.s);
	STOP(&t, "\x03");
	EXPECT_STOPPED(&t, "\x03");
	STOP(&t, "\x03"); /* gone already */
	EXPECT_STOPPED(&t, "\x03");
	expect_quiet(&t.s);
	test_end(&t);
}

static void test_too_many(void **state)
{
	struct test t;

	(void)state;
	test_begin(&t, "many");
	for (uint8_t id = 1; id <= 5; id++)
		SETUP(&t, id, COUNTING);
	assert_int_equal(daemon_n_instances(t.daemon), 3);
	STOP(&t, "\x05");
	EXPECT_STOPPED(&t, "\x05");
	STOP(&t, "\x02");
	EXPECT_STOPPED(&t, "\x02");
	SETUP(&t, 6, COUNTING);
	assert_int_equal(daemon_n_instances(t.daemon), 3);
	test_end(&t);
}

/* timebase.frequency 30,000; 12,000 and callstack_sampling: each stack counts with 65,528 bytes. */
#define FAST COUNTING "\xfa\x06\x06\x7a\x04\x10\xb0\xea\x01"
#define WITH_STACKS COUNTING "\xfa\x06\x08\x7a\x03\x10\xe0\x5d\x82\x01\x00"
/* timebase.period 1 of cpu-clock (counter 1). */
#define EACH COUNTING "\xfa\x06\x06\x7a\x04\x08\x01\x20\x01"

/* What one data source asks for is too much by itself: the setting is named, and no event is opened. */
static void test_too_much(void **state)
{
	struct capture c;
	struct test t;
	char *text;

	(void)state;
	test_begin(&t, "much");
	give_memory(&t);
	capture_begin(&c, 2);
	SETUP(&t, 1, FAST);
	START(&t, 1, FAST);
	SETUP(&t, 2, WITH_STACKS);
	START(&t, 2, WITH_STACKS);
	SETUP(&t, 3, EACH);
	START(&t, 3, EACH);
	pump(&t.s);
	text = capture_end(&c);
	assert_non_null(strstr(text,
			       "data source 1 cannot start: 30000 samples a second of a CPU are "
			       "asked for, 30000 together with the data sources that run, 20000 "
			       "are allowed; lower the config's frequency, or raise traced-rate "
			       "in /etc/perfwind.conf"));
	assert_non_null(
		strstr(text, "data source 2 cannot start: 786336000 bytes of stacks a second "));
	assert_non_null(strstr(text, ", 671088640 are allowed; "));
	assert_non_null(strstr(text, "raise traced-stack-bytes in"));
	assert_non_null(strstr(text, "data source 3 cannot start: 1000000000 samples a second "));
	free(text);
	test_end(&t);
}

static void test_flush_unknown(void **state)
{
	struct test t;

	(void)state;
	test_begin(&t, "flush");
	COMMAND(&t.s, t.command, "\x2a\x04\x08\x63\x10\x01");
	EXPECT_FLUSHED(&t, "\x01");
	COMMAND(&t.s, t.command, "\x2a\x02\x10\x02"); /* names no instance */
	EXPECT_FLUSHED(&t, "\x02");
	SETUP(&t, 1, COUNTING); /* not started */
	COMMAND(&t.s, t.command, "\x2a\x04\x08\x01\x10\x03");
	EXPECT_FLUSHED(&t, "\x03");
	COMMAND(&t.s, t.command, "\x3a\x02\x08\x01"); /* clear: nothing to report */
	expect_quiet(&t.s);
	test_end(&t);
}

/* Flushes of instance 1 with packets that take a chunk each, until one finds none: its number.  The
 * call for the answer to which it waits in *ret_commit. */
static uint8_t fill_memory(struct test *t, uint64_t *ret_commit)
{
	for (uint8_t request = 1;; request++) {
		const char flush[] = {0x2a, 4, 0x08, 1, 0x10, (char)request};
		bool flushed = false;

		assert_true(request < 100);
		service_command(&t->s, t->command, flush, sizeof(flush));
		for (Pb__IPCFrame *f; (f = service_next(&t->s)); message_freep(&f)) {
			const Pb__IPCFrame__InvokeMethod *call = f->msg_invoke_method;

			assert_int_equal(call->method_id, COMMIT);
			flushed |= call->args_proto.data && call->args_proto.data[0] == 0x18;
			if (call->drop_reply)
				continue;
			*ret_commit = f->request_id;
		}
		if (!flushed)
			return request;
	}
}

static void start_metatrace(struct test *t)
{
	give_memory(t);
	SETUP(t, 1, METATRACE);
	START(t, 1, METATRACE);
	(void)EXPECT_CALL(&t->s, WRITER, "\x08\x01\x10\x01", false);
	(void)EXPECT_CALL(&t->s, COMMIT, "\x0a\x06\x08\x00\x10\x00\x18\x01", false);
}

/* What is answered next, other calls aside. */
static uint8_t next_flushed(struct test *t)
{
	for (;;) {
		_cleanup_(message_freep) Pb__IPCFrame *f = service_next(&t->s);
		const ProtobufCBinaryData *args = f ? &f->msg_invoke_method->args_proto : NULL;

		if (args && args->len == 2 && args->data[0] == 0x18)
			return args->data[1];
		if (!f)
			assert_int_equal(loop_run_once(&t->s.loop, 1000), 0);
	}
}

/* A flush that waits for a free chunk holds back those behind it, and nothing else. */
static void test_flush_order(void **state)
{
	struct test t;
	uint64_t commit = 0;
	uint8_t waits;

	(void)state;
	test_begin(&t, "order");
	start_metatrace(&t);
	waits = fill_memory(&t, &commit);
	assert_int_not_equal(commit, 0);
	COMMAND(&t.s, t.command, "\x2a\x04\x08\x63\x10\x70"); /* of another source */
	STOP(&t, "\x07");
	EXPECT_STOPPED(&t, "\x07");
	expect_quiet(&t.s);
	free_chunks(&t);
	service_reply(&t.s, commit, "", 0, true, false);
	assert_int_equal(next_flushed(&t), waits);
	assert_int_equal(next_flushed(&t), 0x70);
	expect_quiet(&t.s);
	test_end(&t);
}

/* A service that never frees: the answer comes all the same, after a while. */
static void test_flush_given_up(void **state)
{
	struct test t;
	uint64_t commit;
	uint8_t waits;

	(void)state;
	test_begin(&t, "given-up");
	start_metatrace(&t);
	waits = fill_memory(&t, &commit);
	assert_int_equal(next_flushed(&t), waits);
	test_end(&t);
}

/* More flushes under way than there is room for: the oldest is answered. */
static void test_flush_flood(void **state)
{
	struct test t;
	uint64_t answered = 0;

	(void)state;
	test_begin(&t, "flood");
	give_memory(&t);
	SETUP(&t, 1, METATRACE);
	START(&t, 1, METATRACE);
	for (uint16_t i = 1; i <= 1500; i++) {
		const char flush[] = {
			0x2a, 5, 0x08, 1, 0x10, (char)(i & 0x7f) | (char)0x80, (char)(i >> 7)};

		service_command(&t.s, t.command, flush, sizeof(flush));
		for (Pb__IPCFrame *f; (f = service_next(&t.s)); message_freep(&f)) {
			Pb__CommitDataRequest *c;

			if (f->msg_invoke_method->method_id != COMMIT)
				continue;
			c = pb__commit_data_request__unpack(NULL,
							    f->msg_invoke_method->args_proto.len,
							    f->msg_invoke_method->args_proto.data);
			assert_non_null(c);
			if (c->has_flush_request_id)
				assert_int_equal(c->flush_request_id, ++answered);
			pb__commit_data_request__free_unpacked(c, NULL);
		}
	}
	assert_true(answered >= 1500 - 1024);
	test_end(&t);
}

static void test_metatrace(void **state)
{
	struct test t;

	(void)state;
	test_begin(&t, "metatrace");
	start_metatrace(&t);
	/* Chunk 0 of writer 1: one packet, and what makes the count true. */
	assert_memory_equal(t.memory + 8, "\0\0\0\0\x01\0", 6);
	free_chunks(&t);
	STOP(&t, "\x01");
	(void)EXPECT_CALL(&t.s, COMMIT, "\x0a\x06\x08\x00\x10\x00\x18\x01", false);
	(void)EXPECT_CALL(&t.s, NO_WRITER, "\x08\x01", false);
	expect_quiet(&t.s); /* no answer was promised */
	assert_int_equal(daemon_n_instances(t.daemon), 0);
	test_end(&t);
}

static void test_lost(void **state)
{
	unsigned before = open_fds();
	struct test t;

	(void)state;
	test_begin(&t, "lost");
	give_memory(&t);
	SETUP(&t, 1, METATRACE);
	START(&t, 1, METATRACE);
	SETUP(&t, 2, COUNTING);
	t.s.stream.fd = fd_close(t.s.stream.fd);
	pump(&t.s);
	assert_string_equal(t.s.events, "serving; lost; ");
	assert_int_equal(daemon_n_instances(t.daemon), 0);
	service_accept(&t.s);
	assert_int_equal(service_begin(&t.s), 3);
	expect_quiet(&t.s);
	test_end(&t);
	assert_int_equal(open_fds(), before);
}

static void test_bad_memory(void **state)
{
	struct test t;

	(void)state;
	test_begin(&t, "memory");
	COMMAND(&t.s, t.command, "\x1a\x02\x08\x04"); /* no descriptor */
	assert_string_equal(t.s.events, "serving; lost; ");
	service_accept(&t.s);
	t.command = service_begin(&t.s);
	give_memory(&t);
	(void)munmap(t.memory, PAGE);
	give_memory(&t); /* twice */
	assert_string_equal(t.s.events, "serving; lost; serving; lost; ");
	test_end(&t);
}

static void test_stop_daemon(void **state)
{
	struct test t;
	uint64_t sync;

	(void)state;
	test_begin(&t, "leave");
	SETUP(&t, 1, COUNTING);
	daemon_stop(t.daemon);
	daemon_stop(t.daemon);
	SETUP(&t, 2, COUNTING); /* too late */
	assert_int_equal(daemon_n_instances(t.daemon), 1);
	(void)expect_call(&t.s, UNREGISTER, NULL, 0, false);
	(void)expect_call(&t.s, UNREGISTER, NULL, 0, false);
	sync = EXPECT_CALL(&t.s, SYNC, "", true);
	assert_string_equal(t.s.events, "serving; ");
	service_reply(&t.s, sync, "", 0, true, false);
	assert_string_equal(t.s.events, "serving; stopped; ");
	test_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops),	    cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_much),    cmocka_unit_test(test_flush_unknown),
		cmocka_unit_test(test_flush_order), cmocka_unit_test(test_flush_given_up),
		cmocka_unit_test(test_flush_flood), cmocka_unit_test(test_metatrace),
		cmocka_unit_test(test_lost),	    cmocka_unit_test(test_bad_memory),
		cmocka_unit_test(test_stop_daemon),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
