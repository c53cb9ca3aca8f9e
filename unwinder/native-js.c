/* native-js.c - see script-frames.h.  The functions that Node.js runs, in place of frames of V8's interpreter and of compiled code.
 *
 * Each function has a frame of the C stack with a frame pointer, in each tier: the interpreter (its frames are all in one
 * piece of code), the baseline compiler, an optimizing compiler.
 *
 *     frame                                heap
 *     [fp + 8]   return address
 *     [fp]       the caller's fp
 *     [fp - 8]   context (V8's own frames: a number)
 *     [fp - 16]  JSFunction ─────────────► SharedFunctionInfo: name, place, BytecodeArray ◄─┐
 *     [fp - 32]  interpreted: BytecodeArray  - - - - - - - - - - - - - - - - - - - - - - - -┘
 *
 * The frame is that of the sample, the JSFunction is read later: a collection may have moved it, and put another in its place.  But
 * compiled code, at an address, and a BytecodeArray belong to one function for as long as they are there.  So the function of
 * an address is remembered, and read again now and then.  A name is proved where
 *   - the BytecodeArray of the frame is that of the function, or
 *   - the address is in the code of the function, or
 *   - the address had this function before the sample.
 * Else it is guessed.
 *
 * Functions that an optimizing compiler has put into others have no frame.  Compiled code that a perf map or a jitdump describes
 * keeps its frames: their names are of the sample's time. */
#include "unwinder/script-frames.h"

enum {
	LEAST_READS = 8,   /* pages, for one function */
	NOT_KNOWN = 0,	   /* script_past.code: there is no function */
	TRAMPOLINE = 2048, /* bytes of code that all interpreted frames are in */
};

struct js_walk {
	struct native *e;
	struct walk *w;
	struct native_script *s;
	const struct uw_v8 *v8;
};

/* Has the innermost frame a frame pointer of its own? */
enum js_leaf {
	JS_LEAF_FOUND, /* as the walk found it */
	JS_LEAF_WITHOUT,
	JS_LEAF_WITH
};

struct js_frame {
	uint64_t fp, function;
	uint64_t bytecode; /* 0: compiled */
};

static bool read_stack(struct js_walk *jw, uint64_t address, uint64_t *ret_word)
{
	return native_bytes(jw->e, jw->w, address, ret_word, sizeof(*ret_word));
}

/* ---- functions ---- */

/* Remembers the compiled code of a function, as it is at @now. */
static void note_code(struct js_walk *jw, const struct v8_function *f, uint64_t now)
{
	struct script_function *known = script_function_slot(jw->s, f->code);
	bool same = known->serial == jw->s->serial && known->code == f->code &&
		    known->frame == f->frame;

	*known = (struct script_function){
		.address = f->code,
		.serial = jw->s->serial,
		.code = f->code,
		.len = f->code_size,
		.frame = f->frame,
		.read_at = now,
		.since = same ? known->since : now,
	};
}

/* The function of compiled code that was remembered, NULL: none. */
static const struct script_function *noted_code(struct js_walk *jw, uint64_t address)
{
	if (!script_step(jw->s, SCRIPT_FUNCTIONS / 8))
		return NULL;
	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		const struct script_function *f = &jw->s->functions[i];

		if (f->serial == jw->s->serial && script_function_has(f, address))
			return f;
	}
	return NULL;
}

/* Where it is remembered that code at @address is V8's own: addresses have fewer bits. */
static struct script_past *own_slot(struct js_walk *jw, uint64_t address)
{
	return &jw->s->pasts[hash_u64(~address ^ jw->s->serial) % SCRIPT_PASTS];
}

static bool is_own(struct js_walk *jw, uint64_t address)
{
	const struct script_past *past = own_slot(jw, address);
	uint64_t time = jw->w->snapshot->time;

	return past->serial == jw->s->serial && past->frame == ~address &&
	       (time < past->counted ||
		time - past->counted < script_fresh(past->since, past->counted));
}

static void note_own(struct js_walk *jw, uint64_t address, uint64_t now)
{
	struct script_past *past = own_slot(jw, address);
	bool known = past->serial == jw->s->serial && past->frame == ~address;

	*past = (struct script_past){
		.frame = ~address,
		.serial = jw->s->serial,
		.since = known ? past->since : now,
		.counted = now,
	};
}

/* Reads the function of @frame, which has code at @address, into @past.  false: it cannot be read. */
static bool read_function(struct js_walk *jw, const struct js_frame *frame, uint64_t address,
			  struct script_past *past, bool *ret_proved)
{
	struct v8_function f;

	if (jw->s->memory.left < (uint64_t)LEAST_READS * VM_PAGE ||
	    !v8_function(&jw->s->memory, jw->v8, frame->function, &f))
		return false;
	if (frame->bytecode && frame->bytecode != f.bytecode &&
	    !v8_is_bytecode(&jw->s->memory, jw->v8, frame->bytecode)) {
		f.user = false;
		note_own(jw, address, past->since);
	}
	past->code = f.user ? f.frame : NOT_KNOWN;
	*ret_proved =
		frame->bytecode ? frame->bytecode == f.bytecode : address - f.code < f.code_size;
	if (!frame->bytecode && *ret_proved && f.user)
		note_code(jw, &f, past->since);
	return true;
}

static bool is_fresh(const struct script_function *code, uint64_t now)
{
	return now < code->read_at ||
	       now - code->read_at < script_fresh(code->since, code->read_at);
}

/* The function that has the frame of code at @address, NOT_KNOWN: none. */
static uint64_t function_of(struct js_walk *jw, const struct js_frame *frame, uint64_t address,
			    bool *ret_proved)
{
	uint64_t key = frame->bytecode ? frame->bytecode : address;
	struct script_past *past = &jw->s->pasts[hash_u64(key ^ jw->s->serial) % SCRIPT_PASTS];
	bool known = past->serial == jw->s->serial && past->frame == key;
	uint64_t time = jw->w->snapshot->time, before = known ? past->code : NOT_KNOWN;
	/* Samples of several threads or of a batch are not in the order of their times. */
	uint64_t now = known ? max_u64(time, past->counted) : time;
	struct script_past read = {.frame = key, .since = now, .serial = jw->s->serial};
	const struct script_function *code;

	*ret_proved = known && past->since <= time;
	if (known && now - past->counted < script_fresh(past->since, past->counted))
		return past->code;
	code = frame->bytecode ? NULL : noted_code(jw, address);
	if (code && is_fresh(code, now)) {
		*ret_proved = true;
		read.code = code->frame;
		read.since = code->since;
		read.counted = code->read_at;
		*past = read;
		return read.code;
	}
	if (!read_function(jw, frame, address, &read, ret_proved)) {
		*ret_proved = false; /* it was moved, or has ended */
		return known || !code ? before : code->frame;
	}
	if (known && read.code == before) {
		read.since = past->since;
		*ret_proved |= past->since <= time;
	}
	read.counted = now;
	*past = read;
	return read.code;
}

/* ---- frames ---- */

/* Is the frame at index @i of the walk, with the registers @regs, one of a function? */
static bool is_function_frame(struct js_walk *jw, uint32_t i, const struct cfi_regs *regs,
			      struct js_frame *ret_frame)
{
	const struct uw_machine *m = jw->w->machine;
	uint64_t fp = regs->r[m->fp], sp = regs->r[m->sp], ra, context;
	struct js_frame frame = {.fp = fp};

	if (!(regs->known >> m->fp & 1) || fp & 7 || fp < sp ||
	    fp - sp < (uint64_t)-jw->v8->fp_function || !read_stack(jw, fp + 8, &ra) ||
	    ra != uw_frame_pc(jw->w->frames[i + 1]) ||
	    !read_stack(jw, fp + (uint64_t)(int64_t)jw->v8->fp_context, &context) ||
	    !read_stack(jw, fp + (uint64_t)(int64_t)jw->v8->fp_function, &frame.function) ||
	    !v8_is_object(context) || !v8_is_object(frame.function))
		return false;
	*ret_frame = frame;
	return true;
}

static bool is_compiled(const struct walk *w, uint64_t address, const struct uw_module **ret_module)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, address);

	*ret_module = map ? map->module : NULL;
	return map && map->module && uw_module_kind(map->module) == UW_MODULE_JIT;
}

/* Has compiled code a file that describes it?  The first frame of it makes the session look for one. */
static bool has_file(struct js_walk *jw, const struct uw_module *module)
{
	uint32_t serial = uw_module_serial(module);

	switch (uw_module_symbol_state(module)) {
	case UW_MODULE_READY:
		return true;
	case UW_MODULE_NEW:
		if (jw->s->compiled == serial)
			return false;
		jw->s->compiled = serial;
		return true;
	default:
		return false;
	}
}

/* Of a frame with code at @address.  false: it has none. */
static bool read_bytecode(struct js_walk *jw, uint64_t address, struct js_frame *frame)
{
	return jw->v8->fp_bytecode && !is_own(jw, address) &&
	       read_stack(jw, frame->fp + (uint64_t)(int64_t)jw->v8->fp_bytecode,
			  &frame->bytecode) &&
	       v8_is_object(frame->bytecode);
}

/* Pushes @function in place of the frame at index @i. */
static void push_function(struct js_walk *jw, uint32_t i, uint64_t function, bool proved)
{
	if (function == NOT_KNOWN || jw->e->engine.settings.native_frames)
		script_push(jw->s, jw->w->frames[i]);
	if (function != NOT_KNOWN)
		script_push(jw->s, function | UW_FRAME_SCRIPT | (proved ? 0 : UW_FRAME_GUESSED));
}

static void push_frame(struct js_walk *jw, uint32_t i, struct js_frame *frame)
{
	uint64_t code = uw_frame_lookup(jw->w->frames[i]), function = NOT_KNOWN;
	const struct uw_module *module;
	bool proved = false;

	if (is_compiled(jw->w, code, &module) ? !has_file(jw, module)
					      : read_bytecode(jw, code, frame))
		function = function_of(jw, frame, code, &proved);
	push_function(jw, i, function, proved);
}

/* ---- the stack ---- */

/* Code without unwind information was left by a guess: the last frame of this kind, plus one. */
static uint32_t last_frame(const struct walk *w)
{
	uint32_t n = w->n;

	while (n > 1 && !(w->frames[n - 1] & UW_FRAME_GUESSED))
		n--;
	return n ? n - 1 : 0;
}

/* The registers of the frame behind @frame, that at index @i. */
static bool leave(struct js_walk *jw, const struct js_frame *frame, uint32_t i,
		  struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = jw->w->machine;
	struct cfi_regs regs = {.known = 1ull << m->fp | 1ull << m->sp | 1ull << m->pc};

	if (!read_stack(jw, frame->fp, &regs.r[m->fp]))
		return false;
	regs.r[m->sp] = frame->fp + 16;
	regs.r[m->pc] = uw_frame_pc(jw->w->frames[i + 1]);
	*ret_regs = regs;
	return true;
}

static void keep_regs(struct walk *w, const struct cfi_regs *regs, uint32_t i)
{
	w->full = *regs;
	w->full_at = i + 1;
	w->full_whole = true;
}

/* ---- the innermost frame ---- */

/* The function that begins or ends at @pc, and has no frame: where it begins, a register has the JSFunction. */
static uint64_t begun_function(struct js_walk *jw, uint64_t pc)
{
	enum { RDI = 5 }; /* DWARF's number */
	const struct uw_module *module;
	bool compiled = is_compiled(jw->w, pc, &module);
	const struct script_function *code;
	struct cfi_regs regs;
	struct v8_function f;

	if (compiled && has_file(jw, module))
		return NOT_KNOWN;
	code = compiled ? noted_code(jw, pc) : NULL;
	if (code && is_fresh(code, jw->w->snapshot->time))
		return code->frame;
	if (native_regs_of(jw->e, jw->w, 1, &regs) && v8_is_object(regs.r[RDI]) &&
	    v8_function(&jw->s->memory, jw->v8, regs.r[RDI], &f) && f.user &&
	    pc - f.code < f.code_size)
		return f.frame;
	return code ? code->frame : NOT_KNOWN;
}

/* V8's own code that interpreted functions run has no frame pointer of its own mostly, and all interpreted frames have the same return
 * address: that of the innermost frame may be equal to that of the function behind.  Is @frame that function's? */
static bool is_of_caller(struct js_walk *jw, struct js_frame *frame)
{
	uint64_t pc = uw_frame_pc(jw->w->frames[0]), caller = uw_frame_pc(jw->w->frames[1]);
	const struct uw_module *module;
	bool proved;

	if (jw->w->n < 3 || pc - caller + TRAMPOLINE < 2 * TRAMPOLINE ||
	    is_compiled(jw->w, pc, &module) || !read_bytecode(jw, caller - 1, frame))
		return false;
	return function_of(jw, frame, caller - 1, &proved) != NOT_KNOWN;
}

/* Pushes the innermost frame; *ret_regs: the registers of the next.  false: they are not known. */
static bool push_leaf(struct js_walk *jw, enum js_leaf leaf, struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = jw->w->machine;
	struct cfi_regs regs, next;
	bool known = native_regs_of(jw->e, jw->w, 2, &next), own;
	struct js_frame frame, behind;

	if (!native_regs_of(jw->e, jw->w, 1, &regs))
		return false;
	own = is_function_frame(jw, 0, &regs, &frame) && leaf != JS_LEAF_WITHOUT &&
	      (!known || leaf == JS_LEAF_WITH || next.r[m->sp] == frame.fp + 16);
	if (!own && known && leaf == JS_LEAF_FOUND) {
		*ret_regs = next;
	} else if (jw->w->n > 2 && leaf != JS_LEAF_WITH &&
		   is_function_frame(jw, 1, &regs, &behind) &&
		   (!own || is_of_caller(jw, &behind))) {
		*ret_regs = regs;
		own = false;
	} else if (!own || !leave(jw, &frame, 0, ret_regs)) {
		return false;
	}
	if (own)
		push_frame(jw, 0, &frame);
	else
		push_function(jw, 0, begun_function(jw, uw_frame_pc(jw->w->frames[0])), true);
	return true;
}

/* The new list.  false: from some frame on the registers are not known, and the frames stay as they are. */
static bool push_all(struct js_walk *jw, enum js_leaf leaf, uint32_t last)
{
	struct walk *w = jw->w;
	struct cfi_regs regs;
	uint32_t i = 0;

	jw->s->n = 0;
	w->full_at = 0;
	if (push_leaf(jw, leaf, &regs))
		keep_regs(w, &regs, ++i);
	for (; i && i < last && native_regs_of(jw->e, w, i + 1, &regs); i++) {
		struct js_frame frame;

		keep_regs(w, &regs, i);
		if (!is_function_frame(jw, i, &regs, &frame) || !leave(jw, &frame, i, &regs)) {
			script_push(jw->s, w->frames[i]);
			continue;
		}
		push_frame(jw, i, &frame);
		keep_regs(w, &regs, i + 1);
	}
	script_push_native(jw->s, w, i, w->n);
	return i == last;
}

void native_js(struct native_script *s, struct native *e, struct walk *w, const struct uw_v8 *v8)
{
	struct js_walk jw = {.e = e, .w = w, .s = s, .v8 = v8};
	uint32_t last = last_frame(w);

	/* In a recursive function, frames that are one too far out look right up to its first call. */
	if (!last)
		script_push_native(s, w, 0, w->n);
	else if (!push_all(&jw, JS_LEAF_FOUND, last) && !push_all(&jw, JS_LEAF_WITHOUT, last) &&
		 !push_all(&jw, JS_LEAF_WITH, last))
		(void)push_all(&jw, JS_LEAF_FOUND, last);
}
