/* sample-records.h - records of the program at the samples (at-sample.bpf.c), joined with their samples.  Thread: main.
 *
 *   ring ─► waiting, oldest first ─► records_find() by thread, stack pointer and time ─► records_take()
 *                                └─► records_expire(): no sample came
 *
 * The program runs in the interrupt that takes the sample, before that is published, so a record is there before its sample. */
#pragma once

#include "perf/at-sample-records.h"
#include "perf/bpf.h"

enum { RECORDS_WAITING = 2048 };

struct sample_records {
	struct bpf_ring *ring; /* NULL: no record yet */
	int broken;
	struct bpf_ring_record waiting[RECORDS_WAITING];
	size_t n_waiting;
	uint64_t unused; /* no sample for it */
	int clock;	 /* of the samples */
	int64_t ahead;	 /* of it against the program's */
};

/* -EXDEV: this process has a pid namespace of its own, in which the program's thread ids are not known. */
int records_init(struct sample_records *records);
/* Before the first sample: the clock of the session, CLOCK_MONOTONIC if it is not called. */
void records_set_clock(struct sample_records *records, int clock);
void records_deinit(struct sample_records *records);

struct sample_key {
	uint32_t tid;
	uint64_t sp, time; /* time: the session's clock */
};
/* Takes over what the ring has, then: the first record of this sample from index @from on, with all that it announces.  NULL:
 * there is none.  Samples come in time order. */
const struct at_sample_record *records_find(struct sample_records *records,
					    const struct sample_key *key, size_t *from);
/* Takes the record at @index out.  Returns its position, for bpf_ring_put(). */
uint64_t records_take(struct sample_records *records, size_t index);
/* Drops records from before @time (the session's clock).  Once a round: it follows the session's clock, too. */
void records_expire(struct sample_records *records, uint64_t time);
