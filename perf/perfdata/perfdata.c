/* perfdata.c - see perfdata.h.  The event of each record, and their order; perfdata-header.c reads
 * the header and the features, perfdata-block.c the bytes.
 *
 * In a file of several events each record has the id of its event.  The position of the id must not
 * depend on the event: perf ensures it with PERF_SAMPLE_IDENTIFIER (the first word of a sample, the
 * last of other records), or by giving all events one layout.
 *
 * Records wait in one list until the end of a round, which sorts it: records not newer than the
 * newest of the round before are released.  Records without a time (written by perf itself, about
 * the state before the recording) are released at once. */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"
#include "perf/record-words.h"

#define SAMPLE_LAST (1ull << 63) /* in `order`: at the same time other records go first */

/* ---- which event ---- */

enum { NO_ID = SIZE_MAX >> 1 };

/* Words before the id in a sample. */
static size_t sample_id_at(uint64_t type)
{
	if (type & PERF_SAMPLE_IDENTIFIER)
		return 0;
	if (!(type & PERF_SAMPLE_ID))
		return NO_ID;
	return count_bits(type &
			  (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR));
}

/* Words from the id to the end of another record. */
static size_t other_id_at(uint64_t type)
{
	if (type & PERF_SAMPLE_IDENTIFIER)
		return 1;
	if (!(type & PERF_SAMPLE_ID))
		return NO_ID;
	return 1 + count_bits(type & (PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU));
}

/* For which records is MISC_MMAP_BUILD_ID trusted (record.c)?  For an event's own, if its attr asked
 * for build ids.  Records that perf itself writes about earlier mappings have no id (event_of: the
 * first event's) and the build ids that the tracking event asked for: there the bit proves itself, as
 * the kernel did not write it.  Where events cannot be distinguished, all events that record mappings
 * must have asked. */
static void spread_build_id(struct perfdata *pd)
{
	const struct perfdata_info *info = &pd->info;
	bool any = false, all = true;

	for (size_t i = 0; i < info->n_events; i++) {
		any |= info->events[i].layout.build_id;
		all &= info->events[i].layout.build_id || !info->events[i].attr.mmap2;
	}
	if (!pd->by_id)
		info->events[0].layout.build_id = any && all;
	pd->own_layout = info->events[0].layout;
	pd->own_layout.build_id |= pd->by_id && any;
}

static int find_positions(struct perfdata *pd)
{
	const struct perfdata_info *info = &pd->info;
	const struct record_layout *first;
	bool same = true, id_same = true;

	if (!info->n_events) {
		pd->counts.damage = "it has records, but no events";
		return fail(-EBADMSG);
	}
	first = &info->events[0].layout;
	pd->sample_id_at = sample_id_at(first->sample_type);
	pd->other_id_at = other_id_at(first->sample_type);
	for (size_t i = 1; i < info->n_events; i++) {
		const struct record_layout *layout = &info->events[i].layout;

		same &= layout->sample_type == first->sample_type &&
			layout->sample_id_all == first->sample_id_all;
		id_same &= sample_id_at(layout->sample_type) == pd->sample_id_at &&
			   other_id_at(layout->sample_type) == pd->other_id_at &&
			   layout->sample_id_all == first->sample_id_all;
	}
	pd->by_id = info->n_events > 1 && id_same && pd->sample_id_at != NO_ID;
	if (!pd->by_id && !same) {
		pd->counts.damage = "its events cannot be distinguished";
		return fail(-EBADMSG);
	}
	spread_build_id(pd);
	pd->positions_known = true;
	return 0;
}

bool perfdata_event_of_id(const struct perfdata *pd, uint64_t id, uint32_t *ret_event)
{
	uint64_t event;

	if (!table_get(&pd->event_of_id, id, &event))
		return false;
	*ret_event = (uint32_t)event;
	return true;
}

/* false: a record of no known event.  *ret_own: perf made it itself. */
static bool event_of(const struct perfdata *pd, const struct perf_event_header *record,
		     uint32_t *ret_event, bool *ret_own)
{
	const struct words w = body_of(record);
	uint64_t id = 0;

	*ret_event = 0;
	*ret_own = false;
	if (!pd->by_id)
		return true;
	if (record->type == PERF_RECORD_SAMPLE) {
		if (words_left(&w) <= pd->sample_id_at)
			return false;
		id = w.p[pd->sample_id_at];
	} else if (pd->info.events[0].layout.sample_id_all) {
		if (words_left(&w) < pd->other_id_at)
			return false;
		id = w.end[-(ptrdiff_t)pd->other_id_at];
	}
	*ret_own = !id && record->type != PERF_RECORD_SAMPLE;
	return *ret_own || perfdata_event_of_id(pd, id, ret_event);
}

static const struct record_layout *layout_of(const struct perfdata *pd, uint32_t event, bool own)
{
	return own ? &pd->own_layout : &pd->info.events[event].layout;
}

/* How the record is laid out; NULL: it is of no known event.  Once positions are known. */
static const struct record_layout *perfdata_layout_of(const struct perfdata *pd,
						      const struct perf_event_header *record)
{
	uint32_t event;
	bool own;

	return event_of(pd, record, &event, &own) ? layout_of(pd, event, own) : NULL;
}

/* ---- order ---- */

static int by_time(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* A recording of one busy CPU is in order already, and sorting it would cost a merge all the same. */
static bool is_in_order(const struct perfdata *pd)
{
	for (size_t i = pd->first + 1; i < pd->n; i++)
		if (by_time(&pd->list[i - 1], &pd->list[i]) > 0)
			return false;
	return true;
}

/* Those up to @limit may go. */
static void release(struct perfdata *pd, uint64_t limit)
{
	if (pd->first == pd->n)
		return;
	if (!is_in_order(pd))
		qsort(pd->list + pd->first, pd->n - pd->first, sizeof(*pd->list), by_time);
	pd->n_ready = pd->first;
	while (pd->n_ready < pd->n && pd->list[pd->n_ready].time <= limit)
		pd->n_ready++;
}

static void end_round(struct perfdata *pd)
{
	pd->counts.rounds++;
	if (pd->flush_to)
		release(pd, pd->flush_to);
	pd->flush_to = pd->newest;
}

/* Too much waits: the older half goes, whatever may still come before it. */
static void release_early(struct perfdata *pd)
{
	size_t half = (pd->n - pd->first + 1) / 2;

	release(pd, 0);
	pd->n_ready = pd->first + half;
	pd->counts.early += half;
}

static int wait(struct perfdata *pd, const struct waiting *w)
{
	if (pd->first && pd->first == pd->n_ready) {
		memmove(pd->list, pd->list + pd->first, (pd->n - pd->first) * sizeof(*pd->list));
		pd->n -= pd->first;
		pd->first = pd->n_ready = 0;
	}
	if (pd->n == pd->room && !array_grow(pd->list, pd->room, 1024))
		return fail(-ENOMEM);
	pd->list[pd->n++] = *w;
	pd->newest = max_u64(pd->newest, w->time);
	return 0;
}

static bool holds_too_much(const struct perfdata *pd)
{
	const size_t list = (pd->n - pd->first) * sizeof(*pd->list) * 2; /* sorting makes a copy */

	return pd->n > pd->first &&
	       perfdata_held(pd) + list + perfdata_zstd_bytes(pd->zstd) > pd->limits.hold;
}

/* ---- records ---- */

static struct perfdata_item item_of(const struct perfdata *pd, const struct waiting *w)
{
	return (struct perfdata_item){
		.record = w->record,
		.layout = layout_of(pd, w->event, w->own),
		.time = w->time,
		.event = w->event,
		.block = w->block,
	};
}

enum { NOTHING = 1 }; /* for now: read on */

/* A record of the kernel's: into the list, or out at once. */
static int take_record(struct perfdata *pd, const struct record_at *at,
		       struct perfdata_item *ret_item)
{
	struct waiting w = {.record = at->record, .block = at->block, .order = pd->order++};
	bool sample = at->record->type == PERF_RECORD_SAMPLE;
	uint32_t event;
	int r;

	if (!pd->positions_known) {
		r = find_positions(pd);
		if (r < 0)
			return trace(r);
	}
	pd->counts.records++;
	pd->counts.samples += sample;
	if (!event_of(pd, at->record, &event, &w.own)) {
		pd->counts.bad_records++;
		return NOTHING;
	}
	w.event = (uint16_t)event;
	if (sample)
		w.order |= SAMPLE_LAST;
	if (!record_time(&pd->info.events[w.event].layout, at->record, &w.time) ||
	    w.time == UINT64_MAX)
		w.time = 0;
	pd->blocks[at->block].users++;
	if (!w.time) {
		*ret_item = item_of(pd, &w);
		return 0;
	}
	r = wait(pd, &w);
	return r < 0 ? trace(r) : NOTHING;
}

/* How many bytes behind the record are none (AUXTRACE, tracing data). */
static uint64_t perfdata_bytes_behind(const struct perf_event_header *record)
{
	struct cursor body = cursor_of(record + 1, record->size - sizeof(*record));

	switch (record->type) {
	case PERFDATA_HEADER_TRACING_DATA:
		return cursor_u32(&body);
	case PERFDATA_AUXTRACE:
		return cursor_u64(&body);
	default:
		return 0;
	}
}

/* A record that perf itself wrote.  A damaged one is left out: code that needs it reports it. */
static int take_own_record(struct perfdata *pd, const struct perf_event_header *record)
{
	int r = 0;

	switch (record->type) {
	case PERFDATA_HEADER_ATTR:
	case PERFDATA_HEADER_BUILD_ID:
	case PERFDATA_HEADER_FEATURE:
	case PERFDATA_EVENT_UPDATE:
	case PERFDATA_TIME_CONV:
		r = perfdata_header_record(pd, record);
		break;
	case PERFDATA_HEADER_TRACING_DATA:
	case PERFDATA_AUXTRACE:
		pd->skip_left = perfdata_bytes_behind(record);
		break;
	case PERFDATA_FINISHED_ROUND:
		end_round(pd);
		break;
	case PERFDATA_COMPRESSED:
	case PERFDATA_COMPRESSED2:
		r = perfdata_unpack_begin(pd, record);
		pd->unpacking = r == 0;
		return r < 0 ? trace(r) : NOTHING;
	default:
		pd->counts.foreign_records++;
	}
	if (r == -EBADMSG || r == -E2BIG)
		pd->counts.bad_records++;
	return r == -ENOMEM ? trace(r) : NOTHING;
}

/* One record more. */
static int read_on(struct perfdata *pd, struct perfdata_item *ret_item)
{
	struct record_at at;
	int r = pd->unpacking ? perfdata_unpack(pd, &at) : perfdata_input(pd, &at);

	if (r < 0)
		return r;
	if (r == STREAM_DRY) {
		pd->finished = !pd->unpacking;
		pd->unpacking = false;
		if (pd->finished && pd->unpacked.at != pd->unpacked.filled)
			pd->counts.damage = "the file ends too early";
		return NOTHING;
	}
	if (at.record->type < PERFDATA_USER_TYPE_START)
		return take_record(pd, &at, ret_item);
	if (pd->unpacking &&
	    (at.record->type == PERFDATA_COMPRESSED || at.record->type == PERFDATA_COMPRESSED2)) {
		pd->counts.damage = "a compressed record has another one inside";
		return fail(-EBADMSG);
	}
	return take_own_record(pd, at.record);
}

/* Records before the damage are kept. */
static void end_by_damage(struct perfdata *pd)
{
	pd->finished = true;
	pd->counts.unread_bytes += pd->input.filled - pd->input.at;
	if (pd->input.block !=
	    BLOCK_NONE) /* where bytes are left out, only the first record is damage */
		pd->counts.unread_bytes += pd->blocks[pd->input.block].left_out;
	if (pd->data_left != UINT64_MAX)
		pd->counts.unread_bytes += pd->data_left;
}

static struct perfdata_item pop(struct perfdata *pd)
{
	const struct waiting *w = &pd->list[pd->first++];

	pd->counts.disordered += w->time < pd->released;
	pd->released = max_u64(pd->released, w->time);
	return item_of(pd, w);
}

int perfdata_next(struct perfdata *pd, struct perfdata_item *ret_item)
{
	int r;

	for (;;) {
		if (pd->first < pd->n_ready) {
			*ret_item = pop(pd);
			return 0;
		}
		if (pd->finished) {
			if (pd->first == pd->n)
				return PERFDATA_END;
			release(pd, UINT64_MAX);
			continue;
		}
		r = read_on(pd, ret_item);
		if (r == -EBADMSG && pd->counts.damage)
			end_by_damage(pd);
		else if (r <= 0)
			return r < 0 ? trace(r) : 0;
		if (holds_too_much(pd) && pd->first == pd->n_ready)
			release_early(pd);
	}
}

/* ---- opening and freeing ---- */

static size_t or_default(size_t limit, size_t value)
{
	return limit ? limit : value;
}

int perfdata_new(int fd, const struct perfdata_limits *limits, struct perfdata **ret_perfdata,
		 char *error, size_t error_size)
{
	static const struct perfdata_limits defaults;
	struct perfdata *pd = calloc(1, sizeof(*pd));
	int r;

	if (!pd) {
		(void)snprintf(error, error_size, "cannot be read: no memory");
		return fail(-ENOMEM);
	}
	pd->fd = fd;
	limits = limits ? limits : &defaults;
	pd->limits = (struct perfdata_limits){
		.hold = or_default(limits->hold, HOLD_BYTES),
		.ahead = or_default(limits->ahead, AHEAD_BYTES),
		.piece = min_u64(or_default(limits->piece, SIZE_MAX), BLOCK_BYTES - BLOCK_HEAD),
	};
	pd->window_log = WINDOW_LOG_MAX;
	pd->info.clock = -1;
	pd->input.block = pd->unpacked.block = pd->aligned.block = BLOCK_NONE;
	r = perfdata_read_header(pd, error, error_size);
	if (r < 0) {
		(void)perfdata_free(pd);
		return trace(r);
	}
	*ret_perfdata = pd;
	return 0;
}

struct perfdata *perfdata_free(struct perfdata *pd)
{
	if (!pd)
		return NULL;
	perfdata_blocks_deinit(pd);
	table_deinit(&pd->event_of_id);
	perfdata_info_deinit(&pd->info);
	free(pd->list);
	free(pd);
	return NULL;
}

const struct perfdata_info *perfdata_info(const struct perfdata *pd)
{
	return &pd->info;
}

const struct perfdata_counts *perfdata_counts(const struct perfdata *pd)
{
	return &pd->counts;
}

/* ---- all mappings, before the records are used in order ----
 *
 * Nearly all bytes of a recording are copies of stacks, in records of 8 to 64 KiB.  So the scan jumps
 * from header to header, and reads a large piece only where records are small: 0.4 us a sample.  It
 * uses pread(), as the thread that reads ahead owns the file position.  A zstd stream gives no
 * header before everything in front of it is unpacked; the scan unpacks it a second time, with a
 * perfdata that has nothing but blocks and the stream. */

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
	uint64_t skip;	  /* bytes at `at` that are not a record */
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

/* The second window gets what the records that wait and the first window leave of their limit. */
static int second_window(const struct perfdata *pd)
{
	enum { ZSTD_MORE = 1 << 20 }; /* its memory besides the window */
	const size_t used = perfdata_held(pd) + perfdata_zstd_bytes(pd->zstd);
	int log = WINDOW_LOG_MIN;

	while (log < WINDOW_LOG_MAX && used + (2u << log) + ZSTD_MORE <= pd->limits.hold)
		log++;
	return log;
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
	s->packed = (struct perfdata){.input.block = BLOCK_NONE, .window_log = second_window(pd)};
	s->packed.unpacked.block = s->packed.aligned.block = BLOCK_NONE;
	do
		r = next(s);
	while (r > 0);
	perfdata_blocks_deinit(&s->packed);
	free(s);
	return r < 0 ? trace(r) : PERFDATA_END;
}
