/* smb.c - see smb.h.
 *
 * Truncation.  A read of a mapped page behind the end of its file is a SIGBUS, and the service holds the
 * file.  So only a memfd sealed against shrinking is accepted, which the stock service makes (its fallback,
 * an unlinked file, is for kernels without memfd; ours begin at 5.10).  Seals are read first: the call fails at
 * once for any other kind of file, whatever its file system would do to a stat.  Huge pages are refused
 * too: their faults can fail when the pool is empty, shrunk or not.
 *
 * Layout.  A writer holds one chunk even if it does not fill it, and a flush gives the rest of it away, so a
 * chunk should be small against the memory; each costs an entry in a CommitData and a CAS, so it should not be
 * tiny against a packet (some 100 bytes).  The stock writer always takes one chunk a page: with pages of 32 KiB
 * the default memory has 8 chunks then.  Ours is the first layout with chunks of at most 5 KiB and at
 * least 16 chunks in all: one a page with the default 64 pages of 4 KiB, and about 4 KiB with larger pages.  Pages
 * that are partitioned already are used as they are.
 *
 * Page words.  Only one thread of this process writes them, so a CAS fails only because the service has moved
 * another chunk of that page on: at most Complete -> BeingRead -> Free for each of 13.  A correct service never
 * causes more than MAX_TRIES failures, nor a change of a state that only we may leave: the chunk is counted as
 * damaged and given up.  A page may lose its layout between two reads (the last chunk freed makes the word 0), so
 * each try decides again.
 *
 * Fragments.  A writer cuts whole packets into fragments over its chunks:
 *
 *   chunk n                       chunk n+1                chunk n+2
 *   [head][packet][packet][pack   [head][et, and no end    [head][yet][packet]0
 *          count 3, flag 2             count 1, flags 1|2        count 3, flag 1; 0: see below
 *
 * Packets come with their final sizes, so nothing is patched later.
 *
 * Scraping.  The service may copy a chunk that is being written, and uses all of its fragments but the last.  So
 * behind each packet the count is one more than there are; the next packet fills that place, or, if the chunk
 * is given back first, an empty fragment does.  The bytes are written first, the count is stored with
 * release; counted bytes are not written again.
 *
 * No room.  With a waiting room the rest of a packet waits there; the chunk that it began in is given to the
 * service at once: its chunk id lets the service find the continuation, and a chunk held back might be the one that
 * all writers wait for.  Packets behind it queue up.  A packet that does not fit into the room does not wait: then
 * the next chunk is taken before this one is given back, and if there is none the fragment is not counted,
 * or, where an earlier chunk has its beginning, is turned into the mark that makes the reader drop the packet.
 *
 * After a loss the room must get half empty before another packet is accepted: packets after a loss begin with
 * all interned entries again, which is not worth writing for a few packets each. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/bytes.h"
#include "base/error.h"
#include "daemon/producer/smb.h"

static int smb_writer_give(struct smb_writer *w);
static int smb_writer_pump(struct smb_writer *w);

enum {
	MIN_PAGE = 4 << 10,
	MAX_PAGE = 64 << 10,
	MAX_SIZE = 256 << 20, /* the stock service gives at most 32 MiB */
	WANTED_CHUNK = 5 << 10,
	WANTED_CHUNKS = 16,
	MAX_TRIES = 64,
	PAGES_WHEN_FULL = 64, /* looked at for each packet while nothing is free */
	LAYOUT_SHIFT = 28,
	LAYOUT_MASK = 7,
	CHUNKS_MASK = 0x0fffffff,
};

static uint32_t smb_layout_chunks(uint32_t layout)
{
	static const uint8_t chunks[LAYOUT_MASK + 1] = {0, 1, 2, 4, 7, SMB_MAX_CHUNKS};

	return chunks[layout & LAYOUT_MASK];
}

uint32_t smb_chunk_size(uint32_t page_size, uint32_t layout)
{
	uint32_t n = smb_layout_chunks(layout);

	return n ? ((page_size - SMB_PAGE_HEADER) / n) & ~3u : 0;
}

/* ---- attaching ---- */
static int check_memory(int fd, uint32_t page_size, size_t *ret_size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) < 0 ||
	    fs.f_type != TMPFS_MAGIC) {
		log_error("shared memory refused: not a memfd of ordinary pages that is sealed "
			  "against shrinking");
		return fail(-EPERM);
	}
	if (fstat(fd, &st) < 0)
		return fail(-errno);
	if (page_size < MIN_PAGE || page_size > MAX_PAGE || !is_power_of_two(page_size)) {
		log_error("shared memory refused: pages of %u bytes, not a power of two from 4096 "
			  "to 65536",
			  page_size);
		return fail(-EINVAL);
	}
	if (st.st_size < (off_t)page_size || st.st_size > MAX_SIZE || st.st_size % page_size) {
		log_error("shared memory refused: %lld bytes, not 1 to %u pages of %u bytes",
			  (long long)st.st_size, MAX_SIZE / page_size, page_size);
		return fail(-EINVAL);
	}
	*ret_size = (size_t)st.st_size;
	return 0;
}

static uint32_t choose_layout(uint32_t page_size, uint32_t n_pages)
{
	for (uint32_t layout = 1; layout < 5; layout++) {
		if (smb_chunk_size(page_size, layout) <= WANTED_CHUNK &&
		    n_pages * smb_layout_chunks(layout) >= WANTED_CHUNKS)
			return layout;
	}
	return 5;
}

int smb_attach(int fd, uint32_t page_size, smb_commit_fn *commit, void *arg, struct smb **ret_smb)
{
	_cleanup_(fd_closep) int owned = fd;
	_cleanup_(freep) struct smb *smb = NULL;
	_cleanup_(freep) struct smb_move *moves = NULL;
	size_t size = 0, max_moves;
	void *base;
	int r;

	r = check_memory(owned, page_size, &size);
	if (r < 0)
		return trace(r);
	/* Half of the memory, at which it is committed. */
	max_moves = min_u64(SMB_MAX_MOVES, size / page_size * SMB_MAX_CHUNKS / 2 + 1);
	smb = calloc(1, sizeof(*smb));
	moves = calloc(max_moves, sizeof(*moves));
	if (!smb || !moves)
		return fail(-ENOMEM);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, owned, 0);
	if (base == MAP_FAILED)
		return fail(-errno);
	/* A helper process must not be able to write it. */
	(void)madvise(base, size, MADV_DONTFORK);
	smb->base = base;
	smb->size = size;
	smb->page_size = page_size;
	smb->n_pages = (uint32_t)(size / page_size);
	smb->layout = choose_layout(page_size, smb->n_pages);
	smb->commit = commit;
	smb->commit_arg = arg;
	smb->moves = take(moves);
	smb->max_moves = max_moves;
	*ret_smb = take(smb);
	return 0;
}

struct smb *smb_free(struct smb *smb)
{
	if (!smb)
		return NULL;
	(void)munmap(smb->base, smb->size);
	free(smb->moves);
	free(smb);
	return NULL;
}

const struct smb_stats *smb_stats(const struct smb *smb)
{
	return &smb->stats;
}

/* ---- committing ---- */
int smb_commit(struct smb *smb)
{
	size_t n = smb->n_moves;
	int r;

	if (!n)
		return 0;
	smb->n_moves = smb->move_bytes = 0;
	r = smb->commit(smb->commit_arg, smb->moves, n);
	return r < 0 ? trace(r) : 0;
}

size_t smb_waiting(const struct smb *smb)
{
	size_t n = 0;

	for (const struct smb_writer *w = smb->writers; w; w = w->next)
		n += smb_writer_waiting(w);
	return n;
}

int smb_pump(struct smb *smb)
{
	for (struct smb_writer *w = smb->writers; w; w = w->next) {
		int r = smb_writer_pump(w);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

/* ---- chunks ---- */
static _Atomic uint32_t *page_word(const struct smb *smb, uint32_t page)
{
	return (_Atomic uint32_t *)(void *)(smb->base + (size_t)page * smb->page_size);
}

static enum smb_state state_in(uint32_t word, uint32_t chunk)
{
	return word >> (2 * chunk) & 3;
}

/* A free chunk of the page with the page word @word, if its layout is known: *ret_new is the word with that
 * chunk taken. */
static bool find_free(const struct smb *smb, uint32_t word, uint32_t *ret_layout,
		      uint32_t *ret_chunk, uint32_t *ret_new)
{
	uint32_t layout = word >> LAYOUT_SHIFT & LAYOUT_MASK;

	if (!word) {
		/* Partitioned and taken in one step. */
		*ret_layout = smb->layout;
		*ret_chunk = 0;
		*ret_new = smb->layout << LAYOUT_SHIFT | SMB_BEING_WRITTEN;
		return true;
	}
	for (uint32_t i = 0; i < smb_layout_chunks(layout); i++) {
		if (state_in(word, i) != SMB_FREE)
			continue;
		*ret_layout = layout;
		*ret_chunk = i;
		*ret_new = word | (uint32_t)SMB_BEING_WRITTEN << (2 * i);
		return true;
	}
	return false;
}

static bool take_in_page(struct smb *smb, uint32_t page, struct smb_chunk *c)
{
	_Atomic uint32_t *word = page_word(smb, page);
	uint32_t old = atomic_load_explicit(word, memory_order_acquire), new;

	for (int i = 0; i < MAX_TRIES; i++) {
		if (!find_free(smb, old, &c->layout, &c->index, &new))
			return false;
		if (!atomic_compare_exchange_strong_explicit(word, &old, new, memory_order_acq_rel,
							     memory_order_acquire))
			continue;
		c->page = page;
		c->size = smb_chunk_size(smb->page_size, c->layout);
		c->data = smb->base + (size_t)page * smb->page_size + SMB_PAGE_HEADER +
			  (size_t)c->index * c->size;
		return true;
	}
	return false;
}

static void smb_chunk_publish(const struct smb_chunk *c, uint16_t packets)
{
	atomic_store_explicit((_Atomic uint16_t *)(void *)(c->data + 6), packets,
			      memory_order_release);
}

/* Little endian, like the machines that perfwind supports. */
static void write_header(const struct smb_chunk *c, uint16_t writer_id, uint32_t chunk_id,
			 uint16_t packets)
{
	atomic_store_explicit((_Atomic uint16_t *)(void *)(c->data + 4), writer_id,
			      memory_order_relaxed);
	atomic_store_explicit((_Atomic uint32_t *)(void *)c->data, chunk_id, memory_order_relaxed);
	smb_chunk_publish(c, packets);
}

/* No chunk is free.  Gives back the chunks that other writers have begun: with a small memory, or many writers,
 * they may be all chunks. */
static int give_idle(struct smb *smb, uint16_t but)
{
	int r;

	for (struct smb_writer *w = smb->writers; w; w = w->next) {
		r = w->id == but ? 0 : smb_writer_give(w);
		if (r < 0)
			return trace(r);
	}
	r = smb_commit(smb);
	return r < 0 ? trace(r) : 0;
}

int smb_chunk_take(struct smb *smb, uint16_t writer_id, uint32_t chunk_id, uint16_t packets,
		   struct smb_chunk *ret_chunk)
{
	/* While nothing is free, a large memory is not searched for each packet. */
	uint32_t n = smb->full ? (uint32_t)min_u64(PAGES_WHEN_FULL, smb->n_pages) : smb->n_pages;
	struct smb_chunk c;
	int r;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t page = (uint32_t)(((uint64_t)smb->next_page + i) % smb->n_pages);

		if (!take_in_page(smb, page, &c))
			continue;
		write_header(&c, writer_id, chunk_id, packets);
		smb->next_page = page;
		smb->full = false;
		*ret_chunk = c;
		return 0;
	}
	smb->next_page = (uint32_t)(((uint64_t)smb->next_page + n) % smb->n_pages);
	smb->full = true;
	smb->stats.full++;
	r = give_idle(smb, writer_id);
	return r < 0 ? trace(r) : SMB_FULL;
}

/* BeingWritten -> Complete. */
static bool complete(const struct smb *smb, const struct smb_chunk *c)
{
	_Atomic uint32_t *word = page_word(smb, c->page);
	uint32_t old = atomic_load_explicit(word, memory_order_relaxed);

	for (int i = 0; i < MAX_TRIES; i++) {
		if ((old >> LAYOUT_SHIFT & LAYOUT_MASK) != c->layout ||
		    state_in(old, c->index) != SMB_BEING_WRITTEN)
			return false;
		if (atomic_compare_exchange_strong_explicit(
			    word, &old, old | (uint32_t)SMB_COMPLETE << (2 * c->index),
			    memory_order_acq_rel, memory_order_relaxed))
			return true;
	}
	return false;
}

int smb_chunk_give(struct smb *smb, struct smb_chunk *chunk, uint16_t packets,
		   uint32_t target_buffer)
{
	struct smb_chunk c = *chunk;
	int r = 0;

	chunk->data = NULL;
	smb_chunk_publish(&c, packets);
	if (!complete(smb, &c)) {
		smb->stats.damaged++;
		return SMB_DROPPED;
	}
	smb->stats.chunks++;
	smb->moves[smb->n_moves++] = (struct smb_move){c.page, c.index, target_buffer};
	smb->move_bytes += c.size;
	if (smb->move_bytes >= smb->size / 2 || smb->n_moves == smb->max_moves)
		r = smb_commit(smb);
	return r < 0 ? trace(r) : 0;
}

/* ---- writers ---- */

enum {
	MIN_START = 12,	  /* bytes that must be left for a packet to begin: facts of the format */
	MAX_COUNT = 1022, /* fragments in a chunk */
	MAX_PACKET = 64 << 20, /* the format's bound is 2^28 - 2, in all its fragments */
	MAX_TRAILER = 8,
	FLAGS_SHIFT = 10,
	LENGTH = 4, /* in front of a packet that waits */
};

/* A packet that is being written: its bytes and the fields added behind them. */
struct smb_bytes {
	const uint8_t *data, *trailer;
	size_t len, trailer_len;
};

/* A writer's position in its chunk. */
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

/* ---- a writer's chunk ---- */

static uint16_t packets_word(uint32_t count, uint32_t flags)
{
	return (uint16_t)(count | flags << FLAGS_SHIFT);
}

/* Takes the next chunk, which does not become this writer's current one yet. */
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

/* A packet is lost: the next one carries the mark. */
static int drop(struct smb_writer *w)
{
	w->lost = true;
	w->smb->stats.dropped++;
	return SMB_DROPPED;
}

/* Gives its current chunk back, if there is one. */
static int smb_writer_give(struct smb_writer *w)
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
		/* The service took it away, with the packets in it. */
		w->lost = w->reports_loss = true;
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

/* Writes the next fragment, as much as there is room for; it is not in the header's count yet. */
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

/* The packet is whole: makes it visible to the service. */
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

/* Writes @b.  0: all.  SMB_FULL: with @keep, the rest is in @b and must be written next (w->continues: part of
 * the packet is written); else the packet is given up. */
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

/* Is there room for @len bytes more?  Also allocates it, so that waiting cannot fail. */
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
	w->waiting.bad = false; /* its contents are unchanged */
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

/* Writes of what waits as much as there are chunks for. */
static int smb_writer_pump(struct smb_writer *w)
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
	w->lost = false; /* the trailer has the mark */
	r = bytes_left(&b) ? write_packet(w, &b) : 0;
	if (r) {
		w->lost |= lost;
		return r < 0 ? trace(r) : r;
	}
	w->any_packet = true;
	w->smb->stats.packets++;
	w->smb->stats.bytes += len;
	if (!w->reports_loss)
		return 0;
	w->reports_loss = false;
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
