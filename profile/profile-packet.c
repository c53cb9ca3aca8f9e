/* profile-packet.c - bytes of a trace into packets, and what one packet adds.
 *
 * The order of things inside a packet is the format's: incremental state is cleared, then defaults,
 * then interned data, then the rest; so a packet's fields are gathered first and acted on after. */
#include <errno.h>
#include <math.h>
#include <inttypes.h>

#include <zlib.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/perf_config.fields.h"
#include "protos/perf_config.pb-c.h"
#include "protos/perfwind.fields.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"

/* ---- the event of a sequence ----
 *
 * What the defaults of a sequence say of its event: PerfSampleDefaults.timebase.
 * Numbers and names: protos/perf_config.proto; names as perf(1) and the trace format's own readers
 * show them. */

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

/* ":u" and so on: what is counted, when not everything is.  A name that ends in it already stays. */
static void append_modifiers(struct reader_event *event, uint32_t modifiers)
{
	size_t len = strlen(event->name), n;
	char suffix[8];

	if (!modifiers)
		return;
	(void)snprintf(
		suffix, sizeof(suffix), ":%s%s%s",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE
			? "u"
			: "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL ? "k"
											       : "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR
			? "h"
			: "");
	n = strlen(suffix);
	if (len < n || strcmp(event->name + len - n, suffix) != 0)
		(void)snprintf(event->name + len, sizeof(event->name) - len, "%s", suffix);
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

/* PerfSampleDefaults.  READER_BROKEN: damaged. */
static int reader_event_parse(struct reader *r, struct reader_event *event, struct cursor c)
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
	event->shard_count = shard_count; /* behind: a timebase begins the event again */
	event->shard = shard;
	event->n_followers = n;
	memcpy(event->followers, followers, n * sizeof(*followers));
	if (e < 0)
		return trace(e);
	return e || !good || c.bad ? READER_BROKEN : 0;
}

/* ---- packets ---- */

static int reader_inflate(struct reader *r, const struct wire_field *f);

enum {
	MAX_NOTES = 4096,
};

struct packet {
	uint64_t timestamp;
	uint32_t sequence, flags, clock;
	uint32_t dropped; /* bits: 1, and causes */
	struct wire_field interned, defaults, sample, snapshot, tree, symbols, stats, compressed,
		config, trace_stats, system_info, process_stats;
};

static bool packet_gather(struct packet *p, struct cursor c)
{
	struct wire_field f;

	*p = (struct packet){0};
	while (wire_next(&c, &f)) {
		if (f.wire == WIRE_BYTES) {
			struct wire_field *to =
				f.number == TRACE_PACKET__INTERNED_DATA		  ? &p->interned
				: f.number == TRACE_PACKET__PERF_SAMPLE		  ? &p->sample
				: f.number == TRACE_PACKET__TRACE_PACKET_DEFAULTS ? &p->defaults
				: f.number == TRACE_PACKET__CLOCK_SNAPSHOT	  ? &p->snapshot
				: f.number == TRACE_PACKET__PROCESS_TREE	  ? &p->tree
				: f.number == TRACE_PACKET__MODULE_SYMBOLS	  ? &p->symbols
				: f.number == TRACE_PACKET__PERFWIND_STATS	  ? &p->stats
				: f.number == TRACE_PACKET__COMPRESSED_PACKETS	  ? &p->compressed
				: f.number == TRACE_PACKET__TRACE_CONFIG	  ? &p->config
				: f.number == TRACE_PACKET__TRACE_STATS		  ? &p->trace_stats
				: f.number == TRACE_PACKET__SYSTEM_INFO		  ? &p->system_info
				: f.number == TRACE_PACKET__PROCESS_STATS ? &p->process_stats
									  : NULL;

			if (to)
				*to = f;
		} else if (f.number == TRACE_PACKET__TIMESTAMP) {
			p->timestamp = f.value;
		} else if (f.number == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID) {
			p->sequence = (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__SEQUENCE_FLAGS) {
			p->flags |= (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__INCREMENTAL_STATE_CLEARED && f.value) {
			p->flags |= PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
		} else if (f.number == TRACE_PACKET__PREVIOUS_PACKET_DROPPED) {
			p->dropped = (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__TIMESTAMP_CLOCK_ID) {
			p->clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		}
	}
	return !c.bad;
}

/* ---- sequences ---- */
static int get_sequence(struct reader *r, uint32_t id, struct sequence **ret)
{
	uint64_t index;
	int e;

	if (!table_get(&r->sequence_by_id, id, &index)) {
		e = ROOM_FOR_ONE(r->sequences, r->n_sequences, r->room_sequences);
		if (e >= 0)
			e = reader_hold(r, HELD_SEQUENCES, 0, sizeof(*r->sequences));
		if (e >= 0)
			e = reader_put(r, HELD_SEQUENCES, &r->sequence_by_id, id,
				       r->n_sequences + 1);
		if (e < 0)
			return trace(e);
		r->sequences[r->n_sequences] = (struct sequence){.id = id, .session = UINT8_MAX};
		reader_event_default(&r->sequences[r->n_sequences].event);
		index = ++r->n_sequences;
	}
	*ret = &r->sequences[index - 1];
	return 0;
}

static int read_defaults(struct reader *r, struct sequence *s, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (e == 0 && wire_next(&c, &f)) {
		if (wire_is(&f, TRACE_PACKET_DEFAULTS__TIMESTAMP_CLOCK_ID))
			s->default_clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is_bytes(&f, TRACE_PACKET_DEFAULTS__PERF_SAMPLE_DEFAULTS))
			e = reader_event_parse(r, &s->event, wire_message(&f));
	}
	return !e && c.bad ? READER_BROKEN : e;
}

/* Clears, defaults, interned data. */
static int update_sequence(struct reader *r, struct sequence *s, const struct packet *p)
{
	int e;

	if (p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED) {
		sequence_forget(r, s);
		s->valid = true;
	} else if (p->dropped) {
		s->valid = false;
	}
	e = p->defaults.data ? read_defaults(r, s, wire_message(&p->defaults)) : 0;
	if (e)
		return e;
	if (p->defaults.data && s->session != UINT8_MAX)
		r->events[s->session] = s->event;
	if (p->interned.data && s->valid)
		return reader_interned_data(r, s, wire_message(&p->interned));
	if (p->interned.data)
		return reader_count_add(r, STAT_interned_data_skipped_incremental_state_invalid, -1,
					1);
	return 0;
}

/* ---- samples ---- */
static uint8_t session_of(struct reader *r, struct sequence *s)
{
	if (s->session == UINT8_MAX) {
		/* More than anyone runs at a time share the last number. */
		s->session = (uint8_t)min_u64(r->n_sessions, UINT8_MAX - 1);
		if (r->n_sessions < UINT8_MAX - 1)
			r->n_sessions++;
		r->events[s->session] = s->event;
	}
	return s->session;
}

/* What is read of a sample's message. */
struct read_sample {
	struct profile_sample sample;
	struct raw_sample raw;
	uint32_t pid, tid, cpu;
};

static int add_sample(struct reader *r, struct sequence *s, const struct packet *p,
		      struct read_sample *read)
{
	struct profile *profile = r->profile;
	uint32_t clock = p->clock	    ? p->clock
			 : s->default_clock ? s->default_clock
					    : CLOCK_ID_BOOTTIME;
	int e;

	e = reader_hold(r, HELD_SAMPLES, 1, sizeof(read->sample) + sizeof(read->raw));
	if (e >= 0)
		e = ROOM_FOR_ONE(profile->samples, profile->n_samples, r->room_samples);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->raw, profile->n_samples, r->room_raw);
	if (e < 0)
		return trace(e);
	if (profile->n_samples >= UINT32_MAX)
		return fail(-E2BIG);
	read->sample.time = reader_sequence_time(s, &clock, p->timestamp);
	read->sample.cpu = (uint16_t)min_u64(read->cpu, UINT16_MAX);
	read->raw.clock = (uint8_t)min_u64(clock, UINT8_MAX);
	read->raw.sequence = (uint32_t)(s - r->sequences);
	e = reader_place_sample(r, s->id, read->pid, read->tid, &read->sample);
	if (e < 0)
		return trace(e);
	r->raw[profile->n_samples] = read->raw;
	profile->samples[profile->n_samples++] = read->sample;
	return 0;
}

/* What a sample without a stack, or with a broken one, counts as. */
static int count_sample(struct reader *r, const struct profile_sample *sample, bool has_stack)
{
	switch (sample->skipped_reason) {
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_READ_STAGE:
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_UNWIND_STAGE:
		return reader_count_add(r, STAT_perf_samples_skipped, -1, 1);
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_UNWIND_ENQUEUE:
		return reader_count_add(r, STAT_perf_samples_skipped_dataloss, -1, 1);
	default:
		break;
	}
	switch (sample->stack) {
	case UINT32_MAX:
		return has_stack
			       ? reader_count_add(r, STAT_stackprofile_invalid_callstack_id, -1, 1)
			       : 0;
	case STACK_EMPTY:
		return reader_count_add(r, STAT_stackprofile_empty_callstack, -1, 1);
	case STACK_BROKEN:
		return reader_count_add(r, STAT_stackprofile_invalid_frame_id, -1, 1);
	default:
		return 0;
	}
}

/* News of the producer: what the kernel lost, and that it gave up. */
static int read_news(struct reader *r, struct sequence *s, const struct packet *p, uint32_t cpu,
		     uint64_t lost, const struct wire_field *event)
{
	struct cursor c = wire_message(event);
	struct wire_field f;
	int e = 0;

	r->profile->lost_records += lost;
	r->guardrail |= event->data != NULL;
	if (lost)
		return reader_count_add(r, STAT_perf_cpu_lost_records, (int32_t)cpu, lost);
	while (!e && wire_next(&c, &f))
		if (wire_is(&f, PERF_SAMPLE__PRODUCER_EVENT__SOURCE_STOP_REASON) &&
		    f.value ==
			    PB__PERF_SAMPLE__PRODUCER_EVENT__DATA_SOURCE_STOP_REASON__PROFILER_STOP_GUARDRAIL)
			e = reader_count_set(r, STAT_perf_guardrail_stop_ts, session_of(r, s),
					     p->timestamp);
	return e;
}

static int read_sample(struct reader *r, struct sequence *s, const struct packet *p)
{
	struct read_sample read = {.sample.stack = UINT32_MAX};
	struct cursor c = wire_message(&p->sample);
	uint64_t lost = 0;
	struct wire_field f, event = {0};
	bool has_stack = false;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERF_SAMPLE__CPU))
			read.cpu = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__PID))
			read.pid = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__TID))
			read.tid = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__CALLSTACK_IID)) {
			has_stack = true;
			(void)iids_get(&s->callstacks, f.value, &read.sample.stack);
		} else if (wire_is(&f, PERF_SAMPLE__CPU_MODE))
			read.sample.cpu_mode = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, PERF_SAMPLE__TIMEBASE_COUNT)) {
			read.sample.weight = f.value;
			read.raw.has_count = true;
		} else if (wire_is(&f, PERF_SAMPLE__FOLLOWER_COUNTS)) {
			e = reader_follower_count(r, &read.raw, f.value);
			if (e < 0)
				return trace(e);
		} else if (wire_is(&f, PERF_SAMPLE__UNWIND_ERROR))
			read.sample.unwind_error = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, PERF_SAMPLE__KERNEL_RECORDS_LOST))
			lost = f.value;
		else if (wire_is(&f, PERF_SAMPLE__SAMPLE_SKIPPED_REASON))
			read.sample.skipped_reason = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is_bytes(&f, PERF_SAMPLE__PRODUCER_EVENT))
			event = f;
	}
	if (c.bad)
		return READER_BROKEN;
	if (lost || event.data) /* no sample */
		return read_news(r, s, p, read.cpu, lost, &event);
	e = count_sample(r, &read.sample, has_stack);
	if (e < 0)
		return trace(e);
	if (read.sample.stack >= STACK_BROKEN)
		read.sample.stack = UINT32_MAX;
	read.sample.session = session_of(r, s);
	return add_sample(r, s, p, &read);
}

/* ---- statistics ---- */

/* A count of one session: those of all sequences are added up.  Of other figures the last one stays. */
static bool is_added_up(const char *name)
{
	static const char *const prefixes[] = {"stacks.", "lost.", "skipped.", "frames", "waits"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(name, "samples") || !strcmp(name, "idle");
}

/* What @sequence has added to the sum at @index gives way to @value. */
static int replace_stat(struct reader *r, uint32_t sequence, uint64_t index, double value)
{
	struct profile_stat *stat = &r->profile->stats[index];
	uint64_t key = (uint64_t)sequence << 32 | stat->name, bits = 0;
	double before = 0;

	if (!is_added_up(string_table_text(&r->profile->strings, stat->name))) {
		stat->value = value;
		return 0;
	}
	if (!isfinite(value))
		return 0;
	if (table_get(&r->stat_of_sequence, key, &bits))
		memcpy(&before, &bits, sizeof(before));
	stat->value += value - before;
	memcpy(&bits, &value, sizeof(bits));
	return reader_put(r, HELD_STATS, &r->stat_of_sequence, key, bits);
}

static int read_stat(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct profile *profile = r->profile;
	struct profile_stat stat = {0};
	struct wire_field f;
	uint64_t index;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_STATS__STAT__NAME)) {
			e = reader_string(r, f.data, f.len, &stat.name);
			if (e < 0)
				return trace(e);
		} else if (wire_is(&f, PERFWIND_STATS__STAT__VALUE) && f.wire == WIRE_64) {
			memcpy(&stat.value, &f.value, sizeof(stat.value));
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!stat.name)
		return 0;
	if (table_get(&r->stat_by_name, stat.name, &index))
		return replace_stat(r, sequence, index, stat.value);
	e = ROOM_FOR_ONE(profile->stats, profile->n_stats, r->room_stats);
	if (e >= 0)
		e = reader_put(r, HELD_STATS, &r->stat_by_name, stat.name, profile->n_stats);
	if (e < 0)
		return trace(e);
	profile->stats[profile->n_stats++] = (struct profile_stat){.name = stat.name};
	return replace_stat(r, sequence, profile->n_stats - 1, stat.value);
}

int reader_note(struct reader *r, const char *text, size_t len)
{
	struct profile *profile = r->profile;
	uint64_t index;
	uint32_t id;
	int e;

	if (profile->n_notes >= MAX_NOTES)
		return 0;
	e = reader_string(r, text, len, &id);
	if (e < 0)
		return trace(e);
	if (table_get(&r->note_by_text, id, &index))
		return 0;
	e = ROOM_FOR_ONE(profile->notes, profile->n_notes, r->room_notes);
	if (e < 0)
		return trace(e);
	e = table_put(&r->note_by_text, id, profile->n_notes);
	if (e < 0)
		return trace(e);
	profile->notes[profile->n_notes++] = id;
	return 0;
}

static int read_stats(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_STATS__STATS))
			e = read_stat(r, sequence, wire_message(&f));
		else if (wire_is_bytes(&f, PERFWIND_STATS__NOTES))
			e = reader_note(r, (const char *)f.data, f.len);
		else if (wire_is_bytes(&f, PERFWIND_STATS__BEGIN))
			e = reader_begin_mark(r, wire_message(&f));
		else if (wire_is_bytes(&f, PERFWIND_STATS__END))
			e = reader_end_mark(r, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}

/* ---- a packet ---- */
static int count_on_sequence(struct reader *r, struct sequence *s, const struct packet *p,
			     bool is_first)
{
	/* Before the first packet that is there, a hole is no news. */
	if (p->dropped && !is_first) {
		s->dropped++;
		for (size_t i = 0; i < DROP_CAUSES; i++)
			s->causes[i] += p->dropped >> (i + 1) & 1;
	}
	if (!(p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE))
		return 0;
	s->needs++;
	if (s->valid)
		return 0;
	s->unmet++;
	return reader_count_add(r, STAT_packet_skipped_seq_needs_incremental_state_invalid, -1, 1);
}

static int act_on_sequence(struct reader *r, const struct packet *p)
{
	size_t n_before = r->n_sequences;
	struct sequence *s = NULL;
	int e;

	if (p->flags || p->dropped || p->defaults.data || p->interned.data || p->sample.data ||
	    p->snapshot.data) {
		e = get_sequence(r, p->sequence, &s);
		if (e < 0)
			return trace(e);
		e = update_sequence(r, s, p);
		if (!e)
			e = count_on_sequence(r, s, p, r->n_sequences > n_before);
		if (e)
			return e < 0 ? trace(e) : e;
	}
	if (p->snapshot.data) {
		e = reader_clock_snapshot(r, s, wire_message(&p->snapshot));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	if (!p->sample.data)
		return 0;
	if (p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE && !s->valid) {
		r->without_state++;
		return 0;
	}
	return read_sample(r, s, p);
}

static int reader_packet(struct reader *r, const uint8_t *data, size_t len)
{
	struct packet p;
	int e;

	e = reader_hold(r, HELD_PACKETS, 1, 0);
	if (e < 0)
		return trace(e);
	if (!packet_gather(&p, cursor_of(data, len)))
		return READER_BROKEN;
	if (p.compressed.data)
		return reader_inflate(r, &p.compressed);
	r->marked.packets++;
	e = act_on_sequence(r, &p);
	if (!e && p.tree.data)
		e = reader_process_tree(r, p.sequence, wire_message(&p.tree));
	if (!e && p.symbols.data)
		e = reader_module_symbols(r, wire_message(&p.symbols));
	if (!e && p.stats.data)
		e = read_stats(r, p.sequence, wire_message(&p.stats));
	if (!e && p.config.data)
		e = reader_trace_config(r, wire_message(&p.config));
	if (!e && p.trace_stats.data)
		e = reader_trace_stats(r, wire_message(&p.trace_stats));
	if (!e && p.system_info.data)
		e = reader_system_info(r, wire_message(&p.system_info));
	if (!e && p.process_stats.data)
		e = reader_process_stats(r, wire_message(&p.process_stats));
	return e < 0 ? trace(e) : e;
}

/* ---- bytes ----
 *
 * Bytes of a trace, as they come, into packets.
 *
 * What comes is looked at where it is; only the packet that is not whole yet is kept.  A compressed
 * packet goes through a stream of its own, as it unpacks: neither is ever there as a whole. */

enum {
	HEAD_MAX = 20,	       /* bytes of two varints */
	MAX_PACKET = 32 << 20, /* writers keep below 1 MiB */
	PIECE = 128 << 10,
};

struct inflater {
	z_stream z;
	uint8_t piece[PIECE];
};

void reader_stream_deinit(struct reader *r)
{
	if (r->inflater)
		(void)inflateEnd(&r->inflater->z);
	free(take(r->inflater));
	buffer_deinit(&r->outer.held);
	buffer_deinit(&r->inner.held);
}

/* Where the packet at [data, data + left) has its body.  Nothing else than packets has ever stood
 * there; to be strict distinguishes foreign files from damaged ones.  READER_BROKEN: it is none; *ret_head 0:
 * more bytes are needed to know. */
static int packet_head(const uint8_t *data, size_t left, size_t *ret_head, uint64_t *ret_len)
{
	struct cursor c = cursor_of(data, left);
	uint64_t tag = cursor_uleb(&c), len = 0;

	*ret_head = 0;
	*ret_len = 0;
	if (!c.bad && tag != (TRACE__PACKET << 3 | WIRE_BYTES))
		return READER_BROKEN;
	if (!c.bad)
		len = cursor_uleb(&c);
	if (c.bad)
		return left < HEAD_MAX ? 0 : READER_BROKEN;
	*ret_head = left - cursor_left(&c);
	*ret_len = len;
	return 0;
}

/* The whole packets of @data.  *ret_used: their bytes. */
static int take_packets(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len,
			size_t *ret_used)
{
	size_t used = 0, head;
	uint64_t body;
	int e = 0;

	while (!e && used < len) {
		e = packet_head(data + used, len - used, &head, &body);
		if (e || !head)
			break;
		if (body > MAX_PACKET) { /* damage, or a bound: its end will tell */
			s->skip = body > UINT64_MAX / 2 ? UINT64_MAX : head + body;
			break;
		}
		if (body > len - used - head)
			break;
		e = reader_packet(r, data + used + head, (size_t)body);
		if (!e)
			used += head + (size_t)body;
	}
	s->good += used;
	*ret_used = used;
	return e < 0 ? trace(e) : e;
}

static int skip_bytes(struct reader *r, struct packet_stream *s, size_t len)
{
	s->skip -= min_u64(s->skip, len);
	return s->skip ? 0 : reader_too_large(r, "MiB in one packet", MAX_PACKET >> 20);
}

static int stream_feed(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len)
{
	bool kept = s->held.len;
	size_t used;
	int e;

	if (s->skip)
		return skip_bytes(r, s, len);
	if (kept) {
		buffer_append(&s->held, data, len);
		if (s->held.bad)
			return fail(-ENOMEM);
		data = s->held.data;
		len = s->held.len;
	}
	e = take_packets(r, s, data, len, &used);
	if (e)
		return e < 0 ? trace(e) : e;
	if (s->skip) {
		s->held.len = 0;
		return skip_bytes(r, s, len - used);
	}
	if (kept) {
		if (used)
			memmove(s->held.data, s->held.data + used, len - used);
		s->held.len = len - used;
	} else {
		buffer_append(&s->held, data + used, len - used);
	}
	return s->held.bad ? fail(-ENOMEM) : 0;
}

/* Bytes are left of a packet that was cut. */
static bool stream_is_cut(const struct packet_stream *s)
{
	return s->held.len || s->skip;
}

int reader_feed(struct reader *r, const void *data, size_t len)
{
	int e;

	r->fed += len;
	e = stream_feed(r, &r->outer, len ? data : (const uint8_t *)"", len);
	return e < 0 ? trace(e) : e;
}

int reader_end(struct reader *r)
{
	return stream_is_cut(&r->outer) ? READER_BROKEN : 0;
}

/* ---- compressed packets ---- */

static int get_inflater(struct reader *r)
{
	if (r->inflater)
		return inflateReset(&r->inflater->z) == Z_OK ? 0 : fail(-EINVAL);
	r->inflater = calloc(1, sizeof(*r->inflater));
	if (!r->inflater)
		return fail(-ENOMEM);
	if (inflateInit(&r->inflater->z) == Z_OK)
		return 0;
	free(take(r->inflater));
	return fail(-ENOMEM);
}

static int inflate_pieces(struct reader *r, const struct wire_field *f)
{
	struct inflater *in = r->inflater;
	int status = Z_OK, e = 0;

	in->z.next_in = (uint8_t *)f->data;
	in->z.avail_in = (uInt)f->len; /* below MAX_PACKET */
	while (!e && status == Z_OK) {
		size_t n;

		in->z.next_out = in->piece;
		in->z.avail_out = sizeof(in->piece);
		status = inflate(&in->z, Z_NO_FLUSH);
		n = sizeof(in->piece) - in->z.avail_out;
		if (status == Z_MEM_ERROR)
			return fail(-ENOMEM);
		if (status == Z_OK && !n && !in->z.avail_in)
			status = Z_DATA_ERROR; /* cut */
		e = reader_inflated(r, n);
		if (!e)
			e = stream_feed(r, &r->inner, in->piece, n);
	}
	if (e < 0)
		return trace(e);
	return e || status != Z_STREAM_END || stream_is_cut(&r->inner) ? READER_BROKEN : 0;
}

static int reader_inflate(struct reader *r, const struct wire_field *f)
{
	int e;

	if (r->in_compressed) /* packets inside packets inside ...: no writer makes that */
		return READER_BROKEN;
	e = get_inflater(r);
	if (e < 0)
		return trace(e);
	r->inner.held.len = 0;
	r->inner.skip = 0;
	r->in_compressed = true;
	e = inflate_pieces(r, f);
	r->in_compressed = false;
	return e < 0 ? trace(e) : e;
}
