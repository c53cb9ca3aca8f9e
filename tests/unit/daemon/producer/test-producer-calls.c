/* test-producer-calls.c - each allocation and system call with which a producer, the daemon, their connection to a service and the
 * instance of a data source are made fails once: it is there, or the connection ends and is tried again.  No side waits without an end. */
#include "tests/unit/daemon/fail-in-loop.h"

#include "tests/unit/daemon/producer/fake-service.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "daemon/producer/activate.h"
#include "daemon/producer/daemon.h"
#include "daemon/producer/smb.h"

enum { PAGE = 4096 };

static struct service s;

/* ---- parts ---- */

static int make_producer(void *arg)
{
	const struct producer_options options = {
		.socket = s.name, .name = "a.producer", .sources = note_sources, .n_sources = 2};

	return producer_new(&options, &note_events, &s, &s.loop, arg);
}
static void end_producer(void *arg)
{
	(void)producer_free(*(struct producer **)arg);
}

static int make_daemon(void *arg)
{
	const struct daemon_options options = {.socket = s.name,
					       .producer_name = "a.producer",
					       .settings = settings_default,
					       .serving = on_serving,
					       .lost = on_lost,
					       .arg = &s};

	return daemon_new(&options, &s.loop, arg);
}
static void end_daemon(void *arg)
{
	(void)daemon_free(*(struct daemon **)arg);
}

static int memory_new(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

struct memories {
	struct smb *smb;
	struct smb_writer *writer;
};

static int no_commit(void *arg, const struct smb_move *moves, size_t n)
{
	(void)arg, (void)moves, (void)n;
	return 0;
}

static int make_memory(void *arg)
{
	struct memories *made = arg;
	int r;

	made->writer = NULL;
	suspend();
	r = memory_new();
	resume();
	r = smb_attach(r, PAGE, no_commit, NULL, &made->smb);
	if (r < 0)
		return r;
	r = smb_writer_new(made->smb, 1, 1 << 16, &made->writer);
	if (r >= 0) /* more than there is room for waits */
		r = smb_writer_write(made->writer, (const char[2 * PAGE]){0}, 2 * PAGE);
	assert_true(r != SMB_DROPPED || calls_made >= calls_fail_at);
	if (r < 0) {
		(void)smb_writer_free(made->writer);
		(void)smb_free(made->smb);
	}
	return r;
}
static void end_memory(void *arg)
{
	struct memories *made = arg;

	(void)smb_writer_free(made->writer);
	(void)smb_free(made->smb);
}

static void test_parts(void **state)
{
	struct producer *producer;
	struct daemon *daemon;
	struct memories memories;
	const struct calls_made all[] = {{"producer", make_producer, end_producer, &producer},
					 {"daemon", make_daemon, end_daemon, &daemon},
					 {"memory", make_memory, end_memory, &memories}};

	(void)state;
	service_init_alone(&s, "calls");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	loop_deinit(&s.loop);
}

/* ---- a connection ---- */

static bool is_closed(void)
{
	char byte;

	return s.stream.fd >= 0 && recv(s.stream.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void take_connection(void)
{
	int fd = s.stream.fd < 0 ? accept4(s.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
				 : -1;

	if (fd >= 0)
		assert_int_equal(frame_stream_init(&s.stream, fd), 0);
}

/* Answers a request; the id of the stream of commands goes to *command, that of a data source that has stopped to *stopped. */
static void answer(const Pb__IPCFrame *f, uint64_t *command, bool *stopped)
{
	uint32_t method;

	if (f->msg_case == PB__IPCFRAME__MSG_MSG_BIND_SERVICE) {
		service_bind_reply(&s, f->request_id, true, NULL);
		return;
	}
	method = f->msg_invoke_method->method_id;
	*stopped |= method == STOPPED;
	if (method == GET_COMMAND)
		*command = f->request_id;
	else if (!f->msg_invoke_method->drop_reply)
		service_reply(&s, f->request_id, method == INITIALIZE ? "\x10\x01" : "",
			      method == INITIALIZE ? 2 : 0, true, false);
}

/* Serves until @wanted is among the events, or the data source has stopped.  -EPIPE: the connection has ended, or did not
 * begin. */
static int serve_until(const char *wanted, uint64_t *command)
{
	bool stopped = false;

	for (int i = 0; i < 200; i++) {
		Pb__IPCFrame *f;

		pump(&s);
		take_connection();
		if (strstr(s.events, "lost") || is_closed() || (i > 2 && s.stream.fd < 0))
			return -EPIPE;
		if (stopped || (wanted && strstr(s.events, wanted)))
			return 0;
		f = s.stream.fd < 0 ? NULL : service_next(&s);
		if (f && !is_closed())
			answer(f, command, &stopped);
		if (f)
			pb__ipcframe__free_unpacked(f, NULL);
	}
	fail_msg("call %lu: one side waits (%s)", suspended, s.events);
	return -ETIMEDOUT;
}

static void begin(void)
{
	s.events[0] = 0;
	(void)poll(NULL, 0, 2); /* the timer of the first try */
}

static void end_connection(void)
{
	int fd;

	frame_stream_deinit(&s.stream);
	while ((fd = accept4(s.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) /* not taken */
		(void)close(fd);
}

static int make_served(void *arg)
{
	struct producer **made = arg;
	uint64_t command;
	int r = make_producer(made);

	if (r < 0)
		return r;
	suspend();
	begin();
	(void)serve_until("serving", &command);
	end_connection();
	resume();
	return 0;
}

/* The shared memory, of one page. */
static void give_memory(uint64_t command)
{
	static const char body[] = "\x08\x01\x10\x01\x1a\x04\x1a\x02\x08\x04";
	uint8_t frame[32] = "\x0e\0\0\0\x10\0\x32\x0a";
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {frame, 18};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd = memory_new();

	frame[5] = (uint8_t)command;
	memcpy(frame + 8, body, 10);
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	assert_int_equal(sendmsg(s.stream.fd, &msg, 0), 18);
	(void)close(fd);
	pump(&s);
}

/* What the service sends to an instance of linux.perf that counts, and to one of metatrace. */
#define PERF "\x0a\x0alinux.perf\x10\x01\x20\x01"
#define METATRACE "\x0a\x12perfetto.metatrace\x10\x01\x20\x01"
#define INSTANCE(field, id, config)                                                  \
	((const char[]){(char)((field) << 3 | 2), sizeof(config) + 3, 8, (id), 0x12, \
			sizeof(config) - 1}),                                        \
		config, sizeof(config) - 1

static void command(uint64_t request, const char head[6], const char *config, size_t len)
{
	char body[128];

	if (is_closed())
		return;
	memcpy(body, head, 6);
	memcpy(body + 6, config, len);
	service_command(&s, request, body, 6 + len);
}

/* Two instances; the one of linux.perf is stopped before its start, and answers. */
static int make_instances(void *arg)
{
	uint64_t request = 0;
	int r = make_daemon(arg);

	if (r < 0)
		return r;
	suspend();
	begin();
	r = serve_until("serving", &request);
	if (r >= 0) {
		give_memory(request);
		command(request, INSTANCE(6, 1, PERF));
		command(request, INSTANCE(6, 2, METATRACE));
		command(request, INSTANCE(1, 2, METATRACE));
		if (!is_closed())
			COMMAND(&s, request, "\x12\x02\x08\x01");
		(void)serve_until(NULL, &request);
	}
	end_connection();
	resume();
	return 0;
}

/* The service, in a process of its own. */
static void serve_triggers(void)
{
	uint64_t request;
	bool stopped = false;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		struct pollfd pfd = {.fd = s.stream.fd < 0 ? s.listener : s.stream.fd,
				     .events = POLLIN};
		Pb__IPCFrame *f;

		(void)poll(&pfd, 1, -1);
		take_connection();
		while (s.stream.fd >= 0 && (f = service_next(&s)))
			answer(f, &request, &stopped);
		if (is_closed())
			_exit(0);
	}
}

static int make_triggers(void *arg)
{
	static const char *const names[] = {"a trigger"};
	pid_t child;
	int r;

	(void)arg;
	suspend();
	child = fork();
	assert_true(child >= 0);
	if (!child)
		serve_triggers();
	resume();
	r = activate_triggers(s.name, names, 1);
	suspend();
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	end_connection();
	resume();
	return r;
}
static void end_triggers(void *arg)
{
	(void)arg;
}

static void test_connection(void **state)
{
	struct producer *producer;
	struct daemon *daemon;
	const struct calls_made all[] = {{"connection", make_served, end_producer, &producer},
					 {"instances", make_instances, end_daemon, &daemon},
					 {"triggers", make_triggers, end_triggers, NULL}};

	(void)state;
	service_init_alone(&s, "served");
	service_listen(&s);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	s.listener = fd_close(s.listener);
	loop_deinit(&s.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
					   cmocka_unit_test(test_connection)};

	return cmocka_run_group_tests_name("producer-calls", tests, NULL, NULL);
}
