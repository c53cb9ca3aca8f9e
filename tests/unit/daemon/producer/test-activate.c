/* test-activate.c - ActivateTriggers against a service by hand in a process of its own, a good one and bad ones. */
#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "daemon/producer/activate.h"
#include "tests/unit/daemon/producer/frame-pair.h"

#include <sys/un.h>

enum kind { GOOD, NO_METHOD, REFUSES, CLOSES, GARBAGE, WRONG_ANSWER, KINDS };
enum { SERVICE = 5, INITIALIZE = 40, ACTIVATE = 41 };

static const char *const names[] = {"first", "second trigger"};

static void answer(struct frame_stream *s, uint64_t request, bool success)
{
	Pb__IPCFrame__InvokeMethodReply reply = PB__IPCFRAME__INVOKE_METHOD_REPLY__INIT;
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	frame.has_request_id = true;
	frame.request_id = request;
	reply.has_success = true;
	reply.success = success;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY;
	frame.msg_invoke_method_reply = &reply;
	(void)frame_queue(s, &frame);
}

static void answer_bind(struct frame_stream *s, uint64_t request, enum kind kind)
{
	Pb__IPCFrame__BindServiceReply reply = PB__IPCFRAME__BIND_SERVICE_REPLY__INIT;
	Pb__IPCFrame__MethodInfo infos[2], *list[] = {&infos[0], &infos[1]};
	static char method_names[][24] = {"ActivateTriggers", "InitializeConnection"},
		    other[] = "Other";
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	for (size_t i = 0; i < 2; i++) {
		pb__ipcframe__method_info__init(&infos[i]);
		infos[i].has_id = true;
		infos[i].id = i ? INITIALIZE : ACTIVATE;
		infos[i].name = kind == NO_METHOD && !i ? other : method_names[i];
	}
	reply.has_success = reply.success = true;
	reply.has_service_id = true;
	reply.service_id = SERVICE;
	reply.n_methods = 2;
	reply.methods = list;
	frame.has_request_id = true;
	frame.request_id = request;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY;
	frame.msg_bind_service_reply = &reply;
	(void)frame_queue(s, &frame);
}

/* true: the call is the one with our names. */
static bool is_ours(const Pb__IPCFrame__InvokeMethod *call)
{
	Pb__ActivateTriggersRequest *request = pb__activate_triggers_request__unpack(
		NULL, call->args_proto.len, call->args_proto.data);
	bool ours = request && call->service_id == SERVICE && request->n_trigger_names == 2 &&
		    !strcmp(request->trigger_names[0], names[0]) &&
		    !strcmp(request->trigger_names[1], names[1]);

	if (request)
		pb__activate_triggers_request__free_unpacked(request, NULL);
	return ours;
}

/* Answers one frame; returns whether it was the last one. */
static bool take_frame(struct frame_stream *s, const Pb__IPCFrame *frame, enum kind kind,
		       bool *ret_ours)
{
	const Pb__IPCFrame__InvokeMethod *call = frame->msg_invoke_method;

	if (frame->msg_case == PB__IPCFRAME__MSG_MSG_BIND_SERVICE) {
		answer(s, frame->request_id + 7, false); /* of another request: passed over */
		if (kind == WRONG_ANSWER)
			answer(s, frame->request_id, true);
		else
			answer_bind(s, frame->request_id, kind);
		return false;
	}
	if (frame->msg_case != PB__IPCFRAME__MSG_MSG_INVOKE_METHOD)
		return true;
	if (call->method_id == INITIALIZE) {
		answer(s, frame->request_id, kind != REFUSES);
		return kind == CLOSES;
	}
	*ret_ours = call->method_id == ACTIVATE && is_ours(call);
	answer(s, frame->request_id, true);
	return true;
}

/* Serves one connection.  0: the triggers came. */
static int serve(int listener, enum kind kind)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct frame_stream s;
	bool last = false, ours = false;
	const uint8_t *data;
	size_t len;
	int r = 0;

	if (kind == GARBAGE) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		char unused[256];

		r = write(fd, "\4\0\0\0\xff\xff\xff\xff", 8) == 8 ? 1 : 2;
		while (poll(&pfd, 1, -1) == 1 && read(fd, unused, sizeof(unused)) > 0)
			; /* until the other end has read it and closes */
		return r;
	}
	if (frame_stream_init(&s, fd) < 0)
		return 2;
	while (!last && r != FRAME_CLOSED && r >= 0) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		(void)poll(&pfd, 1, -1);
		r = frame_receive(&s);
		while (!last && frame_next(&s, &data, &len) == 0) {
			Pb__IPCFrame *frame =
				(void *)frame_unpack(&pb__ipcframe__descriptor, data, len);

			last = take_frame(&s, frame, kind, &ours);
			pb__ipcframe__free_unpacked(frame, NULL);
			if (kind != CLOSES || !last)
				(void)frame_send(&s);
		}
	}
	frame_stream_deinit(&s);
	return ours ? 0 : 1;
}

static int run(enum kind kind, int *ret_service)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[64];
	int n = snprintf(name, sizeof(name), "@perfwind-test-activate-%u-%d", (unsigned)getpid(),
			 (int)kind),
	    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r, status;
	pid_t child;

	memcpy(address.sun_path + 1, name + 1, (size_t)n - 1);
	assert_int_equal(bind(listener, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
			 0);
	assert_int_equal(listen(listener, 1), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(serve(listener, kind));
	(void)fd_close(listener);
	r = activate_triggers(name, names, 2);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	*ret_service = WEXITSTATUS(status);
	return r;
}

static void test_services(void **state)
{
	static const struct {
		int result, service;
	} expected[KINDS] = {
		[GOOD] = {0, 0},	   [NO_METHOD] = {-EOPNOTSUPP, 1},
		[REFUSES] = {-EACCES, 1},  [CLOSES] = {-EPIPE, 1},
		[GARBAGE] = {-EBADMSG, 1}, [WRONG_ANSWER] = {-EBADMSG, 1},
	};

	(void)state;
	for (int kind = 0; kind < KINDS; kind++) {
		int service, r = run((enum kind)kind, &service);

		assert_int_equal(r, expected[kind].result);
		assert_int_equal(service, expected[kind].service);
	}
}

static void test_no_service(void **state)
{
	unsigned before = open_fds();

	(void)state;
	assert_int_equal(activate_triggers("@perfwind-test-no-service", names, 2), -ECONNREFUSED);
	assert_int_equal(activate_triggers("/nowhere/at/all", names, 2), -ENOENT);
	assert_int_equal(activate_triggers("localhost:80", names, 2), -EAFNOSUPPORT);
	assert_int_equal(open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_services),
		cmocka_unit_test(test_no_service),
	};

	return cmocka_run_group_tests_name("activate", tests, NULL, NULL);
}
