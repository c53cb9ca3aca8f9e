/* activate.c - see activate.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/producer/activate.h"
#include "daemon/producer/frame.h"
#include "daemon/producer/producer.h"

enum step { STEP_BIND, STEP_INITIALIZE, STEP_ACTIVATE, STEP_DONE };

struct activation {
	struct frame_stream stream;
	enum step step; /* the request that waits for its answer; its id is step + 1 */
	uint32_t service, initialize, activate;
	const char *const *names;
	size_t n;
};

static int queue(struct activation *a, Pb__IPCFrame *frame)
{
	frame->has_request_id = true;
	frame->request_id = a->step + 1;
	return frame_queue(&a->stream, frame);
}

static int invoke(struct activation *a, uint32_t method, const void *message)
{
	struct frame_request request;
	int r = frame_invoke(a->service, method, message, &request);

	return r < 0 ? trace(r) : queue(a, &request.frame);
}

static int bind_service(struct activation *a)
{
	struct frame_request request;

	frame_bind(&request);
	return queue(a, &request.frame);
}

static int initialize(struct activation *a)
{
	Pb__InitializeConnectionRequest request = PB__INITIALIZE_CONNECTION_REQUEST__INIT;

	request.producer_name = (char *)"perfwind trigger";
	request.sdk_version = (char *)"perfwind " PERFWIND_VERSION;
	return invoke(a, a->initialize, &request);
}

static int activate(struct activation *a)
{
	Pb__ActivateTriggersRequest request = PB__ACTIVATE_TRIGGERS_REQUEST__INIT;

	request.trigger_names = (char **)a->names;
	request.n_trigger_names = a->n;
	return invoke(a, a->activate, &request);
}

/* Methods are known by name: ids differ by service. */
static int bound(struct activation *a, const Pb__IPCFrame__BindServiceReply *reply)
{
	a->service = reply->service_id;
	for (size_t i = 0; i < reply->n_methods; i++) {
		const char *name = reply->methods[i]->name;

		if (name && !strcmp(name, "InitializeConnection"))
			a->initialize = reply->methods[i]->id;
		if (name && !strcmp(name, "ActivateTriggers"))
			a->activate = reply->methods[i]->id;
	}
	return reply->success && a->initialize && a->activate ? 0 : fail(-EOPNOTSUPP);
}

/* The answer to the request of this step; then the next one goes out. */
static int take_answer(struct activation *a, const Pb__IPCFrame *frame)
{
	const Pb__IPCFrame__InvokeMethodReply *reply = frame->msg_invoke_method_reply;
	int r = 0;

	if (a->step == STEP_BIND) {
		if (frame->msg_case != PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY)
			return fail(-EBADMSG);
		r = bound(a, frame->msg_bind_service_reply);
	} else if (frame->msg_case != PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY) {
		return fail(-EBADMSG);
	} else if (!reply->success) {
		return fail(-EACCES);
	}
	if (r < 0)
		return trace(r);
	a->step++;
	if (a->step == STEP_INITIALIZE)
		r = initialize(a);
	else if (a->step == STEP_ACTIVATE)
		r = activate(a);
	return r < 0 ? trace(r) : 0;
}

static int take_frames(struct activation *a)
{
	const uint8_t *data;
	size_t len;
	int r = 0;

	while (a->step != STEP_DONE && (r = frame_next(&a->stream, &data, &len)) == 0) {
		_cleanup_(message_freep) Pb__IPCFrame *frame =
			(void *)frame_unpack(&pb__ipcframe__descriptor, data, len);

		if (!frame)
			return fail(-EBADMSG);
		if (frame->request_id != a->step + 1u)
			continue; /* no request of ours */
		r = take_answer(a, frame);
		if (r < 0)
			return trace(r);
	}
	return r < 0 ? trace(r) : 0;
}

static int run(struct activation *a, uint64_t until)
{
	int r = bind_service(a);

	while (r >= 0 && a->step != STEP_DONE) {
		struct pollfd pfd = {.fd = a->stream.fd, .events = POLLIN};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);

		r = frame_send(&a->stream);
		if (r == FRAME_PENDING)
			pfd.events |= POLLOUT;
		if (r < 0)
			return trace(r);
		if (now >= until)
			return fail(-ETIMEDOUT);
		if (poll(&pfd, 1, (int)((until - now) / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR)
			return fail(-errno);
		r = frame_receive(&a->stream);
		if (r == FRAME_CLOSED)
			return fail(-EPIPE);
		if (r >= 0)
			r = take_frames(a);
	}
	return r < 0 ? trace(r) : 0;
}

int activate_triggers(const char *socket, const char *const *names, size_t n)
{
	struct activation a = {.stream = {.fd = -1, .slot_fd = -1}, .names = names, .n = n};
	int fd = -1, r;

	r = producer_connect(socket ? socket : producer_socket_name(geteuid() == 0), &fd);
	if (r >= 0)
		r = frame_stream_init(&a.stream, fd);
	if (r >= 0)
		r = run(&a, clock_ns(CLOCK_MONOTONIC) + ACTIVATE_MS * NSEC_PER_MSEC);
	frame_stream_deinit(&a.stream);
	return r < 0 ? trace(r) : 0;
}
