/* file-mark.c - see file-mark.h; and sink_count_add(), which counts for the end mark.
 *
 * Samples are counted where packets are handed on (a deflated chunk, a plain buffer), not where they
 * are made, so the count is right for what a full disk has left and for packets of a daemon. */
#include "trace/file-mark.h"

#include <errno.h>

#include "base/error.h"
#include "protos/wire.h"
#include "protos/trace.pb-c.h"
#include "protos/trace.fields.h"

/* ---- counting ---- */

static bool is_sample(const struct wire_field *packet)
{
	struct cursor c = wire_message(packet);
	struct wire_field f;

	do {
		if (!wire_next(&c, &f))
			return false;
	} while (f.number != TRACE_PACKET__PERF_SAMPLE);
	for (c = wire_message(&f); wire_next(&c, &f);)
		if (f.number == PERF_SAMPLE__KERNEL_RECORDS_LOST ||
		    f.number == PERF_SAMPLE__SAMPLE_SKIPPED_REASON ||
		    f.number == PERF_SAMPLE__PRODUCER_EVENT)
			return false;
	return !c.bad;
}

void sink_count_add(struct sink_count *count, const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	struct wire_field packet;

	while (wire_next(&c, &packet)) {
		count->packets++;
		count->samples += is_sample(&packet);
	}
}

/* ---- the two packets ---- */

static int put(struct sink *sink, Pb__PerfwindStats *message)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	uint8_t bytes[FILE_MARK_BYTES / 2], *p;
	size_t len;
	int r;

	packet.perfwind_stats = message;
	len = pb__trace_packet__get_packed_size(&packet);
	if (len > sizeof(bytes) - PACK_FIELD_MAX)
		return fail(-EMSGSIZE);
	p = pack_head(bytes, TRACE__PACKET, len);
	p += pb__trace_packet__pack(&packet, p);
	r = sink->write(sink, bytes, (size_t)(p - bytes));
	return r < 0 ? trace(r) : 0;
}

int file_mark_begin(struct sink *sink, uint32_t behind_ms, bool latest_only)
{
	Pb__PerfwindStats message = PB__PERFWIND_STATS__INIT;
	Pb__PerfwindStats__Begin begin = PB__PERFWIND_STATS__BEGIN__INIT;

	begin.has_behind_ms = behind_ms > 0;
	begin.behind_ms = behind_ms;
	begin.has_latest_only = begin.latest_only = latest_only;
	message.begin = &begin;
	return put(sink, &message);
}

int file_mark_end(struct sink *sink, const struct sink_count *count, bool full)
{
	Pb__PerfwindStats message = PB__PERFWIND_STATS__INIT;
	Pb__PerfwindStats__End end = PB__PERFWIND_STATS__END__INIT;

	end.has_packets = end.has_samples = true;
	end.packets = count->packets;
	end.samples = count->samples;
	end.has_full = end.full = full;
	message.end = &end;
	return put(sink, &message);
}
