/* control-client.c - one client of the control socket: what it says, what it is told, its end.
 * Thread: main.
 *
 * A peer that is gone is told by EPOLLHUP, so a sink that cannot send only says so to its session. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/peer.h"
#include "daemon/control/control-private.h"

static const char nobody_reads[] = "nobody reads the packets any more";

static void forget_life(struct client *c)
{
	int fd = c->life.fd;

	loop_remove(c->control->loop, &c->life);
	(void)fd_close(fd);
}

static void end_session(struct client *c)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	bool held = c->session || c->trace;

	client_close(c);
	if (held)
		client_charge(c, from);
}

void client_free(struct client *c)
{
	struct control *ctl = c->control;

	for (struct client **at = &ctl->clients; *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			break;
		}
	}
	ctl->n_clients--;
	end_session(c);
	control_outputs_forget(c);
	client_output_close(c);
	loop_remove(ctl->loop, &c->source);
	forget_life(c);
	control_stream_deinit(&c->stream);
	asker_deinit(&c->asker);
	free(c);
	if (!ctl->n_clients && !ctl->stop_by)
		(void)loop_timer_set(&ctl->tick, 0, 0);
}

/* Has broken the protocol. */
static void refuse(struct client *c, const char *why)
{
	c->control->counts.refused++;
	log_verbose("control socket: user %u (process %u) %s", c->asker.uid, c->asker.pid, why);
	client_free(c);
}

/* Its last words are under way.  It may be gone after this. */
static void leave(struct client *c)
{
	int r;

	end_session(c);
	control_outputs_forget(c);
	c->state = CLIENT_LEAVING;
	c->deadline = control_now_ms() + CONTROL_LEAVE_MS;
	r = client_send(c);
	if (r < 0 || !client_waiting(c))
		client_free(c);
}

void client_deny(struct client *c, const char *why)
{
	c->control->counts.denied++;
	log_verbose("control socket: user %u: denied: %s", c->asker.uid, why);
	(void)control_queue(&c->stream, CONTROL_DENIED, why, strlen(why));
	leave(c);
}

/* From within the session, even while it is made: only queued. */
void client_noted(void *arg, const char *line)
{
	struct client *c = arg;

	log_verbose("control socket: user %u is told: %s", c->asker.uid, line);
	if (control_waiting(&c->stream) > CONTROL_SAID_MAX)
		return; /* nobody reads them, and the trace has them */
	(void)control_queue(&c->stream, CONTROL_NOTE, line, strlen(line));
}

/* All is recorded: from the session's callback, or the tick for a trace session. */
void client_done(void *arg)
{
	struct client *c = arg;
	const char *why = "";
	int r = 0, error;

	error = c->session ? session_error(c->session, &why) : trace_session_error(c->trace, &why);
	if (c->output.fd < 0) {
		error = -EPIPE;
		why = nobody_reads;
	}
	if (error < 0)
		r = control_queue(&c->stream, CONTROL_FAILED, why, strlen(why));
	if (r >= 0)
		r = control_send_summary(c, CONTROL_DONE);
	if (r < 0)
		client_free(c);
	else
		leave(c);
}

void client_stop(struct client *c)
{
	if (c->session)
		session_stop(c->session);
	if (c->trace)
		trace_session_stop(c->trace);
}

/* ---- messages ---- */

static void renewed(void *arg)
{
	struct client *c = arg;
	int r = 0;

	c->renews = false;
	c->renew_from = control_now_ms() + CONTROL_RENEW_MS;
	if (session_state(c->session) != SESSION_RUNNING)
		return; /* DONE follows, with all */
	r = control_send_summary(c, CONTROL_RENEWED);
	if (r >= 0)
		r = session_clear_incremental_state(c->session);
	if (r >= 0)
		r = client_send(c);
	if (r < 0)
		client_free(c);
}

/* false: @c is gone. */
static bool begin_renewal(struct client *c)
{
	c->renew_waits = false;
	if (session_flush(c->session, renewed, c) >= 0)
		return true;
	client_free(c);
	return false;
}

/* All that readers need is told anew, which is work and bytes: not as often as a client likes, nor
 * before it has read what it was told. */
static bool may_renew(const struct client *c)
{
	return control_now_ms() >= c->renew_from && !control_waiting(&c->stream);
}

/* false: @c is gone. */
static bool renew(struct client *c)
{
	if (c->renews || c->trace) {
		refuse(c, "sent a message out of turn");
		return false;
	}
	if (c->state != CLIENT_RUNNING)
		return true; /* it may cross DONE */
	c->renews = c->renew_waits = true;
	return !may_renew(c) || begin_renewal(c); /* or the tick does */
}

/* What @request lacks before it is looked at. */
static bool is_served(struct client *c, Pb__ControlRequest *request)
{
	char why[CONTROL_ERROR];

	if (request->version != CONTROL_VERSION) {
		(void)snprintf(why, sizeof(why),
			       "the request is of version %u, this daemon (perfwind %s) speaks %d: "
			       "both must be of the same version",
			       request->version, PERFWIND_VERSION, CONTROL_VERSION);
		client_deny(c, why);
		return false;
	}
	if (c->output.fd < 0) {
		client_deny(c, output_reason(OUTPUT_NONE));
		return false;
	}
	return true;
}

/* false: @c records nothing, and may be gone. */
static bool open_request(struct client *c, Pb__ControlRequest *request)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	char error[CONTROL_ERROR];
	int r = client_open(c, request, error, sizeof(error));

	client_charge(c, from);
	if (r >= 0) {
		c->control->counts.accepted++;
		c->state = CLIENT_RUNNING;
		log_verbose("control socket: user %u records", c->asker.uid);
		r = client_send(c); /* ACCEPTED: a command waits for it */
		if (r < 0)
			client_free(c);
		return r >= 0;
	}
	if (c->output.fd < 0)
		(void)snprintf(error, sizeof(error), "%s", nobody_reads);
	else if (!*error)
		(void)snprintf(error, sizeof(error), "cannot record: %s", strerror(-r));
	/* It may stand behind ACCEPTED: a session that could be opened and not started. */
	client_deny(c, error);
	return false;
}

/* The same. */
static bool take_request(struct client *c, const void *data, size_t len)
{
	Pb__ControlRequest *request = control_request_unpack(data, len);

	if (!request) {
		refuse(c, "sent a request that is none");
		return false;
	}
	if (!is_served(c, request)) {
		pb__control_request__free_unpacked(request, NULL);
		return false;
	}
	if (client_may_open(c))
		return open_request(c, request);
	c->request = request;
	c->awaits = CLIENT_AWAITS_TURN;
	c->deadline = control_now_ms() + CONTROL_TURN_MS;
	(void)loop_change(c->control->loop, &c->source, 0); /* its end is told all the same */
	return false;
}

static void take_messages(struct client *c);

/* Its turn has come.  It may be gone after this. */
static void take_turn(struct client *c)
{
	Pb__ControlRequest *request = c->request;

	c->request = NULL;
	c->awaits = CLIENT_AWAITS_NOTHING;
	(void)loop_change(c->control->loop, &c->source, EPOLLIN);
	if (open_request(c, request))
		take_messages(c);
}

/* false: none was there, or @c may be gone. */
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
	if (type == CONTROL_RENEW && c->state != CLIENT_ASKING)
		return renew(c);
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

/* What control_receive() said: @c may be gone after it. */
static void take_received(struct client *c, int r)
{
	if (r == -EBADMSG || r == -EMSGSIZE)
		refuse(c, r == -EBADMSG ? "sent descriptors" : "sends faster than it may");
	else if (r == CONTROL_CLOSED && c->state == CLIENT_ASKING && c->stream.in.len)
		refuse(c, "left in the midst of its request");
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
		if (r >= 0 && c->state == CLIENT_LEAVING && !client_waiting(c))
			r = -EPIPE;
	}
	if (r < 0 || c->awaits) { /* its end, while its connection is not read */
		client_free(c);
		return 0;
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return 0;
	r = control_receive(&c->stream);
	if (r == -EBADMSG && c->state == CLIENT_ASKING && !c->stream.in.len && c->output.fd < 0)
		client_output_look(c);
	else
		take_received(c, r);
	return 0;
}

static int output_ready(struct loop_source *source, uint32_t events)
{
	struct client *c = container_of(source, struct client, output_source);
	int r = 0;

	if (events & (EPOLLHUP | EPOLLERR)) {
		log_verbose("control socket: user %u reads no packets any more", c->asker.uid);
		client_output_close(c);
		if (c->state == CLIENT_ASKING) {
			client_deny(c, nobody_reads);
			return 0;
		}
		client_stop(c);
	}
	r = client_send(c);
	if (r < 0 || (c->state == CLIENT_LEAVING && !client_waiting(c)))
		client_free(c);
	return 0;
}

void client_output(struct client *c, enum output_verdict verdict, int fd)
{
	const int room = CONTROL_OUTPUT_ROOM;
	int r;

	if (verdict != OUTPUT_GOOD) {
		c->control->counts.outputs++;
		client_deny(c, output_reason(verdict));
		return;
	}
	control_stream_init(&c->output, fd, 0);
	c->output.closer = &c->control->closer;
	c->output.shared = true;
	c->output.unread_max = CONTROL_OUTPUT_UNREAD;
	r = setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0 ? -errno : 0;
	if (r >= 0)
		r = loop_add(c->control->loop, &c->output_source, fd, 0, output_ready);
	if (r >= 0)
		r = loop_change(c->control->loop, &c->source, EPOLLIN);
	if (r < 0)
		client_free(c);
	else
		take_received(c, control_receive_carried(&c->stream));
}

/* ---- life ---- */

static int life_ready(struct loop_source *source, uint32_t events)
{
	(void)events;
	client_free(container_of(source, struct client, life));
	return 0;
}

/* The connection may outlive whoever has made it, in the queue of another socket: its own packets', even. */
static int watch_life(struct client *c)
{
	const struct features *f = &c->control->options.features;
	int pidfd = peer_pidfd(c->stream.fd, f->has[FEATURE_PEER_PIDFD], c->asker.pid), r;

	if (pidfd == -EINVAL) /* has no number here */
		return 0;
	r = pidfd < 0 ? pidfd : loop_add(c->control->loop, &c->life, pidfd, EPOLLIN, life_ready);
	if (r < 0 && pidfd >= 0)
		(void)fd_close(pidfd);
	return r < 0 ? trace(r) : 0;
}

/* As of its connection.  The pidfd is its maker's: while that lives, so is the number. */
static void look_at_confinement(struct client *c)
{
	struct pollfd maker = {.fd = c->life.fd, .events = POLLIN};

	if (!policy_confined("", c->stream.fd, c->asker.pid, c->confined, sizeof(c->confined)) &&
	    maker.fd >= 0 && poll(&maker, 1, 0) != 0)
		(void)snprintf(c->confined, sizeof(c->confined), "process %u has ended",
			       c->asker.pid);
}

int client_new(struct control *ctl, int fd)
{
	struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		closer_close(&ctl->closer, fd);
		return fail(-ENOMEM);
	}
	c->control = ctl;
	control_stream_init(&c->stream, fd, CONTROL_REQUEST_MAX);
	c->stream.closer = &ctl->closer;
	control_stream_init(&c->output, -1, 0);
	c->output_source.fd = c->life.fd = -1;
	c->deadline = control_now_ms() + CONTROL_ASK_MS;
	r = asker_of(fd, &c->asker);
	c->person = policy_person(&ctl->policy, c->asker.uid);
	c->trusted = r >= 0 && policy_scope(&ctl->policy, &c->asker) == POLICY_ALL;
	if (r >= 0 && !client_has_place(c))
		r = -EUSERS;
	if (r >= 0)
		r = watch_life(c);
	if (r >= 0)
		look_at_confinement(c);
	if (r >= 0)
		r = loop_add(ctl->loop, &c->source, fd, EPOLLIN, client_ready);
	if (r < 0) {
		forget_life(c);
		control_stream_deinit(&c->stream);
		asker_deinit(&c->asker);
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

/* In vain. */
static void deny_waiting(struct client *c)
{
	const char *why = c->awaits == CLIENT_AWAITS_TURN
				  ? "you ask for more than others can wait for: not now"
				  : control_not_looked_at;

	client_deny(c, why);
}

void client_tick(struct client *c, uint64_t now)
{
	int r = 0;

	if (c->awaits == CLIENT_AWAITS_TURN && client_may_open(c)) {
		take_turn(c);
		return;
	}
	if (c->state != CLIENT_RUNNING) {
		if (c->state == CLIENT_LEAVING)
			r = client_send(c);
		if (now >= c->deadline && c->awaits) {
			deny_waiting(c);
		} else if (now >= c->deadline && c->state == CLIENT_ASKING) {
			refuse(c, "did not send its request in time");
		} else if (r < 0 || now >= c->deadline ||
			   (c->state == CLIENT_LEAVING && !client_waiting(c))) {
			client_free(c);
		}
		return;
	}
	if (c->trace && trace_session_state(c->trace) == TRACE_DONE) {
		client_done(c);
		return;
	}
	if (c->renew_waits && may_renew(c) && !begin_renewal(c))
		return;
	if (c->session && c->request->n_pids && session_targets_gone(c->session))
		session_stop(c->session);
	r = client_send(c); /* what was gathered; what still waits then is not read */
	if (r >= 0 && now - c->told_at >= 2 * CONTROL_TICK_MS && !control_waiting(&c->stream)) {
		c->told_at = now;
		r = control_send_summary(c, CONTROL_PROGRESS);
		if (r >= 0)
			r = client_send(c);
	}
	if (r < 0)
		client_free(c);
}
