/* writer.c - see writer.h: the life of a packet sequence, and its packets that are not samples.
 *
 *   file                                          with a service (sequence_id 0) the service writes
 *                                                 the first two
 *   1  clock snapshot, trace uuid, system info    writer_start()
 *   2  more clock snapshots                       writer_clock_snapshot(), when the session calls it
 *   3  defaults, flag CLEARED                     writer_start(), and again for each generation
 *   4  fixed internings                           behind each 3
 *   5  samples and the internings they need       writer-sample.c
 *   6  processes, threads, late names             writer-names.c
 *   7  statistics
 *
 * 4 gives iid 0 an explicit "" in the three string tables: current readers take an absent id for
 * "", older ones look 0 up.  All else of what a reader wants is in the facts that
 * protos/trace.proto cites.
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
 * second clock domain whose values are wrong for ever behind one lost packet. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "trace/head.h"
#include "protos/wire.h"
#include "trace/writer-private.h"
#include "protos/trace.fields.h"

enum {
	MAX_STACK_BYTES = 40 << 20,
	MAX_FRAME_BYTES = 24 << 20,
	MAX_SYMBOL_BYTES = 4 << 20,
};

uint32_t writer_clock_id(int clock)
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
	free(w);
	return NULL;
}

uint8_t *writer_packet_begin(struct writer *w, size_t len)
{
	uint8_t *p;

	w->packet.len = 0;
	p = buffer_reserve(&w->packet, PACK_FIELD_MAX + len);
	return p ? pack_head(p, TRACE__PACKET, len) : NULL;
}

int writer_packet_end(struct writer *w, const uint8_t *end)
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

/* ---- head of a trace ---- */
static int put(void *arg, Pb__TracePacket *packet)
{
	return writer_packet(arg, packet);
}

uint64_t writer_now(const struct writer *w)
{
	return w->options.past ? w->options.past->first_time : clock_ns(CLOCK_BOOTTIME);
}

int writer_clock_snapshot(struct writer *w)
{
	return w->options.past ? head_past_snapshot(w->options.past, put, w)
			       : head_clock_snapshot(put, w);
}

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

static int new_generation(struct writer *w)
{
	int r;

	intern_new_generation(&w->intern);
	r = writer_defaults(w);
	return r < 0 ? trace(r) : 0;
}

/* Names are told in the generation of their frames, as far as they are there: of a ring buffer only
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
