/* entry.h - what travels between the stages.
 *
 *   main ── struct entry (slot queue) ──► unwinder ── struct outcome (byte queue) ──► main
 *
 * An entry's pointers go into the perf ring (or into a park block that main owns); they are good
 * until the unwinder has popped the slot.  Control travels in the same queue as samples, so order
 * is by position. References on the process and the space are taken and given back by main: an
 * entry takes them, the outcome that answers it gives them back.  Each ENTRY_SAMPLE is answered by
 * exactly one OUTCOME_SAMPLE. */
#pragma once

#include "unwinder/unwinder.h"

struct process;

enum { SAMPLE_MAX_COUNTS = 8 };

/* What is known of a sample besides its stack. */
struct sample_info {
	struct process *process;
	struct uw_space *space; /* NULL: the process's mappings are not known yet */
	uint64_t time;		/* the events' clock, ns */
	uint64_t weight;	/* PERF_SAMPLE_PERIOD */
	uint64_t count;		/* running sum of weights on this CPU */
	uint64_t followers[SAMPLE_MAX_COUNTS - 1];
	uint32_t pid, tid, cpu;
	uint32_t stack_len; /* dyn_size */
	uint8_t n_followers, cpu_mode;
};

enum entry_kind {
	ENTRY_SAMPLE,
	ENTRY_SPACE,  /* the mappings of info.process are known now (or again): info.space, may be
			 NULL: never */
	ENTRY_MODULE, /* a module was loaded, or cannot be: what waits for it goes on */
	ENTRY_EVICT,  /* drop the unwind half of `module` */
	ENTRY_FLUSH,  /* everything before this is to be answered, but what is parked not later
			 than info.time (CLOCK_MONOTONIC); then OUTCOME_FLUSHED with info.count */
	ENTRY_DRAIN,  /* everything before this is to be answered, parked samples within their
			 deadline */
};

struct entry {
	uint8_t kind;
	bool user_state; /* false: a kernel thread or an exiting task */
	bool stack_full;
	bool undecided;	  /* is its process wanted?  waits for the ENTRY_SPACE that says so; of
			   ENTRY_SPACE: it does not say so */
	uint8_t left_out; /* ENTRY_SPACE: why the process is left out (enum skip_reason); SKIP_NONE:
			     it is not */
	uint8_t arch;	  /* enum uw_arch */
	/* main's: how to give the record back */
	uint32_t ring;
	uint64_t position;
	void *block; /* park block that holds the bytes instead of the ring; NULL: the ring */

	struct sample_info info;
	const uint64_t *regs;
	const uint8_t *stack;
	const uint64_t
		*chain; /* kernel and user part with PERF_CONTEXT_* marks, as in the record */
	uint32_t n_chain;
	struct uw_module *module;
};

/* Why a sample was not emitted.  Names (skip_reason_name) are part of --json. */
enum skip_reason {
	SKIP_NONE,
	SKIP_NOT_IN_SCOPE, /* CPU-wide events, another process */
	SKIP_DOUBLE, /* two events saw the same: while the copy size changed, or a thread was listed
			that inherited */
	SKIP_MAPS_TIMEOUT,   /* the process's mappings did not come in time */
	SKIP_MODULE_TIMEOUT, /* a module's unwind information did not come in time */
	SKIP_PARK_FULL,	     /* waiting room full */
	SKIP_ENQUEUED,	     /* too many bytes of stacks under way (an option) */
	SKIP_OUTPUT,	     /* could not be written */
	SKIP_NO_MEMORY,	     /* the unwinder got no memory for it */
	SKIP_UNANSWERED,     /* the session's end did not wait for it any longer */
	SKIP_NOT_ALLOWED,    /* a process that may not be shown to whoever asked */
	SKIP_COUNT,
};
const char *skip_reason_name(enum skip_reason reason);

/* linux/perf_event.h, enum perf_callchain_context: marks between the parts of a chain */
#define CHAIN_KERNEL ((uint64_t)-128)
#define CHAIN_USER ((uint64_t)-512)
#define CHAIN_MARKS ((uint64_t)-4095) /* from here up */

/* The part of the chain behind @mark, up to the next mark; NULL: none. */
const uint64_t *entry_chain_part(const struct entry *e, uint64_t mark, uint32_t *ret_n);
/* What an engine is given of a sample; borrows all of it. */
void entry_snapshot(const struct entry *e, struct uw_snapshot *ret_snapshot);
/* The engines without CFI need no module to unwind, but addresses mean nothing before their
 * modules' program headers are read: makes the result UW_PENDING for the first that is not loaded.
 */
/* Has a sample that asked for a copy of the stack a user part?  Kernel threads and exiting tasks
 * have no registers.  Nor has a task a user part inside execve(), between the end of the old image
 * and the start of the new: its registers are the old program's, its stack is no more, so nothing
 * of it could be copied.  Such a stack is whole with its kernel frames.  Where nothing could be
 * copied outside a system call, as in a fault on a page of the stack that was never touched, there
 * is a user part, and it is lost. */
bool entry_has_user_copy(const struct entry *e);
void entry_need_modules(const struct uw_snapshot *snapshot, struct uw_result *r);

enum outcome_kind {
	OUTCOME_SAMPLE,
	OUTCOME_WANT_MODULE, /* load the unwind half of `module` for info.process */
	OUTCOME_WANT_MAPS,   /* a stack failed its checks: are the mappings still true? answered by
				ENTRY_SPACE */
	OUTCOME_EVICTED,     /* `module` is dropped */
	OUTCOME_FLUSHED,
	OUTCOME_DRAINED,
};

struct outcome {
	uint8_t kind;
	uint8_t result;	 /* enum uw_outcome */
	uint8_t reason;	 /* enum uw_reason */
	uint8_t skipped; /* enum skip_reason */
	bool completed;	 /* as in uw_result */
	uint32_t n_kernel,
		n_user; /* frames[]: kernel addresses, then user frames; innermost first */
	uint64_t stopped_at;
	struct sample_info info;
	struct uw_module *module;
	uint64_t frames[];
};

enum { OUTCOME_KERNEL_FRAMES = 512 }; /* at most */
/* The answer to a sample: @r NULL or of a stack without a user part.  *o has room for
 * OUTCOME_KERNEL_FRAMES and r's frames; what it holds is overwritten. */
void outcome_fill(struct outcome *o, const struct entry *e, const struct uw_result *r,
		  enum skip_reason skipped);
