/* python-stack.h - the frames of CPython's functions, copied at the moment of the sample by the session's BPF
 * program (at-sample.bpf.c).  Thread: main.
 *
 *   process with a known Python ─► its thread states ─► that of the sampled thread ─► its frames, innermost first, into a ring
 *   main: python_stacks_add() names the processes; python_stacks_find() joins the record with its sample
 *
 * Later the frames would be others': the interpreter reuses their memory. */
#pragma once

#include "perf/at-sample-records.h"
#include "perf/bpf.h"

struct python_stacks;
/* Copies nothing until python_stacks_begin().  Errors: as records_init(), and -ENOMEM. */
int python_stacks_new(struct python_stacks **ret_stacks);
struct python_stacks *python_stacks_free(struct python_stacks *stacks);
void python_stacks_set_clock(struct python_stacks *stacks, int clock); /* as records_set_clock() */
/* Bytes of the ring, 4 to 32 MiB. */
size_t python_stacks_ring_bytes(size_t n_cpus);
/* Consumes the descriptors of the program's ring of @ring_bytes and of its table (struct python_table). */
int python_stacks_begin(struct python_stacks *stacks, int ring_fd, size_t ring_bytes, int table_fd);
bool python_stacks_run(const struct python_stacks *stacks); /* it has begun */

/* Where the threads of a process are: addresses and offsets of its Python (symbols/image.h). */
struct python_threads {
	uint32_t kind;	      /* PYTHON_IS_* with its low byte */
	uint64_t interpreter; /* as struct python_process has it */
	uint16_t threads, next, native, frame, context, through;
};
/* Samples of process @tgid have their frames from now on, in place of another process with the same place in the
 * table. */
void python_stacks_add(struct python_stacks *stacks, uint32_t tgid,
		       const struct python_threads *threads);

struct python_stack {
	/* PYTHON_STACK_WORDS of each frame, as struct python_record has them. */
	const uint64_t *frames;
	uint32_t n;
	uint64_t position; /* for python_stacks_put() */
};
/* The frames of a sample of @tid at @time (the session's clock) with the user stack pointer @sp; samples come in time order.
 * It must be put.  false: there are none. */
bool python_stacks_find(struct python_stacks *stacks, uint32_t tid, uint64_t sp, uint64_t time,
			struct python_stack *ret_stack);
void python_stacks_put(struct python_stacks *stacks, uint64_t position);
/* Drops records without a sample that are older than @now by PYTHON_STACK_KEEP_MS.  Once a round. */
enum { PYTHON_STACK_KEEP_MS = 200 };
void python_stacks_expire(struct python_stacks *stacks, uint64_t now);
