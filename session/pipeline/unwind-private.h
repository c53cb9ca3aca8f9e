/* unwind-private.h - the parts of the unwinder thread; shared by unwind*.c only. */
#pragma once

#include "session/pipeline/unwind.h"

enum { MAX_PARKED = 8192 };

struct parked {
	uint64_t number;    /* in order of parking */
	struct entry entry; /* pointers go into the block */
	void *block;
	size_t len;
	uint64_t deadline;
	const struct uw_module *module; /* waited for; NULL: the process's mappings */
	bool looked_again;		/* its mappings were read anew once */
};

struct flush {
	uint64_t number, deadline;
	uint64_t parked; /* waits for what was parked up to here */
};

struct unwind_stage {
	struct unwind_options options;
	struct slot_queue *in;
	struct byte_queue *out;
	struct waker *in_waker, *out_waker;
	struct uw_engine *engine;
	pthread_t thread;
	bool started, draining;
	_Atomic bool stop;
	_Atomic uint64_t n_parked_ever;

	struct park park;
	struct parked *parked;
	size_t n_parked;
	uint64_t last_parked; /* number */
	struct flush flushes[UNWIND_FLUSHES];
	size_t n_flushes;

	uint64_t frames[UW_BATCH][UW_MAX_FRAMES];
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
};

/* unwind.c */
void unwind_answer(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		   enum skip_reason skipped);
/* An outcome that is not a sample.  False only at the session's end: nobody takes it any more. */
bool unwind_control(struct unwind_stage *s, enum outcome_kind kind, const struct sample_info *info,
		    struct uw_module *module, const struct uw_result *why);
/* Unwinds @n entries (<= UW_BATCH) into s->results; no frames and WHOLE for those with no user
 * part. */
int unwind_entries(struct unwind_stage *s, struct entry *const *entries, size_t n);
/* What a sample has to wait for, if anything; orders it. */
bool unwind_must_wait(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		      bool looked_again, const struct uw_module **ret_module);

/* unwind-park.c */
/* A sample that must wait leaves the ring; false: no room. */
bool unwind_park(struct unwind_stage *s, const struct entry *e, const struct uw_module *module,
		 bool looked_again, uint64_t now);
/* The mappings of a process came (again), or the verdict on it: its samples go on. */
void unwind_wake_process(struct unwind_stage *s, const struct entry *control_entry, uint64_t now);
void unwind_wake_module(struct unwind_stage *s, const struct uw_module *module, uint64_t now);
void unwind_expire(struct unwind_stage *s, uint64_t now);
/* Answers flushes that nothing is in the way of any more; true when there was one. */
bool unwind_answer_flushes(struct unwind_stage *s, uint64_t now);
