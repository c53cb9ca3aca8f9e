/* daemon-instance.c - one data source from setup to the answer to its stop.  Thread: main.
 * The table of states and commands is in daemon-private.h. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "config/config.h"
#include "daemon/producer/daemon-private.h"
#include "session/pipeline/adapt.h"

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

struct instance *instance_find(const struct daemon *d, uint64_t id)
{
	struct instance *in = d->instances;

	while (in && in->id != id)
		in = in->next;
	return in;
}

void instance_free(struct instance *in)
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
	unshare(in);
	free(in);
}

/* A config that is refused makes an instance too: the service will start and stop it. */
static int take_config(struct instance *in, const Pb__DataSourceConfig *config, char *error,
		       size_t error_size)
{
	struct perf_config_env env = {"", in->daemon->options.features, NULL};
	int r;

	if (!config->target_buffer || config->target_buffer > UINT16_MAX) {
		(void)snprintf(error, error_size, "target_buffer: %u is no buffer of the service",
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
	Pb__DataSourceConfig *config = NULL;
	char error[CONFIG_ERROR_SIZE] = "";
	int r = config_read_data_source(data, len, &config, error, sizeof(error));

	if (r >= 0)
		r = take_config(in, config, error, sizeof(error));
	(void)config_data_source_free(config);
	if (r >= 0)
		return;
	log_error("data source %lu is refused: %s", in->id, *error ? error : strerror(-r));
	in->state = INSTANCE_ENDED;
}

static struct instance *add_instance(struct daemon *d, uint64_t id, const void *config, size_t len)
{
	struct instance *in;

	if (d->n_instances >= d->options.settings.max_sources) {
		log_error(
			"data source %lu is refused: the service has %zu data sources, as many as "
			"max-sources in /etc/perfwind.conf allows; raise it, then systemctl reload "
			"perfwind",
			id, d->n_instances);
		return NULL;
	}
	in = calloc(1, sizeof(*in));
	if (!in) {
		log_error("data source %lu is refused: no memory", id);
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

void instance_setup(struct daemon *d, uint64_t id, const void *config, size_t len)
{
	if (d->stop_by || instance_find(d, id))
		log_verbose("data source %lu: set up again, or too late", id);
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

/* What whoever asks the service may see.  A step down is said, and kept in the trace. */
static int narrow(struct instance *in, struct session_options *so, char *error, size_t error_size)
{
	const struct policy_traced *p = &in->policy;

	for (size_t i = 0; i < so->n_specs; i++)
		if (!policy_event(p->kernel ? POLICY_ALL : POLICY_OWN, "traced-kernel",
				  &so->specs[i], error, error_size))
			return fail(-EPERM);
	if (!p->kernel && so->poll_ms) {
		(void)snprintf(error, error_size,
			       "counters of whole CPUs are not for everyone: /etc/perfwind.conf "
			       "has a say (traced-kernel)");
		return fail(-EPERM);
	}
	if (!p->kernel && so->frames & FRAMES_KERNEL)
		so->note = "frames of the kernel are left out: the daemon's settings do not show "
			   "them (traced-kernel)";
	if (!p->kernel)
		so->frames &= FRAMES_USER;
	if (!p->everyone) {
		so->allowed = shown;
		so->allowed_arg = in;
		so->consent_allows = true;
	}
	return 0;
}

/* ---- what all of them may cost ---- */

/* The kernel throttles neither: it samples a tracepoint or a fault as often as the machine makes it
 * happen, which is not known beforehand. */
static bool has_no_rate(const struct session_options *so)
{
	uint32_t type = so->specs[0].type;

	return !so->frequency && so->specs[0].weight == PERF_WEIGHT_EVENTS &&
	       (type == PERF_TYPE_TRACEPOINT || type == PERF_TYPE_SOFTWARE);
}

/* Samples a second of a CPU.  An event without a rate counts as a quarter of the limit. */
static uint64_t rate_of(const struct session_options *so, uint64_t limit)
{
	uint64_t rate;

	if (so->poll_ms)
		return 1000 / so->poll_ms + 1;
	rate = policy_rate(&so->specs[0], so->frequency, so->period);
	return has_no_rate(so) ? min_u64(rate, max_u64(limit / 4, 1)) : rate;
}

/* Bytes of a sample's stack, at most: the size is adapted while the session runs. */
static uint64_t stack_of(const struct session_options *so)
{
	if (so->poll_ms || !(so->frames & FRAMES_USER) || so->kernel_only ||
	    so->engine == UW_ENGINE_FP)
		return 0;
	return so->stack_bytes ? so->stack_bytes : ADAPT_MAX;
}

/* One service asks for all its readers, which we do not know: so the limits are the service's. */
static int limit(struct instance *in, const struct session_options *so, char *error,
		 size_t error_size)
{
	const struct settings *s = &in->daemon->options.settings;
	uint64_t rate = rate_of(so, s->traced_rate), all_rates, all_bytes;
	/* Neither overflows: a rate that is too large is refused before it is multiplied. */
	uint64_t bytes = min_u64(rate, UINT32_MAX) * stack_of(so);

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

/* Services of old know no setup: the start brings the config. */
void instance_start(struct daemon *d, uint64_t id, const void *config, size_t len)
{
	struct instance *in = instance_find(d, id);

	if (d->stop_by)
		return;
	if (!in)
		in = add_instance(d, id, config, len);
	if (in && in->state == INSTANCE_READY)
		begin(in);
}

/* ---- the end ---- */

/* Metatrace has promised no answer. */
static void gone(struct instance *in)
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
		gone(in);
}

void instance_settle(struct instance *in)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!in->n_through && in->state != INSTANCE_SETTLING)
		return;
	if (!in->settle_by)
		in->settle_by = now + DAEMON_SETTLE_MS * NSEC_PER_MSEC;
	if (instance_waiting(in) && now < in->settle_by) {
		daemon_ask_committed(in->daemon);
		return;
	}
	in->settle_by = 0;
	/* The chunk under way too: what a flush asks for is committed, not only to be scraped. */
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

void instance_end(struct instance *in)
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

void instance_stop(struct daemon *d, uint64_t id)
{
	struct instance *in = instance_find(d, id);

	if (!in) {
		/* One that was refused, or is gone: whoever waits for the answer gets it. */
		producer_stopped(d->producer, id);
		return;
	}
	in->stop_asked = true;
	if (in->state == INSTANCE_READY || in->state == INSTANCE_ENDED)
		gone(in);
	else
		instance_end(in);
}
