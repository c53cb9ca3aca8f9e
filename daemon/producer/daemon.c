/* daemon.c - see daemon.h: the connection's events, the shared memory, the end.
 *
 * When the connection is lost, sessions are freed at once and without draining: no service reads their packets, and
 * the next connection begins without data sources. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "daemon/producer/instance.h"

/* linux.perf answers a stop when all is committed; the service does not wait for metatrace. */
static const struct producer_source sources[] = {
	{"linux.perf", true, true},
	{"perfetto.metatrace", false, false},
};

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
		producer_refuse(d->producer, "it sent no descriptor of its shared memory");
	else if (smb_attach(take_fd(owned), page_bytes, commit, d, &d->smb) < 0)
		producer_refuse(d->producer, "its shared memory cannot be used");
}

static void setup(void *arg, uint64_t id, const void *config, size_t len)
{
	instance_setup(arg, id, config, len);
}

static void start(void *arg, uint64_t id, const void *config, size_t len)
{
	instance_start(arg, id, config, len);
}

static void stop(void *arg, uint64_t id)
{
	instance_stop(arg, id);
}

static void flush(void *arg, uint64_t request, const uint64_t *ids, size_t n)
{
	instances_flush(arg, request, ids, n);
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
	policy_traced_of(&options->settings, options->lends, &d->policy);
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
	policy_traced_of(settings, d->options.lends, &d->policy);
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
