/* native-trail.c - see native.h.  The outer frames that a thread's stack shares with an earlier
 * one.
 *
 * Between two samples most of a thread's outer frames stand still: 40 to 70 of 100, from main() up.
 * A trail keeps one stack of a thread: of each frame its registers, and of the words on the stack
 * those that made it come out so.  A walk that comes to a frame of the trail with the same
 * registers would read the same words and find the same rules; so the words are read, all at once
 * instead of one after the other, and when every one is what it was, the rest of the stack is what
 * it was:
 *
 *     trail   f0 f1 f2 f3 f4 .. fn root       walk   g0 g1 f2   same pc, rsp, (rbp)
 *                                                    words behind f2 the same -> f3 .. fn root
 *
 * Nothing is believed because of the thread's number: it only says which trail to look at.  What a
 * word was read for must matter: rbp is compared only where a frame further out stands on it, for
 * code without frame pointers leaves anything there.
 *
 * Only frames of plain rules are on a trail: others stand on more than rsp and rbp.  A trail is
 * made by walking a stack again that has just been walked, which costs as much as the walk; so one
 * is made only when some stacks in a row had no use for the old one, and more seldom the longer
 * that goes on. */
#include "unwinder/native.h"

enum { TRAIL_WAIT_MIN = 4, TRAIL_WAIT_MAX = 64, TRAIL_LEAST = 8 };

const uint32_t native_no_marks[NATIVE_MARKS];

static void trail_clear(struct native_trail *t)
{
	t->n = t->n_saved = 0;
	memset(t->marks, 0, sizeof(t->marks));
}

/* ---- use ---- */

/* The frame of the trail whose stack pointer is @sp, or n. */
static uint32_t trail_find(const struct native_trail *t, uint64_t sp)
{
	uint32_t low = 0, high = t->n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (t->steps[mid].sp < sp)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->n && t->steps[low].sp == sp ? low : t->n;
}

/* Is every word that the trail behind step @at stands on what it was?  Copies the frames on the
 * way. No branch in it: the words come from memory side by side. */
static bool trail_holds(const struct walk *w, const struct native_trail *t, uint32_t at)
{
	uint64_t *to = w->frames + w->n, differ = 0;

	for (uint32_t i = at + 1; i < t->n; i++) {
		const struct native_step *s = &t->steps[i];

		differ |= walk_word(w, s->sp - 8) ^ uw_frame_pc(s->frame);
		*to++ = s->frame;
	}
	for (uint32_t i = t->steps[at].saved; i < t->n_saved; i++)
		differ |= walk_word(w, t->saved[i].address) ^ t->saved[i].bp;
	return !differ;
}

static inline const struct native_trail *trail_of(const struct walk *w)
{
	return container_of(w->marks, const struct native_trail, marks[0]);
}

/* Does the walk stand on step @at?  Asked again when the words are there: meanwhile another walk may
 * have made a new trail of it. */
static bool trail_fits(const struct walk *w, const struct native_trail *t, uint32_t at)
{
	const struct native_step *s = &t->steps[at];

	return at < t->n && s->sp == w->sp && s->frame == w->frames[w->n - 1] &&
	       (!s->by_bp || s->bp == w->bp) && t->key == w->snapshot->space->key &&
	       t->steps[t->n - 1].sp - 8 - w->base < w->room && w->sp >= w->base &&
	       t->n - at - 1 <= w->max - w->n;
}

void native_trail_meet(struct walk *w)
{
	const struct native_trail *t = trail_of(w);
	uint32_t at;

	if (w->marks == native_no_marks)
		return; /* its marks are a number, too */
	at = trail_find(t, w->sp);
	if (!trail_fits(w, t, at))
		return; /* a frame further out may be the same yet */
	w->met = at + 1;
	for (uint32_t i = at + 1; i < t->n; i++)
		__builtin_prefetch((const void *)(uintptr_t)(t->steps[i].sp - 8 + w->shift));
	for (uint32_t i = t->steps[at].saved; i < t->n_saved; i++)
		__builtin_prefetch((const void *)(uintptr_t)(t->saved[i].address + w->shift));
}

bool native_trail_end(struct native *e, struct walk *w)
{
	const struct native_trail *t = trail_of(w);
	uint32_t at = w->met - 1;

	w->met = 0;
	if (!trail_fits(w, t, at))
		return false;
	w->marks = native_no_marks; /* once is enough */
	if (!trail_holds(w, t, at))
		return false;
	w->n += t->n - at - 1;
	w->reused = t->n - at - 1;
	e->stats.reused_frames += w->reused;
	walk_end(w, UW_WHOLE, UW_OK, 0);
	return true;
}

/* ---- making ---- */

int native_trail_step(const struct native *e, const struct walk *w, struct native_step *s,
		      struct native_step *ret_next)
{
	uint64_t address = uw_frame_lookup(s->frame), cfa, saved;
	const struct rule_entry *entry =
		address >> 48 ? NULL : rule_cache_find(&e->by_pc, &w->key, address);
	enum rule_kind kind = entry ? rule_kind(entry->rule) : RULE_NONE;

	if (kind == RULE_ROOT)
		return 0;
	if (kind != RULE_SP && kind != RULE_FP)
		return -1;
	s->by_bp = kind == RULE_FP;
	cfa = (s->by_bp ? s->bp : s->sp) + (uint64_t)rule_cfa(entry->rule);
	saved = rule_saved(entry->rule);
	if (s->sp < w->base || cfa <= s->sp || cfa - 8 - w->base >= w->room)
		return -1;
	*ret_next = (struct native_step){.sp = cfa, .bp = s->bp};
	if (saved && saved <= cfa - s->sp) {
		s->slot = cfa - saved;
		ret_next->bp = walk_word(w, s->slot);
	}
	return 1;
}

/* The last steps of the walk, as many as there is room for.  false: it does not end in a root. */
static bool trail_walk(const struct native *e, const struct walk *w, struct native_trail *t)
{
	struct native_step step = {.sp = w->plain_sp, .bp = w->plain_bp}, next;
	uint32_t i = w->plain_n - 1;
	int r;

	for (;; i++, step = next) {
		if (i == w->n)
			return false;
		step.frame = w->frames[i];
		r = native_trail_step(e, w, &step, &next);
		if (r < 0)
			return false;
		if (w->n - i <= NATIVE_TRAIL_STEPS)
			t->steps[t->n++] = step;
		if (!r)
			return i == w->n - 1;
		if (i + 1 < w->n && walk_word(w, next.sp - 8) != uw_frame_pc(w->frames[i + 1]))
			return false;
	}
}

/* Finds out where rbp matters: at a frame that stands on it, and inward of it up to the one that
 * saved it.  Of the saved words, only those are kept that matter. */
static void trail_needs(struct native_trail *t)
{
	bool needed = false;

	for (uint32_t i = t->n; i-- > 0;) {
		struct native_step *s = &t->steps[i];

		if (s->slot && !needed)
			s->slot = 0;
		needed = s->by_bp || (needed && !s->slot);
		s->by_bp = needed;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		t->steps[i].saved = t->n_saved;
		if (t->steps[i].slot)
			t->saved[t->n_saved++] =
				(struct native_saved){t->steps[i].slot, t->steps[i + 1].bp};
	}
}

static void trail_make(const struct native *e, const struct walk *w, struct native_trail *t)
{
	trail_clear(t);
	if (!trail_walk(e, w, t)) {
		t->n = 0;
		return;
	}
	trail_needs(t);
	t->key = w->snapshot->space->key;
	t->thread = w->snapshot->thread;
	/* The innermost wins a place that two want: a walk that meets it saves most. */
	for (uint32_t i = t->n; i-- > 0;)
		*native_mark(t->marks, t->steps[i].sp) = (uint32_t)t->steps[i].sp;
}

/* aarch64: its return addresses are not at one place, below the caller's sp. */
static bool trail_is_for(const struct walk *w)
{
	return w->snapshot->thread && w->snapshot->space->key && !w->machine->link;
}

static struct native_trail **trail_place(struct native *e, const struct uw_snapshot *snapshot)
{
	uint64_t who = (uint64_t)snapshot->space->key << 32 | snapshot->thread;

	return &e->trails[hash_u64(who) % NATIVE_TRAILS];
}

void native_trail_begin(struct native *e, struct walk *w)
{
	const struct uw_snapshot *snapshot = w->snapshot;
	struct native_trail *t;

	w->reused = w->met = 0;
	w->marks = native_no_marks;
	if (!trail_is_for(w))
		return;
	t = *trail_place(e, snapshot);
	if (t && t->thread == snapshot->thread && t->key == snapshot->space->key)
		w->marks = t->marks;
}

void native_trail_note(struct native *e, struct walk *w)
{
	struct native_trail **place, *t;

	if (!trail_is_for(w) || w->n < TRAIL_LEAST || w->res->outcome != UW_WHOLE ||
	    w->res->completed)
		return;
	place = trail_place(e, w->snapshot);
	t = *place;
	if (!t) {
		t = *place = malloc(sizeof(*t)); /* without memory there is none, that is all */
		if (!t)
			return;
		t->thread = t->key = 0; /* its steps and words count as far as n and n_saved */
		trail_clear(t);
		e->stats.cache_bytes += sizeof(*t);
		t->wait = TRAIL_WAIT_MIN;
		t->unused = TRAIL_WAIT_MIN - 1;
	}
	if (w->reused * 2 >= w->n) {
		t->unused = 0;
		t->wait = TRAIL_WAIT_MIN;
		return;
	}
	if (++t->unused < t->wait)
		return;
	t->unused = 0;
	t->wait = (uint32_t)min_u64(t->wait * 2, TRAIL_WAIT_MAX);
	trail_make(e, w, t);
}

void native_trails_clear(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TRAILS; i++)
		if (e->trails[i])
			trail_clear(e->trails[i]);
}

void native_trails_free(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TRAILS; i++)
		free(e->trails[i]);
}
