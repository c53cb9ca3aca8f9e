/* agree.c - see agree.h. */
#include <errno.h>
#include <string.h>

#include "base/table.h"
#include "tests/differential/agree.h"

struct answers *answers_free(struct answers *answers)
{
	if (!answers)
		return NULL;
	for (size_t i = 0; i < answers->n; i++)
		free(answers->list[i].frames);
	free(answers->list);
	free(answers);
	return NULL;
}

static void answers_freep(struct answers **answers)
{
	answers_free(*answers);
}

static int answers_fill(struct answers *answers, struct uw_engine *engine,
			const struct samples *samples)
{
	static uint64_t frames[UW_BATCH][UW_MAX_FRAMES];
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];

	for (size_t i = 0; i < samples->n; i += UW_BATCH) {
		size_t n = (size_t)min_u64(UW_BATCH, samples->n - i);
		int r;

		for (size_t j = 0; j < n; j++) {
			snapshots[j] = samples->list[i + j].snapshot;
			results[j] = (struct uw_result){.frames = frames[j],
							.max_frames = UW_MAX_FRAMES};
		}
		r = uw_unwind_batch(engine, snapshots, n, results);
		if (r < 0)
			return r;
		for (size_t j = 0; j < n; j++) {
			struct answer *answer = &answers->list[answers->n];

			answer->frames = calloc(results[j].n_frames + 1, sizeof(uint64_t));
			if (!answer->frames)
				return -ENOMEM;
			answers->n++;
			answer->n = results[j].n_frames;
			answer->outcome = results[j].outcome;
			answer->reason = results[j].reason;
			answer->stopped_at = results[j].stopped_at;
			memcpy(answer->frames, frames[j], answer->n * sizeof(uint64_t));
			answers->frames += answer->n;
			answers->by_outcome[answer->outcome]++;
			if (answer->outcome == UW_FAILED)
				answers->by_reason[answer->reason]++;
		}
	}
	return 0;
}

int answers_new(enum uw_engine_kind kind, const struct samples *samples,
		struct answers **ret_answers)
{
	_cleanup_(answers_freep) struct answers *answers = calloc(1, sizeof(*answers));
	struct uw_engine *engine;
	int r;

	if (!answers)
		return -ENOMEM;
	answers->name = uw_engine_name(kind);
	answers->list = calloc(samples->n + 1, sizeof(*answers->list));
	if (!answers->list)
		return -ENOMEM;
	r = uw_engine_new(kind, &engine);
	if (r < 0)
		return r;
	r = answers_fill(answers, engine, samples);
	uw_engine_free(engine);
	if (r < 0)
		return r;
	*ret_answers = take(answers);
	return 0;
}

/* The first frame where the two differ; the length of the shorter where they do not. */
static uint32_t common_prefix(const struct answer *a, const struct answer *b)
{
	uint32_t n = 0;

	while (n < a->n && n < b->n && uw_frame_pc(a->frames[n]) == uw_frame_pc(b->frames[n]))
		n++;
	return n;
}

static uint32_t common_suffix(const struct answer *a, const struct answer *b, uint32_t prefix)
{
	uint32_t n = 0;

	while (n + prefix < a->n && n + prefix < b->n &&
	       uw_frame_pc(a->frames[a->n - 1 - n]) == uw_frame_pc(b->frames[b->n - 1 - n]))
		n++;
	return n;
}

/* Do both give up where the copy ends?  Then one may have seen a frame more, by asking for fewer
 * bytes. */
static bool both_cut(const struct answer *a, const struct answer *b, uint32_t prefix)
{
	return a->outcome == UW_CUT && b->outcome == UW_CUT && prefix + 1 >= a->n &&
	       prefix + 1 >= b->n && (prefix == a->n || prefix == b->n);
}

static bool differ(const struct answer *a, const struct answer *b, uint32_t prefix)
{
	if (both_cut(a, b, prefix))
		return false;
	return prefix < a->n || prefix < b->n ||
	       (a->outcome == UW_WHOLE) != (b->outcome == UW_WHOLE);
}

/* Did @b fail earlier, without a frame that @a does not have? */
static bool gave_up(const struct answer *a, const struct answer *b, uint32_t prefix)
{
	return b->outcome == UW_FAILED && prefix == b->n && a->n >= b->n && a->outcome != UW_FAILED;
}

void agree_compare(const struct answers *first, const struct answers *second,
		   struct agreement *ret_agreement)
{
	struct agreement agreement = {.samples = first->n};

	for (size_t i = 0; i < first->n; i++) {
		const struct answer *a = &first->list[i], *b = &second->list[i];
		uint32_t prefix = common_prefix(a, b), suffix = common_suffix(a, b, prefix);
		bool further = differ(a, b, prefix) && gave_up(a, b, prefix);
		bool same = further || !differ(a, b, prefix);

		agreement.first_further += further;
		agreement.frames += same ? prefix : (a->n > b->n ? a->n : b->n);
		agreement.same_frames += same ? prefix : prefix + suffix;
		agreement.same_samples += same;
		agreement.only_first_whole += a->outcome == UW_WHOLE && b->outcome != UW_WHOLE;
		agreement.only_second_whole += b->outcome == UW_WHOLE && a->outcome != UW_WHOLE;
		for (uint32_t j = 0; j < prefix; j++)
			agreement.other_flags +=
				(a->frames[j] ^ b->frames[j]) & UW_FRAME_CALLER ? 1 : 0;
	}
	*ret_agreement = agreement;
}

/* ---- classes ---- */

struct class
{
	uint64_t count;
	size_t sample; /* the first */
};

static int class_compare(const void *a, const void *b)
{
	const struct class *x = a, *y = b;

	return x->count < y->count ? 1 : x->count > y->count ? -1 : x->sample > y->sample;
}

static void describe_next(struct samples *samples, const struct answers *answers, size_t at,
			  uint32_t prefix)
{
	const struct answer *answer = &answers->list[at];
	char text[256];

	if (prefix < answer->n) {
		samples_describe(samples, &samples->list[at], answer->frames[prefix], text,
				 sizeof(text));
		printf("        %-9s goes to %s%s\n", answers->name, text,
		       answer->frames[prefix] & UW_FRAME_GUESSED ? " (guessed)" : "");
	} else {
		printf("        %-9s ends: %s %s, stopped at %#llx\n", answers->name,
		       uw_outcome_name(answer->outcome), uw_reason_name(answer->reason),
		       (unsigned long long)answer->stopped_at);
	}
}

/* Differences with the same last common frame (its symbol, or its address) and the same two
 * continuations. */
static uint64_t class_key(struct samples *samples, const struct answers *first,
			  const struct answers *second, size_t at, uint32_t prefix)
{
	const struct answer *a = &first->list[at], *b = &second->list[at];
	char text[256];
	uint64_t key = 0;

	if (prefix)
		samples_symbol(samples, &samples->list[at], a->frames[prefix - 1], text,
			       sizeof(text));
	if (prefix && !*text)
		samples_describe(samples, &samples->list[at], a->frames[prefix - 1], text,
				 sizeof(text));
	if (prefix)
		key = hash_bytes(text, strlen(text));
	key = hash_u64(key ^ (prefix < a->n ? 99 : a->outcome * 16u + a->reason));
	return hash_u64(key ^ (prefix < b->n ? 99 : b->outcome * 16u + b->reason));
}

void agree_print_classes(struct samples *samples, const struct answers *first,
			 const struct answers *second, size_t max)
{
	struct table by_key = {0};
	struct class *classes = calloc(first->n + 1, sizeof(*classes));
	size_t n = 0;
	char text[256];

	for (size_t i = 0; classes && i < first->n; i++) {
		uint32_t prefix = common_prefix(&first->list[i], &second->list[i]);
		uint64_t key, at = n;

		if (!differ(&first->list[i], &second->list[i], prefix))
			continue;
		key = class_key(samples, first, second, i, prefix);
		if (!table_get(&by_key, key, &at)) {
			classes[n].sample = i;
			(void)table_put(&by_key, key, n++);
		}
		classes[at].count++;
	}
	if (n)
		qsort(classes, n, sizeof(*classes), class_compare);
	for (size_t i = 0; i < n && i < max; i++) {
		size_t at = classes[i].sample;
		const struct answer *a = &first->list[at];
		uint32_t prefix = common_prefix(a, &second->list[at]);

		snprintf(text, sizeof(text), "(the registers)");
		if (prefix)
			samples_describe(samples, &samples->list[at], a->frames[prefix - 1], text,
					 sizeof(text));
		printf("    %6llu x  %s vs %s, sample %zu frame %u%s: from %s\n",
		       (unsigned long long)classes[i].count, first->name, second->name, at, prefix,
		       prefix && !(a->frames[prefix - 1] & UW_FRAME_CALLER) ? "" : " (caller)",
		       text);
		describe_next(samples, first, at, prefix);
		describe_next(samples, second, at, prefix);
	}
	if (n > max)
		printf("    ... and %zu more classes\n", n - max);
	free(classes);
	table_deinit(&by_key);
}

void agree_print_failures(struct samples *samples, const struct answers *answers, size_t max)
{
	struct table by_key = {0};
	struct class *classes = calloc(answers->n + 1, sizeof(*classes));
	size_t n = 0;
	char text[256];

	for (size_t i = 0; classes && i < answers->n; i++) {
		const struct answer *a = &answers->list[i];
		uint64_t key, at = n;

		if (a->outcome != UW_FAILED)
			continue;
		*text = 0;
		if (a->n)
			samples_symbol(samples, &samples->list[i], a->frames[a->n - 1], text,
				       sizeof(text));
		if (a->n && !*text)
			samples_describe(samples, &samples->list[i], a->frames[a->n - 1], text,
					 sizeof(text));
		key = hash_bytes(text, strlen(text)) ^ a->reason;
		if (!table_get(&by_key, key, &at)) {
			classes[n].sample = i;
			(void)table_put(&by_key, key, n++);
		}
		classes[at].count++;
	}
	if (n)
		qsort(classes, n, sizeof(*classes), class_compare);
	for (size_t i = 0; i < n && i < max; i++) {
		const struct answer *a = &answers->list[classes[i].sample];

		snprintf(text, sizeof(text), "(the registers)");
		if (a->n)
			samples_describe(samples, &samples->list[classes[i].sample],
					 a->frames[a->n - 1], text, sizeof(text));
		printf("    %6llu x  %s fails, sample %zu: %s at %s, stopped at %#llx\n",
		       (unsigned long long)classes[i].count, answers->name, classes[i].sample,
		       uw_reason_name((enum uw_reason)a->reason), text,
		       (unsigned long long)a->stopped_at);
	}
	free(classes);
	table_deinit(&by_key);
}
