/* record-source.h - where the reader's records come from.  Thread: main.
 *
 *   rings of a recording ── ring-records.c ──────────┐
 *                                                    ├──► reader.c
 *   a file of `perf record` ── import-records.c ─────┘
 *
 * A source gives parsed records in time order.  What they point into stays until they are put. */
#pragma once

#include "perf/source.h"
#include "perf/record.h"

enum record_kind {
	RECORD_SAMPLE,
	RECORD_EVENT, /* all that is not a sample */
	RECORD_WAKING, /* a sample of sched:sched_waking, in a sideband ring: not parsed (wait_reader_woken() does it) */
};

struct record_item {
	const struct perf_event_header *record;
	const struct perf_ring *from; /* NULL: a file */
	uint64_t position;	      /* for put */
	uint32_t ring;		      /* index; of a file the CPU */
	uint32_t cpu;
	enum record_kind kind;
	union {
		struct record_sample sample;
		struct record_event event;
	};
};

enum { RECORDS_DONE = 1 };

struct record_source {
	/* Begins a round of all records before @now; NULL: there is one round. */
	int (*begin)(void *arg, uint64_t now);
	/* 0 and the next record; RECORDS_DONE: none left in this round. */
	int (*next)(void *arg, struct record_item *ret_item);
	/* Gives a record back, in any order; each once. */
	void (*put)(void *arg, uint32_t ring, uint64_t position);
	void *arg;
};

/* The records of all rings, merged; borrows @source. */
struct record_source ring_records(struct perf_source *source);
/* Samples like this one, of a ring, that find room there before it is full. */
uint64_t ring_room_for(const struct record_item *item);
/* Have two events counted this sample of a ring? */
bool ring_has_double(const struct perf_source *source, const struct record_item *item);
/* Is a ring about to lose samples? */
bool rings_fill_up(const struct perf_source *source);
/* The ring of samples of @cpu; the first one if it has none. */
size_t ring_of_cpu(const struct perf_source *source, uint32_t cpu);
