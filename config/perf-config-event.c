/* perf-config-event.c - the events of a config: the leader (timebase) and its followers, which name
 * theirs alike.  See perf-config.h. */
#include <errno.h>
#include <string.h>

#include "config/perf-config-private.h"

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
	return perf_config_refuse(job, r, path, "%s", why);
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
		.counter = -1,
	};
	if (raw->has_type && raw->pmu_name)
		return refuse(job, -EINVAL, e, "raw_event", "type and pmu_name exclude each other");
	if (!raw->has_type && !raw->pmu_name)
		return refuse(job, -EINVAL, e, "raw_event",
			      "whose event? type or pmu_name is wanted");
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
	bool user = false, kernel = false, hv = false;

	for (size_t i = 0; i < e->n_modifiers; i++) {
		user |= e->modifiers[i] ==
			PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE;
		kernel |= e->modifiers[i] ==
			  PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL;
		hv |= e->modifiers[i] ==
		      PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR;
	}
	spec->exclude_user = spec->exclude_kernel = spec->exclude_hv = user || kernel || hv;
	spec->exclude_user &= !user;
	spec->exclude_kernel &= !kernel;
	spec->exclude_hv &= !hv;
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

static struct event event_of_timebase(const Pb__PerfEvents__Timebase *t)
{
	struct event e = {.path = "timebase"};

	if (!t)
		return e;
	e.is_counter = t->event_case == PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER;
	if (e.is_counter)
		e.counter = (int)t->counter;
	if (t->event_case == PB__PERF_EVENTS__TIMEBASE__EVENT_TRACEPOINT)
		e.tracepoint = t->tracepoint;
	if (t->event_case == PB__PERF_EVENTS__TIMEBASE__EVENT_RAW_EVENT)
		e.raw = t->raw_event;
	e.name = t->name;
	e.modifiers = t->modifiers;
	e.n_modifiers = t->n_modifiers;
	return e;
}

static struct event event_of_follower(const Pb__FollowerEvent *f, size_t index)
{
	struct event e = {
		.name = f->name, .modifiers = f->modifiers, .n_modifiers = f->n_modifiers};

	(void)snprintf(e.path, sizeof(e.path), "followers[%zu]", index);
	e.is_counter = f->event_case == PB__FOLLOWER_EVENT__EVENT_COUNTER;
	if (e.is_counter)
		e.counter = (int)f->counter;
	if (f->event_case == PB__FOLLOWER_EVENT__EVENT_TRACEPOINT)
		e.tracepoint = f->tracepoint;
	if (f->event_case == PB__FOLLOWER_EVENT__EVENT_RAW_EVENT)
		e.raw = f->raw_event;
	return e;
}

int perf_config_events(struct perf_config_job *job)
{
	struct perf_config *c = job->config;
	const Pb__PerfEventConfig *m = c->message;
	struct event e = event_of_timebase(m->timebase);
	int r;

	if (m->n_followers > PERF_MAX_FOLLOWERS)
		return perf_config_refuse(job, -EINVAL, "followers", "%zu of them: at most %d",
					  m->n_followers, PERF_MAX_FOLLOWERS);
	r = set_event(job, &e);
	for (size_t i = 0; r >= 0 && i < m->n_followers; i++) {
		e = event_of_follower(m->followers[i], i);
		r = set_event(job, &e);
	}
	c->options.specs = c->specs;
	c->options.n_specs = c->n_specs;
	return r < 0 ? trace(r) : 0;
}
