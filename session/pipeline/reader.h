/* reader.h - from rings to entries: the first stage.  Thread: main.
 *
 * A round takes the records of all rings in time order.  Side-band records change the process table
 * at once; a sample becomes an entry that points into the ring.  When the unwinder's queue is full
 * the round stops and the records stay in the ring: what does not fit there the kernel counts
 * exactly. */
#pragma once

#include "base/queue.h"
#include "perf/source.h"
#include "session/consent/consent.h"
#include "proc/process.h"
#include "session/pipeline/account.h"
#include "session/loader/loader.h"
#include "session/pipeline/park.h"

struct reader_options {
	bool idle;	    /* keep pid 0 */
	bool user_frames;   /* stacks are wanted; else kernel frames only */
	bool by_callchain;  /* user frames from the kernel's chain (engine fp) */
	bool kernel_frames; /* false: what has no user part is out of scope */
	bool procmap_query; /* FEATURE_PROCMAP_QUERY */
	int clock;
	/* CPU-wide events standing in for tasks: only these processes (and with `children` their
	 * descendants). */
	const uint32_t *only_pids;
	size_t n_only_pids;
	bool children;
	bool wanted_by_cmdline;	 /* context.wanted needs command lines */
	bool consent_allows;	 /* whom context.allowed does not allow: their consent does */
	uint64_t enqueued_bytes; /* bound on bytes of stacks under way; 0: none but the rings */
	uint64_t maps_wait_ns;	 /* how long a process that was asked may take to answer */
	size_t copy_bytes;	 /* main's own park, for when a ring runs full */
};

/* What the reader works on; all borrowed. */
struct reader_context {
	struct perf_source *source;
	struct process_table *processes;
	struct loader *loader;
	struct slot_queue *entries;
	struct waker *unwinder;
	struct account *account;
	/* a LOST record was seen: told to the trace */
	void (*lost)(void *arg, uint32_t cpu, uint64_t records, uint64_t time);
	/* a sample that goes no further is told to the trace; NULL: only counted */
	int (*left_out)(void *arg, const struct sample_info *info, enum skip_reason why);
	struct memory_guard *memory_guard; /* what memory that was given is read through */
	/* for processes that may not be read; NULL: they are not asked */
	struct consent *consent;
	/* a line for the user */
	void (*note)(void *arg, const char *line);
	/* which processes (session.h); NULL: all */
	bool (*wanted)(void *arg, uint32_t pid, const char *cmdline, size_t len);
	void *wanted_arg;
	/* which may be shown (session.h); NULL: all */
	bool (*allowed)(void *arg, uint32_t pid);
	void *allowed_arg;
	/* each record as it came, in time order; NULL behind those of a round.  NULL: nobody */
	void (*raw)(void *arg, bool sideband, const struct perf_event_header *record);
	/* kernel text appeared or went (KSYMBOL) */
	void (*ksymbol)(void *arg, uint64_t start, uint32_t len, const char *name, bool gone);
	void *arg;
};

struct reader;
struct procfs_pids;
int reader_new(const struct reader_options *options, const struct reader_context *context,
	       struct reader **ret_reader);
/* Only after the unwinder: entries that it did not take are dropped. */
struct reader *reader_free(struct reader *reader);
/* Gives back the references of an entry that nobody will answer. */
void reader_entry_drop(const struct entry *e);

/* One round: gives back what the unwinder is done with, reads all rings, wakes the unwinder.
 * *ret_more: the round stopped because the queue is full. */
int reader_round(struct reader *reader, bool *ret_more);
/* Processes whose mappings are to be known before they are needed: a child that is born, runs for a
 * millisecond and is gone has its parent's, if those are known. */
int reader_scan(struct reader *reader, const uint32_t *pids, size_t n);
/* Is the last list done? */
bool reader_scanned(const struct reader *reader);
/* The same of @pids (consumed), listed as the work goes on. */
void reader_scan_all(struct reader *reader, struct procfs_pids *pids);
/* The events are off: what is left is released whatever its time. */
void reader_let_all_go(struct reader *reader);
/* Lost samples that records of ring @index have told of. */
uint64_t reader_told_lost(const struct reader *reader, size_t index);
/* What is throttled still is counted up to now. */
void reader_end_throttles(struct reader *reader);
/* Gives back what the unwinder has popped (also done by a round). */
void reader_reclaim(struct reader *reader);
/* Are all entries popped and all records given back? */
bool reader_idle(const struct reader *reader);

/* Lives of processes that were asked for their consent, and what came of it. */
struct reader_consent_counts {
	uint64_t asked, given;
	uint64_t late;	     /* of those given: after it was waited for */
	uint64_t unanswered; /* waited for in vain, so far */
};
void reader_consent_counts(const struct reader *reader, struct reader_consent_counts *ret_counts);
/* Each 100 ms or so: who was asked in vain is given up, who was not ready is asked again. */
int reader_consent_tick(struct reader *reader);
/* A sample was answered: its bytes are under way no more. */
void reader_answered(struct reader *reader, const struct sample_info *info);

/* Answer of the loader to LOAD_PROCESS, LOAD_NAMES, LOAD_THREADS and LOAD_QUERY. */
int reader_process_answer(struct reader *reader, struct load_answer *answer);
/* OUTCOME_WANT_MAPS: asks, or answers at once that nothing is new.  @unknown: the address that no
 * mapping covers (one query of 0.5 us instead of all the text); 0: something else is wrong. */
int reader_want_maps(struct reader *reader, struct process *process, uint64_t unknown);
/* OUTCOME_WANT_MODULE: orders the load, with where @process has it mapped. */
int reader_want_module(struct reader *reader, struct process *process, struct uw_module *module);
/* Rounds begun so far.  All that was sampled before the n-th began has been sent on when a round
 * ends with the n-th begun and nothing more (reader_round). */
uint64_t reader_rounds(const struct reader *reader);
/* Asks the unwinder for OUTCOME_FLUSHED with @number, by @deadline (CLOCK_MONOTONIC). */
int reader_flush(struct reader *reader, uint64_t number, uint64_t deadline);
/* A control entry for the unwinder.  Of ENTRY_EVICT it consumes the reference on @module. */
int reader_control(struct reader *reader, enum entry_kind kind, struct uw_module *module);

/* Stack copies seen since the last call, by CPU: for choosing the copy size. */
struct reader_stack_use {
	uint32_t cpu;
	uint64_t samples, full; /* full: dyn_size reached the room */
	uint64_t over_half;	/* dyn_size over half the room */
};
size_t reader_stack_use(struct reader *reader, struct reader_stack_use *ret, size_t max);
