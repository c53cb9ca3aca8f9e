/* smb-writer.c - see smb.h: a writer cuts whole packets into fragments over its chunks.
 *
 *   chunk n                       chunk n+1                chunk n+2
 *   [head][packet][packet][pack   [head][et, and no end    [head][yet][packet]0
 *          count 3, flag 2             count 1, flags 1|2        count 3, flag 1; 0: see below
 *
 * Packets come with their final sizes, so nothing is patched later.
 *
 * Scraping.  The service may copy a chunk that is being written, and believes all of its fragments
 * but the last.  So behind each packet the count is one more than there are; the next packet fills
 * that place, or, if the chunk is given back first, an empty fragment does.  The bytes are written
 * first, the count is stored with release; what has been counted is not written again.
 *
 * No room.  With a waiting room the rest of a packet waits there; the chunk it began in is given to
 * the service at once, for its chunk id makes the continuation find it, and held back it might be
 * the one that all wait for.  Packets behind it queue up.  What would not fit into the room does
 * not wait: then the next chunk is taken before this one is given back, and if there is none the
 * fragment is not counted, or, where an earlier chunk has its beginning, is turned into the mark
 * that makes the reader forget the packet.
 *
 * After a loss the room must get half empty before anything goes in again: what follows a loss
 * begins with all interned entries anew, which is not worth writing for a few packets each. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "daemon/producer/smb-private.h"

enum {
	MIN_START = 12,	  /* bytes that must be left for a packet to begin: facts of the format */
	MAX_COUNT = 1022, /* fragments in a chunk */
	MAX_PACKET = 64 << 20, /* the format's bound is 2^28 - 2, in all its fragments */
	MAX_TRAILER = 8,
	FLAGS_SHIFT = 10,
	LENGTH = 4, /* in front of a packet that waits */
};

/* A packet on its way: its bytes and the fields added behind them. */
struct smb_bytes {
	const uint8_t *data, *trailer;
	size_t len, trailer_len;
};

/* Where a writer stands in its chunk. */
struct smb_mark {
	uint32_t used, count;
	bool inflated;
};

static size_t bytes_left(const struct smb_bytes *b)
{
	return b->len + b->trailer_len;
}

static void bytes_take(struct smb_bytes *b, uint8_t *to, size_t n)
{
	size_t first = min_u64(n, b->len);

	if (first) {
		memcpy(to, b->data, first);
		b->data += first;
		b->len -= first;
	}
	if (n > first) {
		memcpy(to + first, b->trailer, n - first);
		b->trailer += n - first;
		b->trailer_len -= n - first;
	}
}

int smb_writer_new(struct smb *smb, uint32_t target_buffer, size_t max_waiting,
		   struct smb_writer **ret_writer)
{
	uint32_t id = smb->last_id;
	struct smb_writer *w;

	for (uint32_t tries = 0;; tries++) {
		if (tries == SMB_MAX_WRITER_ID)
			return fail(-EMFILE);
		id = id % SMB_MAX_WRITER_ID + 1;
		if (!(smb->ids[id / 32] & 1u << id % 32))
			break;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(-ENOMEM);
	smb->ids[id / 32] |= 1u << id % 32;
	smb->last_id = id;
	w->smb = smb;
	w->id = (uint16_t)id;
	w->target_buffer = target_buffer;
	w->max_waiting = max_waiting;
	w->next = smb->writers;
	smb->writers = w;
	*ret_writer = w;
	return 0;
}

uint16_t smb_writer_id(const struct smb_writer *w)
{
	return w->id;
}

size_t smb_writer_waiting(const struct smb_writer *w)
{
	return w->waiting.len - w->waiting_at;
}

/* ---- chunks ---- */
static uint16_t packets_word(uint32_t count, uint32_t flags)
{
	return (uint16_t)(count | flags << FLAGS_SHIFT);
}

/* Takes the next chunk, which is not this writer's current one yet. */
static int take_chunk(struct smb_writer *w, bool continues, struct smb_chunk *ret_chunk)
{
	uint16_t packets = continues ? packets_word(1, SMB_FIRST_CONTINUES) : 0;
	int r = smb_chunk_take(w->smb, w->id, w->chunk_id, packets, ret_chunk);

	if (r == 0)
		w->chunk_id++;
	return r < 0 ? trace(r) : r;
}

static void use_chunk(struct smb_writer *w, const struct smb_chunk *c, bool continues)
{
	w->chunk = *c;
	w->used = SMB_CHUNK_HEADER;
	w->count = 0;
	w->flags = continues ? SMB_FIRST_CONTINUES : 0;
	w->inflated = false;
}

/* A packet is gone: the next one says so. */
static int drop(struct smb_writer *w)
{
	w->lost = true;
	w->smb->stats.dropped++;
	return SMB_DROPPED;
}

int smb_writer_give(struct smb_writer *w)
{
	int r;

	if (!w->chunk.data)
		return 0;
	if (w->inflated) {
		w->chunk.data[w->used] = 0; /* an empty fragment: the count is true */
		w->count++;
	}
	r = smb_chunk_give(w->smb, &w->chunk, packets_word(w->count, w->flags), w->target_buffer);
	if (r == SMB_DROPPED) {
		/* The service took it away, and what was in it. */
		w->lost = w->tell = true;
		return 0;
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- fragments ---- */
static uint32_t varint_size(size_t value)
{
	uint32_t n = 1;

	while (value >>= 7)
		n++;
	return n;
}

/* Writes the next fragment, of what there is room for; it is not in the header's count yet. */
static void put_fragment(struct smb_writer *w, struct smb_bytes *b)
{
	uint32_t room = w->chunk.size - w->used, head;
	uint8_t *p = w->chunk.data + w->used;
	size_t n = bytes_left(b), value;

	head = varint_size(n);
	if (n + head > room) {
		/* The bigger head may be one byte more than the length needs; varints may be. */
		head = varint_size(room);
		n = room - head;
	}
	value = n;
	for (uint32_t i = 0; i < head; i++, value >>= 7)
		*p++ = (uint8_t)((value & 0x7f) | (i + 1 < head ? 0x80 : 0));
	bytes_take(b, p, n);
	w->used += head + (uint32_t)n;
	w->count++;
	w->inflated = false;
}

/* The packet is whole: makes it visible. */
static int end_packet(struct smb_writer *w)
{
	if (w->chunk.size - w->used < MIN_START || w->count >= MAX_COUNT) {
		int r = smb_writer_give(w);

		return r < 0 ? trace(r) : 0;
	}
	w->inflated = true;
	smb_chunk_publish(&w->chunk, packets_word(w->count + 1, w->flags));
	return 0;
}

/* The last fragment put fills its chunk, its packet goes on, and there is no chunk for that: takes
 * the fragment back.  @was: as the writer was before it. */
static int give_up_packet(struct smb_writer *w, const struct smb_mark *was)
{
	int r;

	if (was->count) {
		w->used = was->used;
		w->count = was->count;
		w->inflated = was->inflated;
	} else {
		static const uint8_t forget[] = {0xff, 0xff, 0xff, 0x7f};

		memcpy(w->chunk.data + was->used, forget, sizeof(forget));
	}
	r = smb_writer_give(w);
	if (r < 0)
		return trace(r);
	r = smb_commit(w->smb);
	return r < 0 ? trace(r) : 0;
}

/* Writes @b.  0: all.  SMB_FULL: if @keep, the rest is in @b and must be written next (continues
 * says whether it is a rest); else the packet is given up. */
static int put_packet(struct smb_writer *w, struct smb_bytes *b, bool keep)
{
	struct smb_chunk next;
	int r;

	if (!w->chunk.data) {
		r = take_chunk(w, w->continues, &next);
		if (r)
			return r < 0 ? trace(r) : r;
		use_chunk(w, &next, w->continues);
	}
	for (;;) {
		const struct smb_mark was = {w->used, w->count, w->inflated};

		put_fragment(w, b);
		w->continues = false;
		if (!bytes_left(b))
			return end_packet(w);
		if (!keep) {
			r = take_chunk(w, true, &next);
			if (r == SMB_FULL) {
				r = give_up_packet(w, &was);
				return r < 0 ? trace(r) : SMB_FULL;
			}
			if (r < 0)
				return trace(r);
		}
		w->flags |= SMB_LAST_CONTINUES;
		r = smb_writer_give(w);
		if (r < 0)
			return trace(r);
		w->continues = true;
		if (keep) {
			r = take_chunk(w, true, &next);
			if (r)
				return r < 0 ? trace(r) : r;
		}
		use_chunk(w, &next, true);
	}
}

/* ---- the waiting room ---- */
/* Is there room for @len bytes more?  Also makes it, so that waiting cannot fail. */
static bool has_room(struct smb_writer *w, size_t len)
{
	size_t waiting = smb_writer_waiting(w);

	if (w->closed && waiting <= w->max_waiting / 2)
		w->closed = false;
	if (w->closed || waiting > w->max_waiting || len + LENGTH > w->max_waiting - waiting)
		return false;
	/* Memory is not moved for each packet. */
	if (w->waiting_at > w->waiting.len / 2) {
		memmove(w->waiting.data, w->waiting.data + w->waiting_at, waiting);
		w->waiting.len = waiting;
		w->waiting_at = 0;
	}
	if (buffer_reserve(&w->waiting, LENGTH + len))
		return true;
	w->waiting.bad = false; /* what was there is there */
	return false;
}

static void wait_in_room(struct smb_writer *w, const struct smb_bytes *b)
{
	uint32_t len = (uint32_t)bytes_left(b);

	if (w->continues && !smb_writer_waiting(w))
		w->head_left = len;
	else
		buffer_append(&w->waiting, &len, LENGTH);
	if (b->len)
		buffer_append(&w->waiting, b->data, b->len);
	if (b->trailer_len)
		buffer_append(&w->waiting, b->trailer, b->trailer_len);
	w->smb->stats.max_waiting = max_u64(w->smb->stats.max_waiting, smb_writer_waiting(w));
}

int smb_writer_pump(struct smb_writer *w)
{
	while (smb_writer_waiting(w)) {
		struct smb_bytes b = {0};
		int r;

		if (!w->head_left) {
			uint32_t len;

			memcpy(&len, w->waiting.data + w->waiting_at, LENGTH);
			b.data = w->waiting.data + w->waiting_at + LENGTH;
			b.len = len;
		} else {
			b.data = w->waiting.data + w->waiting_at;
			b.len = w->head_left;
		}
		r = put_packet(w, &b, true);
		if (r < 0)
			return trace(r);
		if (r == SMB_FULL && !w->continues)
			return 0; /* as it was */
		w->waiting_at = (size_t)(b.data - w->waiting.data);
		w->head_left = b.len;
		if (r == SMB_FULL)
			return 0;
	}
	w->waiting.len = w->waiting_at = 0;
	return 0;
}

/* ---- packets ---- */
/* The fields that only the writer of the sequence knows, behind the packet's own. */
static size_t make_trailer(const struct smb_writer *w, uint8_t trailer[MAX_TRAILER])
{
	static const uint8_t first[] = {0xb8, 0x05, 0x01};	   /* 87: first on sequence */
	static const uint8_t dropped[] = {0xd0, 0x02, 0x81, 0x02}; /* 42: present | memory full */
	size_t n = 0;

	if (!w->any_packet) {
		memcpy(trailer, first, sizeof(first));
		n = sizeof(first);
	}
	if (w->lost) {
		memcpy(trailer + n, dropped, sizeof(dropped));
		n += sizeof(dropped);
	}
	return n;
}

static int write_packet(struct smb_writer *w, struct smb_bytes *b)
{
	bool keep = has_room(w, bytes_left(b));
	int r;

	if (!smb_writer_waiting(w)) {
		r = put_packet(w, b, keep);
		if (r != SMB_FULL)
			return r < 0 ? trace(r) : 0;
	}
	if (keep) {
		wait_in_room(w, b);
		return 0;
	}
	w->closed = w->max_waiting != 0;
	return drop(w);
}

int smb_writer_write(struct smb_writer *w, const void *packet, size_t len)
{
	struct smb_bytes b = {.data = packet, .len = len};
	uint8_t trailer[MAX_TRAILER];
	bool lost;
	int r;

	r = smb_writer_pump(w);
	if (r < 0)
		return trace(r);
	if (len > MAX_PACKET)
		return drop(w);
	b.trailer = trailer;
	b.trailer_len = make_trailer(w, trailer);
	lost = w->lost;
	w->lost = false; /* the trailer tells */
	r = bytes_left(&b) ? write_packet(w, &b) : 0;
	if (r) {
		w->lost |= lost;
		return r < 0 ? trace(r) : r;
	}
	w->any_packet = true;
	w->smb->stats.packets++;
	w->smb->stats.bytes += len;
	if (!w->tell)
		return 0;
	w->tell = false;
	return SMB_DROPPED;
}

int smb_writer_flush(struct smb_writer *w)
{
	int r;

	r = smb_writer_pump(w);
	if (r < 0)
		return trace(r);
	r = smb_writer_give(w);
	if (r < 0)
		return trace(r);
	r = smb_commit(w->smb);
	if (r < 0)
		return trace(r);
	return smb_writer_waiting(w) ? SMB_BEHIND : 0;
}

struct smb_writer *smb_writer_free(struct smb_writer *w)
{
	struct smb_writer **at;

	if (!w)
		return NULL;
	(void)smb_writer_give(w);
	while (smb_writer_waiting(w)) {
		uint32_t len = (uint32_t)w->head_left;

		if (!len) {
			memcpy(&len, w->waiting.data + w->waiting_at, LENGTH);
			len += LENGTH;
		}
		w->head_left = 0;
		w->waiting_at += len;
		w->smb->stats.dropped++;
	}
	buffer_deinit(&w->waiting);
	for (at = &w->smb->writers; *at != w;)
		at = &(*at)->next;
	*at = w->next;
	w->smb->ids[w->id / 32] &= ~(1u << w->id % 32);
	free(w);
	return NULL;
}
