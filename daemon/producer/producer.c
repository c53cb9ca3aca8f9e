/* producer.c - see producer.h.
 *
 * The socket is read as soon as it is readable and in small portions, so that neither the service waits (it drops a
 * producer that leaves its socket full for 10 ms) nor the rings do.  A call is one frame in the queue; a queue above its
 * limit (the service does not read) ends the connection.  Calls return no errors: the loop finds the connection broken.
 * The connection is closed in one place, between events: producer_refuse() only notes the reason.
 *
 * Replies are matched by the ids of the requests that wait for one; others are ignored, as are unknown commands.
 * A frame is decoded whole before any of it is used. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/peer.h"
#include "daemon/producer/frame.h"
#include "daemon/producer/producer.h"

enum producer_method {
	METHOD_INITIALIZE,
	METHOD_REGISTER_SOURCE,
	METHOD_UNREGISTER_SOURCE,
	METHOD_COMMIT,
	METHOD_GET_COMMAND,
	METHOD_REGISTER_WRITER,
	METHOD_UNREGISTER_WRITER,
	METHOD_STOPPED,
	METHOD_SYNC,
	N_METHODS
};

enum producer_state {
	PRODUCER_WAITING, /* for the next try; all below have a connection */
	PRODUCER_BINDING,
	PRODUCER_OPENING,
	PRODUCER_REGISTERING,
	PRODUCER_SERVING,
	PRODUCER_LEAVING,
};

enum { PRODUCER_SOURCES_MAX = 4 };

struct producer {
	struct producer_options options;
	const struct producer_events *events;
	void *arg;
	struct loop *loop;
	struct loop_timer retry;
	uint32_t wait_ms; /* before the next try */
	bool reported;	  /* that there is no service: once */
	uint32_t
		distrusted; /* the user of the service that was refused last, logged once; UINT32_MAX: none */

	enum producer_state state;
	struct frame_stream stream;
	struct loop_source source;
	bool writable_wanted;
	const char *refused;			 /* the reason for the end of the connection */
	uint32_t service_id, methods[N_METHODS]; /* 0: the service does not have it */
	uint64_t last_request;
	/* Requests that wait for an answer; 0: none. */
	uint64_t bind, initialize, command, sync, commit;
	uint64_t registering[PRODUCER_SOURCES_MAX];
	bool commit_again; /* a second reply was requested while `commit` waits */
};

/* ---- calls to the service ---- */

enum {
	COMMIT_CHUNKS = 1024, /* in a frame: at most 21 bytes each, far from the frame's limit */
};

/* Methods are known by name: ids differ by service.  @needed: the producer does not work without it. */
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
	[METHOD_STOPPED] = {"NotifyDataSourceStopped", false},
	[METHOD_SYNC] = {"Sync", false},
};

/* From a bind reply: service and method ids.  false: what cannot be missing is. */
static bool take_methods(struct producer *p, const Pb__IPCFrame__BindServiceReply *reply)
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
		producer_refuse(p, "it does not read its messages");
		return 0;
	}
	p->last_request++;
	r = frame_send(&p->stream);
	if (r < 0) /* closed, maybe in one direction only: closes both */
		(void)shutdown(p->stream.fd, SHUT_RDWR);
	if (r == FRAME_PENDING && !p->writable_wanted) {
		p->writable_wanted = true;
		(void)loop_change(p->loop, &p->source, EPOLLIN | EPOLLOUT);
	}
	return p->last_request;
}

static void bind_service(struct producer *p)
{
	struct frame_request request;

	frame_bind(&request);
	p->bind = send_frame(p, &request.frame);
}

/* 0: nothing was sent. */
static uint64_t invoke(struct producer *p, enum producer_method method, const void *message,
		       bool reply)
{
	struct frame_request request;

	if (p->state < PRODUCER_OPENING || p->refused || !p->methods[method])
		return 0;
	if (frame_invoke(p->service_id, p->methods[method], message, &request) < 0) {
		producer_refuse(p, "a message to it is too long");
		return 0;
	}
	request.call.has_drop_reply = true;
	request.call.drop_reply = !reply;
	return send_frame(p, &request.frame);
}

/* The command stream is requested before any data source is registered: without it the service drops its
 * commands. */
static void open_connection(struct producer *p)
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

/* Answered once the service has handled everything that was sent before.  An empty commit is, too; an old service
 * answers it with a failure as long as there is no shared memory. */
static void sync_up(struct producer *p)
{
	Pb__CommitDataRequest nothing = PB__COMMIT_DATA_REQUEST__INIT;

	if (p->methods[METHOD_SYNC])
		p->sync = invoke(p, METHOD_SYNC, NULL, true);
	else
		p->sync = invoke(p, METHOD_COMMIT, &nothing, true);
}

static void register_sources(struct producer *p)
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

void producer_stopped(struct producer *p, uint64_t id)
{
	Pb__NotifyDataSourceRequest request = PB__NOTIFY_DATA_SOURCE_REQUEST__INIT;

	request.has_data_source_id = true;
	request.data_source_id = id;
	(void)invoke(p, METHOD_STOPPED, &request, false);
}

/* ---- replies and commands ---- */

/* As frame_unpack().  A message that is left out for lack of memory may be one that this side waits for: the connection ends. */
static void *unpack(struct producer *p, const ProtobufCMessageDescriptor *descriptor,
		    const void *data, size_t len)
{
	void *message;

	errno = 0;
	message = frame_unpack(descriptor, data, len);
	if (!message && errno == ENOMEM)
		producer_refuse(p, "no memory is left for its messages");
	return message;
}

static void bind_reply(struct producer *p, const Pb__IPCFrame__BindServiceReply *reply)
{
	if (!reply->success)
		producer_refuse(p, "it takes no producers");
	else if (!take_methods(p, reply))
		producer_refuse(p, "it lacks methods that a producer needs");
	else
		open_connection(p);
}

static void initialize_reply(struct producer *p, const Pb__IPCFrame__InvokeMethodReply *reply)
{
	_cleanup_(message_freep) Pb__InitializeConnectionResponse *response = NULL;

	if (!reply->success) {
		producer_refuse(p, "it refuses this producer (is it locked down to another user?)");
		return;
	}
	response = unpack(p, &pb__initialize_connection_response__descriptor,
			  reply->reply_proto.data, reply->reply_proto.len);
	if (response && response->use_shmem_emulation)
		producer_refuse(p, "it is not on this machine: no memory can be shared with it");
	else if (!p->refused)
		register_sources(p);
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
		p->reported = false;
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

/* protobuf-c has NULL for empty bytes. */
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
		log_verbose("the tracing service sent an unknown command");
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
	response = unpack(p, &pb__get_async_command_response__descriptor, reply->reply_proto.data,
			  reply->reply_proto.len);
	if (response)
		command(p, response);
	else
		log_verbose("the tracing service sent a command that cannot be decoded");
}

/* Each id has one answer. */
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
		return; /* a stream that was never requested */
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

static void dispatch(struct producer *p, const Pb__IPCFrame *frame)
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

/* ---- where the service is ---- */

enum {
	FIRST_WAIT_MS = 200,
	LAST_WAIT_MS = 30000,
	READS = 8, /* of at most 128 KiB, then the loop serves its other sources */
};

#define RUN_FOLDER "/run/perfetto/"
#define RUN_SOCKET RUN_FOLDER "traced-producer.sock"
#define TMP_SOCKET "/tmp/perfetto-producer"

const char *producer_socket_name(bool privileged)
{
	const char *name = getenv("PERFETTO_PRODUCER_SOCK_NAME");

	if (name && *name)
		return name;
	/* The path of distributions; else the one of a service that was started by hand. */
	return privileged || access(RUN_FOLDER, X_OK) == 0 ? RUN_SOCKET : TMP_SOCKET;
}

uint32_t producer_backoff_ms(uint32_t last_ms)
{
	return !last_ms ? FIRST_WAIT_MS : (uint32_t)min_u64(last_ms * 2ull, LAST_WAIT_MS);
}

/* -EAFNOSUPPORT: TCP and vsock, over which no memory can be shared. */
static int check_name(const char *name)
{
	const char *colon = strrchr(name, ':');
	uint64_t port;

	if (!strncmp(name, "vsock://", 8))
		return fail(-EAFNOSUPPORT);
	if (name[0] != '@' && colon && parse_u64(colon + 1, 10, UINT16_MAX, &port) == 0)
		return fail(-EAFNOSUPPORT);
	return *name ? 0 : fail(-ENOENT);
}

/* ---- lost and tried again ---- */

static void try_later(struct producer *p)
{
	p->wait_ms = producer_backoff_ms(p->wait_ms);
	(void)loop_timer_set(&p->retry, p->wait_ms * NSEC_PER_MSEC, 0);
}

static void lose(struct producer *p)
{
	if (p->refused)
		log_error("the connection to the tracing service was closed: %s", p->refused);
	else
		log_print(p->reported ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL,
			  "the tracing service has closed the connection; waiting for it");
	p->reported = true;
	loop_remove(p->loop, &p->source);
	frame_stream_deinit(&p->stream);
	p->state = PRODUCER_WAITING;
	p->refused = NULL;
	p->writable_wanted = p->commit_again = false;
	p->service_id = 0;
	memset(p->methods, 0, sizeof(p->methods));
	p->last_request = p->bind = p->initialize = p->command = p->sync = p->commit = 0;
	memset(p->registering, 0, sizeof(p->registering));
	p->events->lost(p->arg);
	try_later(p);
}

void producer_refuse(struct producer *p, const char *why)
{
	if (p->state == PRODUCER_WAITING || p->refused)
		return;
	p->refused = why;
	/* The loop then calls ready(), and that lose(). */
	(void)shutdown(p->stream.fd, SHUT_RDWR);
}

/* false: the connection ends. */
static bool take_frames(struct producer *p)
{
	const uint8_t *data;
	size_t len;
	int r;

	while ((r = frame_next(&p->stream, &data, &len)) == 0) {
		_cleanup_(message_freep) Pb__IPCFrame *frame =
			unpack(p, &pb__ipcframe__descriptor, data, len);

		if (frame)
			dispatch(p, frame);
		if (p->refused)
			return false;
	}
	if (r == -EMSGSIZE)
		p->refused = "it sent a frame that is too large";
	return r >= 0;
}

static bool take_input(struct producer *p)
{
	for (int i = 0; i < READS; i++) {
		int r = frame_receive(&p->stream);

		if (r == FRAME_NONE)
			return true;
		if (r == -EBADMSG)
			p->refused = "it sent more descriptors than a frame may have";
		if (r != 0 || !take_frames(p))
			return false;
	}
	return true;
}

static int ready(struct loop_source *source, uint32_t events)
{
	struct producer *p = container_of(source, struct producer, source);
	bool stays = true;

	if (events & EPOLLOUT) {
		int r = frame_send(&p->stream);

		stays = r >= 0;
		if (r == 0) {
			p->writable_wanted = false;
			(void)loop_change(p->loop, source, EPOLLIN);
		}
	}
	/* Frames that the service sent before it closed are still read. */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		stays = take_input(p) && stays;
	if (!stays || p->refused)
		lose(p);
	return 0;
}

/* ---- connecting ---- */

int producer_connect(const char *name, int *ret_fd)
{
	int r = check_name(name);

	/* A local socket connects at once or not at all: EAGAIN is a full backlog. */
	return r < 0 ? trace(r) : trace(unix_connect(name, SOCK_NONBLOCK, 0, NULL, ret_fd));
}

/* The credentials of a connected socket are the listener's at its listen(2) (net/unix/af_unix.c,
 * copy_peercred()).  A check of the path's owner instead would leave time to exchange the socket. */
static int check_listener(const struct producer *p, int fd, uint32_t *ret_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return fail(-errno);
	*ret_uid = cred.uid;
	return p->events->trusts(p->arg, cred.uid) ? 0 : fail(-EACCES);
}

static void report_distrust(struct producer *p, const char *name, uint32_t uid)
{
	log_print(p->distrusted == uid ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL,
		  "the tracing service at %s is refused: user %u runs it; trusted are root, the "
		  "daemon's own user and traced-service-users; to trust user %u: "
		  "traced-service-users = %u in /etc/perfwind.conf, then systemctl reload perfwind",
		  name, uid, uid, uid);
	p->distrusted = uid;
}

/* A service without the folder listens in /tmp, where any user may. */
static bool is_elsewhere(const struct producer *p, const char *name)
{
	return p->options.privileged && !strcmp(name, RUN_SOCKET) && access(RUN_FOLDER, F_OK) < 0;
}

static void report_absence(struct producer *p, const char *name, int r)
{
	/* Once; each try with -v. */
	log_print(p->reported ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL,
		  "no tracing service at %s (%s)%s%s", name,
		  r == -EAFNOSUPPORT ? "memory can only be shared over a local socket"
				     : strerror(-r),
		  p->reported ? "" : "; waiting for it",
		  p->reported || !is_elsewhere(p, name)
			  ? ""
			  : " (hint: sudo mkdir -m 755 " RUN_FOLDER
			    ", then start traced again as root; or --socket " TMP_SOCKET ")");
	p->reported = true;
}

static int try_now(struct loop_timer *timer)
{
	struct producer *p = container_of(timer, struct producer, retry);
	const char *name =
		p->options.socket ? p->options.socket : producer_socket_name(p->options.privileged);
	_cleanup_(fd_closep) int fd = -1;
	uint32_t uid = UINT32_MAX;
	int r = producer_connect(name, &fd);

	if (r >= 0)
		r = check_listener(p, fd, &uid);
	if (r >= 0)
		r = frame_stream_init(&p->stream, take_fd(fd));
	if (r >= 0)
		r = loop_add(p->loop, &p->source, p->stream.fd, EPOLLIN, ready);
	if (r < 0) {
		frame_stream_deinit(&p->stream);
		if (r == -EACCES && uid != UINT32_MAX)
			report_distrust(p, name, uid);
		else
			report_absence(p, name, r);
		try_later(p);
		return 0;
	}
	p->distrusted = UINT32_MAX;
	p->state = PRODUCER_BINDING;
	bind_service(p);
	return 0;
}

int producer_new(const struct producer_options *options, const struct producer_events *events,
		 void *arg, struct loop *loop, struct producer **ret_producer)
{
	struct producer *p;
	int r;

	if (options->n_sources > PRODUCER_SOURCES_MAX)
		return fail(-EINVAL);
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM);
	*p = (struct producer){
		.options = *options,
		.events = events,
		.arg = arg,
		.loop = loop,
		.stream = {.fd = -1, .slot_fd = -1},
		.source.fd = -1,
		.retry.source.fd = -1,
		.distrusted = UINT32_MAX,
	};
	r = loop_timer_add(loop, &p->retry, 1, 0, try_now);
	if (r < 0) {
		(void)producer_free(p);
		return trace(r);
	}
	*ret_producer = p;
	return 0;
}

struct producer *producer_free(struct producer *p)
{
	if (!p)
		return NULL;
	loop_timer_remove(p->loop, &p->retry);
	loop_remove(p->loop, &p->source);
	frame_stream_deinit(&p->stream);
	free(p);
	return NULL;
}

bool producer_connected(const struct producer *p)
{
	return p->state != PRODUCER_WAITING;
}

void producer_set_hints(struct producer *p, uint32_t page_bytes, uint32_t bytes)
{
	p->options.shmem_page_bytes = page_bytes;
	p->options.shmem_bytes = bytes;
	if (p->state != PRODUCER_WAITING)
		return;
	p->wait_ms = 0;
	(void)loop_timer_set(&p->retry, 1, 0);
}
