/* verdicts.c - see verdicts.h. */
#include "tests/differential/verdicts.h"

#include <string.h>

/* GUESSED: wrong, from a frame on that is marked as guessed. */
enum right { RIGHT, EARLY, GUESSED, WRONG };
enum { SHOWN = 12 };

/* Code of no file has no unwind information anywhere: its caller is a guess. */
static bool is_unmarked(const struct live *live, const struct verdict *v, uint32_t i)
{
	const struct uw_map *map =
		i ? uw_space_find(live->space, uw_frame_lookup(v->frames[i - 1])) : NULL;

	return map && !map->module &&
	       (v->frames[i] & (UW_FRAME_CALLER | UW_FRAME_GUESSED)) == UW_FRAME_CALLER;
}

static enum right judge(const struct verdicts *all, const struct live *live,
			const struct verdict *v, const uint64_t *truth, uint32_t n)
{
	bool guessed = false;

	for (uint32_t i = 0; i < v->n; i++) {
		guessed |= v->frames[i] & UW_FRAME_GUESSED;
		if (i >= n || (v->frames[i] & ~UW_FRAME_GUESSED) != truth[i])
			return guessed ? GUESSED : WRONG;
		if (is_unmarked(live, v, i))
			return WRONG;
	}
	if (v->outcome != UW_WHOLE)
		return v->outcome == UW_FAILED && v->reason == UW_OK ? WRONG : EARLY;
	if (v->n != n)
		return WRONG;
	return guessed && all->sure ? GUESSED : RIGHT;
}

static void chain_text(struct live *live, const uint64_t *frames, uint32_t n, char *to, size_t size)
{
	char text[160];
	size_t used = 0;

	*to = 0;
	for (uint32_t i = 0; i < n && i < SHOWN && used < size; i++) {
		live_describe(live, frames[i], text, sizeof(text));
		used += (size_t)snprintf(to + used, size - used, "%s%.60s%s%s", i ? " < " : "",
					 text, frames[i] & UW_FRAME_GUESSED ? " (guessed)" : "",
					 frames[i] & UW_FRAME_SIGNAL ? " (signal)" : "");
	}
}

/* @text is live_describe()'s: "module+0xvaddr symbol", or "[anon] 0xaddress". */
static bool is_in(const char *list, const char *text)
{
	const char *symbol = strrchr(text, ' ');
	char name[200];

	if (!list || !symbol || !symbol[1])
		return false;
	if (!strncmp(text, "[anon] ", 7))
		return strstr(list, ",[anon],") != NULL;
	(void)snprintf(name, sizeof(name), ",%s,", symbol + 1);
	return strstr(list, name) != NULL;
}

/* The last frame that is right: from it the unwinder went astray, or did not go on. */
static uint64_t astray(const struct verdict *v)
{
	uint32_t i = 1;

	while (i < v->n && i < v->n_truth && (v->frames[i] & ~UW_FRAME_GUESSED) == v->truth[i])
		i++;
	return v->frames[i - 1];
}

/* Counts a stack that is not right, by where and how. */
static void note(struct verdicts *verdicts, struct live *live, const struct verdict *v)
{
	char text[160], line[240];
	struct verdict_class *class = verdicts->classes;

	live_describe(live, astray(v), text, sizeof(text));
	if (v->right != WRONG && is_in(verdicts->allow, text)) {
		verdicts->n_allowed++;
		return;
	}
	*(v->right == EARLY ? &verdicts->n_early : &verdicts->n_wrong) += 1;
	(void)snprintf(line, sizeof(line), "%s from %s: %s %s",
		       v->right == EARLY     ? "ends"
		       : v->right == GUESSED ? "WRONG (but guessed)"
					     : "WRONG",
		       text, uw_outcome_name((enum uw_outcome)v->outcome),
		       uw_reason_name((enum uw_reason)v->reason));
	while (class < verdicts->classes + verdicts->n_classes && strcmp(class->text, line) != 0)
		class ++;
	if (class == verdicts->classes + VERDICTS_CLASSES)
		return;
	class->count++;
	if (class < verdicts->classes + verdicts->n_classes)
		return;
	verdicts->n_classes++;
	(void)snprintf(class->text, sizeof(class->text), "%s", line);
	chain_text(live, v->frames, v->n, class->chains[0], sizeof(class->chains[0]));
	chain_text(live, v->truth, v->n_truth, class->chains[1], sizeof(class->chains[1]));
}

void verdicts_settle(struct verdicts *verdicts, struct live *live)
{
	for (size_t i = 0; i < verdicts->n_later; i++)
		note(verdicts, live, &verdicts->later[i]);
	verdicts->n_later = 0;
}

void verdicts_switch(struct verdicts *verdicts, struct live *live, const uint64_t *truth,
		     uint32_t n)
{
	for (size_t i = 0; i < verdicts->n_later; i++) {
		struct verdict *v = &verdicts->later[i];
		uint64_t to[UW_MAX_FRAMES + 1];

		to[0] = v->frames[0];
		memcpy(to + 1, truth, n * sizeof(*truth));
		to[1] |= UW_FRAME_CALLER; /* it will be returned to */
		v->right = (uint8_t)min_u64(v->right, judge(verdicts, live, v, to, n + 1));
		if (v->right == RIGHT)
			verdicts->n_switch++;
		else
			note(verdicts, live, v);
	}
	verdicts->n_later = 0;
}

void verdicts_add(struct verdicts *verdicts, struct live *live)
{
	struct verdict *v = verdicts_next(verdicts);

	verdicts->n_judged++;
	v->right = (uint8_t)judge(verdicts, live, v, v->truth, v->n_truth);
	if (v->right != RIGHT) {
		if (++verdicts->n_later == VERDICTS_LATER)
			verdicts_settle(verdicts, live);
		return;
	}
	verdicts->n_right++;
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->frames[i] & UW_FRAME_GUESSED) {
			verdicts->n_guessed++;
			return;
		}
	}
}

void verdicts_print(const struct verdicts *verdicts, size_t max_classes)
{
	printf("  %llu judged, %llu right (%llu of them by a guess), %llu by where they go, %llu "
	       "end early, %llu more where it is allowed, %llu wrong\n",
	       (unsigned long long)verdicts->n_judged, (unsigned long long)verdicts->n_right,
	       (unsigned long long)verdicts->n_guessed, (unsigned long long)verdicts->n_switch,
	       (unsigned long long)verdicts->n_early, (unsigned long long)verdicts->n_allowed,
	       (unsigned long long)verdicts->n_wrong);
	for (size_t i = 0; i < verdicts->n_classes && i < max_classes; i++) {
		const struct verdict_class *class = &verdicts->classes[i];

		printf("  %6llu x %s\n           is   %s\n           true %s\n",
		       (unsigned long long)class->count, class->text, class->chains[0],
		       class->chains[1]);
	}
	if (verdicts->n_classes > max_classes)
		printf("  ... and %zu more classes\n", verdicts->n_classes - max_classes);
}
