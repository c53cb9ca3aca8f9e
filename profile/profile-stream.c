/* profile-stream.c - bytes of a trace, as they come, into packets.
 *
 * What comes is looked at where it is; only the packet that is not whole yet is kept.  A compressed
 * packet goes through a stream of its own, as it unpacks: neither is ever there as a whole. */
#include <errno.h>
#include <zlib.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum {
	HEAD_MAX = 20,	       /* bytes of two varints */
	MAX_PACKET = 32 << 20, /* writers keep below 1 MiB */
	PIECE = 128 << 10,
};

struct inflater {
	z_stream z;
	uint8_t piece[PIECE];
};

void reader_stream_deinit(struct reader *r)
{
	if (r->inflater)
		(void)inflateEnd(&r->inflater->z);
	free(take(r->inflater));
	buffer_deinit(&r->outer.held);
	buffer_deinit(&r->inner.held);
}

/* Where the packet at [data, data + left) has its body.  Nothing else than packets has ever stood
 * there; to be strict tells foreign files from damaged ones.  READER_BROKEN: it is none; *ret_head 0:
 * more bytes are needed to know. */
static int packet_head(const uint8_t *data, size_t left, size_t *ret_head, uint64_t *ret_len)
{
	struct cursor c = cursor_of(data, left);
	uint64_t tag = cursor_uleb(&c), len = 0;

	*ret_head = 0;
	*ret_len = 0;
	if (!c.bad && tag != (TRACE__PACKET << 3 | WIRE_BYTES))
		return READER_BROKEN;
	if (!c.bad)
		len = cursor_uleb(&c);
	if (c.bad)
		return left < HEAD_MAX ? 0 : READER_BROKEN;
	*ret_head = left - cursor_left(&c);
	*ret_len = len;
	return 0;
}

/* The whole packets of @data.  *ret_used: their bytes. */
static int take_packets(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len,
			size_t *ret_used)
{
	size_t used = 0, head;
	uint64_t body;
	int e = 0;

	while (!e && used < len) {
		e = packet_head(data + used, len - used, &head, &body);
		if (e || !head)
			break;
		if (body > MAX_PACKET) { /* damage, or a bound: its end will tell */
			s->skip = body > UINT64_MAX / 2 ? UINT64_MAX : head + body;
			break;
		}
		if (body > len - used - head)
			break;
		e = reader_packet(r, data + used + head, (size_t)body);
		if (!e)
			used += head + (size_t)body;
	}
	s->good += used;
	*ret_used = used;
	return e < 0 ? trace(e) : e;
}

static int skip_bytes(struct reader *r, struct packet_stream *s, size_t len)
{
	s->skip -= min_u64(s->skip, len);
	return s->skip ? 0 : reader_too_large(r, "MiB in one packet", MAX_PACKET >> 20);
}

static int stream_feed(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len)
{
	bool kept = s->held.len;
	size_t used;
	int e;

	if (s->skip)
		return skip_bytes(r, s, len);
	if (kept) {
		buffer_append(&s->held, data, len);
		if (s->held.bad)
			return fail(-ENOMEM);
		data = s->held.data;
		len = s->held.len;
	}
	e = take_packets(r, s, data, len, &used);
	if (e)
		return e < 0 ? trace(e) : e;
	if (s->skip) {
		s->held.len = 0;
		return skip_bytes(r, s, len - used);
	}
	if (kept) {
		if (used)
			memmove(s->held.data, s->held.data + used, len - used);
		s->held.len = len - used;
	} else {
		buffer_append(&s->held, data + used, len - used);
	}
	return s->held.bad ? fail(-ENOMEM) : 0;
}

/* Bytes are left of a packet that was cut. */
static bool stream_is_cut(const struct packet_stream *s)
{
	return s->held.len || s->skip;
}

int reader_feed(struct reader *r, const void *data, size_t len)
{
	int e;

	r->fed += len;
	e = stream_feed(r, &r->outer, len ? data : (const uint8_t *)"", len);
	return e < 0 ? trace(e) : e;
}

int reader_end(struct reader *r)
{
	return stream_is_cut(&r->outer) ? READER_BROKEN : 0;
}

/* ---- compressed packets ---- */

static int get_inflater(struct reader *r)
{
	if (r->inflater)
		return inflateReset(&r->inflater->z) == Z_OK ? 0 : fail(-EINVAL);
	r->inflater = calloc(1, sizeof(*r->inflater));
	if (!r->inflater)
		return fail(-ENOMEM);
	if (inflateInit(&r->inflater->z) == Z_OK)
		return 0;
	free(take(r->inflater));
	return fail(-ENOMEM);
}

static int inflate_pieces(struct reader *r, const struct wire_field *f)
{
	struct inflater *in = r->inflater;
	int status = Z_OK, e = 0;

	in->z.next_in = (uint8_t *)f->data;
	in->z.avail_in = (uInt)f->len; /* below MAX_PACKET */
	while (!e && status == Z_OK) {
		size_t n;

		in->z.next_out = in->piece;
		in->z.avail_out = sizeof(in->piece);
		status = inflate(&in->z, Z_NO_FLUSH);
		n = sizeof(in->piece) - in->z.avail_out;
		if (status == Z_MEM_ERROR)
			return fail(-ENOMEM);
		if (status == Z_OK && !n && !in->z.avail_in)
			status = Z_DATA_ERROR; /* cut */
		e = reader_inflated(r, n);
		if (!e)
			e = stream_feed(r, &r->inner, in->piece, n);
	}
	if (e < 0)
		return trace(e);
	return e || status != Z_STREAM_END || stream_is_cut(&r->inner) ? READER_BROKEN : 0;
}

int reader_inflate(struct reader *r, const struct wire_field *f)
{
	int e;

	if (r->in_compressed) /* packets inside packets inside ...: nobody writes that */
		return READER_BROKEN;
	e = get_inflater(r);
	if (e < 0)
		return trace(e);
	r->inner.held.len = 0;
	r->inner.skip = 0;
	r->in_compressed = true;
	e = inflate_pieces(r, f);
	r->in_compressed = false;
	return e < 0 ? trace(e) : e;
}
