/* service-packets.c - see service-packets.h.  Their content and their order are as in traces of a stock
 * service (tests/data). */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "trace/head.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "tracing/service-packets.h"

#define CLOCK_DRIFT_NS (10 * NSEC_PER_MSEC)

struct put {
	struct service *service;
	struct buffer *to;
};

static int put_packet(void *arg, Pb__TracePacket *packet)
{
	const struct put *put = arg;
	struct service *s = put->service;
	size_t len;
	uint8_t *p;

	packet->has_trusted_uid = packet->has_trusted_packet_sequence_id = true;
	packet->trusted_uid = s->uid;
	packet->trusted_packet_sequence_id = SERVICE_SEQUENCE;
	packet->has_first_packet_on_sequence = packet->first_packet_on_sequence = !s->any_packet;
	len = pb__trace_packet__get_packed_size(packet);
	p = buffer_reserve(put->to, PACK_FIELD_MAX + len);
	if (!p)
		return fail(-ENOMEM);
	p = pack_head(p, TRACE__PACKET, len);
	p += pb__trace_packet__pack(packet, p);
	put->to->len = (size_t)(p - put->to->data);
	s->any_packet = true;
	return 0;
}

static int put_at(struct service *s, Pb__TracePacket *packet, uint64_t boottime, struct buffer *to)
{
	packet->has_timestamp = packet->has_timestamp_clock_id = true;
	packet->timestamp = boottime;
	packet->timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	return put_packet(&(struct put){s, to}, packet);
}

static int put_now(struct service *s, Pb__TracePacket *packet, struct buffer *to)
{
	return put_at(s, packet, clock_ns(CLOCK_BOOTTIME), to);
}

int service_marker(struct service *s, struct buffer *to)
{
	/* the public constant of the trace format (TracePacket.synchronization_marker) */
	static const uint8_t marker[] = {0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba,
					 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.has_synchronization_marker = true;
	packet.synchronization_marker.data = (uint8_t *)marker;
	packet.synchronization_marker.len = sizeof(marker);
	return put_packet(&(struct put){s, to}, &packet);
}

int service_uuid(struct service *s, const int64_t uuid[2], struct buffer *to)
{
	return head_uuid(uuid, put_packet, &(struct put){s, to});
}

int service_config(struct service *s, const struct buffer *config, struct buffer *to)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.has_trace_config = true;
	packet.trace_config.data = config->data;
	packet.trace_config.len = config->len;
	return put_packet(&(struct put){s, to}, &packet);
}

int service_system_info(struct service *s, struct buffer *to)
{
	return head_system_info(s->tool, put_packet, &(struct put){s, to});
}

static bool has_moved(const struct service_clocks *before, const struct service_clocks *now)
{
	uint64_t passed = now->boottime - before->boottime;

	for (size_t i = 0; i < ARRAY_SIZE(now->others); i++) {
		int64_t drift = (int64_t)(now->others[i] - before->others[i] - passed);

		if (drift >= (int64_t)CLOCK_DRIFT_NS || drift <= -(int64_t)CLOCK_DRIFT_NS)
			return true;
	}
	return !before->boottime;
}

int service_clocks(struct service *s, struct buffer *to)
{
	const struct service_clocks now = {
		clock_ns(CLOCK_BOOTTIME),
		{clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC),
		 clock_ns(CLOCK_MONOTONIC_RAW)},
	};

	if (!has_moved(&s->clocks, &now))
		return 0;
	s->clocks = now;
	return head_clock_snapshot(put_packet, &(struct put){s, to});
}

int service_event(struct service *s, Pb__TracingServiceEvent__EventTypeCase event,
		  struct buffer *to)
{
	Pb__TracingServiceEvent message = PB__TRACING_SERVICE_EVENT__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	message.event_type_case = event;
	message.tracing_started = true; /* all members share the place of the value */
	packet.service_event = &message;
	return put_now(s, &packet, to);
}

static Pb__Trigger trigger_of(const char *name, uint32_t uid)
{
	Pb__Trigger message = PB__TRIGGER__INIT;

	message.trigger_name = (char *)name;
	message.producer_name = (char *)"perfwind";
	message.has_trusted_producer_uid = true;
	message.trusted_producer_uid = (int32_t)uid;
	return message;
}

int service_trigger(struct service *s, const char *name, uint32_t uid, struct buffer *to)
{
	Pb__Trigger message = trigger_of(name, uid);
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.trigger = &message;
	return put_now(s, &packet, to);
}

int service_clone_trigger(struct service *s, const char *name, uint32_t uid, uint64_t at,
			  struct buffer *to)
{
	Pb__Trigger message = trigger_of(name, uid);
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.clone_snapshot_trigger = &message;
	return put_at(s, &packet, at, to);
}

/* ---- statistics ---- */

#define SET(message, field, value)             \
	do {                                   \
		(message)->has_##field = true; \
		(message)->field = (value);    \
	} while (0)

static void fill_buffer(const struct trace_buffer *buffer, Pb__TraceStats__BufferStats *to)
{
	struct trace_buffer_stats s;

	trace_buffer_stats(buffer, &s);
	pb__trace_stats__buffer_stats__init(to);
	SET(to, buffer_size, s.buffer_size);
	SET(to, bytes_written, s.bytes_written);
	SET(to, bytes_overwritten, s.bytes_overwritten);
	SET(to, bytes_read, s.bytes_read);
	SET(to, chunks_written, s.chunks_written);
	SET(to, chunks_overwritten, s.chunks_overwritten);
	SET(to, chunks_read, s.chunks_read);
	SET(to, chunks_discarded, s.chunks_discarded);
	SET(to, write_wrap_count, s.write_wrap_count);
	SET(to, trace_writer_packet_loss, s.trace_writer_packet_loss);
}

static void fill_session(const struct service_totals *totals, Pb__TraceStats *to)
{
	SET(to, producers_connected, 1);
	SET(to, producers_seen, 1);
	SET(to, data_sources_registered, 1);
	SET(to, data_sources_seen, 1);
	SET(to, tracing_sessions, 1);
	SET(to, total_buffers, (uint32_t)totals->n_buffers);
	SET(to, flushes_requested, totals->flushes_requested);
	SET(to, flushes_succeeded, totals->flushes_succeeded);
	SET(to, flushes_failed, totals->flushes_failed);
	SET(to, final_flush_outcome,
	    totals->late ? PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_FAILED
			 : PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_SUCCEEDED);
}

int service_stats(struct service *s, const struct service_totals *totals, struct buffer *to)
{
	size_t n_buffers = totals->n_buffers, n_writers = totals->n_writers;
	_cleanup_(freep) Pb__TraceStats__BufferStats *buffers = calloc(n_buffers, sizeof(*buffers));
	_cleanup_(freep) Pb__TraceStats__BufferStats **list =
		calloc(n_buffers, sizeof(struct Pb__TraceStats__BufferStats *));
	_cleanup_(freep) Pb__TraceStats__WriterStats *writers = calloc(n_writers, sizeof(*writers));
	_cleanup_(freep) Pb__TraceStats__WriterStats **writer_list =
		calloc(n_writers, sizeof(struct Pb__TraceStats__WriterStats *));
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	Pb__TraceStats stats = PB__TRACE_STATS__INIT;

	if (!buffers || !list || !writers || !writer_list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < n_writers; i++) {
		pb__trace_stats__writer_stats__init(&writers[i]);
		SET(&writers[i], sequence_id, totals->writers[i].sequence);
		SET(&writers[i], buffer, totals->writers[i].buffer);
		writer_list[i] = &writers[i];
	}
	stats.writer_stats = writer_list;
	stats.n_writer_stats = n_writers;
	for (size_t i = 0; i < n_buffers; i++) {
		fill_buffer(totals->buffers[i], &buffers[i]);
		list[i] = &buffers[i];
	}
	stats.buffer_stats = list;
	stats.n_buffer_stats = n_buffers;
	fill_session(totals, &stats);
	packet.trace_stats = &stats;
	return put_packet(&(struct put){s, to}, &packet);
}
