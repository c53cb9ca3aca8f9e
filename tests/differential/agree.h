/* agree.h - two unwinders' answers to the same samples, compared frame by frame.  Thread: any, one.
 */
#pragma once

#include "tests/differential/samples.h"

/* All results of one engine. */
struct answers {
	const char *name;
	struct answer {
		uint64_t *frames;
		uint32_t n;
		uint8_t outcome, reason;
		uint64_t stopped_at;
	} * list;
	size_t n;
	uint64_t frames;
	uint64_t by_outcome[UW_PENDING + 1], by_reason[UW_REASON_COUNT];
};
int answers_new(enum uw_engine_kind kind, const struct samples *samples,
		struct answers **ret_answers);
struct answers *answers_free(struct answers *answers);

/* Frames that agree: those with the same address from the innermost one up to the first difference,
 * and from the outermost one down to it; out of the longer of the two stacks.  Stacks both of which
 * are cut are compared as far as the shorter goes.  Where the second FAILED after frames that the
 * first has too, it does not judge the rest: counted apart, in first_further. */
struct agreement {
	uint64_t samples, same_samples; /* same: all frames, and both whole or neither */
	uint64_t frames, same_frames;
	uint64_t first_further;
	uint64_t
		other_flags; /* agreeing frames that one calls a return address and the other not */
	uint64_t only_first_whole, only_second_whole;
};
void agree_compare(const struct answers *first, const struct answers *second,
		   struct agreement *ret_agreement);
/* Prints the commonest classes of difference: by the frame from which the two step apart. */
void agree_print_classes(struct samples *samples, const struct answers *first,
			 const struct answers *second, size_t max);
/* Prints where stacks that failed stop, commonest first. */
void agree_print_failures(struct samples *samples, const struct answers *answers, size_t max);
