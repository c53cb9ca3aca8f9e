/* profile-event.c - what the defaults of a sequence say of its event: PerfSampleDefaults.timebase.
 * Numbers and names: protos/perf_config.proto; names as perf(1) and the trace format's own readers
 * show them. */
#include <inttypes.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/perf_config.pb-c.h"
#include "protos/perf_config.fields.h"
#include "protos/trace.fields.h"

static const char *const counter_names[] = {
	[PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK] = "cpu-clock",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS] = "page-faults",
	[PB__PERF_EVENTS__COUNTER__SW_TASK_CLOCK] = "task-clock",
	[PB__PERF_EVENTS__COUNTER__SW_CONTEXT_SWITCHES] = "context-switches",
	[PB__PERF_EVENTS__COUNTER__SW_CPU_MIGRATIONS] = "cpu-migrations",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS_MIN] = "minor-faults",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS_MAJ] = "major-faults",
	[PB__PERF_EVENTS__COUNTER__SW_ALIGNMENT_FAULTS] = "alignment-faults",
	[PB__PERF_EVENTS__COUNTER__SW_EMULATION_FAULTS] = "emulation-faults",
	[PB__PERF_EVENTS__COUNTER__SW_DUMMY] = "dummy",
	[PB__PERF_EVENTS__COUNTER__HW_CPU_CYCLES] = "cpu-cycles",
	[PB__PERF_EVENTS__COUNTER__HW_INSTRUCTIONS] = "instructions",
	[PB__PERF_EVENTS__COUNTER__HW_CACHE_REFERENCES] = "cache-references",
	[PB__PERF_EVENTS__COUNTER__HW_CACHE_MISSES] = "cache-misses",
	[PB__PERF_EVENTS__COUNTER__HW_BRANCH_INSTRUCTIONS] = "branch-instructions",
	[PB__PERF_EVENTS__COUNTER__HW_BRANCH_MISSES] = "branch-misses",
	[PB__PERF_EVENTS__COUNTER__HW_BUS_CYCLES] = "bus-cycles",
	[PB__PERF_EVENTS__COUNTER__HW_STALLED_CYCLES_FRONTEND] = "stalled-cycles-frontend",
	[PB__PERF_EVENTS__COUNTER__HW_STALLED_CYCLES_BACKEND] = "stalled-cycles-backend",
	[PB__PERF_EVENTS__COUNTER__HW_REF_CPU_CYCLES] = "ref-cycles",
};

static void event_set_counter(struct reader_event *event, uint64_t counter)
{
	const char *name = counter < ARRAY_SIZE(counter_names) ? counter_names[counter] : NULL;

	if (name)
		(void)snprintf(event->name, sizeof(event->name), "%s", name);
	else
		(void)snprintf(event->name, sizeof(event->name), "counter-%" PRIu64, counter);
	event->is_time = counter == PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK ||
			 counter == PB__PERF_EVENTS__COUNTER__SW_TASK_CLOCK;
	(void)snprintf(event->unit, sizeof(event->unit), "%s",
		       event->is_time ? "ns"
		       : counter == PB__PERF_EVENTS__COUNTER__HW_CPU_CYCLES ||
				       counter == PB__PERF_EVENTS__COUNTER__HW_REF_CPU_CYCLES
			       ? "cycles"
			       : "events");
}

void reader_event_default(struct reader_event *event)
{
	*event = (struct reader_event){0};
	event_set_counter(event, PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK);
}

static void event_set_other(struct reader_event *event)
{
	event->is_time = false;
	(void)snprintf(event->unit, sizeof(event->unit), "events");
}

static bool parse_tracepoint(struct reader_event *event, struct cursor c)
{
	struct wire_field f;

	event_set_other(event);
	while (wire_next(&c, &f))
		if (wire_is_bytes(&f, PERF_EVENTS__TRACEPOINT__NAME))
			(void)snprintf(event->name, sizeof(event->name), "%.*s",
				       (int)min_u64(f.len, 127), (const char *)f.data);
	return !c.bad;
}

static bool parse_raw(struct reader_event *event, struct cursor c)
{
	uint64_t values[PERF_EVENTS__RAW_EVENT__CONFIG2 + 1] = {0}; /* by field number */
	struct wire_field f;

	event_set_other(event);
	while (wire_next(&c, &f))
		if (f.number < ARRAY_SIZE(values) && wire_is(&f, f.number))
			values[f.number] = f.value;
	(void)snprintf(event->name, sizeof(event->name),
		       "raw.0x%" PRIx64 ".0x%" PRIx64 ".0x%" PRIx64 ".0x%" PRIx64,
		       values[PERF_EVENTS__RAW_EVENT__TYPE], values[PERF_EVENTS__RAW_EVENT__CONFIG],
		       values[PERF_EVENTS__RAW_EVENT__CONFIG1],
		       values[PERF_EVENTS__RAW_EVENT__CONFIG2]);
	return !c.bad;
}

/* ":u" and so on: what is counted, when not everything is. */
static void append_modifiers(struct reader_event *event, uint32_t modifiers)
{
	size_t len = strlen(event->name);

	if (!modifiers)
		return;
	(void)snprintf(
		event->name + len, sizeof(event->name) - len, ":%s%s%s",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE
			? "u"
			: "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL ? "k"
											       : "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR
			? "h"
			: "");
}

static void set_name(struct reader_event *event, const struct wire_field *name, uint32_t modifiers)
{
	if (name->len)
		(void)snprintf(event->name, sizeof(event->name), "%.*s",
			       (int)min_u64(name->len, 127), (const char *)name->data);
	append_modifiers(event, modifiers);
}

static bool parse_timebase(struct reader_event *event, struct cursor c)
{
	struct wire_field f, name = {0};
	uint32_t modifiers = 0;
	bool good = true;

	reader_event_default(event);
	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERF_EVENTS__TIMEBASE__PERIOD))
			event->period = f.value;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__FREQUENCY))
			event->frequency = f.value;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__COUNTER))
			event_set_counter(event, f.value);
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__TRACEPOINT))
			good &= parse_tracepoint(event, wire_message(&f));
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__RAW_EVENT))
			good &= parse_raw(event, wire_message(&f));
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__NAME))
			name = f;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__MODIFIERS) && f.value < 32)
			modifiers |= 1u << f.value;
	}
	set_name(event, &name, modifiers);
	return good && !c.bad;
}

/* The name of one more follower.  READER_BROKEN: damaged. */
static int add_follower(struct reader *r, struct cursor c, uint32_t *names, uint32_t *n)
{
	struct wire_field f, name = {0};
	struct reader_event event;
	uint32_t modifiers = 0;
	bool good = true;
	int e;

	reader_event_default(&event);
	while (wire_next(&c, &f)) {
		if (wire_is(&f, FOLLOWER_EVENT__COUNTER))
			event_set_counter(&event, f.value);
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__TRACEPOINT))
			good &= parse_tracepoint(&event, wire_message(&f));
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__RAW_EVENT))
			good &= parse_raw(&event, wire_message(&f));
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__NAME))
			name = f;
		else if (wire_is(&f, FOLLOWER_EVENT__MODIFIERS) && f.value < 32)
			modifiers |= 1u << f.value;
	}
	if (!good || c.bad)
		return READER_BROKEN;
	if (*n == READER_FOLLOWERS)
		return 0;
	set_name(&event, &name, modifiers);
	e = reader_string(r, event.name, strlen(event.name), &names[*n]);
	*n += e >= 0;
	return e < 0 ? trace(e) : 0;
}

int reader_event_parse(struct reader *r, struct reader_event *event, struct cursor c)
{
	uint32_t shard_count = 0, shard = 0, followers[READER_FOLLOWERS] = {0}, n = 0;
	struct wire_field f;
	bool good = true;
	int e = 0;

	reader_event_default(event);
	while (e == 0 && wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERF_SAMPLE_DEFAULTS__TIMEBASE))
			good &= parse_timebase(event, wire_message(&f));
		else if (wire_is(&f, PERF_SAMPLE_DEFAULTS__PROCESS_SHARD_COUNT))
			shard_count = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE_DEFAULTS__CHOSEN_PROCESS_SHARD))
			shard = (uint32_t)f.value;
		else if (wire_is_bytes(&f, PERF_SAMPLE_DEFAULTS__FOLLOWERS))
			e = add_follower(r, wire_message(&f), followers, &n);
	}
	event->shard_count = shard_count; /* behind: a timebase begins the event anew */
	event->shard = shard;
	event->n_followers = n;
	memcpy(event->followers, followers, n * sizeof(*followers));
	if (e < 0)
		return trace(e);
	return e || !good || c.bad ? READER_BROKEN : 0;
}
