/* fake-service.h - the service's end of a producer's connection, by hand, in the same thread; and a
 * producer with events that are written down as text. */
#pragma once

#include <stdarg.h>
#include <sys/un.h>

#include "daemon/producer/producer.h"
#include "tests/unit/daemon/producer/frame-pair.h"

struct service {
	struct loop loop;
	struct producer *producer;
	char name[64];
	int listener;
	struct frame_stream stream; /* fd -1: no client is connected */
	char events[8192];	    /* "setup 1 54; flush 3 [1 2]; " */
};

static inline void note(void *arg, const char *format, ...)
{
	struct service *s = arg;
	size_t len = strlen(s->events);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(s->events + len, sizeof(s->events) - len, format, ap);
	va_end(ap);
}

static inline bool on_trusts(void *arg, uint32_t uid)
{
	(void)arg;
	return uid == geteuid();
}
static inline void on_serving(void *arg)
{
	note(arg, "serving; ");
}
static inline void on_lost(void *arg)
{
	note(arg, "lost; ");
}
static inline void on_left(void *arg)
{
	note(arg, "left; ");
}
static inline void on_committed(void *arg)
{
	note(arg, "committed; ");
}
static inline void on_setup_tracing(void *arg, int fd, uint32_t page_bytes)
{
	note(arg, "tracing %u %s; ", page_bytes, fd >= 0 ? "fd" : "none");
	(void)fd_close(fd);
}
static inline void on_setup(void *arg, uint64_t id, const void *config, size_t len)
{
	(void)config;
	note(arg, "setup %lu %zu; ", id, len);
}
static inline void on_start(void *arg, uint64_t id, const void *config, size_t len)
{
	(void)config;
	note(arg, "start %lu %zu; ", id, len);
}
static inline void on_stop(void *arg, uint64_t id)
{
	note(arg, "stop %lu; ", id);
}
static inline void note_ids(void *arg, const uint64_t *ids, size_t n)
{
	note(arg, " [");
	for (size_t i = 0; i < n; i++)
		note(arg, "%s%lu", i ? " " : "", ids[i]);
	note(arg, "]; ");
}
static inline void on_flush(void *arg, uint64_t request, const uint64_t *ids, size_t n)
{
	note(arg, "flush %lu", request);
	note_ids(arg, ids, n);
}
static inline void on_clear(void *arg, const uint64_t *ids, size_t n)
{
	note(arg, "clear");
	note_ids(arg, ids, n);
}

static const struct producer_events note_events = {
	.trusts = on_trusts,
	.serving = on_serving,
	.lost = on_lost,
	.left = on_left,
	.committed = on_committed,
	.setup_tracing = on_setup_tracing,
	.setup = on_setup,
	.start = on_start,
	.stop = on_stop,
	.flush = on_flush,
	.clear_incremental_state = on_clear,
};
static const struct producer_source note_sources[] = {
	{"linux.perf", true, true},
	{"perfetto.metatrace", false, false},
};

static inline void service_listen(struct service *s)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(s->name));

	memcpy(a.sun_path + 1, s->name + 1, strlen(s->name) - 1);
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(s->listener, (const struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(s->listener, 1), 0);
}

/* Without a client of its own. */
static inline void service_init_alone(struct service *s, const char *test)
{
	*s = (struct service){.listener = -1, .stream = {.fd = -1, .slot_fd = -1}};
	(void)snprintf(s->name, sizeof(s->name), "@perfwind-%s-%d", test, getpid());
	assert_int_equal(loop_init(&s->loop), 0);
}

static inline void service_init(struct service *s, const char *test, uint32_t page, uint32_t size)
{
	struct producer_options options = {
		.socket = s->name,
		.name = "a.producer",
		.shmem_page_bytes = page,
		.shmem_bytes = size,
		.sources = note_sources,
		.n_sources = 2,
	};

	service_init_alone(s, test);
	assert_int_equal(producer_new(&options, &note_events, s, &s->loop, &s->producer), 0);
}

static inline void service_deinit(struct service *s)
{
	s->producer = producer_free(s->producer);
	frame_stream_deinit(&s->stream);
	s->listener = fd_close(s->listener);
	loop_deinit(&s->loop);
}

/* Runs the loop until nothing is ready. */
static inline void pump(struct service *s)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(loop_run_once(&s->loop, 0), 0);
}

/* Waits for the producer's next try. */
static inline void service_accept(struct service *s)
{
	int fd;

	frame_stream_deinit(&s->stream);
	while ((fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0)
		assert_int_equal(loop_run_once(&s->loop, 1000), 0);
	assert_int_equal(frame_stream_init(&s->stream, fd), 0);
	pump(s);
}

/* What the producer has sent: the next frame, or NULL. */
static inline Pb__IPCFrame *service_next(struct service *s)
{
	const uint8_t *data;
	size_t len;
	int r;

	pump(s);
	while ((r = frame_next(&s->stream, &data, &len)) == FRAME_NONE)
		if (frame_receive(&s->stream) != 0)
			return NULL;
	assert_int_equal(r, 0);
	return (void *)frame_unpack(&pb__ipcframe__descriptor, data, len);
}

/* The next frame is a call of this method with these arguments; returns its request id. */
static inline uint64_t expect_call(struct service *s, uint32_t method, const char *arguments,
				   size_t len, bool reply)
{
	_cleanup_(message_freep) Pb__IPCFrame *f = service_next(s);
	const Pb__IPCFrame__InvokeMethod *call;

	assert_non_null(f);
	assert_int_equal(f->msg_case, PB__IPCFRAME__MSG_MSG_INVOKE_METHOD);
	call = f->msg_invoke_method;
	assert_int_equal(call->service_id, 7);
	assert_int_equal(call->method_id, method);
	assert_int_equal(call->drop_reply, !reply);
	if (arguments) {
		assert_int_equal(call->args_proto.len, len);
		if (len)
			assert_memory_equal(call->args_proto.data, arguments, len);
	}
	return f->request_id;
}
#define EXPECT_CALL(s, method, arguments, reply) \
	expect_call(s, method, arguments, sizeof(arguments) - 1, reply)

static inline void expect_quiet(struct service *s)
{
	assert_null(service_next(s));
}

static inline void service_send(struct service *s, const Pb__IPCFrame *frame)
{
	assert_int_equal(frame_queue(&s->stream, frame), 0);
	assert_int_equal(frame_send(&s->stream), 0);
	pump(s);
}

static inline void service_reply(struct service *s, uint64_t id, const char *proto, size_t len,
				 bool success, bool more)
{
	Pb__IPCFrame__InvokeMethodReply reply = PB__IPCFRAME__INVOKE_METHOD_REPLY__INIT;
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	reply.has_success = reply.has_has_more = reply.has_reply_proto = true;
	reply.success = success;
	reply.has_more = more;
	reply.reply_proto = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)proto};
	frame.has_request_id = true;
	frame.request_id = id;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY;
	frame.msg_invoke_method_reply = &reply;
	service_send(s, &frame);
}

static inline void service_command(struct service *s, uint64_t id, const char *proto, size_t len)
{
	service_reply(s, id, proto, len, true, true);
}
#define COMMAND(s, id, proto) service_command(s, id, proto, sizeof(proto) - 1)

/* Method ids of our own choice: only names count. */
enum {
	SYNC = 3,
	COMMIT = 5,
	GET_COMMAND = 90,
	INITIALIZE = 41,
	REGISTER = 12,
	UNREGISTER = 13,
	STOPPED = 1,
	STARTED = 2,
	WRITER = 200,
	NO_WRITER = 201,
	ACTIVATE = 78
};

static inline void service_bind_reply(struct service *s, uint64_t id, bool success,
				      const char *without)
{
	static const struct {
		uint32_t id;
		const char *name;
	} known[] = {
		{SYNC, "Sync"},
		{COMMIT, "CommitData"},
		{GET_COMMAND, "GetAsyncCommand"},
		{INITIALIZE, "InitializeConnection"},
		{REGISTER, "RegisterDataSource"},
		{UNREGISTER, "UnregisterDataSource"},
		{STOPPED, "NotifyDataSourceStopped"},
		{STARTED, "NotifyDataSourceStarted"},
		{WRITER, "RegisterTraceWriter"},
		{NO_WRITER, "UnregisterTraceWriter"},
		{ACTIVATE, "ActivateTriggers"},
		{77, "SomethingNew"},
	};
	Pb__IPCFrame__MethodInfo infos[ARRAY_SIZE(known)], *list[ARRAY_SIZE(known)];
	Pb__IPCFrame__BindServiceReply reply = PB__IPCFRAME__BIND_SERVICE_REPLY__INIT;
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	reply.methods = list;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (without && !strcmp(known[i].name, without))
			continue;
		pb__ipcframe__method_info__init(&infos[i]);
		infos[i].has_id = true;
		infos[i].id = known[i].id;
		infos[i].name = (char *)(uintptr_t)known[i].name;
		list[reply.n_methods++] = &infos[i];
	}
	reply.has_success = success;
	reply.success = success;
	reply.has_service_id = true;
	reply.service_id = 7;
	frame.has_request_id = true;
	frame.request_id = id;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY;
	frame.msg_bind_service_reply = &reply;
	service_send(s, &frame);
}

/* Waits for the BindService; its id. */
static inline uint64_t expect_bind(struct service *s)
{
	_cleanup_(message_freep) Pb__IPCFrame *f = service_next(s);

	assert_non_null(f);
	assert_int_equal(f->msg_case, PB__IPCFRAME__MSG_MSG_BIND_SERVICE);
	assert_string_equal(f->msg_bind_service->service_name, "ProducerPort");
	return f->request_id;
}

/* The whole beginning; returns the command stream's request id. */
static inline uint64_t service_begin(struct service *s)
{
	uint64_t initialize, command, sync;

	service_bind_reply(s, expect_bind(s), true, NULL);
	initialize = expect_call(s, INITIALIZE, NULL, 0, true);
	command = EXPECT_CALL(s, GET_COMMAND, "", true);
	expect_quiet(s);
	service_reply(s, initialize, "\x10\x01", 2, true, false);
	service_reply(s,
		      EXPECT_CALL(s, REGISTER, "\x0a\x10\x0a\x0alinux.perf\x10\x01\x20\x01", true),
		      "", 0, true, false);
	service_reply(s, EXPECT_CALL(s, REGISTER, "\x0a\x14\x0a\x12perfetto.metatrace", true), "",
		      0, true, false);
	sync = EXPECT_CALL(s, SYNC, "", true);
	expect_quiet(s);
	service_reply(s, sync, "", 0, true, false);
	return command;
}
