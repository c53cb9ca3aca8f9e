/* wait-reader.h - the reader's part of waits (waits.h): records and samples of switches, and stacks that are read while
 * threads wait.  Thread: main.  All do nothing without scope->c.waits. */
#pragma once

#include "session/pipeline/park.h"
#include "session/pipeline/scope.h"

/* SWITCH, FORK or COMM out of ring @ring, after the process table has it. */
int wait_reader_record(struct scope *scope, uint32_t ring, const struct record_event *event);
/* A sample of the sideband ring: sched:sched_waking. */
int wait_reader_woken(struct scope *scope, const struct record_layout *layout,
		      const struct perf_event_header *record);
/* A sample of the task that wakes another (perf_source_is_waker()): is it of use?  Then the number for sample_info.wait. */
bool wait_reader_wants_waker(struct scope *scope, const struct record_sample *sample);
uint32_t wait_reader_waker(struct scope *scope, const struct record_sample *sample);
/* Before a sample becomes an entry.  False: a sample of a switch that is of no use. */
bool wait_reader_wants(struct scope *scope, const struct record_sample *sample,
		       struct process *process);
/* The weight of a sample; *ret_wait: its number as the stack of a wait of unknown weight, or 0. */
uint64_t wait_reader_weigh(struct scope *scope, const struct record_sample *sample,
			   struct process *process, uint32_t *ret_wait);
/* Requests the stacks of some threads that wait without one since @before (the events' clock) or longer. */
void wait_reader_ask(struct scope *scope, uint64_t before);
/* The answer to LOAD_WAIT as an entry, counted and with its bytes in a block of @park.  False: it is of no use. */
bool wait_reader_answer(struct scope *scope, struct park *park, const struct load_answer *answer,
			struct entry *ret_entry);
