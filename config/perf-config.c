/* perf-config.c - mode, stacks, scope and limits of a config; see perf-config.h.  The order of the
 * decisions is the reference's (protos/perf_config.proto has the fields). */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "config/perf-config-private.h"

int perf_config_refuse(struct perf_config_job *job, int r, const char *field, const char *format,
		       ...)
{
	int n = snprintf(job->error, job->error_size, "%s: ", field);
	va_list ap;

	if (n > 0 && (size_t)n < job->error_size) {
		va_start(ap, format);
		(void)vsnprintf(job->error + n, job->error_size - (size_t)n, format, ap);
		va_end(ap);
	}
	return fail(r);
}

/* ---- when ---- */

static int clock_of(const Pb__PerfEvents__Timebase *timebase)
{
	switch (timebase && timebase->has_timestamp_clock ? timebase->timestamp_clock : 0) {
	case PB__PERF_EVENTS__PERF_CLOCK__PERF_CLOCK_REALTIME:
		return CLOCK_REALTIME;
	case PB__PERF_EVENTS__PERF_CLOCK__PERF_CLOCK_MONOTONIC:
		return CLOCK_MONOTONIC;
	case PB__PERF_EVENTS__PERF_CLOCK__PERF_CLOCK_BOOTTIME:
		return CLOCK_BOOTTIME;
	default:
		return CLOCK_MONOTONIC_RAW;
	}
}

static int set_polling(struct perf_config_job *job, uint32_t poll_ms)
{
	static const char field[] = "timebase.poll_period_ms";
	const Pb__PerfEventConfig *m = job->config->message;

	if (m->callstack_sampling)
		return perf_config_refuse(job, -EINVAL, field,
					  "what is polled has no stacks: callstack_sampling cannot "
					  "go with it");
	if (m->all_cpus)
		return perf_config_refuse(job, -EINVAL, field,
					  "what is polled has no stacks: all_cpus (the older word "
					  "for them) cannot go with it");
	if (m->ring_buffer_read_period_ms)
		return perf_config_refuse(job, -EINVAL, field,
					  "ring_buffer_read_period_ms cannot go with it");
	job->config->options.poll_ms = poll_ms;
	job->config->options.clock = CLOCK_BOOTTIME;
	return 0;
}

static int set_interval(struct perf_config_job *job)
{
	const Pb__PerfEventConfig *m = job->config->message;
	const Pb__PerfEvents__Timebase *t = m->timebase;
	struct session_options *o = &job->config->options;

	o->clock = clock_of(t);
	if (t && t->interval_case == PB__PERF_EVENTS__TIMEBASE__INTERVAL_POLL_PERIOD_MS &&
	    t->poll_period_ms)
		return set_polling(job, t->poll_period_ms);
	if (t && t->interval_case == PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD && t->period)
		o->period = t->period;
	else if (t && t->interval_case == PB__PERF_EVENTS__TIMEBASE__INTERVAL_FREQUENCY &&
		 t->frequency)
		o->frequency = t->frequency;
	else
		o->frequency = m->sampling_frequency ? m->sampling_frequency : PERF_CONFIG_HZ;
	/* The kernel takes it for a signed number and refuses the others without a reason. */
	if (o->period > INT64_MAX)
		return perf_config_refuse(
			job, -EINVAL, "timebase.period", "%llu is too large: %llu is the most",
			(unsigned long long)o->period, (unsigned long long)INT64_MAX);
	return 0;
}

/* ---- stacks ---- */

static int set_stacks(struct perf_config_job *job)
{
	const Pb__PerfEventConfig *m = job->config->message;
	const Pb__PerfEventConfig__CallstackSampling *c = m->callstack_sampling;
	struct session_options *o = &job->config->options;

	o->engine = UW_ENGINE_NATIVE;
	if (!c && !m->all_cpus) {
		o->frames = 0;
		return 0;
	}
	o->frames = FRAMES_USER;
	if (m->kernel_frames || (c && c->kernel_frames))
		o->frames |= FRAMES_KERNEL;
	switch (c && c->has_user_frames ? (int)c->user_frames : 0) {
	case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_UNKNOWN:
	case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_DWARF:
		return 0;
	case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_SKIP:
		o->frames &= FRAMES_KERNEL;
		return 0;
	case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_FRAME_POINTER:
		o->engine = UW_ENGINE_FP_COPY;
		return 0;
	case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_KERNEL_FRAME_POINTER:
		o->engine = UW_ENGINE_FP;
		return 0;
	default:
		return perf_config_refuse(job, -EINVAL, "callstack_sampling.user_frames",
					  "there is no unwind mode %d", (int)c->user_frames);
	}
}

/* ---- scope ---- */

static int choose_share(struct perf_config_job *job, uint32_t count, struct filter_scope *scope)
{
	struct perf_config_share own = {0}, *share = job->env->share ? job->env->share : &own;
	uint32_t random;

	if (!share->count) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return perf_config_refuse(job, -errno, "process_shard_count",
						  "no random number: %s", strerror(errno));
		*share = (struct perf_config_share){count, random % count};
	} else if (share->count != count) {
		log_info("process_shard_count %u: the session's first data source has chosen one "
			 "of %u, which counts",
			 count, share->count);
	}
	scope->shard_count = job->config->options.shard_count = share->count;
	scope->shard = job->config->options.shard = share->chosen;
	return 0;
}

static struct filter_scope legacy_scope(const Pb__PerfEventConfig *m)
{
	return (struct filter_scope){
		.target_cmdlines = (const char *const *)m->target_cmdline,
		.n_target_cmdlines = m->n_target_cmdline,
		.exclude_cmdlines = (const char *const *)m->exclude_cmdline,
		.n_exclude_cmdlines = m->n_exclude_cmdline,
		.target_pids = m->target_pid,
		.n_target_pids = m->n_target_pid,
		.exclude_pids = m->exclude_pid,
		.n_exclude_pids = m->n_exclude_pid,
		.additional_cmdlines = m->additional_cmdline_count,
	};
}

static struct filter_scope new_scope(const Pb__PerfEventConfig__Scope *s)
{
	return (struct filter_scope){
		.target_cmdlines = (const char *const *)s->target_cmdline,
		.n_target_cmdlines = s->n_target_cmdline,
		.exclude_cmdlines = (const char *const *)s->exclude_cmdline,
		.n_exclude_cmdlines = s->n_exclude_cmdline,
		.target_pids = s->target_pid,
		.n_target_pids = s->n_target_pid,
		.exclude_pids = s->exclude_pid,
		.n_exclude_pids = s->n_exclude_pid,
		.additional_cmdlines = s->additional_cmdline_count,
	};
}

/* Without stacks there is no scope: counters are the machine's. */
static int set_scope(struct perf_config_job *job)
{
	const Pb__PerfEventConfig *m = job->config->message;
	const Pb__PerfEventConfig__CallstackSampling *c = m->callstack_sampling;
	struct session_options *o = &job->config->options;
	struct filter_scope scope;
	int r = 0;

	if (m->n_target_installed_by)
		return perf_config_refuse(job, -EINVAL, "target_installed_by",
					  "who installed a program is known on Android only");
	if (!c && !m->all_cpus)
		return 0;
	scope = c && c->scope ? new_scope(c->scope) : legacy_scope(m);
	if (c && c->scope && c->scope->process_shard_count)
		r = choose_share(job, c->scope->process_shard_count, &scope);
	if (r >= 0)
		r = filter_new(&scope, &job->config->filter);
	if (r < 0)
		return trace(r);
	if (filter_is_empty(job->config->filter))
		return 0;
	o->wanted = filter_wanted;
	o->wanted_arg = job->config->filter;
	o->wanted_by_cmdline = filter_by_cmdline(job->config->filter);
	return 0;
}

/* ---- limits ---- */

static int set_limits(struct perf_config_job *job)
{
	const Pb__PerfEventConfig *m = job->config->message;
	struct session_options *o = &job->config->options;

	if (m->ring_buffer_pages && !is_power_of_two(m->ring_buffer_pages))
		return perf_config_refuse(job, -EINVAL, "ring_buffer_pages",
					  "%u is not a power of two", m->ring_buffer_pages);
	o->ring_bytes = m->ring_buffer_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	o->read_ms =
		m->ring_buffer_read_period_ms ? m->ring_buffer_read_period_ms : PERF_CONFIG_READ_MS;
	o->maps_wait_ms = m->remote_descriptor_timeout_ms ? m->remote_descriptor_timeout_ms
							  : PERF_CONFIG_MAPS_WAIT_MS;
	o->clear_ms = m->unwind_state_clear_period_ms ? m->unwind_state_clear_period_ms
						      : PERF_CONFIG_CLEAR_MS;
	o->memory_kb = m->max_daemon_memory_kb;
	o->enqueued_bytes = min_u64(m->max_enqueued_footprint_kb, UINT64_MAX >> 10) << 10;
	o->ignore_open_failure = m->ignore_open_failure;
	return 0;
}

/* ---- all ---- */

static void perf_config_freep(struct perf_config **config)
{
	*config = perf_config_free(*config);
}

int perf_config_new(const struct perf_config_env *env, const Pb__PerfEventConfig *config,
		    struct perf_config **ret_config, char *error, size_t error_size)
{
	static int (*const steps[])(struct perf_config_job *) = {
		set_interval, set_stacks,	  set_scope,
		set_limits,   perf_config_events, perf_config_cpus};
	static const Pb__PerfEventConfig none = PB__PERF_EVENT_CONFIG__INIT;
	_cleanup_(perf_config_freep) struct perf_config *c = calloc(1, sizeof(*c));
	struct perf_config_job job = {env, c, error, error_size};
	int r = c ? 0 : fail(-ENOMEM);

	*error = 0;
	if (r >= 0) {
		c->message = config ? config : &none;
		c->options.machine = true;
		c->options.idle = true; /* the machine's samples are all of them */
		c->options.features = env->features;
		c->options.proc_root = env->root;
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](&job);
	if (r < 0) {
		if (!*error)
			(void)snprintf(error, error_size, "perf_event_config: %s", strerror(-r));
		return trace(r);
	}
	*ret_config = take(c);
	return 0;
}

struct perf_config *perf_config_free(struct perf_config *c)
{
	if (!c)
		return NULL;
	(void)filter_free(c->filter);
	for (size_t i = 0; i < c->n_specs; i++)
		perf_spec_deinit(&c->specs[i]);
	free(c->cpus);
	free(c);
	return NULL;
}
