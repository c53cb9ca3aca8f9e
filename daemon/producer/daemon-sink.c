/* daemon-sink.c - from a session's sink to the shared memory.  Thread: main.
 *
 * A session writes `Trace.packet` fields; each goes as one packet to the writer of its instance.
 * The writer keeps what finds no free chunk (up to the setting waiting-size), so a service that is
 * late for some milliseconds costs nothing.  Beyond that packets are lost, and then a reader can
 * make no sense of what follows until incremental state is written anew.  So all is dropped here
 * until half of the waiting room is free again, and the packet that begins the new state is the
 * first one to pass: it is the one that says "packets were lost before me". */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/producer/daemon-private.h"
#include "protos/wire.h"
#include "protos/trace.fields.h"

enum { COUNTER_UNWIND_QUEUE = 4 }; /* PerfettoMetatrace.counter_id: a number of the public format */

/* There is room again: whoever writes is asked to begin anew (sink.h), and does before its next
 * sample. */
void instance_renew(struct instance *in)
{
	if (in->lost && !in->renewing && instance_waiting(in) <= in->max_waiting / 2)
		in->renewing = in->sink.renew = true;
}

/* Is this packet of use?  After a loss not before the one that begins the state anew: the writer
 * clears `renew` right before it. */
static bool is_of_use(struct instance *in)
{
	if (!in->lost)
		return true;
	instance_renew(in);
	if (!in->renewing || in->sink.renew)
		return false;
	in->lost = in->renewing = false;
	return true;
}

static int write_packet(struct instance *in, const void *packet, size_t len)
{
	int r;

	if (!is_of_use(in)) {
		in->sink.dropped++;
		return 0;
	}
	r = smb_writer_write(in->writer, packet, len);
	if (r < 0)
		return trace(r);
	if (r == SMB_DROPPED) {
		in->lost = true;
		in->sink.dropped++;
	}
	if (smb_writer_waiting(in->writer))
		daemon_ask_committed(in->daemon);
	return 0;
}

static int sink_write(struct sink *sink, const void *data, size_t len)
{
	struct instance *in = container_of(sink, struct instance, sink);
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t n;
	int r = 0;

	sink->bytes += len;
	while (r >= 0 && sink_next_packet(&c, &packet, &n))
		r = write_packet(in, packet, n);
	return r < 0 ? trace(r) : 0;
}

static int sink_flush(struct sink *sink)
{
	struct instance *in = container_of(sink, struct instance, sink);
	int r = smb_writer_flush(in->writer);

	if (r == SMB_BEHIND)
		daemon_ask_committed(in->daemon);
	return r < 0 ? trace(r) : 0;
}

int instance_open_sink(struct instance *in)
{
	struct daemon *d = in->daemon;
	int r;

	if (!d->smb)
		return fail(-ENOTCONN);
	in->max_waiting = d->options.settings.waiting_size;
	r = smb_writer_new(d->smb, in->target_buffer, in->max_waiting, &in->writer);
	if (r < 0)
		return trace(r);
	in->sink = (struct sink){.write = sink_write, .flush = sink_flush};
	/* Before its first chunk: scraping looks at the chunks of registered writers only. */
	producer_register_writer(d->producer, smb_writer_id(in->writer), in->target_buffer);
	return 0;
}

void instance_close_sink(struct instance *in)
{
	uint16_t id;

	if (!in->writer)
		return;
	id = smb_writer_id(in->writer);
	in->writer = smb_writer_free(in->writer);
	(void)smb_commit(in->daemon->smb); /* the chunk that it gave back */
	producer_unregister_writer(in->daemon->producer, id);
	if (in->sink.dropped)
		log_info("data source %lu: %lu packets were lost, as the tracing service's shared "
			 "memory was full; hint: a larger one (producers { shm_size_kb } in the "
			 "trace config, or --shmem-size)",
			 in->id, in->sink.dropped);
}

size_t instance_waiting(const struct instance *in)
{
	return in->writer ? smb_writer_waiting(in->writer) : 0;
}

/* How many samples are on their way, in all sessions: the counter that a stock producer gives too.
 */
static int32_t in_flight(const struct daemon *d)
{
	uint64_t n = 0;

	for (const struct instance *in = d->instances; in; in = in->next)
		n += in->session ? session_in_flight(in->session) : 0;
	return (int32_t)min_u64(n, INT32_MAX);
}

void instance_write_metatrace(struct instance *in)
{
	uint8_t packet[64], metatrace[32], *p = metatrace, *end;

	p = pack_number(p, PERFETTO_METATRACE__COUNTER_ID, COUNTER_UNWIND_QUEUE);
	p = pack_number(p, PERFETTO_METATRACE__COUNTER_VALUE, (uint64_t)in_flight(in->daemon));
	p = pack_number(p, PERFETTO_METATRACE__THREAD_ID, (uint64_t)syscall(SYS_gettid));
	end = pack_number(packet, TRACE_PACKET__TIMESTAMP, clock_ns(CLOCK_BOOTTIME));
	end = pack_bytes(end, TRACE_PACKET__PERFETTO_METATRACE, metatrace, (size_t)(p - metatrace));
	if (write_packet(in, packet, (size_t)(end - packet)) < 0 || sink_flush(&in->sink) < 0)
		in->lost = true;
	/* No state hangs on these packets: the next one may pass. */
	in->lost = in->renewing = false;
}
