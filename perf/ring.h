/* ring.h - records out of one perf ring, in ring order.  Thread: main.
 * The memory is the kernel's: [meta page][data pages].  We own data_tail, the kernel owns
 * data_head. A record is used in place; only one that wraps is copied, into a bounce buffer that
 * belongs to the record until the tail passes it (one suffices: of the records that are not given back at most
 * one wraps). Reading and giving back are apart: `read` runs ahead of the tail, records come
 * back in any order (ring_put), the tail moves over what is back without a gap. */
#pragma once

#include "perf/uapi.h"

struct ring;

/* Borrows @base, which must stay mapped: the meta page, then @data_size bytes (a power of two) at
 * @page_size. */
int ring_new(void *base, size_t page_size, size_t data_size, struct ring **ret_ring);
struct ring *ring_free(struct ring *ring);

/* Loads data_head: records up to there are what ring_next() gives until the next call.
 * -EBADMSG: head is out of step with tail (damaged; the session must end). */
int ring_load_head(struct ring *ring);

enum { RING_EMPTY = 1 };
/* 0, the record and its position (for ring_put); RING_EMPTY when all up to the loaded head is read;
 * -EBADMSG when a record's size is below a header, not a multiple of 8, or passes the head. */
int ring_next(struct ring *ring, const struct perf_event_header **ret_record,
	      uint64_t *ret_position);
/* Gives a record back.  The tail is stored (release) when a run without gap ends. */
void ring_put(struct ring *ring, uint64_t position);

/* Bytes from the tail (what the kernel may not overwrite) to what is read, and the size. */
uint64_t ring_held(const struct ring *ring);
uint64_t ring_size(const struct ring *ring);
/* Of a ring of @size bytes: what waits in it at most before its reader is woken. */
static inline uint64_t ring_wake_most(uint64_t size)
{
	return size / 8 * 3;
}
/* Bytes that wait beyond what was read, as of now. */
uint64_t ring_backlog(const struct ring *ring);
