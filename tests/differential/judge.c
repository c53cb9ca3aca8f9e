/* judge.c - see judge.h.
 *
 * A stack is right when it is whole (or cut where a full or an empty copy ends, and right up to there) and
 * every true call site stands in it as a return address, in order.  Between two call sites only frames
 * of other modules may stand and the one that called those (libc's qsort is not instrumented, so
 * no record shows the call).  Above the innermost one at most two frames of the program may stand: a
 * function that has not yet reported itself, or no longer does, and the callee through which it
 * reports. Below the outermost one stands _start. */
#include "tests/differential/judge.h"

enum { EXTRA_INNER = 2, EXTRA_OUTER = 1 };

static bool answer_is_right(const struct sample *sample, const struct answer *answer)
{
	const struct uw_module *program = uw_space_map(sample->snapshot.space, 0)->module;
	uint32_t found = 0, inner = 0, outer = 0;
	bool foreign = false; /* the frame before is of another module */

	if (answer->outcome != UW_WHOLE && answer->outcome != UW_CUT)
		return false;
	for (uint32_t i = 1; i < answer->n; i++) {
		uint64_t pc = uw_frame_pc(answer->frames[i]);
		const struct uw_map *map = uw_space_find(sample->snapshot.space, pc);

		bool called_foreign = foreign;

		foreign = map && map->module != program;
		if (found < sample->n_truth && pc == sample->truth[found])
			found++;
		else if (foreign || (called_foreign && found && found < sample->n_truth))
			continue;
		else if (!found)
			inner++;
		else if (found == sample->n_truth)
			outer++;
		else
			return false;
	}
	if (answer->outcome == UW_CUT)
		return (sample->snapshot.stack_full || !sample->snapshot.stack_len) &&
		       inner <= EXTRA_INNER;
	return found == sample->n_truth && inner <= EXTRA_INNER && outer <= EXTRA_OUTER;
}

uint64_t judge_print(struct samples *samples, const struct answers *answers)
{
	uint64_t judged = 0, wrong = 0, failed = 0;
	size_t first = 0;
	char text[256];

	for (size_t i = 0; i < answers->n; i++) {
		if (!samples->list[i].truth)
			continue;
		judged++;
		if (answer_is_right(&samples->list[i], &answers->list[i]))
			continue;
		if (answers->list[i].outcome == UW_WHOLE || answers->list[i].outcome == UW_CUT) {
			first = wrong ? first : i;
			wrong++;
		} else {
			failed++;
		}
	}
	printf("  %-10s against the shadow stack: %llu stacks, %llu right, %llu wrong, %llu "
	       "failed\n",
	       answers->name, (unsigned long long)judged,
	       (unsigned long long)(judged - wrong - failed), (unsigned long long)wrong,
	       (unsigned long long)failed);
	if (wrong) {
		const struct sample *sample = &samples->list[first];

		printf("    sample %zu (--show %zu); the true return addresses:\n", first, first);
		for (uint32_t i = 0; i < sample->n_truth; i++) {
			samples_describe(samples, sample, sample->truth[i] | UW_FRAME_CALLER, text,
					 sizeof(text));
			printf("    %3u     %s\n", i, text);
		}
	}
	return judged ? wrong + failed : 1;
}
