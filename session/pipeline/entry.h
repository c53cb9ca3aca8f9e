/* entry.h - the messages between main and the unwinder thread.
 *
 *   main ── struct entry (slot queue) ──► unwinder ── struct outcome (byte queue) ──► main
 *
 * The pointers of an entry point into the perf ring, or into a park block that main owns.  They are
 * valid until the unwinder has popped the slot.  Control travels in the same queue as samples, so
 * order is by position.  Main takes the references on the process and the space for an entry, and
 * releases them with the outcome that answers it.  Each ENTRY_SAMPLE is answered by exactly one
 * OUTCOME_SAMPLE. */
#pragma once

#include "unwinder/unwinder.h"

struct process;
struct record_sample;

enum { SAMPLE_MAX_COUNTS = 8 };

/* A sample without its stack. */
struct sample_info {
	struct process *process;
	struct uw_space *space; /* NULL: the mappings of the process are not known yet */
	uint64_t time;		/* the events' clock, ns */
	uint64_t weight;	/* PERF_SAMPLE_PERIOD */
	uint64_t count;		/* running sum of weights on this CPU */
	uint64_t followers[SAMPLE_MAX_COUNTS - 1];
	uint32_t pid, tid, cpu;
	uint32_t stack_len; /* of the stack in the entry */
	uint32_t full_copy; /* dyn_size, where it is all that was asked for; else 0 */
	uint8_t n_followers, cpu_mode;
	uint8_t reason; /* enum wait_reason: the sample is a wait, or time without a stack */
	bool guessed;	/* the stack was read during the wait: all its frames are guesses */
	uint32_t wait;	/* it is the stack of this wait (waits.h); 0: of none */
	uint64_t began,
		ended; /* of the wait itself, without shorter ones that it stands for; 0: none */
};

enum entry_kind {
	ENTRY_SAMPLE,
	ENTRY_SPACE,  /* the mappings of info.process were read (again): info.space; NULL: they
			 cannot be read */
	ENTRY_MODULE, /* a module was loaded, or cannot be: samples that wait for it continue */
	ENTRY_EVICT,  /* drop the unwind half of `module` */
	ENTRY_FLUSH,  /* send OUTCOME_FLUSHED with info.count once all earlier samples are answered;
			 parked ones delay it until info.time (CLOCK_MONOTONIC) at most */
	ENTRY_DRAIN,  /* send OUTCOME_DRAINED once all earlier samples are answered, parked ones
			 within their deadlines */
};

struct entry {
	uint8_t kind;
	bool user_state; /* false: a kernel thread or an exiting task */
	bool stack_full;
	bool undecided;	  /* it is not yet decided whether the process is recorded: the sample waits
			   for an ENTRY_SPACE without this flag */
	bool settled;	  /* as in uw_snapshot */
	bool check_chain; /* the same */
	uint8_t skip;	  /* ENTRY_SPACE: the process is not recorded, and why (enum skip_reason) */
	uint8_t arch;	  /* enum uw_arch */
	/* for main, to release the record */
	uint32_t ring;
	uint64_t position;
	void *block;	    /* the park block that holds the bytes; NULL: the ring holds them */
	uint32_t shortened; /* in the park: bytes of the stack that were kept; 0: info.stack_len */
	bool deep;	    /* the stack is a longer copy (perf/at-sample.h), to be put */
	uint64_t deep_position;
	bool has_python; /* `python` is in a record to be put (copied-entry.h) */
	uint64_t python_position;

	struct sample_info info;
	const uint64_t *regs;
	const uint8_t *stack;
	const uint64_t *chain; /* the callchain of the record: kernel and user part with
				  PERF_CONTEXT_* marks */
	uint32_t n_chain;
	uint32_t n_python;
	const uint64_t *python; /* as in uw_snapshot */
	struct uw_module *module;
};

/* Why a sample was not emitted.  Names (skip_reason_name) are part of --json. */
enum skip_reason {
	SKIP_NONE,
	SKIP_NOT_IN_SCOPE,   /* a CPU-wide event, and a process that is not recorded */
	SKIP_DOUBLE,	     /* two events counted the same sample: while the copy size changed, or
				an event was opened for a thread that had inherited one */
	SKIP_MAPS_TIMEOUT,   /* the mappings of the process were not read in time */
	SKIP_MODULE_TIMEOUT, /* the unwind information of a module was not read in time */
	SKIP_PARK_FULL,	     /* no room in the park */
	SKIP_ENQUEUED,	     /* too many bytes of stacks in flight (an option) */
	SKIP_OUTPUT,	     /* it could not be written */
	SKIP_NO_MEMORY,	     /* the unwinder got no memory for it */
	SKIP_UNANSWERED,     /* the session ended before it was answered */
	SKIP_NOT_ALLOWED,    /* the requester may not see the process */
	SKIP_THINNED,	     /* left out on purpose, its weight added to another sample (thin.h) */
	SKIP_COUNT,
};
const char *skip_reason_name(enum skip_reason reason);

/* linux/perf_event.h, enum perf_callchain_context: marks between the parts of a callchain */
#define CHAIN_KERNEL ((uint64_t)-128)
#define CHAIN_USER ((uint64_t)-512)
#define CHAIN_MARKS ((uint64_t)-4095) /* from here up */

/* The part of the callchain behind @mark, up to the next mark; NULL: none. */
const uint64_t *entry_chain_part(const struct entry *e, uint64_t mark, uint32_t *ret_n);
static inline uint32_t entry_stack_len(const struct entry *e)
{
	return e->shortened ? e->shortened : e->info.stack_len;
}
/* Only the first @bytes of the stack count from now on: it is cut there.  info.stack_len, which is accounted, stays. */
void entry_shorten(struct entry *e, uint32_t bytes);
/* Bytes of registers, callchain and stack (dyn_size bytes only), and a copy of these into @block;
 * the entry then points there. */
size_t entry_bytes(const struct entry *e);
void entry_copy(struct entry *e, void *block);
/* The entry of a sample of a machine @arch; its bytes are borrowed.  The caller adds the process, its space, the
 * place of the record, the CPU's count and user_state. */
void entry_of_sample(const struct record_sample *sample, enum uw_arch arch,
		     struct entry *ret_entry);
/* The input of an engine for one sample; borrows all of it. */
void entry_snapshot(const struct entry *e, struct uw_snapshot *ret_snapshot);
/* Has a sample with a stack copy a user part?  Kernel threads and exiting tasks have no registers.
 * A task inside execve(), between the end of the old image and the start of the new one, has no
 * user part either: its registers belong to the old program, its stack is gone, and nothing was
 * copied. Its kernel frames are the whole stack.  If nothing was copied outside a system call, as
 * in a fault on a stack page that was never touched, there is a user part, and it is lost. */
bool entry_has_user_copy(const struct entry *e);
/* Unwinds the user parts of @n entries, UW_BATCH at a time; @kind is the engine's.  ret_results[i].frames has room for
 * UW_MAX_FRAMES.  The result of an entry that has no user part, is undecided or has no space stays as it was. */
int entries_unwind(struct uw_engine *engine, enum uw_engine_kind kind, struct entry *const *entries,
		   size_t n, struct uw_result *ret_results);

enum outcome_kind {
	OUTCOME_SAMPLE,
	OUTCOME_WANT_MODULE, /* load the unwind half of `module` for info.process */
	OUTCOME_WANT_MAPS,   /* a stack failed its checks: read the mappings again; answered by
				ENTRY_SPACE */
	OUTCOME_EVICTED,     /* the unwind half of `module` was dropped */
	OUTCOME_FLUSHED,
	OUTCOME_DRAINED,
	OUTCOME_TAKEN, /* main: a request that was taken before its turn */
};

struct outcome {
	uint8_t kind;
	uint8_t result;	 /* enum uw_outcome */
	uint8_t reason;	 /* enum uw_reason */
	uint8_t skipped; /* enum skip_reason */
	bool counted;	 /* main: reader_answered() was called */
	bool owed;	 /* main: weight without a sample: it gets the last stack of its process */
	bool completed, unchecked, by_fp, stg, other_stack, lacks_functions; /* as in uw_result */
	bool page_absent; /* CUT: the copy ends at a page that was not there, before its room was full */
	uint32_t stack_used, read_after_us; /* the same */
	uint32_t n_kernel,
		n_user; /* frames[]: kernel addresses, then user frames; innermost first */
	uint64_t stopped_at;
	struct sample_info info;
	struct uw_module *module;
	struct outcome *
		waker; /* of a wait: the stack of the task that ended it (waits.h); NULL: not known */
	uint64_t frames[];
};

enum { OUTCOME_KERNEL_FRAMES = 512 }; /* at most */
/* Writes the answer to a sample into *o, which has room for OUTCOME_KERNEL_FRAMES and the frames of
 * @r (NULL: no user part). */
void outcome_fill(struct outcome *o, const struct entry *e, const struct uw_result *r,
		  enum skip_reason skipped);
