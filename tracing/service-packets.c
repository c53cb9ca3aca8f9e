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

static int put_now(struct service *s, Pb__TracePacket *packet, struct buffer *to)
{
	packet->has_timestamp = packet->has_timestamp_clock_id = true;
	packet->timestamp = clock_ns(CLOCK_BOOTTIME);
	packet->timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	return put_packet(&(struct put){s, to}, packet);
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

int service_trigger(struct service *s, const char *name, uint32_t uid, struct buffer *to)
{
	Pb__Trigger message = PB__TRIGGER__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	message.trigger_name = (char *)name;
	message.producer_name = (char *)"perfwind";
	message.has_trusted_producer_uid = true;
	message.trusted_producer_uid = (int32_t)uid;
	packet.trigger = &message;
	return put_now(s, &packet, to);
}

int service_stats(struct service *s, Pb__TraceStats *stats, struct buffer *to)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.trace_stats = stats;
	return put_packet(&(struct put){s, to}, &packet);
}
