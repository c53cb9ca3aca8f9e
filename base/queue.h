/* queue.h - queues between two threads.  Thread: exactly one producer and exactly one consumer.
 *
 *   slot_queue   fixed-size slots, consumed in order in batches
 *   byte_queue   records of any length, each contiguous: the memory is mapped twice, back to back,
 *                so that a record never wraps
 *
 * Positions are 64-bit and only grow (but slot_queue_rewind() and byte_queue_rewind()).  The producer writes, then publishes (store-release) once a
 * batch; the consumer loads-acquire.  A `waker` is the eventfd that goes with a queue: the producer
 * makes the system call only when the consumer sleeps. */
#pragma once

#include <stdatomic.h>

#include "base/util.h"

enum { WAKER_AWAKE, WAKER_ASLEEP, WAKER_CLAIMED };
struct waker {
	int fd;
	_Atomic int state;
};

int waker_init(struct waker *w);
void waker_deinit(struct waker *w);
/* Producer: wakes the consumer if it sleeps or is about to. */
void waker_wake(struct waker *w);
/* Consumer: announces that it is going to sleep. Check the queue once more after this, then poll
 * `fd`. */
void waker_prepare(struct waker *w);
/* Consumer: awake again.  @readable: the eventfd was polled readable, and is emptied.  false: the producer does the
 * work at the moment; poll `fd` again, without another waker_prepare(). */
bool waker_awake(struct waker *w, bool readable);
/* Producer: true where the consumer sleeps: all that is the consumer's is the producer's up to waker_return(). */
bool waker_claim(struct waker *w);
/* Producer, after waker_claim().  @wake: the consumer goes on; else it goes on sleeping. */
void waker_return(struct waker *w, bool wake);

struct slot_queue {
	uint8_t *slots;
	size_t slot_size;
	uint64_t mask;
	_Alignas(64) uint64_t filled; /* producer: slots written, published or not */
	_Atomic uint64_t published;
	_Alignas(64) _Atomic uint64_t consumed;
};

/* @n_slots is a power of two. */
int slot_queue_init(struct slot_queue *q, size_t n_slots, size_t slot_size);
void slot_queue_deinit(struct slot_queue *q);

/* Producer: the next free slot, NULL when full.  It counts as filled from here on. */
void *slot_queue_push(struct slot_queue *q);
/* false: nothing new, no need to wake the consumer. */
bool slot_queue_publish(struct slot_queue *q);
/* Producer: position up to which the consumer is done; a slot pushed as the n-th has position n
 * (from 0). */
static inline uint64_t slot_queue_consumed(const struct slot_queue *q)
{
	return atomic_load_explicit(&q->consumed, memory_order_acquire);
}
/* The slot at a position that is between consumed and filled. */
static inline void *slot_queue_at(const struct slot_queue *q, uint64_t position)
{
	return q->slots + (position & q->mask) * q->slot_size;
}

/* One thread that is both, at the moment: where all slots are consumed, the next one is the first again. */
void slot_queue_rewind(struct slot_queue *q);

/* Consumer: how many published slots stand from position consumed on. */
static inline uint64_t slot_queue_ready(const struct slot_queue *q)
{
	return atomic_load_explicit(&q->published, memory_order_acquire) -
	       atomic_load_explicit(&q->consumed, memory_order_relaxed);
}
/* Consumer: done with the first @n. */
void slot_queue_pop(struct slot_queue *q, uint64_t n);

struct byte_queue {
	uint8_t *data; /* 2 * size bytes of address space, the same memory twice */
	uint64_t size;
	_Alignas(64) uint64_t filled;
	_Atomic uint64_t published;
	_Alignas(64) uint64_t taken; /* consumer: read, not yet given back */
	_Atomic uint64_t consumed;
};

/* @size is a power of two and a multiple of the page size. */
int byte_queue_init(struct byte_queue *q, size_t size);
void byte_queue_deinit(struct byte_queue *q);
/* Producer: room for a record of @len bytes (8-aligned), NULL when there is none.  A record that is
 * committed may be shorter than what was reserved. */
void *byte_queue_reserve(struct byte_queue *q, size_t len);
void byte_queue_commit(struct byte_queue *q, size_t len);
void byte_queue_publish(struct byte_queue *q);
/* Producer: bytes in use. */
uint64_t byte_queue_used(const struct byte_queue *q);
/* One thread that is both, at the moment: where nothing is in use, the next record has the place of the first again,
 * which is in its cache. */
void byte_queue_rewind(struct byte_queue *q);
/* Consumer: the next record, NULL when there is none.  Valid until the next release. */
const void *byte_queue_next(struct byte_queue *q, size_t *ret_len);
/* Consumer: the record at *@at, without taking it, and *@at moves behind it.  *@at counts from the
 * start of the queue, as q->taken.  NULL: there is none. */
void *byte_queue_look(const struct byte_queue *q, uint64_t *at);
/* Consumer: bytes that are there and not taken. */
uint64_t byte_queue_ready(const struct byte_queue *q);
/* Consumer: gives back everything taken so far. */
void byte_queue_release(struct byte_queue *q);
