/* native-deep.c - see native.h.  Stacks that go on beyond their copy: the memory of the process.
 *
 * The process has run on since the sample, but its outer frames mostly have not changed.  A read of
 * them may be torn: the thread returns and calls while it lasts.  So what was found behind the seam,
 * the place where the walk leaves the copy, stands only when all of this holds:
 *
 *     copy   |..........[256 bytes][sp of the frame .. 256 bytes]| needed
 *     process           [ same with the read, and right after it]  [ up to the thread's root in one piece, at most 1 MB; where that
 *                                                                    is not known 64 KB pieces; 8 MB in all ...
 *
 *     each frame behind has unwind information, or is marked as guessed; its address follows a call;
 *     a direct call leads to the function inside of it (native-edge.c); stack pointers grow; the walk ends at a
 *     root, the one that stacks of this thread ended at before
 *
 * Otherwise the stack ends at the seam, as if the memory could not be read.
 *
 * Below the stack pointer memory keeps what was there.  A thread that has returned from all of the stack in
 * hand, and is now in other calls, leaves an old part and a new part that may fit together by chance.  No
 * byte of the copy shows that.  So the frames behind the seam are marked as guessed where the read comes late
 * (uw_snapshot.time), and where the thread did not have the same frames before the sample, as it was read then:
 *
 *     read  A A A A         sample  read  A A A B      A A A B were not there before the sample: guessed
 *     read  B B B      sample  read  B B B B B         the last is new: guessed; next time it is proved
 *
 * The bytes at the seam may be locals of a function that still runs.  Then they have changed although its
 * frame has not: a copy ends in the middle of a large frame at a page that was never touched.  In
 * that case the return address is the proof: it must follow a direct call of this function, and the
 * frames behind it are guessed. */
#include <time.h>

#include "unwinder/native.h"

/* The bytes of the copy around the frame that the walk stands on: addresses. */
static bool deep_window(const struct walk *w, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t at = w->sp - w->base, len = w->snapshot->stack_len, to;

	if (!w->snapshot->space->memory || len < 64)
		return false;
	at = at > len ? len : at;
	to = min_u64(at + NATIVE_OVERLAP, len);
	*ret_from = w->base + (at > NATIVE_OVERLAP ? at - NATIVE_OVERLAP : 0);
	*ret_to = w->base + to;
	return true;
}

static bool deep_same(const struct walk *w, uint64_t from, uint64_t to, const uint8_t *now)
{
	return !memcmp(now, w->snapshot->stack + (from - w->base), to - from);
}

/* Does the process still have them? */
static bool deep_matches(const struct walk *w, uint64_t from, uint64_t to)
{
	struct uw_memory *memory = w->snapshot->space->memory;
	uint8_t now[2 * NATIVE_OVERLAP];

	return memory->read(memory, from, now, to - from) == (ssize_t)(to - from) &&
	       deep_same(w, from, to, now);
}

static struct native_root *deep_root(struct native *e, const struct walk *w)
{
	uint64_t key = (uint64_t)w->snapshot->space->key << 32 | w->snapshot->thread;

	return &e->roots[hash_u64(key) % NATIVE_ROOTS];
}

static bool deep_root_is_of(const struct native_root *root, const struct walk *w)
{
	return root->thread == w->snapshot->thread && root->key == w->snapshot->space->key;
}

static bool chunk_has(const struct native *e, const struct walk *w, uint64_t address, size_t len)
{
	return e->chunk_owner == w && address >= e->chunk_start && e->chunk_len >= len &&
	       address - e->chunk_start <= e->chunk_len - len;
}

uint8_t *native_chunk(struct native *e)
{
	if (!e->chunk)
		e->chunk = malloc(NATIVE_CHUNK_MAX);
	if (!e->chunk)
		e->no_memory = true;
	return e->chunk;
}

/* All up to the thread's root, where that is known: one read is torn less often than several. */
static size_t chunk_want(struct native *e, const struct walk *w, uint64_t address)
{
	const struct native_root *root = deep_root(e, w);
	uint64_t left = deep_root_is_of(root, w) && root->sp > address ? root->sp - address : 0;

	return min_u64(max_u64(left, NATIVE_CHUNK), NATIVE_CHUNK_MAX);
}

/* When the memory of the process was read last, in the clock of the samples: now, where it is not known. */
static uint64_t read_time(const struct native *e, const struct walk *w)
{
	const struct uw_memory *memory = w->snapshot->space->memory; /* NULL: out of reach */
	uint64_t at = memory ? memory->read_at : 0, now;
	int clock = e->engine.settings.clock;

	if (at && clock == CLOCK_MONOTONIC)
		return at;
	now = clock_ns(clock);
	return at ? now - min_u64(now, clock_ns(CLOCK_MONOTONIC) - at) : now;
}

/* ns from the sample to the last read */
static uint64_t read_after(const struct native *e, const struct walk *w)
{
	uint64_t at = read_time(e, w);

	return at - min_u64(at, w->snapshot->time);
}

static void note_read(const struct native *e, const struct walk *w)
{
	if (w->snapshot->time && !w->res->read_after_us)
		w->res->read_after_us =
			(uint32_t)max_u64(min_u64(read_after(e, w) / 1000, UINT32_MAX), 1);
}

static bool chunk_fill(struct native *e, struct walk *w, uint64_t address)
{
	struct uw_memory *memory = w->snapshot->space->memory;
	size_t want = chunk_want(e, w, address);
	ssize_t got;

	if (!native_chunk(e))
		return false;
	w->deep_read += want;
	w->seam_checked = false;
	e->chunk_owner = NULL;
	got = memory->read(memory, address, e->chunk, want);
	/* The last piece of a stack is short, and some readers give all or nothing. */
	for (size_t len = want / 2; got <= 0 && len >= 64; len /= 2)
		got = memory->read(memory, address, e->chunk, len);
	if (got < 8 || (size_t)got > want)
		return false;
	note_read(e, w);
	e->chunk_owner = w;
	e->chunk_start = address;
	e->chunk_len = (uint64_t)got;
	return true;
}

void native_deep_take(struct native *e, struct walk *w, uint64_t address, uint64_t len, bool read)
{
	w->deep_read += len;
	w->seam_checked = true;
	if (read)
		note_read(e, w);
	e->chunk_owner = w;
	e->chunk_start = address;
	e->chunk_len = len;
}

/* The first piece, with the bytes at the seam where they are near, and the same bytes once more right behind it: what the
 * thread does later does not matter. */
static bool chunk_first(struct native *e, struct walk *w, uint64_t address)
{
	uint64_t from, to;

	if (!deep_window(w, &from, &to))
		return false;
	w->seam_from = from;
	w->seam_to = to;
	if (address < from || address + 8 - from > NATIVE_CHUNK / 2)
		w->seam_checked = chunk_fill(e, w, address) && deep_matches(w, from, to);
	else
		w->seam_checked = chunk_fill(e, w, from) && chunk_has(e, w, from, to - from) &&
				  deep_same(w, from, to, e->chunk) && deep_matches(w, from, to);
	if (w->seam_checked)
		return true;
	e->chunk_owner = NULL;
	w->deep_read = 0; /* nothing was used */
	return false;
}

/* Reads the piece that has the bytes at @address. */
static bool chunk_read(struct native *e, struct walk *w, uint64_t address)
{
	if (w->deep_failed || w->deep_read >= NATIVE_DEEP_MAX)
		return false;
	if (w->deep_read)
		return chunk_fill(e, w, address);
	w->deep_failed = !chunk_first(e, w, address);
	return !w->deep_failed;
}

bool native_bytes(struct native *e, struct walk *w, uint64_t address, void *to, size_t len)
{
	const struct uw_snapshot *s = w->snapshot;
	uint64_t at = address - w->base;

	if (s->stack_len >= len && at <= s->stack_len - len) {
		memcpy(to, s->stack + at, len);
		return true;
	}
	if (!chunk_has(e, w, address, len) && !chunk_read(e, w, address & ~7ull))
		return false;
	if (!chunk_has(e, w, address, len))
		return false;
	memcpy(to, e->chunk + (address - e->chunk_start), len);
	return true;
}

bool native_calls_this(struct native *e, struct walk *w, uint64_t ra)
{
	uint64_t pc = walk_lookup(w), begin, end;
	struct native_place place;
	uint8_t code[5];
	int32_t to;

	if (native_code(w, ra, sizeof(code), 0, code) != sizeof(code) || code[0] != 0xe8 ||
	    native_place(w, pc, &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return false;
	memcpy(&to, code + 1, sizeof(to));
	return ra + (uint64_t)(int64_t)to == pc - place.vaddr + begin;
}

bool native_same_frame(struct native *e, struct walk *w, uint64_t ra_at)
{
	uint64_t ra;

	if (w->machine->link || !w->snapshot->space->memory || !w->deep_failed || w->deep_read)
		return false;
	w->deep_failed = false;
	w->deep_read = 1; /* nothing is compared */
	w->seam_to = 0;
	if (native_bytes(e, w, ra_at, &ra, sizeof(ra)) && native_calls_this(e, w, ra)) {
		w->deep_flags = UW_FRAME_GUESSED;
		return true;
	}
	w->deep_failed = true;
	e->chunk_owner = NULL;
	return false;
}

/* ---- the proof ---- */

static void tail_add(struct native_tail *t, uint64_t sp, uint64_t frame)
{
	if (t->n < UW_MAX_FRAMES)
		t->steps[t->n++] = (struct native_tail_step){sp, frame};
}

/* The walk has left its copy: its frames are noted from the last one in the copy on. */
static void tail_begin(struct native *e, const struct walk *w, uint64_t from)
{
	if (!e->tail)
		e->tail = malloc(sizeof(*e->tail));
	e->tail_owner = e->tail ? w : NULL; /* without memory nothing is kept, that is all */
	if (!e->tail || w->n < 2)
		return;
	e->tail->n = 0;
	tail_add(e->tail, from, w->frames[w->n - 2]);
}

void native_deep_seam(struct native *e, struct walk *w, uint64_t from)
{
	if (w->sp - w->base <= w->snapshot->stack_len)
		return;
	if (!w->seam) {
		/* An interrupted frame on another stack: its registers were in the copy. */
		w->seam = w->n - !(w->frames[w->n - 1] & UW_FRAME_SIGNAL);
		w->seam_sp = from;
		tail_begin(e, w, from);
	}
	if (e->tail_owner == w)
		tail_add(e->tail, w->sp, w->frames[w->n - 1]);
}

void native_deep_end(struct walk *w, uint64_t from)
{
	if (w->seam || w->go || w->sp == from || w->sp - w->base <= w->snapshot->stack_len)
		return; /* a root: the step has read nothing */
	w->seam = w->n;
	w->seam_sp = from;
	w->far_cfa = w->sp;
}

/* A walk within its copy has reached the root. */
static void deep_note_root(struct native *e, const struct walk *w)
{
	if (w->res->outcome != UW_WHOLE || w->res->completed || !w->snapshot->thread ||
	    !w->snapshot->space->key)
		return;
	*deep_root(e, w) =
		(struct native_root){w->snapshot->thread, w->snapshot->space->key, w->sp};
}

/* Does the walk end where stacks of its thread end?  Maybe no stack of the thread has ended yet, or only one of a fiber or
 * coroutine, which ends elsewhere. */
static bool deep_root_holds(struct native *e, const struct walk *w)
{
	const struct native_root *root = deep_root(e, w);

	return w->res->completed || root->sp - w->base > NATIVE_DEEP_MAX || !w->snapshot->thread ||
	       !deep_root_is_of(root, w) || root->sp == w->sp;
}

/* Does the address of each frame behind the seam follow a call?  Guessed frames were checked. */
static bool deep_calls_hold(struct native *e, struct walk *w)
{
	for (uint32_t i = w->seam; i < w->n; i++) {
		uint64_t frame = w->frames[i], ra = uw_frame_pc(frame);
		const struct rule_entry *entry;

		if ((frame & (UW_FRAME_CALLER | UW_FRAME_GUESSED | UW_FRAME_SIGNAL)) !=
		    UW_FRAME_CALLER)
			continue;
		entry = rule_cache_find(&e->by_pc, &w->key, ra - 1);
		if (entry && !native_follows_call(e, w, ra, entry->rule & RULE_MASK))
			return false;
	}
	return true;
}

/* Are the bytes at the seam what they were? */
static bool deep_seam_holds(const struct walk *w)
{
	return !w->seam_to || w->seam_checked || deep_matches(w, w->seam_from, w->seam_to);
}

static bool deep_holds(struct native *e, struct walk *w)
{
	const struct uw_result *res = w->res;

	if (res->outcome == UW_CUT && res->reason == UW_TOO_DEEP)
		;
	else if (res->outcome != UW_WHOLE || !deep_root_holds(e, w))
		return false;
	return deep_seam_holds(w) && deep_calls_hold(e, w) && native_edges_hold(e, w, w->seam);
}

/* ---- frames that are kept ----
 *
 * What a thread has proved beyond its copy is kept, from the last of these stacks that had other frames or was deeper
 * (tail), and from an older one that was deeper still.  A later copy that ends in a frame of the tail, at the same stack
 * pointer with the same return address, has the same callers, except where the thread has returned and called in
 * between: they are joined as guesses.  Other copies are joined where known callers lead to a frame of the tail:
 *
 *     copy, inside a large frame of F   |....F     F     ]                     ─► frames of the tail
 *     callers of F, seen at another stack pointer  [F][G][H][ ... ]      moved to the begin of F's caller, then as the tail:
 *                                                                        several for each function
 *     the older tail                     ....[R][R][R][R][R][R]...       from the frame of the copy on, then as the tail */

enum {
	TAIL_DEEPER = 4096, /* bytes, to be worth a new tail */
	TAIL_OLDER = 256    /* uses of tails since the older one was used: it makes room */
};

static struct native_tail *tail_find(struct native *e, const struct walk *w, bool older)
{
	for (size_t i = 0; i < NATIVE_TAILS; i++)
		if (e->tails[i] && e->tails[i]->n && e->tails[i]->thread == w->snapshot->thread &&
		    e->tails[i]->key == w->snapshot->space->key && e->tails[i]->older == older)
			return e->tails[i];
	return NULL;
}

/* The step of @t with the stack pointer @sp and the address of @frame, or n. */
static uint32_t tail_step(const struct native_tail *t, uint64_t sp, uint64_t frame)
{
	uint32_t at = native_step_at(&t->steps[0].sp, sizeof(t->steps[0]), t->n, sp);

	return at < t->n && uw_frame_pc(t->steps[at].frame) == uw_frame_pc(frame) ? at : t->n;
}

/* Are the frames of @part from step @first on in @whole? */
static bool tail_has(const struct native_tail *whole, const struct native_tail *part,
		     uint32_t first)
{
	for (uint32_t i = first; i < part->n; i++)
		if (tail_step(whole, part->steps[i].sp, part->steps[i].frame) == whole->n)
			return false;
	return true;
}

/* Were the walk's frames beyond its copy read before the sample, too?  They are there now, so they were at the sample. */
static bool tail_confirms(struct native *e, const struct walk *w)
{
	const struct native_tail *t = tail_find(e, w, false);

	if (!w->snapshot->time || !w->snapshot->thread)
		return true; /* not known */
	return t && t->time < w->snapshot->time && e->tail_owner == w && tail_has(t, e->tail, 1);
}

/* Adds the frames of the copy itself, from the first plain one on, by a second walk.  One that fails adds none. */
static void tail_add_copy(struct native *e, const struct walk *w, struct native_tail *t)
{
	struct native_trail_step step = {.sp = w->plain_sp, .bp = w->plain_bp}, next;
	uint32_t n = w->seam > w->plain_n ? w->seam - w->plain_n : 0;

	if (!n || n > UW_MAX_FRAMES - t->n || w->machine->link)
		return;
	memmove(t->steps + n, t->steps, t->n * sizeof(t->steps[0]));
	t->n += n;
	for (uint32_t i = 0; i < n; i++, step = next) {
		uint32_t frame = w->plain_n - 1 + i;

		step.frame = w->frames[frame];
		t->steps[i] = (struct native_tail_step){step.sp, step.frame};
		if (native_trail_step(e, w, &step, &next) == 1 &&
		    walk_word(w, next.sp - 8) == uw_frame_pc(w->frames[frame + 1]))
			continue;
		t->n -= n;
		memmove(t->steps, t->steps + n, t->n * sizeof(t->steps[0]));
		return;
	}
}

/* @old, which @new is to replace, is kept besides it where it is deeper.  false: it is not. */
static bool tail_keep_older(struct native *e, const struct walk *w, struct native_tail *old,
			    const struct native_tail *new)
{
	struct native_tail *older = tail_find(e, w, true);

	if (old->steps[0].sp >= new->steps[0].sp ||
	    (older && older->steps[0].sp <= old->steps[0].sp &&
	     e->tails_used - older->used < TAIL_OLDER))
		return false;
	if (older) { /* a free place */
		older->n = 0;
		older->used = 0;
	}
	old->older = true;
	old->used = ++e->tails_used;
	return true;
}

/* Keeps the walk's frames beyond its copy with those in it, in place of the frames of a stack that was not as deep, or had
 * other frames. */
static void tail_keep(struct native *e, const struct walk *w)
{
	struct native_tail *old = tail_find(e, w, false), *new = e->tail;
	size_t at = 0;

	if (e->tail_owner != w || new->n < 2 || !w->snapshot->thread || !w->snapshot->space->key ||
	    (old && old->steps[0].sp <= w->plain_sp + TAIL_DEEPER && tail_has(old, new, 0)))
		return;
	tail_add_copy(e, w, new);
	if (old && tail_keep_older(e, w, old, new))
		old = NULL;
	for (size_t i = 1; i < NATIVE_TAILS; i++) /* a free place, or the least recently used */
		if (e->tails[at] && (!e->tails[i] || e->tails[i]->used < e->tails[at]->used))
			at = i;
	for (size_t i = 0; old && i < NATIVE_TAILS; i++)
		at = e->tails[i] == old ? i : at;
	e->tail = e->tails[at];
	e->tails[at] = new;
	e->tail_owner = NULL;
	new->thread = w->snapshot->thread;
	new->key = w->snapshot->space->key;
	new->older = false;
	new->time = read_time(e, w);
	new->used = ++e->tails_used;
}

/* The begin of the function of @frame: an address.  0: not known. */
static uint64_t function_of(struct native *e, const struct walk *w, uint64_t frame)
{
	uint64_t pc = uw_frame_lookup(frame), begin, end;
	struct native_place place;

	if (native_place(w, pc, &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return 0;
	return pc - place.vaddr + begin;
}

/* Was the function called by the same frames? */
static bool way_is(const struct native_way *a, const struct native_way *b)
{
	uint32_t n = (uint32_t)min_u64(a->n, NATIVE_WAY_SAME);

	return n == min_u64(b->n, NATIVE_WAY_SAME) &&
	       !memcmp(a->steps, b->steps, n * sizeof(a->steps[0]));
}

/* The next place of @of's function from @i on; NATIVE_WAYS: there is none. */
static size_t way_next(const struct native *e, const struct native_way *of, size_t i)
{
	while (i < NATIVE_WAYS && (e->ways[i].begin != of->begin || e->ways[i].key != of->key))
		i++;
	return i;
}

/* The place for @way: that of the same callers, or the oldest of too many of the function, or a new one. */
static struct native_way *way_place(struct native *e, const struct native_way *way)
{
	struct native_way *oldest = NULL;
	size_t n = 0;

	for (size_t i = way_next(e, way, 0); i < NATIVE_WAYS; i = way_next(e, way, i + 1), n++) {
		if (way_is(&e->ways[i], way))
			return &e->ways[i];
		if (!oldest || e->ways[i].kept < oldest->kept)
			oldest = &e->ways[i];
	}
	return n < NATIVE_WAYS_OF_ONE ? &e->ways[e->next_way++ % NATIVE_WAYS] : oldest;
}

/* Keeps the callers of the function that the walk left its copy in. */
static void way_keep(struct native *e, const struct walk *w)
{
	const struct native_tail *t = e->tail;
	struct native_way way = {.key = w->snapshot->space->key};

	if (e->tail_owner != w || t->n < 2 || !way.key)
		return;
	if (!e->ways)
		e->ways = calloc(NATIVE_WAYS, sizeof(*e->ways));
	way.begin = function_of(e, w, t->steps[0].frame);
	if (!e->ways || !way.begin)
		return;
	for (uint32_t i = 1; i < t->n && way.n < NATIVE_WAY_STEPS; i++)
		way.steps[way.n++] = (struct native_tail_step){t->steps[i].sp - t->steps[1].sp,
							       t->steps[i].frame};
	way.kept = ++e->ways_kept;
	*way_place(e, &way) = way;
}

/* ---- ways by copies ----
 *
 * A frame larger than a copy has its return address in none, and is read in time only where the thread stops.  But a function that
 * calls this one from one place alone is in copies, too, while it calls others; its callers there are those of this one:
 *
 *     copies end in   [F ....................
 *     another one has [other][G, with one call of F][H][I] ..      ─► way of F: behind that call in G, H, I, ..
 *
 * The search costs several times what a stack does, and is in vain where G has several calls of F, or is in no copy.  So
 * it ends after some stacks, and the next one begins later. */

enum {
	WANT_STACKS = 512, /* that are searched */
	WANT_SCANS = 4,	   /* of functions, for one stack */
	WANT_OTHER = 2048, /* stacks until another function is searched for, */
	WANT_AGAIN = 8192  /* ... and the latest one again */
};

/* The walk has ended in a frame of the function @begin, of which no way led to a tail. */
static void want_way(struct native *e, const struct walk *w, uint64_t begin)
{
	struct native_way of = {.begin = begin, .key = w->snapshot->space->key};
	bool same = e->want.begin == begin && e->want.key == of.key;

	if (w->machine->link || !begin || !of.key ||
	    (e->want.key && e->want.age < (same ? WANT_AGAIN : WANT_OTHER)))
		return;
	if (!e->ways || way_next(e, &of, 0) == NATIVE_WAYS)
		e->want = (struct native_want){begin, of.key, .left = WANT_STACKS};
}

/* Keeps the way of the wanted function that the walk's copy shows, if it does. */
static void want_look(struct native *e, const struct walk *w)
{
	struct native_trail_step step = {.sp = w->plain_sp, .bp = w->plain_bp}, next;
	struct native_way way = {.begin = e->want.begin, .key = e->want.key};
	uint32_t n = w->seam ? w->seam : w->n;
	uint64_t first = 0, ra = 0, scans = e->hole_scans + WANT_SCANS;

	for (uint32_t i = w->plain_n - 1; i < n && way.n < NATIVE_WAY_STEPS; i++, step = next) {
		step.frame = w->frames[i];
		if (!way.n && e->hole_scans == scans)
			return;
		if (!way.n && step.frame & UW_FRAME_CALLER)
			ra = native_only_call(e, w, uw_frame_lookup(step.frame), way.begin);
		if (!way.n && ra)
			first = step.sp;
		if (ra)
			way.steps[way.n] = (struct native_tail_step){
				step.sp - first, way.n ? step.frame : ra | UW_FRAME_CALLER};
		way.n += ra != 0;
		if (native_trail_step(e, w, &step, &next) != 1 || i + 1 == n ||
		    walk_word(w, next.sp - 8) != uw_frame_pc(w->frames[i + 1]))
			break;
	}
	if (way.n < 2 || (!e->ways && !(e->ways = calloc(NATIVE_WAYS, sizeof(*e->ways)))))
		return;
	way.kept = ++e->ways_kept;
	*way_place(e, &way) = way;
}

static void want_settle(struct native *e, const struct walk *w)
{
	e->want.age += e->want.age < WANT_AGAIN;
	if (!e->want.left || e->want.key != w->snapshot->space->key || w->machine->link)
		return;
	e->want.left--;
	want_look(e, w);
}

/* The first step of @t that is a caller of the frame pushed last, which has the stack pointer @sp, and a caller that begins
 * at @cfa (0: not known).  t->n: none. */
static uint32_t tail_caller(struct native *e, struct walk *w, const struct native_tail *t,
			    uint64_t sp, uint64_t cfa)
{
	uint32_t at = tail_step(t, sp, w->frames[w->n - 1]);

	if (at < t->n)
		return at + 1;
	at = cfa ? native_step_at(&t->steps[0].sp, sizeof(t->steps[0]), t->n, cfa) : t->n;
	/* The function in that place may have called another one. */
	return at < t->n && native_calls_this(e, w, uw_frame_pc(t->steps[at].frame)) ? at : t->n;
}

/* Frames from the tail or the way @from on, from its step @at: up to the first that the tail @t has, and the callers of
 * that one.  A way may lead to @older first.  @shift: of its stack pointers.  false: they do not lead to @t, or there is no
 * room. */
static bool tail_join_by(struct native *e, struct walk *w, struct native_tail *t,
			 struct native_tail *older, const struct native_tail_step *steps,
			 uint32_t n, uint64_t shift)
{
	uint32_t begin = w->n, at = t->n;

	for (uint32_t i = 0; i < n && w->n < w->max; i++) {
		uint64_t sp = steps[i].sp + shift;
		uint32_t in_older = older ? tail_step(older, sp, steps[i].frame) : 0;

		at = tail_step(t, sp, steps[i].frame);
		if (at < t->n)
			break;
		if (older && in_older < older->n) {
			steps = older->steps + in_older;
			n = older->n - in_older;
			older->used = e->tails_used;
			older = NULL;
			shift = i = 0;
		}
		w->frames[w->n++] = steps[i].frame | UW_FRAME_GUESSED;
	}
	if (at == t->n || t->n - at > w->max - w->n) {
		w->n = begin;
		return false;
	}
	for (; at < t->n; at++)
		w->frames[w->n++] = t->steps[at].frame | UW_FRAME_GUESSED;
	t->used = ++e->tails_used;
	return true;
}

/* By the callers of the frame pushed last that the tail @from has. */
static bool tail_join_from(struct native *e, struct walk *w, struct native_tail *t,
			   struct native_tail *from, uint64_t sp, uint64_t cfa)
{
	uint32_t at = from ? tail_caller(e, w, from, sp, cfa) : 0;

	if (!from || !tail_join_by(e, w, t, NULL, from->steps + at, from->n - at, 0))
		return false;
	from->used = e->tails_used;
	return true;
}

static uint64_t frames_hash(const struct walk *w, uint32_t from)
{
	uint64_t hash = w->n;

	for (uint32_t i = from; i < w->n; i++)
		hash = hash_u64(hash ^ w->frames[i]);
	return hash;
}

/* By callers that its function had before.  Where several ways lead to the tail all must give the same frames. */
static bool tail_join_way(struct native *e, struct walk *w, struct native_tail *t, uint64_t cfa)
{
	struct native_way of = {.key = w->snapshot->space->key};
	struct native_tail *older = tail_find(e, w, true);
	const struct native_way *found = NULL;
	uint64_t hash, frames = 0;
	uint32_t n = w->n;

	of.begin = cfa && e->ways ? function_of(e, w, w->frames[n - 1]) : 0;
	for (size_t i = of.begin ? way_next(e, &of, 0) : NATIVE_WAYS; i < NATIVE_WAYS;
	     i = way_next(e, &of, i + 1)) {
		const struct native_way *way = &e->ways[i];

		if (!tail_join_by(e, w, t, older, way->steps, way->n, cfa))
			continue;
		hash = frames_hash(w, n);
		w->n = n;
		if (found && hash != frames)
			return false;
		found = way;
		frames = hash;
	}
	return found && tail_join_by(e, w, t, older, found->steps, found->n, cfa);
}

/* The walk has ended at the end of its copy, in the frame pushed last: as tail_caller(). */
static void tail_join(struct native *e, struct walk *w, uint64_t sp, uint64_t cfa)
{
	struct native_tail *t = w->n ? tail_find(e, w, false) : NULL;

	if (!t || !(tail_join_from(e, w, t, t, sp, cfa) ||
		    tail_join_from(e, w, t, tail_find(e, w, true), sp, cfa) ||
		    tail_join_way(e, w, t, cfa))) {
		if (t && cfa > sp && cfa - sp > w->snapshot->stack_len / 2)
			want_way(e, w, function_of(e, w, w->frames[w->n - 1]));
		return;
	}
	w->res->completed = true;
	e->stats.completed_stacks++;
	walk_end(w, UW_WHOLE, UW_OK, 0);
}

void native_tails_clear(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TAILS; i++)
		if (e->tails[i])
			e->tails[i]->n = 0;
	for (size_t i = 0; e->ways && i < NATIVE_WAYS; i++)
		e->ways[i].key = 0;
	e->want = (struct native_want){0};
	free(e->edges);
	e->edges = NULL;
}

void native_tails_free(struct native *e)
{
	for (size_t i = 0; i < NATIVE_TAILS; i++)
		free(e->tails[i]);
	free(e->tail);
	free(e->ways);
	free(e->edges);
}

/* ---- the end of a walk ---- */

static bool is_late(const struct native *e, const struct walk *w)
{
	return w->snapshot->time && read_after(e, w) > UW_FRESH_NS;
}

static bool is_cut(const struct uw_result *res)
{
	return res->outcome == UW_CUT && res->reason != UW_TOO_DEEP;
}

/* Drops the frames beyond the copy. */
static void deep_cut(struct walk *w)
{
	w->n = (uint32_t)min_u64(w->n, w->seam);
	w->res->completed = false;
	uw_result_out_of_copy(w->snapshot, w->res, w->base + w->snapshot->stack_len);
}

/* Keeps the frames beyond the copy. */
static void deep_accept(struct native *e, struct walk *w)
{
	bool late = w->deep_read && is_late(e, w);
	bool sure = !w->deep_read || (!late && tail_confirms(e, w));

	if (!late && w->res->outcome == UW_WHOLE && !w->res->completed) {
		way_keep(e, w);
		tail_keep(e, w);
	}
	for (uint32_t i = w->seam; i < w->n && !sure; i++)
		w->frames[i] |= UW_FRAME_GUESSED;
}

/* The same of a goroutine's frames (native-go.c). */
static void go_settle(struct native *e, struct walk *w)
{
	bool sure;

	if (!native_go_ends(w) || !deep_seam_holds(w) || !deep_calls_hold(e, w)) {
		w->n = (uint32_t)min_u64(w->n, w->seam);
		w->res->completed = false;
		if (!native_go_join(e, w))
			walk_end(w, UW_CUT, UW_OK, w->go_from);
		return;
	}
	sure = native_go_confirms(e, w, read_time(e, w)) && !is_late(e, w);
	sure |= w->go_copied == w->deep_read;
	for (uint32_t i = w->seam; i < w->n && !sure; i++)
		w->frames[i] |= UW_FRAME_GUESSED;
}

enum { SMALL_PAGE = 4096 };

/* Has the walk failed at an address of its stack, behind a page that the kernel did not find?  Below the thread's root, or where that is
 * not known, where the process has memory. */
static bool is_behind_page(struct native *e, const struct walk *w)
{
	const struct uw_result *res = w->res;
	struct uw_memory *memory = w->snapshot->space->memory;
	const struct native_root *root = deep_root(e, w);
	uint64_t end = w->base + w->snapshot->stack_len, word;

	if (res->outcome != UW_FAILED || res->reason != UW_MEMORY || end % SMALL_PAGE ||
	    res->stopped_at < end || res->stopped_at - end > NATIVE_DEEP_MAX)
		return false;
	if (w->snapshot->thread && deep_root_is_of(root, w))
		return res->stopped_at < root->sp;
	return memory && memory->read(memory, res->stopped_at, &word, 8) == 8;
}

void native_deep_settle(struct native *e, struct walk *w)
{
	uint64_t sp = w->seam ? w->seam_sp : w->sp;
	uint64_t cfa = w->seam && w->seam < w->n ? 0 : w->far_cfa;

	if (w->res->outcome == UW_PENDING)
		return;
	if (w->go) {
		go_settle(e, w);
		return;
	}
	if (!w->seam)
		deep_note_root(e, w);
	if (w->seam && w->deep_read)
		native_edges_note(e, w, w->seam);
	else if (e->edges && !w->seam && tail_find(e, w, false))
		native_edges_note(e, w, w->n);
	if (w->seam && e->tail_owner == w && e->tail->n > 1)
		cfa = e->tail->steps[1].sp;
	if (w->seam && w->deep_read && !deep_holds(e, w))
		deep_cut(w);
	else if (w->seam)
		deep_accept(e, w);
	want_settle(e, w);
	if (is_behind_page(e, w))
		walk_end(w, UW_CUT, UW_OK, w->res->stopped_at);
	if (is_cut(w->res) && w->n <= (w->seam ? w->seam : w->n))
		tail_join(e, w, sp, cfa);
}
