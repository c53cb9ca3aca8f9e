/* mark.c - see mark.h; and sink_count_add(), which counts for the end mark.
 *
 * Samples are counted where packets are handed on (a deflated chunk, a plain buffer), not where they
 * are made, so the count is right for what a full disk has left and for packets of a daemon. */
#include "trace/mark.h"

#include <errno.h>

#include "base/error.h"
#include "trace/pack.h"
#include "protos/trace.pb-c.h"

enum {
	FIELD_TRACE_PACKET = 1,
	PACKET_PERF_SAMPLE = 66,
	SAMPLE_RECORDS_LOST = 17,
	SAMPLE_SKIPPED_REASON = 18,
	SAMPLE_PRODUCER_EVENT = 19,
};

/* ---- counting ---- */

/* Some 15 of them a sample: 37 ns, and 100 ns by cursor_uleb() (tests/bench/bench-write). */
static inline uint64_t varint(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; c->p < c->end && shift < 64; shift += 7) {
		uint8_t byte = *c->p++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	c->bad = true;
	return 0;
}

/* The number of the next field, whose bytes are *@ret_value (of a number none); 0: the end, or
 * damage. */
static inline uint32_t next_field(struct cursor *c, struct cursor *ret_value)
{
	uint64_t tag, len = 0;

	if (c->p == c->end)
		return 0;
	tag = varint(c);
	switch (tag & 7) {
	case 0:
		(void)varint(c);
		break;
	case 1:
		len = 8;
		break;
	case 2:
		len = varint(c);
		break;
	case 5:
		len = 4;
		break;
	default:
		c->bad = true;
	}
	c->bad |= len > cursor_left(c);
	if (c->bad)
		return 0;
	*ret_value = cursor_of(c->p, len);
	c->p += len;
	return (uint32_t)(tag >> 3);
}

static bool is_sample(const void *packet, size_t len)
{
	struct cursor c = cursor_of(packet, len), value;
	uint32_t number;

	do {
		number = next_field(&c, &value);
		if (!number)
			return false;
	} while (number != PACKET_PERF_SAMPLE);
	for (c = value; (number = next_field(&c, &value));)
		if (number == SAMPLE_RECORDS_LOST || number == SAMPLE_SKIPPED_REASON ||
		    number == SAMPLE_PRODUCER_EVENT)
			return false;
	return !c.bad;
}

void sink_count_add(struct sink_count *count, const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len), packet;
	uint32_t number;

	while ((number = next_field(&c, &packet))) {
		count->packets++;
		count->samples += is_sample(packet.p, cursor_left(&packet));
	}
}

/* ---- the two packets ---- */

static int put(struct sink *sink, Pb__PerfwindStats *message)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	uint8_t bytes[MARK_BYTES / 2], *p;
	size_t len;
	int r;

	packet.perfwind_stats = message;
	len = pb__trace_packet__get_packed_size(&packet);
	if (len > sizeof(bytes) - PACK_FIELD_MAX)
		return fail(-EMSGSIZE);
	p = pack_head(bytes, FIELD_TRACE_PACKET, len);
	p += pb__trace_packet__pack(&packet, p);
	r = sink->write(sink, bytes, (size_t)(p - bytes));
	return r < 0 ? trace(r) : 0;
}

int mark_begin(struct sink *sink, uint32_t behind_ms)
{
	Pb__PerfwindStats message = PB__PERFWIND_STATS__INIT;
	Pb__PerfwindStats__Begin begin = PB__PERFWIND_STATS__BEGIN__INIT;

	begin.has_behind_ms = behind_ms > 0;
	begin.behind_ms = behind_ms;
	message.begin = &begin;
	return put(sink, &message);
}

int mark_end(struct sink *sink, const struct sink_count *count, bool full)
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
