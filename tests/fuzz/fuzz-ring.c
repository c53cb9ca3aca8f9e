/* fuzz-ring.c - a perf ring with any bytes in it and any heads, alone and under the merge.
 *
 * Input: one byte of flags, one byte that makes the order of giving back, then heads and data in
 * turns: two bytes of step, signed and in units of the byte after them (1 or 8), after which the
 * rest of the ring's first lap is filled from what follows.  Whatever comes, the work is bounded: a
 * round gives at most size / 8 records, all of them inside the memory, or -EBADMSG, which stays. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/merge.h"
#include "perf/ring.h"

enum { PAGE = 4096, SIZE = 512, MAX_ROUNDS = 64 };

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

static uint8_t take_byte(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static uint64_t touch(const struct perf_event_header *record)
{
	const uint8_t *bytes = (const uint8_t *)record;
	uint64_t sum = 0;

	CHECK(record->size >= 8 && record->size % 8 == 0 && record->size <= SIZE);
	for (size_t i = 0; i < record->size; i++)
		sum += bytes[i];
	return sum;
}

/* Reads to the head, holding at most 8; false once damaged. */
static bool run_ring(struct ring *ring, uint8_t order)
{
	const struct perf_event_header *record;
	uint64_t held[8], position;
	size_t n_held = 0, n = 0;
	int r;

	r = ring_load_head(ring);
	CHECK(r == 0 || r == -EBADMSG);
	while (r == 0 && (r = ring_next(ring, &record, &position)) == 0) {
		CHECK(++n <= SIZE / 8);
		CHECK(ring_held(ring) <= ring_size(ring));
		(void)touch(record);
		held[n_held++] = position;
		if (n_held == 8)
			ring_put(ring, (position = held[order % 8],
					held[order % 8] = held[--n_held], position));
	}
	while (n_held > 0)
		ring_put(ring, held[--n_held]);
	CHECK(ring_held(ring) == 0 && ring_backlog(ring) <= SIZE);
	CHECK(r == RING_EMPTY || r == -EBADMSG);
	return r == RING_EMPTY;
}

static bool run_merge(struct merge *merge, uint64_t clock)
{
	struct merge_item item;
	size_t n = 0;
	int r;

	r = merge_begin(merge, clock);
	CHECK(r == 0 || r == -EBADMSG);
	if (r < 0) {
		CHECK(merge_begin(merge, clock) == -EBADMSG);
		CHECK(merge_next(merge, &item) == MERGE_DONE);
		return false;
	}
	while ((r = merge_next(merge, &item)) == 0) {
		CHECK(++n <= SIZE / 8 && item.time < clock);
		(void)touch(item.record);
		merge_put(merge, item.ring, item.position);
	}
	CHECK(r == MERGE_DONE);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	const uint8_t flags = take_byte(&in), order = take_byte(&in);
	const struct record_layout layout = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME |
							    (flags & 2 ? PERF_SAMPLE_CPU : 0),
					     .sample_id_all = flags & 4};
	_cleanup_(freep) uint8_t *base = calloc(1, PAGE + SIZE);
	struct perf_event_mmap_page *meta = (struct perf_event_mmap_page *)(void *)base;
	struct merge *merge = NULL;
	struct ring *ring = NULL;
	uint32_t index;
	bool whole = true;

	CHECK(base);
	meta->data_head = meta->data_tail =
		(uint64_t)(flags >> 4) * 40; /* records wrap sooner or later */
	CHECK(ring_new(base, PAGE, SIZE, &ring) == 0 && merge_new(&merge) == 0);
	CHECK(merge_add(merge, ring, &layout, &index) == 0);
	for (int round = 0; round < MAX_ROUNDS && whole && in.left > 0; round++) {
		const int16_t step = (int16_t)(take_byte(&in) | take_byte(&in) << 8);
		const uint64_t from = meta->data_head;

		meta->data_head += (uint64_t)(int64_t)step * (take_byte(&in) & 1 ? 1 : 8);
		for (uint64_t i = from; i < meta->data_head && i - from < SIZE && in.left > 0; i++)
			base[PAGE + i % SIZE] = take_byte(&in);
		whole = flags & 1 ? run_merge(merge, 1u << round % 32) : run_ring(ring, order);
	}
	merge_free(merge);
	ring_free(ring);
	return 0;
}
