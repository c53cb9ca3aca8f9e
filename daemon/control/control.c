/* control.c - see control.h: the clients, the listening socket, the tick.
 *
 * Messages go over the connection of a client, packets over a socket pair that the daemon makes for each
 * recording: one end stays here, the client gets the other one.  Our end is shut for reading before the client
 * has its own, so nothing ever lies in its queue: neither bytes nor descriptors on which close() may hang.  Its send
 * buffer bounds the packets in the kernel; no other process holds this end, so no other process can change that.
 *
 *   the session's sink ──► output ──► the client's end of the pair
 *   notes, summaries ────► stream ──► the connection
 *
 * Packets that the client has not read wait in memory, up to a bound.  Beyond it a recording loses packets,
 * and a reader cannot decode what follows until the incremental state is written again: so all packets are
 * dropped until half of the room is free, and the first packet of the new state has the mark of a loss before
 * it.  A trace session's packets are already cut out of its buffers and cannot be written again: there the
 * bound is the end of the recording.
 *
 * EPOLLHUP reports a connection that is gone: a sink that cannot send returns an error to its session.
 * A client is freed by its own event, by the tick, or with the socket, never inside a call of its session. */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/closer.h"
#include "base/error.h"
#include "base/peer.h"
#include "daemon/control/control.h"
#include "daemon/control/control-summary.h"
#include "daemon/control/recording.h"
#include "daemon/control/standing.h"

static const char output_is_closed[] = "the client has closed its end of the packets";

enum {
	MAX_ACCEPTS = 64,
	SEND_AT = 64 << 10, /* bytes gathered before a system call */
	CONTROL_TICK_MS = 250,
	CONTROL_ERROR = 512,
	CONTROL_TEXT_MAX =
		64 << 10, /* messages that wait for the client; notes beyond are dropped */
	/* Packets in the kernel that the client has not read, by what they cost there.  The kernel doubles
	 * the value. */
	CONTROL_OUTPUT_ROOM = 128 << 10,
};

enum client_state { CLIENT_ASKING, CLIENT_RUNNING, CLIENT_SNAPSHOT, CLIENT_LEAVING };

struct client {
	struct control *control;
	struct client *next;
	struct loop_source source;
	struct loop_source process; /* its pidfd: readable when the process has ended */
	struct control_stream stream;
	bool watches_out;
	struct requester requester; /* as of connect(2) */
	enum client_state state;
	Pb__ControlRequest
		*waiting;     /* a request that waits for its turn: the connection is not read */
	uint64_t deadline;    /* CLOCK_MONOTONIC, ms; ASKING, SNAPSHOT, LEAVING */
	uint64_t progress_at; /* the same: PROGRESS was sent */

	struct recording recording;
	bool renews;	     /* RENEW is not answered yet */
	bool renew_waits;    /* and its work has not begun: it came too early */
	uint64_t renew_from; /* CLOCK_MONOTONIC, ms */

	struct control_stream
		output; /* for the packets; fd -1: none, or the client has closed its end */
	struct loop_source output_source;
	bool output_watches_out;
	uint64_t streamed; /* bytes sent there or queued */
	struct sink sink;
	bool lost;     /* packets: all that follow, until incremental state is written again */
	bool renewing; /* the session was asked to do that */
};

struct control {
	struct control_options options;
	struct recordings recordings;
	struct standing *standing; /* NULL: none */
	struct loop *loop;
	struct loop_source listener;
	struct closer closer;
	bool paused; /* no descriptor for the next connection: until the tick */
	struct loop_timer tick;
	struct client *clients;
	size_t n_clients;
	uint64_t stop_by; /* CLOCK_MONOTONIC, ms; 0: not stopping */
	bool stopped;
	struct control_counts counts;
};

static inline uint64_t control_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / NSEC_PER_MSEC;
}

static void client_free(struct client *c);
static void client_stop(struct client *c);
static int client_send(struct client *c);

/* ---- the packets' socket ---- */

static void client_output_close(struct client *c)
{
	loop_remove(c->control->loop, &c->output_source);
	control_stream_deinit(&c->output);
}

static bool has_sent_all(const struct client *c)
{
	return !control_waiting(&c->stream) && !control_waiting(&c->output);
}

static int output_ready(struct loop_source *source, uint32_t events)
{
	struct client *c = container_of(source, struct client, output_source);
	int r;

	if (events & (EPOLLHUP | EPOLLERR)) {
		log_verbose("control socket: user %u has closed its end of the packets",
			    c->requester.ids.uid);
		client_output_close(c);
		client_stop(c);
	}
	r = client_send(c);
	if (r < 0 || (c->state == CLIENT_LEAVING && has_sent_all(c)))
		client_free(c);
	return 0;
}

/* The client's end goes with the next byte that is sent over the connection. */
static int client_output_open(struct client *c)
{
	const int room = CONTROL_OUTPUT_ROOM;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(-errno);
	control_stream_init(&c->output, pair[0], 0);
	r = control_carry(&c->stream, pair[1]);
	if (r >= 0 && (shutdown(pair[0], SHUT_RD) < 0 ||
		       setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0))
		r = -errno;
	if (r >= 0)
		r = loop_add(c->control->loop, &c->output_source, pair[0], 0, output_ready);
	return r < 0 ? trace(r) : 0;
}

/* Bytes of packets that the daemon and the kernel keep for it. */
static uint64_t held(void *client)
{
	struct client *c = client;
	int unread = 0;

	if (c->output.fd >= 0 && ioctl(c->output.fd, SIOCOUTQ, &unread) < 0)
		unread = 2 * CONTROL_OUTPUT_ROOM;
	return control_waiting(&c->stream) + control_waiting(&c->output) + (uint64_t)unread;
}

/* ---- sending ---- */

static void watch(struct client *c, struct loop_source *source, bool *watches, bool pending,
		  uint32_t always)
{
	if (pending == *watches)
		return;
	*watches = pending;
	(void)loop_change(c->control->loop, source, always | (pending ? EPOLLOUT : 0));
}

/* Sends what the sockets take and watches for room.  < 0: the connection is gone. */
static int client_send(struct client *c)
{
	int r = control_send(&c->stream);

	if (r < 0)
		return trace(r);
	watch(c, &c->source, &c->watches_out, r == CONTROL_PENDING, EPOLLIN);
	if (c->output.fd < 0)
		return 0;
	r = control_send(&c->output);
	if (r < 0) {
		client_output_close(c); /* the next write to the sink fails */
		return 0;
	}
	watch(c, &c->output_source, &c->output_watches_out, r == CONTROL_PENDING, 0);
	if (c->lost && !c->renewing && control_waiting(&c->output) <= c->recording.max_waiting / 2)
		c->renewing = c->sink.renew = true;
	return 0;
}

/* Bytes that are not a message. */
static int queue_bytes(struct control_stream *s, const void *data, size_t len)
{
	buffer_append(&s->out, data, len);
	return s->out.bad ? fail(-ENOMEM) : 0;
}

static int queue_packets(struct client *c, const void *data, size_t len)
{
	int r = queue_bytes(&c->output, data, len);

	if (r < 0)
		return trace(r);
	c->streamed += len;
	return 0;
}

static int write_first(struct client *c, const void *data, size_t len)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	control_packets_mark_loss(&b, data, len);
	return b.bad ? fail(-ENOMEM) : queue_packets(c, b.data, b.len);
}

static int sink_write(struct sink *sink, const void *data, size_t len)
{
	struct client *c = container_of(sink, struct client, sink);
	bool fits = control_waiting(&c->output) + len <= c->recording.max_waiting;
	bool first = c->lost && c->renewing && !sink->renew;
	int r;

	sink->bytes += len;
	if (c->output.fd < 0)
		return fail(-EPIPE);
	if (!fits && c->recording.trace)
		return fail(-ENOBUFS);
	if (!fits || (c->lost && !first)) {
		/* A new state that finds no room is requested again. */
		c->lost = true;
		c->renewing = c->renewing && sink->renew;
		sink->dropped += control_packets_count(data, len);
		return 0;
	}
	c->lost = c->renewing = false;
	r = first ? write_first(c, data, len) : queue_packets(c, data, len);
	if (r >= 0 && control_waiting(&c->output) >= SEND_AT && !c->output_watches_out)
		r = client_send(c);
	return r < 0 ? trace(r) : 0;
}

static int sink_flush(struct sink *sink)
{
	struct client *c = container_of(sink, struct client, sink);
	int r = client_send(c);

	if (r >= 0 && c->output.fd < 0)
		r = -EPIPE;
	return r < 0 ? trace(r) : 0;
}

static void client_sink_init(struct client *c)
{
	c->sink = (struct sink){.write = sink_write, .flush = sink_flush};
}

static int queue_summary(struct client *c, enum control_type type)
{
	_cleanup_(freep) struct session_summary *s = NULL;
	struct trace_session_summary trace;

	if (c->recording.trace) {
		trace_session_summary(c->recording.trace, &trace);
		return control_summary_send_trace(&c->stream, type, &trace, c->streamed);
	}
	s = malloc(sizeof(*s));
	if (!s)
		return fail(-ENOMEM);
	(void)session_summary(c->recording.session, s);
	return control_summary_send(&c->stream, type, s, c->sink.dropped, c->streamed);
}

/* ---- the end ---- */

static void close_pidfd(struct client *c)
{
	int fd = c->process.fd;

	loop_remove(c->control->loop, &c->process);
	(void)fd_close(fd);
}

static void drop_waiting(struct client *c)
{
	if (c->waiting)
		pb__control_request__free_unpacked(c->waiting, NULL);
	c->waiting = NULL;
}

static void client_free(struct client *c)
{
	struct control *ctl = c->control;

	for (struct client **at = &ctl->clients; *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			break;
		}
	}
	ctl->n_clients--;
	if (c->state == CLIENT_SNAPSHOT) {
		/* pw-snapshot has a copy of our end, and may wait for the client. */
		(void)shutdown(c->output.fd, SHUT_RDWR);
		standing_forget(ctl->standing, c);
	}
	recording_close(&c->recording);
	drop_waiting(c);
	client_output_close(c);
	loop_remove(ctl->loop, &c->source);
	close_pidfd(c);
	control_stream_deinit(&c->stream);
	policy_requester_deinit(&c->requester.ids);
	free(c);
	if (!ctl->n_clients && !ctl->stop_by)
		(void)loop_timer_set(&ctl->tick, 0, 0);
}

/* It has broken the protocol. */
static void refuse(struct client *c, const char *why)
{
	c->control->counts.refused++;
	log_verbose("control socket: user %u (process %u) %s", c->requester.ids.uid,
		    c->requester.ids.pid, why);
	client_free(c);
}

/* Its last messages are queued.  It may be gone after this. */
static void leave(struct client *c)
{
	int r;

	recording_close(&c->recording);
	drop_waiting(c);
	c->state = CLIENT_LEAVING;
	c->deadline = control_now_ms() + CONTROL_LEAVE_MS;
	r = client_send(c);
	if (r < 0 || has_sent_all(c))
		client_free(c);
}

/* The same. */
static void deny(struct client *c, const char *why)
{
	c->control->counts.denied++;
	log_verbose("control socket: user %u: denied: %s", c->requester.ids.uid, why);
	(void)control_queue(&c->stream, CONTROL_DENIED, why, strlen(why));
	leave(c);
}

/* From within the session, also while it is made: only queued. */
static void noted(void *client, const char *brief, const char *line)
{
	struct client *c = client;

	(void)brief;

	log_verbose("control socket: note for user %u: %s", c->requester.ids.uid, line);
	if (control_waiting(&c->stream) > CONTROL_TEXT_MAX)
		return; /* the client does not read, and the trace has the note */
	(void)control_queue(&c->stream, CONTROL_NOTE, line, strlen(line));
}

/* All is recorded: from the session's callback, or from the tick for a trace session. */
static void recorded(void *client)
{
	struct client *c = client;
	const char *why = "";
	int r = 0, error;

	error = c->recording.session ? session_error(c->recording.session, &why)
				     : trace_session_error(c->recording.trace, &why);
	if (c->output.fd < 0) {
		error = -EPIPE;
		why = output_is_closed;
	}
	if (error < 0)
		r = control_queue(&c->stream, CONTROL_FAILED, why, strlen(why));
	if (r >= 0)
		r = queue_summary(c, CONTROL_DONE);
	if (r < 0)
		client_free(c);
	else
		leave(c);
}

/* Ends its recording; DONE follows. */
static void client_stop(struct client *c)
{
	if (c->recording.session)
		session_stop(c->recording.session);
	if (c->recording.trace)
		trace_session_stop(c->recording.trace);
}

/* ---- RENEW ---- */

static void renewed(void *client)
{
	struct client *c = client;
	struct session *s = c->recording.session;
	int r;

	c->renews = false;
	c->renew_from = control_now_ms() + CONTROL_RENEW_MS;
	if (session_state(s) != SESSION_RUNNING)
		return; /* DONE follows, with everything */
	r = queue_summary(c, CONTROL_RENEWED);
	if (r >= 0)
		r = session_clear_incremental_state(s);
	if (r >= 0)
		r = client_send(c);
	if (r < 0)
		client_free(c);
}

/* false: @c is gone. */
static bool begin_renewal(struct client *c)
{
	c->renew_waits = false;
	if (session_flush(c->recording.session, renewed, c) >= 0)
		return true;
	client_free(c);
	return false;
}

/* All incremental state is written again, which costs time and bytes: not as often as a client likes, nor
 * before it has read the messages so far. */
static bool may_renew(const struct client *c)
{
	return control_now_ms() >= c->renew_from && !control_waiting(&c->stream);
}

/* false: @c is gone. */
static bool renew(struct client *c)
{
	if (c->renews || c->recording.trace) {
		refuse(c, "sent a message out of turn");
		return false;
	}
	if (c->state != CLIENT_RUNNING)
		return true; /* it may cross DONE */
	c->renews = c->renew_waits = true;
	return !may_renew(c) || begin_renewal(c); /* else the tick begins it */
}

/* ---- TRIGGER ---- */

/* false: @c is gone. */
static bool take_trigger(struct client *c, const uint8_t *data, size_t len)
{
	int verdict;
	uint8_t answer;

	if (c->state != CLIENT_RUNNING)
		return true; /* it may cross DONE */
	verdict = control_waiting(&c->stream) > CONTROL_TEXT_MAX
			  ? -EMSGSIZE
			  : recording_trigger(&c->recording, data, len);
	if (verdict < 0) {
		refuse(c, verdict == -EMSGSIZE ? "sends triggers faster than it reads"
					       : "sent a message out of turn");
		return false;
	}
	answer = (uint8_t)verdict;
	if (control_queue(&c->stream, CONTROL_TRIGGERED, &answer, 1) >= 0 && client_send(c) >= 0)
		return true;
	client_free(c);
	return false;
}

/* ---- REQUEST ---- */

static int start_recording(struct client *c)
{
	const struct recording *rec = &c->recording;
	const char *event = rec->session ? rec->specs[0].name : "";
	int r = control_queue(&c->stream, CONTROL_ACCEPTED, event, strlen(event));

	if (r >= 0)
		r = recording_start(&c->recording);
	if (r < 0)
		return trace(r);
	c->control->counts.accepted++;
	c->state = CLIENT_RUNNING;
	log_verbose("control socket: user %u records", c->requester.ids.uid);
	return 0;
}

/* Consumes @request.  false: @c records nothing, and may be gone. */
static bool open_request(struct client *c, Pb__ControlRequest *request)
{
	char error[CONTROL_ERROR] = "";
	int r = client_output_open(c);
	bool opened = r >= 0;

	if (r >= 0)
		r = recording_open(&c->recording, take(request), error, sizeof(error));
	if (r < 0)
		(void)control_carry(&c->stream, -1);
	else
		r = start_recording(c);
	if (r >= 0) {
		r = client_send(c); /* ACCEPTED: a command waits for it */
		if (r < 0)
			client_free(c);
		return r >= 0;
	}
	if (request)
		pb__control_request__free_unpacked(request, NULL);
	if (opened && c->output.fd < 0)
		(void)snprintf(error, sizeof(error), "%s", output_is_closed);
	else if (!*error)
		(void)snprintf(error, sizeof(error), "cannot record: %s", strerror(-r));
	/* Behind ACCEPTED, where the session could be opened and not be started. */
	deny(c, error);
	return false;
}

static void deny_version(struct client *c, const char *what, uint32_t version)
{
	char why[CONTROL_ERROR];

	(void)snprintf(
		why, sizeof(why),
		"the request %s %u, and this daemon (perfwind %s) has version %d: install the "
		"same version of both, and restart the daemon",
		what, version, PERFWIND_VERSION, CONTROL_VERSION);
	deny(c, why);
}

/* false: @c records nothing yet, and may be gone. */
static bool take_request(struct client *c, const void *data, size_t len)
{
	Pb__ControlRequest *request = control_request_unpack(data, len);

	if (!request) {
		refuse(c, "sent a request that cannot be decoded");
		return false;
	}
	if (request->version != CONTROL_VERSION) {
		deny_version(c, "is of version", request->version);
		pb__control_request__free_unpacked(request, NULL);
		return false;
	}
	if (recording_may_open(&c->recording))
		return open_request(c, request);
	c->waiting = request;
	c->deadline = control_now_ms() + CONTROL_TURN_MS;
	(void)loop_change(c->control->loop, &c->source, 0); /* EPOLLHUP is reported all the same */
	return false;
}

/* ---- SNAPSHOT ---- */

static void snapped(void *client, const struct recorder_result *result)
{
	const struct control_snapped message = {
		.error = result->error,
		.samples = result->written.samples,
		.bytes = result->bytes,
	};
	struct client *c = client;
	int r = control_queue(&c->stream, CONTROL_SNAPPED, &message, sizeof(message));

	client_output_close(c); /* the client reads its end */
	c->state = CLIENT_LEAVING;
	if (r < 0)
		client_free(c);
	else
		leave(c);
}

static const char *snapshot_denied(const struct client *c)
{
	const struct control *ctl = c->control;

	if (!c->requester.trusted ||
	    (*c->requester.confined && !ctl->recordings.settings.confined_requesters))
		return "a snapshot shows all processes: you may not record everything (all-groups "
		       "in "
		       "/etc/perfwind.conf)";
	return ctl->standing ? NULL
			     : "the daemon has no flight recorder: see recorder-size in "
			       "/etc/perfwind.conf";
}

static void take_snapshot(struct client *c, const uint8_t *data, size_t len)
{
	struct cursor cursor = cursor_of(data, len);
	uint64_t last_ns = cursor_u64(&cursor);
	const char *why = snapshot_denied(c);
	int r = 0;

	if (cursor.bad || cursor_left(&cursor)) {
		refuse(c, "sent a request that cannot be decoded");
		return;
	}
	if (!why) {
		r = client_output_open(c);
		if (r >= 0)
			r = control_queue(&c->stream, CONTROL_ACCEPTED, "", 0);
		if (r >= 0)
			r = client_send(c);
		if (r >= 0)
			r = standing_snapshot(c->control->standing, c->output.fd, last_ns, snapped,
					      c);
		why = r == -EBUSY ? "another snapshot is in progress: try again" : strerror(-r);
	}
	if (why && (r < 0 || c->output.fd < 0)) {
		(void)control_carry(&c->stream, -1);
		deny(c, why);
		return;
	}
	c->control->counts.accepted++;
	c->state = CLIENT_SNAPSHOT;
	c->deadline = control_now_ms() + CONTROL_SNAPSHOT_MS;
}

/* ---- messages ---- */

/* false: there was none, or @c may be gone. */
static bool take_message(struct client *c)
{
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r = control_next(&c->stream, &type, &data, &len);

	if (r == CONTROL_NONE)
		return false;
	if (r < 0) {
		refuse(c, "sent a message that is too long");
		return false;
	}
	if (type == CONTROL_REQUEST && c->state == CLIENT_ASKING)
		return take_request(c, data, len);
	if (type == CONTROL_SNAPSHOT && c->state == CLIENT_ASKING) {
		take_snapshot(c, data, len);
		return false;
	}
	if (type == CONTROL_RENEW && c->state != CLIENT_ASKING)
		return renew(c);
	if (type == CONTROL_TRIGGER && c->state != CLIENT_ASKING)
		return take_trigger(c, data, len);
	if (type == CONTROL_STOP && c->state != CLIENT_ASKING) {
		client_stop(c); /* it may cross DONE */
		return true;
	}
	refuse(c, "sent a message out of turn");
	return false;
}

static void take_messages(struct client *c)
{
	while (take_message(c))
		;
}

/* @c may be gone after it. */
static void receive(struct client *c)
{
	int r = control_receive(&c->stream);

	/* The descriptors stay where they are: pw-close gets the connection. */
	if (r == -EBADMSG && c->state == CLIENT_ASKING && !c->stream.in.len)
		deny_version(c, "has a descriptor, as in version", 2);
	else if (r == -EBADMSG || r == -EMSGSIZE)
		refuse(c, r == -EBADMSG ? "sent descriptors" : "sends faster than it may");
	else if (r == CONTROL_CLOSED && c->state == CLIENT_ASKING && c->stream.in.len)
		refuse(c, "left before the end of its request");
	else if (r < 0 || r == CONTROL_CLOSED)
		client_free(c);
	else
		take_messages(c);
}

static int client_ready(struct loop_source *source, uint32_t events)
{
	struct client *c = container_of(source, struct client, source);
	int r = 0;

	if (events & EPOLLOUT) {
		r = client_send(c);
		if (r >= 0 && c->state == CLIENT_LEAVING && has_sent_all(c))
			r = -EPIPE;
	}
	if (r < 0 || c->waiting) /* its end, while the connection is not read */
		client_free(c);
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
	return 0;
}

/* ---- the beginning ---- */

static bool has_place(const struct client *c)
{
	size_t reserved = c->requester.trusted ? 0 : CONTROL_RESERVED_CLIENTS, n = 0;

	for (const struct client *o = c->control->clients; o; o = o->next)
		n += o->requester.person == c->requester.person;
	return n < CONTROL_USER_CLIENTS && c->control->n_clients < CONTROL_CLIENTS - reserved;
}

static int process_ended(struct loop_source *source, uint32_t events)
{
	(void)events;
	client_free(container_of(source, struct client, process));
	return 0;
}

/* The connection may outlive the process that made it, in the queue of another socket. */
static int watch_process(struct client *c)
{
	const struct features *f = &c->control->options.features;
	int pidfd = peer_pidfd(c->stream.fd, f->has[FEATURE_PEER_PIDFD], c->requester.ids.pid), r;

	if (pidfd == -EINVAL) /* of another pid namespace */
		return 0;
	r = pidfd < 0 ? pidfd
		      : loop_add(c->control->loop, &c->process, pidfd, EPOLLIN, process_ended);
	if (r < 0 && pidfd >= 0)
		(void)fd_close(pidfd);
	return r < 0 ? trace(r) : 0;
}

/* As of connect(2).  As long as the process that the pidfd refers to runs, its pid is not reused. */
static void check_confinement(struct client *c)
{
	struct pollfd process = {.fd = c->process.fd, .events = POLLIN};
	struct requester *from = &c->requester;

	if (!policy_confined("", c->stream.fd, from->ids.pid, from->confined,
			     sizeof(from->confined)) &&
	    process.fd >= 0 && poll(&process, 1, 0) != 0)
		(void)snprintf(from->confined, sizeof(from->confined), "process %u has ended",
			       from->ids.pid);
}

/* Consumes @fd, also on failure.  -EUSERS: too many connections. */
static int client_new(struct control *ctl, int fd)
{
	struct client *c = calloc(1, sizeof(*c));
	struct requester *from;
	int r;

	if (!c) {
		closer_close(&ctl->closer, fd);
		return fail(-ENOMEM);
	}
	from = &c->requester;
	c->control = ctl;
	control_stream_init(&c->stream, fd, CONTROL_REQUEST_MAX);
	c->stream.closer = &ctl->closer;
	control_stream_init(&c->output, -1, 0);
	c->output_source.fd = c->process.fd = -1;
	c->deadline = control_now_ms() + CONTROL_ASK_MS;
	client_sink_init(c);
	c->recording = (struct recording){.all = &ctl->recordings,
					  .requester = from,
					  .sink = &c->sink,
					  .noted = noted,
					  .done = recorded,
					  .holds = held,
					  .owner = c};
	r = policy_requester_of(fd, &from->ids);
	from->person = policy_person(&ctl->recordings.policy, from->ids.uid);
	from->trusted = r >= 0 && policy_scope(&ctl->recordings.policy, &from->ids) == POLICY_ALL;
	if (r >= 0 && !has_place(c))
		r = -EUSERS;
	if (r >= 0)
		r = watch_process(c);
	if (r >= 0)
		check_confinement(c);
	if (r >= 0)
		r = loop_add(ctl->loop, &c->source, fd, EPOLLIN, client_ready);
	if (r < 0) {
		close_pidfd(c);
		control_stream_deinit(&c->stream);
		policy_requester_deinit(&from->ids);
		free(c);
		return fail(r);
	}
	c->next = ctl->clients;
	ctl->clients = c;
	if (!ctl->n_clients++)
		(void)loop_timer_set(&ctl->tick, CONTROL_TICK_MS * NSEC_PER_MSEC,
				     CONTROL_TICK_MS * NSEC_PER_MSEC);
	return 0;
}

/* ---- time ---- */

/* @c may be gone after it. */
static void tick_asking(struct client *c, uint64_t now)
{
	if (c->waiting && recording_may_open(&c->recording)) {
		(void)loop_change(c->control->loop, &c->source, EPOLLIN);
		if (open_request(c, take(c->waiting)))
			take_messages(c);
	} else if (now >= c->deadline && c->waiting) {
		deny(c, "your recordings keep the daemon from serving others: try again later");
	} else if (now >= c->deadline) {
		refuse(c, "did not send its request in time");
	}
}

/* The same. */
static void tick_leaving(struct client *c, uint64_t now)
{
	int r = client_send(c);

	if (r < 0 || now >= c->deadline || has_sent_all(c))
		client_free(c);
}

static int send_progress(struct client *c, uint64_t now)
{
	int r = client_send(c); /* what was gathered; what waits after that is not read */

	if (r < 0)
		return trace(r);
	if (now - c->progress_at < 2 * CONTROL_TICK_MS || control_waiting(&c->stream))
		return 0;
	c->progress_at = now;
	r = queue_summary(c, CONTROL_PROGRESS);
	if (r >= 0)
		r = client_send(c);
	return r < 0 ? trace(r) : 0;
}

static void tick_running(struct client *c, uint64_t now)
{
	struct recording *rec = &c->recording;

	if (rec->trace && trace_session_state(rec->trace) == TRACE_DONE) {
		recorded(c);
		return;
	}
	if (c->renew_waits && may_renew(c) && !begin_renewal(c))
		return;
	if (rec->session && rec->request->n_pids && session_targets_gone(rec->session))
		session_stop(rec->session);
	if (send_progress(c, now) < 0)
		client_free(c);
}

/* @c may be gone after it. */
static void client_tick(struct client *c, uint64_t now)
{
	if (c->state == CLIENT_ASKING)
		tick_asking(c, now);
	else if (c->state == CLIENT_LEAVING)
		tick_leaving(c, now);
	else if (c->state == CLIENT_SNAPSHOT && now < c->deadline)
		(void)client_send(c);
	else if (c->state == CLIENT_SNAPSHOT)
		client_free(c);
	else
		tick_running(c, now);
}

/* ---- the listening socket ---- */

static int listener_ready(struct loop_source *source, uint32_t events)
{
	struct control *ctl = container_of(source, struct control, listener);

	(void)events;
	for (int i = 0; i < MAX_ACCEPTS; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && is_shortage(-errno)) {
			/* The listener would stay ready, and the loop would spin. */
			ctl->paused = true;
			(void)loop_change(ctl->loop, source, 0);
			(void)loop_timer_set(&ctl->tick, CONTROL_TICK_MS * NSEC_PER_MSEC,
					     CONTROL_TICK_MS * NSEC_PER_MSEC);
		}
		if (fd < 0)
			return 0;
		(void)client_new(ctl, fd);
	}
	return 0;
}

/* ---- time ---- */

static int tick(struct loop_timer *timer)
{
	struct control *ctl = container_of(timer, struct control, tick);
	uint64_t now = control_now_ms();
	struct client *next;

	if (ctl->paused) {
		ctl->paused = false;
		(void)loop_change(ctl->loop, &ctl->listener, EPOLLIN);
	}
	for (struct client *c = ctl->clients; c; c = next) {
		next = c->next;
		client_tick(c, now);
	}
	if (ctl->stop_by && (!ctl->n_clients || now > ctl->stop_by) && !ctl->stopped) {
		ctl->stopped = true;
		if (ctl->options.stopped)
			ctl->options.stopped(ctl->options.arg);
	}
	return 0;
}

void control_stop(struct control *ctl)
{
	struct client *next;

	if (ctl->stop_by)
		return;
	ctl->stop_by = control_now_ms() + CONTROL_STOP_MS;
	loop_remove(ctl->loop, &ctl->listener);
	ctl->paused = false;
	for (struct client *c = ctl->clients; c; c = next) {
		next = c->next;
		if (c->state == CLIENT_ASKING)
			client_free(c);
		else
			client_stop(c);
	}
	(void)loop_timer_set(&ctl->tick, 1, CONTROL_TICK_MS * NSEC_PER_MSEC);
}

/* ---- beginning and end ---- */

int control_new(const struct control_options *options, struct loop *loop,
		struct control **ret_control)
{
	struct control *ctl = calloc(1, sizeof(*ctl));
	int r;

	if (!ctl) {
		(void)fd_close(options->fd);
		return fail(-ENOMEM);
	}
	ctl->options = *options;
	ctl->loop = loop;
	closer_init(&ctl->closer);
	ctl->listener.fd = ctl->tick.source.fd = -1;
	ctl->recordings = (struct recordings){
		.features = options->features, .shared = options->shared, .loop = loop};
	control_set_settings(ctl, &options->settings);
	r = loop_timer_add(loop, &ctl->tick, 0, 0, tick);
	if (r >= 0)
		r = loop_add(loop, &ctl->listener, options->fd, EPOLLIN, listener_ready);
	if (r < 0) {
		(void)control_free(ctl);
		return trace(r);
	}
	ctl->standing = standing_start(&ctl->recordings.settings, &options->features,
				       options->shared, loop);
	*ret_control = ctl;
	return 0;
}

struct control *control_free(struct control *ctl)
{
	if (!ctl)
		return NULL;
	while (ctl->clients)
		client_free(ctl->clients);
	ctl->standing = standing_free(ctl->standing);
	loop_remove(ctl->loop, &ctl->listener);
	closer_pass(&ctl->closer, ctl->options.fd);
	closer_deinit(&ctl->closer);
	loop_timer_remove(ctl->loop, &ctl->tick);
	free(ctl);
	return NULL;
}

void control_set_settings(struct control *ctl, const struct settings *settings)
{
	ctl->recordings.settings = *settings;
	policy_of(settings, &ctl->recordings.policy);
}

void control_counts(const struct control *ctl, struct control_counts *ret_counts)
{
	*ret_counts = ctl->counts;
}
