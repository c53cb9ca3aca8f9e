/* writer-defaults.c - the two packets that begin a generation: what the events are, and the fixed
 * internings. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "trace/writer-private.h"

/* What the messages of one event point to. */
struct event_messages {
	Pb__PerfEvents__Tracepoint tracepoint;
	Pb__PerfEvents__RawEvent raw;
	Pb__PerfEvents__EventModifier modifiers[3];
	size_t n_modifiers;
};

static void fill_event(const struct writer_event *e, struct event_messages *m)
{
	pb__perf_events__tracepoint__init(&m->tracepoint);
	m->tracepoint.name = (char *)e->tracepoint;
	m->tracepoint.filter = (char *)(e->filter ? e->filter : "");
	pb__perf_events__raw_event__init(&m->raw);
	m->raw.has_type = m->raw.has_config = m->raw.has_config1 = m->raw.has_config2 = true;
	m->raw.type = e->raw_type;
	m->raw.config = e->raw_config;
	m->raw.config1 = e->raw_config1;
	m->raw.config2 = e->raw_config2;
	m->n_modifiers = 0;
	if (!e->exclude_user && !e->exclude_kernel && !e->exclude_hv)
		return;
	if (!e->exclude_user)
		m->modifiers[m->n_modifiers++] =
			PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE;
	if (!e->exclude_kernel)
		m->modifiers[m->n_modifiers++] =
			PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL;
	if (!e->exclude_hv)
		m->modifiers[m->n_modifiers++] =
			PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR;
}

static void fill_timebase(const struct writer_options *o, struct event_messages *m,
			  Pb__PerfEvents__Timebase *t)
{
	const struct writer_event *e = &o->leader;

	fill_event(e, m);
	if (o->poll_ms) {
		t->interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL_POLL_PERIOD_MS;
		t->poll_period_ms = o->poll_ms;
	} else if (o->frequency) {
		t->interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL_FREQUENCY;
		t->frequency = o->frequency;
	} else {
		t->interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD;
		t->period = o->period;
	}
	if (e->counter >= 0) {
		t->event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER;
		t->counter = (Pb__PerfEvents__Counter)e->counter;
	} else if (e->tracepoint) {
		t->event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_TRACEPOINT;
		t->tracepoint = &m->tracepoint;
	} else {
		t->event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_RAW_EVENT;
		t->raw_event = &m->raw;
	}
	t->name = e->name && *e->name ? (char *)e->name : NULL;
	t->modifiers = m->modifiers;
	t->n_modifiers = m->n_modifiers;
}

static void fill_follower(const struct writer_event *e, struct event_messages *m,
			  Pb__FollowerEvent *f)
{
	fill_event(e, m);
	pb__follower_event__init(f);
	if (e->counter >= 0) {
		f->event_case = PB__FOLLOWER_EVENT__EVENT_COUNTER;
		f->counter = (Pb__PerfEvents__Counter)e->counter;
	} else if (e->tracepoint) {
		f->event_case = PB__FOLLOWER_EVENT__EVENT_TRACEPOINT;
		f->tracepoint = &m->tracepoint;
	} else {
		f->event_case = PB__FOLLOWER_EVENT__EVENT_RAW_EVENT;
		f->raw_event = &m->raw;
	}
	f->name = e->name && *e->name ? (char *)e->name : NULL;
	f->modifiers = m->modifiers;
	f->n_modifiers = m->n_modifiers;
}

static int write_defaults_packet(struct writer *w)
{
	Pb__PerfEvents__Timebase timebase = PB__PERF_EVENTS__TIMEBASE__INIT;
	Pb__PerfSampleDefaults sample = PB__PERF_SAMPLE_DEFAULTS__INIT;
	Pb__TracePacketDefaults defaults = PB__TRACE_PACKET_DEFAULTS__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	_cleanup_(freep) struct event_messages *messages = NULL;
	_cleanup_(freep) Pb__FollowerEvent *followers = NULL;
	_cleanup_(freep) Pb__FollowerEvent **list = NULL;
	size_t n = w->options.n_followers;

	messages = calloc(n + 1, sizeof(*messages));
	followers = calloc(n + 1, sizeof(*followers));
	list = calloc(n + 1, sizeof(*list));
	if (!messages || !followers || !list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < n; i++) {
		fill_follower(&w->options.followers[i], &messages[i], &followers[i]);
		list[i] = &followers[i];
	}
	fill_timebase(&w->options, &messages[n], &timebase);
	sample.timebase = &timebase;
	sample.followers = list;
	sample.n_followers = n;
	sample.has_process_shard_count = sample.has_chosen_process_shard =
		w->options.shard_count > 0;
	sample.process_shard_count = w->options.shard_count;
	sample.chosen_process_shard = w->options.shard;
	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = writer_clock_id(w->options.clock);
	defaults.perf_sample_defaults = &sample;
	packet.has_timestamp = packet.has_timestamp_clock_id = packet.has_sequence_flags = true;
	packet.timestamp = writer_now(w);
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	packet.trace_packet_defaults = &defaults;
	return writer_packet(w, &packet);
}

static int write_fixed_internings(struct writer *w)
{
	Pb__InternedString empty = PB__INTERNED_STRING__INIT, *list[] = {&empty};
	Pb__InternedData interned = PB__INTERNED_DATA__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	empty.has_iid = empty.has_str = true;
	interned.build_ids = interned.mapping_paths = interned.function_names = list;
	interned.n_build_ids = interned.n_mapping_paths = interned.n_function_names = 1;
	packet.has_sequence_flags = true;
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	packet.interned_data = &interned;
	return writer_packet(w, &packet);
}

int writer_defaults(struct writer *w)
{
	int r;

	r = write_defaults_packet(w);
	if (r < 0)
		return trace(r);
	r = write_fixed_internings(w);
	return r < 0 ? trace(r) : 0;
}
