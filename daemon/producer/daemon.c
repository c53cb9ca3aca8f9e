/* daemon.c - see daemon.h: the instances of the data sources, the connection's events, the end.
 *
 * What each command does to it:
 *
 *            │ start           stop              the session ends by itself   all is committed
 *   ─────────┼──────────────────────────────────────────────────────────────────────────────────
 *   (none)   │ as setup+start  answered at once
 *   READY    │ ─► RUNNING      answered, gone
 *   RUNNING  │ nothing         ─► DRAINING       ─► SETTLING ─► ENDED
 *   DRAINING │ nothing         nothing           ─► SETTLING
 *   SETTLING │ nothing         (noted)                                        answered, gone
 *   ENDED    │ nothing         answered, gone
 *
 * DRAINING: the session processes the samples that were taken.  SETTLING: the session is gone, its packets still wait
 * for free chunks.  ENDED: the config was rejected, the session could not be opened, or it has stopped itself
 * (guardrail, error): the service has yet to send its stop.  A flush is answered when every instance that it names
 * has finished it, and not before the flushes before it: an answer covers all.
 *
 * Sink.  A session writes `Trace.packet` fields; each goes as one packet to the writer of its instance.  The
 * writer keeps packets that find no free chunk (up to the setting waiting-size), so a service that is late for
 * some milliseconds causes no loss.  Beyond that packets are lost, and a reader cannot decode what follows until
 * the incremental state is written again.  So all packets are dropped until half of the waiting room is free;
 * the first packet of the new state is the first one to pass, and has the mark of the loss.
 *
 * Flushes.  Their numbers grow by one; the queue is a ring of DAEMON_FLUSHES.  A service waits some seconds for an
 * answer and has at most a thousand flushes in progress, so only a faulty service fills the ring: its oldest
 * flush is then answered early.
 *
 * When the connection is lost, sessions are freed at once and without draining: no service reads their packets, and
 * the next connection begins without data sources. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "config/config.h"
#include "config/perf-config.h"
#include "daemon/policy/policy.h"
#include "daemon/producer/daemon.h"
#include "daemon/producer/producer.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "session/session.h"

/* linux.perf answers a stop when all is committed; the service does not wait for metatrace. */
static const struct producer_source sources[] = {
	{"linux.perf", true, true},
	{"perfetto.metatrace", false, false},
};

enum {
	DAEMON_TICK_MS = 100,
	DAEMON_SETTLE_MS = 1500, /* an answer waits so long for free chunks */
	DAEMON_FLUSHES = 1024,	 /* in progress; for one more the oldest is answered */
};
#define TRACED_OWNER UINT32_MAX /* of all sessions: the service does not report its clients */

enum instance_kind { INSTANCE_PERF, INSTANCE_METATRACE };
enum instance_state {
	INSTANCE_READY,
	INSTANCE_RUNNING,
	INSTANCE_DRAINING,
	INSTANCE_SETTLING,
	INSTANCE_ENDED
};

struct instance {
	struct daemon *daemon;
	struct instance *next;
	uint64_t id;
	enum instance_kind kind;
	enum instance_state state;
	bool stop_asked;
	Pb__DataSourceConfig *data_source; /* borrowed by config */
	struct perf_config *config;	   /* NULL: metatrace, or rejected */
	struct share *share;		   /* of its tracing session; NULL: it has none */
	uint32_t target_buffer;
	struct policy_traced policy; /* as it was at its start */
	struct session *session;
	uint64_t rate, stack_bytes; /* its part of settings.traced_*; 0 without a session */

	/* The session's packets go into the shared memory. */
	struct sink sink;
	struct smb_writer *writer;
	size_t max_waiting; /* bytes of it */
	bool lost;	    /* packets: all that follow, until incremental state is written again */
	bool renewing;	    /* the session was asked to do that */

	/* Flushes that wait for this instance, by number, oldest first; the session has finished the first
	 * n_through, which wait for free chunks until the deadline. */
	uint64_t flushes[DAEMON_FLUSHES];
	size_t n_flushes, n_through;
	uint64_t settle_by; /* CLOCK_MONOTONIC; 0: no wait */
};

/* Data sources of one tracing session that sample a share of the processes sample the same share. */
struct share {
	struct share *next;
	uint64_t tracing_session;
	size_t users;
	struct perf_config_share share;
};

struct daemon {
	struct daemon_options options;
	struct loop *loop;
	struct producer *producer;
	struct smb *smb; /* NULL: none yet */
	struct instance *instances;
	size_t n_instances;
	struct share *shares;
	struct policy_traced policy;
	struct policy_ids services;    /* policy_trusts_service() */
	struct session_shared *shared; /* of all sessions */
	struct loop_timer tick;	       /* runs while there are instances, and to the end */
	uint64_t stop_by;	       /* CLOCK_MONOTONIC; 0: not stopping */
	bool leaving, stopped;
	bool asked; /* instances_ask_committed(): not answered yet */

	/* Number n is at [n % DAEMON_FLUSHES], first <= n < next. */
	struct flush {
		uint64_t request;
		size_t left; /* instances that have yet to finish it */
	} flushes[DAEMON_FLUSHES];
	uint64_t first_flush, next_flush;
};

static void instance_settle(struct instance *in);
static size_t instance_waiting(const struct instance *in);

/* ---- the sink ---- */

/* Asks the service to report when it has taken the committed chunks. */
static void instances_ask_committed(struct daemon *d)
{
	if (d->asked)
		return;
	d->asked = true;
	(void)smb_commit(d->smb);
	producer_commit(d->producer, NULL, 0, 0, true);
}

enum { COUNTER_UNWIND_QUEUE = 4 }; /* PerfettoMetatrace.counter_id: a number of the public format */

/* There is room again: the session is asked to write its state again (sink.h), and does before its next sample. */
static void instance_renew(struct instance *in)
{
	if (in->lost && !in->renewing && instance_waiting(in) <= in->max_waiting / 2)
		in->renewing = in->sink.renew = true;
}

/* Can a reader decode this packet?  After a loss, only from the one on that begins the new state: the session clears
 * `renew` right before it. */
static bool is_decodable(struct instance *in)
{
	if (!in->lost)
		return true;
	instance_renew(in);
	if (!in->renewing || in->sink.renew)
		return false;
	in->lost = in->renewing = false;
	return true;
}

static int write_packet(struct instance *in, const void *packet, size_t len)
{
	int r;

	if (!is_decodable(in)) {
		in->sink.dropped++;
		return 0;
	}
	r = smb_writer_write(in->writer, packet, len);
	if (r < 0)
		return trace(r);
	if (r == SMB_DROPPED) {
		in->lost = true;
		in->sink.dropped++;
	}
	if (smb_writer_waiting(in->writer))
		instances_ask_committed(in->daemon);
	return 0;
}

static int sink_write(struct sink *sink, const void *data, size_t len)
{
	struct instance *in = container_of(sink, struct instance, sink);
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t n;
	int r = 0;

	sink->bytes += len;
	while (r >= 0 && sink_next_packet(&c, &packet, &n))
		r = write_packet(in, packet, n);
	return r < 0 ? trace(r) : 0;
}

static int sink_flush(struct sink *sink)
{
	struct instance *in = container_of(sink, struct instance, sink);
	int r = smb_writer_flush(in->writer);

	if (r == SMB_BEHIND)
		instances_ask_committed(in->daemon);
	return r < 0 ? trace(r) : 0;
}

static int instance_open_sink(struct instance *in)
{
	struct daemon *d = in->daemon;
	int r;

	if (!d->smb)
		return fail(-ENOTCONN);
	in->max_waiting = d->options.settings.waiting_size;
	r = smb_writer_new(d->smb, in->target_buffer, in->max_waiting, &in->writer);
	if (r < 0)
		return trace(r);
	in->sink = (struct sink){.write = sink_write, .flush = sink_flush};
	/* Before its first chunk: scraping looks at the chunks of registered writers only. */
	producer_register_writer(d->producer, smb_writer_id(in->writer), in->target_buffer);
	return 0;
}

static void instance_close_sink(struct instance *in)
{
	uint16_t id;

	if (!in->writer)
		return;
	id = smb_writer_id(in->writer);
	in->writer = smb_writer_free(in->writer);
	(void)smb_commit(in->daemon->smb); /* the chunk that it gave back */
	producer_unregister_writer(in->daemon->producer, id);
	if (in->sink.dropped)
		log_info("data source %lu: %lu packets were lost, as the tracing service's shared "
			 "memory was full; hint: a larger one (producers { shm_size_kb } in the "
			 "trace config, or --shmem-size)",
			 in->id, in->sink.dropped);
}

static size_t instance_waiting(const struct instance *in)
{
	return in->writer ? smb_writer_waiting(in->writer) : 0;
}

/* Samples between ring and sink, in all sessions: a stock producer has this counter, too. */
static int32_t in_flight(const struct daemon *d)
{
	uint64_t n = 0;

	for (const struct instance *in = d->instances; in; in = in->next)
		n += in->session ? session_in_flight(in->session) : 0;
	return (int32_t)min_u64(n, INT32_MAX);
}

/* One packet about ourselves, for metatrace. */
static void instance_write_metatrace(struct instance *in)
{
	uint8_t packet[64], metatrace[32], *p = metatrace, *end;

	p = pack_number(p, PERFETTO_METATRACE__COUNTER_ID, COUNTER_UNWIND_QUEUE);
	p = pack_number(p, PERFETTO_METATRACE__COUNTER_VALUE, (uint64_t)in_flight(in->daemon));
	p = pack_number(p, PERFETTO_METATRACE__THREAD_ID, (uint64_t)syscall(SYS_gettid));
	end = pack_number(packet, TRACE_PACKET__TIMESTAMP, clock_ns(CLOCK_BOOTTIME));
	end = pack_bytes(end, TRACE_PACKET__PERFETTO_METATRACE, metatrace, (size_t)(p - metatrace));
	if (write_packet(in, packet, (size_t)(end - packet)) < 0 || sink_flush(&in->sink) < 0)
		in->lost = true;
	/* These packets need no state: the next one may pass. */
	in->lost = in->renewing = false;
}

/* ---- answers to flushes ---- */

static struct flush *flush_at(struct daemon *d, uint64_t number)
{
	return &d->flushes[number % DAEMON_FLUSHES];
}

/* Answers the oldest flushes, up to the first that an instance has yet to finish. */
static void answer(struct daemon *d)
{
	for (; d->first_flush < d->next_flush; d->first_flush++) {
		struct flush *f = flush_at(d, d->first_flush);

		if (f->left)
			break;
		producer_commit(d->producer, NULL, 0, f->request, false);
	}
}

/* Flush @number is through in one instance. */
static void flush_through(struct daemon *d, uint64_t number)
{
	if (number < d->first_flush) /* answered early */
		return;
	flush_at(d, number)->left--;
	answer(d);
}

/* ---- shares ---- */

static int share_of(struct instance *in, uint64_t tracing_session)
{
	struct daemon *d = in->daemon;
	struct share *s = d->shares;

	while (s && s->tracing_session != tracing_session)
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return fail(-ENOMEM);
		s->tracing_session = tracing_session;
		s->next = d->shares;
		d->shares = s;
	}
	s->users++;
	in->share = s;
	return 0;
}

static void unshare(struct instance *in)
{
	struct share **at = &in->daemon->shares, *s = in->share;

	if (!s || --s->users)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

/* ---- the table ---- */

static struct instance *instance_find(const struct daemon *d, uint64_t id)
{
	struct instance *in = d->instances;

	while (in && in->id != id)
		in = in->next;
	return in;
}

/* Without an answer to the service. */
static void instance_free(struct instance *in)
{
	struct daemon *d = in->daemon;
	struct instance **at;

	in->session = session_free(in->session);
	instance_close_sink(in);
	for (size_t i = 0; i < in->n_flushes; i++)
		flush_through(d, in->flushes[i]);
	for (at = &d->instances; *at != in;)
		at = &(*at)->next;
	*at = in->next;
	d->n_instances--;
	(void)perf_config_free(in->config);
	(void)config_data_source_free(in->data_source);
	unshare(in);
	free(in);
}

/* A rejected config makes an instance, too: the service will start and stop it. */
static int take_config(struct instance *in, const Pb__DataSourceConfig *config, char *error,
		       size_t error_size)
{
	struct perf_config_env env = {"", in->daemon->options.features, NULL};
	int r;

	if (!config->target_buffer || config->target_buffer > UINT16_MAX) {
		(void)snprintf(error, error_size,
			       "target_buffer: %u is not a buffer of the service",
			       config->target_buffer);
		return fail(-EINVAL);
	}
	in->target_buffer = config->target_buffer;
	if (config->name && !strcmp(config->name, "perfetto.metatrace")) {
		in->kind = INSTANCE_METATRACE;
		return 0;
	}
	r = share_of(in, config->tracing_session_id);
	if (r < 0)
		return trace(r);
	env.share = &in->share->share;
	r = perf_config_new(&env, config->perf_event_config, &in->config, error, error_size);
	return r < 0 ? trace(r) : 0;
}

static void read_config(struct instance *in, const void *data, size_t len)
{
	char error[CONFIG_ERROR_SIZE] = "";
	int r = config_read_data_source(data, len, &in->data_source, error, sizeof(error));

	if (r >= 0)
		r = take_config(in, in->data_source, error, sizeof(error));
	if (r >= 0)
		return;
	log_error("data source %lu is rejected: %s", in->id, *error ? error : strerror(-r));
	in->state = INSTANCE_ENDED;
}

static struct instance *add_instance(struct daemon *d, uint64_t id, const void *config, size_t len)
{
	struct instance *in;

	if (d->n_instances >= d->options.settings.max_sources) {
		log_error(
			"data source %lu is rejected: the service has %zu data sources, as many as "
			"max-sources in /etc/perfwind.conf allows; raise it, then systemctl reload "
			"perfwind",
			id, d->n_instances);
		return NULL;
	}
	in = calloc(1, sizeof(*in));
	if (!in) {
		log_error("data source %lu is rejected: no memory", id);
		return NULL;
	}
	in->daemon = d;
	in->id = id;
	in->next = d->instances;
	d->instances = in;
	if (!d->n_instances++)
		(void)loop_timer_set(&d->tick, DAEMON_TICK_MS * NSEC_PER_MSEC,
				     DAEMON_TICK_MS * NSEC_PER_MSEC);
	read_config(in, config, len);
	return in;
}

static void setup(void *arg, uint64_t id, const void *config, size_t len)
{
	struct daemon *d = arg;
	if (d->stop_by || instance_find(d, id))
		log_verbose("data source %lu: a second setup, or one after the stop of the daemon: "
			    "ignored",
			    id);
	else
		(void)add_instance(d, id, config, len);
}

/* ---- start ---- */

static void session_done(void *arg)
{
	struct instance *in = arg;
	const char *why;

	if (session_error(in->session, &why) < 0)
		log_error("data source %lu has ended: %s", in->id, why);
	in->session = session_free(in->session);
	in->rate = in->stack_bytes = 0;
	in->state = INSTANCE_SETTLING;
	instance_settle(in);
}

static uint64_t waiting(void *instance)
{
	return instance_waiting(instance);
}

static bool shown(void *instance, uint32_t pid)
{
	const struct instance *in = instance;

	return policy_shows(&in->policy, "", pid);
}

/* The service does not report its clients, so the settings decide for all clients.  A restriction is recorded
 * in the trace. */
static int narrow(struct instance *in, struct session_options *so, char *error, size_t error_size)
{
	const struct policy_traced *p = &in->policy;

	for (size_t i = 0; i < so->n_specs; i++)
		if (!policy_event(p->kernel ? POLICY_ALL : POLICY_OWN, "traced-kernel",
				  &so->specs[i], error, error_size))
			return fail(-EPERM);
	if (!p->kernel && so->poll_ms) {
		(void)snprintf(
			error, error_size,
			"the daemon gives no counters of whole CPUs to a tracing service: see "
			"traced-kernel in /etc/perfwind.conf");
		return fail(-EPERM);
	}
	if (!p->kernel && so->frames & FRAMES_KERNEL)
		so->note = "kernel frames are left out: see traced-kernel in /etc/perfwind.conf "
			   "on the daemon's machine";
	if (!p->kernel)
		so->frames &= FRAMES_USER;
	if (!p->everyone) {
		so->allowed = shown;
		so->allowed_arg = in;
		so->consent_allows = true;
	}
	return 0;
}

/* ---- limits of all data sources together ---- */

/* The limits count for the service, which does not report its clients. */
static int limit(struct instance *in, const struct session_options *so, char *error,
		 size_t error_size)
{
	const struct settings *s = &in->daemon->options.settings;
	uint64_t rate = policy_session_rate(so, s->traced_rate), all_rates, all_bytes;
	uint64_t bytes = min_u64(rate, UINT32_MAX) * policy_stack_bytes(so);

	all_rates = min_u64(rate, UINT32_MAX);
	all_bytes = bytes;
	for (const struct instance *o = in->daemon->instances; o; o = o->next) {
		all_rates += o->rate;
		all_bytes += o->stack_bytes;
	}
	if (all_rates > s->traced_rate || all_bytes > s->traced_stack_bytes) {
		bool by_rate = all_rates > s->traced_rate;

		(void)snprintf(error, error_size,
			       "%lu %s a second of a CPU are asked for, %lu together with the data "
			       "sources that run, %u are allowed; lower the config's frequency, or "
			       "raise %s in /etc/perfwind.conf, then systemctl reload perfwind",
			       by_rate ? rate : bytes, by_rate ? "samples" : "bytes of stacks",
			       by_rate ? all_rates : all_bytes,
			       by_rate ? s->traced_rate : s->traced_stack_bytes,
			       by_rate ? "traced-rate" : "traced-stack-bytes");
		return fail(-EPERM);
	}
	in->rate = rate;
	in->stack_bytes = bytes;
	return 0;
}

static int open_session(struct instance *in, char *error, size_t error_size)
{
	struct session_options so = in->config->options;
	int r;

	in->policy = in->daemon->policy;
	r = narrow(in, &so, error, error_size);
	if (r >= 0)
		r = limit(in, &so, error, error_size);
	if (r < 0)
		return trace(r);
	so.producer = true;
	so.shared = in->daemon->shared;
	so.owner = TRACED_OWNER;
	so.holds = waiting;
	so.holds_arg = in;
	so.max_cpu_ppm = in->daemon->options.settings.recording_max_cpu * 10000;
	so.done = session_done;
	so.done_arg = in;
	r = session_new(&so, &in->sink, in->daemon->loop, &in->session, error, error_size);
	if (r < 0)
		return trace(r);
	r = session_start(in->session);
	if (r < 0)
		in->session = session_free(in->session);
	return r < 0 ? trace(r) : 0;
}

static void begin(struct instance *in)
{
	char error[512] = "";
	int r = instance_open_sink(in);

	if (r == -ENOTCONN)
		(void)snprintf(error, sizeof(error), "the tracing service has given no memory");
	if (r >= 0 && in->kind == INSTANCE_PERF)
		r = open_session(in, error, sizeof(error));
	if (r < 0) {
		log_error("data source %lu cannot start: %s", in->id,
			  *error ? error : strerror(-r));
		instance_close_sink(in);
		in->rate = in->stack_bytes = 0;
		in->state = INSTANCE_ENDED;
		return;
	}
	in->state = INSTANCE_RUNNING;
	if (in->kind == INSTANCE_METATRACE)
		instance_write_metatrace(in);
}

/* Old services send no setup: the start has the config. */
static void start(void *arg, uint64_t id, const void *config, size_t len)
{
	struct daemon *d = arg;
	struct instance *in = instance_find(d, id);

	if (d->stop_by)
		return;
	if (!in)
		in = add_instance(d, id, config, len);
	if (in && in->state == INSTANCE_READY)
		begin(in);
}

/* ---- the end ---- */

/* The answer to a stop; metatrace gives none (will_notify_on_stop). */
static void end_stopped(struct instance *in)
{
	if (in->kind == INSTANCE_PERF)
		producer_stopped(in->daemon->producer, in->id);
	instance_free(in);
}

static void settled(struct instance *in)
{
	instance_close_sink(in);
	in->state = INSTANCE_ENDED;
	if (in->stop_asked)
		end_stopped(in);
}

/* Chunks may have become free: continues what waited for them.  @in may be gone after it. */
static void instance_settle(struct instance *in)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!in->n_through && in->state != INSTANCE_SETTLING)
		return;
	if (!in->settle_by)
		in->settle_by = now + DAEMON_SETTLE_MS * NSEC_PER_MSEC;
	if (instance_waiting(in) && now < in->settle_by) {
		instances_ask_committed(in->daemon);
		return;
	}
	in->settle_by = 0;
	/* With the current chunk: a flush promises committed chunks, not only ones that can be scraped. */
	if (in->writer)
		(void)smb_writer_flush(in->writer);
	for (size_t i = 0; i < in->n_through; i++)
		flush_through(in->daemon, in->flushes[i]);
	in->n_flushes -= in->n_through;
	memmove(in->flushes, in->flushes + in->n_through, in->n_flushes * sizeof(*in->flushes));
	in->n_through = 0;
	if (in->state == INSTANCE_SETTLING)
		settled(in);
}

/* Ends its session, without a command. */
static void instance_end(struct instance *in)
{
	if (in->state != INSTANCE_RUNNING)
		return;
	if (in->session) {
		in->state = INSTANCE_DRAINING;
		session_stop(in->session);
		return;
	}
	instance_write_metatrace(in);
	in->state = INSTANCE_SETTLING;
	instance_settle(in);
}

static void stop(void *arg, uint64_t id)
{
	struct daemon *d = arg;
	struct instance *in = instance_find(d, id);

	if (!in) {
		/* Rejected, or gone: the service waits for the answer all the same. */
		producer_stopped(d->producer, id);
		return;
	}
	in->stop_asked = true;
	if (in->state == INSTANCE_READY || in->state == INSTANCE_ENDED)
		end_stopped(in);
	else
		instance_end(in);
}

/* ---- flushes ---- */

static void session_through(void *arg)
{
	struct instance *in = arg;

	if (in->n_through < in->n_flushes)
		in->n_through++;
	instance_settle(in);
}

/* false: the flush need not wait for it. */
static bool flush_instance(struct instance *in, uint64_t number)
{
	if (in->n_flushes == DAEMON_FLUSHES ||
	    (in->n_flushes && in->flushes[in->n_flushes - 1] == number)) /* named twice */
		return false;
	if (in->state == INSTANCE_READY || in->state == INSTANCE_ENDED)
		return false;
	if (in->session && session_flush(in->session, session_through, in) < 0)
		return false;
	in->flushes[in->n_flushes++] = number;
	return true;
}

static void flush(void *arg, uint64_t request, const uint64_t *ids, size_t n)
{
	struct daemon *d = arg;
	uint64_t number = d->next_flush;

	if (number - d->first_flush == DAEMON_FLUSHES) {
		flush_at(d, d->first_flush)->left = 0;
		answer(d);
	}
	/* One count is kept until all have begun: some end at once. */
	*flush_at(d, number) = (struct flush){.request = request, .left = 1};
	d->next_flush++;
	for (size_t i = 0; i < n; i++) {
		struct instance *in = instance_find(d, ids[i]);

		if (!in || !flush_instance(in, number))
			continue;
		flush_at(d, number)->left++;
		if (in->session)
			continue;
		if (in->kind == INSTANCE_METATRACE)
			instance_write_metatrace(in);
		in->n_through = in->n_flushes;
		instance_settle(in);
	}
	flush_through(d, number);
}

/* ---- all instances ---- */

/* Uses chunks that have become free, and gives the answers that waited for them.  Instances may be gone after it. */
static void instances_pump(struct daemon *d)
{
	struct instance *next;

	if (d->smb)
		(void)smb_pump(d->smb);
	for (struct instance *in = d->instances; in; in = next) {
		next = in->next;
		instance_renew(in);
		instance_settle(in);
	}
}

static void forget_all(struct daemon *d)
{
	while (d->instances)
		instance_free(d->instances);
	d->smb = smb_free(d->smb);
	d->first_flush = d->next_flush;
	(void)loop_timer_set(&d->tick, 0, 0);
}

static void report_stopped(struct daemon *d)
{
	if (d->stopped)
		return;
	d->stopped = true;
	d->options.stopped(d->options.arg);
}

/* ---- chunks ---- */

static int commit(void *arg, const struct smb_move *moves, size_t n)
{
	struct daemon *d = arg;

	producer_commit(d->producer, moves, n, 0, false);
	return 0;
}

/* The service has freed the committed chunks, if there were any.  It is asked again only when the answer made room,
 * else at the next tick. */
static void committed(void *arg)
{
	struct daemon *d = arg;
	size_t before = d->smb ? smb_waiting(d->smb) : 0;

	d->asked = false;
	if (!before)
		return;
	(void)smb_pump(d->smb);
	d->asked = smb_waiting(d->smb) >= before; /* until the tick */
	instances_pump(d);
}

/* ---- the connection ---- */

static bool trusts(void *arg, uint32_t uid)
{
	const struct daemon *d = arg;

	return policy_trusts_service(&d->services, uid);
}

static void serving(void *arg)
{
	struct daemon *d = arg;

	if (d->options.serving)
		d->options.serving(d->options.arg);
}

static void lost(void *arg)
{
	struct daemon *d = arg;

	forget_all(d);
	d->asked = false;
	if (d->stop_by)
		report_stopped(d);
	else if (d->options.lost)
		d->options.lost(d->options.arg);
}

static void left(void *arg)
{
	report_stopped(arg);
}

static void setup_tracing(void *arg, int fd, uint32_t page_bytes)
{
	struct daemon *d = arg;
	_cleanup_(fd_closep) int owned = fd;

	if (d->smb)
		producer_refuse(d->producer, "it sent a second shared memory");
	else if (owned < 0)
		producer_refuse(d->producer, "it sent no descriptor for the shared memory");
	else if (smb_attach(take_fd(owned), page_bytes, commit, d, &d->smb) < 0)
		producer_refuse(d->producer, "its shared memory cannot be used");
}

static void clear_incremental_state(void *arg, const uint64_t *ids, size_t n)
{
	struct daemon *d = arg;

	for (struct instance *in = d->instances; in; in = in->next) {
		bool named = false;

		for (size_t i = 0; i < n && !named; i++)
			named = ids[i] == in->id;
		/* After a loss the state is written again anyway. */
		if (named && in->session && !in->lost &&
		    session_clear_incremental_state(in->session) < 0)
			in->lost = true;
	}
}

static const struct producer_events events = {
	.trusts = trusts,
	.serving = serving,
	.lost = lost,
	.left = left,
	.setup_tracing = setup_tracing,
	.setup = setup,
	.start = start,
	.stop = stop,
	.flush = flush,
	.clear_incremental_state = clear_incremental_state,
	.committed = committed,
};

/* ---- time ---- */

static bool all_ended(const struct daemon *d)
{
	for (const struct instance *in = d->instances; in; in = in->next)
		if (in->state != INSTANCE_READY && in->state != INSTANCE_ENDED)
			return false;
	return true;
}

static int tick(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, tick);

	d->asked = false;
	if (d->smb)
		(void)smb_commit(d->smb);
	if (d->smb && smb_waiting(d->smb))
		instances_ask_committed(d);
	instances_pump(d);
	if (d->stop_by && !d->leaving && all_ended(d)) {
		d->leaving = true;
		if (!producer_leave(d->producer))
			report_stopped(d);
	}
	if (d->stop_by && clock_ns(CLOCK_MONOTONIC) > d->stop_by) {
		log_error(
			"the tracing service does not answer: the daemon ends without its answer");
		report_stopped(d);
	}
	if (!d->instances && !d->stop_by)
		(void)loop_timer_set(&d->tick, 0, 0);
	return 0;
}

void daemon_stop(struct daemon *d)
{
	struct instance *next;

	if (d->stop_by)
		return;
	d->stop_by = clock_ns(CLOCK_MONOTONIC) + DAEMON_STOP_MS * NSEC_PER_MSEC;
	for (struct instance *in = d->instances; in; in = next) {
		next = in->next;
		instance_end(in);
	}
	(void)loop_timer_set(&d->tick, 1, DAEMON_TICK_MS * NSEC_PER_MSEC);
}

/* ---- beginning and end ---- */

int daemon_new(const struct daemon_options *options, struct loop *loop, struct daemon **ret_daemon)
{
	struct producer_options po = {
		.socket = options->socket,
		.privileged = options->privileged,
		.name = options->producer_name,
		.shmem_page_bytes = options->settings.shmem_page,
		.shmem_bytes = options->settings.shmem_size,
		.sources = sources,
		.n_sources = ARRAY_SIZE(sources),
	};
	struct daemon *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return fail(-ENOMEM);
#ifdef M_ARENA_MAX
	/* Else each thread gets a heap of its own and leaves it half full. */
	(void)mallopt(M_ARENA_MAX, 2);
#endif
	d->options = *options;
	d->loop = loop;
	policy_traced_of(&options->settings, options->beyond_user, &d->policy);
	policy_services_of(&options->settings, &d->services);
	d->tick.source.fd = -1;
	r = loop_timer_add(loop, &d->tick, 0, 0, tick);
	if (r >= 0)
		r = session_shared_new(&d->shared);
	if (r >= 0)
		session_shared_set_consent(d->shared, options->consent);
	if (r >= 0)
		r = producer_new(&po, &events, d, loop, &d->producer);
	if (r < 0) {
		(void)daemon_free(d);
		return trace(r);
	}
	*ret_daemon = d;
	return 0;
}

struct daemon *daemon_free(struct daemon *d)
{
	if (!d)
		return NULL;
	if (d->producer)
		forget_all(d);
	d->producer = producer_free(d->producer);
	loop_timer_remove(d->loop, &d->tick);
	d->shared = session_shared_free(d->shared);
	free(d);
	return NULL;
}

void daemon_set_settings(struct daemon *d, const struct settings *settings)
{
	d->options.settings = *settings;
	policy_traced_of(settings, d->options.beyond_user, &d->policy);
	policy_services_of(settings, &d->services);
	producer_set_hints(d->producer, settings->shmem_page, settings->shmem_size);
}

size_t daemon_n_instances(const struct daemon *d)
{
	return d->n_instances;
}

struct session_shared *daemon_shared(const struct daemon *d)
{
	return d->shared;
}
