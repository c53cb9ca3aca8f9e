/* scope.h - which processes and samples are recorded, and consent of processes that may not be
 * read. Thread: main.
 *
 * A process is recorded if the filter wants it (context.wanted) and the requester may see it
 * (context.allowed, or its own consent).  The decision holds for one exec generation of a process:
 * a pid that is used again, and a program that an exec replaced, are judged again. */
#pragma once

#include "perf/record.h"
#include "session/pipeline/reader.h"

struct cpu_count;

struct scope {
	struct reader_options options;
	struct reader_context c;
	uint64_t enqueued_bytes;     /* of stacks in flight */
	size_t stacks_in_flight;     /* waits.c */
	struct scope_request *asked; /* processes that are asked for their consent, or will be */
	size_t n_asked;
	struct reader_consent_counts counts;
	uint32_t noted; /* reasons that were reported to the user: bits by consent_refusal */
	/* The reader's: the mappings of a process are known (@known), or will not be; the mappings
	 * are to be read through the descriptors that the process gave. */
	int (*send_space)(void *reader, struct process *process, bool known);
	int (*read_given)(void *reader, struct process *process);
	void *reader;
};

void scope_deinit(struct scope *scope);
/* May perfwind open the maps and the memory of the process with its own privileges? */
bool scope_may_open(struct scope *scope, struct process *process);
enum process_scope scope_of(struct scope *scope, struct process *process);
/* The loader has read the process as far as it can be read. */
void scope_process_read(struct scope *scope, struct process *process);
/* Why samples of the process are skipped; SKIP_NONE: they are not, or it is undecided. */
enum skip_reason scope_skips_process(struct scope *scope, struct process *process);
/* Why this sample is skipped; SKIP_NONE: it is not. */
enum skip_reason scope_skips_sample(struct scope *scope, struct process *process,
				    const struct record_sample *s);
/* Writes @weight of @process, which no sample has, as a sample of @cpu (thin.h).  Where the process is not shown, or that is not
 * known, it is counted, and written if it is at all, like a sample of it that is skipped. */
void scope_write_owed(struct scope *scope, struct cpu_count *cpu, struct process *process,
		      uint64_t weight);
/* After an answer of the loader: a process that may not be read is asked for its consent.  true:
 * its mappings follow from that, or scope_tick() gives up. */
bool scope_ask_consent(struct scope *scope, struct process *process, const struct load_answer *a);
/* Has @module of the process loaded.  The code of a Java VM or an interpreter waits where the process is asked for its consent, or can
 * be now: until the answer, or for 300 ms at most, as samples wait for the module meanwhile. */
void scope_want_module(struct scope *scope, struct process *process, struct uw_module *module);
/* Each 100 ms or so: gives up requests without an answer, and repeats failed attempts. */
int scope_tick(struct scope *scope);
