/* producer-calls.c - what a producer says to the service.  Thread: main.
 *
 * A call is one frame in the queue; a queue that has grown past all reason (the service does not
 * read) ends the connection.  Errors are not returned: whoever calls could do nothing with them,
 * and the loop will find the connection broken. */
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "daemon/producer/producer-private.h"

enum {
	COMMIT_CHUNKS = 1024,  /* in a frame: at most 21 bytes each, far from the frame's limit */
	ARGUMENTS_MAX = 32768, /* bytes of packed arguments */
};

/* Names are the protocol: ids differ by service.  @needed: no service is one without it. */
static const struct {
	const char *name;
	bool needed;
} methods[N_METHODS] = {
	[METHOD_INITIALIZE] = {"InitializeConnection", true},
	[METHOD_REGISTER_SOURCE] = {"RegisterDataSource", true},
	[METHOD_UNREGISTER_SOURCE] = {"UnregisterDataSource", false},
	[METHOD_COMMIT] = {"CommitData", true},
	[METHOD_GET_COMMAND] = {"GetAsyncCommand", true},
	[METHOD_REGISTER_WRITER] = {"RegisterTraceWriter", false},
	[METHOD_UNREGISTER_WRITER] = {"UnregisterTraceWriter", false},
	[METHOD_STARTED] = {"NotifyDataSourceStarted", false},
	[METHOD_STOPPED] = {"NotifyDataSourceStopped", false},
	[METHOD_SYNC] = {"Sync", false},
};

bool producer_take_methods(struct producer *p, const Pb__IPCFrame__BindServiceReply *reply)
{
	p->service_id = reply->service_id;
	for (size_t i = 0; i < reply->n_methods; i++) {
		const Pb__IPCFrame__MethodInfo *m = reply->methods[i];

		for (size_t j = 0; j < N_METHODS; j++)
			if (m->name && !strcmp(m->name, methods[j].name))
				p->methods[j] = m->id;
	}
	for (size_t j = 0; j < N_METHODS; j++)
		if (methods[j].needed && !p->methods[j])
			return false;
	return true;
}

/* The request's id; 0: it could not be queued, and the connection ends. */
static uint64_t send_frame(struct producer *p, Pb__IPCFrame *frame)
{
	int r;

	frame->has_request_id = true;
	frame->request_id = p->last_request + 1;
	r = frame_queue(&p->stream, frame);
	if (r < 0) {
		producer_refuse(p, "it does not read what is sent to it");
		return 0;
	}
	p->last_request++;
	r = frame_send(&p->stream);
	if (r < 0) /* closed, maybe for one direction only: makes it so for both */
		(void)shutdown(p->stream.fd, SHUT_RDWR);
	if (r == FRAME_PENDING && !p->writable_wanted) {
		p->writable_wanted = true;
		(void)loop_change(p->loop, &p->source, EPOLLIN | EPOLLOUT);
	}
	return p->last_request;
}

void producer_bind(struct producer *p)
{
	static char name[] = "ProducerPort";
	Pb__IPCFrame__BindService bind = PB__IPCFRAME__BIND_SERVICE__INIT;
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;

	bind.service_name = name;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_BIND_SERVICE;
	frame.msg_bind_service = &bind;
	p->bind = send_frame(p, &frame);
}

/* 0: nothing was sent. */
static uint64_t invoke(struct producer *p, enum producer_method method, const void *message,
		       bool reply)
{
	Pb__IPCFrame__InvokeMethod call = PB__IPCFRAME__INVOKE_METHOD__INIT;
	Pb__IPCFrame frame = PB__IPCFRAME__INIT;
	uint8_t arguments[ARGUMENTS_MAX];

	if (p->state < PRODUCER_OPENING || p->refused || !p->methods[method])
		return 0;
	call.has_service_id = call.has_method_id = call.has_args_proto = call.has_drop_reply = true;
	call.service_id = p->service_id;
	call.method_id = p->methods[method];
	if (message) {
		if (protobuf_c_message_get_packed_size(message) > sizeof(arguments)) {
			producer_refuse(p, "what it is to be told is too long");
			return 0;
		}
		call.args_proto.len = protobuf_c_message_pack(message, arguments);
		call.args_proto.data = arguments;
	}
	call.drop_reply = !reply;
	frame.msg_case = PB__IPCFRAME__MSG_MSG_INVOKE_METHOD;
	frame.msg_invoke_method = &call;
	return send_frame(p, &frame);
}

/* The command stream is asked for before any data source is registered: a service has nowhere to
 * send commands otherwise, and drops them. */
void producer_open(struct producer *p)
{
	Pb__InitializeConnectionRequest request = PB__INITIALIZE_CONNECTION_REQUEST__INIT;

	request.producer_name = (char *)p->options.name;
	request.has_shared_memory_page_size_hint_bytes = p->options.shmem_page_bytes != 0;
	request.shared_memory_page_size_hint_bytes = p->options.shmem_page_bytes;
	request.has_shared_memory_size_hint_bytes = p->options.shmem_bytes != 0;
	request.shared_memory_size_hint_bytes = p->options.shmem_bytes;
	request.has_smb_scraping_mode = true;
	request.smb_scraping_mode =
		PB__INITIALIZE_CONNECTION_REQUEST__SCRAPING_MODE__SMB_SCRAPING_ENABLED;
	request.sdk_version = (char *)"perfwind " PERFWIND_VERSION;
	p->state = PRODUCER_OPENING;
	p->initialize = invoke(p, METHOD_INITIALIZE, &request, true);
	p->command = invoke(p, METHOD_GET_COMMAND, NULL, true);
}

/* Answered once all that was sent before it is handled.  An empty commit is as good, though an old
 * service calls it a failure as long as there is no shared memory. */
static void sync_up(struct producer *p)
{
	Pb__CommitDataRequest nothing = PB__COMMIT_DATA_REQUEST__INIT;

	if (p->methods[METHOD_SYNC])
		p->sync = invoke(p, METHOD_SYNC, NULL, true);
	else
		p->sync = invoke(p, METHOD_COMMIT, &nothing, true);
}

void producer_register(struct producer *p)
{
	p->state = PRODUCER_REGISTERING;
	for (size_t i = 0; i < p->options.n_sources; i++) {
		const struct producer_source *s = &p->options.sources[i];
		Pb__DataSourceDescriptor descriptor = PB__DATA_SOURCE_DESCRIPTOR__INIT;
		Pb__RegisterDataSourceRequest request = PB__REGISTER_DATA_SOURCE_REQUEST__INIT;

		descriptor.name = (char *)s->name;
		descriptor.has_will_notify_on_stop = s->will_notify_on_stop;
		descriptor.will_notify_on_stop = s->will_notify_on_stop;
		descriptor.has_handles_incremental_state_clear = s->handles_incremental_state_clear;
		descriptor.handles_incremental_state_clear = s->handles_incremental_state_clear;
		request.data_source_descriptor = &descriptor;
		p->registering[i] = invoke(p, METHOD_REGISTER_SOURCE, &request, true);
	}
	sync_up(p);
}

bool producer_leave(struct producer *p)
{
	if (p->state != PRODUCER_SERVING && p->state != PRODUCER_REGISTERING)
		return false;
	for (size_t i = 0; i < p->options.n_sources; i++) {
		Pb__UnregisterDataSourceRequest request = PB__UNREGISTER_DATA_SOURCE_REQUEST__INIT;

		request.data_source_name = (char *)p->options.sources[i].name;
		(void)invoke(p, METHOD_UNREGISTER_SOURCE, &request, false);
	}
	p->state = PRODUCER_LEAVING;
	sync_up(p);
	return p->sync != 0;
}

/* ---- while serving ---- */

static void commit_frame(struct producer *p, const struct smb_move *chunks, size_t n,
			 uint64_t flush, bool reply)
{
	Pb__CommitDataRequest__ChunksToMove moves[COMMIT_CHUNKS], *list[COMMIT_CHUNKS];
	Pb__CommitDataRequest request = PB__COMMIT_DATA_REQUEST__INIT;
	uint64_t id;

	for (size_t i = 0; i < n; i++) {
		pb__commit_data_request__chunks_to_move__init(&moves[i]);
		moves[i].has_page = moves[i].has_chunk = moves[i].has_target_buffer = true;
		moves[i].page = chunks[i].page;
		moves[i].chunk = chunks[i].chunk;
		moves[i].target_buffer = chunks[i].target_buffer;
		list[i] = &moves[i];
	}
	request.chunks_to_move = list;
	request.n_chunks_to_move = n;
	request.has_flush_request_id = flush != 0;
	request.flush_request_id = flush;
	id = invoke(p, METHOD_COMMIT, &request, reply);
	if (reply)
		p->commit = id;
}

void producer_commit(struct producer *p, const struct smb_move *chunks, size_t n, uint64_t flush,
		     bool reply)
{
	if (reply && p->commit) {
		p->commit_again = true;
		reply = false;
	}
	while (n > COMMIT_CHUNKS) {
		commit_frame(p, chunks, COMMIT_CHUNKS, 0, false);
		chunks += COMMIT_CHUNKS;
		n -= COMMIT_CHUNKS;
	}
	if (n || flush || reply)
		commit_frame(p, chunks, n, flush, reply);
}

void producer_register_writer(struct producer *p, uint32_t id, uint32_t target_buffer)
{
	Pb__RegisterTraceWriterRequest request = PB__REGISTER_TRACE_WRITER_REQUEST__INIT;

	request.has_trace_writer_id = request.has_target_buffer = true;
	request.trace_writer_id = id;
	request.target_buffer = target_buffer;
	(void)invoke(p, METHOD_REGISTER_WRITER, &request, false);
}

void producer_unregister_writer(struct producer *p, uint32_t id)
{
	Pb__UnregisterTraceWriterRequest request = PB__UNREGISTER_TRACE_WRITER_REQUEST__INIT;

	request.has_trace_writer_id = true;
	request.trace_writer_id = id;
	(void)invoke(p, METHOD_UNREGISTER_WRITER, &request, false);
}

static void notify(struct producer *p, enum producer_method method, uint64_t id)
{
	Pb__NotifyDataSourceRequest request = PB__NOTIFY_DATA_SOURCE_REQUEST__INIT;

	request.has_data_source_id = true;
	request.data_source_id = id;
	(void)invoke(p, method, &request, false);
}

void producer_started(struct producer *p, uint64_t id)
{
	notify(p, METHOD_STARTED, id);
}

void producer_stopped(struct producer *p, uint64_t id)
{
	notify(p, METHOD_STOPPED, id);
}
