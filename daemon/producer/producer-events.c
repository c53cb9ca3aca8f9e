/* producer-events.c - what the service says to a producer.  Thread: main.
 *
 * Replies are told apart by the ids of the requests that wait for one; others are ignored, as are
 * commands that nobody knows.  A frame is decoded whole before anything is done with it. */
#include "base/error.h"
#include "daemon/producer/producer-private.h"

static void bind_reply(struct producer *p, const Pb__IPCFrame__BindServiceReply *reply)
{
	if (!reply->success)
		producer_refuse(p, "it takes no producers");
	else if (!producer_take_methods(p, reply))
		producer_refuse(p, "it lacks methods that a producer needs");
	else
		producer_open(p);
}

static void initialize_reply(struct producer *p, const Pb__IPCFrame__InvokeMethodReply *reply)
{
	_cleanup_(message_freep) Pb__InitializeConnectionResponse *response = NULL;

	if (!reply->success) {
		producer_refuse(p, "it refuses this producer (is it locked down to another user?)");
		return;
	}
	response = (void *)frame_unpack(&pb__initialize_connection_response__descriptor,
					reply->reply_proto.data, reply->reply_proto.len);
	if (response && response->use_shmem_emulation)
		producer_refuse(p, "it is not on this machine: no memory can be shared with it");
	else
		producer_register(p);
}

static void register_reply(const struct producer_source *source,
			   const Pb__IPCFrame__InvokeMethodReply *reply)
{
	_cleanup_(message_freep) Pb__RegisterDataSourceResponse *response =
		(void *)frame_unpack(&pb__register_data_source_response__descriptor,
				     reply->reply_proto.data, reply->reply_proto.len);

	if (!reply->success || (response && response->error))
		log_error("the tracing service does not take %s: %.200s", source->name,
			  response && response->error ? response->error : "no reason given");
}

static void synced(struct producer *p)
{
	if (p->state == PRODUCER_REGISTERING) {
		p->state = PRODUCER_SERVING;
		p->wait_ms = 0; /* the next loss starts with a short wait */
		p->told = false;
		log_info("serving the tracing service");
		p->events->serving(p->arg);
	} else if (p->state == PRODUCER_LEAVING) {
		p->events->left(p->arg);
	}
}

static void committed(struct producer *p)
{
	if (p->commit_again) {
		p->commit_again = false;
		producer_commit(p, NULL, 0, 0, true);
	}
	p->events->committed(p->arg);
}

/* ---- commands ---- */

static void setup_tracing(struct producer *p,
			  const Pb__GetAsyncCommandResponse__SetupTracing *setup)
{
	uint32_t kb = setup->shared_buffer_page_size_kb;

	p->events->setup_tracing(p->arg, frame_take_fd(&p->stream),
				 kb <= UINT32_MAX / 1024 ? kb * 1024 : UINT32_MAX);
}

/* protobuf-c has NULL for bytes that are empty. */
static const void *config_of(const Pb__GetAsyncCommandResponse__DataSource *source)
{
	return source->config.len ? source->config.data : (const void *)"";
}

static void command(struct producer *p, const Pb__GetAsyncCommandResponse *c)
{
	const struct producer_events *e = p->events;

	switch (c->cmd_case) {
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_SETUP_TRACING:
		setup_tracing(p, c->setup_tracing);
		break;
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_SETUP_DATA_SOURCE:
		e->setup(p->arg, c->setup_data_source->new_instance_id,
			 config_of(c->setup_data_source), c->setup_data_source->config.len);
		break;
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_START_DATA_SOURCE:
		e->start(p->arg, c->start_data_source->new_instance_id,
			 config_of(c->start_data_source), c->start_data_source->config.len);
		break;
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_STOP_DATA_SOURCE:
		e->stop(p->arg, c->stop_data_source->instance_id);
		break;
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_FLUSH:
		e->flush(p->arg, c->flush->request_id, c->flush->data_source_ids,
			 c->flush->n_data_source_ids);
		break;
	case PB__GET_ASYNC_COMMAND_RESPONSE__CMD_CLEAR_INCREMENTAL_STATE:
		e->clear_incremental_state(p->arg, c->clear_incremental_state->data_source_ids,
					   c->clear_incremental_state->n_data_source_ids);
		break;
	default:
		log_verbose("the tracing service sent a command that is not known here");
		break;
	}
}

static void command_reply(struct producer *p, const Pb__IPCFrame__InvokeMethodReply *reply)
{
	_cleanup_(message_freep) Pb__GetAsyncCommandResponse *response = NULL;

	if (!reply->has_more) {
		producer_refuse(p, "it ended the stream of commands");
		return;
	}
	if (!reply->success || p->state == PRODUCER_LEAVING)
		return;
	response = (void *)frame_unpack(&pb__get_async_command_response__descriptor,
					reply->reply_proto.data, reply->reply_proto.len);
	if (response)
		command(p, response);
	else
		log_verbose("the tracing service sent a command that is damaged");
}

/* An answer answers once: its id waits no more. */
static bool answers(uint64_t *waiting, uint64_t id)
{
	if (!id || *waiting != id)
		return false;
	*waiting = 0;
	return true;
}

static void method_reply(struct producer *p, uint64_t id,
			 const Pb__IPCFrame__InvokeMethodReply *reply)
{
	if (id && id == p->command) {
		command_reply(p, reply);
	} else if (reply->has_more) {
		return; /* a stream that was never asked for */
	} else if (answers(&p->initialize, id)) {
		initialize_reply(p, reply);
	} else if (answers(&p->sync, id)) {
		synced(p);
	} else if (answers(&p->commit, id)) {
		committed(p);
	} else {
		for (size_t i = 0; i < p->options.n_sources; i++)
			if (answers(&p->registering[i], id))
				register_reply(&p->options.sources[i], reply);
	}
}

void producer_dispatch(struct producer *p, const Pb__IPCFrame *frame)
{
	switch (frame->msg_case) {
	case PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY:
		if (answers(&p->bind, frame->request_id))
			bind_reply(p, frame->msg_bind_service_reply);
		break;
	case PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY:
		method_reply(p, frame->request_id, frame->msg_invoke_method_reply);
		break;
	case PB__IPCFRAME__MSG_MSG_REQUEST_ERROR:
		log_verbose("the tracing service: %.200s", frame->msg_request_error->error
								   ? frame->msg_request_error->error
								   : "an error without a reason");
		break;
	default:
		break;
	}
}
