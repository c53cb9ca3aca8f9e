/* reader-private.h - the parts of the reader; shared by reader*.c only. */
#pragma once

#include "session/pipeline/reader.h"

struct cpu_state {
	uint64_t count;	       /* running sum of weights */
	uint64_t told_lost;    /* samples, by LOST records */
	uint64_t throttled_at; /* 0: not throttled */
	struct reader_stack_use use;
};

struct reader {
	struct reader_options options;
	struct reader_context c;
	struct merge *merge;
	struct park copies;
	struct cpu_state *cpus; /* by ring */
	size_t n_rings;
	uint64_t rounds;	   /* begun */
	uint64_t reclaimed;	   /* position in the entry queue */
	struct merge_item waiting; /* taken from the merge, not yet placed: the queue was full */
	bool has_waiting;
	uint64_t enqueued_bytes; /* of stacks sent and not answered */
	struct table scope;	 /* pid -> 1, when only_pids */
	uint32_t *scan;		 /* processes that were there before us, to be asked for in order */
	struct procfs_pids *scan_from; /* more of these; NULL: no more */
	size_t n_scan, scanned, scans_in_flight, queries_in_flight;
	struct reader_asked *asked; /* processes that were asked for their consent, or will be */
	size_t n_asked;
	struct reader_consent_counts consent_counts;
	uint32_t consent_told; /* reasons that the user was told: bits by consent_refusal */
	struct entry *control; /* control entries that found the queue full */
	size_t n_control, control_room;
};

/* reader.c: what the unwinder has popped is given back. */
void reader_take_back(struct reader *rd);

/* reader-control.c: entries that are not samples, and the loader's answers about processes */
/* The next slot for a sample, NULL: none is free. */
struct entry *reader_entry_push(struct reader *rd);
void reader_control_retry(struct reader *rd);
void reader_wake_unwinder(struct reader *rd);
/* false: the loader has too much to do; ask again later. */
bool reader_ask(struct reader *rd, enum load_kind kind, struct process *process, uint64_t address);
void reader_ask_maps(struct reader *rd, struct process *process);
void reader_scan_more(struct reader *rd);

/* The mappings are known now, or will not come (until they do): what waits goes on. */
int reader_space_push(struct reader *rd, struct process *process);
int reader_no_space(struct reader *rd, struct process *process);

/* reader-permit.c */
/* May its maps and mem be opened by our own rights? */
bool reader_may_open(struct reader *rd, struct process *process);
/* Of one that the filter wants: may it be shown?  UNDECIDED: it is asked. */
enum process_scope reader_permit(struct reader *rd, struct process *process);
/* With a sample of @time: it may have become another user's. */
void reader_permit_again(struct reader *rd, struct process *process, uint64_t time);

/* reader-consent.c */
/* Asks for the consent without which it may not be shown, once a life: PERMIT_ASKED then. */
void reader_consent_ask(struct reader *rd, struct process *process);
/* After an answer of the loader: where the process may not be read it is asked for its consent.
 * true: the mappings will come from that, or reader_consent_tick() gives up. */
bool reader_consent(struct reader *rd, struct process *process, const struct load_answer *a);
void reader_consent_deinit(struct reader *rd);

/* reader-scope.c */
enum process_scope reader_scope_of(struct reader *rd, struct process *process);
/* What could be learned of the process is there (or will never be). */
void reader_scope_answered(struct reader *rd, struct process *process);
/* Of a process: why none of its samples goes further; SKIP_NONE: they do, or it is not decided. */
enum skip_reason reader_left_out(struct reader *rd, struct process *process);
/* Why a sample goes no further; SKIP_NONE: it goes on. */
enum skip_reason reader_leaves_out(struct reader *rd, struct process *process,
				   const struct record_sample *s);

/* reader-event.c: a record that is not a sample */
int reader_apply(struct reader *rd, uint32_t ring, bool sideband, const struct record_event *event);
