/* ask.c - see ask.h.  Thread: main.
 *
 *   connection ── ACCEPTED, NOTE, PROGRESS ────────────► callback at once
 *              ── RENEWED, DONE: stream_bytes ────┐
 *   packets ──── bytes ─► whole packets ─► sink ──┴────► callback when that many bytes have been read
 *
 * The connection and the packets may arrive in either order.  When a callback runs, the sink holds every sample taken
 * before that message, and none taken after RENEWED: between RENEW and RENEWED no packets are read.
 * The form of each message is checked, its content is trusted: only root and the user perfwind can listen in
 * /run/perfwind. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/ask.h"
#include "base/error.h"
#include "base/peer.h"
#include "cli/verdict.h"
#include "trace/late-sink.h"

struct ask {
	struct ask_options options;
	struct loop *loop;
	struct loop_source source;
	struct control_stream stream;
	struct loop_source packets;
	int received_fd;    /* comes with ACCEPTED or before; -1: none */
	int packets_fd;	    /* -1: none yet, or at its end */
	struct buffer read; /* an incomplete packet at the end of what was read */
	uint64_t streamed;  /* bytes of packets read */
	bool unwritten;	    /* the sink has failed */
	Pb__ControlSummary *renewed, *summary; /* of RENEWED, DONE; waiting for stream_bytes */
	char event[128], why[512];
	int error;
	bool answered, ended, denied;
};

enum { CONNECT_S = 5, PIECE = 256 << 10 };
static const char gone[] = "the daemon has exited; the trace holds the samples received until then";

int ask_connect(const char *path, int *ret_fd)
{
	/* A full backlog for CONNECT_S counts as no daemon. */
	return trace(unix_connect(path, 0, CONNECT_S * 1000000, NULL, ret_fd));
}

bool ask_possible(const char *socket)
{
	_cleanup_(fd_closep) int fd = -1;

	return ask_connect(socket, &fd) == 0;
}

/* Calls ended(), once. */
static void end(struct ask *a, int error, const char *why, size_t len)
{
	if (a->ended)
		return;
	a->ended = true;
	if (error < 0 && !a->error) {
		a->error = error;
		(void)snprintf(a->why, sizeof(a->why), "%.*s", (int)min_u64(len, 500), why);
	}
	loop_remove(a->loop, &a->source);
	loop_remove(a->loop, &a->packets);
	a->options.ended(a->options.arg);
}

static void end_text(struct ask *a, int error, const char *why)
{
	end(a, error, why, strlen(why));
}

static void call(struct ask *a, void (*callback)(void *, const Pb__ControlSummary *),
		 const Pb__ControlSummary *m)
{
	if (callback)
		callback(a->options.arg, m);
}

/* Calls renewed() and ended() once their packets have been read. */
static void deliver(struct ask *a)
{
	Pb__ControlSummary *m = a->renewed;

	if (m && a->streamed >= m->stream_bytes) {
		a->renewed = NULL;
		call(a, a->options.renewed, m);
		pb__control_summary__free_unpacked(m, NULL);
	}
	if (a->summary && a->streamed >= a->summary->stream_bytes)
		end(a, 0, "", 0);
}

static void not_written(struct ask *a, int error)
{
	a->unwritten = true;
	if (a->error)
		return;
	a->error = error;
	(void)snprintf(a->why, sizeof(a->why), "writing the trace: %s", strerror(-error));
	ask_stop(a);
}

/* ---- packets ---- */

/* Writes the complete packets to the sink.  -EBADMSG: the bytes are not a packet. */
static int write_whole(struct ask *a)
{
	struct cursor c = cursor_of(a->read.data, a->read.len);
	const void *packet;
	size_t len, whole = 0;
	int r = 0;

	while (sink_next_packet(&c, &packet, &len))
		whole = a->read.len - cursor_left(&c);
	if (whole && !a->unwritten)
		r = a->options.sink->write(a->options.sink, a->read.data, whole);
	if (r < 0)
		not_written(a, r);
	a->read.len -= whole;
	memmove(a->read.data, a->read.data + whole, a->read.len);
	/* The rest must begin a packet. */
	if (a->read.len && a->read.data[0] != SINK_PACKET_TAG)
		return fail(-EBADMSG);
	return a->read.len > CONTROL_PACKET_MAX ? fail(-EBADMSG) : 0;
}

enum { PACKETS_NONE = 1, PACKETS_OVER };

static int read_packets(struct ask *a)
{
	size_t room = a->renewed ? min_u64(PIECE, a->renewed->stream_bytes - a->streamed) : PIECE;
	uint8_t *to = buffer_reserve(&a->read, room);
	ssize_t n = to ? recv(a->packets_fd, to, room, MSG_DONTWAIT) : -1;
	int r;

	if (!to)
		return fail(-ENOMEM);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return PACKETS_NONE;
	if (n <= 0)
		return PACKETS_OVER;
	a->read.len += (size_t)n;
	a->streamed += (size_t)n;
	r = write_whole(a);
	return r < 0 ? trace(r) : 0;
}

static int packets_ready(struct loop_source *source, uint32_t events)
{
	struct ask *a = container_of(source, struct ask, packets);
	int r = read_packets(a);

	(void)events;
	if (r == PACKETS_OVER && a->summary && a->streamed < a->summary->stream_bytes) {
		end_text(a, -EPIPE, gone);
	} else if (r == PACKETS_OVER) { /* the result follows on the connection */
		loop_remove(a->loop, source);
		a->packets_fd = fd_close(a->packets_fd);
	} else if (r < 0) {
		end_text(a, r, "the daemon sent an invalid packet");
	} else {
		deliver(a);
	}
	return 0;
}

static void take_summary(struct ask *a, uint32_t type, const uint8_t *data, size_t len)
{
	Pb__ControlSummary *m = control_summary_unpack(data, len), **waits;

	if (!m) {
		end_text(a, -EBADMSG,
			 "the daemon sent an invalid answer: is it of another version?");
		return;
	}
	if (type == CONTROL_PROGRESS) {
		call(a, a->options.progress, m);
		pb__control_summary__free_unpacked(m, NULL);
		return;
	}
	waits = type == CONTROL_DONE ? &a->summary : &a->renewed;
	if (*waits)
		pb__control_summary__free_unpacked(*waits, NULL);
	*waits = m;
	deliver(a);
	if (!a->ended && a->packets.fd < 0 && a->packets_fd >= 0 &&
	    loop_add(a->loop, &a->packets, a->packets_fd, EPOLLIN, packets_ready) < 0)
		end_text(a, -ENOMEM, "no memory for the packets");
}

/* The connection is lost: reads the packets that were sent before. */
static void end_lost(struct ask *a)
{
	int r = 0;

	while (r == 0 && a->packets_fd >= 0) {
		r = read_packets(a);
		deliver(a);
	}
	end_text(a, -EPIPE,
		 a->answered
			 ? gone
			 : "the daemon closed the connection without an answer: it ended just now "
			   "(hint: try again), or it is of another version");
}

/* The daemon's descriptor for the packets has come with ACCEPTED. */
static int take_packets(struct ask *a)
{
	int r;

	if (a->received_fd < 0 || a->packets_fd >= 0)
		return fail(-EBADMSG);
	a->packets_fd = take_fd(a->received_fd);
	r = loop_add(a->loop, &a->packets, a->packets_fd, EPOLLIN, packets_ready);
	return r < 0 ? trace(r) : 0;
}

static void take_message(struct ask *a, uint32_t type, const uint8_t *data, size_t len)
{
	a->answered = true;
	switch (type) {
	case CONTROL_ACCEPTED:
		(void)snprintf(a->event, sizeof(a->event), "%.*s", (int)min_u64(len, 100), data);
		if (take_packets(a) < 0)
			end_text(a, -EBADMSG, "the daemon's answer is not understood");
		else if (a->options.accepted)
			a->options.accepted(a->options.arg);
		break;
	case CONTROL_DENIED:
		a->denied = true;
		end(a, -EPERM, (const char *)data, len);
		break;
	case CONTROL_NOTE:
		log_info("%.*s", (int)min_u64(len, 500), data);
		break;
	case CONTROL_PROGRESS:
	case CONTROL_RENEWED:
	case CONTROL_DONE:
		take_summary(a, type, data, len);
		break;
	case CONTROL_FAILED:
		a->error = a->error ? a->error : -EIO;
		(void)snprintf(a->why, sizeof(a->why), "%.*s", (int)min_u64(len, 500), data);
		break;
	case CONTROL_TRIGGERED:
		if (len == 1 && a->options.triggered)
			a->options.triggered(a->options.arg, data[0]);
		break;
	default:
		break; /* of a later version */
	}
}

static int ready(struct loop_source *source, uint32_t events)
{
	struct ask *a = container_of(source, struct ask, source);
	const uint8_t *data;
	uint32_t type;
	size_t len;
	int r;

	if (events & EPOLLOUT) {
		r = control_send(&a->stream);
		if (r == 0)
			(void)loop_change(a->loop, source, EPOLLIN);
	}
	r = control_receive_with(&a->stream, &a->received_fd);
	if (r == CONTROL_NONE)
		return 0;
	while (r == 0 && !a->ended) {
		r = control_next(&a->stream, &type, &data, &len);
		if (r == 0)
			take_message(a, type, data, len);
	}
	if (r == CONTROL_CLOSED || r == -ECONNRESET)
		end_lost(a);
	else if (r < 0)
		end_text(a, r, "the daemon sent an invalid answer: is it of another version?");
	return 0;
}

static int send_now(struct ask *a)
{
	int r = control_send(&a->stream);

	if (r == CONTROL_PENDING)
		r = loop_change(a->loop, &a->source, EPOLLIN | EPOLLOUT);
	return r < 0 ? trace(r) : 0;
}

static void send_message(struct ask *a, enum control_type type)
{
	if (!a->ended && control_queue(&a->stream, type, NULL, 0) >= 0)
		(void)send_now(a); /* the loop reports a lost connection */
}

void ask_stop(struct ask *a)
{
	send_message(a, CONTROL_STOP);
}

void ask_renew(struct ask *a)
{
	loop_remove(a->loop, &a->packets);
	send_message(a, CONTROL_RENEW);
}

void ask_trigger(struct ask *a, uint32_t uid, const char *name)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	buffer_append(&b, &uid, sizeof(uid));
	if (name)
		buffer_append(&b, name, strlen(name));
	if (!a->ended && !b.bad && control_queue(&a->stream, CONTROL_TRIGGER, b.data, b.len) >= 0)
		(void)send_now(a); /* the loop reports a lost connection */
}

bool ask_denied(const struct ask *a)
{
	return a->denied;
}

int ask_new(const struct ask_options *options, struct loop *loop, struct ask **ret_ask, char *error,
	    size_t error_size)
{
	struct ask *a = calloc(1, sizeof(*a));
	int fd = -1, r;

	if (!a) {
		(void)snprintf(error, error_size, "%s", strerror(ENOMEM));
		return fail(-ENOMEM);
	}
	a->options = *options;
	a->loop = loop;
	a->source.fd = a->stream.fd = a->packets.fd = a->packets_fd = a->received_fd = -1;
	r = ask_connect(options->socket, &fd);
	if (r >= 0) {
		control_stream_init(&a->stream, fd, CONTROL_REPLY_MAX);
		r = loop_add(loop, &a->source, fd, EPOLLIN, ready);
	}
	if (r >= 0)
		r = control_request_queue(&a->stream, options->request);
	if (r >= 0)
		r = send_now(a);
	if (r < 0) {
		(void)snprintf(
			error, error_size,
			"no daemon answers at %s: %s (perfwind doctor shows how to start one)",
			options->socket, strerror(-r));
		(void)ask_free(a);
		return trace(r);
	}
	*ret_ask = a;
	return 0;
}

struct ask *ask_free(struct ask *a)
{
	if (!a)
		return NULL;
	loop_remove(a->loop, &a->source);
	loop_remove(a->loop, &a->packets);
	control_stream_deinit(&a->stream);
	(void)fd_close(a->packets_fd);
	(void)fd_close(a->received_fd);
	buffer_deinit(&a->read);
	if (a->summary)
		pb__control_summary__free_unpacked(a->summary, NULL);
	if (a->renewed)
		pb__control_summary__free_unpacked(a->renewed, NULL);
	free(a);
	return NULL;
}

int ask_error(const struct ask *a, const char **ret_why)
{
	if (ret_why)
		*ret_why = a->why;
	return a->error;
}

const Pb__ControlSummary *ask_summary(const struct ask *a)
{
	return a->ended ? a->summary : NULL;
}

const char *ask_event(const struct ask *a)
{
	return a->event;
}

enum { ANSWER_S = 20 }; /* the daemon opens all events before it answers */

static void stop(void *arg)
{
	struct ask_run *run = arg;

	if (run->ask)
		ask_stop(run->ask);
}

static void ended(void *arg)
{
	struct ask_run *run = arg;

	run->ended = true;
}

static void set_timer(struct loop_timer *timer, double seconds)
{
	(void)loop_timer_set(timer, (uint64_t)(seconds * 1e9), 0);
}

/* The duration starts here: opening the events of a machine takes time. */
static void accepted(void *arg)
{
	struct ask_run *run = arg;

	run->started = true;
	/* Opens the file: a trace that cannot be created must not start the command. */
	if (!run->waits && run->sink->write(run->sink, "", 0) < 0) {
		run->status = 1;
		if (!late_sink_report(run->sink))
			log_error("the trace cannot be written");
		ask_stop(run->ask);
		return;
	}
	set_timer(&run->end, run->duration);
	if (run->interval > 0)
		set_timer(&run->next, run->interval);
	run->status = job_go(run->job);
	if (!run->status)
		return;
	run->not_run = true;
	late_sink_discard(run->sink);
	ask_stop(run->ask);
}

static void progress(void *arg, const Pb__ControlSummary *m)
{
	struct ask_run *run = arg;
	struct session_summary *s;

	/* A perfwind that is killed loses only packets since the last flush. */
	if (run->sink->flush(run->sink) < 0)
		ask_stop(run->ask);
	if (!run->live || m->has_n_sources)
		return;
	s = malloc(sizeof(*s));
	if (!s)
		return;
	control_summary_read(m, s);
	s->bytes = run->sink->bytes;
	verdict_print_live(s, stderr);
	free(s);
}

void ask_run_stop(struct ask_run *run)
{
	run->job->ended_by_us = true;
	ask_stop(run->ask);
}

static void triggered(void *arg, int verdict)
{
	struct ask_run *run = arg;

	if (run->triggered)
		run->triggered(run->arg, verdict);
}

static void show(struct ask_run *run, const Pb__ControlSummary *m)
{
	if (!run->shown || run->failed < 0)
		return;
	run->failed = run->shown(run->arg, m);
	if (run->failed < 0)
		ask_stop(run->ask);
}

static void renewed(void *arg, const Pb__ControlSummary *m)
{
	struct ask_run *run = arg;

	show(run, m);
	set_timer(&run->next, run->interval);
}

static int end_tick(struct loop_timer *timer)
{
	struct ask_run *run = container_of(timer, struct ask_run, end);

	if (!run->started) {
		run->ended = true;
		return 0;
	}
	if (!run->job->interrupted) /* else it has been stopped already */
		ask_run_stop(run);
	return 0;
}

static int next_tick(struct loop_timer *timer)
{
	struct ask_run *run = container_of(timer, struct ask_run, next);

	ask_renew(run->ask);
	return 0;
}

static int begin(struct ask_run *run)
{
	struct ask_options options = {
		.socket = run->socket,
		.request = run->request,
		.sink = run->sink,
		.accepted = accepted,
		.ended = ended,
		.progress = progress,
		.renewed = renewed,
		.triggered = triggered,
		.arg = run,
	};
	int r = loop_init(&run->loop);

	if (r >= 0)
		r = job_watch(run->job, &run->loop, stop, run);
	if (r >= 0)
		r = loop_timer_add(&run->loop, &run->end, ANSWER_S * NSEC_PER_SEC, 0, end_tick);
	if (r >= 0)
		r = loop_timer_add(&run->loop, &run->next, 0, 0, next_tick);
	if (r >= 0)
		r = ask_new(&options, &run->loop, &run->ask, run->why, sizeof(run->why));
	return r < 0 ? trace(r) : 0;
}

int ask_run_open(struct ask_run *run)
{
	const char *why = "the daemon does not answer";
	int r;

	run->loop.epoll_fd = run->end.source.fd = run->next.source.fd = -1;
	r = begin(run);
	while (r >= 0 && !run->started && !run->ended)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0 && run->started)
		return 0;
	if (r >= 0) {
		r = ask_error(run->ask, NULL) < 0 ? ask_error(run->ask, &why) : -ETIMEDOUT;
		(void)snprintf(run->why, sizeof(run->why), "%s", why);
		if (ask_denied(run->ask))
			return ASK_RUN_DENIED;
	}
	if (!*run->why)
		(void)snprintf(run->why, sizeof(run->why), "the daemon cannot be asked: %s",
			       strerror(-r));
	return trace(r);
}

int ask_run_refused(const struct ask_run *run, const char *lacks, bool kernel)
{
	if (kernel) {
		log_verbose("no kernel frames from the daemon: %s", run->why);
		return -EPERM;
	}
	if (*lacks)
		log_error("%s; the daemon's answer: %s", lacks, run->why);
	else
		log_error("%s", run->why);
	return 1;
}

int ask_run(struct ask_run *run)
{
	const char *why = NULL, *task = "waiting for the daemon";
	char failure[128];
	int r = 0;

	while (r >= 0 && !run->ended)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0) {
		task = "writing the trace";
		r = run->sink->flush(run->sink);
	}
	if (r >= 0 && ask_summary(run->ask)) {
		r = late_sink_end(run->sink, ask_summary(run->ask)->full);
		run->complete = r == 0;
	}
	(void)snprintf(failure, sizeof(failure), "%s: %s", task, strerror(r < 0 ? -r : 0));
	if (run->live)
		fprintf(stderr, "\r\033[K");
	if (ask_summary(run->ask))
		show(run, ask_summary(run->ask));
	if (run->status)
		return run->status;
	if (ask_error(run->ask, &why) >= 0)
		why = r < 0 ? failure : NULL;
	job_await(run->job, !why && run->failed < 0 ? "the table cannot be shown" : why);
	if (why && !late_sink_report(run->sink))
		log_error("%s", why);
	return job_exit_status(run->job, why || run->failed < 0);
}

void ask_run_deinit(struct ask_run *run)
{
	run->ask = ask_free(run->ask);
	loop_timer_remove(&run->loop, &run->end);
	loop_timer_remove(&run->loop, &run->next);
	job_watch_no_more(run->job);
	loop_deinit(&run->loop);
}
