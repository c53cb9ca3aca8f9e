/* writer.c - see writer.h: the packets of one sequence, from the first to the last.
 *
 *   in a file                                  with a tracing service (sequence_id 0) the service
 *                                              writes the first two
 *   1  clock snapshot, trace uuid, system info   writer_start()
 *   2  more clock snapshots                      writer_clock_snapshot(), when the session likes
 *   3  defaults, flag CLEARED                    writer_start(), and again for each generation
 *   4  fixed internings                          after each 3
 *   5  samples with the entries they refer to    writer_sample()
 *   6  processes, threads, late names            writer_process(), writer_symbol() ...
 *   7  statistics                                writer_stats()
 *
 * 4 gives iid 0 an explicit "" in the three string tables: current readers take an absent id for
 * "", older ones look 0 up.  protos/trace.proto cites the other demands of readers.
 *
 * The bytes of a sample, measured with tests/bench/bench-write (CPython 3.11 at json, re, ast and
 * recursion for 12 s at 999 Hz: 19 frames deep, 52 % of the stacks new; in brackets the same under
 * 30 frames more, all new):
 *
 *   packet head, clock value, flags, sequence id            15
 *   cpu, pid, tid, mode, callstack id, running count        24
 *   a new stack, 2.3 bytes a frame and its head         25 [115]
 *   new frames and names, soon rare                     19 [ 19]
 *   plain                                               83 [174]    195 ns [ 496 ns]
 *   through sink_deflate_new()                          31 [ 40]    763 ns [1389 ns]
 *   a known stack, warm: plain 38 and 68 ns, through sink_deflate_new() 13 and 280 ns
 *
 * A whole recording of 60 s with all its names and source lines: 100 bytes a sample plain, 32
 * compressed. Frame ids cannot be packed (readers do not understand that) nor stacks shared by
 * prefix, so a new stack costs what it costs; but it differs from an earlier one in a few frames,
 * and deflate sees that.  The promise of less than 60 bytes a sample is kept by compression and by
 * nothing else.  Incremental timestamps would save 4 bytes before it and 1 after it: not worth a
 * second clock domain, which stays wrong after one lost packet. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "trace/head.h"
#include "trace/module-symbols.h"
#include "trace/writer-private.h"

enum {
	MAX_STACK_BYTES = 16 << 20,
	MAX_FRAME_BYTES =
		8
		<< 20, /* about 250,000; emit keeps another 16 to 30 MiB for these (its tables double) */
	MAX_SYMBOL_BYTES = 4 << 20,
};

enum {
	MAX_CMDLINE = 4096,
	MAX_ARGS = 64,
	MAX_LINES = 64,
	SYMBOLS_PACKET = 64 << 10, /* a packet of names is ended here */
};

/* The trace format's number of a CLOCK_*; 0: none that it knows. */
static uint32_t writer_clock_id(int clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
		return PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME;
	case CLOCK_MONOTONIC:
		return PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	case CLOCK_MONOTONIC_RAW:
		return PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_RAW;
	case CLOCK_BOOTTIME:
		return PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	default:
		return 0;
	}
}

int writer_new(const struct writer_options *options, struct sink *sink, struct writer **ret_writer)
{
	struct writer *w;
	int r;

	if (!writer_clock_id(options->clock))
		return fail(-EINVAL);
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(-ENOMEM);
	w->options = *options;
	w->sink = sink;
	w->max_stack_bytes = MAX_STACK_BYTES;
	w->max_frame_bytes = MAX_FRAME_BYTES;
	w->max_symbol_bytes = MAX_SYMBOL_BYTES;
	r = intern_init(&w->intern);
	if (r < 0) {
		free(w);
		return trace(r);
	}
	*ret_writer = w;
	return 0;
}

struct writer *writer_free(struct writer *w)
{
	if (!w)
		return NULL;
	intern_deinit(&w->intern);
	buffer_deinit(&w->packet);
	table_deinit(&w->tracks);
	free(w);
	return NULL;
}

static uint8_t *writer_packet_begin(struct writer *w, size_t len)
{
	uint8_t *p;

	w->packet.len = 0;
	p = buffer_reserve(&w->packet, PACK_FIELD_MAX + len);
	return p ? pack_head(p, TRACE__PACKET, len) : NULL;
}

/* Begins a packet put together by hand: room for @len bytes of content, of which the tag and length
 * are written already.  The caller appends exactly @len and calls writer_packet_end(). */
static int writer_packet_end(struct writer *w, const uint8_t *end)
{
	int r = w->sink->write(w->sink, w->packet.data, (size_t)(end - w->packet.data));

	w->any_packet = true;
	return r < 0 ? trace(r) : 0;
}

int writer_packet(struct writer *w, Pb__TracePacket *packet)
{
	uint8_t *p;
	size_t len;

	if (w->options.sequence_id) {
		packet->has_trusted_packet_sequence_id = true;
		packet->trusted_packet_sequence_id = w->options.sequence_id;
		packet->has_first_packet_on_sequence = packet->first_packet_on_sequence =
			!w->any_packet;
	}
	len = pb__trace_packet__get_packed_size(packet);
	p = writer_packet_begin(w, len);
	if (!p)
		return fail(-ENOMEM);
	p += pb__trace_packet__pack(packet, p);
	return writer_packet_end(w, p);
}

/* ---- clocks ---- */
static int put(void *arg, Pb__TracePacket *packet)
{
	return writer_packet(arg, packet);
}

/* CLOCK_BOOTTIME for packets that are of no sample. */
static uint64_t writer_now(const struct writer *w)
{
	return w->options.past ? w->options.past->first_time : clock_ns(CLOCK_BOOTTIME);
}

int writer_clock_snapshot(struct writer *w)
{
	return w->options.past ? head_past_snapshot(w->options.past, put, w)
			       : head_clock_snapshot(put, w);
}

/* ---- late names ----
 * A name goes into its frame when it is known at the frame's first use.  A later one stands in a
 * ModuleSymbols packet, which readers match by path, build id and rel_pc; they count it as an error
 * when the frame is not in the trace, so the name of a frame that no stack has used yet is kept with
 * the frame instead. */
/* The waiting symbols of one mapping as a packet.  It needs incremental state as its frames did: where
 * that is lost (a ring buffer), they are too. */
static int flush_mapping(struct writer *w, struct intern_mapping *m)
{
	const struct string_entry *path = &w->intern.places.entries[m->path - 1];
	const struct string_entry *build_id =
		m->build_id ? &w->intern.places.entries[m->build_id - 1] : NULL;
	const uint32_t flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	uint32_t sequence = w->options.sequence_id;
	size_t body, len;
	uint8_t *p;
	int r;

	if (!m->symbols.len)
		return 0;
	body = pack_bytes_size(MODULE_SYMBOLS__PATH, path->len) + m->symbols.len;
	body += build_id ? pack_bytes_size(MODULE_SYMBOLS__BUILD_ID, build_id->len) : 0;
	len = pack_bytes_size(TRACE_PACKET__MODULE_SYMBOLS, body);
	len += pack_number_size(TRACE_PACKET__SEQUENCE_FLAGS, flags);
	len += sequence ? pack_number_size(TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, sequence) : 0;
	p = writer_packet_begin(w, len);
	if (!p)
		return fail(-ENOMEM);
	if (sequence)
		p = pack_number(p, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, sequence);
	p = pack_number(p, TRACE_PACKET__SEQUENCE_FLAGS, flags);
	p = pack_bytes(pack_head(p, TRACE_PACKET__MODULE_SYMBOLS, body), MODULE_SYMBOLS__PATH,
		       path->data, path->len);
	if (build_id)
		p = pack_bytes(p, MODULE_SYMBOLS__BUILD_ID, build_id->data, build_id->len);
	memcpy(p, m->symbols.data, m->symbols.len);
	p += m->symbols.len;
	w->symbol_bytes -= m->symbols.len;
	buffer_deinit(&m->symbols);
	r = writer_packet_end(w, p);
	return r < 0 ? trace(r) : 0;
}

int writer_symbols_flush(struct writer *w)
{
	for (size_t i = 0; w->symbol_bytes && i < w->intern.n_mappings; i++) {
		int r = flush_mapping(w, &w->intern.mappings[i]);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

int writer_symbol(struct writer *w, uint32_t mapping, uint64_t rel_pc,
		  const struct writer_line *lines, size_t n)
{
	struct writer_line own[MAX_LINES];
	struct intern_frame *frame;
	struct intern_mapping *m;
	size_t before;
	int r;

	if (!mapping || mapping > w->intern.n_mappings)
		return fail(-EINVAL);
	if (!n)
		return 0;
	n = min_u64(n, MAX_LINES);
	memcpy(own, lines, n * sizeof(*own));
	frame = intern_find_frame(&w->intern, mapping, rel_pc);
	if (!frame)
		frame = intern_find_frame(&w->intern, mapping, rel_pc | WRITER_GUESSED);
	/* A frame that the tables have forgotten was in the trace; one that they never had was not.
	 */
	if (!frame && w->intern.frame_generation == 1)
		return 0;
	if (frame && !frame->name) {
		/* For its entry of the next generation: the function the address is in, its
		 * outermost line. */
		r = intern_name(&w->intern, own[n - 1].function, &frame->name);
		if (r < 0)
			return trace(r);
		frame->kind = frame->kind ? frame->kind : (uint8_t)own[n - 1].kind;
	}
	if (frame) /* DWARF may name the function by an alias */
		own[n - 1].function = writer_name_text(w, frame->name);
	if (frame && !frame->written)
		return 0;
	m = &w->intern.mappings[mapping - 1];
	before = m->symbols.len;
	r = module_symbols_add(&m->symbols, rel_pc, own, n);
	if (r < 0)
		return trace(r);
	w->symbol_bytes += m->symbols.len - before;
	if (m->symbols.len >= SYMBOLS_PACKET)
		r = flush_mapping(w, m);
	else if (w->symbol_bytes > w->max_symbol_bytes)
		r = writer_symbols_flush(w);
	return r < 0 ? trace(r) : 0;
}

bool writer_frame_parts(const struct writer *w, uint32_t frame, struct writer_frame_parts *ret)
{
	const struct intern *in = &w->intern;
	const struct intern_frame *f;

	if (frame < in->first_frame || frame - in->first_frame >= in->n_frames)
		return false;
	f = &in->frames[frame - in->first_frame];
	*ret = (struct writer_frame_parts){
		.mapping = f->mapping,
		.rel_pc = f->rel_pc,
		.name = f->name ? writer_name_text(w, f->name) : NULL,
	};
	return true;
}

bool writer_rename(struct writer *w, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		   enum frame_kind kind)
{
	const uint64_t addresses[] = {rel_pc, rel_pc | WRITER_GUESSED};
	bool known = false, changed = false;

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct intern_frame *frame = intern_find_frame(&w->intern, mapping, addresses[i]);

		known |= frame != NULL;
		if (!frame || frame->name == name)
			continue;
		frame->name = name;
		frame->kind = (uint8_t)kind;
		changed = true;
	}
	return changed || !known;
}

/* ---- a generation begins: the events of the session, and the fixed internings ---- */

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
	for (unsigned i = 0; i < ARRAY_SIZE(m->modifiers); i++)
		if (e->modifiers >> i & 1)
			m->modifiers[m->n_modifiers++] = (Pb__PerfEvents__EventModifier)(i + 1);
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

/* The packets that a generation begins with. */
static int writer_defaults(struct writer *w)
{
	int r;

	r = write_defaults_packet(w);
	if (r < 0)
		return trace(r);
	r = write_fixed_internings(w);
	return r < 0 ? trace(r) : 0;
}

static int new_generation(struct writer *w)
{
	int r;

	table_clear(&w->tracks);
	intern_new_generation(&w->intern);
	r = writer_defaults(w);
	return r < 0 ? trace(r) : 0;
}

/* Names are written in the generation of their frames, as far as they are known: of a ring buffer only
 * the last one may be left, and readers count a name without its frame as an error. */
int writer_clear_incremental_state(struct writer *w)
{
	int r = writer_symbols_flush(w);

	if (r >= 0)
		r = new_generation(w);
	return r < 0 ? trace(r) : 0;
}

int writer_renew(struct writer *w)
{
	int r;

	if (!w->sink->renew)
		return 0;
	/* It may be set again by the packets that begin the new state: then those are lost. */
	w->sink->renew = false;
	r = new_generation(w);
	return r < 0 ? trace(r) : WRITER_RENEWED;
}

uint64_t writer_dropped(const struct writer *w)
{
	return w->sink->dropped;
}

/* ---- head of a trace ---- */

int writer_start(struct writer *w)
{
	int r;

	if (w->options.sequence_id) {
		r = writer_clock_snapshot(w);
		if (r < 0)
			return trace(r);
		r = w->options.past ? 0 : head_uuid(NULL, put, w);
		if (r < 0)
			return trace(r);
		r = w->options.past ? head_past_info(w->options.past, w->options.tool, put, w)
				    : head_system_info(w->options.tool, put, w);
		if (r < 0)
			return trace(r);
	}
	r = writer_clear_incremental_state(w);
	return r < 0 ? trace(r) : 0;
}

/* ---- samples, and the entries they refer to ----
 * Packed by hand and without allocation: this runs once a sample. */

enum {
	MAX_FOLLOWERS = 32, /* counted in one sample */
	MAX_SAMPLE = (9 + MAX_FOLLOWERS) * PACK_FIELD_MAX,
};

int writer_mapping(struct writer *w, const char *path, const void *build_id, size_t build_id_len,
		   uint64_t load_bias, uint64_t exact_offset, uint32_t *ret_mapping)
{
	int r = intern_mapping(&w->intern, path, build_id, build_id_len, load_bias, exact_offset,
			       ret_mapping);

	return r < 0 ? trace(r) : 0;
}

int writer_name(struct writer *w, const char *name, uint32_t *ret_name)
{
	int r = intern_name(&w->intern, name, ret_name);

	return r < 0 ? trace(r) : 0;
}

const char *writer_name_text(const struct writer *w, uint32_t name)
{
	return string_table_text(&w->intern.names, name);
}

int writer_frame_named(struct writer *w, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		       uint32_t *ret_frame)
{
	int r = intern_frame(&w->intern, mapping, rel_pc, name, ret_frame);

	return r < 0 ? trace(r) : 0;
}

void writer_frame_kind(struct writer *w, uint32_t frame, enum frame_kind kind)
{
	intern_frame_kind(&w->intern, frame, kind);
}

int writer_frame(struct writer *w, uint32_t mapping, uint64_t rel_pc, const char *name,
		 uint32_t *ret_frame)
{
	uint32_t id = 0;
	int r = name ? writer_name(w, name, &id) : 0;

	return r < 0 ? trace(r) : writer_frame_named(w, mapping, rel_pc, id, ret_frame);
}

uint32_t writer_generation(const struct writer *w)
{
	return w->intern.frame_generation;
}

uint32_t writer_stack_generation(const struct writer *w)
{
	return w->intern.generation;
}

int writer_callstack(struct writer *w, const uint32_t *ids, size_t n, uint32_t *ret_callstack)
{
	int r = intern_callstack(&w->intern, ids, n, ret_callstack);

	return r < 0 ? trace(r) : 0;
}

static uint8_t *pack_sample(uint8_t *p, const struct writer_sample *s)
{
	p = pack_number(p, PERF_SAMPLE__CPU, s->cpu);
	if (!s->counts_only) {
		p = pack_number(p, PERF_SAMPLE__PID, s->pid);
		p = pack_number(p, PERF_SAMPLE__TID, s->tid);
	}
	if (s->callstack)
		p = pack_number(p, PERF_SAMPLE__CALLSTACK_IID, s->callstack);
	if (!s->counts_only)
		p = pack_number(p, PERF_SAMPLE__CPU_MODE, s->cpu_mode);
	p = pack_number(p, PERF_SAMPLE__TIMEBASE_COUNT, s->count);
	for (size_t i = 0; i < s->n_follower_counts; i++)
		p = pack_number(p, PERF_SAMPLE__FOLLOWER_COUNTS, s->follower_counts[i]);
	if (s->unwind_error)
		p = pack_number(p, PERF_SAMPLE__UNWIND_ERROR, s->unwind_error);
	if (s->skipped_reason)
		p = pack_number(p, PERF_SAMPLE__SAMPLE_SKIPPED_REASON, s->skipped_reason);
	return p;
}

int writer_forget(struct writer *w)
{
	/* Late names find their frames by these tables. */
	int r = writer_symbols_flush(w);

	if (r < 0)
		return trace(r);
	r = intern_forget_frames(&w->intern);
	if (r < 0)
		return trace(r);
	r = writer_clear_incremental_state(w);
	return r < 0 ? trace(r) : 0;
}

size_t writer_table_bytes(const struct writer *w)
{
	return intern_frame_bytes(&w->intern) + stacks_bytes(&w->intern.stacks);
}

/* Tables that have grown to their bound are dropped between two samples, when no id is under way.
 */
static int keep_bounds(struct writer *w)
{
	int r;

	if (intern_frame_bytes(&w->intern) > w->max_frame_bytes)
		return writer_forget(w);
	if (stacks_bytes(&w->intern.stacks) <= w->max_stack_bytes)
		return 0;
	r = writer_clear_incremental_state(w);
	return r < 0 ? trace(r) : 0;
}

int writer_sample(struct writer *w, const struct writer_sample *s)
{
	uint8_t body[MAX_SAMPLE], *p;
	struct buffer *pending = &w->intern.pending;
	const uint32_t flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	size_t len, n_body;
	int r;

	if (s->n_follower_counts > MAX_FOLLOWERS)
		return fail(-E2BIG);
	n_body = (size_t)(pack_sample(body, s) - body);
	len = pack_number_size(TRACE_PACKET__TIMESTAMP, s->time) +
	      pack_number_size(TRACE_PACKET__SEQUENCE_FLAGS, flags) +
	      pack_bytes_size(TRACE_PACKET__PERF_SAMPLE, n_body);
	if (w->options.sequence_id)
		len += pack_number_size(TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID,
					w->options.sequence_id);
	if (pending->len)
		len += pack_bytes_size(TRACE_PACKET__INTERNED_DATA, pending->len);
	p = writer_packet_begin(w, len);
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(p, TRACE_PACKET__TIMESTAMP, s->time);
	if (w->options.sequence_id)
		p = pack_number(p, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID,
				w->options.sequence_id);
	if (pending->len)
		p = pack_bytes(p, TRACE_PACKET__INTERNED_DATA, pending->data, pending->len);
	p = pack_number(p, TRACE_PACKET__SEQUENCE_FLAGS, flags);
	p = pack_bytes(p, TRACE_PACKET__PERF_SAMPLE, body, n_body);
	pending->len = 0;
	r = writer_packet_end(w, p);
	if (r < 0)
		return trace(r);
	r = keep_bounds(w);
	return r < 0 ? trace(r) : 0;
}

/* An event that has the form of a sample without being one. */
static int write_event(struct writer *w, Pb__PerfSample *sample, uint64_t boottime_ns)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	packet.has_timestamp = packet.has_timestamp_clock_id = packet.has_sequence_flags = true;
	packet.timestamp = boottime_ns;
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	packet.perf_sample = sample;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_lost(struct writer *w, uint32_t cpu, uint64_t records, uint64_t boottime_ns)
{
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;

	sample.has_cpu = sample.has_kernel_records_lost = true;
	sample.cpu = cpu;
	sample.kernel_records_lost = records;
	return write_event(w, &sample, boottime_ns);
}

int writer_guardrail(struct writer *w, uint64_t boottime_ns)
{
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;
	Pb__PerfSample__ProducerEvent event = PB__PERF_SAMPLE__PRODUCER_EVENT__INIT;

	event.optional_source_stop_reason_case =
		PB__PERF_SAMPLE__PRODUCER_EVENT__OPTIONAL_SOURCE_STOP_REASON_SOURCE_STOP_REASON;
	event.source_stop_reason =
		PB__PERF_SAMPLE__PRODUCER_EVENT__DATA_SOURCE_STOP_REASON__PROFILER_STOP_GUARDRAIL;
	sample.producer_event = &event;
	return write_event(w, &sample, boottime_ns);
}

/* ---- processes and threads ----
 * Written when the session learns of a process or thread, in BOOTTIME whatever the clock of the samples. */

static int write_tree(struct writer *w, Pb__ProcessTree *tree, uint64_t boottime_ns)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.has_timestamp = packet.has_timestamp_clock_id = true;
	packet.timestamp = boottime_ns;
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.process_tree = tree;
	return writer_packet(w, &packet);
}

static void fill_thread(Pb__ProcessTree__Thread *thread, uint32_t pid, uint32_t tid,
			const char *comm)
{
	pb__process_tree__thread__init(thread);
	thread->has_tid = thread->has_tgid = true;
	thread->tid = (int32_t)tid;
	thread->tgid = (int32_t)pid;
	thread->name = (char *)comm;
}

/* Cuts @copy (with a NUL behind) into at most MAX_ARGS arguments. */
static size_t split_cmdline(char *copy, size_t len, char **args)
{
	size_t n = 0;

	while (len && !copy[len - 1])
		len--;
	for (size_t at = 0; at < len && n < MAX_ARGS; at += strlen(copy + at) + 1)
		args[n++] = copy + at;
	return n;
}

int writer_process(struct writer *w, const struct writer_process *p, uint64_t boottime_ns)
{
	Pb__ProcessTree__Process process = PB__PROCESS_TREE__PROCESS__INIT,
				 *processes[] = {&process};
	Pb__ProcessTree__Thread thread, *threads[] = {&thread};
	Pb__ProcessTree tree = PB__PROCESS_TREE__INIT;
	char copy[MAX_CMDLINE + 1], *args[MAX_ARGS];
	size_t n_args = 0;
	int r;

	if (p->cmdline && !p->kernel_thread) {
		size_t len = min_u64(p->cmdline_len, MAX_CMDLINE);

		memcpy(copy, p->cmdline, len);
		copy[len] = 0;
		n_args = split_cmdline(copy, len, args);
	}
	process.has_cmdline_is_comm = process.cmdline_is_comm = !n_args;
	if (!n_args)
		args[n_args++] = (char *)p->comm;
	process.has_pid = process.has_ppid = process.has_uid = true;
	process.pid = (int32_t)p->pid;
	process.ppid = (int32_t)p->ppid;
	process.uid = (int32_t)p->uid;
	process.has_perfwind_incarnation = p->incarnation != 0;
	process.perfwind_incarnation = p->incarnation;
	process.has_perfwind_cgroup = p->cgroup != NULL;
	if (p->cgroup) {
		process.perfwind_cgroup.data = (uint8_t *)p->cgroup;
		process.perfwind_cgroup.len = strlen(p->cgroup);
	}
	process.cmdline = args;
	process.n_cmdline = n_args;
	process.has_is_kthread = process.is_kthread = p->kernel_thread;
	fill_thread(&thread, p->pid, p->pid, p->comm);
	tree.processes = processes;
	tree.threads = threads;
	tree.n_processes = tree.n_threads = 1;
	r = write_tree(w, &tree, boottime_ns);
	return r < 0 ? trace(r) : 0;
}

int writer_thread(struct writer *w, uint32_t pid, uint32_t tid, const char *comm,
		  uint64_t boottime_ns)
{
	Pb__ProcessTree__Thread thread, *threads[] = {&thread};
	Pb__ProcessTree tree = PB__PROCESS_TREE__INIT;
	int r;

	fill_thread(&thread, pid, tid, comm);
	tree.threads = threads;
	tree.n_threads = 1;
	r = write_tree(w, &tree, boottime_ns);
	return r < 0 ? trace(r) : 0;
}

/* ---- statistics ---- */
int writer_stats(struct writer *w, const struct writer_stat *stats, size_t n,
		 const char *const *notes, size_t n_notes, uint64_t boottime_ns)
{
	Pb__PerfwindStats message = PB__PERFWIND_STATS__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	_cleanup_(freep) Pb__PerfwindStats__Stat *values = calloc(n + 1, sizeof(*values));
	_cleanup_(freep) Pb__PerfwindStats__Stat **list = calloc(n + 1, sizeof(*list));
	int r;

	if (!values || !list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < n; i++) {
		pb__perfwind_stats__stat__init(&values[i]);
		values[i].name = (char *)stats[i].name;
		values[i].has_value = true;
		values[i].value = stats[i].value;
		list[i] = &values[i];
	}
	message.stats = list;
	message.n_stats = n;
	message.notes = (char **)notes;
	message.n_notes = n_notes;
	message.has_boottime = true;
	message.boottime = boottime_ns;
	packet.has_timestamp = packet.has_timestamp_clock_id = true;
	packet.timestamp = boottime_ns;
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.perfwind_stats = &message;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}
