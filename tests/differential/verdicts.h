/* verdicts.h - stacks against true stacks: counted, and the wrong ones by class.
 * Thread: any, one.
 *
 * Right is a stack with exactly the true frames, whole.  One that ends early with a reason is
 * counted apart from one with a wrong frame, whether or not that frame is marked as guessed.
 * What code of no file was called by has to be marked as guessed, or is wrong.
 * Inside code that switches stacks or throws frames away (swapcontext, longjmp, an exception's
 * landing) the stack that it goes to is as true as the one that it comes from: what is not right
 * waits until the next call, return or switch, and is judged by both. */
#pragma once

#include "tests/differential/live.h"

enum { VERDICTS_LATER = 64, VERDICTS_CLASSES = 256 };

struct verdict {
	uint64_t frames[UW_MAX_FRAMES], truth[UW_MAX_FRAMES + 1];
	uint32_t n, n_truth;
	uint8_t outcome, reason, right;
};

struct verdicts {
	/* ",symbol,symbol,": functions with callers that may be missing, or wrong if they report that they
	 * were guessed; "[anon]": all code of no file */
	const char *allow;
	bool sure; /* a right stack with a guess in it is not right */
	uint64_t n_judged, n_right, n_switch, n_early, n_wrong, n_allowed;
	uint64_t n_guessed; /* right, with a frame that is marked as guessed */
	struct verdict later[VERDICTS_LATER];
	size_t n_later;
	struct verdict_class {
		char text[240]; /* where and how */
		char chains[2][800];
		uint64_t count;
	} classes[VERDICTS_CLASSES];
	size_t n_classes;
};

/* Where the next stack and its truth go. */
static inline struct verdict *verdicts_next(struct verdicts *verdicts)
{
	return &verdicts->later[verdicts->n_later];
}
/* Judges it. */
void verdicts_add(struct verdicts *verdicts, struct live *live);
/* A call or a return: what waits was wrong. */
void verdicts_settle(struct verdicts *verdicts, struct live *live);
/* A switch, to the stack @truth. */
void verdicts_switch(struct verdicts *verdicts, struct live *live, const uint64_t *truth,
		     uint32_t n);
void verdicts_print(const struct verdicts *verdicts, size_t max_classes);
