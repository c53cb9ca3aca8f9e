/* deep.h - user stacks beyond the kernel's copy of 65,528 bytes, copied at the moment of the sample by
 * the session's BPF program (at-sample.bpf.c).  Thread: main.
 *
 *   sample of a thread ─► has it a class? ─► is its stack longer than the copy? ─► whole pages from the
 *     stack pointer up, as many as its class allows (64 KiB to 1 MiB) or the stack has, into a ring
 *   main: deep_find() joins the record with its sample; deep_learn() chooses the class of the thread
 *
 * A thread that was not seen yet may have four times a copy.  One that needs no more than its copies (a
 * goroutine in the heap has readable memory behind its stack) gets 0 and costs nothing from then on,
 * until a stack ends at its copy. */
#pragma once

#include "perf/bpf.h"

enum { DEEP_MAX = 1 << 20 /* bytes of one stack */ };

struct deep;

/* Copies nothing until deep_begin().  Errors: as records_init(), and -ENOMEM. */
int deep_new(struct deep **ret_deep);
struct deep *deep_free(struct deep *deep);
/* Bytes of the ring, 16 to 64 MiB. */
size_t deep_ring_bytes(size_t n_cpus);
/* Consumes the descriptors of the program's ring of @ring_bytes and of its table (struct deep_table). */
int deep_begin(struct deep *deep, int ring_fd, size_t ring_bytes, int table_fd);
void deep_set_clock(struct deep *deep, int clock); /* as records_set_clock() */
/* The ring, to poll: readable when a quarter of it is in use.  -1: none yet. */
int deep_fd(const struct deep *deep);
/* The smallest size of the kernel's copies: stacks that are no longer are left alone. */
void deep_set_room(struct deep *deep, uint32_t bytes);

/* A sample with a full copy. */
struct deep_sample {
	uint32_t tid;
	uint64_t sp, time; /* time: of the session's clock */
	const uint8_t *copy;
	uint32_t copy_len;
};
struct deep_stack {
	const uint8_t *stack; /* from sp up */
	uint32_t len;
	bool full;	   /* the stack goes on beyond it */
	uint64_t position; /* for deep_put() */
};
/* The longer copy of this sample; samples come in time order.  It must be put.  false: there is none. */
bool deep_find(struct deep *deep, const struct deep_sample *sample, struct deep_stack *ret_stack);
void deep_put(struct deep *deep, uint64_t position);
/* Drops records without a sample that are older than @now (the session's clock) by DEEP_KEEP_MS.  Once a
 * round.  -EBADMSG: the ring is damaged; no record is read from then on. */
enum { DEEP_KEEP_MS = 50 };
int deep_expire(struct deep *deep, uint64_t now);
/* The stack of a sample with a full copy of @room bytes used @used bytes; not @whole: at least. */
void deep_learn(struct deep *deep, uint32_t tid, uint64_t used, uint32_t room, bool whole);

struct deep_counts {
	uint64_t copied; /* stacks that were joined */
	uint64_t lost;	 /* no room in the ring */
	uint64_t unused; /* no sample for it */
};
void deep_count(const struct deep *deep, struct deep_counts *ret_counts);
