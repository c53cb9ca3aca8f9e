/* perf-config.c - mode, stacks, scope, limits, events and CPUs of a config; see perf-config.h.  The order of
 * the decisions is the reference's (protos/perf_config.proto has the fields). */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "config/perf-config.h"

/* One call of perf_config_new(). */
struct perf_config_job {
	const struct perf_config_env *env;
	struct perf_config *config;
	char *error;
	size_t error_size;
};

/* "FIELD: why" for the user; @r. */
static int refuse_field(struct perf_config_job *job, int r, const char *field, const char *format,
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
		return refuse_field(job, -EINVAL, field,
				    "polled counts have no stacks: remove callstack_sampling");
	if (m->all_cpus)
		return refuse_field(job, -EINVAL, field,
				    "polled counts have no stacks: remove all_cpus (the older "
				    "name of callstack_sampling)");
	if (m->ring_buffer_read_period_ms)
		return refuse_field(job, -EINVAL, field,
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
		return refuse_field(job, -EINVAL, "timebase.period",
				    "%llu is too large: %llu is the most",
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
	o->frames = m->kernel_frames || (c && c->kernel_frames) ? FRAMES_ALL : FRAMES_USER;
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
		return refuse_field(job, -EINVAL, "callstack_sampling.user_frames",
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
			return refuse_field(job, -errno, "process_shard_count",
					    "no random number: %s", strerror(errno));
		*share = (struct perf_config_share){count, random % count};
	} else if (share->count != count) {
		log_info("process_shard_count %u: the session's first data source has %u, which "
			 "applies",
			 count, share->count);
	}
	scope->shard_count = job->config->options.shard_count = share->count;
	scope->shard = job->config->options.shard = share->chosen;
	return 0;
}

/* Of a scope, or of a config, which had these fields before. */
#define SCOPE_OF(m)                                                            \
	((struct filter_scope){                                                \
		.target_cmdlines = (const char *const *)(m)->target_cmdline,   \
		.n_target_cmdlines = (m)->n_target_cmdline,                    \
		.exclude_cmdlines = (const char *const *)(m)->exclude_cmdline, \
		.n_exclude_cmdlines = (m)->n_exclude_cmdline,                  \
		.target_pids = (m)->target_pid,                                \
		.n_target_pids = (m)->n_target_pid,                            \
		.exclude_pids = (m)->exclude_pid,                              \
		.n_exclude_pids = (m)->n_exclude_pid,                          \
		.additional_cmdlines = (m)->additional_cmdline_count,          \
	})

/* Without stacks there is no scope: counters are the machine's. */
static int set_scope(struct perf_config_job *job)
{
	const Pb__PerfEventConfig *m = job->config->message;
	const Pb__PerfEventConfig__CallstackSampling *c = m->callstack_sampling;
	struct session_options *o = &job->config->options;
	struct filter_scope scope;
	int r = 0;

	if (m->n_target_installed_by)
		return refuse_field(job, -EINVAL, "target_installed_by",
				    "installers of programs are known on Android only");
	if (!c && !m->all_cpus)
		return 0;
	scope = c && c->scope ? SCOPE_OF(c->scope) : SCOPE_OF(m);
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
		return refuse_field(job, -EINVAL, "ring_buffer_pages", "%u is not a power of two",
				    m->ring_buffer_pages);
	o->ring_bytes = m->ring_buffer_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	o->read_ms = m->ring_buffer_read_period_ms;
	o->maps_wait_ms = m->remote_descriptor_timeout_ms ? m->remote_descriptor_timeout_ms
							  : PERF_CONFIG_MAPS_WAIT_MS;
	o->clear_ms = m->unwind_state_clear_period_ms ? m->unwind_state_clear_period_ms
						      : PERF_CONFIG_CLEAR_MS;
	o->memory_kb = m->max_daemon_memory_kb;
	o->enqueued_bytes = min_u64(m->max_enqueued_footprint_kb, UINT64_MAX >> 10) << 10;
	o->ignore_open_failure = m->ignore_open_failure;
	return 0;
}

/* ---- events: the leader (timebase) and its followers, which have the same fields ---- */

/* What leader and followers have in common. */
struct event {
	char path[48]; /* "followers[3]" */
	bool is_counter;
	int counter;
	const Pb__PerfEvents__Tracepoint *tracepoint;
	const Pb__PerfEvents__RawEvent *raw;
	const char *name;
	const Pb__PerfEvents__EventModifier *modifiers;
	size_t n_modifiers;
};

static int refuse(struct perf_config_job *job, int r, const struct event *e, const char *field,
		  const char *why)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s.%s", e->path, field);
	return refuse_field(job, r, path, "%s", why);
}

static int set_tracepoint(struct perf_config_job *job, const struct event *e,
			  struct perf_spec *spec)
{
	const struct perf_spec_env env = {job->env->root};
	const Pb__PerfEvents__Tracepoint *t = e->tracepoint;
	char why[256];
	int r;

	r = perf_spec_of_tracepoint(&env, t->name ? t->name : "", spec, why, sizeof(why));
	if (r < 0)
		return refuse(job, r, e, "tracepoint.name", why);
	if (!t->filter || !*t->filter)
		return 0;
	spec->filter = strdup(t->filter);
	return spec->filter ? 0 : fail(-ENOMEM);
}

static int set_raw(struct perf_config_job *job, const struct event *e, struct perf_spec *spec)
{
	const struct perf_spec_env env = {job->env->root};
	const Pb__PerfEvents__RawEvent *raw = e->raw;
	char why[256];
	int r = 0;

	*spec = (struct perf_spec){
		.type = raw->type,
		.config = raw->config,
		.config1 = raw->config1,
		.config2 = raw->config2,
		.code = FRAMES_ALL,
		.counter = -1,
	};
	if (raw->has_type && raw->pmu_name)
		return refuse(job, -EINVAL, e, "raw_event", "type and pmu_name exclude each other");
	if (!raw->has_type && !raw->pmu_name)
		return refuse(job, -EINVAL, e, "raw_event", "type or pmu_name is required");
	if (raw->pmu_name)
		r = perf_spec_pmu_type(&env, raw->pmu_name, &spec->type, why, sizeof(why));
	if (r < 0)
		return refuse(job, r, e, "raw_event.pmu_name", why);
	(void)snprintf(spec->name, sizeof(spec->name), "raw %.64s%s%llx",
		       raw->pmu_name ? raw->pmu_name : "", raw->pmu_name ? "/" : "",
		       (unsigned long long)raw->config);
	return 0;
}

static int set_counter(struct perf_config_job *job, const struct event *e, struct perf_spec *spec)
{
	int counter = e->is_counter ? e->counter : PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK;
	char why[64];

	if (perf_spec_of_counter(counter, spec) == 0) {
		/* A config does not ask for exactness, and the reference does not take it. */
		spec->precise_ip = 0;
		return 0;
	}
	(void)snprintf(why, sizeof(why), "there is no counter %d", counter);
	return refuse(job, -EINVAL, e, "counter", why);
}

/* What is counted; no modifier that is known: everything. */
static void set_modifiers(const struct event *e, struct perf_spec *spec)
{
	unsigned code = 0;

	for (size_t i = 0; i < e->n_modifiers; i++) {
		if (e->modifiers[i] >=
			    PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE &&
		    e->modifiers[i] <=
			    PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR)
			code |= 1u << (e->modifiers[i] - 1); /* frames.h */
	}
	spec->code = code ? code : FRAMES_ALL;
}

static int set_event(struct perf_config_job *job, const struct event *e)
{
	struct perf_config *c = job->config;
	struct perf_spec *spec = &c->specs[c->n_specs];
	int r;

	if (e->tracepoint)
		r = set_tracepoint(job, e, spec);
	else if (e->raw)
		r = set_raw(job, e, spec);
	else
		r = set_counter(job, e, spec);
	if (r < 0)
		return trace(r);
	c->n_specs++; /* from here on it is deinitialised with the config */
	set_modifiers(e, spec);
	spec->unnamed = !e->name || !*e->name;
	if (spec->unnamed)
		return 0;
	if (strlen(e->name) >= sizeof(spec->name))
		return refuse(job, -EINVAL, e, "name", "a name of more than 127 bytes");
	(void)snprintf(spec->name, sizeof(spec->name), "%s", e->name);
	return 0;
}

/* Of a timebase or a follower, with the names of its cases. */
#define EVENT_OF(m, CASE)                                                                     \
	((struct event){                                                                      \
		.is_counter = (m)->event_case == CASE##__EVENT_COUNTER,                       \
		.counter = (m)->event_case == CASE##__EVENT_COUNTER ? (int)(m)->counter : 0,  \
		.tracepoint =                                                                 \
			(m)->event_case == CASE##__EVENT_TRACEPOINT ? (m)->tracepoint : NULL, \
		.raw = (m)->event_case == CASE##__EVENT_RAW_EVENT ? (m)->raw_event : NULL,    \
		.name = (m)->name,                                                            \
		.modifiers = (m)->modifiers,                                                  \
		.n_modifiers = (m)->n_modifiers,                                              \
	})

static int set_events(struct perf_config_job *job)
{
	struct perf_config *c = job->config;
	const Pb__PerfEventConfig *m = c->message;
	struct event e = {.name = NULL};
	int r;

	if (m->n_followers > PERF_MAX_FOLLOWERS)
		return refuse_field(job, -EINVAL, "followers", "%zu given, at most %d are possible",
				    m->n_followers, PERF_MAX_FOLLOWERS);
	if (m->timebase)
		e = EVENT_OF(m->timebase, PB__PERF_EVENTS__TIMEBASE);
	(void)snprintf(e.path, sizeof(e.path), "timebase");
	r = set_event(job, &e);
	for (size_t i = 0; r >= 0 && i < m->n_followers; i++) {
		e = EVENT_OF(m->followers[i], PB__FOLLOWER_EVENT);
		(void)snprintf(e.path, sizeof(e.path), "followers[%zu]", i);
		r = set_event(job, &e);
	}
	c->options.specs = c->specs;
	c->options.n_specs = c->n_specs;
	return r < 0 ? trace(r) : 0;
}

/* ---- CPUs: those requested by number and by kind that are online ---- */

enum { CPUINFO_MAX = 16 << 20, CPUID_SIZE = 64 };

/* The identity of an ARM core as configs write it: implementer, part, variant, revision in hex, end
 * to end. Keys of /proc/cpuinfo: arch/arm64/kernel/cpuinfo.c. */
static const char *const cpuid_keys[] = {"CPU implementer", "CPU part", "CPU variant",
					 "CPU revision"};

struct cpuid {
	bool in_block, has[ARRAY_SIZE(cpuid_keys)];
	uint64_t cpu, parts[ARRAY_SIZE(cpuid_keys)];
};

/* "" where the machine does not report it; the parts that follow one that is missing do not count. */
static void cpuid_text(const struct cpuid *id, char text[static CPUID_SIZE])
{
	size_t len = 0;

	text[0] = 0;
	if (!id->has[0] || !id->has[1])
		return;
	for (size_t i = 0; i < ARRAY_SIZE(cpuid_keys) && id->has[i]; i++)
		len += (size_t)snprintf(text + len, CPUID_SIZE - len, "%llx",
					(unsigned long long)id->parts[i]);
}

/* One line "KEY : VALUE" of /proc/cpuinfo. */
static void cpuid_line(struct cpuid *id, char *line)
{
	char *colon = strchr(line, ':'), *value;
	size_t key_len;

	if (!colon)
		return;
	key_len = (size_t)(colon - line);
	while (key_len && (line[key_len - 1] == ' ' || line[key_len - 1] == '\t'))
		key_len--;
	line[key_len] = 0;
	value = colon + 1 + strspn(colon + 1, " \t");
	if (!strcmp(line, "processor")) {
		*id = (struct cpuid){0};
		id->in_block = parse_u64(value, 10, UINT32_MAX, &id->cpu) == 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cpuid_keys); i++)
		if (!strcmp(line, cpuid_keys[i]))
			id->has[i] = parse_u64(value, 0, UINT32_MAX, &id->parts[i]) == 0;
}

static bool cpuid_wanted(const Pb__PerfEventConfig *m, const struct cpuid *id)
{
	char text[CPUID_SIZE];

	cpuid_text(id, text);
	for (size_t i = 0; *text && i < m->n_cpuid; i++)
		if (!strncmp(text, m->cpuid[i], strlen(m->cpuid[i])))
			return true;
	return false;
}

/* Leaves in @cpus the CPUs with an identity that begins with one of message->cpuid. */
static int keep_by_cpuid(struct perf_config_job *job, uint32_t *cpus, size_t *n)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(freep) bool *keep = calloc(*n, sizeof(*keep));
	char path[4096], *at, *next;
	struct cpuid id = {0};
	size_t kept = 0;
	int r;

	(void)snprintf(path, sizeof(path), "%s/proc/cpuinfo", job->env->root);
	r = keep ? read_file(path, CPUINFO_MAX, &text, NULL) : fail(-ENOMEM);
	if (r < 0)
		return refuse_field(job, r, "cpuid", "%s: %s", path, strerror(-r));
	for (at = text; at; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		cpuid_line(&id, at);
		/* by its lines so far; the last word counts */
		for (size_t i = 0; id.in_block && i < *n; i++)
			if (cpus[i] == id.cpu)
				keep[i] = cpuid_wanted(job->config->message, &id);
	}
	for (size_t i = 0; i < *n; i++)
		if (keep[i])
			cpus[kept++] = cpus[i];
	*n = kept;
	return 0;
}

static void keep_targets(const Pb__PerfEventConfig *m, uint32_t *cpus, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++)
		for (size_t j = 0; j < m->n_target_cpu; j++)
			if (cpus[i] == m->target_cpu[j]) {
				cpus[kept++] = cpus[i];
				break;
			}
	*n = kept;
}

static int set_cpus(struct perf_config_job *job)
{
	struct perf_config *c = job->config;
	const Pb__PerfEventConfig *m = c->message;
	size_t n, n_online;
	int r = perf_online_cpus(&c->cpus, &n);

	if (r < 0)
		return trace(r);
	n_online = n;
	if (m->n_target_cpu)
		keep_targets(m, c->cpus, &n);
	if (!n)
		return refuse_field(job, -ENODEV, "target_cpu",
				    "none of these CPUs is online (%zu are)", n_online);
	if (m->n_cpuid) {
		r = keep_by_cpuid(job, c->cpus, &n);
		if (r < 0)
			return trace(r);
	}
	if (!n)
		return refuse_field(job, -ENODEV, "cpuid",
				    "no CPU of this machine matches (CPUs have an identity on "
				    "ARM only)");
	c->options.cpus = c->cpus;
	c->options.n_cpus = n;
	return 0;
}

/* ---- the whole config ---- */

static void perf_config_freep(struct perf_config **config)
{
	*config = perf_config_free(*config);
}

int perf_config_new(const struct perf_config_env *env, const Pb__PerfEventConfig *config,
		    struct perf_config **ret_config, char *error, size_t error_size)
{
	static int (*const steps[])(struct perf_config_job *) = {
		set_interval, set_stacks, set_scope, set_limits, set_events, set_cpus};
	static const Pb__PerfEventConfig none = PB__PERF_EVENT_CONFIG__INIT;
	_cleanup_(perf_config_freep) struct perf_config *c = calloc(1, sizeof(*c));
	struct perf_config_job job = {env, c, error, error_size};
	int r = c ? 0 : fail(-ENOMEM);

	*error = 0;
	if (r >= 0) {
		c->message = config ? config : &none;
		c->options.machine = true;
		c->options.code = FRAMES_ALL;
		c->options.idle = true; /* all of the machine's samples */
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
