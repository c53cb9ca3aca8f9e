/* test-producer.c - the client of ProducerPort against a service played by hand. */
#include <errno.h>
#include <sys/wait.h>

#include "base/error.h"
#include "tests/unit/daemon/producer/fake-service.h"

static void test_begin(void **state)
{
	struct service s;
	uint64_t id;

	(void)state;
	service_init(&s, "begin", 0, 0);
	service_listen(&s);
	service_accept(&s);
	assert_true(producer_connected(s.producer));
	id = expect_bind(&s);
	assert_int_equal(id, 1);
	expect_quiet(&s); /* nothing before the answer */
	service_bind_reply(&s, id, true, NULL);
	/* producer_name, smb_scraping_mode ENABLED, sdk_version */
	assert_int_equal(EXPECT_CALL(&s, INITIALIZE,
				     "\x1a\x0a"
				     "a.producer\x20\x01\x42\x0e"
				     "perfwind 0.1.0",
				     true),
			 2);
	assert_int_equal(EXPECT_CALL(&s, GET_COMMAND, "", true), 3);
	expect_quiet(&s);
	service_deinit(&s);
}

static void test_hints_and_serving(void **state)
{
	struct service s;
	uint64_t id;

	(void)state;
	service_init(&s, "hints", 8192, 1 << 20);
	service_listen(&s);
	service_accept(&s);
	service_bind_reply(&s, expect_bind(&s), true, NULL);
	id = EXPECT_CALL(&s, INITIALIZE,
			 "\x08\x80\x40\x10\x80\x80\x40\x1a\x0a"
			 "a.producer\x20\x01\x42\x0e"
			 "perfwind 0.1.0",
			 true);
	(void)EXPECT_CALL(&s, GET_COMMAND, "", true);
	service_reply(&s, id, "", 0, true, false);
	service_reply(&s,
		      EXPECT_CALL(&s, REGISTER, "\x0a\x10\x0a\x0alinux.perf\x10\x01\x20\x01", true),
		      "", 0, true, false);
	/* A refused source leaves the other one; a failed Sync is an answer too. */
	service_reply(&s, expect_call(&s, REGISTER, NULL, 0, true), "", 0, false, false);
	id = EXPECT_CALL(&s, SYNC, "", true);
	assert_string_equal(s.events, "");
	service_reply(&s, id, "", 0, false, false);
	assert_string_equal(s.events, "serving; ");
	service_deinit(&s);
}

/* An old service: no Sync, no UnregisterTraceWriter. */
static void test_missing_methods(void **state)
{
	struct service s;

	(void)state;
	service_init(&s, "old", 0, 0);
	service_listen(&s);
	service_accept(&s);
	service_bind_reply(&s, expect_bind(&s), true, "Sync");
	service_reply(&s, expect_call(&s, INITIALIZE, NULL, 0, true), "", 0, true, false);
	(void)EXPECT_CALL(&s, GET_COMMAND, "", true);
	(void)expect_call(&s, REGISTER, NULL, 0, true);
	(void)expect_call(&s, REGISTER, NULL, 0, true);
	service_reply(&s, EXPECT_CALL(&s, COMMIT, "", true), "", 0, false, false);
	assert_string_equal(s.events, "serving; ");
	service_deinit(&s);

	/* One that cannot take data is none. */
	service_init(&s, "useless", 0, 0);
	service_listen(&s);
	service_accept(&s);
	service_bind_reply(&s, expect_bind(&s), true, "CommitData");
	assert_string_equal(s.events, "lost; ");
	assert_false(producer_connected(s.producer));
	service_deinit(&s);

	/* One without a method that can be missed: its call is not made, the others are. */
	service_init(&s, "older", 0, 0);
	service_listen(&s);
	service_accept(&s);
	service_bind_reply(&s, expect_bind(&s), true, "UnregisterTraceWriter");
	(void)expect_call(&s, INITIALIZE, NULL, 0, true);
	(void)EXPECT_CALL(&s, GET_COMMAND, "", true);
	producer_unregister_writer(s.producer, 1);
	producer_stopped(s.producer, 5);
	(void)EXPECT_CALL(&s, STOPPED, "\x08\x05", false);
	service_deinit(&s);
}

static void test_refusals(void **state)
{
	static const char *const at[] = {"bind", "initialize", "emulation", "stream"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		struct service s;
		uint64_t initialize, command;

		service_init(&s, at[i], 0, 0);
		service_listen(&s);
		service_accept(&s);
		service_bind_reply(&s, expect_bind(&s), i != 0, NULL);
		if (i) {
			initialize = expect_call(&s, INITIALIZE, NULL, 0, true);
			command = EXPECT_CALL(&s, GET_COMMAND, "", true);
			if (i == 3)
				service_reply(&s, command, "", 0, true, false);
			else
				service_reply(&s, initialize, "\x18\x01", i == 2 ? 2 : 0, i == 2,
					      false);
		}
		assert_string_equal(s.events, "lost; ");
		assert_false(producer_connected(s.producer));
		/* And it comes again. */
		service_accept(&s);
		assert_int_equal(expect_bind(&s), 1);
		service_deinit(&s);
	}
}

static void test_commands(void **state)
{
	struct service s;
	uint64_t command;

	(void)state;
	service_init(&s, "commands", 0, 0);
	service_listen(&s);
	service_accept(&s);
	command = service_begin(&s);
	COMMAND(&s, command, "\x1a\x02\x08\x04"); /* 4 KiB pages, no descriptor */
	COMMAND(&s, command,
		"\x32\x07\x08\x05\x12\x03"
		"abc"); /* setup */
	COMMAND(&s, command,
		"\x0a\x07\x08\x05\x12\x03"
		"abc");							  /* start */
	COMMAND(&s, command, "\x2a\x08\x08\x05\x08\x06\x10\x09\x18\x21"); /* flush */
	COMMAND(&s, command, "\x2a\x06\x0a\x02\x05\x06\x10\x0a");	  /* the same, ids packed */
	COMMAND(&s, command, "\x3a\x02\x08\x05");
	COMMAND(&s, command, "\x12\x02\x08\x05");
	COMMAND(&s, command, "\x7a\x00");	  /* not known */
	COMMAND(&s, command, "\x22\x00");	  /* TeardownTracing, of old */
	COMMAND(&s, command, "");		  /* none */
	COMMAND(&s, command, "\x2a\x50\x08\x05"); /* damaged */
	service_reply(&s, command, "\x12\x02\x08\x05", 4, false, true);	    /* no success */
	service_reply(&s, command + 50, "\x12\x02\x08\x05", 4, true, true); /* to no request */
	assert_string_equal(s.events, "serving; tracing 4096 none; setup 5 3; start 5 3; "
				      "flush 9 [5 6]; flush 10 [5 6]; clear [5]; stop 5; ");
	expect_quiet(&s);
	service_deinit(&s);
}

static void test_setup_tracing_with_fd(void **state)
{
	unsigned before = open_fds();
	static const uint8_t frame[] =
		"\x0e\0\0\0\x10\x03\x32\x0a\x08\x01\x10\x01\x1a\x04\x1a\x02\x08\x08";
	struct service s;

	(void)state;
	service_init(&s, "fd", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	peer_send(s.stream.fd, frame, sizeof(frame) - 1, 1);
	pump(&s);
	assert_string_equal(s.events, "serving; tracing 8192 fd; ");
	/* Two at once are a breach of the protocol. */
	peer_send(s.stream.fd, frame, sizeof(frame) - 1, 2);
	pump(&s);
	assert_string_equal(s.events, "serving; tracing 8192 fd; lost; ");
	service_deinit(&s);
	assert_int_equal(open_fds(), before);
}

static void test_calls(void **state)
{
	const struct smb_move chunks[] = {{3, 0, 1}, {300, 13, 65535}};
	struct service s;

	(void)state;
	service_init(&s, "calls", 0, 0);
	producer_stopped(s.producer, 1); /* not connected: void */
	assert_false(producer_leave(s.producer));
	service_listen(&s);
	service_accept(&s);
	producer_stopped(s.producer, 1); /* not bound: the same */
	(void)service_begin(&s);
	producer_register_writer(s.producer, 2, 3);
	(void)EXPECT_CALL(&s, WRITER, "\x08\x02\x10\x03", false);
	producer_unregister_writer(s.producer, 2);
	(void)EXPECT_CALL(&s, NO_WRITER, "\x08\x02", false);
	producer_stopped(s.producer, 300);
	(void)EXPECT_CALL(&s, STOPPED, "\x08\xac\x02", false);
	producer_commit(s.producer, NULL, 0, 0, false);
	expect_quiet(&s);
	producer_commit(s.producer, chunks, 2, 9, false);
	(void)EXPECT_CALL(&s, COMMIT,
			  "\x0a\x06\x08\x03\x10\x00\x18\x01"
			  "\x0a\x09\x08\xac\x02\x10\x0d\x18\xff\xff\x03\x18\x09",
			  false);
	service_deinit(&s);
}

/* Case 8 of the added ones: thousands of chunks are several frames, the flush in the last. */
static void test_commit_split(void **state)
{
	_cleanup_(freep) struct smb_move *chunks = calloc(50000, sizeof(*chunks));
	uint32_t next = 0;
	struct service s;
	bool flushed = false;

	(void)state;
	for (uint32_t i = 0; i < 50000; i++)
		chunks[i] = (struct smb_move){i, 13, 65535};
	service_init(&s, "split", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	producer_commit(s.producer, chunks, 50000, 77, false);
	while (!flushed) {
		_cleanup_(message_freep) Pb__IPCFrame *f = service_next(&s);
		_cleanup_(message_freep) Pb__CommitDataRequest *commit = NULL;
		const ProtobufCBinaryData *args;

		assert_non_null(f);
		args = &f->msg_invoke_method->args_proto;
		/* Not frame_unpack(): repeated fields are many here. */
		commit = pb__commit_data_request__unpack(NULL, args->len, args->data);
		assert_non_null(commit);
		for (size_t i = 0; i < commit->n_chunks_to_move; i++)
			assert_int_equal(commit->chunks_to_move[i]->page, next++);
		flushed = commit->has_flush_request_id;
		assert_int_equal(flushed, next == 50000);
	}
	expect_quiet(&s);
	service_deinit(&s);
}

static void test_commit_replies(void **state)
{
	const struct smb_move chunk = {1, 0, 1};
	struct service s;
	uint64_t first, second;

	(void)state;
	service_init(&s, "replies", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	producer_commit(s.producer, &chunk, 1, 0, true);
	first = expect_call(&s, COMMIT, NULL, 0, true);
	producer_commit(s.producer, &chunk, 1, 0, true);
	(void)expect_call(&s, COMMIT, NULL, 0, false);
	service_reply(&s, first, "", 0, true, false);
	assert_string_equal(s.events, "serving; committed; ");
	service_reply(&s, first, "", 0, true, false); /* twice is once */
	second = EXPECT_CALL(&s, COMMIT, "", true);
	service_reply(&s, second, "", 0, true, false);
	assert_string_equal(s.events, "serving; committed; committed; ");
	expect_quiet(&s);
	service_deinit(&s);
}

static void test_leave(void **state)
{
	struct service s;
	uint64_t command, sync;

	(void)state;
	service_init(&s, "leave", 0, 0);
	service_listen(&s);
	service_accept(&s);
	command = service_begin(&s);
	assert_true(producer_leave(s.producer));
	assert_false(producer_leave(s.producer));
	(void)EXPECT_CALL(&s, UNREGISTER, "\x0a\x0alinux.perf", false);
	(void)EXPECT_CALL(&s, UNREGISTER, "\x0a\x12perfetto.metatrace", false);
	sync = EXPECT_CALL(&s, SYNC, "", true);
	COMMAND(&s, command, "\x12\x02\x08\x05"); /* too late */
	assert_string_equal(s.events, "serving; ");
	service_reply(&s, sync, "", 0, true, false);
	assert_string_equal(s.events, "serving; left; ");
	service_deinit(&s);
}

/* ---- bad services ---- */

static void test_garbage(void **state)
{
	/* An empty frame, noise, a request of the other direction, a reply cut short. */
	static const uint8_t garbage[] = "\0\0\0\0"
					 "\x05\0\0\0\xff\xff\xff\xff\xff"
					 "\x04\0\0\0\x10\x01\x1a\x00"
					 "\x04\0\0\0\x10\x03\x32\x7f"
					 "\x06\0\0\0\x10\x09\x3a\x02\x0a\x00";
	struct service s;
	uint64_t command;

	(void)state;
	service_init(&s, "garbage", 0, 0);
	service_listen(&s);
	service_accept(&s);
	command = service_begin(&s);
	peer_send(s.stream.fd, garbage, sizeof(garbage) - 1, 0);
	COMMAND(&s, command, "\x12\x02\x08\x05");
	assert_string_equal(s.events, "serving; stop 5; ");
	service_deinit(&s);
}

static void test_oversized(void **state)
{
	uint32_t size = 131073;
	struct service s;

	(void)state;
	service_init(&s, "oversized", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	peer_send(s.stream.fd, &size, 4, 0);
	pump(&s);
	assert_string_equal(s.events, "serving; lost; ");
	service_deinit(&s);
}

/* It does not read: what we send waits, up to a limit, and nothing blocks. */
static void test_stops_reading(void **state)
{
	_cleanup_(freep) struct smb_move *chunks = calloc(50000, sizeof(*chunks));
	struct service s;

	(void)state;
	service_init(&s, "stops", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	for (int i = 0; i < 7; i++)
		producer_commit(s.producer, chunks, 50000, 0, false);
	pump(&s);
	assert_string_equal(s.events, "serving; ");
	for (int i = 0; i < 7; i++)
		producer_commit(s.producer, chunks, 50000, 0, false);
	pump(&s);
	assert_string_equal(s.events, "serving; lost; ");
	service_deinit(&s);
}

/* Closed at any point of the beginning: lost once, tried again, nothing left over. */
static void test_disconnects(void **state)
{
	unsigned before = open_fds();

	(void)state;
	for (int point = 0; point < 4; point++) {
		struct service s;

		service_init(&s, "disconnects", 0, 0);
		service_listen(&s);
		service_accept(&s);
		if (point == 1)
			(void)expect_bind(&s);
		if (point == 2)
			service_bind_reply(&s, expect_bind(&s), true, NULL);
		if (point == 3)
			(void)service_begin(&s);
		s.stream.fd = fd_close(s.stream.fd);
		pump(&s);
		assert_string_equal(s.events, point == 3 ? "serving; lost; " : "lost; ");
		producer_stopped(s.producer, 1);
		s.events[0] = 0;
		service_accept(&s);
		(void)service_begin(&s);
		assert_string_equal(s.events, "serving; ");
		service_deinit(&s);
	}
	assert_int_equal(open_fds(), before);
}

/* A service that reads no more but keeps its end open must not make the loop spin. */
static void test_half_closed(void **state)
{
	struct service s;

	(void)state;
	service_init(&s, "half", 0, 0);
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	assert_int_equal(shutdown(s.stream.fd, SHUT_RD), 0);
	producer_stopped(s.producer, 1);
	pump(&s);
	assert_string_equal(s.events, "serving; lost; ");
	service_deinit(&s);
}

/* Not there yet: the tries go on until it is. */
static void test_not_there_yet(void **state)
{
	struct service s;

	(void)state;
	service_init(&s, "late", 0, 0);
	pump(&s);
	assert_false(producer_connected(s.producer));
	service_listen(&s);
	service_accept(&s);
	(void)service_begin(&s);
	assert_string_equal(s.events, "serving; ");
	service_deinit(&s);
}

static uint32_t asked_of, trusted_user;

static bool trusts_one(void *arg, uint32_t uid)
{
	(void)arg;
	asked_of = uid;
	return uid == trusted_user;
}

/* A service that @uid runs: the socket is bound by us, as by a process that took its name. */
static void listen_as(struct service *s, uint32_t uid)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(s->name));
	int status;
	pid_t pid;

	memcpy(a.sun_path + 1, s->name + 1, strlen(s->name) - 1);
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(s->listener, (const struct sockaddr *)&a, len), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit((uid != getuid() && setresuid(uid, uid, uid) < 0) ||
		      listen(s->listener, 1) < 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The listener's user is asked for, and one that is not trusted gets the end of the connection and no
 * byte. */
static void test_untrusted(void **state)
{
	struct producer_events events = note_events;
	/* As root another user's service; else our own, and another user is the trusted one. */
	uint32_t lister = getuid() ? getuid() : 61002;
	struct service s;
	char byte;
	int fd;

	(void)state;
	events.trusts = trusts_one;
	trusted_user = lister + 1;
	service_init_alone(&s, "untrusted");
	listen_as(&s, lister);
	assert_int_equal(producer_new(&(struct producer_options){.socket = s.name, .name = "a"},
				      &events, &s, &s.loop, &s.producer),
			 0);
	for (int i = 0; i < 2; i++) { /* and the next try */
		while ((fd = accept4(s.listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
			assert_int_equal(loop_run_once(&s.loop, 1000), 0);
		assert_int_equal(asked_of, lister);
		assert_int_equal(read(fd, &byte, 1), 0);
		assert_false(producer_connected(s.producer));
		(void)fd_close(fd);
	}
	assert_string_equal(s.events, "");
	/* As after a reload that names the user: the next try is made at once. */
	trusted_user = lister;
	producer_set_hints(s.producer, 0, 0);
	service_accept(&s);
	assert_true(producer_connected(s.producer));
	assert_int_equal(expect_bind(&s), 1);
	service_deinit(&s);
}

static void test_names(void **state)
{
	static const char *const bad[] = {"vsock://2:30001", "127.0.0.1:20001", "[::1]:20001", ""};

	(void)state;
	assert_int_equal(setenv("PERFETTO_PRODUCER_SOCK_NAME", "@somewhere", 1), 0);
	for (int privileged = 0; privileged < 2; privileged++)
		assert_string_equal(producer_socket_name(privileged), "@somewhere");
	assert_int_equal(unsetenv("PERFETTO_PRODUCER_SOCK_NAME"), 0);
	assert_string_equal(producer_socket_name(false),
			    access("/run/perfetto/", X_OK) == 0
				    ? "/run/perfetto/traced-producer.sock"
				    : "/tmp/perfetto-producer");
	/* Whether the folder is there or not: any user could bind the other name. */
	assert_string_equal(producer_socket_name(true), "/run/perfetto/traced-producer.sock");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct producer_options options = {.socket = bad[i], .name = "x"};
		struct service s = {.listener = -1};

		assert_int_equal(loop_init(&s.loop), 0);
		assert_int_equal(producer_new(&options, &note_events, &s, &s.loop, &s.producer), 0);
		pump(&s);
		assert_false(producer_connected(s.producer));
		(void)producer_free(s.producer);
		loop_deinit(&s.loop);
	}
}

static void test_backoff(void **state)
{
	static const uint32_t expected[] = {200,  400,	 800,	1600,  3200,
					    6400, 12800, 25600, 30000, 30000};
	uint32_t ms = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		ms = producer_backoff_ms(ms);
		assert_int_equal(ms, expected[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_hints_and_serving),
		cmocka_unit_test(test_missing_methods),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_setup_tracing_with_fd),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_commit_split),
		cmocka_unit_test(test_commit_replies),
		cmocka_unit_test(test_leave),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_oversized),
		cmocka_unit_test(test_stops_reading),
		cmocka_unit_test(test_disconnects),
		cmocka_unit_test(test_half_closed),
		cmocka_unit_test(test_not_there_yet),
		cmocka_unit_test(test_untrusted),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_backoff),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
