/* writer.c - see writer.h: the life of a packet sequence, and its packets that are not samples.
 *
 *   file                                          with a service (sequence_id 0): the service
 * writes the first two 1  clock snapshot, trace uuid, system info    writer_start() 2  more clock
 * snapshots                       writer_clock_snapshot(), when the session likes 3  defaults, flag
 * CLEARED                     writer_start(), and anew for each generation 4  fixed internings
 * behind each 3 5  samples with what they need interned       writer_sample.c 6  processes,
 * threads, late names             writer_names.c 7  statistics
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
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/out/pack.h"
#include "daemon/out/writer_private.h"

enum {
	FIELD_TRACE_PACKET = 1,
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
	return p ? pack_head(p, FIELD_TRACE_PACKET, len) : NULL;
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
int writer_clock_snapshot(struct writer *w)
{
	/* The trace clock first; the others as close behind it as system calls allow. */
	static const int clocks[] = {CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE,
				     CLOCK_REALTIME, CLOCK_MONOTONIC,	    CLOCK_MONOTONIC_RAW};
	static const uint32_t ids[] = {PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME_COARSE,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_COARSE,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_RAW};
	Pb__ClockSnapshot__Clock values[ARRAY_SIZE(clocks)], *list[ARRAY_SIZE(clocks)];
	Pb__ClockSnapshot snapshot = PB__CLOCK_SNAPSHOT__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		pb__clock_snapshot__clock__init(&values[i]);
		values[i].has_clock_id = values[i].has_timestamp = true;
		values[i].clock_id = ids[i];
		list[i] = &values[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		values[i].timestamp = clock_ns(clocks[i]);
	snapshot.clocks = list;
	snapshot.n_clocks = ARRAY_SIZE(clocks);
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.clock_snapshot = &snapshot;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

static int write_uuid(struct writer *w)
{
	Pb__TraceUuid uuid = PB__TRACE_UUID__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int64_t random[2];
	int r;

	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		return 0; /* early in boot: a trace without one is as good */
	uuid.has_msb = uuid.has_lsb = true;
	uuid.msb = random[0];
	uuid.lsb = random[1];
	packet.trace_uuid = &uuid;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

static int write_system_info(struct writer *w)
{
	struct utsname names;
	Pb__Utsname utsname = PB__UTSNAME__INIT;
	Pb__SystemInfo info = PB__SYSTEM_INFO__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	time_t now = time(NULL);
	struct tm local;
	int r;

	if (uname(&names) == 0) {
		utsname.sysname = names.sysname;
		utsname.version = names.version;
		utsname.release = names.release;
		utsname.machine = names.machine;
		info.utsname = &utsname;
	}
	info.tracing_service_version = (char *)w->options.tool;
	info.has_hz = info.has_page_size = info.has_num_cpus = info.has_system_ram_bytes = true;
	info.hz = sysconf(_SC_CLK_TCK);
	info.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	info.num_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	info.system_ram_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * info.page_size;
	if (localtime_r(&now, &local)) {
		info.has_timezone_off_mins = true;
		info.timezone_off_mins = (int32_t)(local.tm_gmtoff / 60);
	}
	packet.system_info = &info;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_start(struct writer *w)
{
	int r;

	if (w->options.sequence_id) {
		r = writer_clock_snapshot(w);
		if (r < 0)
			return trace(r);
		r = write_uuid(w);
		if (r < 0)
			return trace(r);
		r = write_system_info(w);
		if (r < 0)
			return trace(r);
	}
	r = writer_clear_incremental_state(w);
	return r < 0 ? trace(r) : 0;
}

int writer_clear_incremental_state(struct writer *w)
{
	int r;

	intern_new_generation(&w->intern);
	r = writer_defaults(w);
	return r < 0 ? trace(r) : 0;
}

int writer_renew(struct writer *w)
{
	int r;

	if (!w->sink->renew)
		return 0;
	/* It may be set again by the packets that begin the new state: then those are lost. */
	w->sink->renew = false;
	r = writer_clear_incremental_state(w);
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
