/* reader.h - from records to entries: the first stage.  Thread: main.
 *
 * A round takes the records of all rings, or of a file, in time order.  Sideband records change the process table
 * at once; a sample becomes an entry that points into the ring.  When the queue to the unwinder is
 * full the round stops and the records stay in the ring.  The kernel counts the samples
 * that then find no room there (exactly from Linux 6.0 on). */
#pragma once

#include "base/queue.h"
#include "session/consent/consent.h"
#include "proc/process.h"
#include "session/pipeline/account.h"
#include "session/loader/loader.h"
#include "session/pipeline/park.h"
#include "session/pipeline/record-source.h"

struct reader_options {
	bool idle; /* keep pid 0 */
	/* FRAMES_*.  Without FRAMES_KERNEL, samples without a user part are out of scope. */
	unsigned frames;
	bool by_callchain;     /* user frames from the kernel's callchain (engine fp) */
	bool chains_unchecked; /* ... which is taken as it is */
	enum uw_arch arch;     /* of the samples; 0: this machine's */
	bool procmap_query;    /* FEATURE_PROCMAP_QUERY */
	int clock;
	/* CPU-wide events standing in for tasks: only these processes (and with `children` their
	 * descendants). */
	const uint32_t *only_pids;
	size_t n_only_pids;
	bool children;
	bool wanted_by_cmdline;	 /* context.wanted needs command lines */
	bool consent_allows;	 /* the consent of a process replaces context.allowed */
	uint64_t enqueued_bytes; /* bound on bytes of stacks in flight; 0: none but the rings */
	uint64_t maps_wait_ns;	 /* how long a process that was asked may take to answer */
	size_t copy_bytes;	 /* of main's park, for samples of a ring that fills up */
};

/* All borrowed. */
struct reader_context {
	struct perf_source *source;   /* NULL: the records are from a file */
	struct record_source records; /* then */
	struct process_table *processes;
	struct loader *loader;
	struct slot_queue *entries;
	struct waker *unwinder;
	struct account *account;
	struct deep *deep;	      /* copies of deep stacks; NULL: none */
	struct python_stacks *python; /* copies of Python frames; NULL: none */
	/* a LOST record, for the trace */
	int (*lost)(void *arg, uint32_t cpu, uint64_t records, uint64_t time);
	/* a skipped sample, for the trace; NULL: skipped samples are only counted */
	int (*skipped)(void *arg, const struct sample_info *info, enum skip_reason why);
	struct memory_guard *memory_guard; /* reads the memory of processes that consented */
	/* asks processes that may not be read; NULL: they are not asked */
	struct consent *consent;
	/* a line for the user */
	void (*note)(void *arg, const char *line);
	/* the filter (session-options.h); NULL: all processes */
	bool (*wanted)(void *arg, uint32_t pid, const char *cmdline, size_t len);
	void *wanted_arg;
	/* the processes that the requester may see (session-options.h); NULL: all */
	bool (*allowed)(void *arg, uint32_t pid);
	void *allowed_arg;
	struct waits *waits; /* waiting time (waits.h); NULL: none */
	bool running;	     /* ... and running time: the weight of samples of running threads */
	/* weight that no sample of the process has (thin.h); < 0: it was not written */
	int (*owed)(void *arg, const struct sample_info *info);
	/* a thread has ended; NULL: not wanted */
	void (*exited)(void *arg, uint32_t pid, uint32_t tid, uint64_t time);
	/* each record unchanged, in time order, and NULL at the end of a round; NULL: not wanted */
	void (*raw)(void *arg, bool sideband, const struct perf_event_header *record);
	/* kernel text appeared or disappeared (KSYMBOL) */
	void (*ksymbol)(void *arg, uint64_t start, uint32_t len, const char *name, bool gone);
	void *arg;
};

struct reader;
struct procfs_pids;
int reader_new(const struct reader_options *options, const struct reader_context *context,
	       struct reader **ret_reader);
/* After the unwinder was freed: entries that it did not take are dropped. */
struct reader *reader_free(struct reader *reader);
/* Releases the references of an entry that will not be answered. */
void reader_entry_drop(const struct entry *e);

/* One round: releases the records of popped entries, reads all rings.  Afterwards: unwind_stage_serve().
 * *ret_more: the round stopped because the queue is full. */
int reader_round(struct reader *reader, bool *ret_more);
/* Reads the mappings of @pids ahead of need: a child that lives for a millisecond has the mappings of its
 * parent, if these are known. */
int reader_scan(struct reader *reader, const uint32_t *pids, size_t n);
/* Has the last list been read? */
bool reader_scanned(const struct reader *reader);
/* The same for @pids (consumed), which is listed step by step. */
void reader_scan_all(struct reader *reader, struct procfs_pids *pids);
/* The events are off: remaining records are released whatever their time. */
void reader_release_all(struct reader *reader);
/* Lost samples, by the LOST records of ring @index. */
uint64_t reader_lost(const struct reader *reader, size_t index);
/* Counts throttling that has not ended up to now. */
void reader_end_throttles(struct reader *reader);
/* Releases the records of popped entries (a round does so too). */
void reader_reclaim(struct reader *reader);
/* Are all entries popped and all records released? */
bool reader_idle(const struct reader *reader);

/* Processes that were asked for their consent, by exec generation. */
struct reader_consent_counts {
	uint64_t asked, given;
	uint64_t late;	     /* given after the timeout */
	uint64_t unanswered; /* no answer so far, and the timeout has passed */
};
void reader_consent_counts(const struct reader *reader, struct reader_consent_counts *ret_counts);
/* Each 100 ms or so: scope_tick(). */
int reader_consent_tick(struct reader *reader);
/* Once a second: memory of copies that is not needed now goes back. */
void reader_trim(struct reader *reader);
/* A sample was answered: its bytes are no longer in flight.  Where it was skipped for lack of time or memory, its weight goes to
 * the next sample of its process (thin.h). */
void reader_answered(struct reader *reader, const struct sample_info *info,
		     enum skip_reason skipped);

/* Takes the loader's answer to LOAD_PROCESS, LOAD_NAMES, LOAD_THREADS, LOAD_QUERY or LOAD_WAIT. */
int reader_process_answer(struct reader *reader, struct load_answer *answer);
/* OUTCOME_WANT_MAPS: requests the mappings, or answers at once that they are unchanged.  @unknown:
 * an address that no mapping covers (one query of 0.5 us instead of the whole text); 0: another
 * failure. */
int reader_want_maps(struct reader *reader, struct process *process, uint64_t unknown);
/* OUTCOME_WANT_MODULE: requests the module, with the place where @process has mapped it. */
int reader_want_module(struct reader *reader, struct process *process, struct uw_module *module);
/* Rounds begun so far.  When round n or a later one has ended with *ret_more false, all samples
 * from before the start of round n have been sent to the unwinder. */
uint64_t reader_rounds(const struct reader *reader);
/* Requests OUTCOME_FLUSHED with @number from the unwinder, by @deadline (CLOCK_MONOTONIC). */
int reader_flush(struct reader *reader, uint64_t number, uint64_t deadline);
/* A control entry for the unwinder.  ENTRY_EVICT consumes the reference on @module. */
int reader_control(struct reader *reader, enum entry_kind kind, struct uw_module *module);

/* Has the stacks of some threads read that wait without one, since @before (the events' clock) or longer. */
void reader_ask_stacks(struct reader *reader, uint64_t before);
/* The running sum of weights of @cpu, which waits add to. */
uint64_t *reader_cpu_count(struct reader *reader, uint32_t cpu);
/* Each THIN_WINDOW_MS: how many samples may be taken until the next call (UINT64_MAX: all).  Fewer are taken where a
 * ring is more than 5/8 full and several processes share it: then a process with more than its part is thinned (thin.h). */
void reader_thin(struct reader *reader, uint64_t allowed);
/* What is owed to samples to come, and the weight of all so far; settled when the session ends and all samples are answered: then
 * reader_context.owed gets what waits for a sample. */
struct thin *reader_weights(struct reader *reader);
