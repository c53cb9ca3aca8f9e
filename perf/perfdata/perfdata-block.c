/* perfdata-block.c - a perf.data's bytes: blocks, and their whole records.  Thread: any, one.
 *
 * A block is filled by one stream from its front.  Records are used where they lie; what is left of
 * a record at the end of a block moves to the front of the next one.  A block is free again when no
 * record in it is in use and no stream fills it; the last one freed is the first one used, as its
 * memory is still in the cache.  A compressed record has any length, and so what follows may lie at
 * any address: a record of this kind is copied to an aligned place. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

/* Most of a block with copies of stacks is a hole (perfdata-ahead.c): in small pages, a hole takes no memory and nothing clears
 * it.  From malloc() with a sanitizer, which then sees what is read beyond a block. */
#ifdef __SANITIZE_ADDRESS__
static uint8_t *block_alloc(void)
{
	return calloc(1, BLOCK_BYTES);
}

static void block_free(uint8_t *data)
{
	free(data);
}
#else
static uint8_t *block_alloc(void)
{
	void *data =
		mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED)
		return NULL;
	(void)madvise(data, BLOCK_BYTES, MADV_NOHUGEPAGE);
	return data;
}

static void block_free(uint8_t *data)
{
	(void)munmap(data, BLOCK_BYTES);
}
#endif

int perfdata_block_new(struct perfdata *pd, uint32_t *ret_block)
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
		pd->blocks[pd->n_blocks] = (struct block){.data = block_alloc()};
		if (!pd->blocks[pd->n_blocks].data)
			return fail(-ENOMEM);
		pd->free_blocks[pd->n_free++] = (uint32_t)pd->n_blocks++;
	}
	*ret_block = pd->free_blocks[--pd->n_free];
	block = &pd->blocks[*ret_block];
	block->users = 1;
	pd->n_in_use++;
	return 0;
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
	pd->counts.bytes += n;
	pd->input.filled += n;
	if (pd->data_left != UINT64_MAX)
		pd->data_left -= n;
	return 0;
}

/* Bytes behind a record that are no record. */
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
		block_free(pd->blocks[i].data);
	free(pd->blocks);
	free(pd->free_blocks);
	(void)zstd_free(pd->zstd);
}
