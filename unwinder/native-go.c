/* native-go.c - Go: from the thread's own stack (g0) to the stack of the goroutine that went there.  Private to unwinder/ (native.h).
 * Thread: the engine's.
 *
 *     copy       leaf .. systemstack | what is stale          w->sp is at the bar
 *     process    m.curg -> g: stack.lo, stack.hi, sched.sp    systemstack, morestack: m by r14 of the sample, which has a g
 *                asmcgocall: g and the distance from stack.hi are in the copy
 *     process    [sched.sp: return address .. goexit .. stack.hi]
 *
 * The goroutine's stack stays as it is while its thread runs on g0, so what is read soon is right where the thread has not gone
 * back.  The frames stand only when all of this holds; otherwise the stack is cut at the switch (without memory it ends there):
 *
 *     the words of m and g, and those of the copy at the switch, are the same right before the stack is read and right after it,
 *     by one request
 *     the first return address follows a call of the function that switched, each other one follows a call
 *     the walk ends at goexit, at the end of the goroutine's stack
 *
 * They are marked as guessed where they were read late (uw_snapshot.time), and where they were not the same at an earlier sample of
 * this goroutine in the same call.  Functions of a few microseconds have returned before the read: where an earlier sample had the
 * same goroutine, as deep, in the same call of C, its frames are joined, as guesses.  Of systemstack the copy does not have the
 * goroutine, but rbp as the function that was called there has kept it, which is in the goroutine's innermost frame: an earlier sample
 * with this rbp in this function is joined.  (Another goroutine may have got the same memory since.)
 *
 * Where a BPF program has copied the goroutine's stack at the sample (perf/at-sample.h), that copy is used: it is exact.
 *
 * Functions that read the clock leave the goroutine's stack in the same way; rbp, which the vDSO keeps, leads back to it. */
#include "base/go-layout.h"
#include "symbols/vm-memory.h"
#include "unwinder/native.h"

enum {
	GO_THREADS = 256,
	GO_SWITCHES = 16,
	GO_CALLS = 64,
	GO_KEPT = 256,
	GO_KEPT_FRAMES = 60,
	GO_G_WORDS = CODE_GO_OFFSET_MAX / 8 + 2,
	GO_STACK_MAX = 1 << 30, /* runtime.main sets it */
	GO_TOP = 256,		/* bytes from goexit's frame to the end of the stack */
	GO_INNER = 256, /* bytes that the frame of a function called at the switch has at most */
	/* Bytes of systemstack that run on the thread's own stack, before the return address of its call and behind it, at most. */
	GO_LEAF_BEFORE = 8,
	GO_LEAF_AFTER = 0x22,
	GO_PIECE = 48 << 10, /* is read with the words around; deeper stacks have further pieces */
};

/* Where no code of systemstack was seen. */
static const struct code_go_offsets usual = {.m = GO_G_M, .curg = GO_M_CURG, .sp = GO_G_SP};

struct native_go {
	/* What a thread had at its last sample of this kind. */
	struct go_thread {
		uint32_t thread, key; /* key 0: a free place */
		struct go_place {
			uint64_t m, g, lo, hi;
			uint64_t sp, pc; /* where its stack was left */
		} place;
	} threads[GO_THREADS];
	/* The frames of a goroutine as they were read, innermost first. */
	struct go_kept {
		uint64_t key, hash;
		uint64_t time; /* of the reading, as uw_snapshot.time */
		uint32_t n;    /* 0: too many */
		uint64_t frames[GO_KEPT_FRAMES];
	} kept[GO_KEPT];
	/* Return addresses behind a switch. */
	struct go_switch {
		uint64_t address;
		uint32_t key; /* of the space; 0: a free place */
		enum code_go kind;
	} switches[GO_SWITCHES];
	/* Return addresses @ra, behind a call of the function that @of is in. */
	struct go_call {
		uint64_t ra, of;
		uint32_t key;
	} calls[GO_CALLS];
	struct code_go_offsets offsets; /* of the process @key */
	uint32_t key;
};

enum go_found {
	GO_LOST,
	GO_FOUND,
	GO_PARKED, /* the thread has no goroutine any more */
};

struct go_walk {
	struct native *e;
	struct walk *w;
	struct native_go *go;
	struct go_thread *thread;
	enum code_go kind;
	struct code_go_offsets offsets;
	struct go_place place;
	uint64_t window, window_len; /* words of the copy at the switch: address, bytes */
};

static struct native_go *go_of(struct native *e)
{
	if (!e->go) {
		e->go = calloc(1, sizeof(*e->go));
		e->no_memory |= !e->go;
		e->stats.cache_bytes += e->go ? sizeof(*e->go) : 0;
	}
	return e->go;
}

void native_go_free(struct native *e)
{
	free(e->go);
}

static struct go_thread *thread_of(struct native_go *go, const struct walk *w)
{
	uint32_t thread = w->snapshot->thread, key = w->snapshot->space->key;
	struct go_thread *t = &go->threads[hash_u64((uint64_t)key << 32 | thread) % GO_THREADS];

	if (t->thread != thread || t->key != key)
		*t = (struct go_thread){.thread = thread, .key = key};
	return t;
}

/* ---- what the process has ---- */

static bool read_words(const struct go_walk *x, uint64_t address, uint64_t *to, size_t len)
{
	struct uw_memory *memory = x->w->snapshot->space->memory;

	return vm_memory_is_address(address) && !(address & 7) && memory &&
	       memory->read(memory, address, to, len) == (ssize_t)len;
}

static size_t g_bytes(const struct go_walk *x)
{
	return max_u64(x->offsets.sp + 16, x->offsets.m + 8);
}

/* Is this a stack, and is @place->sp in it? */
static bool is_stack(const struct go_place *p)
{
	return p->lo < p->hi && p->hi - p->lo <= GO_STACK_MAX && p->sp > p->lo &&
	       p->sp < p->hi - 8 && !((p->sp | p->hi) & 7) && vm_memory_is_address(p->hi - 1);
}

/* The goroutine of @m, which has the g @of. */
static enum go_found find_curg(struct go_walk *x, uint64_t m, uint64_t of)
{
	uint64_t words[GO_G_WORDS], g;

	if (!read_words(x, m, words, x->offsets.curg + 8))
		return GO_LOST;
	g = words[x->offsets.curg / 8];
	if (of != words[0] && of != g)
		return GO_LOST;
	if (!g)
		return GO_PARKED;
	if (!read_words(x, g, words, g_bytes(x)) || words[x->offsets.m / 8] != m)
		return GO_LOST;
	x->place = (struct go_place){
		.m = m,
		.g = g,
		.lo = words[0],
		.hi = words[1],
		.sp = words[x->offsets.sp / 8],
		.pc = words[x->offsets.sp / 8 + 1],
	};
	return is_stack(&x->place) ? GO_FOUND : GO_LOST;
}

/* By r14, which has the g of the code in hand in Go's functions (1.17 on). */
static enum go_found find_by_register(struct go_walk *x)
{
	uint64_t words[GO_G_WORDS], g = x->w->snapshot->regs[UW_X86_R8 + 6];

	return read_words(x, g, words, g_bytes(x)) ? find_curg(x, words[x->offsets.m / 8], g)
						   : GO_LOST;
}

/* asmcgocall's words in the copy. */
static bool saved_by_cgo(const struct go_walk *x, uint64_t *ret_g, uint64_t *ret_depth)
{
	uint64_t at = x->w->sp + (x->kind == CODE_GO_CGO_64 ? 0x28 : 0), words[2];

	if (!native_bytes(x->e, x->w, at, words, sizeof(words)))
		return false;
	*ret_depth = words[0];
	*ret_g = words[1];
	return words[0] < GO_STACK_MAX;
}

/* rbp as the function had it that switched: the frame pointers of Go's functions on the thread's own stack lead there.  0: they do not,
 * as in C. */
static uint64_t saved_bp(const struct go_walk *x)
{
	const struct uw_snapshot *s = x->w->snapshot;
	uint64_t base = x->w->base, len = s->stack_len, bp = s->regs[x->w->machine->fp], next;

	while (bp >= base && len >= sizeof(next) && bp - base <= len - sizeof(next) &&
	       bp < x->w->sp) {
		memcpy(&next, s->stack + (bp - base), sizeof(next));
		if (next >= base && next <= bp)
			return 0;
		bp = next;
	}
	return vm_memory_is_address(bp) && !(bp & 7) && (bp < base || bp - base >= len) ? bp : 0;
}

static enum go_found find_by_cgo(struct go_walk *x)
{
	uint64_t g, depth, words[2];

	if (!saved_by_cgo(x, &g, &depth) || !read_words(x, g, words, sizeof(words)))
		return GO_LOST;
	x->place =
		(struct go_place){.g = g, .lo = words[0], .hi = words[1], .sp = words[1] - depth};
	return is_stack(&x->place) ? GO_FOUND : GO_LOST;
}

static bool is_cgo(const struct go_walk *x)
{
	return x->kind == CODE_GO_CGO_64 || x->kind == CODE_GO_CGO_16;
}

static enum go_found find(struct go_walk *x)
{
	enum go_found found;

	if (is_cgo(x))
		return find_by_cgo(x);
	found = find_by_register(x);
	return found == GO_LOST && x->thread->place.m
		       ? find_curg(x, x->thread->place.m, x->thread->place.g)
		       : found;
}

/* As at the last sample of the thread?  GO_FOUND: that is to be tried. */
static enum go_found find_again(struct go_walk *x)
{
	const struct go_place *p = &x->thread->place;
	uint64_t g, depth;

	if (!p->g || (!p->m && !is_cgo(x)))
		return GO_LOST;
	x->place = *p;
	if (!is_cgo(x))
		return GO_FOUND;
	if (!saved_by_cgo(x, &g, &depth) || g != p->g)
		return GO_LOST;
	x->place.sp = p->hi - depth;
	return is_stack(&x->place) ? GO_FOUND : GO_LOST;
}

/* ---- the read ---- */

/* The ranges around the stack, in one order before it and after it: the window, m.curg, g. */
static size_t put_ranges(const struct go_walk *x, struct uw_range *ranges)
{
	size_t n = 0;

	if (x->window_len)
		ranges[n++] = (struct uw_range){x->window, x->window_len};
	if (x->kind != CODE_GO_NONE && !is_cgo(x))
		ranges[n++] = (struct uw_range){x->place.m + x->offsets.curg, 8};
	if (x->kind != CODE_GO_NONE)
		ranges[n++] = (struct uw_range){x->place.g, is_cgo(x) ? 16 : g_bytes(x)};
	return n;
}

/* Are the words of put_ranges(), which were read to @words, those of the copy and of the place? */
static bool words_hold(const struct go_walk *x, const uint8_t *words)
{
	const struct go_place *p = &x->place;
	uint64_t g[GO_G_WORDS], curg;

	if (x->window_len &&
	    memcmp(words, x->w->snapshot->stack + (x->window - x->w->base), x->window_len))
		return false;
	words += x->window_len;
	if (x->kind == CODE_GO_NONE)
		return true;
	if (is_cgo(x)) {
		memcpy(g, words, 16);
		return g[0] == p->lo && g[1] == p->hi;
	}
	memcpy(&curg, words, 8);
	memcpy(g, words + 8, g_bytes(x));
	return curg == p->g && g[0] == p->lo && g[1] == p->hi && g[x->offsets.m / 8] == p->m &&
	       g[x->offsets.sp / 8] == p->sp && g[x->offsets.sp / 8 + 1] == p->pc;
}

/* The stack at the place, by one request; later ones read on from there.  false: the words around it have changed, or it cannot
 * be read. */
static bool read_stack(struct go_walk *x)
{
	struct uw_memory *memory = x->w->snapshot->space->memory;
	uint64_t left = x->place.hi - x->place.sp, len = min_u64(left, GO_PIECE), around = 0;
	uint8_t *to = native_chunk(x->e);
	struct uw_range ranges[8];
	size_t n;

	if (!to || !memory || !memory->read_ranges)
		return false;
	n = put_ranges(x, ranges);
	for (size_t i = 0; i < n; i++)
		around += ranges[i].len;
	ranges[n] = (struct uw_range){x->place.sp, len};
	(void)put_ranges(x, ranges + n + 1);
	x->e->chunk_owner = NULL;
	if (!memory->read_ranges(memory, ranges, 2 * n + 1, to) || !words_hold(x, to) ||
	    !words_hold(x, to + around + len))
		return false;
	memmove(to, to + around, len);
	native_deep_take(x->e, x->w, x->place.sp, len, true);
	return true;
}

/* ---- the switch ---- */

static enum code_go kind_of(struct go_walk *x)
{
	uint64_t ra = uw_frame_pc(x->w->frames[x->w->n - 1]);
	uint32_t key = x->w->snapshot->space->key;
	struct go_switch *known = &x->go->switches[hash_u64(ra ^ key) % GO_SWITCHES];
	uint8_t code[CODE_BEFORE + CODE_GO_AFTER];
	size_t len;

	if (!(x->w->frames[x->w->n - 1] & UW_FRAME_CALLER)) /* native_go_leaf() */
		return CODE_GO_SYSTEMSTACK;
	if (known->address == ra && known->key == key && key)
		return known->kind;
	len = native_code(x->w, ra, CODE_BEFORE, CODE_GO_AFTER, code);
	if (len <= CODE_BEFORE)
		return CODE_GO_NONE;
	*known = (struct go_switch){ra, key,
				    code_go_switch(x->w->machine->arch, code, CODE_BEFORE, len)};
	if (known->kind == CODE_GO_SYSTEMSTACK &&
	    code_go_offsets(code + CODE_BEFORE, len - CODE_BEFORE, &x->go->offsets))
		x->go->key = key;
	return known->kind;
}

/* Where the copy has the return address of the frame before the last, below the last one's @at; @at: that frame is the leaf, or it
 * is too large. */
static uint64_t inner_return(const struct go_walk *x, uint64_t at)
{
	const struct walk *w = x->w;
	uint64_t frame = w->n > 1 ? w->frames[w->n - 2] : 0, word;

	for (uint64_t i = 8; frame & UW_FRAME_CALLER && i <= GO_INNER && i <= at; i += 8) {
		memcpy(&word, w->snapshot->stack + (at - i), sizeof(word));
		if (word == uw_frame_pc(frame))
			return at - i;
	}
	return at;
}

/* What the copy has at the switch: the frame of the function that was called there, the return address below w->sp, and the words that
 * asmcgocall has saved. */
static void set_window(struct go_walk *x)
{
	uint64_t at = x->w->sp - 8 - x->w->base, len = x->w->snapshot->stack_len, from;
	uint64_t want = x->kind == CODE_GO_CGO_64 ? 8 + 0x38 : x->kind == CODE_GO_CGO_16 ? 24 : 8;

	if (at < len && !(at & 7)) {
		from = inner_return(x, at);
		x->window = x->w->base + from;
		x->window_len = min_u64(at + want, len) - from;
	}
	if (!x->w->seam) {
		x->w->seam_from = x->window;
		x->w->seam_to = x->window + x->window_len;
	}
}

static bool window_holds(const struct go_walk *x)
{
	struct uw_memory *memory = x->w->snapshot->space->memory;
	uint8_t now[GO_INNER + 64];

	return x->window_len &&
	       memory->read(memory, x->window, now, x->window_len) == (ssize_t)x->window_len &&
	       !memcmp(now, x->w->snapshot->stack + (x->window - x->w->base), x->window_len);
}

/* The place and the stack of a copy that was made at the sample. */
static bool find_copy(struct go_walk *x)
{
	const struct uw_snapshot *s = x->w->snapshot;
	uint64_t n = (uint64_t)s->n_python * UW_PYTHON_WORDS, len, g, depth;
	uint8_t *to = n > GO_COPY_HEAD ? native_chunk(x->e) : NULL;
	struct go_place p;

	if (!to || x->kind == CODE_GO_NONE)
		return false;
	p = (struct go_place){
		.m = s->python[GO_COPY_M],
		.g = s->python[GO_COPY_G],
		.lo = s->python[GO_COPY_LO],
		.hi = s->python[GO_COPY_HI],
		.sp = s->python[GO_COPY_SP],
		.pc = s->python[GO_COPY_PC],
	};
	if (!is_stack(&p) ||
	    (is_cgo(x) && (!saved_by_cgo(x, &g, &depth) || g != p.g || depth != p.hi - p.sp)))
		return false;
	len = min_u64(8 * (n - GO_COPY_HEAD), p.hi - p.sp);
	memcpy(to, s->python + GO_COPY_HEAD, len);
	native_deep_take(x->e, x->w, p.sp, len, false);
	x->place = p;
	return true;
}

/* Is the word at @ra_at a return address behind a call of the function that switched? */
static bool is_return(struct go_walk *x, uint64_t ra_at, uint64_t *ret_ra)
{
	uint64_t of = walk_lookup(x->w), ra;
	uint32_t key = x->w->snapshot->space->key;
	struct go_call *known;

	if (!native_bytes(x->e, x->w, ra_at, &ra, sizeof(ra)) || !vm_memory_is_address(ra))
		return false;
	known = &x->go->calls[hash_u64(ra ^ key) % GO_CALLS];
	if (known->ra != ra || known->of != of || known->key != key) {
		if (!native_calls_this(x->e, x->w, ra))
			return false;
		*known = (struct go_call){ra, of, key};
	}
	*ret_ra = ra;
	return true;
}

/* The goroutine's innermost frame. */
static enum step arrive(struct go_walk *x)
{
	struct walk *w = x->w;
	uint64_t sp = x->place.sp, ra, bp = w->bp;

	if (x->kind == CODE_GO_MORESTACK) {
		w->sp = sp;
		return native_push(w, x->place.pc, UW_FRAME_CALLER);
	}
	if (x->kind == CODE_GO_NONE) { /* @sp is a frame pointer */
		if (!native_bytes(x->e, w, sp, &bp, 8) || !is_return(x, sp + 8, &ra))
			return walk_end(w, UW_CUT, UW_OK, sp);
		w->sp = sp + 16;
	} else if (is_return(x, sp, &ra)) {
		w->sp = sp + 8;
	} else if (is_return(x, sp + 8, &ra) && native_bytes(x->e, w, sp, &bp, 8)) {
		w->sp = sp + 16; /* 1.21 on: behind the rbp that the function has pushed */
	} else {
		return walk_end(w, UW_CUT, UW_OK, sp);
	}
	w->bp = bp;
	return native_push(w, ra, UW_FRAME_CALLER);
}

/* ---- what was read before ---- */

/* One goroutine, as deep as it is, with the same innermost frame on the thread's own stack. */
static uint64_t key_of(const struct walk *w, uint64_t g, uint64_t depth)
{
	uint64_t hash = hash_u64((uint64_t)w->snapshot->space->key << 32 ^ g);

	hash = hash_u64(hash ^ depth);
	if (w->n > 1 && w->frames[w->n - 2] & UW_FRAME_CALLER) /* else it moves on */
		hash = hash_u64(hash ^ w->frames[w->n - 2]);
	return hash_u64(hash ^ w->frames[w->n - 1]);
}

/* By rbp, and by the function that was called on the thread's own stack: for what is joined.  0: none. */
static uint64_t key_of_bp(const struct go_walk *x, uint64_t bp)
{
	const struct walk *w = x->w;
	uint64_t frame = w->n > 1 ? w->frames[w->n - 2] : 0, begin, end;
	uint64_t pc = uw_frame_pc(frame) - (frame & UW_FRAME_CALLER ? 1 : 0);
	struct native_place place;

	if (!bp || native_place(w, pc, &place) != NATIVE_PLACE ||
	    !native_function(x->e, &place, &begin, &end))
		return 0;
	return hash_u64(hash_u64(bp ^ (uint64_t)w->snapshot->space->key << 32) ^
			(pc - place.vaddr + begin));
}

static struct go_kept *kept_of(const struct native *e, uint64_t key)
{
	return &e->go->kept[key % GO_KEPT];
}

static void keep(struct native *e, const struct walk *w, uint64_t key, uint64_t hash, uint64_t time)
{
	struct go_kept *kept = kept_of(e, key);
	uint32_t n = w->n - w->seam;

	*kept = (struct go_kept){.key = key, .hash = hash, .time = time};
	if (n > GO_KEPT_FRAMES)
		return;
	memcpy(kept->frames, w->frames + w->seam, n * sizeof(*kept->frames));
	kept->n = n;
}

bool native_go_confirms(struct native *e, const struct walk *w, uint64_t read_at)
{
	const struct go_kept *kept = kept_of(e, w->go_key);
	uint64_t hash = w->sp;
	bool same;

	if (!w->go_key)
		return false;
	for (uint32_t i = w->seam; i < w->n; i++)
		hash = hash_u64(hash ^ w->frames[i]);
	same = kept->key == w->go_key && kept->hash == hash && kept->time < w->snapshot->time;
	if (!same)
		keep(e, w, w->go_key, hash, read_at);
	if (w->go_bp_key)
		keep(e, w, w->go_bp_key, hash, read_at);
	return same || !w->snapshot->time; /* not known */
}

bool native_go_join(struct native *e, struct walk *w)
{
	const uint64_t keys[] = {w->go_key, w->go_bp_key};
	const struct go_kept *kept;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		kept = kept_of(e, keys[i]);
		if (!keys[i] || kept->key != keys[i] || !kept->n || kept->n > w->max - w->seam)
			continue;
		w->n = w->seam;
		for (uint32_t k = 0; k < kept->n; k++)
			w->frames[w->n++] = kept->frames[k] | UW_FRAME_GUESSED;
		w->res->completed = true;
		e->stats.completed_stacks++;
		walk_end(w, UW_WHOLE, UW_OK, 0);
		return true;
	}
	return false;
}

/* ---- the walk ---- */

/* The walk is to go on from the thread's own stack, at the place that @found states, or at one that is looked for. */
static enum step leave(struct go_walk *x, enum go_found found)
{
	struct walk *w = x->w;
	bool leaf = !(w->frames[w->n - 1] & UW_FRAME_CALLER), copied, in_place;
	uint64_t g, depth, bp;

	if (x->e->tail_owner == w)
		x->e->tail_owner = NULL;
	w->go_from = w->sp;
	w->res->other_stack = w->snapshot->space->memory != NULL;
	set_window(x);
	bp = saved_bp(x);
	copied = find_copy(x);
	if (copied)
		found = GO_FOUND;
	else if (found != GO_FOUND || !read_stack(x)) {
		found = x->kind == CODE_GO_NONE ? GO_LOST : find(x);
		if (found == GO_PARKED && x->kind == CODE_GO_MORESTACK && window_holds(x))
			return walk_end(w, UW_WHOLE, UW_OK, 0); /* it was preempted */
		if (found == GO_FOUND && !read_stack(x))
			found = GO_LOST;
	}
	w->go = true;
	w->go_copied = copied && !w->seam ? w->deep_read : 0;
	if (w->seam) /* the stack of C code is beyond its copy, too: that seam is compared at the end */
		w->seam_checked = false;
	else
		w->seam = w->n;
	w->go_key = is_cgo(x) && saved_by_cgo(x, &g, &depth) ? key_of(w, g, depth) : 0;
	w->go_bp_key = x->kind == CODE_GO_SYSTEMSTACK ? key_of_bp(x, bp) : 0;
	in_place = found == GO_FOUND && bp >= x->place.sp && bp < x->place.hi;
	/* The copy of a leaf has no words to compare: rbp has to lead there, and the frames are guesses. */
	if (found != GO_FOUND || (leaf && !copied && !in_place))
		return walk_end(w, UW_CUT, UW_OK, w->sp);
	if (x->kind == CODE_GO_NONE)
		w->go_key = key_of(w, 0, x->place.sp);
	else if (!w->go_key && (!leaf || copied))
		w->go_key = key_of(w, x->place.g, x->place.hi - x->place.sp);
	if (!in_place) /* rbp is any number */
		w->go_bp_key = 0;
	w->go_top = x->kind == CODE_GO_NONE ? 0 : x->place.hi;
	if (x->kind != CODE_GO_NONE) {
		uint64_t m = x->place.m ? x->place.m : x->thread->place.m;

		x->thread->place = x->place;
		x->thread->place.m = m;
	}
	return arrive(x);
}

bool native_go_leaf(const struct walk *w, uint64_t pc)
{
	uint8_t code[CODE_BEFORE + GO_LEAF_AFTER + GO_LEAF_BEFORE + CODE_AFTER];
	size_t before = CODE_BEFORE + GO_LEAF_AFTER;
	size_t len = native_code(w, pc, before, GO_LEAF_BEFORE + CODE_AFTER, code);

	for (size_t at = CODE_BEFORE; at < len && at <= before + GO_LEAF_BEFORE; at++) {
		if (code_go_switch(w->machine->arch, code, at, len) != CODE_GO_SYSTEMSTACK)
			continue;
		/* mov n(%rax),%rsp leads back */
		return at >= before || !memmem(code + at, before - at, "\x48\x8b\x60", 3);
	}
	return false;
}

enum step native_go(struct native *e, struct walk *w)
{
	struct go_walk x = {.e = e, .w = w, .go = go_of(e)};

	if (!w->snapshot->space->memory &&
	    !w->snapshot->n_python) /* the goroutine's stack is out of reach */
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	if (!x.go || w->go) /* a goroutine's stack has no frame of these functions */
		return walk_end(w, UW_CUT, UW_OK, w->sp);
	x.kind = kind_of(&x);
	x.thread = thread_of(x.go, w);
	x.offsets = x.go->key == w->snapshot->space->key ? x.go->offsets : usual;
	return leave(&x, find_again(&x));
}

enum step native_go_clock(struct native *e, struct walk *w)
{
	struct go_walk x = {.e = e, .w = w, .go = go_of(e), .kind = CODE_GO_NONE};

	if (!x.go || w->go)
		return walk_end(w, UW_CUT, UW_OK, w->sp);
	x.thread = thread_of(x.go, w);
	x.place = (struct go_place){.sp = w->bp, .hi = w->bp + GO_PIECE};
	return leave(&x, vm_memory_is_address(w->bp) && !(w->bp & 7) ? GO_FOUND : GO_LOST);
}

bool native_go_ends(const struct walk *w)
{
	return w->res->reason == UW_TOO_DEEP ||
	       (w->res->outcome == UW_WHOLE && !w->res->completed &&
		(!w->go_top || (w->sp <= w->go_top && w->go_top - w->sp <= GO_TOP)));
}
