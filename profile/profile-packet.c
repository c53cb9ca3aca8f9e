/* profile-packet.c - one packet of a trace.
 *
 * The order of things inside a packet is the format's: incremental state is cleared, then defaults,
 * then interned data, then the rest; so a packet's fields are gathered first and acted on after. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/perfwind.fields.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"

enum {
	MAX_NOTES = 4096,
};

struct packet {
	uint64_t timestamp;
	uint32_t sequence, flags, clock;
	uint32_t dropped; /* bits: 1, and causes */
	struct wire_field interned, defaults, sample, snapshot, tree, symbols, stats, compressed,
		config, trace_stats, system_info;
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
static int read_stat(struct reader *r, struct cursor c)
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
	if (table_get(&r->stat_by_name, stat.name, &index)) {
		profile->stats[index] = stat;
		return 0;
	}
	e = ROOM_FOR_ONE(profile->stats, profile->n_stats, r->room_stats);
	if (e >= 0)
		e = reader_put(r, HELD_STATS, &r->stat_by_name, stat.name, profile->n_stats);
	if (e < 0)
		return trace(e);
	profile->stats[profile->n_stats++] = stat;
	return 0;
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

static int read_stats(struct reader *r, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_STATS__STATS))
			e = read_stat(r, wire_message(&f));
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

int reader_packet(struct reader *r, const uint8_t *data, size_t len)
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
		e = read_stats(r, wire_message(&p.stats));
	if (!e && p.config.data)
		e = reader_trace_config(r, wire_message(&p.config));
	if (!e && p.trace_stats.data)
		e = reader_trace_stats(r, wire_message(&p.trace_stats));
	if (!e && p.system_info.data)
		e = reader_system_info(r, wire_message(&p.system_info));
	return e < 0 ? trace(e) : e;
}
