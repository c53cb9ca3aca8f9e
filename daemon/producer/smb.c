/* smb.c - see smb.h: the memory, its pages and chunks, what is to be committed.  Writers are
 * smb-writer.c.
 *
 * Truncation.  Reading a mapped page behind the end of its file is a SIGBUS, and the other side
 * holds the file.  So only a memfd sealed against shrinking is taken, which is what the stock
 * service makes (its fallback, an unlinked file, is for kernels without memfd; ours begin at 5.10).
 * Seals are asked for first: they are refused at once for any other kind of file, whatever its file
 * system would do to a stat.  Huge pages are refused too: their faults can fail when the pool is
 * empty, shrunk or not.
 *
 * Layout.  A writer holds one chunk whether it fills it or not, and a flush gives the rest of it
 * away, so a chunk should be small against the memory; each costs an entry in a CommitData and a
 * CAS, so it should not be tiny against a packet (some 100 bytes).  The stock writer always takes
 * one chunk a page: with pages of 32 KiB the default memory has 8 chunks then.  Ours is the first
 * layout with chunks of at most 5 KiB and at least 16 of them in all: one a page with the default
 * 64 pages of 4 KiB, and about 4 KiB with larger pages.  Pages that are partitioned already are
 * used as they are.
 *
 * Page words.  Ours is the only thread of this side, so a CAS fails only because the service has
 * moved another chunk of that page on: at most Complete -> BeingRead -> Free for each of 13.  More
 * than MAX_TRIES failures are not that service any more, and neither are states that only we may
 * leave: the chunk is counted as damaged and let go.  A page may lose its layout between two looks
 * (the last chunk freed makes the word 0), so each try decides anew. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "daemon/producer/smb-private.h"

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

uint32_t smb_layout_chunks(uint32_t layout)
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
	/* As many as fill half of the memory, when it is committed. */
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

/* A free chunk of the page whose word is @word, if it is a page that we understand: *ret_new is the
 * word with that chunk taken. */
static bool find_free(const struct smb *smb, uint32_t word, uint32_t *ret_layout,
		      uint32_t *ret_chunk, uint32_t *ret_new)
{
	uint32_t layout = word >> LAYOUT_SHIFT & LAYOUT_MASK;

	if (!word) {
		/* Partitioned and taken in one step: nobody can come in between. */
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

void smb_chunk_publish(const struct smb_chunk *c, uint16_t packets)
{
	atomic_store_explicit((_Atomic uint16_t *)(void *)(c->data + 6), packets,
			      memory_order_release);
}

/* Little-endian, as the machines that we run on. */
static void write_header(const struct smb_chunk *c, uint16_t writer_id, uint32_t chunk_id,
			 uint16_t packets)
{
	atomic_store_explicit((_Atomic uint16_t *)(void *)(c->data + 4), writer_id,
			      memory_order_relaxed);
	atomic_store_explicit((_Atomic uint32_t *)(void *)c->data, chunk_id, memory_order_relaxed);
	smb_chunk_publish(c, packets);
}

/* Nothing is free.  Chunks that other writers have begun and do nothing with are worth more to the
 * service: with a small memory, or many writers, they may be all there is. */
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
	/* A search over a large memory is not made for every packet of a flood. */
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
