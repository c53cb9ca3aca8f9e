/* native.c - see native.h.
 *
 * The stack bytes were written by the kernel moments ago on another cache's account, the rules are in
 * a cache of a megabyte, and a frame's two loads (return address, rule) depend on each other.
 * Walking one stack at a time costs two misses a frame; so sixteen are walked round-robin, in half
 * visits, each ending with a prefetch for the next half of the same walk:
 *
 *     arrive   load RA, rbp  ->  push frame  ->  prefetch the line of its rule
 *              15 other walks meanwhile
 *     leave    rule of RA  ->  CFA  ->  prefetch [CFA - 8], [CFA - M]
 *              15 other walks meanwhile
 *
 * A visit has no branch that depends on data but those that are nearly always the same: hit, plain
 * rule, in the copy.  Whatever else happens is native_other()'s. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/native.h"

static inline uint64_t load(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The walk stands on a new frame, of registers @sp and @bp: applies @rule.  false: not a plain
 * rule, or its words are not in the copy. */
static inline bool walk_apply_x86_64(struct walk *w, rule_t rule, uint64_t sp, uint64_t bp)
{
	uint64_t cfa = (rule & RULE_BY_FP ? bp : sp) + (uint64_t)rule_cfa(rule);
	uint64_t saved = rule_saved_or_far(rule), below;
	uintptr_t ra_at = cfa - 8 + w->shift, bp_at = cfa - saved + w->shift;

	if (__builtin_expect(!(rule & RULE_FRAME) || cfa - 8 - w->base >= w->room || cfa <= sp, 0))
		return false;
	w->cfa = cfa;
	w->ra_at = (const uint8_t *)ra_at;
	/* Kept, or below rsp (behind the pops of an epilogue, CFA = rbp + N): the register holds
	 * it. No branch: nobody can foretell which. */
	below = (uint64_t)((int64_t)(cfa - saved - sp) >> 63);
	bp_at ^= (bp_at ^ (uintptr_t)&w->bp) & below;
	w->bp_at = (const uint8_t *)bp_at;
	__builtin_prefetch((const void *)ra_at);
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
	w->bp_at = link == RULE_LINK_PAIR ? w->ra_at - 8 : (const uint8_t *)&w->bp;
	return true;
}

/* @link is a constant of the loop: each machine has one of its own. */
static inline __attribute__((always_inline)) bool walk_apply_to(struct walk *w, rule_t rule,
								uint64_t sp, uint64_t bp, bool link)
{
	return link ? walk_apply_aarch64(w, rule, sp, bp) : walk_apply_x86_64(w, rule, sp, bp);
}

/* The same for the frame that the walk says it stands on, wherever that came from. */
static bool walk_apply(struct walk *w, rule_t rule)
{
	/* sp below the copy: a signal frame led there, and saved registers may lie there as well.
	 */
	if (w->sp < w->base || !walk_apply_to(w, rule, w->sp, w->bp, w->machine->link))
		return false;
	w->flags = UW_FRAME_CALLER;
	if (!(rule & RULE_GUESSED))
		return true;
	w->flags |= UW_FRAME_GUESSED;
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
		enum step step;

		switch (rule_kind(rule)) {
		case RULE_NONE: /* native_rule() has ended the walk */
			return false;
		case RULE_ROOT:
			walk_end(w, UW_WHOLE, UW_OK, 0);
			return false;
		case RULE_BAD:
			walk_end(w, UW_FAILED, UW_BAD_CFI, uw_frame_pc(w->frames[w->n - 1]));
			return false;
		case RULE_GUESS:
		case RULE_CHAIN:
			step = native_guess(e, w, rule);
			break;
		case RULE_SLOW:
			e->stats.slow_frames++;
			step = native_slow(e, w, rule);
			break;
		default:
			step = native_far(e, w, rule);
		}
		if (step == STEP_ENDED)
			return false;
		rule = native_rule(e, w, walk_lookup(w));
		if (walk_apply(w, rule))
			return walk_plain_from(w);
	}
}

/* What a visit found not to be plain. */
static __attribute__((noinline)) bool walk_visit_other(struct native *e, struct walk *w,
						       rule_t rule)
{
	bool guessed = w->flags & UW_FRAME_GUESSED;

	if (guessed && !rule_call_is_taken(rule) &&
	    native_prove(e, w, rule & RULE_MASK) == STEP_ENDED)
		return false;
	return walk_apply(w, rule) ? walk_plain_from(w) : native_other(e, w, rule & RULE_MASK);
}

/* The walk comes to a frame: what its rule will be looked up by.  The line of the cache is asked for
 * here, and is there when walk_leave() comes to this walk. */
static inline void walk_look_up(const struct native *e, struct walk *w, uint64_t address)
{
	w->address = address;
	w->entry = &e->by_pc.entries[rule_cache_place(&w->key, address)];
	__builtin_prefetch(w->entry);
}

/* To the caller of the frame that the walk stands on.  false: ended. */
static inline __attribute__((always_inline)) bool walk_arrive(struct native *e, struct walk *w,
							      bool link)
{
	uint64_t ra = link ? load(w->ra_at) & ~w->pac_mask : load(w->ra_at);
	uint64_t bp = load(w->bp_at), sp = w->cfa, address = ra - 1;

	w->bp = bp;
	w->sp = sp;
	if (__builtin_expect(address >> 48 || w->n == w->max, 0)) {
		native_push(w, ra, w->flags);
		return false;
	}
	w->frames[w->n++] = ra | w->flags;
	walk_look_up(e, w, address);
	if (__builtin_expect(native_is_marked(w->marks, sp), 0))
		native_trail_meet(w);
	return true;
}

/* Finds where the caller of the frame that the walk stands on is.  false: ended. */
static inline __attribute__((always_inline)) bool walk_leave(struct native *e, struct walk *w,
							     bool link)
{
	rule_t rule;

	if (__builtin_expect(w->met != 0, 0) && native_trail_end(e, w))
		return false;
	if (__builtin_expect(!rule_cache_at(w->entry, &w->key, w->address, &rule), 0))
		rule = native_rule(e, w, w->address);
	if (__builtin_expect((w->flags & UW_FRAME_GUESSED) || (rule & RULE_GUESSED), 0))
		return walk_visit_other(e, w, rule);
	if (__builtin_expect(walk_apply_to(w, rule, w->sp, w->bp, link), 1))
		return true;
	return native_other(e, w, rule & RULE_MASK);
}

/* A return address of 0 that the frame pointer led to.  In code that is known to have no CFI that is
 * the end of its chain.  Code of no file has been called by code that has one, and its rbp, or that
 * of code that cannot be read, may be any number: what is 0 there ends nothing. */
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
		return walk_end(w, UW_FAILED, UW_TOO_DEEP, pc);
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
	w->full_at = 0;
	w->ahead_address = 0;
	if (e->chunk_owner == w)
		e->chunk_owner = NULL;
	if (native_push(w, uw_snapshot_pc(snapshot), 0) == STEP_ENDED)
		return false;
	(void)walk_plain_from(w);
	w->flags = UW_FRAME_CALLER;
	native_trail_begin(e, w);
	walk_look_up(e, w, walk_lookup(w));
	return true;
}

static void walk_finish(struct native *e, struct walk *w)
{
	w->res->n_frames = w->n;
	e->stats.frames += w->n;
	native_trail_note(e, w);
	if (e->n_holes)
		native_hole_note(e, w);
}

static inline void prefetch_regs(const struct uw_snapshot *snapshot, bool link)
{
	if (snapshot->regs)
		__builtin_prefetch(&snapshot->regs[link ? (int)UW_ARM64_SP : (int)UW_X86_SP]);
}

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
		native_ahead(e, active, n_active);
	while (n_active) {
		for (size_t i = 0; i < n_active;) {
			struct walk *w = active[i];

			if (walk_leave(e, w, link)) {
				i++;
				continue;
			}
			walk_finish(e, w);
			if (!walk_next(e, w, b, link))
				active[i] = active[--n_active];
		}
		for (size_t i = 0; i < n_active;) {
			struct walk *w = active[i];

			if (walk_arrive(e, w, link)) {
				i++;
				continue;
			}
			walk_finish(e, w);
			if (walk_next(e, w, b, link))
				i++;
			else
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

/* Samples are of one machine mostly; those of another have a turn of their own. */
static int native_unwind(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
			 struct uw_result *results)
{
	struct native *e = container_of(engine, struct native, engine);
	struct batch batch = {.snapshots = snapshots, .results = results, .n = n};

	e->no_memory = false;
	e->chunk_owner = NULL;
	e->last_space = NULL;
	native_batch_x86_64(e, &batch);
	if (batch.others) {
		batch.at = 0;
		native_batch_aarch64(e, &batch);
	}
	return e->no_memory ? fail(-ENOMEM) : 0;
}

static void native_free(struct uw_engine *engine)
{
	struct native *e = container_of(engine, struct native, engine);

	native_forget_indexes(e);
	table_deinit(&e->indexes);
	native_trails_free(e);
	native_holes_free(e);
	rule_caches_deinit(&e->by_pc, 2);
	free(e->chunk);
	free(e);
}

static int native_new(struct uw_engine **ret_engine)
{
	struct native *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fail(-ENOMEM);
	e->engine.ops = &uw_native_ops;
	r = rule_caches_init((struct rule_cache *const[]){&e->by_pc, &e->by_vaddr}, 2);
	if (r < 0) {
		native_free(&e->engine);
		return trace(r);
	}
	*ret_engine = &e->engine;
	return 0;
}

/* Rules and trails hold no pointer into a module and stay: a module that is dropped to save memory
 * and loaded again is the same image, or is not loaded (uw_module_check).  But one that could not
 * be read and now can has guesses cached; those are keyed by process, hence all of them go. */
static void native_forget(struct uw_engine *engine, const struct uw_module *module)
{
	struct native *e = container_of(engine, struct native, engine);

	e->last_space = NULL;
	if (!module || e->not_readable) {
		rule_cache_clear(&e->by_pc);
		for (size_t i = 0; i < NATIVE_USERS; i++) /* by_vaddr has more now */
			e->users[i].key = 0;
		native_trails_clear(e);
		native_holes_clear(e);
		e->not_readable = false;
	}
	if (module) {
		native_forget_index(e, uw_module_serial(module));
	} else {
		rule_cache_clear(&e->by_vaddr);
		native_forget_indexes(e);
	}
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
				  (e->chunk ? NATIVE_CHUNK : 0);
}

const struct uw_engine_ops uw_native_ops = {
	.new = native_new,
	.free = native_free,
	.unwind = native_unwind,
	.forget = native_forget,
	.stats = native_stats,
};
