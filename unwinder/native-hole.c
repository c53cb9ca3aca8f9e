/* native-hole.c - see native.h.  A stack with a copy that ends in the middle of a frame.
 *
 * The kernel copies a stack up to the first page that is not there.  A function with a large frame
 * may never have touched some of its pages, and then its return address is in no copy, for as long
 * as the function runs; a process that is still there may have gone on.  CFI still gives the begin
 * of the caller's frame, and an earlier stack of the thread, taken outside of the function, may
 * have had a frame there:
 *
 *     copy     [f0][f1][F ....              F's pages, never touched     X
 *                             ends here     . . . . . . . . . . . . [ra] [G ....] ... main
 *     noted    of other stacks:                                          [G ....] ... main
 *
 * So the whole stacks of a thread with a function of this kind are noted: for each frame its stack pointer
 * and function, and the place of its caller.  None of those frames is on the stack in hand, so
 * these conditions must hold: a whole page of F lies beyond the copy; the code of the function that
 * was seen at X has exactly one call of F, and that gives the return address; if several functions
 * were seen there, they agree; from there the notes lead to the root.  Otherwise the stack stays as
 * it is. All frames behind F are marked as guessed.
 *
 * Where no function was seen at X yet, and F's module has one call of F in all its code, G is the
 * caller. The CFI of G gives the frame of its own caller, and the search continues there.
 *
 * A note is made by walking the stack again.  So after a stack could not be completed, each stack
 * of its thread is noted for a while, then every 16th. Threads without a function of this kind have no
 * notes, and fewer stacks are noted where the notes were of no use.  A frame that is noted already
 * as it is costs no look at its CFI, and outer frames that the stack noted last had, too, only a look at their words. */
#include <unistd.h>

#include "unwinder/native.h"

enum {
	HOLE_SETS = 128,
	HOLE_WAYS = 16,
	HOLE_EACH = 512, /* stacks noted one by one */
	HOLE_EVERY = 16, /* of the later ones */
	HOLE_LAST = 256,
	HOLE_FRESH = 64,       /* stacks; then all frames of one are noted, for the order of use */
	HOLE_FAILURES_MAX = 5, /* each one that was of no use makes it half as many */
	HOLE_PAGE = 4096,      /* the smallest there is */
	HOLE_CODE_MAX = 64 << 10,
	HOLE_CODE_READ = 4096,
	HOLE_FILES_MAX = 32 << 20,
	HOLE_UNSEEN = 3,
};
#define HOLE_FRAME (UW_FRAME_CALLER | UW_FRAME_GUESSED)

/* A function's frame that has called, wherever in the function.  sp 0: a free place. */
struct hole_note {
	uint64_t sp;
	uint64_t begin;	       /* of the function; of one without CFI the pc */
	uint64_t caller;       /* the frame; 0: this is the root */
	uint64_t caller_begin; /* of that one's function */
	uint32_t size;	       /* to that one's sp */
	uint32_t when;
};

struct native_hole {
	uint64_t used; /* native.holes_used, for the least recently used */
	uint32_t thread, key;
	uint32_t now;	   /* whole stacks of the thread so far, from 1 */
	uint32_t each;	   /* how many more are noted one by one */
	uint32_t failures; /* holes in a row that could not be filled, up to HOLE_FAILURES_MAX */
	uint32_t renewed;  /* the stack of which all frames were noted */
	uint32_t n_last;
	struct native_trail_step
		last[HOLE_LAST]; /* the frames of the stack noted last, from the root */
	struct hole_note notes[HOLE_SETS][HOLE_WAYS]; /* a set has all of a stack pointer */
};

/* ---- threads ---- */

static bool hole_is_for(const struct walk *w)
{
	return w->snapshot->thread && w->snapshot->space->key && !w->machine->link;
}

static struct native_hole *hole_find(const struct native *e, const struct uw_snapshot *s)
{
	for (size_t i = 0; i < e->n_holes; i++)
		if (e->holes[i]->thread == s->thread && e->holes[i]->key == s->space->key)
			return e->holes[i];
	return NULL;
}

/* A new one, or the least recently used.  NULL: no memory. */
static struct native_hole *hole_new(struct native *e, const struct uw_snapshot *s)
{
	struct native_hole *h;

	if (e->n_holes < NATIVE_HOLES) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		e->stats.cache_bytes += sizeof(*h);
		e->holes[e->n_holes++] = h;
	} else {
		h = e->holes[0];
		for (size_t i = 1; i < e->n_holes; i++)
			if (e->holes[i]->used < h->used)
				h = e->holes[i];
		memset(h, 0, sizeof(*h));
	}
	h->thread = s->thread;
	h->key = s->space->key;
	return h;
}

/* A function, by its CFI. */
struct hole_code {
	struct native_place place; /* of the address in it that was looked up */
	uint64_t bias;		   /* address - vaddr */
	uint64_t begin, end;	   /* vaddrs */
};

static bool hole_code(struct native *e, const struct walk *w, uint64_t address,
		      struct hole_code *ret_code)
{
	if (native_place(w, address, &ret_code->place) != NATIVE_PLACE || !ret_code->place.image ||
	    !native_function(e, &ret_code->place, &ret_code->begin, &ret_code->end))
		return false;
	ret_code->bias = address - ret_code->place.vaddr;
	return true;
}

/* ---- notes ---- */

static struct hole_note *hole_set(struct native_hole *h, uint64_t sp)
{
	return h->notes[hash_u64(sp) % HOLE_SETS];
}

static struct hole_note *hole_get(struct native_hole *h, uint64_t sp, uint64_t begin)
{
	struct hole_note *set = hole_set(h, sp);

	for (size_t i = 0; sp && i < HOLE_WAYS; i++)
		if (set[i].sp == sp && set[i].begin == begin)
			return &set[i];
	return NULL;
}

/* @note is the one of this frame that there is, or NULL. */
static void hole_put(struct native_hole *h, struct hole_note *note, const struct hole_note *new)
{
	struct hole_note *set = hole_set(h, new->sp);

	for (size_t i = 0; !note && i < HOLE_WAYS; i++)
		if (!set[i].sp)
			note = &set[i];
	if (!note) {
		note = &set[0];
		for (size_t i = 1; i < HOLE_WAYS; i++)
			if (set[i].when < note->when)
				note = &set[i];
	}
	*note = *new;
}

static uint64_t hole_begin(struct native *e, const struct walk *w, uint64_t frame)
{
	struct hole_code code;

	return hole_code(e, w, uw_frame_lookup(frame), &code) ? code.bias + code.begin
							      : uw_frame_pc(frame);
}

/* Whether this stack is to be noted. */
static bool hole_is_due(struct native_hole *h)
{
	h->now++;
	if (!h->each)
		return !(h->now % (HOLE_EVERY << h->failures));
	h->each--;
	return true;
}

/* Is the walk at @step, with @outer frames behind it, from there on the stack that was noted last?  The registers and the
 * words that led to the outer frames are the same then. */
static bool hole_is_last(const struct walk *w, const struct native_hole *h,
			 const struct native_trail_step *step, uint32_t outer)
{
	const struct native_trail_step *at = &h->last[outer];
	uint64_t differ;

	if (outer >= h->n_last || at->sp != step->sp || (at->by_bp && at->bp != step->bp) ||
	    at->frame != step->frame || step->sp < w->base ||
	    h->last[0].sp - 8 - w->base >= w->room)
		return false;
	differ = 0;
	for (; at > h->last; at--) {
		differ |= walk_word(w, at[-1].sp - 8) ^ uw_frame_pc(at[-1].frame);
		if (at->slot)
			differ |= walk_word(w, at->slot) ^ at[-1].bp;
	}
	return !differ;
}

/* Notes a frame that has called; *begin: of its function, 0: not looked up.  It becomes the caller's. */
static void hole_note_frame(struct native *e, const struct walk *w, struct native_hole *h,
			    struct hole_note *note, uint64_t frame, uint64_t *begin)
{
	struct hole_note *old;

	note->begin = *begin ? *begin : hole_begin(e, w, frame);
	old = hole_get(h, note->sp, note->begin);
	if (old && old->caller == note->caller && old->size == note->size) {
		old->when = h->now; /* as it was: most are */
		*begin = old->caller_begin;
		return;
	}
	*begin = note->caller_begin = note->caller ? hole_begin(e, w, note->caller) : 0;
	hole_put(h, old, note);
}

/* As trail_needs() (native.c): finds out where rbp matters, for the new frames [@from, @n). */
static void hole_needs(struct native_hole *h, uint32_t from, uint32_t n)
{
	bool needed = n && from && h->last[from - 1].by_bp;

	for (uint32_t i = from; i < n; i++) {
		struct native_trail_step *s = &h->last[i];

		if (s->slot && !needed)
			s->slot = 0;
		needed = s->by_bp || (needed && !s->slot);
		s->by_bp = needed;
	}
}

/* Notes the frames of a walk.  Returns how many of h->last, from the root, are its own as well; < 0: not all could be noted. */
static int hole_note_frames(struct native *e, const struct walk *w, struct native_hole *h)
{
	struct native_trail_step step = {.sp = w->plain_sp, .bp = w->plain_bp}, next;
	uint64_t begin = 0;

	for (uint32_t i = w->plain_n - 1, outer = w->n - w->plain_n;; i++, outer--, step = next) {
		struct hole_note note = {.sp = step.sp, .when = h->now};
		int r;

		step.frame = w->frames[i];
		if (hole_is_last(w, h, &step, outer))
			return (int)outer + 1;
		r = native_trail_step(e, w, &step, &next);
		if (r < 0 ||
		    (r == 1 && (!outer || next.sp - step.sp > UINT32_MAX ||
				walk_word(w, next.sp - 8) != uw_frame_pc(w->frames[i + 1]))))
			return -1;
		if (outer < HOLE_LAST)
			h->last[outer] = step;
		note.caller = r ? w->frames[i + 1] : 0;
		note.size = r ? (uint32_t)(next.sp - step.sp) : 0;
		/* The innermost has called no function: its stack pointer may be about to change. */
		if (step.frame & UW_FRAME_CALLER)
			hole_note_frame(e, w, h, &note, step.frame, &begin);
		if (!r)
			return outer ? -1 : 0;
	}
}

/* The frames that the stack noted last has as well are not noted again: their notes are the latest at their places.  But
 * for the order of use they are at times. */
void native_hole_note(struct native *e, const struct walk *w)
{
	struct native_hole *h = hole_is_for(w) ? hole_find(e, w->snapshot) : NULL;
	int kept;

	if (!h || w->res->outcome != UW_WHOLE || w->res->completed || !hole_is_due(h))
		return;
	if (h->now - h->renewed >= HOLE_FRESH) {
		h->renewed = h->now;
		h->n_last = 0;
	}
	kept = hole_note_frames(e, w, h);
	h->n_last = kept < 0 ? 0 : (uint32_t)min_u64(w->n - w->plain_n + 1, HOLE_LAST);
	hole_needs(h, (uint32_t)kept, h->n_last);
}

/* ---- the calls of a function ---- */

struct hole_calls {
	uint64_t to, ra; /* vaddrs; of the last that was found */
	unsigned n;
};

/* The chance that bytes inside an instruction look like this call is one in 2^40. */
static void hole_count(struct hole_calls *calls, const uint8_t *code, size_t len, uint64_t vaddr)
{
	for (size_t i = 0; i + 5 <= len; i++) {
		const uint8_t *at = memchr(code + i, 0xe8, len - 4 - i);
		int32_t distance;
		uint64_t ra;

		if (!at)
			return;
		i = (size_t)(at - code);
		ra = vaddr + i + 5;
		memcpy(&distance, at + 1, sizeof(distance));
		if (ra + (uint64_t)(int64_t)distance != calls->to)
			continue;
		calls->ra = ra;
		calls->n++;
	}
}

/* One function's code.  false: it cannot be read, or is too much. */
static bool hole_scan(const struct walk *w, const struct hole_code *from, struct hole_calls *calls)
{
	uint8_t code[HOLE_CODE_READ];
	uint64_t end = from->end;

	if (end - from->begin > HOLE_CODE_MAX)
		return false;
	/* The pieces overlap by one byte less than a call has. */
	for (uint64_t at = from->begin; at + 5 <= end; at += HOLE_CODE_READ - 4) {
		size_t len = min_u64(end - at, HOLE_CODE_READ);

		if (native_code(w, from->bias + at + 1, 1, len - 1, code) != len)
			return false;
		hole_count(calls, code, len, at);
	}
	return true;
}

/* A whole module's, out of its file.  Some milliseconds, hence only where files are read in place,
 * and no more than HOLE_FILES_MAX in all. */
static bool hole_scan_file(struct native *e, const struct uw_image *image, struct hole_calls *calls)
{
	uint64_t left = HOLE_FILES_MAX - e->hole_files;

	for (size_t i = 0; i < image->n_segments; i++) {
		const struct uw_segment *s = &image->segments[i];

		if (s->exec && s->filesz > left)
			return false;
		left -= s->exec ? s->filesz : 0;
	}
	if (image->fd < 0)
		return false;
	if (!native_chunk(e))
		return false;
	e->hole_files = HOLE_FILES_MAX - left;
	e->chunk_owner = NULL;
	for (size_t i = 0; i < image->n_segments; i++) {
		const struct uw_segment *s = &image->segments[i];

		for (uint64_t at = 0; s->exec && at + 5 <= s->filesz; at += NATIVE_CHUNK - 4) {
			size_t len = min_u64(s->filesz - at, NATIVE_CHUNK);

			if (pread(image->fd, e->chunk, len, (off_t)(s->offset + at)) !=
			    (ssize_t)len)
				return false;
			hole_count(calls, e->chunk, len, s->vaddr + at);
		}
	}
	return true;
}

/* Where the one call of the function @to in @from, NULL: in all of its module, returns to: an
 * address.  0: there is none, or several, or the code cannot be read.  Looked for once. */
static uint64_t hole_call(struct native *e, const struct walk *w, const struct hole_code *from,
			  const struct hole_code *to)
{
	struct hole_calls calls = {.to = to->begin};
	uint64_t begin = from ? from->begin : 0;
	uint32_t serial = uw_module_serial(to->place.map->module);
	uint64_t hash = hash_u64(begin ^ hash_u64(to->begin ^ (uint64_t)serial << 32));
	/* Two functions of one stack may have one place. */
	struct native_call *pair = &e->calls[hash % NATIVE_CALLS & ~1ull], *call = NULL;

	for (size_t i = 0; i < 2 && !call; i++)
		if (pair[i].serial == serial && pair[i].begin == begin && pair[i].to == to->begin)
			call = &pair[i];
	if (!call) {
		if (!(from ? hole_scan(w, from, &calls)
			   : hole_scan_file(e, to->place.image, &calls)))
			return 0;
		e->hole_scans++;
		pair[1] = pair[0];
		call = &pair[0];
		*call = (struct native_call){begin, to->begin, calls.n == 1 ? calls.ra : 0, serial};
	}
	return call->ra ? to->bias + call->ra : 0;
}

uint64_t native_only_call(struct native *e, const struct walk *w, uint64_t from, uint64_t to)
{
	struct hole_code caller, callee;

	if (!hole_code(e, w, to, &callee) || !hole_code(e, w, from, &caller) ||
	    caller.place.map->module != callee.place.map->module || caller.bias != callee.bias)
		return 0;
	return hole_call(e, w, &caller, &callee);
}

/* ---- across ---- */

/* Does the copy end at a page that is not there, with the walk's frame going on beyond that page? */
static bool hole_is_one(const struct walk *w, uint64_t cfa)
{
	uint64_t end = w->base + w->snapshot->stack_len;

	return hole_is_for(w) && !w->snapshot->stack_full && !(end % HOLE_PAGE) && w->sp < end &&
	       cfa - 8 >= end + HOLE_PAGE;
}

/* The frames noted at @cfa, of functions that call @callee: returns whether they agree on its return
 * address, *ret_ra, 0 without frames there; *ret_note is the latest. */
static bool hole_seen(struct native *e, const struct walk *w, struct native_hole *h,
		      const struct hole_code *callee, uint64_t cfa, uint64_t *ret_ra,
		      const struct hole_note **ret_note)
{
	const struct hole_note *set = hole_set(h, cfa);
	struct hole_code code;
	uint64_t ra;

	*ret_ra = 0;
	for (size_t i = 0; i < HOLE_WAYS; i++) {
		if (set[i].sp != cfa || !hole_code(e, w, set[i].begin, &code) ||
		    code.place.map->module != callee->place.map->module ||
		    code.bias != callee->bias)
			continue;
		ra = hole_call(e, w, &code, callee);
		if (ra && *ret_ra && ra != *ret_ra)
			return false;
		if (!ra || (*ret_ra && set[i].when <= (*ret_note)->when))
			continue;
		*ret_ra = ra;
		*ret_note = &set[i];
	}
	return true;
}

/* From @note, the frame pushed last, on to the root.  false: the notes end before it, or there is no
 * room. */
static bool hole_follow(struct walk *w, struct native_hole *h, const struct hole_note *note,
			uint32_t n)
{
	while (note && note->caller) {
		if (n == w->max)
			return false;
		w->frames[n++] = note->caller | HOLE_FRAME;
		note = hole_get(h, note->sp + note->size, note->caller_begin);
	}
	if (note)
		w->n = n;
	return note;
}

/* Finds the frames behind the walk's, with the caller at @cfa. A function that was never seen is
 * accepted where it alone calls: its own caller was seen at the place that its CFI gives. */
static bool hole_fill(struct native *e, struct walk *w, struct native_hole *h, uint64_t cfa)
{
	const struct hole_note *note = NULL;
	struct hole_code callee;
	struct cfi_fde fde;
	struct cfi_row row;
	uint32_t n = w->n;
	uint64_t ra, address = walk_lookup(w);

	for (unsigned unseen = 0; unseen <= HOLE_UNSEEN && n < w->max; unseen++) {
		if (!hole_code(e, w, address, &callee) ||
		    !hole_seen(e, w, h, &callee, cfa, &ra, &note))
			return false;
		if (ra) {
			w->frames[n++] = ra | HOLE_FRAME;
			return hole_follow(w, h, note, n);
		}
		ra = hole_call(e, w, NULL, &callee);
		if (!ra || !hole_code(e, w, ra - 1, &callee) ||
		    native_row(e, &callee.place, 0, &fde, &row) != CFI_OK ||
		    row.cfa.where == CFI_VAL_EXPRESSION || row.cfa_register != w->machine->sp ||
		    row.cfa.value <= 0)
			return false;
		w->frames[n++] = ra | HOLE_FRAME;
		address = ra - 1;
		cfa += (uint64_t)row.cfa.value;
	}
	return false;
}

void native_hole_cross(struct native *e, struct walk *w, uint64_t cfa)
{
	struct native_hole *h;

	if (!hole_is_one(w, cfa))
		return;
	h = hole_find(e, w->snapshot);
	if (!h)
		h = hole_new(e, w->snapshot);
	if (!h)
		return; /* without memory there are no notes, and that is harmless */
	h->used = ++e->holes_used;
	if (!hole_fill(e, w, h, cfa)) {
		h->each = HOLE_EACH >> h->failures;
		h->failures += h->failures < HOLE_FAILURES_MAX;
		return;
	}
	h->failures = 0;
	walk_end(w, UW_WHOLE, UW_OK, 0);
	w->res->completed = true;
	e->stats.completed_stacks++;
}

void native_holes_clear(struct native *e)
{
	for (size_t i = 0; i < e->n_holes; i++) {
		e->holes[i]->n_last = 0;
		memset(e->holes[i]->notes, 0, sizeof(e->holes[i]->notes));
	}
}

void native_holes_free(struct native *e)
{
	for (size_t i = 0; i < e->n_holes; i++)
		free(e->holes[i]);
}
