/* queue.c - see queue.h.
 *
 * waker: the consumer sets ASLEEP, then checks the queue once more; the producer publishes,
 * then checks the state. Both pairs are sequentially consistent, so at least one side sees the
 * other and no wake-up is lost; the eventfd is level-triggered, so an extra wake-up does no harm.
 *
 *      AWAKE ◄── waker_awake(), waker_wake() ── ASLEEP ── waker_claim() ──► CLAIMED
 *        │                                      ▲    ▲                        │
 *        └────────── waker_prepare() ───────────┘    └──── waker_return() ────┴──► AWAKE
 *
 * Each step out of ASLEEP is one compare-and-swap, so the consumer's state has one owner at a time. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/queue.h"

int waker_init(struct waker *w)
{
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return fail(-errno);
	atomic_store(&w->state, WAKER_AWAKE);
	return 0;
}

void waker_deinit(struct waker *w)
{
	w->fd = fd_close(w->fd);
}

static void waker_signal(struct waker *w)
{
	const uint64_t one = 1;

	(void)!write(w->fd, &one, sizeof(one));
}

/* Out of ASLEEP, by one side only. */
static bool waker_leave(struct waker *w, int state)
{
	int asleep = WAKER_ASLEEP;

	return atomic_compare_exchange_strong(&w->state, &asleep, state);
}

void waker_wake(struct waker *w)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&w->state, memory_order_relaxed) == WAKER_ASLEEP &&
	    waker_leave(w, WAKER_AWAKE))
		waker_signal(w);
}

void waker_prepare(struct waker *w)
{
	atomic_store(&w->state, WAKER_ASLEEP);
	atomic_thread_fence(memory_order_seq_cst);
}

bool waker_awake(struct waker *w, bool readable)
{
	uint64_t n;

	if (readable)
		(void)!read(w->fd, &n, sizeof(n));
	return waker_leave(w, WAKER_AWAKE) || atomic_load(&w->state) == WAKER_AWAKE;
}

bool waker_claim(struct waker *w)
{
	atomic_thread_fence(memory_order_seq_cst);
	return waker_leave(w, WAKER_CLAIMED);
}

void waker_return(struct waker *w, bool wake)
{
	atomic_store(&w->state, wake ? WAKER_AWAKE : WAKER_ASLEEP);
	if (wake)
		waker_signal(w);
}

int slot_queue_init(struct slot_queue *q, size_t n_slots, size_t slot_size)
{
	*q = (struct slot_queue){.slot_size = slot_size, .mask = n_slots - 1};
	q->slots = aligned_alloc(64, (n_slots * slot_size + 63) & ~(size_t)63);
	if (!q->slots)
		return fail(-ENOMEM);
	return 0;
}

void slot_queue_deinit(struct slot_queue *q)
{
	free(q->slots);
	q->slots = NULL;
}

void *slot_queue_push(struct slot_queue *q)
{
	if (!q->slots || q->filled - slot_queue_consumed(q) > q->mask)
		return NULL;
	return slot_queue_at(q, q->filled++);
}

bool slot_queue_publish(struct slot_queue *q)
{
	if (atomic_load_explicit(&q->published, memory_order_relaxed) == q->filled)
		return false;
	atomic_store_explicit(&q->published, q->filled, memory_order_release);
	return true;
}

void slot_queue_pop(struct slot_queue *q, uint64_t n)
{
	atomic_fetch_add_explicit(&q->consumed, n, memory_order_release);
}

void slot_queue_rewind(struct slot_queue *q)
{
	if (slot_queue_consumed(q) != q->filled)
		return;
	q->filled = 0;
	atomic_store(&q->published, 0);
	atomic_store(&q->consumed, 0);
}

/* The header of each record of a byte queue. */
struct byte_record {
	uint64_t len;
};

/* Anonymous shared memory, twice in a row: mremap() of size 0 maps the same pages once more (mremap(2)).  A memfd
 * would have to be within RLIMIT_FSIZE, which is for the user's files. */
int byte_queue_init(struct byte_queue *q, size_t size)
{
	uint8_t *base;

	*q = (struct byte_queue){.size = size};
	base = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return fail(-errno);
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED ||
	    mremap(base, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, base + size) == MAP_FAILED) {
		int r = -errno;

		(void)munmap(base, 2 * size);
		return fail(r);
	}
	/* A helper process must not be able to write it. */
	(void)madvise(base, 2 * size, MADV_DONTFORK);
	q->data = base;
	return 0;
}

void byte_queue_deinit(struct byte_queue *q)
{
	if (q->data)
		(void)munmap(q->data, 2 * q->size);
	q->data = NULL;
}

static size_t byte_record_size(size_t len)
{
	return sizeof(struct byte_record) + ((len + 7) & ~(size_t)7);
}

uint64_t byte_queue_used(const struct byte_queue *q)
{
	return q->filled - atomic_load_explicit(&q->consumed, memory_order_acquire);
}

void byte_queue_rewind(struct byte_queue *q)
{
	if (byte_queue_used(q) || q->taken != q->filled)
		return;
	q->filled = q->taken = 0;
	atomic_store(&q->published, 0);
	atomic_store(&q->consumed, 0);
}

void *byte_queue_reserve(struct byte_queue *q, size_t len)
{
	if (len > q->size || byte_queue_used(q) + byte_record_size(len) > q->size)
		return NULL;
	return q->data + (q->filled & (q->size - 1)) + sizeof(struct byte_record);
}

void byte_queue_commit(struct byte_queue *q, size_t len)
{
	struct byte_record record = {len};

	memcpy(q->data + (q->filled & (q->size - 1)), &record, sizeof(record));
	q->filled += byte_record_size(len);
}

void byte_queue_publish(struct byte_queue *q)
{
	atomic_store_explicit(&q->published, q->filled, memory_order_release);
}

const void *byte_queue_next(struct byte_queue *q, size_t *ret_len)
{
	const uint8_t *at = q->data + (q->taken & (q->size - 1));
	struct byte_record record;

	if (q->taken == atomic_load_explicit(&q->published, memory_order_acquire))
		return NULL;
	memcpy(&record, at, sizeof(record));
	q->taken += byte_record_size(record.len);
	*ret_len = record.len;
	return at + sizeof(record);
}

void *byte_queue_look(const struct byte_queue *q, uint64_t *at)
{
	uint8_t *data = q->data + (*at & (q->size - 1));
	struct byte_record record;

	if (*at == atomic_load_explicit(&q->published, memory_order_acquire))
		return NULL;
	memcpy(&record, data, sizeof(record));
	*at += byte_record_size(record.len);
	return data + sizeof(record);
}

uint64_t byte_queue_ready(const struct byte_queue *q)
{
	return atomic_load_explicit(&q->published, memory_order_acquire) - q->taken;
}

void byte_queue_release(struct byte_queue *q)
{
	atomic_store_explicit(&q->consumed, q->taken, memory_order_release);
}
