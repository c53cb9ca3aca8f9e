/* flight.c - see flight.h.
 *
 *   IDLE ── request: recorder_seal() ──► FLUSHING ── flushed ──► WRITING ── result ──► IDLE
 *
 * The cut is made as soon as the request is read.  Samples that were taken before it and are still in flight are
 * flushed; later ones are left out. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/flight.h"
#include "cli/flight-protocol.h"
#include "cli/signals.h"
#include "cli/snapshot-file.h"
#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/listen-fds.h"
#include "base/prefault.h"
#include "profile/profile-text.h"
#include "trace/late-sink.h"
#include "tracing/system-counters.h"
#include "tracing/task-ends.h"

enum {
	CLIENTS = 8,
	RESERVE = 16 << 20, /* bytes of memory for allocations while recording */
};

struct flight_client {
	struct loop_source source; /* fd -1: a free place */
	struct flight *flight;
	bool asked, joined;
	uint64_t number; /* of its connection */
};

struct flight {
	const char *path;
	struct recorder *recorder;
	struct sink *sink; /* the recorder's */
	struct loop *loop;
	struct loop_source signals, listener;
	struct flight_client clients[CLIENTS];
	uint64_t n_connections;
	int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg);
	void *arg;
	int (*sample)(void *arg, bool on); /* NULL: not armed */
	struct loop_timer armed;	   /* until it is off again */
	bool running;
	uint64_t our_last_ns; /* of our own files: 0, or RECORDER_NEXT */
	uint64_t switch_ns;
	struct loop_timer switches;
	struct flight_collect collect;
	struct sink *running_sink; /* the recorder's, while something is collected; NULL */
	struct system_counters *counters;
	struct task_ends *ends;
	struct loop_timer seconds;
	/* Of the snapshot in progress. */
	enum { IDLE, FLUSHING, WRITING } state;
	int file; /* a client's; -1: the next of ours */
	uint64_t last_ns, cut_ns;
	bool named;   /* our file exists */
	char *folder; /* a relative @path begins here; NULL: unknown */
	char name[PATH_MAX];
};

static void report_gap(const struct flight *f)
{
	if (f->our_last_ns == RECORDER_NEXT && recorder_had_gap(f->recorder))
		log_info("the memory of the recorder was too small for the time since the previous "
			 "file: the first samples of this file are lost (hint: --flight-recorder "
			 "SIZE, or a shorter --switch-output)");
}

/* ---- the end ---- */

int flight_end(struct flight *f)
{
	struct recorder_result result = {0};
	struct sink *file;
	int r = sink_file_new(f->path, &file);

	f->running = false;
	f->running_sink = NULL;
	if (r >= 0)
		r = recorder_end(f->recorder, file, f->our_last_ns, &result);
	report_gap(f);
	f->sink->bytes = result.bytes;
	f->sink->written = result.written;
	return r < 0 ? trace(r) : 0;
}

void flight_leave(struct flight *f)
{
	char samples[32];
	int r;

	if (!f->running) /* nothing is there yet, or all is written */
		return;
	r = flight_end(f);
	if (r < 0)
		late_sink_report_error(f->path, r);
	else
		log_info("ended at once: %s samples: %s (those in flight are lost)",
			 text_count(f->sink->written.samples, samples), f->path);
}

/* ---- files ---- */

static int open_next(struct flight *f)
{
	f->file = snapshot_file_open(f->path, f->name, sizeof(f->name));
	f->named = f->file >= 0;
	return f->named ? 0 : trace(f->file);
}

/* ---- clients ---- */

static void drop_client(struct flight_client *client)
{
	int fd = client->source.fd;

	loop_remove(client->flight->loop, &client->source);
	(void)fd_close(fd);
	client->asked = false;
}

/* The name as the client can open it: ours is relative to our folder. */
static void answer_name(const struct flight *f, char *to, size_t size)
{
	int n = 0;

	if (f->named && *f->name != '/' && f->folder)
		n = snprintf(to, size, "%s/", f->folder);
	if (n < 0 || (size_t)n >= size)
		n = 0;
	(void)snprintf(to + n, size - (size_t)n, "%s", f->name);
}

static void answer_clients(struct flight *f, const struct recorder_result *result)
{
	struct flight_answer answer = {
		.version = FLIGHT_VERSION,
		.error = result->error,
		.samples = result->written.samples,
		.bytes = result->bytes,
		.cut_ns = f->cut_ns,
	};

	answer_name(f, answer.name, sizeof(answer.name));
	for (size_t i = 0; i < CLIENTS; i++) {
		struct flight_client *client = &f->clients[i];

		if (client->source.fd < 0 || !client->asked)
			continue;
		answer.joined = client->joined;
		(void)send(client->source.fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
		drop_client(client);
	}
}

/* ---- a snapshot ---- */

static void report(void *arg, const struct recorder_result *result)
{
	struct flight *f = arg;
	char samples[32], size[32];

	if (result->error)
		log_error("snapshot %s: %s", f->name, strerror(-result->error));
	else
		log_info("snapshot: %s samples, %s: %s",
			 text_count(result->written.samples, samples),
			 text_size(result->bytes, size), f->name);
	if (f->last_ns == RECORDER_NEXT && !result->error)
		report_gap(f);
	answer_clients(f, result);
	f->file = fd_close(f->file);
	f->state = IDLE;
}

static void fail_snapshot(struct flight *f, int r)
{
	if (f->named && f->state != WRITING)
		(void)unlink(f->name);
	report(f, &(struct recorder_result){.error = r});
}

static void flushed(void *arg)
{
	struct flight *f = arg;
	int r = 0;

	if (f->state != FLUSHING)
		return;
	if (!f->running) { /* the end has written the trace */
		f->state = IDLE;
		recorder_cancel(f->recorder);
		answer_clients(f, &(struct recorder_result){.error = -ECANCELED});
		return;
	}
	if (f->file < 0)
		r = open_next(f);
	if (r < 0)
		recorder_cancel(f->recorder);
	else
		r = recorder_write(f->recorder, f->file, f->last_ns, report, f);
	if (r < 0) { /* the recording goes on */
		fail_snapshot(f, r);
		return;
	}
	f->file = fd_close(f->file);
	f->state = WRITING;
}

/* @asked_at: CLOCK_MONOTONIC.  Consumes @file, -1: one of ours. */
static void begin_snapshot(struct flight *f, int file, uint64_t last_ns, uint64_t asked_at)
{
	uint64_t now;

	recorder_seal(f->recorder);
	now = clock_ns(CLOCK_MONOTONIC);
	f->cut_ns = now - min_u64(now, asked_at);
	f->file = file;
	f->last_ns = last_ns;
	f->named = false;
	f->state = FLUSHING;
	if (f->flush(f->arg, flushed, f) < 0)
		flushed(f); /* without the samples in flight */
}

static int signalled(struct loop_source *source, uint32_t events)
{
	struct flight *f = container_of(source, struct flight, signals);
	bool any = false;

	(void)events;
	while (signals_next(source))
		any = true;
	if (any && f->state == IDLE && f->running)
		begin_snapshot(f, -1, f->our_last_ns, clock_ns(CLOCK_MONOTONIC));
	return 0;
}

/* While a snapshot is made: the next time, without a gap. */
static int switch_due(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, switches);

	if (f->state == IDLE && f->running)
		begin_snapshot(f, -1, f->our_last_ns, clock_ns(CLOCK_MONOTONIC));
	return 0;
}

/* ---- armed ---- */

/* What is collected besides the samples. */
static void collect(struct flight *f, bool on)
{
	f->running_sink = on ? f->sink : NULL;
	recorder_pause(f->recorder, !on);
}

static void disarm(struct flight *f)
{
	collect(f, false);
	if (f->sample(f->arg, false) < 0)
		log_error("sampling cannot be switched off");
	else
		log_info("sampling is off again");
}

static int armed_passed(struct loop_timer *timer)
{
	disarm(container_of(timer, struct flight, armed));
	return 0;
}

/* A request while sampling is on gives it a new time. */
static int collect_for(struct flight *f, uint64_t ns)
{
	int r;

	if (!f->sample)
		return -EOPNOTSUPP;
	r = f->sample(f->arg, true);
	if (r >= 0)
		r = loop_timer_set(&f->armed, ns, 0);
	if (r < 0)
		return trace(r);
	collect(f, true);
	return 0;
}

static void answer_armed(struct flight_client *client, const struct flight_request *request)
{
	struct flight *f = client->flight;
	struct flight_answer answer = {.version = FLIGHT_VERSION,
				       .error = collect_for(f, request->arm_ns)};
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	answer.cut_ns = now - min_u64(now, request->asked_at);
	(void)send(client->source.fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	drop_client(client);
	if (!answer.error)
		log_info("sampling for %.1f s", (double)request->arm_ns / NSEC_PER_SEC);
}

static bool is_whole(const struct flight_request *request, ssize_t n)
{
	return n == sizeof(*request) && request->version == FLIGHT_VERSION &&
	       memchr(request->name, 0, sizeof(request->name));
}

static int client_ready(struct loop_source *source, uint32_t events)
{
	struct flight_client *client = container_of(source, struct flight_client, source);
	struct flight *f = client->flight;
	struct flight_request request;
	struct fd_message message;
	ssize_t n = fd_message_receive(source->fd, &request, sizeof(request), 1, MSG_DONTWAIT,
				       &message);

	(void)events;
	if (n == -EAGAIN)
		return 0;
	if (client->asked || !is_whole(&request, n) || !f->running ||
	    message.n != !request.wants_file) {
		fd_message_close(&message);
		drop_client(client);
		return 0;
	}
	if (request.arm_ns) {
		answer_armed(client, &request);
		return 0;
	}
	client->asked = true;
	client->joined = f->state != IDLE;
	if (client->joined) {
		fd_message_close(&message);
		return 0;
	}
	(void)snprintf(f->name, sizeof(f->name), "%s", request.name);
	begin_snapshot(f, message.n ? message.fds[0] : -1, request.last_ns, request.asked_at);
	return 0;
}

/* The free place, or that of the oldest connection that has not asked. */
static struct flight_client *find_place(struct flight *f)
{
	struct flight_client *oldest = NULL;

	for (size_t i = 0; i < CLIENTS; i++) {
		struct flight_client *client = &f->clients[i];

		if (client->source.fd < 0)
			return client;
		if (!client->asked && (!oldest || client->number < oldest->number))
			oldest = client;
	}
	if (oldest)
		drop_client(oldest);
	return oldest;
}

static int connected(struct loop_source *source, uint32_t events)
{
	struct flight *f = container_of(source, struct flight, listener);
	_cleanup_(fd_closep) int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct flight_client *client;
	struct ucred peer;
	socklen_t len = sizeof(peer);

	(void)events;
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
	    (peer.uid != 0 && peer.uid != geteuid()))
		return 0;
	client = find_place(f);
	if (!client || loop_add(f->loop, &client->source, fd, EPOLLIN, client_ready) < 0)
		return 0;
	(void)take_fd(fd);
	client->number = f->n_connections++;
	return 0;
}

/* ---- collectors ---- */

static int second_passed(struct loop_timer *timer)
{
	struct flight *f = container_of(timer, struct flight, seconds);
	int r = 0;

	if (f->running_sink)
		r = system_counters_write(f->counters, clock_ns(CLOCK_BOOTTIME), f->running_sink);
	return r < 0 ? trace(r) : 0;
}

static int start_collectors(struct flight *f)
{
	int r = 0;

	if (f->collect.tasks) {
		r = task_ends_new(f->loop, &f->running_sink, &f->ends);
		if (r < 0) {
			log_info("ends of tasks come from polls of /proc, with their age: %s "
				 "(taskstats needs CAP_NET_ADMIN); tasks that live shorter are "
				 "not seen",
				 strerror(-r));
			recorder_poll_tasks(f->recorder);
		}
		r = 0;
	}
	if (f->collect.system) {
		r = system_counters_new("", &f->counters);
		if (r >= 0)
			r = loop_timer_add(f->loop, &f->seconds, NSEC_PER_SEC, NSEC_PER_SEC,
					   second_passed);
	}
	return r < 0 ? trace(r) : 0;
}

static void stop_collectors(struct flight *f)
{
	loop_timer_remove(f->loop, &f->seconds);
	f->counters = system_counters_free(f->counters);
	if (f->ends && task_ends_lost(f->ends))
		log_info("ends of tasks: the kernel dropped messages %lu times",
			 task_ends_lost(f->ends));
	f->ends = task_ends_free(f->ends);
}

/* ---- the whole ---- */

static void listen_for_clients(struct flight *f)
{
	char name[64];
	int fd = -1, r;

	(void)snprintf(name, sizeof(name), FLIGHT_SOCKET, (unsigned)getpid());
	r = listen_at(name, 0, &fd);
	if (r >= 0)
		r = loop_add(f->loop, &f->listener, fd, EPOLLIN, connected);
	if (r >= 0)
		return;
	(void)fd_close(fd);
	log_info("no `perfwind snapshot` reaches this recorder: %s (SIGUSR2 does)", strerror(-r));
}

int flight_watch(struct flight *f, struct loop *loop,
		 int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg), void *arg)
{
	static const int request[] = {SIGUSR2};
	int r;

	f->loop = loop;
	f->flush = flush;
	f->arg = arg;
	r = signals_watch(loop, &f->signals, request, 1, signalled);
	if (r < 0)
		return trace(r);
	listen_for_clients(f);
	r = loop_timer_add(loop, &f->armed, 0, 0, armed_passed);
	if (r >= 0)
		r = loop_timer_add(loop, &f->switches, 0, 0, switch_due);
	if (r >= 0)
		r = start_collectors(f);
	return r < 0 ? trace(r) : 0;
}

void flight_switch(struct flight *f, uint64_t every_ns)
{
	f->our_last_ns = RECORDER_NEXT;
	f->switch_ns = every_ns;
}

void flight_arm(struct flight *f, int (*sample)(void *arg, bool on))
{
	f->sample = sample;
}

int flight_begin(struct flight *f)
{
	int r = recorder_begin(f->recorder, f->loop);

	if (r < 0)
		return trace(r);
	prefault_heap(RESERVE);
	f->running = true;
	collect(f, !f->sample);
	return f->switch_ns ? trace(loop_timer_set(&f->switches, f->switch_ns, f->switch_ns)) : 0;
}

int flight_new(const char *path, const struct recorder_options *options,
	       const struct flight_collect *collect, struct flight **ret_flight,
	       struct sink **ret_sink)
{
	struct flight *f;
	int r;

	prefault_one_heap();
	child_expendable(true);
	f = calloc(1, sizeof(*f));
	if (!f)
		return fail(-ENOMEM);
	f->path = path;
	f->collect = *collect;
	f->seconds.source.fd = f->armed.source.fd = f->switches.source.fd = -1;
	f->signals.fd = f->listener.fd = f->file = -1;
	for (size_t i = 0; i < CLIENTS; i++) {
		f->clients[i].source.fd = -1;
		f->clients[i].flight = f;
	}
	f->folder = getcwd(NULL, 0);
	r = recorder_new(options, &f->recorder, &f->sink);
	if (r < 0) {
		free(f->folder);
		free(f);
		return trace(r);
	}
	*ret_flight = f;
	*ret_sink = f->sink;
	return 0;
}

struct flight *flight_free(struct flight *f)
{
	int fd;

	if (!f)
		return NULL;
	(void)recorder_free(f->recorder); /* reports a snapshot in progress */
	for (size_t i = 0; i < CLIENTS; i++)
		if (f->clients[i].source.fd >= 0)
			drop_client(&f->clients[i]);
	if (f->loop) {
		stop_collectors(f);
		loop_timer_remove(f->loop, &f->armed);
		loop_timer_remove(f->loop, &f->switches);
		fd = f->listener.fd;
		loop_remove(f->loop, &f->listener);
		(void)fd_close(fd);
		signals_unwatch(f->loop, &f->signals);
	}
	(void)fd_close(f->file);
	free(f->folder);
	free(f);
	return NULL;
}
