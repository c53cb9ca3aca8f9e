/* triggers.c - see triggers.h.
 *
 * max_per_24_h: a trigger keeps the times of its last max_per_24_h acceptances in a ring; it is refused while the
 * oldest of a full ring is younger than 24 hours. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "tracing/triggers.h"

#define DAY_NS (24 * 3600 * NSEC_PER_SEC)

struct trigger {
	const Pb__TraceConfig__TriggerConfig__Trigger *config;
	uint64_t *times; /* of max_per_24_h acceptances; NULL: no limit */
	uint32_t n, next;
};

struct triggers {
	size_t n;
	struct trigger list[];
};

static int refuse(char *error, size_t error_size, const char *format, ...) _printf_(3, 4);
static int refuse(char *error, size_t error_size, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error, error_size, format, ap);
	va_end(ap);
	return fail(-EINVAL);
}

bool triggers_wanted(const Pb__TraceConfig *config)
{
	return config->trigger_config && config->trigger_config->trigger_mode;
}

Pb__TraceConfig__TriggerConfig__TriggerMode triggers_mode(const Pb__TraceConfig *config)
{
	const Pb__TraceConfig__TriggerConfig *m = config->trigger_config;

	if (!triggers_wanted(config))
		return PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__UNSPECIFIED;
	if (m->trigger_mode == PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING &&
	    m->use_clone_snapshot_if_available)
		return PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT;
	return m->trigger_mode;
}

static int check_trigger(const Pb__TraceConfig__TriggerConfig *m, size_t i, char *error,
			 size_t size)
{
	const Pb__TraceConfig__TriggerConfig__Trigger *t = m->triggers[i];

	if (!t->name || !*t->name)
		return refuse(error, size,
			      "trigger_config.triggers[%zu].name: a trigger needs a name", i);
	if (strlen(t->name) > TRIGGER_NAME_MAX)
		return refuse(error, size, "trigger_config.triggers[%zu].name: more than %d bytes",
			      i, TRIGGER_NAME_MAX);
	if (t->producer_name_regex && *t->producer_name_regex)
		return refuse(error, size,
			      "trigger_config.triggers[%zu].producer_name_regex: without a tracing "
			      "service no producer sends triggers",
			      i);
	if (t->max_per_24_h > TRIGGER_LIMIT_MAX)
		return refuse(error, size,
			      "trigger_config.triggers[%zu].max_per_24_h: %u: at most %d", i,
			      t->max_per_24_h, TRIGGER_LIMIT_MAX);
	for (size_t j = 0; j < i; j++)
		if (!strcmp(m->triggers[j]->name, t->name))
			return refuse(error, size,
				      "trigger_config.triggers[%zu].name: triggers[%zu] is called "
				      "'%.64s' too",
				      i, j, t->name);
	return 0;
}

int triggers_check(const Pb__TraceConfig *config, char *error, size_t size)
{
	const Pb__TraceConfig__TriggerConfig *m = config->trigger_config;
	int r = 0;

	if (!triggers_wanted(config))
		return 0;
	if (m->trigger_mode != PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING &&
	    m->trigger_mode != PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING &&
	    m->trigger_mode != PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT)
		return refuse(error, size,
			      "trigger_config.trigger_mode: there are START_TRACING, STOP_TRACING "
			      "and CLONE_SNAPSHOT, and no mode %d",
			      (int)m->trigger_mode);
	if (config->duration_ms)
		return refuse(error, size,
			      "duration_ms: it excludes trigger_config (trigger_timeout_ms, "
			      "stop_delay_ms)");
	if (!m->trigger_timeout_ms)
		return refuse(
			error, size,
			"trigger_config.trigger_timeout_ms: the wait for a trigger needs an end");
	if (triggers_mode(config) !=
		    PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING &&
	    config->write_into_file)
		return refuse(error, size,
			      "write_into_file: STOP_TRACING and CLONE_SNAPSHOT keep nothing "
			      "before a trigger");
	if (!m->n_triggers || m->n_triggers > TRIGGERS_MAX)
		return refuse(error, size,
			      "trigger_config.triggers: there are %zu, and 1 to %d are needed",
			      m->n_triggers, TRIGGERS_MAX);
	for (size_t i = 0; r >= 0 && i < m->n_triggers; i++)
		r = check_trigger(m, i, error, size);
	return r < 0 ? trace(r) : 0;
}

int triggers_new(const Pb__TraceConfig__TriggerConfig *config, struct triggers **ret_triggers)
{
	struct triggers *t = calloc(1, sizeof(*t) + config->n_triggers * sizeof(t->list[0]));

	if (!t)
		return fail(-ENOMEM);
	for (; t->n < config->n_triggers; t->n++) {
		struct trigger *one = &t->list[t->n];

		one->config = config->triggers[t->n];
		if (!one->config->max_per_24_h)
			continue;
		one->times = calloc(one->config->max_per_24_h, sizeof(*one->times));
		if (!one->times) {
			(void)triggers_free(t);
			return fail(-ENOMEM);
		}
	}
	*ret_triggers = t;
	return 0;
}

struct triggers *triggers_free(struct triggers *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		free(t->list[i].times);
	free(t);
	return NULL;
}

static bool is_limited(const struct trigger *t, uint64_t now)
{
	return t->times && t->n == t->config->max_per_24_h && now - t->times[t->next] < DAY_NS;
}

static void note_time(struct trigger *t, uint64_t now)
{
	if (!t->times)
		return;
	t->times[t->next] = now;
	t->next = (t->next + 1) % t->config->max_per_24_h;
	if (t->n < t->config->max_per_24_h)
		t->n++;
}

enum trigger_verdict triggers_take(struct triggers *triggers, const char *name, uint64_t now,
				   double chance, uint32_t *ret_delay_ms)
{
	for (size_t i = 0; i < triggers->n; i++) {
		struct trigger *t = &triggers->list[i];

		if (strcmp(t->config->name, name))
			continue;
		if (chance < t->config->skip_probability)
			return TRIGGER_SKIPPED;
		if (is_limited(t, now))
			return TRIGGER_LIMITED;
		note_time(t, now);
		*ret_delay_ms = t->config->stop_delay_ms;
		return TRIGGER_ACCEPTED;
	}
	return TRIGGER_UNKNOWN;
}
