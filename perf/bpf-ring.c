/* bpf-ring.c - see bpf.h: BPF_MAP_TYPE_RINGBUF (kernel/bpf/ringbuf.c).
 *
 *   map:   [consumer page, ours][producer page][data][data again]    a record never wraps
 *   record: u32 length and two flags, u32 the kernel's, then the bytes, padded to 8
 *
 *   data:  ....[ back ][ out ][ busy ][ out ]  unread  ......
 *              ^ consumer                     ^ read    ^ producer
 *
 * As in ring.c the consumer's position moves over all records that came back without a gap.  Lengths
 * come from the kernel; they are checked against the producer's position all the same. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/bpf-parts.h"

/* uapi linux/bpf.h */
#define RING_BUSY (1u << 31)
#define RING_DISCARD (1u << 30)
enum { RING_HEADER = 8 };

enum out_state { OUT_BUSY, OUT_GIVEN, OUT_BACK };

struct ring_out {
	uint64_t position;
	uint32_t len; /* of the bytes */
	enum out_state state;
};

struct bpf_ring {
	int fd;
	_Atomic uint64_t *consumer;
	const _Atomic uint64_t *producer;
	const uint8_t *data;
	size_t size, page;
	uint64_t read;	/* records before it are in out[], or were put */
	uint64_t until; /* the producer's position of this scan */
	struct ring_out *out;
	size_t out_room, out_first, out_count; /* room: a power of two */
	size_t n_busy;
};

static struct ring_out *out_at(const struct bpf_ring *r, size_t index)
{
	return &r->out[(r->out_first + index) & (r->out_room - 1)];
}

struct bpf_ring *bpf_ring_free(struct bpf_ring *r)
{
	if (!r)
		return NULL;
	if (r->page) {
		if (r->consumer)
			(void)munmap((void *)r->consumer, r->page);
		if (r->producer)
			(void)munmap((void *)(uintptr_t)r->producer, r->page + 2 * r->size);
	}
	(void)fd_close(r->fd);
	free(r->out);
	free(r);
	return NULL;
}

static struct bpf_ring *ring_alloc(size_t size)
{
	struct bpf_ring *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->fd = -1;
	r->size = size;
	r->out_room = 64;
	r->out = malloc(r->out_room * sizeof(*r->out));
	return r->out ? r : bpf_ring_free(r);
}

int bpf_ring_of(_Atomic uint64_t *consumer, const _Atomic uint64_t *producer, const uint8_t *data,
		size_t size, struct bpf_ring **ret_ring)
{
	struct bpf_ring *r = ring_alloc(size);

	if (!r)
		return fail(-ENOMEM);
	r->consumer = consumer;
	r->producer = producer;
	r->data = data;
	r->read = r->until = atomic_load(consumer);
	*ret_ring = r;
	return 0;
}

static int map_ring(struct bpf_ring *r)
{
	void *ours, *theirs;

	ours = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (ours == MAP_FAILED)
		return fail(-errno);
	r->consumer = ours;
	theirs = mmap(NULL, r->page + 2 * r->size, PROT_READ, MAP_SHARED, r->fd, (off_t)r->page);
	if (theirs == MAP_FAILED)
		return fail(-errno);
	r->producer = theirs;
	r->data = (const uint8_t *)theirs + r->page;
	/* no helper process has it */
	(void)madvise(ours, r->page, MADV_DONTFORK);
	(void)madvise(theirs, r->page + 2 * r->size, MADV_DONTFORK);
	return 0;
}

int bpf_ring_map(size_t bytes)
{
	return bpf_map_new(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)bytes, 0);
}

int bpf_ring_open(int fd, size_t bytes, struct bpf_ring **ret_ring)
{
	struct bpf_ring *ring = ring_alloc(bytes);
	int r;

	if (!ring) {
		(void)fd_close(fd);
		return fail(-ENOMEM);
	}
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->fd = fd;
	r = map_ring(ring);
	if (r < 0) {
		(void)bpf_ring_free(ring);
		return fail(r);
	}
	*ret_ring = ring;
	return 0;
}

int bpf_ring_fd(const struct bpf_ring *r)
{
	return r->fd;
}

size_t bpf_ring_bytes(const struct bpf_ring *r)
{
	return r->size;
}

static uint32_t header_at(const struct bpf_ring *r, uint64_t position)
{
	const void *at = r->data + (position & (r->size - 1));

	/* acquire: the bytes were written before the kernel took the busy flag away */
	return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire);
}

static uint64_t record_end(const struct ring_out *out)
{
	return out->position + RING_HEADER + ((out->len + 7ull) & ~7ull);
}

static int out_grow(struct bpf_ring *r)
{
	struct ring_out *more = malloc(2 * r->out_room * sizeof(*more));

	if (!more)
		return fail(-ENOMEM);
	for (size_t i = 0; i < r->out_count; i++)
		more[i] = *out_at(r, i);
	free(r->out);
	r->out = more;
	r->out_room *= 2;
	r->out_first = 0;
	return 0;
}

/* Moves the consumer's position over what came back. */
static void release(struct bpf_ring *r)
{
	uint64_t position = 0;

	if (!r->out_count || out_at(r, 0)->state != OUT_BACK)
		return;
	while (r->out_count && out_at(r, 0)->state == OUT_BACK) {
		position = record_end(out_at(r, 0));
		r->out_first = (r->out_first + 1) & (r->out_room - 1);
		r->out_count--;
	}
	atomic_store_explicit(r->consumer, position, memory_order_release);
}

/* A record that is not being written any more.  true: *ret is it; false: it was thrown away. */
static bool give(struct bpf_ring *r, struct ring_out *out, uint32_t header,
		 struct bpf_ring_record *ret)
{
	if (header & RING_DISCARD) {
		out->state = OUT_BACK;
		return false;
	}
	out->state = OUT_GIVEN;
	*ret = (struct bpf_ring_record){
		.data = r->data + (out->position & (r->size - 1)) + RING_HEADER,
		.len = out->len,
		.position = out->position,
	};
	return true;
}

/* The records that were passed over. */
static bool next_busy(struct bpf_ring *r, struct bpf_ring_record *ret)
{
	for (size_t i = 0; r->n_busy && i < r->out_count; i++) {
		struct ring_out *out = out_at(r, i);
		uint32_t header = out->state == OUT_BUSY ? header_at(r, out->position) : RING_BUSY;

		if (header & RING_BUSY)
			continue;
		r->n_busy--;
		if (give(r, out, header, ret))
			return true;
	}
	return false;
}

int bpf_ring_next(struct bpf_ring *r, struct bpf_ring_record *ret)
{
	if (r->read == r->until) {
		/* The position first: what is finished before it is seen to be finished. */
		r->until = atomic_load_explicit(r->producer, memory_order_acquire);
		if (next_busy(r, ret))
			return 0;
	}
	while (r->read != r->until) {
		uint64_t left = r->until - r->read;
		struct ring_out *out;
		uint32_t header;

		if (left < RING_HEADER || left > r->size || r->read % 8)
			return fail(-EBADMSG);
		if (r->out_count == r->out_room && out_grow(r) < 0)
			return -ENOMEM;
		header = header_at(r, r->read);
		out = out_at(r, r->out_count);
		*out = (struct ring_out){.position = r->read,
					 .len = header & ~(RING_BUSY | RING_DISCARD)};
		if (record_end(out) - r->read > left)
			return fail(-EBADMSG);
		r->out_count++;
		r->read = record_end(out);
		if (header & RING_BUSY)
			r->n_busy++;
		else if (give(r, out, header, ret))
			return 0;
	}
	release(r);
	return BPF_RING_EMPTY;
}

void bpf_ring_put(struct bpf_ring *r, uint64_t position)
{
	size_t low = 0, high = r->out_count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (out_at(r, mid)->position <= position)
			low = mid;
		else
			high = mid;
	}
	if (high == 0 || out_at(r, low)->position != position)
		return; /* not given: our own mistake, and harmless */
	out_at(r, low)->state = OUT_BACK;
	release(r);
}
