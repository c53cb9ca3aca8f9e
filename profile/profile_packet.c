/* profile_packet.c - one packet of a trace.
 *
 * The order of things inside a packet is the format's: incremental state is cleared, then defaults,
 * then interned data, then the rest; so a packet's fields are gathered first and acted on after. */
#include <errno.h>
#include <zlib.h>

#include "daemon/base/error.h"
#include "profile/profile_reader.h"

enum { /* of TracePacket */
       PACKET_PROCESS_TREE = 2,
       PACKET_CLOCK_SNAPSHOT = 6,
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE_ID = 10,
       PACKET_INTERNED_DATA = 12,
       PACKET_SEQUENCE_FLAGS = 13,
       PACKET_STATE_CLEARED = 41,
       PACKET_PREVIOUS_DROPPED = 42,
       PACKET_COMPRESSED = 50,
       PACKET_CLOCK_ID = 58,
       PACKET_DEFAULTS = 59,
       PACKET_MODULE_SYMBOLS = 61,
       PACKET_PERF_SAMPLE = 66,
       PACKET_PERFWIND_STATS = 60001,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS = 2 };
enum { /* of TracePacketDefaults */
       DEFAULTS_PERF_SAMPLE = 12,
       DEFAULTS_CLOCK_ID = 58,
};
enum { /* of PerfSample */
       SAMPLE_CPU = 1,
       SAMPLE_PID = 2,
       SAMPLE_TID = 3,
       SAMPLE_CALLSTACK_IID = 4,
       SAMPLE_CPU_MODE = 5,
       SAMPLE_TIMEBASE_COUNT = 6,
       SAMPLE_UNWIND_ERROR = 16,
       SAMPLE_RECORDS_LOST = 17,
       SAMPLE_SKIPPED_REASON = 18,
       SAMPLE_PRODUCER_EVENT = 19,
};
enum {
	TRACE_PACKET = 1,
	STATS_STATS = 1,
	STATS_NOTES = 2,
	STAT_NAME = 1,
	STAT_VALUE = 2,
	MAX_NOTES = 4096,
	MAX_INFLATED = 64 << 20, /* of one packet; writers keep below 1 MiB */
};

struct packet {
	uint64_t timestamp;
	uint32_t sequence, flags, clock;
	bool dropped;
	struct wire_field interned, defaults, sample, snapshot, tree, symbols, stats, compressed;
};

static bool packet_gather(struct packet *p, struct cursor c)
{
	struct wire_field f;

	*p = (struct packet){0};
	while (wire_next(&c, &f)) {
		if (f.wire == WIRE_BYTES) {
			struct wire_field *to = f.number == PACKET_INTERNED_DATA    ? &p->interned
						: f.number == PACKET_PERF_SAMPLE    ? &p->sample
						: f.number == PACKET_DEFAULTS	    ? &p->defaults
						: f.number == PACKET_CLOCK_SNAPSHOT ? &p->snapshot
						: f.number == PACKET_PROCESS_TREE   ? &p->tree
						: f.number == PACKET_MODULE_SYMBOLS ? &p->symbols
						: f.number == PACKET_PERFWIND_STATS ? &p->stats
						: f.number == PACKET_COMPRESSED	    ? &p->compressed
										    : NULL;

			if (to)
				*to = f;
		} else if (f.number == PACKET_TIMESTAMP) {
			p->timestamp = f.value;
		} else if (f.number == PACKET_SEQUENCE_ID) {
			p->sequence = (uint32_t)f.value;
		} else if (f.number == PACKET_SEQUENCE_FLAGS) {
			p->flags |= (uint32_t)f.value;
		} else if (f.number == PACKET_STATE_CLEARED && f.value) {
			p->flags |= FLAG_CLEARED;
		} else if (f.number == PACKET_PREVIOUS_DROPPED) {
			p->dropped = f.value;
		} else if (f.number == PACKET_CLOCK_ID) {
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
		if (e < 0)
			return trace(e);
		e = table_put(&r->sequence_by_id, id, r->n_sequences + 1);
		if (e < 0)
			return trace(e);
		r->sequences[r->n_sequences] = (struct sequence){.id = id, .session = UINT8_MAX};
		reader_event_default(&r->sequences[r->n_sequences].event);
		index = ++r->n_sequences;
	}
	*ret = &r->sequences[index - 1];
	return 0;
}

static bool read_defaults(struct sequence *s, struct cursor c)
{
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, DEFAULTS_CLOCK_ID))
			s->default_clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is_bytes(&f, DEFAULTS_PERF_SAMPLE) &&
			 !reader_event_parse(&s->event, wire_message(&f)))
			return false;
	}
	return !c.bad;
}

/* Clears, defaults, interned data. */
static int update_sequence(struct reader *r, struct sequence *s, const struct packet *p)
{
	if (p->flags & FLAG_CLEARED) {
		sequence_forget(s);
		s->valid = true;
	} else if (p->dropped) {
		s->valid = false;
	}
	if (p->defaults.data && !read_defaults(s, wire_message(&p->defaults)))
		return READER_BROKEN;
	if (p->defaults.data && s->session != UINT8_MAX)
		r->events[s->session] = s->event;
	if (p->interned.data && s->valid)
		return reader_interned_data(r, s, wire_message(&p->interned));
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

static int add_sample(struct reader *r, struct sequence *s, const struct packet *p,
		      struct raw_sample *raw)
{
	uint32_t clock = p->clock	    ? p->clock
			 : s->default_clock ? s->default_clock
					    : CLOCK_ID_BOOTTIME;
	int e;

	e = ROOM_FOR_ONE(r->samples, r->n_samples, r->room_samples);
	if (e < 0)
		return trace(e);
	if (r->n_samples >= UINT32_MAX)
		return fail(-E2BIG);
	raw->sample.time = reader_sequence_time(s, &clock, p->timestamp);
	raw->clock = (uint8_t)min_u64(clock, UINT8_MAX);
	raw->sequence = (uint32_t)(s - r->sequences);
	raw->order = (uint32_t)r->n_samples;
	e = reader_place_sample(r, s->id, &raw->sample);
	if (e < 0)
		return trace(e);
	r->samples[r->n_samples++] = *raw;
	return 0;
}

static int read_sample(struct reader *r, struct sequence *s, const struct packet *p)
{
	struct raw_sample raw = {.sample.stack = UINT32_MAX};
	struct cursor c = wire_message(&p->sample);
	uint64_t stack, lost = 0;
	bool event = false;
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, SAMPLE_CPU))
			raw.sample.cpu = (uint32_t)f.value;
		else if (wire_is(&f, SAMPLE_PID))
			raw.sample.pid = (uint32_t)f.value;
		else if (wire_is(&f, SAMPLE_TID))
			raw.sample.tid = (uint32_t)f.value;
		else if (wire_is(&f, SAMPLE_CALLSTACK_IID) &&
			 table_get(&s->callstacks, f.value, &stack))
			raw.sample.stack = (uint32_t)stack;
		else if (wire_is(&f, SAMPLE_CPU_MODE))
			raw.sample.cpu_mode = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, SAMPLE_TIMEBASE_COUNT)) {
			raw.count = f.value;
			raw.has_count = true;
		} else if (wire_is(&f, SAMPLE_UNWIND_ERROR))
			raw.sample.unwind_error = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, SAMPLE_RECORDS_LOST))
			lost = f.value;
		else if (wire_is(&f, SAMPLE_SKIPPED_REASON))
			raw.sample.skipped_reason = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is_bytes(&f, SAMPLE_PRODUCER_EVENT))
			event = true;
	}
	if (c.bad)
		return READER_BROKEN;
	if (lost || event) { /* news of the producer, no sample */
		r->profile->lost_records += lost;
		r->guardrail |= event;
		return 0;
	}
	raw.sample.session = session_of(r, s);
	return add_sample(r, s, p, &raw);
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
		if (wire_is_bytes(&f, STAT_NAME)) {
			e = reader_string(r, f.data, f.len, &stat.name);
			if (e < 0)
				return trace(e);
		} else if (wire_is(&f, STAT_VALUE) && f.wire == WIRE_64) {
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
	if (e < 0)
		return trace(e);
	e = table_put(&r->stat_by_name, stat.name, profile->n_stats);
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
		if (wire_is_bytes(&f, STATS_STATS))
			e = read_stat(r, wire_message(&f));
		else if (wire_is_bytes(&f, STATS_NOTES))
			e = reader_note(r, (const char *)f.data, f.len);
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}

/* ---- compressed packets ---- */
static void buffer_deinitp(struct buffer *b)
{
	buffer_deinit(b);
}

/* 0; READER_BROKEN: damaged, or larger than anything sane. */
static int inflate_all(struct reader *r, const struct wire_field *f, struct buffer *out)
{
	z_stream z = {.next_in = (uint8_t *)f->data, .avail_in = (uInt)min_u64(f->len, UINT32_MAX)};
	size_t room = min_u64(r->inflate_budget, MAX_INFLATED);
	int e = Z_OK;

	if (inflateInit(&z) != Z_OK)
		return fail(-ENOMEM);
	while (e == Z_OK && out->len < room) {
		size_t step = min_u64(max_u64(out->len, 64 << 10), room - out->len);
		uint8_t *to = buffer_reserve(out, step);

		if (!to) {
			(void)inflateEnd(&z);
			return fail(-ENOMEM);
		}
		z.next_out = to;
		z.avail_out = (uInt)step;
		e = inflate(&z, Z_NO_FLUSH);
		out->len += step - z.avail_out;
		if (e == Z_BUF_ERROR || (e == Z_OK && !z.avail_in && z.avail_out))
			e = Z_DATA_ERROR; /* cut */
	}
	(void)inflateEnd(&z);
	r->inflate_budget -= min_u64(out->len, r->inflate_budget);
	return e == Z_STREAM_END ? 0 : READER_BROKEN;
}

static int read_compressed(struct reader *r, const struct wire_field *f)
{
	_cleanup_(buffer_deinitp) struct buffer out = {0};
	size_t good;
	int e;

	if (r->in_compressed) /* packets inside packets inside ...: nobody writes that */
		return READER_BROKEN;
	e = inflate_all(r, f, &out);
	if (e)
		return e < 0 ? trace(e) : e;
	r->in_compressed = true;
	e = reader_packets(r, out.data, out.len, &good);
	r->in_compressed = false;
	return e < 0 ? trace(e) : e;
}

/* ---- a packet ---- */
static int act_on_sequence(struct reader *r, const struct packet *p)
{
	struct sequence *s = NULL;
	int e;

	if (p->flags || p->dropped || p->defaults.data || p->interned.data || p->sample.data ||
	    p->snapshot.data) {
		e = get_sequence(r, p->sequence, &s);
		if (e < 0)
			return trace(e);
		e = update_sequence(r, s, p);
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
	if (p->flags & FLAG_NEEDS && !s->valid) {
		r->without_state++;
		return 0;
	}
	return read_sample(r, s, p);
}

int reader_packet(struct reader *r, const uint8_t *data, size_t len)
{
	struct packet p;
	int e;

	if (!packet_gather(&p, cursor_of(data, len)))
		return READER_BROKEN;
	if (p.compressed.data)
		return read_compressed(r, &p.compressed);
	e = act_on_sequence(r, &p);
	if (!e && p.tree.data)
		e = reader_process_tree(r, p.sequence, wire_message(&p.tree));
	if (!e && p.symbols.data)
		e = reader_module_symbols(r, wire_message(&p.symbols));
	if (!e && p.stats.data)
		e = read_stats(r, wire_message(&p.stats));
	return e < 0 ? trace(e) : e;
}

int reader_packets(struct reader *r, const uint8_t *data, size_t len, size_t *ret_good)
{
	struct cursor c = cursor_of(data ? data : (const uint8_t *)"", data ? len : 0);
	struct wire_field f;
	size_t good = 0;
	int e = 0;

	while (!e && wire_next(&c, &f)) {
		/* Nothing else has ever stood there; to be strict tells foreign files from damaged
		 * ones. */
		e = wire_is_bytes(&f, TRACE_PACKET) ? reader_packet(r, f.data, f.len)
						    : READER_BROKEN;
		if (!e)
			good = len - cursor_left(&c);
	}
	*ret_good = good;
	if (e < 0)
		return trace(e);
	return e || c.bad ? READER_BROKEN : 0;
}
