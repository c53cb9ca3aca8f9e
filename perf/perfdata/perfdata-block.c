/* perfdata-block.c - a perf.data's bytes: blocks, and their whole records.  Thread: any, one.
 *
 * A block is filled by one stream from its front.  Records are used where they lie; what is left of
 * a record at the end of a block moves to the front of the next one.  A block is free again when no
 * record in it is in use and no stream fills it; the last one freed is the first one used, as its
 * memory is still in the cache.  A compressed record has any length, and so what follows may lie at
 * any address: a record of this kind is copied to an aligned place. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sem.h"
#include "perf/perfdata/perfdata-private.h"

/* ---- a thread that reads the next blocks of a large file ----
 *
 * Copying a recording out of the page cache takes longer than unwinding it.  The thread fills the blocks that it is given, in
 * order; two semaphores hand them back and forth, and nothing else is shared.  A pipe is not read ahead: a read from it may
 * block for any time.
 *
 * Nearly all bytes of a recording with copies of stacks are behind the part of a copy that is in use (dyn_size), and nothing
 * reads them.  So the thread leaves them out: it makes the record one of a smaller copy, with other sizes of record and copy.
 * A copy that filled its room keeps it, and no other copy fills what it has then.
 *
 *   file    [header .. registers][room][stack in use | not in use      ][dyn_size ..][header ..
 *   reads    ────── HEAD ─────────────►2─────────────►                  1────── HEAD ────────►
 *   block   [header .. registers][less][stack in use | 8][dyn_size ..][header ..
 *
 * Its pieces then are whole records.  It follows the records only as long as they are plain: behind damage, AUXTRACE and
 * further events it reads all bytes, and the consumer, which checks the same records, finds the same. */

enum {
	AHEAD = 4,
	HEAD = 4 << 10,	 /* the end of a record with a copy and the begin of the next one */
	WIDE = 64 << 10, /* while records are small */
	LARGE = 16 << 10,
};

struct perfdata_ahead {
	int fd;
	size_t piece;
	/* The thread's. */
	uint64_t at, left; /* where the next piece begins; bytes from there on */
	bool follows;	   /* pieces are whole records, and copies of stacks can be shorter */
	bool large;	   /* a large record was met */
	struct record_layout layout; /* of the records with copies */

	pthread_t thread;
	sem_t empty, full;
	_Atomic bool stop;
	struct slot {
		uint8_t *to;
		uint32_t block;
		ssize_t n; /* bytes, 0 at the end, or -errno */
		uint64_t left_out;
	} slots[AHEAD];
	uint64_t n_given, n_taken;
	ssize_t last; /* the `n` taken last; from <= 0 on there is no thread to wait for */
};

/* A piece that is being read. */
struct piece {
	uint8_t *to;
	size_t room, have; /* bytes */
	size_t record;	   /* where the first record begins that is not whole */
	uint64_t left_out; /* bytes of the file */
};

static ssize_t read_at(const struct perfdata_ahead *a, uint64_t at, void *to, size_t len)
{
	ssize_t n;

	do
		n = pread(a->fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Bytes of the file behind what the piece has. */
static uint64_t left_behind(const struct perfdata_ahead *a, const struct piece *p)
{
	return a->left - p->left_out - p->have;
}

/* Reads on up to @end, which the file has.  false: it cannot be read. */
static bool read_up_to(const struct perfdata_ahead *a, struct piece *p, size_t end)
{
	while (p->have < end) {
		ssize_t n =
			read_at(a, a->at + p->left_out + p->have, p->to + p->have, end - p->have);

		if (n <= 0)
			return false;
		p->have += (size_t)n;
	}
	return true;
}

enum shorter { SHORTER, AS_IT_IS, NO_ROOM, UNREADABLE };

/* The record at the end, of which its begin is read: without what is not in use of its copy, and what is behind it. */
static enum shorter shorten(const struct perfdata_ahead *a, struct piece *p)
{
	struct perf_event_header *header = (void *)(p->to + p->record);
	struct record_stack stack;
	uint8_t behind[HEAD];
	uint64_t used, room, from;
	size_t at, rest;
	ssize_t n;

	if ((uintptr_t)header % 8 ||
	    !record_find_stack(&a->layout, header, p->have - p->record, &stack))
		return AS_IT_IS; /* its begin is longer than usual */
	at = p->record + stack.at;
	rest = header->size - stack.at - stack.room;
	if (p->have >= at + stack.room || rest > sizeof(behind))
		return AS_IT_IS;
	from = p->left_out + at + stack.room;
	if (from + rest > a->left)
		return UNREADABLE;
	n = read_at(a, a->at + from, behind, min_u64(sizeof(behind), a->left - from));
	if (n < (ssize_t)rest)
		return UNREADABLE;
	memcpy(&used, behind, sizeof(used));
	used = (min_u64(used, stack.room) + 7) / 8 * 8;
	room = min_u64(used + 8, stack.room);
	if (at + room + rest > p->room)
		return NO_ROOM;
	if (!read_up_to(a, p, at + used))
		return UNREADABLE;
	header->size = (uint16_t)(stack.at + room + rest);
	memcpy(p->to + at - sizeof(room), &room, sizeof(room));
	p->have = min_u64(at + room + (size_t)n, p->room);
	memcpy(p->to + at + room, behind, p->have - at - room);
	p->left_out += stack.room - room;
	return SHORTER;
}

static bool is_followed(const struct perf_event_header *header)
{
	return perfdata_is_possible(header) && header->type != PERFDATA_HEADER_ATTR &&
	       header->type != PERFDATA_HEADER_TRACING_DATA && header->type != PERFDATA_AUXTRACE &&
	       header->type != PERFDATA_COMPRESSED && header->type != PERFDATA_COMPRESSED2;
}

/* The record at the end, which is not whole.  false: the piece ends before it. */
static bool complete(struct perfdata_ahead *a, struct piece *p,
		     const struct perf_event_header *header)
{
	enum shorter done = AS_IT_IS;

	if (header->type == PERF_RECORD_SAMPLE && header->size >= LARGE)
		done = shorten(a, p);
	a->follows &= done != UNREADABLE;
	return done == SHORTER || (done == AS_IT_IS && p->record + header->size <= p->room);
}

/* Passes the records that are whole.  false: the piece ends with them. */
static bool pass_records(struct perfdata_ahead *a, struct piece *p)
{
	struct perf_event_header header;

	while (p->have - p->record >= sizeof(header)) {
		memcpy(&header, p->to + p->record, sizeof(header));
		a->follows &= is_followed(&header);
		if (!a->follows)
			return false;
		a->large |= header.size >= LARGE;
		if (p->have - p->record < header.size) {
			if (!complete(a, p, &header))
				return false;
			memcpy(&header, p->to + p->record, sizeof(header));
			if (p->have - p->record < header.size)
				return true;
		}
		p->record += header.size;
	}
	return p->have < p->room;
}

/* The bytes of the next piece, 0 at the end, or -errno. */
static ssize_t read_piece(struct perfdata_ahead *a, struct slot *slot)
{
	struct piece p = {.to = slot->to, .room = min_u64(a->piece, a->left)};
	ssize_t n = 1;

	while (a->follows && n > 0) {
		size_t room = min_u64(p.room - p.have, left_behind(a, &p));

		n = read_at(a, a->at + p.left_out + p.have, p.to + p.have,
			    min_u64(a->large ? HEAD : WIDE, room));
		if (n <= 0)
			break;
		p.have += (size_t)n;
		if (!pass_records(a, &p))
			break;
	}
	slot->left_out = p.left_out;
	if (p.record)
		return (ssize_t)p.record;
	a->follows = false; /* a record is longer than a piece, or the file ends */
	return read_at(a, a->at, slot->to, p.room);
}

static void *read_pieces(void *arg)
{
	struct perfdata_ahead *a = arg;
	ssize_t n = 1;

	(void)pthread_setname_np(pthread_self(), "pw-read");
	for (uint64_t i = 0; n > 0; i++) {
		struct slot *slot = &a->slots[i % AHEAD];

		sem_take(&a->empty);
		if (a->stop)
			break;
		n = read_piece(a, slot);
		slot->n = n;
		a->at += n > 0 ? (uint64_t)n + slot->left_out : 0;
		a->left -= n > 0 ? (uint64_t)n + slot->left_out : 0;
		(void)sem_post(&a->full);
	}
	return NULL;
}

/* ---- the consumer of the thread ---- */

static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

/* Do all events that sample have copies of stacks, at the same place? */
static bool find_layout(const struct perfdata_info *info, struct record_layout *ret_layout)
{
	const struct record_layout *first = NULL;

	for (size_t i = 0; i < info->n_events; i++) {
		const struct record_layout *l = &info->events[i].layout;

		if (is_dummy(&info->events[i].attr))
			continue;
		first = first ? first : l;
		if (!(l->sample_type & PERF_SAMPLE_STACK_USER) ||
		    l->sample_type != first->sample_type || l->read_format != first->read_format ||
		    l->regs_mask != first->regs_mask ||
		    l->branch_sample_type != first->branch_sample_type)
			return false;
	}
	if (first)
		*ret_layout = *first;
	return first;
}

/* A free block, with one user.  -ENOMEM. */
static int perfdata_block_new(struct perfdata *pd, uint32_t *ret_block)
{
	struct block *block;

	if (!pd->n_free) {
		if (pd->n_blocks == pd->blocks_room) {
			size_t room = pd->blocks_room ? pd->blocks_room * 2 : 16;
			struct block *blocks = reallocarray(pd->blocks, room, sizeof(*blocks));
			uint32_t *list = reallocarray(pd->free_blocks, room, sizeof(*list));

			pd->blocks = blocks ? blocks : pd->blocks;
			pd->free_blocks = list ? list : pd->free_blocks;
			if (!blocks || !list)
				return fail(-ENOMEM);
			pd->blocks_room = room;
		}
		pd->blocks[pd->n_blocks] = (struct block){.data = malloc(BLOCK_BYTES)};
		if (!pd->blocks[pd->n_blocks].data)
			return fail(-ENOMEM);
		pd->free_blocks[pd->n_free++] = (uint32_t)pd->n_blocks++;
	}
	*ret_block = pd->free_blocks[--pd->n_free];
	block = &pd->blocks[*ret_block];
	block->users = 1;
	block->left_out = 0;
	pd->n_in_use++;
	return 0;
}

static int give(struct perfdata *pd)
{
	struct perfdata_ahead *a = pd->ahead;
	struct slot *slot = &a->slots[a->n_given % AHEAD];
	int r = perfdata_block_new(pd, &slot->block);

	if (r < 0)
		return trace(r);
	slot->to = pd->blocks[slot->block].data + BLOCK_HEAD;
	a->n_given++;
	(void)sem_post(&a->empty);
	return 0;
}

/* Starts the thread at the begin of the records; pd->ahead stays NULL where reading ahead does not pay, or is
 * impossible. */
static void perfdata_ahead_start(struct perfdata *pd)
{
	struct perfdata_ahead *a;

	if (pd->data_at < 0 || pd->data_left == UINT64_MAX || pd->data_left < pd->limits.ahead)
		return;
	a = calloc(1, sizeof(*a));
	if (!a)
		return;
	a->fd = pd->fd;
	a->piece = pd->limits.piece;
	a->at = (uint64_t)pd->data_at;
	a->left = pd->data_left;
	a->follows = find_layout(&pd->info, &a->layout);
	a->last = 1;
	(void)sem_init(&a->empty, 0, 0);
	(void)sem_init(&a->full, 0, 0);
	if (pthread_create(&a->thread, NULL, read_pieces, a) != 0)
		free(a);
	else
		pd->ahead = a;
}

int perfdata_ahead_next(struct perfdata *pd, uint32_t *ret_block, size_t *ret_len)
{
	struct perfdata_ahead *a = pd->ahead;
	const struct slot *slot;
	int r = 0;

	if (a->last < 0)
		return fail((int)a->last);

	while (r >= 0 && a->n_given - a->n_taken < AHEAD)
		r = give(pd);
	if (a->n_given == a->n_taken)
		return trace(r);
	slot = &a->slots[a->n_taken % AHEAD];
	if (a->last > 0) {
		sem_take(&a->full);
		a->last = slot->n;
	}
	if (a->last < 0)
		return fail((int)a->last); /* the block stays here */
	a->n_taken++;
	*ret_block = slot->block;
	pd->blocks[slot->block].left_out = slot->left_out;
	*ret_len = (size_t)a->last;
	return 0;
}

/* Blocks that the thread has. */
static size_t perfdata_ahead_held(const struct perfdata *pd)
{
	return pd->ahead ? pd->ahead->n_given - pd->ahead->n_taken : 0;
}

static void perfdata_ahead_end(struct perfdata *pd)
{
	struct perfdata_ahead *a = pd->ahead;

	if (!a)
		return;
	a->stop = true;
	(void)sem_post(&a->empty);
	(void)pthread_join(a->thread, NULL);
	(void)sem_destroy(&a->empty);
	(void)sem_destroy(&a->full);
	free(a);
	pd->ahead = NULL;
}

void perfdata_put(struct perfdata *pd, uint32_t block)
{
	if (--pd->blocks[block].users)
		return;
	pd->free_blocks[pd->n_free++] = block;
	pd->n_in_use--;
}

/* ---- streams ---- */

size_t perfdata_held(const struct perfdata *pd)
{
	return (pd->n_in_use - perfdata_ahead_held(pd)) * BLOCK_BYTES;
}

/* The next whole record in what is in @stream; STREAM_DRY: more bytes are needed, and with
 * stream_room() there is room for them (what is left over has moved to the front). */
static int stream_room(struct perfdata *pd, struct stream *s, uint8_t **ret_room, size_t *ret_len)
{
	size_t rest = s->filled - s->at;
	uint32_t block = s->block;
	int r;

	if (block == BLOCK_NONE || s->filled == BLOCK_BYTES || s->at + RECORD_MAX > BLOCK_BYTES) {
		if (block == BLOCK_NONE || pd->blocks[block].users > 1) {
			r = perfdata_block_new(pd, &block);
			if (r < 0)
				return trace(r);
		}
		if (rest)
			memmove(pd->blocks[block].data, pd->blocks[s->block].data + s->at, rest);
		if (s->block != BLOCK_NONE && s->block != block)
			perfdata_put(pd, s->block);
		*s = (struct stream){.block = block, .filled = rest};
	}
	*ret_room = pd->blocks[block].data + s->filled;
	*ret_len = BLOCK_BYTES - s->filled;
	return 0;
}

/* Copies a record to an aligned place. */
static int align(struct perfdata *pd, const uint8_t *record, size_t size, struct record_at *ret_at)
{
	struct stream *s = &pd->aligned;
	size_t len;
	uint8_t *room;
	int r;

	s->at = s->filled = (s->filled + 7) & ~(size_t)7;
	r = stream_room(pd, s, &room, &len);
	if (r < 0)
		return trace(r);
	memcpy(room, record, size);
	s->filled += size;
	*ret_at =
		(struct record_at){(const struct perf_event_header *)(const void *)room, s->block};
	return 0;
}

static int damaged(struct perfdata *pd, const char *what)
{
	pd->counts.damage = what;
	return fail(-EBADMSG);
}

static int stream_record(struct perfdata *pd, struct stream *s, struct record_at *ret_at)
{
	const uint8_t *p;
	struct perf_event_header header;
	int r = 0;

	if (s->filled - s->at < sizeof(header))
		return STREAM_DRY;
	p = pd->blocks[s->block].data + s->at;
	memcpy(&header, p, sizeof(header));
	if (!perfdata_is_possible(&header))
		return damaged(pd, "a record has an impossible size");
	if (s->filled - s->at < header.size)
		return STREAM_DRY;
	if ((uintptr_t)p % 8)
		r = align(pd, p, header.size, ret_at);
	else
		*ret_at = (struct record_at){(const struct perf_event_header *)(const void *)p,
					     s->block};
	if (r < 0)
		return trace(r);
	s->at += header.size;
	return 0;
}

/* The next block, with what is left of the one before in front. */
static int take_next(struct perfdata *pd, size_t *ret_len)
{
	struct stream *s = &pd->input;
	size_t rest = s->filled - s->at;
	uint32_t block = BLOCK_NONE;
	int r;

	if (rest > BLOCK_HEAD)
		return fail(-EBADMSG); /* no record is that long */
	r = perfdata_ahead_next(pd, &block, ret_len);
	if (r < 0)
		return trace(r);
	if (rest)
		memcpy(pd->blocks[block].data + BLOCK_HEAD - rest,
		       pd->blocks[s->block].data + s->at, rest);
	if (s->block != BLOCK_NONE)
		perfdata_put(pd, s->block);
	*s = (struct stream){.block = block, .at = BLOCK_HEAD - rest, .filled = BLOCK_HEAD};
	return 0;
}

static int read_more(struct perfdata *pd, size_t *ret_len)
{
	uint8_t *room;
	ssize_t n;
	size_t len;
	int r = stream_room(pd, &pd->input, &room, &len);

	if (r < 0)
		return trace(r);
	len = min_u64(len, pd->data_left);
	do
		n = len ? read(pd->fd, room, len) : 0;
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail(-errno);
	*ret_len = (size_t)n;
	return 0;
}

/* More of the file into the input's block; pd->ended at its end. */
static int fill(struct perfdata *pd)
{
	size_t n = 0;
	int r;

	if (!pd->begun)
		perfdata_ahead_start(pd);
	pd->begun = true;
	r = pd->ahead ? take_next(pd, &n) : read_more(pd, &n);
	if (r < 0)
		return trace(r);
	pd->ended = n == 0;
	pd->input.filled += n;
	n += pd->blocks[pd->input.block].left_out;
	pd->counts.bytes += n;
	if (pd->data_left != UINT64_MAX)
		pd->data_left -= n;
	return 0;
}

/* Bytes behind a record that are not a record. */
static void skip(struct perfdata *pd)
{
	size_t n = min_u64(pd->input.filled - pd->input.at, pd->skip_left);

	pd->input.at += n;
	pd->skip_left -= n;
}

int perfdata_input(struct perfdata *pd, struct record_at *ret_at)
{
	int r;

	for (;;) {
		skip(pd);
		r = pd->skip_left ? STREAM_DRY : stream_record(pd, &pd->input, ret_at);
		if (r != STREAM_DRY)
			return r;
		if (pd->ended)
			break;
		r = fill(pd);
		if (r < 0)
			return trace(r);
	}
	if (pd->input.at != pd->input.filled || pd->skip_left ||
	    (pd->data_left && pd->data_left != UINT64_MAX))
		return damaged(pd, "the file ends too early");
	return STREAM_DRY;
}

/* ---- PERF_RECORD_COMPRESSED (perf record -z) ----
 *
 * All compressed records of a file are one zstd stream; a record of the kernel may begin in one of
 * them and end in the next. */

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

struct perfdata_zstd {
	ZSTD_DStream *stream;
	ZSTD_inBuffer in;
	bool more; /* output stood ready when its room was full */
};

static struct perfdata_zstd *zstd_free(struct perfdata_zstd *z)
{
	if (!z)
		return NULL;
	ZSTD_freeDStream(z->stream);
	free(z);
	return NULL;
}

size_t perfdata_zstd_bytes(const struct perfdata_zstd *z)
{
	return z ? ZSTD_sizeof_DStream(z->stream) : 0;
}

static int zstd_new(int window_log, struct perfdata_zstd **ret_zstd)
{
	struct perfdata_zstd *z = calloc(1, sizeof(*z));

	if (!z)
		return fail(-ENOMEM);
	z->stream = ZSTD_createDStream();
	if (!z->stream ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, window_log))) {
		(void)zstd_free(z);
		return fail(-ENOMEM);
	}
	*ret_zstd = z;
	return 0;
}

int perfdata_unpack_begin(struct perfdata *pd, const struct perf_event_header *record)
{
	struct cursor c = cursor_of(record + 1, record->size - sizeof(*record));
	uint64_t len = cursor_left(&c);
	int r;

	if (record->type == PERFDATA_COMPRESSED2) {
		uint64_t size = cursor_u64(&c);

		len = min_u64(size, cursor_left(&c));
	}
	if (!pd->zstd) {
		r = zstd_new(pd->window_log, &pd->zstd);
		if (r < 0)
			return trace(r);
	}
	pd->zstd->in = (ZSTD_inBuffer){.src = c.p, .size = len};
	return 0;
}

int perfdata_unpack(struct perfdata *pd, struct record_at *ret_at)
{
	struct perfdata_zstd *z = pd->zstd;
	uint8_t *room;
	size_t len, result;
	int r;

	for (;;) {
		r = stream_record(pd, &pd->unpacked, ret_at);
		if (r != STREAM_DRY)
			return r;
		if (z->in.pos == z->in.size && !z->more)
			return STREAM_DRY;
		r = stream_room(pd, &pd->unpacked, &room, &len);
		if (r < 0)
			return trace(r);

		ZSTD_outBuffer out = {.dst = room, .size = len};

		result = ZSTD_decompressStream(z->stream, &out, &z->in);
		if (ZSTD_isError(result) &&
		    ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
			return fail(-ENOMEM);
		if (ZSTD_isError(result)) {
			pd->counts.damage = "a compressed record cannot be unpacked";
			return fail(-EBADMSG);
		}
		pd->unpacked.filled += out.pos;
		z->more = out.pos == out.size;
	}
}

#else /* without libzstd */

size_t perfdata_zstd_bytes(const struct perfdata_zstd *zstd)
{
	(void)zstd;
	return 0;
}

static struct perfdata_zstd *zstd_free(struct perfdata_zstd *zstd)
{
	return zstd;
}

int perfdata_unpack_begin(struct perfdata *pd, const struct perf_event_header *record)
{
	(void)record;
	pd->counts.damage =
		"its records are compressed, and this perfwind was built without libzstd";
	return fail(-EBADMSG);
}

int perfdata_unpack(struct perfdata *pd, struct record_at *ret_at)
{
	(void)pd;
	(void)ret_at;
	return STREAM_DRY;
}
#endif

void perfdata_blocks_deinit(struct perfdata *pd)
{
	perfdata_ahead_end(pd);
	for (size_t i = 0; i < pd->n_blocks; i++)
		free(pd->blocks[i].data);
	free(pd->blocks);
	free(pd->free_blocks);
	(void)zstd_free(pd->zstd);
}
