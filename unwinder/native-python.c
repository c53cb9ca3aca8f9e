/* native-python.c - see script-frames.h.  The functions that CPython's evaluation loop runs, in place of the loop's frames.
 *
 * One frame of _PyEval_EvalFrameDefault runs several Python functions: a call from Python to Python needs no C frame.  Their
 * frames are a list in memory that the interpreter reuses:
 *
 *     C stack (the copy)                         heap
 *     leaf
 *     eval 0: register ────────────────────► frame of f ─► frame of g ┐ previous
 *             entry frame 0  ◄─────────────────────────────────────────┘            3.12 on: on the C stack,
 *     C code that f called ..   │ previous                                          so the copy has it
 *     eval 1: entry frame 1  ◄──┼─ frame of main ◄─┘
 *     ..
 *
 * - The innermost run's frame is in a register throughout (symbols/python.c), so the sample has it.
 * - 3.12 on: each run has an entry frame, owned by the C stack; its `previous` is the frame of the next run outwards.  3.11: each run
 *   has a _PyCFrame {use_tracing, current_frame, previous} on the C stack, and its first Python frame has is_entry.
 * - An entry frame or a _PyCFrame is accepted where the run's return address follows within RUN_ROOM bytes.
 *
 * Where BPF programs are permitted, one has copied the Python frames at the sample (perf/at-sample.h): these are proved.
 * Else they are read from the process after the sample, and may be of another call by then:
 *
 * - The first function of each run is proved by the loop's registers, which unwind information finds in the copy: its
 *   frame, and its next instruction.
 * - A frame is proved where its words read the same before the sample and after.
 * - The callers between the first functions of two runs are proved by the sizes of their frames (native-calls.c), from the outermost
 *   run inwards: where a run begins is known from the run outwards.
 * - Else the caller of a function is a guess, and proved after more readings, where each reading of this function at this
 *   address has shown the same caller (script_usual()).  One reading is not evidence: by then another call may have led
 *   to the same function.
 * - A frame that read the same before the sample and after is evidence where it seldom changes, as those of a thread's outermost
 *   functions do.  A list of the outermost run is rooted in the first frame of CPython's stack, or it is another run's.
 * - What is not known is left out, and the loop's frame stands for it, between the outermost functions and the innermost one. */
#include "unwinder/python-walk.h"

enum {
	RUN_ROOM = 640, /* bytes from an entry frame to the return address of its run */
	OWNED_BY_GENERATOR = 1,
	OWNED_BY_C = 3,
	CODE_TAG = 7, /* 3.14 on: bits of the pointer to the code object */
	INSTR_AT = 56,
	STACK_AT =
		64, /* up to 3.13 the size of its stack, i32: -1 while it runs; then a pointer, 0 while it runs */
	CHUNK_BYTES = 64 << 10,
	LATE_MAX = 128,
	SEARCHES = 4,
	NATIVE_MAX = 4, /* frames of C code that know a run's first function again */
	SIGN_MASK = (1 << PYTHON_SIGN_BITS) - 1,
};

/* ---- frames ---- */

/* The frame at @address as the BPF program copied it at the sample.  NULL: it did not. */
static const uint64_t *exact_frame(struct python_walk *pw, uint64_t address)
{
	const struct uw_snapshot *s = pw->w->snapshot;

	for (uint32_t i = 0; i < s->n_python && script_step(pw->s, 1); i++) {
		uint32_t at = (pw->exact + i) % s->n_python;
		const uint64_t *words = s->python + (size_t)at * UW_PYTHON_WORDS;

		if (words[0] << 16 >> 16 == address) {
			pw->exact = at + 1;
			return words;
		}
	}
	return NULL;
}

bool python_read_frame(struct python_walk *pw, uint64_t address, struct python_frame *ret_frame)
{
	const uint64_t *exact = exact_frame(pw, address);
	const struct uw_python_offsets *o = &pw->py->offsets;
	uint8_t bytes[UW_PYTHON_FRAME];
	struct python_frame f = {.address = address};

	if (exact && exact[2] >> 56 < OWNED_BY_C) {
		bool is_code = !(exact[1] & 7) && exact[1] < VM_ADDRESS_MAX;
		uint64_t sign = is_code ? exact[0] >> 48 & SIGN_MASK : 0;

		*ret_frame = (struct python_frame){
			.address = address,
			.code = exact[1],
			.previous = exact[2] << 16 >> 16,
			.entry = o->is_entry && (exact[2] >> 48 & 0xff),
			.exact = true,
			.sign = uw_python_sign(sign),
			.hidden = exact[0] >> 48 & PYTHON_HIDDEN,
			.proved = sign != 0, /* else it may be another object by now */
			.there = true,
		};
		return true;
	}
	if (address & 7 || !read_late(pw, address, bytes, sizeof(bytes)) ||
	    bytes[o->owner] >= OWNED_BY_C)
		return false;
	f.code = word_of(bytes, o->code) & ~(uint64_t)CODE_TAG;
	f.previous = word_of(bytes, o->previous);
	f.entry = o->is_entry && bytes[o->is_entry];
	if (o->is_entry && bytes[o->owner] == OWNED_BY_GENERATOR && !f.entry)
		return false; /* it has not begun: its list is that of the call that made it */
	f.calling = pw->py->version < 0x30e ? (int32_t)word_of(bytes, STACK_AT) >= 0
					    : word_of(bytes, STACK_AT) != 0;
	f.same = f.proved = script_same(pw->s, pw->e, pw->w, address, f.code, f.previous);
	f.there = true;
	*ret_frame = f;
	return true;
}

/* ---- the C stack ---- */

/* Where the return address of the run at index @run is, within RUN_ROOM bytes behind @at; 0: it is not there. */
static uint64_t end_of_run(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const struct walk *w = pw->w;
	uint64_t ra = run + 1 < w->n ? uw_frame_pc(w->frames[run + 1]) : 0;

	if (!ra || !script_step(pw->s, RUN_ROOM / 8))
		return 0;
	for (uint64_t i = at; i < at + RUN_ROOM && in_copy(w, i, 8); i += 8)
		if (walk_word(w, i) == ra)
			return i;
	return 0;
}

/* 3.12: code is CPython's trampoline, and the instruction is its first.  From 3.13 on: code is None.  The owner's word: up
 * to 3.13 stacktop u32, return_offset u16, owner; then return_offset, owner. */
static bool is_entry_frame(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const uint16_t owner = pw->py->offsets.owner;
	uint8_t bytes[UW_PYTHON_FRAME];
	uint64_t code, instr, word;

	if (at & 7 || !read_copy(pw->w, at, bytes, sizeof(bytes)))
		return false;
	word = word_of(bytes, owner & ~7u) << (56 - 8 * (owner & 7u));
	if (word != (uint64_t)OWNED_BY_C << 56)
		return false;
	code = word_of(bytes, pw->py->offsets.code) & ~(uint64_t)CODE_TAG;
	instr = word_of(bytes, INSTR_AT);
	return (code == pw->py->none || instr == code + pw->py->offsets.bytecode) &&
	       end_of_run(pw, run, at + UW_PYTHON_FRAME);
}

/* The entry frame of a run, 0: not found. */
static uint64_t find_entry_frame(const struct python_walk *pw, uint32_t run)
{
	for (uint64_t at = pw->cursor; in_copy(pw->w, at, UW_PYTHON_FRAME) && script_step(pw->s, 1);
	     at += 8)
		if (is_entry_frame(pw, run, at))
			return at;
	return 0;
}

/* ---- the stack ---- */

/* Unwind information finds these, frame by frame. */
static void find_regs(struct python_walk *pw)
{
	if (pw->has_regs)
		return;
	pw->has_regs = true;
	if (native_regs_of(pw->e, pw->w, pw->s->runs[0] + 1, &pw->regs))
		pw->cursor = max_u64(pw->cursor, pw->regs.r[pw->w->machine->sp]);
	else
		pw->regs.known = 0;
}

/* The registers of the loop of run @k, as of the sample.  false: not known. */
static bool regs_of_run(struct python_walk *pw, uint32_t k, struct cfi_regs *regs)
{
	uint32_t n = pw->s->runs[k] + 1;
	struct walk *w = pw->w;

	if (!k)
		find_regs(pw);
	*regs = pw->regs;
	if (k && !native_regs_of(pw->e, w, n, regs))
		return false;
	/* The next search goes on from here. */
	w->full = *regs;
	w->full_at = n;
	w->full_whole = true;
	return pw->py->has_frame && regs->known >> pw->py->frame & 1;
}

/* The frame of run @k, which has called the code of the run at @inside, by its registers; 0: not known. */
static uint64_t frame_of_run(struct python_walk *pw, uint32_t k, uint64_t inside)
{
	struct cfi_regs regs;

	if (!regs_of_run(pw, k, &regs) || regs.r[pw->py->frame] == inside)
		return 0;
	return regs.r[pw->py->frame];
}

/* The instruction that the run outwards of @k has in its register; 0: not known. */
static uint64_t next_of_outer_run(struct python_walk *pw, uint32_t k)
{
	struct cfi_regs regs;

	return k + 1 < pw->s->n_runs && regs_of_run(pw, k + 1, &regs) &&
			       regs.known >> pw->py->next & 1
		       ? regs.r[pw->py->next]
		       : 0;
}

/* The function that run @k is in, with its frame at @frame and has @late by now, by the loop's registers and its stack
 * as of the sample.  NULL: not known. */
static const struct script_function *function_of_run(struct python_walk *pw, uint32_t k,
						     uint64_t frame,
						     const struct script_function *late)
{
	const struct uw_python *py = pw->py;
	const struct script_function *f;
	struct cfi_regs regs;
	uint64_t next;

	/* Where a run begins or ends the registers are those of the run outwards. */
	if (!py->has_next || !regs_of_run(pw, k, &regs) || regs.r[py->frame] != frame)
		return NULL;
	if (pw->s->runs[k] && python_takes_from_frame(pw, pw->s->runs[k], &regs))
		return NULL;
	next = regs.known >> py->next & 1 ? regs.r[py->next] : 0;
	if (next && !pw->s->runs[k] && next == next_of_outer_run(pw, k))
		return NULL;
	if (late && next && script_function_has(late, next))
		return late;
	f = next ? python_known_code(pw, next) : NULL;
	if (!f && pw->s->runs[k])
		f = python_function_of_slots(pw, pw->s->runs[k], &regs);
	return f || !next ? f : python_find_code(pw, next);
}

/* The run at index @run with its first frame at @address, by the C code that it has called. */
static uint64_t key_of_run(const struct python_walk *pw, uint32_t run, uint64_t address)
{
	const uint64_t *frames = pw->w->frames;
	uint64_t key = hash_u64(address ^ hash_u64(uw_frame_pc(frames[run])));

	for (uint32_t i = 1; i <= NATIVE_MAX && i < run; i++) /* (the leaf is anywhere) */
		key = hash_u64(key ^ uw_frame_pc(frames[run - i]));
	return key;
}

/* The first function of run @k, with its frame at @address: NULL: not known.  *ret_frame: as it reads now. */
static const struct script_function *
first_function(struct python_walk *pw, uint32_t k, uint64_t address, struct python_frame *ret_frame)
{
	struct python_frame *f = ret_frame;
	const struct script_function *late, *known;
	enum script_usual usual;
	uint64_t key, code, unused;

	*f = (struct python_frame){.address = address};
	late = python_read_frame(pw, address, f) ? python_code_of(pw, f) : NULL;
	if (f->exact)
		return late;
	python_note_calls(pw, k, f);
	late = late ? python_code_of(pw, f) : NULL; /* another one may have got its place */
	if (f->same)
		return late;
	known = function_of_run(pw, k, address, late);
	if (known) {
		/* The frame may be another one's by now, and so may be the list behind it. */
		f->there = known == late;
		f->proved = true;
		return known;
	}
	key = key_of_run(pw, pw->s->runs[k], address);
	if (late)
		script_note(pw->s, pw->e, key, late->address, 0);
	usual = script_usual(pw->s, pw->w, key, &code, &unused);
	if (usual == SCRIPT_UNUSUAL)
		return NULL;
	f->there = late && late->address == code;
	f->proved = usual == SCRIPT_PROVED;
	return python_code_at(pw, code);
}

/* 3.11: the _PyCFrame of the run outwards of @k, to which that at @at leads, 0: it is none.  What a function that was called by the loop
 * has pushed may look like one, too.  @frame: what it has, where that is known. */
static uint64_t outer_cframe(const struct python_walk *pw, uint32_t k, uint64_t at, uint64_t frame)
{
	uint64_t end = end_of_run(pw, pw->s->runs[k], at + 24), previous;

	return end && k + 1 < pw->s->n_runs && read_copy(pw->w, at + 16, &previous, 8) &&
			       previous > end && in_copy(pw->w, previous, 24) &&
			       (!frame || walk_word(pw->w, previous + 8) == frame) &&
			       end_of_run(pw, pw->s->runs[k + 1], previous + 24)
		       ? previous
		       : 0;
}

/* The same by that of run @k, which has the frame @inside. */
static uint64_t find_cframe(const struct python_walk *pw, uint32_t k, uint64_t inside,
			    uint64_t frame)
{
	uint64_t outer;

	for (uint64_t at = pw->cursor; in_copy(pw->w, at, 24) && script_step(pw->s, 1); at += 8) {
		outer = walk_word(pw->w, at + 8) == inside ? outer_cframe(pw, k, at, frame) : 0;
		if (outer)
			return outer;
	}
	return 0;
}

/* 3.11: the frame of the run outwards of @k: by the loop's registers, or by the _PyCFrame of this one, which is at *cframe, or (0) has
 * the frame @inside; 0: not known. *cframe: the next one. */
static uint64_t frame_outwards(struct python_walk *pw, uint32_t k, uint64_t inside,
			       uint64_t *cframe)
{
	uint64_t frame = k + 1 < pw->s->n_runs ? frame_of_run(pw, k + 1, inside) : 0;

	if (*cframe)
		*cframe = outer_cframe(pw, k, *cframe, frame);
	else if (inside && pw->py->offsets.is_entry)
		*cframe = find_cframe(pw, k, inside, frame);
	return frame || !*cframe ? frame : walk_word(pw->w, *cframe + 8);
}

/* From the frame @f of @function to that of its caller, the function of which is returned.  NULL: the caller is not
 * known, or (*ret_end) the run ends; f->previous is behind it. */
static const struct script_function *caller_of(struct python_walk *pw, struct python_frame *f,
					       const struct script_function *function,
					       bool *ret_end)
{
	uint64_t key = python_key_of_call(f->address, function->address), code, previous;
	bool end = f->there && python_ends_run(pw, f);
	struct python_frame g = {0};
	enum script_usual usual;
	bool read = f->there && !end && python_read_frame(pw, f->previous, &g);

	*ret_end = false;
	if (!f->exact) {
		if (!(f->same && (end || (read && g.same)))) {
			usual = script_usual(pw->s, pw->w, key, &code, &previous);
			if (usual == SCRIPT_UNUSUAL ||
			    (f->there && f->previous && !f->entry && f->previous != previous))
				return NULL;
			end = code == PYTHON_RUN_ENDS;
			read &= g.calling && g.address == previous && g.code == code;
			if (!end && !read &&
			    (!python_read_frame(pw, previous, &g) || g.code != code))
				g = (struct python_frame){.address = previous, .code = code};
			g.proved |= usual == SCRIPT_PROVED;
			f->previous = previous;
		}
	}
	*ret_end = end;
	if (end)
		return NULL;
	*f = g;
	return g.code ? python_code_of(pw, &g) : NULL;
}

static void push_function(struct python_walk *pw, const struct script_function *code, bool proved)
{
	if (!code->hidden)
		script_push(pw->s, id_of(code) | UW_FRAME_SCRIPT | (proved ? 0 : UW_FRAME_GUESSED));
}

/* The same of a frame that may have been read late. */
static void push_read(struct python_walk *pw, const struct script_function *code,
		      const struct python_frame *f)
{
	push_function(pw, code, f->proved && (f->exact || python_is_known(pw, id_of(code))));
}

/* Can @f, which ends its run, be the outermost frame of run @k?  The thread's outermost one is the first on CPython's stack. */
static bool can_end(struct python_walk *pw, uint32_t k, const struct python_frame *f)
{
	const struct script_function *code;

	if (k + 1 < pw->s->n_runs || f->exact || pw->w->res->outcome != UW_WHOLE)
		return true;
	code = python_code_at(pw, f->code);
	return code && code->size && (f->address & (VM_PAGE - 1)) == PYTHON_CHUNK_BEGIN;
}

/* The functions outwards of @f that are proved, behind the loop's frame for those between.  The list is the one of a
 * later time: it has to lead to the run's end, and not to @outer, the frame of the next run.  *ret_frame: behind the
 * end.  false: there is none. */
static bool push_proved(struct python_walk *pw, uint32_t k, struct python_frame *f, uint64_t outer,
			uint64_t *ret_frame)
{
	struct native_script *s = pw->s;
	uint32_t mark = s->n, run = s->runs[k];

	for (uint32_t i = 0; i < UW_MAX_FRAMES && f->address && script_step(s, 1); i++) {
		const struct script_function *code = NULL;

		if (python_ends_run(pw, f)) {
			if (!i || s->n == mark ||
			    (!f->entry && !is_entry_frame(pw, run, f->previous)) ||
			    !can_end(pw, k, f))
				break;
			*ret_frame = f->previous;
			return true;
		}
		if (!python_read_frame(pw, f->previous, f) || f->address == outer)
			break;
		/* What a function that runs now has called is over. */
		if (!f->same || !f->calling)
			s->n = mark;
		if (f->same)
			code = python_code_at(pw, f->code);
		if (!code)
			continue;
		if (s->n == mark)
			script_push(s, pw->w->frames[run]);
		push_function(pw, code, python_is_known(pw, id_of(code)));
	}
	s->n = mark;
	return false;
}

/* The Python frames of run @k, from @address outwards; @cframe: its _PyCFrame where that is known.  *ret_frame: behind
 * the last one, an entry frame or the frame of the next run; *ret_gap: the loop's frame stands for some.  false: they do not
 * lead there. */
static bool push_run(struct python_walk *pw, uint32_t k, uint64_t address, uint64_t cframe,
		     uint64_t *ret_frame, bool *ret_gap)
{
	uint32_t mark;
	const struct script_function *code;
	struct python_frame f;
	bool end = false;

	if (!pw->py->offsets.is_entry && in_copy(pw->w, address, UW_PYTHON_FRAME)) {
		*ret_frame = address;
		return true;
	}
	code = first_function(pw, k, address, &f);
	mark = pw->s->n + (code && !code->hidden);
	for (uint32_t i = 0; i < UW_MAX_FRAMES && code && script_step(pw->s, 1); i++) {
		push_read(pw, code, &f);
		code = caller_of(pw, &f, code, &end);
	}
	if (!end) {
		*ret_gap = true;
		return push_proved(pw, k, &f, frame_outwards(pw, k, address, &cframe), ret_frame);
	}
	*ret_frame = f.previous;
	if (can_end(pw, k, &f))
		return true;
	pw->s->n = (uint32_t)min_u64(pw->s->n, mark);
	return false;
}

/* Where the frame of the next run outwards is, by the C stack; by the list where that was copied at the sample.  @inside: a
 * frame of this run, @behind: what its list led to; 0: nothing. */
static uint64_t next_run(struct python_walk *pw, uint32_t k, uint64_t inside, uint64_t behind,
			 uint64_t *cframe)
{
	uint32_t run = pw->s->runs[k];
	uint64_t at, word = 0;

	if (!pw->py->offsets.is_entry) {
		at = behind && is_entry_frame(pw, run, behind) ? behind : find_entry_frame(pw, run);
		if (!at)
			return 0;
		pw->cursor = at + UW_PYTHON_FRAME;
		return read_copy(pw->w, at + pw->py->offsets.previous, &word, 8) ? word : 0;
	}
	if (behind && exact_frame(pw, behind)) {
		*cframe = 0;
		return behind;
	}
	word = frame_outwards(pw, k, inside, cframe);
	if (*cframe)
		pw->cursor = *cframe;
	return word ? word : behind;
}

/* Does the run at index @run stand behind a trampoline of -X perf, which has the function's name? */
static bool has_trampoline(const struct walk *w, uint32_t run)
{
	const struct uw_map *map =
		run + 1 < w->n
			? uw_space_find(w->snapshot->space, uw_frame_lookup(w->frames[run + 1]))
			: NULL;

	return map && map->module && uw_module_kind(map->module) == UW_MODULE_JIT;
}

/* ---- frames that are read late ---- */

/* Finds the first function of run @k, with its frame at @address. */
static void find_start(struct python_walk *pw, uint32_t k, uint64_t address)
{
	struct script_start *start = &pw->s->starts[k];
	const struct script_function *code = NULL;
	struct python_frame f = {0};

	*start = (struct script_start){.frame = address};
	if (address && (pw->py->offsets.is_entry || !in_copy(pw->w, address, UW_PYTHON_FRAME)))
		code = first_function(pw, k, address, &f);
	if (code) {
		start->code = *code;
		start->known = true;
	}
	/* It may be another one's by now. */
	code = f.code && f.code != start->code.address ? python_code_at(pw, f.code) : NULL;
	if (code) {
		start->other = *code;
		start->late = true;
	}
	start->proved = f.proved;
	start->there = f.there;
}

/* The functions that each run of the loop is in: @frame is the innermost run's. */
static void find_starts(struct python_walk *pw, uint64_t frame)
{
	struct native_script *s = pw->s;
	uint64_t cframe = 0, inside;

	for (uint32_t k = 0; k < s->n_runs; k++) {
		s->cframes[k] = cframe;
		find_start(pw, k, frame);
		inside = frame;
		if (k + 1 == s->n_runs)
			return;
		frame = next_run(pw, k, inside, 0, &cframe);
		if (!frame)
			frame = frame_of_run(pw, k + 1, inside);
	}
}

/* A frame of a list that was read late. */
struct late_frame {
	uint64_t address, code;
	bool held; /* it read the same before the sample */
};

/* The list of run @k from the frame at @at on, as it reads now.  0: it does not lead to the run's end. */
static uint32_t list_from(struct python_walk *pw, uint32_t k, uint64_t at,
			  struct late_frame to[LATE_MAX])
{
	bool last = k + 1 == pw->s->n_runs;
	struct python_frame f;

	for (uint32_t n = 0;
	     n < LATE_MAX && script_step(pw->s, 1) && python_read_frame(pw, at, &f);) {
		to[n++] = (struct late_frame){at, f.code, script_held(pw->s, pw->w, at)};
		at = f.previous;
		if (!(pw->py->offsets.is_entry ? f.entry : python_is_on_c_stack(pw, at)))
			continue;
		if (last)
			return can_end(pw, k, &f) ? n : 0;
		return (pw->py->offsets.is_entry ? at == pw->s->starts[k + 1].frame
						 : is_entry_frame(pw, pw->s->runs[k], at))
			       ? n
			       : 0;
	}
	return 0;
}

/* A run is known again by its thread and by what called it. */
static uint64_t key_of_outer(const struct python_walk *pw, uint32_t k)
{
	uint64_t outwards = k + 1 < pw->s->n_runs ? pw->s->starts[k + 1].frame : 1;

	return hash_u64(pw->w->snapshot->thread ^ (uint64_t)pw->s->serial << 32) ^
	       hash_u64(outwards);
}

/* The list of run @k from its first frame on, or, where that leads to nothing by now, from a frame outwards of which it led to
 * the outermost one before. */
static uint32_t late_list(struct python_walk *pw, uint32_t k, struct late_frame to[LATE_MAX])
{
	uint64_t first = pw->s->starts[k].frame, key = key_of_outer(pw, k);
	struct script_outer *outer = &pw->s->outers[key % SCRIPT_OUTERS];
	uint32_t n = list_from(pw, k, first, to);
	bool last = k + 1 == pw->s->n_runs;

	for (uint32_t i = 0; !n && outer->key == key && i < outer->n; i++)
		if (!pw->s->starts[k].code.size || outer->frames[i] < first)
			n = list_from(pw, k, outer->frames[i], to);
	if (!n || to[0].address != first ||
	    (last && (to[n - 1].address & (VM_PAGE - 1)) != PYTHON_CHUNK_BEGIN))
		return n;
	*outer = (struct script_outer){.key = key, .n = (uint32_t)min_u64(n, SCRIPT_OUTER)};
	for (uint32_t i = 0; i < outer->n; i++)
		outer->frames[i] = to[n - outer->n + i].address;
	return n;
}

/* Is the run's first frame on CPython's stack, as that at @address is? */
static bool is_on_stack_with(const struct script_start *start, uint64_t address)
{
	return start->known ? start->code.size
			    : start->frame - address + CHUNK_BYTES < 2 * CHUNK_BYTES;
}

/* Can the innermost of the callers @ret, which has called @inner, be another function that is as often at its place? */
static bool is_any_twin(struct native_script *s, const struct script_callers *ret, uint64_t inner)
{
	const struct script_caller_frame *c = &ret->path[ret->n - 1];
	uint64_t outer = ret->n > 1 ? c[-1].id : SCRIPT_RUN_ENDS;

	return !c->proved && script_flips(s, c->top) &&
	       script_call_has_twin(s, inner, c->id, outer);
}

/* The callers in the list @list of run @k, from the outermost one inwards, as far as they fit behind each other; *ret_held: how many
 * of these read the same before the sample and after.  @end: where the frame of the next run ends, 0: not known.  true: the
 * list leads to the run's first function. */
static bool listed_callers(struct python_walk *pw, uint32_t k, uint64_t end,
			   struct script_callers *ret, uint32_t *ret_held)
{
	const struct script_start *start = &pw->s->starts[k];
	struct late_frame list[LATE_MAX];
	uint32_t n = late_list(pw, k, list);
	bool held = true;

	ret->n = *ret_held = 0;
	while (n-- > 0) {
		const struct script_function *code = python_code_at(pw, list[n].code);
		bool first = !n && list[0].address == start->frame;

		if (!code || ret->n == SCRIPT_PATH)
			return false;
		if (code->size && end && end != list[n].address &&
		    (list[n].address & (VM_PAGE - 1)) > PYTHON_CHUNK_BEGIN)
			return false; /* it is not there by now */
		if (ret->n && is_any_twin(pw->s, ret, id_of(code))) {
			ret->n--;
			return false;
		}
		if (first)
			return end == list[0].address && id_of(code) == id_of(&start->code);
		if (code->size && is_on_stack_with(start, list[n].address) &&
		    list[n].address + code->size > start->frame)
			return false;
		if (code->size)
			end = list[n].address + code->size;
		held &= list[n].held;
		*ret_held += held;
		ret->path[ret->n++] = (struct script_caller_frame){id_of(code), list[n].address,
								   end, code->hidden, held};
	}
	return false;
}

/* The callers between @outer, of which fewer and fewer may still have been there, and the first function in @room. */
static bool search_between(struct python_walk *pw, struct script_room *room,
			   struct script_callers *outer, struct script_callers *ret)
{
	for (uint32_t i = 0; i < SEARCHES && outer->n; i++, outer->n--) {
		room->outer = outer->path[outer->n - 1].id;
		room->end = outer->path[outer->n - 1].end;
		if (script_call_search(pw->s, room, ret))
			return true;
	}
	return false;
}

static void keep_callers(struct native_script *s, struct script_start *start,
			 const struct script_callers *found)
{
	for (uint32_t i = found->n; i-- > 0 && s->n_callers < SCRIPT_CALLERS_ALL; start->n++)
		s->callers[s->n_callers++] = found->path[i];
}

static bool is_sure(const struct script_callers *found)
{
	for (uint32_t i = 0; i < found->n; i++)
		if (!found->path[i].proved)
			return false;
	return true;
}

/* The callers of run @k, which is in @function, between it and the frame of the next run, which ends at @end (0: not known): by
 * their sizes, or by frames that were there before.  true: all are known. */
static bool search_run(struct python_walk *pw, uint32_t k, const struct script_function *function,
		       struct script_room *room, struct script_callers *held,
		       struct script_callers *found)
{
	struct native_script *s = pw->s;
	bool last = k + 1 == s->n_runs, listed;
	uint64_t end = room->end;
	uint32_t n_held, n;

	held->n = found->n = 0;
	room->id = id_of(function);
	room->top = function->size ? s->starts[k].frame : 0;
	room->root = last && pw->w->res->outcome == UW_WHOLE;
	if (end && script_call_search(s, room, found) && (!last || is_sure(found)))
		return true;
	s->starts[k].unseen = found->doubtful;
	found->n = 0;
	listed = listed_callers(pw, k, last ? 0 : end, held, &n_held);
	n = held->n;
	held->n = n_held;
	if ((listed && n_held == n) || search_between(pw, room, held, found))
		return true;
	room->outer = SCRIPT_RUN_ENDS;
	room->end = end;
	if (last && (end || !room->root) && script_call_search(s, room, found))
		return true;
	found->n = 0;
	held->n = listed ? n : n_held;
	return listed;
}

static void search_callers(struct python_walk *pw, uint32_t k, uint64_t end)
{
	struct native_script *s = pw->s;
	struct script_start *start = &s->starts[k];
	struct script_callers held = {.n = 0}, found = {.n = 0};
	struct script_room room = {.end = end, .outer = SCRIPT_RUN_ENDS};
	uint32_t n_held;

	start->at = s->n_callers;
	start->n = 0;
	if (!start->frame || in_copy(pw->w, start->frame, UW_PYTHON_FRAME))
		return;
	if (start->known) {
		start->whole = search_run(pw, k, &start->code, &room, &held, &found);
	} else {
		(void)listed_callers(pw, k, k + 1 == s->n_runs ? 0 : end, &held, &n_held);
		held.n = n_held;
	}
	if (!start->whole && start->late) {
		struct script_callers late = {.n = 0};
		struct script_room again = {.id = id_of(&start->other),
					    .top = start->other.size ? start->frame : 0,
					    .end = end,
					    .outer = SCRIPT_RUN_ENDS};

		if (again.top && end && script_call_search(s, &again, &late) && late.anchored) {
			start->code = start->other;
			start->known = start->whole = true;
			start->proved = false;
			room = again;
			found = late;
			held.n = 0;
		}
	}
	if (start->known && room.top)
		start->end = room.top + start->code.size;
	else if (start->whole && room.end)
		start->end = room.end + found.room;
	/* Those of a guess are guesses, up to what was there before. */
	for (uint32_t i = 0; i < found.n; i++)
		found.path[i].proved &= start->proved && python_is_known(pw, id_of(&start->code));
	if (start->whole)
		keep_callers(s, start, &found);
	keep_callers(s, start, &held);
}

/* Is @outer, the first function of the next run, a guess behind which (@end) no callers fit up to @start? */
static bool leaves_no_room(const struct script_start *start, uint64_t end,
			   const struct script_start *outer)
{
	bool beyond = end > start->frame && end - start->frame < CHUNK_BYTES;

	return end && start->known && start->proved && start->code.size && !start->whole &&
	       (!start->unseen || beyond) && outer->known && !outer->proved;
}

/* The first function of run @k is not known after all: its callers are those that were there before. */
static void forget_start(struct python_walk *pw, uint32_t k)
{
	struct script_start *start = &pw->s->starts[k];

	start->known = start->late = start->whole = false;
	start->forgotten = true;
	start->end = 0;
	search_callers(pw, k, 0);
}

static void find_callers(struct python_walk *pw)
{
	struct native_script *s = pw->s;
	uint64_t end = 0, unused;

	if (script_usual(s, pw->w, python_key_of_root(pw), &end, &unused) == SCRIPT_UNUSUAL)
		end = 0;
	s->n_callers = 0;
	for (uint32_t k = s->n_runs; k-- > 0;) {
		search_callers(pw, k, end);
		if (k + 1 < s->n_runs && leaves_no_room(&s->starts[k], end, &s->starts[k + 1])) {
			forget_start(pw, k + 1);
			search_callers(pw, k, 0);
		}
		end = s->starts[k].end;
	}
}

/* The same as push_run(), by what is known of calls; the loop's frame stands for what is not. */
static void push_callers(struct python_walk *pw, uint32_t k)
{
	const struct script_start *start = &pw->s->starts[k];

	if (start->known)
		push_function(pw, &start->code,
			      start->proved && python_is_known(pw, id_of(&start->code)));
	if (start->n && !start->whole)
		script_push(pw->s, pw->w->frames[pw->s->runs[k]]);
	for (uint32_t i = 0; i < start->n; i++) {
		const struct script_caller_frame *c = &pw->s->callers[start->at + i];

		bool proved = c->proved && python_is_known(pw, c->id);

		if (!c->hidden)
			script_push(pw->s,
				    c->id | UW_FRAME_SCRIPT | (proved ? 0 : UW_FRAME_GUESSED));
	}
}

/* ---- the new list ---- */

/* The frames from @mark on, behind the loop's own, are those of the run; @whole: up to its outermost one. */
static void end_run(struct python_walk *pw, uint32_t run, uint32_t mark, bool whole)
{
	struct native_script *p = pw->s;
	uint64_t loop = p->frames[mark];

	if (pw->e->engine.settings.native_frames || (whole && p->n == mark + 1))
		return; /* all of it; or the run begins or ends, and has no function */
	if (has_trampoline(pw->w, run)) {
		p->n = mark + 1;
	} else if (whole || p->n > mark + 1) {
		memmove(p->frames + mark, p->frames + mark + 1,
			(p->n - mark - 1) * sizeof(*p->frames));
		p->n--;
		if (!whole) /* what the rest of the list was is not known */
			p->frames[p->n++] = loop;
	}
}

static void replace(struct python_walk *pw, uint64_t frame)
{
	struct native_script *p = pw->s;
	bool exact = pw->w->snapshot->n_python;
	uint64_t cframe = 0, behind, inside;

	script_push_native(p, pw->w, 0, p->runs[0]);
	if (!exact) {
		python_note_current(pw);
		find_starts(pw, frame);
		find_callers(pw);
		script_steps_again(p);
	}
	for (uint32_t k = 0; k < p->n_runs; k++) {
		uint32_t run = p->runs[k], end = k + 1 < p->n_runs ? p->runs[k + 1] : pw->w->n;
		uint32_t mark = p->n;
		bool whole, gap = false;

		behind = 0;
		script_push(p, pw->w->frames[run]);
		if (p->n == UW_MAX_FRAMES)
			return;
		whole = !exact && p->starts[k].whole;
		if (!whole && (exact || !p->starts[k].forgotten))
			whole = frame && push_run(pw, k, frame, cframe, &behind, &gap);
		if (!exact && (p->starts[k].whole || ((!whole || gap) && p->starts[k].n))) {
			p->n = mark + 1;
			push_callers(pw, k);
			gap = !p->starts[k].whole;
			whole = true; /* up to the outermost one */
		}
		/* (where the innermost run begins or ends, a copy at the sample has no frame of it) */
		pw->w->res->lacks_functions |=
			(!whole || gap) && !has_trampoline(pw->w, run) && (frame || k || !exact);
		end_run(pw, run, mark, whole);
		script_push_native(p, pw->w, run + 1, end);
		if (k + 1 == p->n_runs)
			break;
		inside = frame;
		if (!exact) {
			frame = p->starts[k + 1].frame;
			cframe = p->cframes[k + 1];
			if (!frame)
				frame = behind;
			continue;
		}
		frame = next_run(pw, k, inside, whole ? behind : 0, &cframe);
		if (!frame)
			frame = frame_of_run(pw, k + 1, inside);
		if (!frame && !inside && !k)
			frame = pw->w->snapshot->python[0] << 16 >> 16;
	}
}

/* ---- all ---- */

/* The frame of the innermost run; 0: not known, or none.  At a call of C code it is the one that the interpreter calls the
 * current one, and a BPF program has copied that first: the register has a frame that is being made or freed by the call, or the
 * same.  In the loop itself the register has it; where a run begins or ends, no frame yet, or none any more. */
static uint64_t first_frame(struct python_walk *pw)
{
	const struct uw_snapshot *s = pw->w->snapshot;
	uint64_t frame = 0;

	if (s->n_python && (pw->s->runs[0] || !pw->py->has_frame))
		return s->python[0] << 16 >> 16;
	find_regs(pw);
	if (pw->py->has_frame && pw->regs.known >> pw->py->frame & 1)
		frame = pw->regs.r[pw->py->frame];
	return s->n_python && frame && !exact_frame(pw, frame) ? 0 : frame;
}

void native_python(struct native_script *s, struct native *e, struct walk *w,
		   const struct uw_python *py)
{
	struct python_walk pw = {.e = e, .w = w, .s = s, .py = py, .cursor = w->base};

	replace(&pw, first_frame(&pw));
}
