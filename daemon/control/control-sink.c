/* control-sink.c - from a session's sink to a client.  Thread: main.
 *
 * What is said goes over the connection, the packets into the descriptor that the client sent.
 * What the client has not read waits in our memory, up to a bound.  A recording then loses packets,
 * and as a reader can make no sense of what follows until incremental state is written anew, all is
 * dropped until half of the room is free again; the packet that begins anew says that some were
 * lost.  A trace session's packets are already cut out of its buffers and cannot be written again:
 * there the bound is the end. */
#include <errno.h>

#include "base/error.h"
#include "daemon/control/control-private.h"
#include "protos/wire.h"
#include "protos/trace.fields.h"

enum {
	SEND_AT = 64 << 10, /* bytes gathered before a system call */
};

size_t client_waiting(const struct client *c)
{
	return control_waiting(&c->stream) + control_waiting(&c->output);
}

void client_output_close(struct client *c)
{
	loop_remove(c->control->loop, &c->output_source);
	control_stream_deinit(&c->output);
}

static void watch(struct client *c, struct loop_source *source, bool *watches, bool pending,
		  uint32_t always)
{
	if (pending == *watches)
		return;
	*watches = pending;
	(void)loop_change(c->control->loop, source, always | (pending ? EPOLLOUT : 0));
}

int client_send(struct client *c)
{
	int r = control_send(&c->stream);

	if (r < 0)
		return trace(r);
	watch(c, &c->source, &c->watches_out, r == CONTROL_PENDING, EPOLLIN);
	if (c->output.fd < 0)
		return 0;
	r = control_send(&c->output);
	if (r < 0) {
		client_output_close(c); /* the next packet is told so */
		return 0;
	}
	/* Where we hold back (CONTROL_HELD) there seems to be room all the time: the tick tries. */
	watch(c, &c->output_source, &c->output_watches_out, r == CONTROL_PENDING, 0);
	if (c->lost && !c->renewing && control_waiting(&c->output) <= c->max_waiting / 2)
		c->renewing = c->sink.renew = true;
	return 0;
}

static int queue_packets(struct client *c, const void *data, size_t len)
{
	int r = control_queue_bytes(&c->output, data, len);

	if (r < 0)
		return trace(r);
	c->streamed += len;
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
		return queue_packets(c, data, len);
	end = pack_number(field, TRACE_PACKET__PREVIOUS_PACKET_DROPPED, 1);
	buffer_varint(&b, SINK_PACKET_TAG);
	buffer_varint(&b, n + (size_t)(end - field));
	buffer_append(&b, packet, n);
	buffer_append(&b, field, (size_t)(end - field));
	buffer_append(&b, cursor.p, cursor_left(&cursor));
	return b.bad ? fail(-ENOMEM) : queue_packets(c, b.data, b.len);
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
	bool fits = control_waiting(&c->output) + len <= c->max_waiting;
	bool first = c->lost && c->renewing && !sink->renew;
	int r;

	sink->bytes += len;
	if (c->output.fd < 0)
		return fail(-EPIPE);
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
	r = first ? write_first(c, data, len) : queue_packets(c, data, len);
	if (r >= 0 && control_waiting(&c->output) >= SEND_AT && !c->output_watches_out)
		r = client_send(c);
	return r < 0 ? trace(r) : 0;
}

static int sink_flush(struct sink *sink)
{
	struct client *c = container_of(sink, struct client, sink);
	int r = client_send(c);

	if (r >= 0 && c->output.fd < 0)
		r = -EPIPE;
	return r < 0 ? trace(r) : 0;
}

void client_sink_init(struct client *c, size_t max_waiting)
{
	c->sink = (struct sink){.write = sink_write, .flush = sink_flush};
	c->max_waiting = max_waiting;
}
