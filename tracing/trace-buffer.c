/* trace-buffer.c - see trace-buffer.h.
 *
 *   data    ...│ oldest record │ record │ ... │ newest │ free ...     (a ring of bytes)
 *              read                                    written
 *   record  [u32 bytes][u32 sequence | flags][packet][to a multiple of 8]
 *
 * Positions only grow; a position modulo the size is where it lies.  The size is a multiple of 8,
 * so heads never wrap; packets may.
 *
 * Overwriting and incremental state.  A ring's reader begins somewhere in a sequence, and can use
 * nothing of it before the next packet that begins incremental state again.  A service leaves that
 * to the config (clear_period_ms); the writer is ours, so here the buffer itself asks: when a
 * quarter of the buffer was written since a sequence last began and none of that was read out yet,
 * and as soon as the packets it began with are overwritten.  So at least three quarters of a full
 * buffer can be used, whatever the rate, and a buffer that is read out often enough never asks.
 *
 * DISCARD is permanent, also when it is read out later: further packets would follow a hole of any
 * size.  No writer is asked to renew there, as no packet will be taken. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/log.h"
#include "protos/wire.h"
#include "tracing/trace-buffer.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"

enum {
	MIN_SIZE = 4096,
	RECORD_HEAD = 8,
	ALIGNMENT = 8,
	MAX_PACKET = 1 << 30,
	RENEWALS = 4, /* in a buffer's length */
	SPARE = 8,    /* of a recorder: one part of this size stays free */
	SHARED_TAIL = 4096,
};
/* Of a record: the sequence begins with it; a packet before it did not get in. */
#define FIRST (1u << 31)
#define LOST (1u << 30)

enum { /* previous_packet_dropped: bits */
       DROPPED_PRESENT = 1,
       DROPPED_OVERWRITTEN = 64,
       MAX_TRAILER = 5 * PACK_FIELD_MAX,
};

struct sequence {
	struct sink sink;
	struct trace_buffer *buffer;
	uint32_t index, id;
	bool any_packet;
	bool lost;	  /* a packet did not get in: the next one has a mark */
	bool held_up;	  /* ... because the buffer is sealed and full */
	bool overwritten; /* the next packet that is read has a mark */
	bool cleared;	  /* a packet was read with which its definitions begin */
	uint64_t began;	  /* where its incremental state began, about */
};

struct record {
	uint32_t len, sequence;
};

struct trace_buffer {
	struct trace_buffer_options options;
	uint8_t *data;
	uint64_t size;
	uint64_t written, read; /* positions; read: of the oldest record that is there */
	uint64_t read_out;	/* up to where a reader has come */
	bool closed;		/* DISCARD: was full */
	bool sealed;
	struct trace_buffer_range range; /* being read out: its times */
	_Atomic uint64_t *
		shared_read_out; /* the position to which another process has read; NULL: no recorder */
	struct sequence **sequences;
	uint32_t n_sequences;
	struct buffer packet; /* being read out */
	struct trace_buffer_stats stats;
};

/* Behind the data: a page for the position to which another process has read.  NULL: no memory. */
static uint8_t *share_memory(struct trace_buffer *b)
{
	uint8_t *p = mmap(NULL, b->size + SHARED_TAIL, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (mlock(p, b->size + SHARED_TAIL) < 0)
		log_verbose("the trace buffer is not locked in memory: %s", strerror(errno));
	b->shared_read_out = (_Atomic uint64_t *)(void *)(p + b->size);
	return p;
}

int trace_buffer_new(const struct trace_buffer_options *options, struct trace_buffer **ret_buffer)
{
	struct trace_buffer *b;

	if (options->size < MIN_SIZE)
		return fail(-EINVAL);
	b = calloc(1, sizeof(*b));
	if (!b)
		return fail(-ENOMEM);
	b->options = *options;
	b->size = options->size & ~(uint64_t)(ALIGNMENT - 1);
	b->stats.buffer_size = b->size;
	b->range.until = UINT64_MAX;
	b->data = options->recorder ? share_memory(b) : malloc(b->size);
	if (!b->data) {
		free(b);
		return fail(-ENOMEM);
	}
	*ret_buffer = b;
	return 0;
}

struct trace_buffer *trace_buffer_free(struct trace_buffer *b)
{
	if (!b)
		return NULL;
	for (uint32_t i = 0; i < b->n_sequences; i++)
		free(b->sequences[i]);
	free(b->sequences);
	if (b->shared_read_out)
		(void)munmap(b->data, b->size + SHARED_TAIL);
	else
		free(b->data);
	buffer_deinit(&b->packet);
	free(b);
	return NULL;
}

void trace_buffer_stats(const struct trace_buffer *b, struct trace_buffer_stats *ret_stats)
{
	*ret_stats = b->stats;
}

/* ---- the ring ---- */
static uint64_t record_size(uint64_t len)
{
	return (RECORD_HEAD + len + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static void copy_in(struct trace_buffer *b, uint64_t position, const void *from, uint64_t len)
{
	uint64_t at = position % b->size, first = min_u64(len, b->size - at);

	memcpy(b->data + at, from, first);
	memcpy(b->data, (const uint8_t *)from + first, len - first);
}

static void copy_out(const struct trace_buffer *b, uint64_t position, void *to, uint64_t len)
{
	uint64_t at = position % b->size, first = min_u64(len, b->size - at);

	memcpy(to, b->data + at, first);
	memcpy((uint8_t *)to + first, b->data, len - first);
}

static struct sequence *sequence_of(const struct trace_buffer *b, const struct record *r)
{
	return b->sequences[r->sequence & ~(FIRST | LOST)];
}

static void ask_for_renewal(struct sequence *s)
{
	s->sink.renew = true;
	s->began = s->buffer->written;
}

static void overwrite_oldest(struct trace_buffer *b)
{
	struct record record;
	struct sequence *s;

	copy_out(b, b->read, &record, sizeof(record));
	s = sequence_of(b, &record);
	s->overwritten = true;
	if (s->began <= b->read)
		ask_for_renewal(s);
	b->read += record_size(record.len);
	b->stats.chunks_overwritten++;
	b->stats.bytes_overwritten += record_size(record.len);
}

static void append(struct sequence *s, const void *packet, uint32_t len)
{
	const struct record record = {len, s->index | (s->any_packet ? 0 : FIRST) |
						   (s->lost ? LOST : 0)};
	struct trace_buffer *b = s->buffer;
	uint64_t lap = b->written / b->size;

	copy_in(b, b->written, &record, sizeof(record));
	copy_in(b, b->written + RECORD_HEAD, packet, len);
	b->written += record_size(len);
	b->stats.chunks_written++;
	b->stats.bytes_written += record_size(len);
	b->stats.write_wrap_count += b->written / b->size - lap;
	s->any_packet = true;
	s->lost = false;
	if (b->options.policy == TRACE_BUFFER_RING &&
	    b->written - max_u64(s->began, b->read_out) >= b->size / RENEWALS)
		ask_for_renewal(s);
}

/* Bytes that the records may take. */
static uint64_t room(const struct trace_buffer *b, bool sealed)
{
	return b->options.recorder && !sealed ? b->size - b->size / SPARE : b->size;
}

/* The oldest record is sealed, and the other process has not read it. */
static bool is_kept(const struct trace_buffer *b)
{
	return b->sealed &&
	       b->read >= atomic_load_explicit(b->shared_read_out, memory_order_acquire);
}

static void lose_packet(struct sequence *s, bool renew)
{
	s->buffer->stats.trace_writer_packet_loss++;
	s->sink.dropped++;
	s->lost = true;
	s->sink.renew |= renew;
	s->held_up = false;
}

static void take_packet(struct sequence *s, const void *packet, size_t len)
{
	struct trace_buffer *b = s->buffer;

	if (b->closed) {
		b->stats.chunks_discarded++;
		return;
	}
	if (len > MAX_PACKET || record_size(len) > room(b, false)) {
		lose_packet(s, true);
		return;
	}
	while (record_size(len) + (b->written - b->read) > room(b, b->sealed)) {
		if (b->options.policy == TRACE_BUFFER_DISCARD) {
			b->closed = true;
			b->stats.chunks_discarded++;
			return;
		}
		if (is_kept(b)) {
			lose_packet(s, false);
			s->held_up = true;
			return;
		}
		overwrite_oldest(b);
	}
	/* There is room again: the writer begins its state again, which it would have done in vain before. */
	if (s->held_up)
		lose_packet(s, true);
	else
		append(s, packet, (uint32_t)len);
}

/* ---- in ---- */
static int sequence_write(struct sink *sink, const void *data, size_t len)
{
	struct sequence *s = container_of(sink, struct sequence, sink);
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t packet_len;

	while (sink_next_packet(&c, &packet, &packet_len))
		take_packet(s, packet, packet_len);
	if (c.bad)
		return fail(-EINVAL);
	sink->bytes += len;
	return 0;
}

static int sequence_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

/* Its packets may still be in the buffer: it goes with that. */
static void sequence_free(struct sink *sink)
{
	(void)sink;
}

int trace_buffer_sink_new(struct trace_buffer *b, uint32_t sequence_id, struct sink **ret_sink)
{
	struct sequence **more, *s;

	more = reallocarray(b->sequences, b->n_sequences + 1, sizeof(struct sequence *));
	if (!more)
		return fail(-ENOMEM);
	b->sequences = more;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM);
	s->sink = (struct sink){
		.write = sequence_write, .flush = sequence_flush, .free = sequence_free};
	s->buffer = b;
	s->index = b->n_sequences;
	s->id = sequence_id;
	s->began = b->written;
	b->sequences[b->n_sequences++] = s;
	*ret_sink = &s->sink;
	return 0;
}

/* ---- out ---- */
/* What a service adds; last, so that it wins over the same fields of the writer. */
static uint8_t *pack_trailer(uint8_t *p, const struct trace_buffer *b, const struct sequence *s,
			     uint32_t flags)
{
	p = pack_number(p, TRACE_PACKET__TRUSTED_UID, (uint64_t)(int64_t)b->options.uid);
	p = pack_number(p, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, s->id);
	if (b->options.pid)
		p = pack_number(p, TRACE_PACKET__TRUSTED_PID, (uint64_t)(int64_t)b->options.pid);
	if (flags & FIRST)
		p = pack_number(p, TRACE_PACKET__FIRST_PACKET_ON_SEQUENCE, 1);
	if ((s->overwritten && !b->options.recorder) || flags & LOST)
		p = pack_number(p, TRACE_PACKET__PREVIOUS_PACKET_DROPPED,
				DROPPED_PRESENT | (s->overwritten ? DROPPED_OVERWRITTEN : 0));
	return p;
}

/* The oldest record as a whole Trace.packet field in b->packet. */
static int unpack_oldest(struct trace_buffer *b, const struct record *record)
{
	const struct sequence *s = sequence_of(b, record);
	uint8_t trailer[MAX_TRAILER], *p;
	size_t trailer_len, len;

	trailer_len = (size_t)(pack_trailer(trailer, b, s, record->sequence) - trailer);
	len = record->len + trailer_len;
	b->packet.len = 0;
	p = buffer_reserve(&b->packet, pack_bytes_size(TRACE__PACKET, len));
	if (!p) {
		b->packet.bad = false;
		return fail(-ENOMEM);
	}
	p = pack_head(p, TRACE__PACKET, len);
	copy_out(b, b->read + RECORD_HEAD, p, record->len);
	memcpy(p + record->len, trailer, trailer_len);
	b->packet.len = (size_t)(p + len - b->packet.data);
	return 0;
}

/* A packet that needs definitions which were overwritten.  Those of a sequence begin again in a packet with the flag
 * CLEARED. */
static bool is_unusable(struct sequence *s, const struct wire_field *packet)
{
	struct cursor c = wire_message(packet);
	struct wire_field f;
	uint64_t flags = 0;

	if (!s->buffer->options.recorder || !s->buffer->stats.chunks_overwritten || s->cleared)
		return false;
	while (wire_next(&c, &f))
		if (f.number == TRACE_PACKET__SEQUENCE_FLAGS)
			flags = f.value;
	s->cleared = flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	return flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
}

/* A sample with another clock is a loss or an event, not a sample of its time. */
static bool is_outside(const struct trace_buffer_range *range, const struct wire_field *packet,
		       struct wire_field *ret_sample, bool *ret_defines)
{
	struct cursor c = wire_message(packet);
	struct wire_field f;
	uint64_t time = 0;
	bool sample = false, other_clock = false;

	*ret_defines = false;
	while (wire_next(&c, &f)) {
		if (wire_is(&f, TRACE_PACKET__TIMESTAMP))
			time = f.value;
		other_clock |= wire_is(&f, TRACE_PACKET__TIMESTAMP_CLOCK_ID);
		*ret_defines |= wire_is_bytes(&f, TRACE_PACKET__INTERNED_DATA);
		if (!wire_is_bytes(&f, TRACE_PACKET__PERF_SAMPLE))
			continue;
		sample = true;
		*ret_sample = f;
	}
	return sample && !other_clock && (time < range->since || time > range->until);
}

/* b->packet without its field @sample, in place: the rest moves up to it from the front. */
static const uint8_t *without_sample(struct trace_buffer *b, const struct wire_field *packet,
				     const struct wire_field *sample, size_t *ret_len)
{
	size_t head = pack_bytes_size(TRACE_PACKET__PERF_SAMPLE, sample->len) - sample->len;
	uint8_t *body = b->packet.data + (packet->data - b->packet.data), *p,
		*gap = body + (sample->data - packet->data) - head;
	size_t before = (size_t)(gap - body), len = packet->len - head - sample->len;

	memmove(body + head + sample->len, body, before);
	body += head + sample->len;
	p = body - (pack_bytes_size(TRACE__PACKET, len) - len);
	(void)pack_head(p, TRACE__PACKET, len);
	*ret_len = pack_bytes_size(TRACE__PACKET, len);
	return p;
}

/* Writes b->packet, a record of @s, or a part of it, or nothing. */
static int write_packet(struct trace_buffer *b, struct sequence *s, struct sink *to)
{
	struct cursor c = cursor_of(b->packet.data, b->packet.len);
	struct wire_field packet, sample;
	const uint8_t *data = b->packet.data;
	size_t len = b->packet.len;
	bool defines;
	int r;

	if (wire_next(&c, &packet)) {
		if (is_unusable(s, &packet))
			return 0;
		if (b->options.recorder && is_outside(&b->range, &packet, &sample, &defines)) {
			if (!defines)
				return 0;
			data = without_sample(b, &packet, &sample, &len);
		}
	}
	r = to->write(to, data, len);
	return r < 0 ? trace(r) : 0;
}

int trace_buffer_read(struct trace_buffer *b, struct sink *to, uint64_t max_bytes)
{
	while (b->read != b->written) {
		struct record record;
		int r;

		copy_out(b, b->read, &record, sizeof(record));
		r = unpack_oldest(b, &record);
		if (r < 0)
			return trace(r);
		if (to->bytes > max_bytes || b->packet.len > max_bytes - to->bytes)
			return TRACE_BUFFER_MORE;
		r = write_packet(b, sequence_of(b, &record), to);
		if (r < 0)
			return trace(r);
		sequence_of(b, &record)->overwritten = false;
		b->read += record_size(record.len);
		b->read_out = b->read;
		if (b->shared_read_out)
			atomic_store_explicit(b->shared_read_out, b->read, memory_order_release);
		b->stats.chunks_read++;
		b->stats.bytes_read += record_size(record.len);
	}
	return 0;
}

/* ---- a recorder's range ---- */

void trace_buffer_seal(struct trace_buffer *b)
{
	atomic_store_explicit(b->shared_read_out, b->read, memory_order_release);
	b->sealed = true;
}

void trace_buffer_unseal(struct trace_buffer *b)
{
	b->sealed = false;
}

void trace_buffer_range(const struct trace_buffer *b, struct trace_buffer_range *ret_range)
{
	ret_range->from = b->read;
	ret_range->to = b->written;
	ret_range->overwritten = b->stats.chunks_overwritten > 0;
}

int trace_buffer_read_range(struct trace_buffer *b, const struct trace_buffer_range *range,
			    struct sink *to)
{
	int r;

	b->read = range->from;
	b->written = range->to;
	b->range = *range;
	b->stats.chunks_overwritten = range->overwritten;
	for (uint32_t i = 0; i < b->n_sequences; i++)
		b->sequences[i]->cleared = false;
	r = trace_buffer_read(b, to, UINT64_MAX);
	return r < 0 ? trace(r) : 0;
}

int trace_buffer_prepare(struct trace_buffer *b)
{
	size_t len = min_u64(b->size, TRACE_BUFFER_PACKET) + PACK_FIELD_MAX + MAX_TRAILER;
	uint8_t *p = buffer_reserve(&b->packet, len);

	if (!p)
		return fail(-ENOMEM);
	memset(p, 0, len);
	return 0;
}
