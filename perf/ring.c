/* ring.c - see ring.h.
 *
 *   data:   ....[ back ][ out ][ back ][ out ][  unread  ]......
 *               ^ tail                        ^ read      ^ head
 *
 * Positions are bytes since the ring began and never wrap; position & mask is the place in the
 * memory.  Records that were read and that the tail has not passed are in `out`, a circular array in
 * position order; giving back the first one moves the tail over all returned records behind it, in
 * one store.
 *
 * One bounce buffer is enough: head - tail <= size is checked, so there is at most one multiple of
 * `size` strictly between tail and head, hence at most one record that wraps and is not given back.
 *
 * Sizes are kept in `out` once checked: the memory is not read a second time. */
#include "perf/ring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

enum { BOUNCE_BYTES = 1 << 16 }; /* perf_event_header::size is 16 bits */

struct ring_out {
	uint64_t position;
	uint32_t size;
	bool back;
};

struct ring {
	struct perf_event_mmap_page *meta;
	const uint8_t *data;
	uint64_t size, mask;
	uint64_t tail, read, head;
	struct ring_out *out;
	size_t out_room; /* a power of two */
	size_t out_first, out_count;
	uint8_t *bounce; /* touched at the first wrap only */
};

struct ring *ring_free(struct ring *ring)
{
	if (!ring)
		return NULL;
	free(ring->out);
	free(ring->bounce);
	free(ring);
	return NULL;
}

static void ring_freep(struct ring **ring)
{
	ring_free(*ring);
}

int ring_new(void *base, size_t page_size, size_t data_size, struct ring **ret_ring)
{
	_cleanup_(ring_freep) struct ring *ring = calloc(1, sizeof(*ring));

	assert(is_power_of_two(data_size) && data_size >= sizeof(struct perf_event_header));
	if (!ring)
		return fail(-ENOMEM);
	ring->out_room = 64;
	ring->out = malloc(ring->out_room * sizeof(*ring->out));
	ring->bounce = malloc(BOUNCE_BYTES);
	if (!ring->out || !ring->bounce)
		return fail(-ENOMEM);
	ring->meta = base;
	ring->data = (const uint8_t *)base + page_size;
	ring->size = data_size;
	ring->mask = data_size - 1;
	/* 0 for a fresh ring; the tail is ours: no other code changes it. */
	ring->tail = __atomic_load_n(&ring->meta->data_tail, __ATOMIC_RELAXED);
	ring->read = ring->tail;
	ring->head = ring->tail;
	*ret_ring = take(ring);
	return 0;
}

int ring_load_head(struct ring *ring)
{
	/* Acquire pairs with the kernel's barrier between the data and data_head
	 * (linux/perf_event.h, struct perf_event_mmap_page). */
	uint64_t head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_ACQUIRE);

	if (head < ring->head || head - ring->tail > ring->size)
		return fail(-EBADMSG);
	if ((head | ring->tail) % sizeof(uint64_t) != 0)
		return fail(-EBADMSG);
	ring->head = head;
	return 0;
}

static struct ring_out *out_at(const struct ring *ring, size_t index)
{
	return &ring->out[(ring->out_first + index) & (ring->out_room - 1)];
}

static int out_grow(struct ring *ring)
{
	const size_t room =
		ring->out_room * 2; /* at most 2 * size / 8: a record has 8 bytes or more */
	struct ring_out *out = malloc(room * sizeof(*out));

	if (!out)
		return fail(-ENOMEM);
	for (size_t i = 0; i < ring->out_count; i++)
		out[i] = *out_at(ring, i);
	free(ring->out);
	ring->out = out;
	ring->out_room = room;
	ring->out_first = 0;
	return 0;
}

static const void *unwrap(struct ring *ring, uint64_t offset, size_t size)
{
	size_t first = ring->size - offset;

	memcpy(ring->bounce, ring->data + offset, first);
	memcpy(ring->bounce + first, ring->data, size - first);
	return ring->bounce;
}

int ring_next(struct ring *ring, const struct perf_event_header **ret_record,
	      uint64_t *ret_position)
{
	const uint64_t left = ring->head - ring->read, offset = ring->read & ring->mask;
	const void *at = ring->data + offset;
	size_t size;
	int r;

	if (left == 0)
		return RING_EMPTY;
	/* All is a multiple of 8, so a header never wraps and left is 8 or more. */
	size = ((const struct perf_event_header *)at)->size;
	if (size < sizeof(struct perf_event_header) || size % sizeof(uint64_t) != 0 || size > left)
		return fail(-EBADMSG);
	if (ring->out_count == ring->out_room) {
		r = out_grow(ring);
		if (r < 0)
			return trace(r);
	}
	*out_at(ring, ring->out_count++) =
		(struct ring_out){.position = ring->read, .size = (uint32_t)size};
	*ret_record = offset + size > ring->size ? unwrap(ring, offset, size) : at;
	*ret_position = ring->read;
	ring->read += size;
	return 0;
}

/* Index of the record at @position: they are in order. */
static size_t out_find(const struct ring *ring, uint64_t position)
{
	size_t low = 0, high = ring->out_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (out_at(ring, middle)->position <= position)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void ring_put(struct ring *ring, uint64_t position)
{
	size_t index = position == ring->tail ? 0 : out_find(ring, position);
	struct ring_out *out = out_at(ring, index);

	assert(ring->out_count > 0 && out->position == position && !out->back);
	out->back = true;
	if (index > 0)
		return;
	do {
		ring->tail += out->size;
		ring->out_first = (ring->out_first + 1) & (ring->out_room - 1);
		ring->out_count--;
		out = out_at(ring, 0);
	} while (ring->out_count > 0 && out->back);
	/* Release: all reads of the records come before the kernel may write over them. */
	__atomic_store_n(&ring->meta->data_tail, ring->tail, __ATOMIC_RELEASE);
}

uint64_t ring_held(const struct ring *ring)
{
	return ring->read - ring->tail;
}

uint64_t ring_size(const struct ring *ring)
{
	return ring->size;
}

uint64_t ring_backlog(const struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_RELAXED);

	/* A damaged head is ring_load_head()'s to refuse. */
	return head < ring->read ? 0 : min_u64(head - ring->read, ring->size);
}
