/* native.c - see native.h.  The batch of walks, and the outer frames that a stack shares with an
 * earlier stack of its thread.
 *
 * The kernel wrote the stack bytes moments ago on another CPU, and the two loads of a frame (return
 * address, rule) depend on each other.  Walking one stack at a time costs two cache misses a frame.  So
 * sixteen stacks are walked round-robin, one frame a visit, which ends with a prefetch for the next visit
 * of the same walk:
 *
 *     visit    load RA, rbp  ->  push frame  ->  rule of RA  ->  CFA  ->  prefetch [CFA - 8], [CFA - M]
 *              15 other walks meanwhile
 *
 * The rules are in a cache of a megabyte, which is near: the CPU goes on with the next walk's visit meanwhile.
 * A visit that stops for a prefetch of the rule, too, leaves the stack's words half the time to come.
 *
 * The branches of a visit that depend on data nearly always go the same way: nothing special about the walk
 * (w->slow), cache hit, plain rule, in the copy.  Functions that are not inlined handle everything else; only
 * these keep w->sp and w->bp up to date. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/native.h"

/* ---- trails ----
 *
 * Between two samples most outer frames of a thread do not change: 40 to 70 of 100, from main() up.
 * A trail keeps one stack of a thread: the registers of each frame, and the words on the stack that
 * led to them.  A walk that comes to a frame of the trail with the same registers would read the
 * same words and find the same rules.  So it reads the words of the trail, all at once instead of
 * one after the other.  When none has changed, the rest of the stack has not changed either:
 *
 *     trail   f0 f1 f2 f3 f4 .. fn root       walk   g0 g1 f2   same pc, rsp, (rbp)
 *                                                    words behind f2 the same -> f3 .. fn root
 *
 * The thread's number is not trusted: it only selects the trail to compare with.  rbp is compared
 * only where a frame further out depends on it, because code without frame pointers leaves any value
 * there.
 *
 * Only frames of plain rules are on a trail: others depend on more than rsp and rbp.  To make a
 * trail, a stack that was just walked is walked again, which costs as much as the walk.  So a trail
 * is made only when some stacks in a row had no use for the old one, and the interval grows while
 * that continues. */

enum { TRAIL_WAIT_MIN = 16, TRAIL_WAIT_MAX = 256, TRAIL_LEAST = 8 };

static const uint32_t native_no_marks[NATIVE_MARKS];

/* Where the mark of a stack pointer is: a hit is nearly always a step of the trail. */
static inline size_t native_mark_at(uint64_t sp)
{
	return sp >> 4 & (NATIVE_MARKS - 1);
}

static inline bool native_is_marked(const uint32_t *marks, uint64_t sp)
{
	return marks[native_mark_at(sp)] == (uint32_t)sp;
}

static void trail_clear(struct native_trail *t)
{
	t->n = t->n_saved = 0;
	memset(t->marks, 0, sizeof(t->marks));
	memset(t->marked, 0, sizeof(t->marked));
}

/* Is every word that the trail behind step @at depends on unchanged? Copies the frames meanwhile.
 * No branch in it: the words come from memory side by side. */
static bool trail_holds(const struct walk *w, const struct native_trail *t, uint32_t at)
{
	uint64_t *to = w->frames + w->n, differ = 0;

	for (uint32_t i = at + 1; i < t->n; i++) {
		differ |= walk_word(w, t->sps[i] - 8) ^ uw_frame_pc(t->frames[i]);
		*to++ = t->frames[i];
	}
	for (uint32_t i = t->steps[at].saved; i < t->n_saved; i++)
		differ |= walk_word(w, t->saved[i].address) ^ t->saved[i].bp;
	return !differ;
}

static inline const struct native_trail *trail_of(const struct walk *w)
{
	return container_of(w->marks, const struct native_trail, marks[0]);
}

/* Does the walk stand on step @at?  Checked again when the words are there: another walk may have
 * made a new trail of it meanwhile. */
static bool trail_fits(const struct walk *w, const struct native_trail *t, uint32_t at)
{
	const struct native_trail_step *s = &t->steps[at];

	return at < t->n && t->sps[at] == w->sp && t->frames[at] == w->frames[w->n - 1] &&
	       (!s->by_bp || s->bp == w->bp) && t->key == w->snapshot->space->key &&
	       t->sps[t->n - 1] - 8 - w->base < w->room && w->sp >= w->base &&
	       t->n - at - 1 <= w->max - w->n;
}

/* The walk comes to a frame with a marked sp: is it on the trail? Prefetches the words that the
 * rest of the trail depends on. */
static __attribute__((noinline)) void native_trail_meet(struct walk *w, uint64_t sp, uint64_t bp)
{
	const struct native_trail *t = trail_of(w);
	uint32_t at;

	w->sp = sp;
	w->bp = bp;
	if (w->marks == native_no_marks)
		return; /* its marks are a number, too */
	at = t->marked[native_mark_at(sp)];
	if (!trail_fits(w, t, at))
		return; /* a frame further out may be the same yet */
	w->met = at + 1;
	w->slow |= WALK_MET;
	for (uint32_t i = at + 1; i < t->n; i++)
		__builtin_prefetch((const void *)(uintptr_t)(t->sps[i] - 8 + w->shift));
	for (uint32_t i = t->steps[at].saved; i < t->n_saved; i++)
		__builtin_prefetch((const void *)(uintptr_t)(t->saved[i].address + w->shift));
}

/* The walk met the trail a round ago, and the words are there now.  true: the trail has ended it. */
static bool native_trail_end(struct native *e, struct walk *w)
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
	w->sp = t->sps[t->n - 1];
	e->stats.reused_frames += w->reused;
	walk_end(w, UW_WHOLE, UW_OK, 0);
	return true;
}

int native_trail_step(const struct native *e, const struct walk *w, struct native_trail_step *s,
		      struct native_trail_step *ret_next)
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
	*ret_next = (struct native_trail_step){.sp = cfa, .bp = s->bp};
	if (saved && saved <= cfa - s->sp) {
		s->slot = cfa - saved;
		ret_next->bp = walk_word(w, s->slot);
	}
	return 1;
}

/* The last steps of the walk, as many as there is room for.  false: it does not end in a root. */
static bool trail_walk(const struct native *e, const struct walk *w, struct native_trail *t)
{
	struct native_trail_step step = {.sp = w->plain_sp, .bp = w->plain_bp}, next;
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
		struct native_trail_step *s = &t->steps[i];

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
	for (uint32_t i = t->n; i-- > 0;) {
		size_t at = native_mark_at(t->steps[i].sp);

		t->marks[at] = (uint32_t)t->steps[i].sp;
		t->marked[at] = (uint16_t)i;
		t->sps[i] = t->steps[i].sp;
		t->frames[i] = t->steps[i].frame;
	}
}

/* aarch64: its return addresses are not at one place, below the caller's sp. */
static bool trail_is_for(const struct walk *w)
{
	return w->snapshot->thread && w->snapshot->space->key && !w->machine->link;
}

static struct native_trail **trail_place(struct native *e, const struct uw_snapshot *snapshot)
{
	uint64_t key = (uint64_t)snapshot->space->key << 32 | snapshot->thread;

	return &e->trails[hash_u64(key) % NATIVE_TRAILS];
}

/* A walk begins: selects the trail that it may meet. */
static void native_trail_begin(struct native *e, struct walk *w)
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

/* A walk has ended: makes a trail of it where the old one is of no use any more. */
static void native_trail_note(struct native *e, struct walk *w)
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

static void native_trails_clear(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TRAILS; i++)
		if (e->trails[i])
			trail_clear(e->trails[i]);
}

static void native_trails_free(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TRAILS; i++)
		free(e->trails[i]);
}

/* ---- one frame on, by a plain rule ---- */

static inline uint64_t load(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The walk stands on a new frame, of registers @sp and @bp: applies @rule, which is not RULE_GUESSED.  false: not a plain
 * rule, or its words are not in the copy. */
static inline bool walk_apply_x86_64(struct walk *w, rule_t rule, uint64_t sp, uint64_t bp)
{
	uint64_t cfa = (rule & RULE_BY_FP ? bp : sp) + (uint64_t)rule_cfa(rule);
	uint64_t saved = cfa - rule_saved_or_far(rule), below;
	uintptr_t ra_at = cfa - 8 + w->shift, bp_at = saved + w->shift;

	if (__builtin_expect(!(rule & RULE_FRAME) || cfa - 8 - w->base >= w->room || cfa <= sp, 0))
		return false;
	w->cfa = cfa;
	w->ra_at = (const uint8_t *)ra_at;
	__builtin_prefetch((const void *)ra_at);
	/* Kept, or below rsp (behind the pops of an epilogue, CFA = rbp + N): it stays where it is.  No branch: it
	 * could not be predicted. */
	below = (uint64_t)((int64_t)(saved - sp) >> 63);
	bp_at ^= (bp_at ^ (uintptr_t)w->bp_at) & below;
	w->bp_at = (const uint8_t *)bp_at;
	__builtin_prefetch((const void *)bp_at);
	return true;
}

/* The same where a call leaves the return address in a register: it and x29 are in one place, side
 * by side in memory or both in their registers. */
static inline bool walk_apply_aarch64(struct walk *w, rule_t rule, uint64_t sp, uint64_t bp)
{
	uint64_t cfa = (rule & RULE_BY_FP ? bp : sp) + (uint64_t)rule_cfa(rule);
	uint64_t saved = rule_saved_or_far(rule), at = cfa - saved - w->base;
	enum rule_link link = rule_link(rule);
	uint64_t ra = at + (link == RULE_LINK_PAIR ? 8u : 0u);

	if (__builtin_expect(!(rule & RULE_FRAME), 0))
		return false;
	if (link == RULE_LINK_LIVE) {
		if (cfa < sp || !walk_is_interrupted(w))
			return false;
		w->ra_at = (const uint8_t *)&w->lr;
	} else {
		if (__builtin_expect(
			    at >= w->room || ra >= w->room || cfa <= sp || saved > cfa - sp, 0))
			return false;
		w->ra_at = w->stack + ra;
		__builtin_prefetch(w->ra_at);
	}
	w->cfa = cfa;
	if (link == RULE_LINK_PAIR)
		w->bp_at = w->ra_at - 8;
	return true;
}

/* @link is a constant of the loop: each machine has one of its own. */
static inline __attribute__((always_inline)) bool walk_apply_to(struct walk *w, rule_t rule,
								uint64_t sp, uint64_t bp, bool link)
{
	return link ? walk_apply_aarch64(w, rule, sp, bp) : walk_apply_x86_64(w, rule, sp, bp);
}

/* The same for any frame, by w->sp and w->bp. */
static bool walk_apply(struct walk *w, rule_t rule)
{
	w->bp_at = (const uint8_t *)&w->bp;
	w->slow &= ~(uint32_t)WALK_GUESSED;
	/* sp below the copy: a signal frame led there, and saved registers may lie there as well.
	 */
	if (w->sp < w->base || !walk_apply_to(w, rule, w->sp, w->bp, w->machine->link))
		return false;
	if (!(rule & RULE_GUESSED))
		return true;
	w->slow |= WALK_GUESSED;
	return w->cfa >= w->sp + 16; /* a guessed frame has both words, or is none */
}

/* The walk stands on a frame from which plain ones go on. */
static bool walk_plain_from(struct walk *w)
{
	w->plain_n = w->n;
	w->plain_sp = w->sp;
	w->plain_bp = w->bp;
	return true;
}

/* Frames that are not plain, one after the other, until one is.  true: the walk goes on. */
static __attribute__((noinline)) bool native_other(struct native *e, struct walk *w, rule_t rule)
{
	for (;;) {
		uint64_t from = w->sp;

		if (native_step(e, w, rule) == STEP_ENDED) {
			native_deep_end(w, from);
			return false;
		}
		native_deep_seam(e, w, from);
		rule = native_rule(e, w, walk_lookup(w));
		if (walk_apply(w, rule))
			return walk_plain_from(w);
	}
}

/* A frame with a rule that is not in its first place in the cache or not plain: its registers are @sp and @bp, @address is
 * that of its rule. */
static __attribute__((noinline)) bool walk_leave_other(struct native *e, struct walk *w,
						       uint64_t address, uint64_t sp, uint64_t bp)
{
	bool guessed = w->slow & WALK_GUESSED;
	rule_t rule;

	w->sp = sp;
	w->bp = bp;
	rule = native_rule(e, w, address);
	if (guessed && !rule_call_is_taken(rule) && native_prove(e, w, rule) == STEP_ENDED)
		return false;
	if (!walk_apply(w, rule))
		return native_other(e, w, rule);
	return (guessed || rule & RULE_GUESSED) ? walk_plain_from(w) : true;
}

/* Finds where the caller of the frame that the walk stands on is.  false: ended. */
static inline __attribute__((always_inline)) bool
walk_leave(struct native *e, struct walk *w, uint64_t address, uint64_t sp, uint64_t bp, bool link)
{
	const struct rule_entry *entry = &e->by_pc.entries[rule_cache_place(&w->key, address)];
	rule_t rule;

	if (__builtin_expect(rule_cache_at(entry, &w->key, address, &rule) &&
				     !(rule & RULE_GUESSED) && walk_apply_to(w, rule, sp, bp, link),
			     1))
		return true;
	return walk_leave_other(e, w, address, sp, bp);
}

/* To the caller of the frame that the walk stands on, and on from there.  false: ended. */
static inline __attribute__((always_inline)) bool walk_visit(struct native *e, struct walk *w,
							     uint64_t flags, bool link)
{
	uint64_t ra = link ? load(w->ra_at) & ~w->pac_mask : load(w->ra_at);
	uint64_t bp = load(w->bp_at), sp = w->cfa, address = ra - 1;

	if (__builtin_expect(address >> 48 || w->n == w->max, 0)) {
		w->sp = sp;
		w->bp = bp;
		native_push(w, ra, flags);
		return false;
	}
	w->frames[w->n++] = ra | flags;
	if (__builtin_expect(native_is_marked(w->marks, sp), 0))
		native_trail_meet(w, sp, bp);
	return flags & UW_FRAME_GUESSED ? walk_leave_other(e, w, address, sp, bp)
					: walk_leave(e, w, address, sp, bp, link);
}

/* The first visit of a walk, and one behind a guessed frame or one of its trail. */
static __attribute__((noinline)) bool walk_visit_slow(struct native *e, struct walk *w)
{
	bool link = w->machine->link;

	if (w->slow & WALK_LEAF) {
		w->slow = 0;
		return walk_leave(e, w, w->address, w->sp, w->bp, link);
	}
	if (w->slow & WALK_MET) {
		w->slow &= ~(uint32_t)WALK_MET;
		if (native_trail_end(e, w))
			return false;
	}
	if (w->slow & WALK_GUESSED)
		return walk_visit(e, w, UW_FRAME_CALLER | UW_FRAME_GUESSED, link);
	return walk_visit(e, w, UW_FRAME_CALLER, link);
}

/* A return address of 0 that the frame pointer led to. In code that is known to have no CFI it ends
 * the callchain. Code without a file was called by code that has one, and its rbp, or that of code
 * that cannot be read, may have any value: a 0 there ends nothing. */
static enum step push_zero(struct walk *w, uint64_t flags)
{
	struct native_place place;

	if (!(flags & UW_FRAME_GUESSED) ||
	    native_place(w, walk_lookup(w), &place) != NATIVE_PLACE || place.why == RULE_NO_CFI)
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	return walk_end(w, UW_FAILED,
			place.why == RULE_NOT_READABLE ? UW_UNREADABLE : UW_NO_UNWIND_INFO,
			uw_frame_pc(w->frames[w->n - 1]));
}

enum step native_push(struct walk *w, uint64_t pc, uint64_t flags)
{
	if (!pc && (flags & UW_FRAME_CALLER))
		return push_zero(w, flags);
	if (!pc || pc >> 48)
		return walk_end(w, UW_FAILED, UW_NO_MODULE, pc);
	if (w->n == w->max)
		return walk_end(w, UW_CUT, UW_TOO_DEEP, pc);
	w->frames[w->n++] = pc | flags | w->deep_flags;
	return STEP_FRAME;
}

/* false: ended already. */
static inline __attribute__((always_inline)) bool walk_begin(struct native *e, struct walk *w,
							     const struct uw_snapshot *snapshot,
							     struct uw_result *res, bool link)
{
	if (!uw_result_begin(snapshot, res))
		return false;
	w->machine = link ? &machine_aarch64 : &machine_x86_64;
	w->snapshot = snapshot;
	w->res = res;
	w->sp = w->base = snapshot->regs[link ? (int)UW_ARM64_SP : (int)UW_X86_SP];
	w->bp = snapshot->regs[link ? (int)UW_ARM64_FP : (int)UW_X86_BP];
	w->lr = link ? snapshot->regs[UW_ARM64_LR] : 0;
	w->pac_mask = link ? uw_machine_pac_mask(w->machine, snapshot->space, w->sp) : 0;
	w->stack = snapshot->stack;
	w->shift = (uintptr_t)w->stack - w->base;
	w->room = snapshot->stack_len >= 8 ? min_u64(snapshot->stack_len - 7, NATIVE_ROOM_MAX) : 0;
	w->frames = res->frames;
	w->n = 0;
	w->max = res->max_frames;
	w->key = rule_key(snapshot->space->key);
	w->deep_flags = 0;
	w->deep_read = 0;
	w->deep_failed = false;
	w->seam = 0;
	w->go = false;
	w->far_cfa = 0;
	w->full_at = 0;
	w->n_open = 0;
	w->n_methods = 0;
	w->ahead_address = 0;
	if (e->chunk_owner == w)
		e->chunk_owner = NULL;
	if (e->tail_owner == w)
		e->tail_owner = NULL;
	if (native_push(w, uw_snapshot_pc(snapshot), 0) == STEP_ENDED)
		return false;
	(void)walk_plain_from(w);
	w->slow = WALK_LEAF;
	w->bp_at = (const uint8_t *)&w->bp;
	native_trail_begin(e, w);
	w->address = walk_lookup(w);
	rule_cache_prefetch(&e->by_pc, &w->key, w->address);
	return true;
}

/* From here on the frame is known by its Method: all frames of the interpreter are in the same code. */
static void name_method(struct walk *w, const struct native_method *m)
{
	if (m->frame < w->n)
		w->frames[m->frame] = (w->frames[m->frame] & UW_FRAME_GUESSED) | UW_FRAME_CALLER |
				      UW_FRAME_METHOD | m->method;
}

static void walk_finish(struct native *e, struct walk *w)
{
	uint64_t used;

	if (w->n_open)
		native_settle(e, w);
	native_deep_settle(e, w);
	w->res->n_frames = w->n;
	used = (w->go ? w->go_from : w->sp) - w->base;
	w->res->stack_used = used < NATIVE_DEEP_MAX ? (uint32_t)used : 0;
	w->res->fp = w->bp;
	e->stats.frames += w->n;
	if (uw_memory_wanted(w->snapshot->space->memory))
		return;
	if (e->n_holes && !w->go)
		native_hole_note(e, w);
	if (!w->go)
		native_trail_note(e, w);
	for (uint32_t i = 0; i < w->n_methods; i++)
		name_method(w, &w->methods[i]);
	if (w->snapshot->space->script)
		native_script(e, w);
	else if (e->has_stg)
		native_stg(e, w);
}

static inline void prefetch_regs(const struct uw_snapshot *snapshot, bool link)
{
	if (snapshot->regs)
		__builtin_prefetch(&snapshot->regs[link ? (int)UW_ARM64_SP : (int)UW_X86_SP]);
}

/* ---- the batch ---- */

struct batch {
	const struct uw_snapshot *snapshots;
	struct uw_result *results;
	size_t n, at;
	bool others; /* some are of another machine */
};

/* The next snapshot that gives a walk to do; @w is free. */
static inline __attribute__((always_inline)) bool walk_next(struct native *e, struct walk *w,
							    struct batch *b, bool link)
{
	while (b->at < b->n) {
		size_t i = b->at++;

		if (b->at + 1 < b->n && b->snapshots[b->at + 1].regs) {
			prefetch_regs(&b->snapshots[b->at + 1], link);
			__builtin_prefetch(b->snapshots[b->at + 1].stack);
		}
		if ((b->snapshots[i].arch == UW_ARCH_AARCH64) != link) {
			b->others = true;
			continue;
		}
		w->res = NULL;
		if (walk_begin(e, w, &b->snapshots[i], &b->results[i], link))
			return true;
		if (w->res)
			walk_finish(e, w);
	}
	return false;
}

static inline __attribute__((always_inline)) void native_batch(struct native *e, struct batch *b,
							       bool link)
{
	struct walk *active[UW_BATCH];
	size_t n_active = 0;

	for (size_t i = 0; i < b->n && i < UW_BATCH; i++)
		prefetch_regs(&b->snapshots[i], link);
	while (n_active < UW_BATCH && walk_next(e, &e->walks[n_active], b, link)) {
		active[n_active] = &e->walks[n_active];
		n_active++;
	}
	if (n_active > 1)
		native_prefetch(e, active, n_active);
	while (n_active) {
		for (size_t i = 0; i < n_active;) {
			struct walk *w = active[i];

			if (__builtin_expect(w->slow, 0)
				    ? walk_visit_slow(e, w)
				    : walk_visit(e, w, UW_FRAME_CALLER, link)) {
				i++;
				continue;
			}
			walk_finish(e, w);
			if (!walk_next(e, w, b, link))
				active[i] = active[--n_active];
		}
	}
}

static __attribute__((noinline)) void native_batch_x86_64(struct native *e, struct batch *b)
{
	native_batch(e, b, false);
}

static __attribute__((noinline)) void native_batch_aarch64(struct native *e, struct batch *b)
{
	native_batch(e, b, true);
}

/* Samples are of one machine mostly; samples of another have a turn of their own. */
static int native_unwind(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
			 struct uw_result *results)
{
	struct native *e = container_of(engine, struct native, engine);
	struct batch batch = {.snapshots = snapshots, .results = results, .n = n};

	e->no_memory = false;
	e->chunk_owner = e->tail_owner = NULL;
	e->last_space = NULL;
	e->script_renew = true;
	native_batch_x86_64(e, &batch);
	if (batch.others) {
		batch.at = 0;
		native_batch_aarch64(e, &batch);
	}
	return e->no_memory ? fail(-ENOMEM) : 0;
}

/* ---- the engine ---- */

static void native_free(struct uw_engine *engine)
{
	struct native *e = container_of(engine, struct native, engine);

	native_forget_indexes(e, NULL);
	table_deinit(&e->indexes);
	native_trails_free(e);
	native_holes_free(e);
	native_script_free(e);
	native_stg_free(e);
	native_go_free(e);
	native_tails_free(e);
	rule_caches_deinit(&e->by_pc, 2);
	free(e->chunk);
	for (size_t i = 0; i < UW_BATCH; i++)
		free(e->walks[i].methods);
	free(e);
}

static int native_new_of(const struct uw_engine_ops *ops, struct uw_engine **ret_engine)
{
	struct native *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fail(-ENOMEM);
	e->engine.ops = ops;
	r = rule_caches_init((struct rule_cache *const[]){&e->by_pc, &e->by_vaddr}, 2);
	if (r < 0) {
		native_free(&e->engine);
		return trace(r);
	}
	*ret_engine = &e->engine;
	return 0;
}

static int native_new(struct uw_engine **ret_engine)
{
	return native_new_of(&uw_native_ops, ret_engine);
}

static int native_new_fp(struct uw_engine **ret_engine)
{
	return native_new_of(&uw_fp_ops, ret_engine);
}

/* May other code be at an address of it than before? */
static bool is_replaced(const struct uw_module *module)
{
	return uw_module_is_vm(module) || uw_module_has_jit_cfi(module);
}

/* Rules and trails hold no pointer into a module and stay: a module that is dropped to save memory
 * and loaded again is the same image, or is not loaded (-ESTALE, module.h).  But one that could not
 * be read and now can has guesses cached; guesses are keyed by process, hence all rules go.  So do they where a Java
 * VM, or a JIT compiler with a jitdump, may have put other code at an address. */
static void native_forget(struct uw_engine *engine, const struct uw_module *module)
{
	struct native *e = container_of(engine, struct native, engine);

	e->last_space = NULL;
	if (!module || e->not_readable || is_replaced(module)) {
		rule_cache_clear(&e->by_pc);
		memset(e->plain_rows, 0, sizeof(e->plain_rows));
		for (size_t i = 0; i < NATIVE_CODE_PAGES; i++)
			e->code_pages[i].key = 0;
		for (size_t i = 0; i < NATIVE_USERS; i++) /* by_vaddr has more now */
			e->users[i].key = 0;
		native_trails_clear(e);
		native_holes_clear(e);
		native_tails_clear(e);
		e->not_readable = false;
	}
	if (!module || is_replaced(module))
		rule_cache_clear(&e->by_vaddr);
	native_forget_indexes(e, module);
}

static void native_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	const struct native *e = container_of(engine, const struct native, engine);

	*ret_stats = e->stats;
	/* Not counted where it is a hit: that is one write a frame less. */
	ret_stats->cache_hits = e->stats.frames > e->stats.cache_misses
					? e->stats.frames - e->stats.cache_misses
					: 0;
	ret_stats->cies_read = e->cies.cies_read;
	ret_stats->fdes_read = e->cies.fdes_read;
	ret_stats->cache_bytes += 2 * RULE_CACHE_ENTRIES * sizeof(struct rule_entry) + sizeof(*e) +
				  (e->chunk ? NATIVE_CHUNK_MAX : 0);
}

const struct uw_engine_ops uw_native_ops = {
	.new = native_new,
	.free = native_free,
	.unwind = native_unwind,
	.forget = native_forget,
	.stats = native_stats,
};

const struct uw_engine_ops uw_fp_ops = {
	.new = native_new_fp,
	.free = native_free,
	.unwind = native_chains,
	.forget = native_forget,
	.stats = native_stats,
};
