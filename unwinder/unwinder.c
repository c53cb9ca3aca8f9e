/* unwinder.c - see unwinder.h.  The table of the engines, the names of engines, reasons and outcomes, and the fallback:
 * frame pointers in place of unwind information that fails.
 *
 *   stacks of a module that fail          a stack that failed: one frame, or all, by frame pointers
 *   more than 5 %, at least 20            ... ─► ... ─► f ─► start_thread ─► clone3
 *           │                                                 └─ known root of the thread ─┘
 *           └─ 95 % of these walks reach the known root: the module is switched
 *
 * The known root is the outermost frames of the thread's last whole stack, else of one of its process.  From the switch on a
 * stack that fails in the module is completed by a walk of frame pointers, where the walk of this very stack reaches the root.  Its frames
 * are marked as guessed, and the result as `by_fp`.
 *
 * Stacks that do not fail cost a few stores for the root, and while a module is suspected, a look at the mappings of each
 * frame of one stack in 16. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/engine.h"
#include "symbols/image.h"

static const struct {
	const char *name;
	const struct uw_engine_ops *ops;
} engines[UW_ENGINE_COUNT] = {
	[UW_ENGINE_NATIVE] = {"native", &uw_native_ops},
	[UW_ENGINE_LIBUNWIND] = {"libunwind", &uw_libunwind_ops},
	[UW_ENGINE_LIBDW] = {"libdw", &uw_libdw_ops},
	[UW_ENGINE_FP] = {"fp", &uw_fp_ops},
	[UW_ENGINE_FP_COPY] = {"fp-copy", &uw_fp_copy_ops},
};

const char *uw_engine_name(enum uw_engine_kind kind)
{
	return (unsigned)kind < UW_ENGINE_COUNT ? engines[kind].name : "unknown";
}

const char *uw_reason_name(enum uw_reason reason)
{
	static const char *const names[UW_REASON_COUNT] = {
		[UW_OK] = "ok",
		[UW_NO_USER_STATE] = "no-user-state",
		[UW_ABI] = "abi",
		[UW_NO_MODULE] = "no-module",
		[UW_UNREADABLE] = "unreadable",
		[UW_NO_UNWIND_INFO] = "no-unwind-info",
		[UW_BAD_CFI] = "bad-cfi",
		[UW_BAD_RETURN] = "bad-return",
		[UW_NO_PROGRESS] = "no-progress",
		[UW_MEMORY] = "memory",
		[UW_TOO_DEEP] = "too-deep",
		[UW_UNRESPONSIVE] = "unresponsive",
		[UW_THINNED] = "thinned",
	};

	return (unsigned)reason < UW_REASON_COUNT ? names[reason] : "unknown";
}

const char *uw_outcome_name(enum uw_outcome outcome)
{
	static const char *const names[] = {
		[UW_WHOLE] = "whole",
		[UW_CUT] = "cut",
		[UW_FAILED] = "failed",
		[UW_PENDING] = "pending",
	};

	return (unsigned)outcome < ARRAY_SIZE(names) ? names[outcome] : "unknown";
}

/* ---- the fallback ---- */

enum {
	ROOTS = 256,
	ROOT_FRAMES = 4,
	SUSPECTS = 8,
	JUDGED_LEAST = 20,
	JUDGED_MOST = 64, /* then halved: the first ones may have been judged by ld.so's root */
	LOOK_EACH = 16,
	MEET_FRAMES = 32, /* the outermost ones: a stack of a target may have thousands */
	MEET_WALK = 512,
};

/* The outermost frames of a whole stack, the root first. */
struct known_root {
	uint32_t thread, key;
	uint32_t n;
	uint64_t frames[ROOT_FRAMES];
};

/* A module with stacks that failed in it. */
struct suspect {
	uint32_t serial;
	bool switched;
	uint64_t stacks, failed;
	uint64_t judged; /* of the last failed: those with a known root */
	uint64_t proved; /* of these: frame pointers reach it */
};

struct uw_fallback {
	struct known_root threads[ROOTS], spaces[ROOTS];
	struct suspect suspects[SUSPECTS];
	size_t n_suspects;
	unsigned turn;
	uint64_t walked[UW_MAX_FRAMES], built[UW_MAX_FRAMES];
};

/* -ENOMEM. */
static int fallback_new(struct uw_fallback **ret_fallback)
{
	*ret_fallback = calloc(1, sizeof(**ret_fallback));
	return *ret_fallback ? 0 : fail(-ENOMEM);
}

/* ---- known roots ---- */

static struct known_root *root_place(struct known_root *roots, uint32_t thread, uint32_t key)
{
	return &roots[hash_u64((uint64_t)key << 32 | thread) % ROOTS];
}

static void note_root(struct uw_fallback *f, const struct uw_snapshot *s,
		      const struct uw_result *res)
{
	struct known_root root = {.thread = s->thread, .key = s->space->key};

	for (; root.n < ROOT_FRAMES && root.n + 1 < res->n_frames; root.n++)
		root.frames[root.n] = res->frames[res->n_frames - 1 - root.n];
	if (!root.n)
		return;
	*root_place(f->threads, root.thread, root.key) = root;
	root.thread = 0;
	*root_place(f->spaces, 0, root.key) = root;
}

static const struct known_root *find_root(struct uw_fallback *f, const struct uw_snapshot *s)
{
	const struct known_root *own = root_place(f->threads, s->thread, s->space->key);
	const struct known_root *any = root_place(f->spaces, 0, s->space->key);

	if (s->thread && own->n && own->thread == s->thread && own->key == s->space->key)
		return own;
	return any->n && any->key == s->space->key ? any : NULL;
}

/* ---- a walk by frame pointers ---- */

/* Frame pointer and stack pointer of frame @i of @res: the same walk, with room for the frames inside of it. */
static bool registers_at(struct uw_engine *engine, const struct uw_snapshot *s, uint32_t i,
			 uint64_t *ret_fp, uint64_t *ret_sp)
{
	struct uw_result res = {.frames = engine->fallback->walked, .max_frames = i};

	*ret_fp = s->regs[UW_X86_BP];
	*ret_sp = uw_snapshot_sp(s);
	if (!i)
		return true;
	if (engine->ops->unwind(engine, s, 1, &res) < 0 || res.reason != UW_TOO_DEEP)
		return false;
	*ret_fp = res.fp;
	*ret_sp += res.stack_used;
	return true;
}

/* One frame by its frame pointer: frame @failed of @res has no caller by unwind information.  The engine goes on from the
 * caller that the frame pointer leads to.  Returns as build() does; *ret_pending: a module that has to be loaded before. */
static uint32_t build_by_one(struct uw_engine *engine, const struct uw_snapshot *s,
			     const struct uw_result *res, uint32_t failed,
			     const struct known_root *root, struct uw_module **ret_pending)
{
	struct uw_fallback *f = engine->fallback;
	struct uw_result walk = {.frames = f->walked, .max_frames = UW_MAX_FRAMES - failed - 1};
	uint64_t regs[UW_X86_COUNT], fp, sp, used, ra;
	struct uw_snapshot caller = *s;

	/* The frame pointer of the failed frame lies beyond it, in the copy. */
	if (s->arch != UW_ARCH_X86_64 || s->space->script || !walk.max_frames ||
	    (failed == res->n_frames - 1 && res->stack_used >= s->stack_len) ||
	    !registers_at(engine, s, failed, &fp, &sp) || fp < sp || fp & 7)
		return 0;
	memcpy(regs, s->regs, sizeof(regs));
	if (!uw_stack_word(s, fp, &regs[UW_X86_BP]) || !uw_stack_word(s, fp + 8, &regs[UW_X86_IP]))
		return 0;
	ra = regs[UW_X86_IP]--; /* a pc in the call */
	regs[UW_X86_SP] = fp + 16;
	used = fp + 16 - uw_snapshot_sp(s);
	if (used & 7)
		return 0;
	caller.regs = regs;
	caller.stack += used;
	caller.stack_len -= (uint32_t)used;
	caller.thread = 0;
	caller.n_python = 0;
	if (engine->ops->unwind(engine, &caller, 1, &walk) < 0)
		return 0;
	if (walk.outcome == UW_PENDING)
		*ret_pending = walk.pending;
	if (walk.outcome != UW_WHOLE ||
	    uw_frame_pc(walk.frames[walk.n_frames - 1]) != uw_frame_pc(root->frames[0]))
		return 0;
	memcpy(f->built, res->frames, (failed + 1) * sizeof(*f->built));
	walk.frames[0] = ra;
	for (uint32_t i = 0; i < walk.n_frames; i++)
		f->built[failed + 1 + i] = walk.frames[i] | UW_FRAME_CALLER | UW_FRAME_GUESSED;
	return failed + 1 + walk.n_frames;
}

/* The part of @frames that the walk has too: *ret_own is the outermost frame of both, *ret_other where the walk has it. */
static bool meet(const uint64_t *frames, uint32_t n, const uint64_t *walk, uint32_t n_walk,
		 uint32_t *ret_own, uint32_t *ret_other)
{
	for (uint32_t i = n; i-- > 0 && n - i <= MEET_FRAMES;) {
		for (uint32_t k = 0; k < n_walk && k < MEET_WALK; k++) {
			if (uw_frame_pc(frames[i]) != uw_frame_pc(walk[k]))
				continue;
			*ret_own = i;
			*ret_other = k;
			return true;
		}
	}
	return false;
}

/* The stack of the sample by frame pointers, up to the known root, in f->built; the frames that the engine found come
 * first, as far as the walk meets them.  Returns how many, 0: the walk does not reach the root. */
static uint32_t build(struct uw_fallback *f, const struct uw_snapshot *s,
		      const struct uw_result *res, const struct known_root *root)
{
	struct uw_result walk = {.frames = f->walked, .max_frames = UW_MAX_FRAMES};
	uint32_t n = 0, own, from, to, at;

	if (uw_fp_copy_ops.unwind(NULL, s, 1, &walk) < 0)
		return 0;
	/* The outermost frame of the walk that the root has. */
	if (!meet(f->walked, walk.n_frames, root->frames, root->n, &to, &at) || !to)
		return 0;
	if (meet(res->frames, res->n_frames, f->walked, to, &own, &from)) {
		for (; n <= own; n++)
			f->built[n] = res->frames[n];
		from++;
	} else {
		from = 0;
	}
	for (; from <= to && n < UW_MAX_FRAMES; from++)
		f->built[n++] = f->walked[from] | (from ? UW_FRAME_GUESSED : 0);
	for (; at-- > 0 && n < UW_MAX_FRAMES;)
		f->built[n++] = root->frames[at] | UW_FRAME_GUESSED;
	return n;
}

/* ---- modules ---- */

static uint32_t serial_at(const struct uw_snapshot *s, uint64_t frame)
{
	const struct uw_map *map = frame & (UW_FRAME_METHOD | UW_FRAME_SCRIPT)
					   ? NULL
					   : uw_space_find(s->space, uw_frame_lookup(frame));

	return map && map->module ? uw_module_serial(map->module) : 0;
}

static void count_stack(struct uw_fallback *f, const struct uw_snapshot *s,
			const struct uw_result *res)
{
	bool seen[SUSPECTS] = {false};

	for (uint32_t i = 0; i < res->n_frames; i++) {
		uint32_t serial = serial_at(s, res->frames[i]);

		for (size_t k = 0; serial && k < f->n_suspects; k++)
			seen[k] |= f->suspects[k].serial == serial;
	}
	for (size_t k = 0; k < f->n_suspects; k++)
		f->suspects[k].stacks += seen[k] ? LOOK_EACH : 0;
}

static struct suspect *find_suspect(struct uw_fallback *f, uint32_t serial)
{
	for (size_t i = 0; i < f->n_suspects; i++)
		if (f->suspects[i].serial == serial)
			return &f->suspects[i];
	return NULL;
}

/* Of many modules those with the most failures are kept. */
static struct suspect *suspect_of(struct uw_fallback *f, uint32_t serial)
{
	struct suspect *known = find_suspect(f, serial), *least = &f->suspects[0];

	if (known)
		return known;
	for (size_t i = 0; i < f->n_suspects; i++)
		if (f->suspects[i].failed < least->failed)
			least = &f->suspects[i];
	if (f->n_suspects < SUSPECTS)
		least = &f->suspects[f->n_suspects++];
	*least = (struct suspect){.serial = serial};
	return least;
}

static bool is_of_unwind_information(const struct uw_result *res)
{
	return res->outcome == UW_FAILED &&
	       (res->reason == UW_NO_UNWIND_INFO || res->reason == UW_BAD_CFI ||
		res->reason == UW_BAD_RETURN || res->reason == UW_NO_PROGRESS ||
		res->reason == UW_NO_MODULE || res->reason == UW_MEMORY);
}

/* The frame that has no caller; where nothing is mapped there, the frame inside of it led astray. */
static uint32_t failed_frame(const struct uw_snapshot *s, const struct uw_result *res)
{
	uint32_t last = res->n_frames - 1;

	return last && !serial_at(s, res->frames[last]) ? last - 1 : last;
}

/* Frame pointers rarely help in the module: few of its stacks are tried, as each costs two walks. */
static bool is_hopeless(const struct suspect *s)
{
	return s->judged >= JUDGED_LEAST && s->proved * 4 < s->judged && s->failed % LOOK_EACH;
}

static void look_failed(struct uw_engine *engine, const struct uw_snapshot *s,
			struct uw_result *res)
{
	struct uw_fallback *f = engine->fallback;
	uint32_t failed = failed_frame(s, res), serial = serial_at(s, res->frames[failed]), n = 0;
	const struct known_root *root = find_root(f, s);
	struct uw_module *pending = NULL;
	struct suspect *suspect;

	if (!serial)
		return;
	suspect = find_suspect(f, serial);
	if (suspect && is_hopeless(suspect)) {
		suspect->stacks++;
		suspect->failed++;
		return;
	}
	if (root)
		n = build_by_one(engine, s, res, failed, root, &pending);
	if (pending) {
		res->pending = pending;
		uw_result_end(res, UW_PENDING, UW_OK, 0);
		return;
	}
	if (root && !n)
		n = build(f, s, res, root);
	if (uw_memory_wanted(s->space->memory))
		return; /* the result is void, and comes again */
	suspect = suspect_of(f, serial);
	suspect->stacks++;
	suspect->failed++;
	if (suspect->judged >= JUDGED_MOST) {
		suspect->judged /= 2;
		suspect->proved /= 2;
	}
	suspect->judged += root != NULL;
	suspect->proved += n != 0;
	suspect->switched |= suspect->judged >= JUDGED_LEAST &&
			     suspect->failed * 20 > suspect->stacks &&
			     suspect->proved * 20 >= suspect->judged * 19;
	if (!suspect->switched || !n || n > res->max_frames)
		return;
	memcpy(res->frames, f->built, n * sizeof(*res->frames));
	res->n_frames = n;
	res->by_fp = true;
	uw_result_end(res, UW_WHOLE, UW_OK, 0);
}

/* A result of engine native: counts it, and completes it if it failed in a module that is switched. */
static void fallback_look(struct uw_engine *engine, const struct uw_snapshot *s,
			  struct uw_result *res)
{
	struct uw_fallback *f = engine->fallback;

	if (!s->regs || !s->space || !s->space->key || !res->n_frames ||
	    uw_memory_wanted(s->space->memory))
		return;
	if (is_of_unwind_information(res)) {
		look_failed(engine, s, res);
		return;
	}
	if (res->outcome != UW_WHOLE || res->completed)
		return;
	note_root(f, s, res);
	if (f->n_suspects && ++f->turn % LOOK_EACH == 0)
		count_stack(f, s, res);
}

/* ---- engines ---- */

int uw_engine_new(enum uw_engine_kind kind, struct uw_engine **ret_engine)
{
	int r;

	if ((unsigned)kind >= UW_ENGINE_COUNT)
		return fail(-EINVAL);
	r = engines[kind].ops->new (ret_engine);
	return r < 0 ? trace(r) : 0;
}

struct uw_engine *uw_engine_free(struct uw_engine *engine)
{
	if (!engine)
		return NULL;
	free(engine->fallback);
	engine->ops->free(engine);
	return NULL;
}

void uw_engine_set(struct uw_engine *engine, const struct uw_settings *settings)
{
	engine->settings = *settings;
}

int uw_unwind_batch(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		    struct uw_result *results)
{
	int r;

	if (!n)
		return 0;
	r = engine->ops->unwind(engine, snapshots, n, results);
	if (r >= 0 && engine->settings.fallback && !engine->fallback)
		r = fallback_new(&engine->fallback);
	for (size_t i = 0; i < n && r >= 0 && engine->settings.fallback; i++)
		fallback_look(engine, &snapshots[i], &results[i]);
	return r < 0 ? trace(r) : 0;
}

void uw_engine_forget(struct uw_engine *engine, const struct uw_module *module)
{
	if (engine->ops->forget)
		engine->ops->forget(engine, module);
}

void uw_engine_drop(struct uw_engine *engine, struct uw_module *module)
{
	uw_engine_forget(engine, module);
	uw_module_drop_unwind(module);
}

void uw_engine_renew(struct uw_engine *engine, struct uw_module *module)
{
	const struct uw_image *image = uw_module_image(module);

	if (!image || !image->has_separate || !uw_module_wants_separate(module))
		return;
	uw_engine_drop(engine, module);
}

void uw_engine_adopt(struct uw_engine *engine, struct uw_module *module)
{
	/* The first unwinding information of a jitdump replaces what the engine found out by itself. */
	bool first = uw_module_take_first_cfi(module);

	if (uw_module_adopt_unwind(module) || first)
		uw_engine_forget(engine, module);
}

void uw_engine_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	*ret_stats = (struct uw_engine_stats){0};
	if (engine->ops->stats)
		engine->ops->stats(engine, ret_stats);
}
