/* bounds.c - see bounds.h. */
#include "tests/differential/bounds.h"

static uint64_t whole(const struct answers *answers)
{
	return answers->by_outcome[UW_WHOLE];
}

/* Where @other reaches a root, and @native does not. */
static uint64_t missed(const struct answers *native, const struct answers *other)
{
	struct agreement a;

	agree_compare(native, other, &a);
	return a.only_second_whole;
}

/* Stacks that are called CUT, of copies that had room left.  The kernel leaves one empty where the page of sp is not there yet. */
static uint64_t cut_short(const struct samples *samples, const struct answers *native)
{
	uint64_t n = 0;

	for (size_t i = 0; i < native->n; i++)
		n += native->list[i].outcome == UW_CUT && samples->list[i].snapshot.stack_len &&
		     !samples->list[i].snapshot.stack_full;
	return n;
}

static unsigned bound_print(const char *what, uint64_t is, const char *relation, uint64_t bound)
{
	bool kept = relation[0] == '<' ? is <= bound : is >= bound;

	printf("    %-46s %8llu %s %8llu  %s\n", what, (unsigned long long)is, relation,
	       (unsigned long long)bound, kept ? "kept" : "NOT KEPT");
	return !kept;
}

unsigned bounds_print(const struct samples *samples, struct answers *const answers[3],
		      uint64_t least)
{
	const struct answers *native = answers[0];
	const uint64_t *by = native->by_outcome;
	unsigned broken = 0;

	printf("  %s's outcomes: WHOLE %llu, CUT %llu, FAILED %llu (%.4f %%), of %zu samples\n",
	       native->name, (unsigned long long)by[UW_WHOLE], (unsigned long long)by[UW_CUT],
	       (unsigned long long)by[UW_FAILED],
	       100.0 * (double)by[UW_FAILED] / (double)(native->n ? native->n : 1), native->n);
	broken += bound_print("samples", native->n, ">=", max_u64(least, 1));
	broken += bound_print("FAILED, at most 0.05 %", by[UW_FAILED],
			      "<=", native->n / BOUNDS_FAILED_PER);
	broken += bound_print("WHOLE, as many as by the better oracle", by[UW_WHOLE],
			      ">=", max_u64(whole(answers[1]), whole(answers[2])));
	broken += bound_print("roots that only libunwind reaches", missed(native, answers[1]),
			      "<=", 0);
	broken += bound_print("roots that only libdw reaches", missed(native, answers[2]), "<=", 0);
	broken += bound_print("CUT, of a copy that had room", cut_short(samples, native), "<=", 0);
	broken += bound_print("without any outcome", by[UW_PENDING], "<=", 0);
	return broken;
}
