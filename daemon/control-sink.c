/* control-sink.c - from a session's sink to a client.  Thread: main.
 *
 * What the client has not read waits in our memory, up to a bound.  A recording then loses packets,
 * and as a reader can make no sense of what follows until incremental state is written anew, all is
 * dropped until half of the room is free again; the packet that begins anew says that some were
 * lost.  A trace session's packets are already cut out of its buffers and cannot be written again:
 * there the bound is the end. */
#include <errno.h>

#include "daemon/base/error.h"
#include "daemon/control-private.h"
#include "daemon/out/pack.h"

enum {
	SEND_AT = 64 << 10, /* bytes gathered before a system call */
	FIELD_PREVIOUS_PACKET_DROPPED = 42,
	TRACE_PACKET_TAG = 1 << 3 | 2,
};

int client_send(struct client *c)
{
	int r = control_send(&c->stream);
	bool pending = r == CONTROL_PENDING;

	if (r < 0)
		return trace(r);
	if (pending != c->watches_out) {
		c->watches_out = pending;
		(void)loop_change(c->control->loop, &c->source,
				  pending ? EPOLLIN | EPOLLOUT : EPOLLIN);
	}
	if (c->lost && !c->renewing && control_waiting(&c->stream) <= c->max_waiting / 2)
		c->renewing = c->sink.renew = true;
	return 0;
}

/* The first packet of what begins anew: with the field that says so. */
static int write_first(struct client *c, const void *data, size_t len)
{
	struct cursor cursor = cursor_of(data, len);
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const void *packet;
	uint8_t field[16], *end;
	size_t n;

	if (!sink_next_packet(&cursor, &packet, &n))
		return control_queue(&c->stream, CONTROL_PACKETS, data, len);
	end = pack_number(field, FIELD_PREVIOUS_PACKET_DROPPED, 1);
	buffer_varint(&b, TRACE_PACKET_TAG);
	buffer_varint(&b, n + (size_t)(end - field));
	buffer_append(&b, packet, n);
	buffer_append(&b, field, (size_t)(end - field));
	buffer_append(&b, cursor.p, cursor_left(&cursor));
	return b.bad ? fail(-ENOMEM) : control_queue(&c->stream, CONTROL_PACKETS, b.data, b.len);
}

static size_t n_packets(const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t n = 0, size;

	while (sink_next_packet(&c, &packet, &size))
		n++;
	return n;
}

static int sink_write(struct sink *sink, const void *data, size_t len)
{
	struct client *c = container_of(sink, struct client, sink);
	bool fits = control_waiting(&c->stream) + len <= c->max_waiting;
	bool first = c->lost && c->renewing && !sink->renew;
	int r;

	sink->bytes += len;
	if (!fits && c->trace)
		return fail(-ENOBUFS);
	if (!fits || (c->lost && !first)) {
		/* Until there is room; a beginning that found none is asked for again. */
		c->lost = true;
		c->renewing = c->renewing && sink->renew;
		sink->dropped += n_packets(data, len);
		return 0;
	}
	c->lost = c->renewing = false;
	r = first ? write_first(c, data, len)
		  : control_queue(&c->stream, CONTROL_PACKETS, data, len);
	if (r >= 0 && control_waiting(&c->stream) >= SEND_AT && !c->watches_out)
		r = client_send(c);
	return r < 0 ? trace(r) : 0;
}

static int sink_flush(struct sink *sink)
{
	struct client *c = container_of(sink, struct client, sink);
	int r = client_send(c);

	return r < 0 ? trace(r) : 0;
}

void client_sink_init(struct client *c, size_t max_waiting)
{
	c->sink = (struct sink){.write = sink_write, .flush = sink_flush};
	c->max_waiting = max_waiting;
}
