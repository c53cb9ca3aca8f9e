/* merge.c - see merge.h.
 *
 *   merge_begin:  T (an argument) ──► load every head ──► read every ring to its head
 *                                                     └──► pending lists, sorted
 *   merge_next:   heap of the rings by the first of their pending lists
 *                                                     └──► smallest, while its time is < T
 *
 * Records with a time >= T stay pending for the next round.  A ring's pending list is an array that
 * is appended to and used up from its front.  Inside one ring the kernel stamps records before it
 * reserves their place, so a LOST record or an interrupt's sample can precede an older one:
 * this list is sorted by (time, position).  Sorting by insertion costs what the back steps are;
 * past a budget it is given up for a heap sort, so that a damaged ring costs n log n.
 *
 * A record without a time keeps its place in its ring: it takes the time of the record before it, or
 * 0 (before everything) in a ring where the layout has no time.  So does a record of the future, which nothing can be: its time
 * is damaged, or of a clock that was set back, and its ring would wait for it.
 *
 * Memory: pending lists grow to the most records that ever waited in a ring at once (bounded by its
 * size) and stay that large. */
#include "perf/merge.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

struct pending {
	uint64_t time, position;
	const struct perf_event_header *record;
	bool timed, sample;
};

struct merge_ring {
	struct ring *ring;
	struct record_layout layout;
	bool all_timed;	    /* every record of the kernel has a time: one without is damaged */
	uint64_t last_time; /* the latest read so far, for records without */
	struct pending *items;
	size_t first, count, room; /* items[first] to items[count - 1] wait */
};

struct merge {
	struct merge_ring *rings;
	uint32_t *heap; /* indexes of rings that have pending records, smallest first */
	size_t n_rings, room, n_heap;
	uint64_t until;	   /* T of this round */
	uint64_t released; /* the latest time released so far */
	uint64_t violations;
	bool finishing;
	int broken; /* the error that ended it: what was read meanwhile is not in order */
};

int merge_new(struct merge **ret_merge)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return fail(-ENOMEM);
	*ret_merge = merge;
	return 0;
}

struct merge *merge_free(struct merge *merge)
{
	if (!merge)
		return NULL;
	for (size_t i = 0; i < merge->n_rings; i++)
		free(merge->rings[i].items);
	free(merge->rings);
	free(merge->heap);
	free(merge);
	return NULL;
}

static int make_room(struct merge *merge)
{
	const size_t room = merge->room ? merge->room * 2 : 16;
	struct merge_ring *rings;
	uint32_t *heap;

	if (merge->n_rings < merge->room)
		return 0;
	rings = realloc(merge->rings, room * sizeof(*rings));
	if (!rings)
		return fail(-ENOMEM);
	merge->rings = rings;
	heap = realloc(merge->heap, room * sizeof(*heap));
	if (!heap)
		return fail(-ENOMEM);
	merge->heap = heap;
	merge->room = room;
	return 0;
}

int merge_add(struct merge *merge, struct ring *ring, const struct record_layout *layout,
	      uint32_t *ret_index)
{
	int r = make_room(merge);

	if (r < 0)
		return trace(r);
	merge->rings[merge->n_rings] = (struct merge_ring){
		.ring = ring,
		.layout = *layout,
		.all_timed = layout->sample_type & PERF_SAMPLE_TIME && layout->sample_id_all,
	};
	*ret_index = (uint32_t)merge->n_rings++;
	return 0;
}

static bool is_before(const struct pending *a, const struct pending *b)
{
	return a->time != b->time ? a->time < b->time : a->position < b->position;
}

/* Straight insertion, given up when more than @budget moves are needed. */
static bool sort_by_insertion(struct pending *items, size_t n, size_t budget)
{
	for (size_t i = 1; i < n; i++) {
		struct pending moved = items[i];
		size_t j = i;

		for (; j > 0 && is_before(&moved, &items[j - 1]) && budget > 0; j--, budget--)
			items[j] = items[j - 1];
		items[j] = moved;
		if (budget == 0)
			return false;
	}
	return true;
}

/* Sinks items[at] to its place in the first @n, the latest on top. */
static void sink_latest(struct pending *items, size_t at, size_t n)
{
	struct pending moved = items[at];

	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_before(&items[child], &items[child + 1]))
			child++;
		if (!is_before(&moved, &items[child]))
			break;
		items[at] = items[child];
	}
	items[at] = moved;
}

static void sort_by_heap(struct pending *items, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sink_latest(items, i, n);
	while (n-- > 1) {
		struct pending latest = items[0];

		items[0] = items[n];
		items[n] = latest;
		sink_latest(items, 0, n);
	}
}

static void sort_pending(struct merge_ring *mr)
{
	struct pending *items = mr->items + mr->first;
	const size_t n = mr->count - mr->first;

	if (!sort_by_insertion(items, n, 64 + 16 * n))
		sort_by_heap(items, n);
}

static int pending_push(struct merge_ring *mr, const struct pending *item)
{
	if (mr->count == mr->room && !array_grow(mr->items, mr->room, 64))
		return fail(-ENOMEM);
	mr->items[mr->count++] = *item;
	return 0;
}

/* What is left from the last round moves to the front of the array. */
static void pending_close_up(struct merge_ring *mr)
{
	if (mr->first == 0)
		return;
	memmove(mr->items, mr->items + mr->first, (mr->count - mr->first) * sizeof(*mr->items));
	mr->count -= mr->first;
	mr->first = 0;
}

static bool is_future(const struct merge *merge, uint64_t time, uint64_t now)
{
	return !merge->finishing && time > now && time - now > NSEC_PER_SEC;
}

/* A ring to its loaded head. */
static int read_ring(const struct merge *merge, struct merge_ring *mr, uint64_t now)
{
	struct pending item = {0};
	bool sorted = true;
	int r;

	pending_close_up(mr);
	while ((r = ring_next(mr->ring, &item.record, &item.position)) == 0) {
		item.sample = item.record->type == PERF_RECORD_SAMPLE;
		item.timed = record_time(&mr->layout, item.record, &item.time);
		if (!item.timed && mr->all_timed)
			return fail(-EBADMSG);
		if (item.timed && is_future(merge, item.time, now))
			item.timed = false;
		if (!item.timed)
			item.time = mr->last_time;
		mr->last_time = max_u64(mr->last_time, item.time);
		if (mr->count > mr->first && item.time < mr->items[mr->count - 1].time)
			sorted = false;
		r = pending_push(mr, &item);
		if (r < 0)
			return trace(r);
	}
	if (r < 0)
		return trace(r);
	if (!sorted)
		sort_pending(mr);
	return 0;
}

static const struct pending *front(const struct merge *merge, uint32_t ring)
{
	return &merge->rings[ring].items[merge->rings[ring].first];
}

/* At the same time other records go before samples, which may depend on them. */
static bool ring_is_before(const struct merge *merge, uint32_t a, uint32_t b)
{
	const struct pending *x = front(merge, a), *y = front(merge, b);

	if (x->time != y->time)
		return x->time < y->time;
	return x->sample != y->sample ? y->sample : a < b;
}

static void sink_ring(struct merge *merge, size_t at)
{
	uint32_t *heap = merge->heap, moved = heap[at];

	for (size_t child; (child = 2 * at + 1) < merge->n_heap; at = child) {
		if (child + 1 < merge->n_heap &&
		    ring_is_before(merge, heap[child + 1], heap[child]))
			child++;
		if (!ring_is_before(merge, heap[child], moved))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

static void build_heap(struct merge *merge)
{
	merge->n_heap = 0;
	for (uint32_t i = 0; i < merge->n_rings; i++) {
		if (merge->rings[i].first < merge->rings[i].count)
			merge->heap[merge->n_heap++] = i;
	}
	for (size_t i = merge->n_heap / 2; i-- > 0;)
		sink_ring(merge, i);
}

static int read_rings(struct merge *merge, uint64_t now)
{
	int r;

	for (size_t i = 0; i < merge->n_rings; i++) {
		r = ring_load_head(merge->rings[i].ring);
		if (r < 0)
			return trace(r);
	}
	for (size_t i = 0; i < merge->n_rings; i++) {
		r = read_ring(merge, &merge->rings[i], now);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int merge_begin(struct merge *merge, uint64_t now)
{
	merge->n_heap = 0; /* nothing to release when this fails */
	if (merge->broken == 0)
		merge->broken = read_rings(merge, now);
	if (merge->broken < 0)
		return trace(merge->broken);
	build_heap(merge);
	merge->until = merge->finishing ? UINT64_MAX : now;
	return 0;
}

int merge_next(struct merge *merge, struct merge_item *ret_item)
{
	const struct pending *item;
	struct merge_ring *mr;
	uint32_t ring;

	if (merge->n_heap == 0)
		return MERGE_DONE;
	ring = merge->heap[0];
	item = front(merge, ring);
	if (item->time >= merge->until && merge->until != UINT64_MAX)
		return MERGE_DONE;
	if (item->timed) {
		merge->violations += item->time < merge->released;
		merge->released = max_u64(merge->released, item->time);
	}
	*ret_item = (struct merge_item){.record = item->record,
					.time = item->time,
					.position = item->position,
					.ring = ring};
	mr = &merge->rings[ring];
	if (++mr->first == mr->count)
		merge->heap[0] = merge->heap[--merge->n_heap];
	if (merge->n_heap > 1)
		sink_ring(merge, 0);
	return 0;
}

void merge_put(struct merge *merge, uint32_t ring, uint64_t position)
{
	assert(ring < merge->n_rings);
	ring_put(merge->rings[ring].ring, position);
}

void merge_finish(struct merge *merge)
{
	merge->finishing = true;
}

uint64_t merge_violations(const struct merge *merge)
{
	return merge->violations;
}
