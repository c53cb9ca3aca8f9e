/* sink-deflate.c - see sink_deflate_new() in sink.h.
 *
 *   Trace.packet { TracePacket.compressed_packets = zlib stream of [Trace.packet ...] }
 *
 * Field 50, and readers want each packet of this kind under 512 KiB (the trace format's own comment).  Each is
 * a stream of its own, so that a file that is cut loses no more than the last one; CHUNK is well
 * above zlib's window, so little is lost by that.  Level 1: the bulk of a trace is stacks that
 * differ from one before in a few frames, which the fastest matcher finds as well as the best.
 * libdeflate does the same in half of zlib's time (a chunk at once, no state between), so it is
 * used where it is there.  Figures: writer.c. */
#include <errno.h>
#include <string.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

#include "base/bytes.h"
#include "base/error.h"
#include "protos/wire.h"
#include "trace/sink.h"
#include "protos/trace.fields.h"

enum {
	CHUNK = 192 << 10,
	LEVEL = 1,
	MARKS = 64,
};

#ifdef HAVE_LIBDEFLATE
struct engine {
	struct libdeflate_compressor *compressor;
};

/* *ret_room: what CHUNK bytes may become. */
static bool engine_init(struct engine *e, size_t *ret_room)
{
	e->compressor = libdeflate_alloc_compressor(LEVEL);
	*ret_room = e->compressor ? libdeflate_zlib_compress_bound(e->compressor, CHUNK) : 0;
	return e->compressor;
}

/* 0: it does not fit. */
static size_t engine_pack(struct engine *e, const void *data, size_t len, void *to, size_t room)
{
	return libdeflate_zlib_compress(e->compressor, data, len, to, room);
}

static void engine_deinit(struct engine *e)
{
	libdeflate_free_compressor(e->compressor);
}
#else
struct engine {
	z_stream stream;
};

static bool engine_init(struct engine *e, size_t *ret_room)
{
	if (deflateInit(&e->stream, LEVEL) != Z_OK)
		return false;
	*ret_room = deflateBound(&e->stream, CHUNK);
	return true;
}

static size_t engine_pack(struct engine *e, const void *data, size_t len, void *to, size_t room)
{
	(void)deflateReset(&e->stream);
	e->stream.next_in = (void *)data;
	e->stream.avail_in = (uInt)len;
	e->stream.next_out = to;
	e->stream.avail_out = (uInt)room;
	return deflate(&e->stream, Z_FINISH) == Z_STREAM_END ? room - e->stream.avail_out : 0;
}

static void engine_deinit(struct engine *e)
{
	(void)deflateEnd(&e->stream);
}
#endif

/* Where a compressed packet ends in the file, and what stands before that: if the file cannot be
 * written to its end, the marks give how much of the input is there. */
struct mark {
	uint64_t bytes;
	struct sink_count count;
};

struct sink_deflate {
	struct sink sink;
	struct sink *inner;
	struct sink_count given;  /* to the inner sink */
	struct mark marks[MARKS]; /* since it was flushed */
	size_t n_marks;
	struct engine engine;
	size_t len, room; /* of packed, behind its heads */
	uint8_t *packed;
	uint8_t raw[CHUNK];
};

static void settle(struct sink_deflate *d, int r)
{
	d->sink.bytes = d->inner->bytes;
	if (r >= 0)
		d->sink.written = d->given;
	for (size_t i = 0; r < 0 && i < d->n_marks && d->marks[i].bytes <= d->inner->bytes; i++)
		d->sink.written = d->marks[i].count;
	d->n_marks = 0;
}

static int flush_inner(struct sink_deflate *d)
{
	int r = d->inner->flush(d->inner);

	settle(d, r);
	return r < 0 ? trace(r) : 0;
}

/* Hands on one packet, in which there is @data. */
static int hand_on(struct sink_deflate *d, const void *packet, size_t packet_len, const void *data,
		   size_t len)
{
	int r = d->inner->write(d->inner, packet, packet_len);

	if (r < 0) {
		settle(d, r);
		return trace(r);
	}
	d->sink.bytes = d->inner->bytes;
	sink_count_add(&d->given, data, len);
	d->marks[d->n_marks++] = (struct mark){d->inner->bytes, d->given};
	return d->n_marks < MARKS ? 0 : flush_inner(d);
}

/* The gathered packets as one compressed packet to the inner sink. */
static int deflate_out(struct sink_deflate *d)
{
	size_t n, head;
	uint8_t *p;
	int r;

	if (!d->len)
		return 0;
	n = engine_pack(&d->engine, d->raw, d->len, d->packed + 2 * PACK_FIELD_MAX, d->room);
	if (!n)
		return fail(-EIO);
	head = pack_bytes_size(TRACE_PACKET__COMPRESSED_PACKETS, n);
	p = d->packed + 2 * PACK_FIELD_MAX - (pack_bytes_size(TRACE__PACKET, head) - n);
	(void)pack_head(pack_head(p, TRACE__PACKET, head), TRACE_PACKET__COMPRESSED_PACKETS, n);
	r = hand_on(d, p, pack_bytes_size(TRACE__PACKET, head), d->raw, d->len);
	d->len = 0;
	return r < 0 ? trace(r) : 0;
}

static int deflate_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);
	int r;

	if (len > CHUNK - d->len) {
		r = deflate_out(d);
		if (r < 0)
			return trace(r);
	}
	if (len > CHUNK) /* a giant stays as it is */
		return hand_on(d, data, len, data, len);
	if (len)
		memcpy(d->raw + d->len, data, len);
	d->len += len;
	return 0;
}

static int deflate_flush(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);
	int r;

	r = deflate_out(d);
	if (r >= 0)
		r = flush_inner(d);
	return r < 0 ? trace(r) : 0;
}

static void deflate_free(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);

	engine_deinit(&d->engine);
	sink_free(d->inner);
	free(d->packed);
	free(d);
}

int sink_deflate_new(struct sink *inner, struct sink **ret_sink)
{
	struct sink_deflate *d = calloc(1, sizeof(*d));

	if (!d) {
		sink_free(inner);
		return fail(-ENOMEM);
	}
	d->sink =
		(struct sink){.write = deflate_write, .flush = deflate_flush, .free = deflate_free};
	d->inner = inner;
	if (engine_init(&d->engine, &d->room))
		d->packed = malloc(d->room + 2 * PACK_FIELD_MAX);
	if (!d->packed) {
		sink_free(&d->sink);
		return fail(-ENOMEM);
	}
	*ret_sink = &d->sink;
	return 0;
}

void sink_deflate_restart(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);

	d->len = d->n_marks = 0;
	d->given = sink->written = (struct sink_count){0};
	sink->bytes = sink->dropped = 0;
	sink->renew = false;
}
