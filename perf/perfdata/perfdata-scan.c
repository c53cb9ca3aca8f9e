/* perfdata-scan.c - all mappings of a perf.data before its records are used in order.  Thread: as
 * perfdata.h.
 *
 * Nearly all bytes of a recording are copies of stacks, in records of 8 to 64 KiB.  So from header to
 * header a jump is made, and only where records are small a large piece is read: 0.4 us for a
 * sample.  It reads by pread(): where the file stands is perfdata-ahead's business.  A stream of
 * zstd gives no header before all in front of it is unpacked; that is done a second time, by
 * a perfdata that has nothing but the blocks for it. */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

enum {
	PIECE = RECORD_MAX + 1, /* any record */
	AFTER_JUMP = 256,	/* a header, and the next one behind a small record */
	JUMP = 4096,		/* at least so far; what is nearer is cheaper to read along */
};

struct scan {
	const struct perfdata *pd;
	void (*mapped)(void *arg, const struct record_event *mapping);
	void *arg;
	uint64_t at, end; /* of the file */
	uint64_t skip;	  /* bytes at `at` that are no record */
	uint64_t piece_at;
	size_t filled;
	uint8_t piece[PIECE], aligned[PIECE] __attribute__((aligned(8)));
	struct perfdata packed; /* blocks and a stream, no more */
};

/* 1 and the @len bytes at s->at; 0: there are not so many. */
static int look(struct scan *s, size_t len, const uint8_t **ret_bytes)
{
	uint64_t behind = s->piece_at + s->filled;
	size_t room = s->at >= behind + JUMP ? AFTER_JUMP : PIECE;
	ssize_t n;

	if (s->at < s->piece_at || s->at + len > behind) {
		room = min_u64(len > room ? PIECE : room, s->end - s->at);
		do
			n = pread(s->pd->fd, s->piece, room, (off_t)s->at);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return fail(-errno);
		s->piece_at = s->at;
		s->filled = (size_t)n;
	}
	*ret_bytes = s->piece + (s->at - s->piece_at);
	return s->piece_at + s->filled >= s->at + len;
}

static void take_mapping(const struct scan *s, const struct perf_event_header *record)
{
	const struct record_layout *layout = perfdata_layout_of(s->pd, record);
	struct record_event e;

	if (layout && record_parse_event(layout, record, &e) == 0)
		s->mapped(s->arg, &e);
}

static bool is_packed(uint32_t type)
{
	return type == PERFDATA_COMPRESSED || type == PERFDATA_COMPRESSED2;
}

/* Is there more in it than its size? */
static bool is_wanted(uint32_t type)
{
	return type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2 || is_packed(type) ||
	       type == PERFDATA_HEADER_TRACING_DATA || type == PERFDATA_AUXTRACE;
}

static void take_plain(struct scan *s, const struct perf_event_header *record)
{
	if (record->type < PERFDATA_USER_TYPE_START)
		take_mapping(s, record);
	else
		s->skip = perfdata_bytes_behind(record);
}

/* What is in a compressed record; -EBADMSG: damage. */
static int take_packed(struct scan *s, const struct perf_event_header *record)
{
	struct record_at at;
	int r = perfdata_unpack_begin(&s->packed, record);

	while (r == 0) {
		r = perfdata_unpack(&s->packed, &at);
		if (r != 0)
			break;
		if (is_packed(at.record->type))
			return fail(-EBADMSG);
		if (is_wanted(at.record->type))
			take_plain(s, at.record);
	}
	return r == STREAM_DRY ? 0 : r;
}

/* The record at s->at and past it; 0: there is none, or damage. */
static int next(struct scan *s)
{
	struct perf_event_header header;
	const struct perf_event_header *record;
	const uint8_t *bytes;
	int r;

	s->at += min_u64(s->skip, s->end - s->at);
	s->skip = 0;
	r = look(s, sizeof(header), &bytes);
	if (r <= 0)
		return r < 0 ? trace(r) : 0;
	memcpy(&header, bytes, sizeof(header));
	if (!perfdata_is_possible(&header))
		return 0;
	if (is_wanted(header.type)) {
		r = look(s, header.size, &bytes);
		if (r <= 0)
			return r < 0 ? trace(r) : 0;
		if ((uintptr_t)bytes % 8)
			bytes = memcpy(s->aligned, bytes, header.size);
	}
	s->at += min_u64(header.size, s->end - s->at);
	if (!is_wanted(header.type))
		return 1;
	record = (const struct perf_event_header *)(const void *)bytes;
	if (!is_packed(record->type)) {
		take_plain(s, record);
		return 1;
	}
	r = take_packed(s, record);
	return r == -EBADMSG ? 0 : r < 0 ? trace(r) : 1;
}

int perfdata_scan(const struct perfdata *pd,
		  void (*mapped)(void *arg, const struct record_event *mapping), void *arg)
{
	struct scan *s;
	int r;

	if (pd->data_at < 0)
		return PERFDATA_PIPE;
	if (!pd->positions_known)
		return fail(-EINVAL);
	s = malloc(sizeof(*s));
	if (!s)
		return fail(-ENOMEM);
	s->pd = pd;
	s->mapped = mapped;
	s->arg = arg;
	s->at = s->piece_at = (uint64_t)pd->data_at;
	s->end = s->at + min_u64(pd->data_size, INT64_MAX - s->at);
	s->filled = 0;
	s->skip = 0;
	s->packed = (struct perfdata){.input.block = BLOCK_NONE};
	s->packed.unpacked.block = s->packed.aligned.block = BLOCK_NONE;
	do
		r = next(s);
	while (r > 0);
	(void)perfdata_zstd_free(s->packed.zstd);
	perfdata_blocks_deinit(&s->packed);
	free(s);
	return r < 0 ? trace(r) : PERFDATA_END;
}
