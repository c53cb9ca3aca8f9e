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
 * Else they are read from the process after the sample, and may be of another call by then.  A frame is proved
 * where the register of the next instruction is inside the function's bytecode, or where its words read the same before
 * the sample and after; else it is guessed. */
#include "unwinder/script-frames.h"

enum {
	RUN_ROOM = 640, /* bytes from an entry frame to the return address of its run */
	FRAME_SIZE = UW_PYTHON_FRAME,
	CODE_SIZE = UW_PYTHON_CODE,
	UNITS_MAX = 1 << 24,
	SEARCH_MAX = 64 << 10, /* bytes of bytecode behind the head of its code object */
	OWNED_BY_C = 3,
	CODE_TAG = 7, /* 3.14 on: bits of the pointer to the code object */
	INSTR_AT = 56,
	CODE_TYPE = 8,
	CODE_UNITS = 16,
	/* An object is read again with those that will be soon. */
	AGAIN_MAX = 64,
	AGAIN_BYTES = CODE_SIZE + 8 +
		      16, /* the object, the hash of its file's name, length and hash of its own */
};

/* One stack. */
struct python_walk {
	struct native *e;
	struct walk *w;
	struct native_script *s;
	const struct uw_python *py;
	bool late;	 /* the innermost frame is not what it was at the sample */
	uint64_t next;	 /* the innermost run's instruction; 0: not known */
	uint32_t exact;	 /* of the frames copied at the sample: the one that is looked for first */
	uint64_t cursor; /* the copy is searched from here on */
};

/* ---- memory ---- */

static bool in_copy(const struct walk *w, uint64_t address, size_t len)
{
	uint64_t at = address - w->base;

	return at < w->snapshot->stack_len && len <= w->snapshot->stack_len - at;
}

static bool read_copy(const struct walk *w, uint64_t address, void *to, size_t len)
{
	if (!in_copy(w, address, len))
		return false;
	memcpy(to, w->stack + (address - w->base), len);
	return true;
}

/* From the process, as it is now. */
static bool read_late(struct python_walk *pw, uint64_t address, void *to, size_t len)
{
	return vm_memory_read(&pw->s->memory, address, to, len);
}

static uint64_t word_of(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* ---- code objects ---- */

/* What identifies the code object of which @bytes were read, apart from its strings.  false: it is none. */
static bool code_of_bytes(const struct python_walk *pw, uint64_t address, const uint8_t *bytes,
			  struct uw_python_content *content, struct script_function *ret_code)
{
	const struct uw_python_offsets *o = &pw->py->offsets;

	content->units = word_of(bytes, CODE_UNITS);
	memcpy(&content->line, bytes + o->line, sizeof(content->line));
	*ret_code = (struct script_function){
		.address = address,
		.serial = pw->s->serial,
		.code = address + o->bytecode,
		.len = 2 * content->units,
		.filename = word_of(bytes, o->filename),
		.qualname = word_of(bytes, o->qualname),
	};
	/* _Py_InitCleanup: no function has the same text for its file and its name. */
	ret_code->hidden = ret_code->filename == ret_code->qualname;
	return word_of(bytes, CODE_TYPE) == pw->py->code_type && content->units &&
	       content->units <= UNITS_MAX;
}

/* Reads the code object at @address.  false: there is none. */
static bool read_code(struct python_walk *pw, uint64_t address, struct script_function *ret_code)
{
	struct uw_python_content content;
	struct script_function code;
	uint8_t bytes[CODE_SIZE];

	if (address & 7 || !read_late(pw, address, bytes, sizeof(bytes)) ||
	    !code_of_bytes(pw, address, bytes, &content, &code) ||
	    !read_late(pw, code.filename + UW_PYTHON_HASH, &content.filename, 8) ||
	    !read_late(pw, code.qualname + UW_PYTHON_LENGTH, &content.length, 8) ||
	    !read_late(pw, code.qualname + UW_PYTHON_HASH, &content.hash, 8))
		return false;
	code.sign = uw_python_sign(&content);
	*ret_code = code;
	return true;
}

static uint64_t fresh_ns(const struct script_function *c)
{
	return script_fresh(c->since, c->read_at);
}

/* Is the object as it was?  @bytes: AGAIN_BYTES that were read of it. */
static bool is_same_code(const struct python_walk *pw, const struct script_function *c,
			 const uint8_t *bytes)
{
	struct uw_python_content content;
	struct script_function now;

	if (!code_of_bytes(pw, c->address, bytes, &content, &now) || now.len != c->len ||
	    now.filename != c->filename || now.qualname != c->qualname)
		return false;
	content.filename = word_of(bytes, CODE_SIZE);
	content.length = word_of(bytes, CODE_SIZE + 8);
	content.hash = word_of(bytes, CODE_SIZE + 16);
	return uw_python_sign(&content) == c->sign;
}

/* Reads the known object @c at once with others of which a quarter of the time is over.  One that is not as it was stays as it is:
 * it is read by itself when it is needed. */
static void read_again(struct python_walk *pw, struct script_function *c, uint64_t now)
{
	struct uw_memory *memory = pw->w->snapshot->space->memory;
	struct script_function *list[AGAIN_MAX] = {c};
	struct uw_range ranges[3 * AGAIN_MAX] = {{0}}; /* gcc -O1 does not see that n > 0 */
	uint8_t bytes[AGAIN_MAX * AGAIN_BYTES];
	size_t n = 1;

	if (!memory || !memory->read_ranges)
		return;
	for (size_t i = 0; i < SCRIPT_FUNCTIONS && n < AGAIN_MAX; i++) {
		struct script_function *f = &pw->s->functions[i];

		if (f->serial == pw->s->serial && f->qualname && f != c && f->read_at < now &&
		    now - f->read_at >= fresh_ns(f) / 4)
			list[n++] = f;
	}
	for (size_t i = 0; i < n; i++) {
		ranges[3 * i] = (struct uw_range){list[i]->address, CODE_SIZE};
		ranges[3 * i + 1] = (struct uw_range){list[i]->filename + UW_PYTHON_HASH, 8};
		ranges[3 * i + 2] = (struct uw_range){list[i]->qualname + UW_PYTHON_LENGTH, 16};
	}
	if (!memory->read_ranges(memory, ranges, 3 * n, bytes))
		return;
	for (size_t i = 0; i < n; i++)
		if (is_same_code(pw, list[i], bytes + i * AGAIN_BYTES))
			list[i]->read_at = now;
}

/* The code object at @address; NULL: there is none.  One that was freed is replaced when another is at its address. */
static const struct script_function *code_at(struct python_walk *pw, uint64_t address)
{
	struct script_function *c = script_function_slot(pw->s, address);
	bool known = c->serial == pw->s->serial && c->address == address;
	/* Samples of several threads or of a batch are not in the order of their times. */
	uint64_t now = known ? max_u64(pw->w->snapshot->time, c->read_at) : pw->w->snapshot->time;
	uint64_t since = known ? c->since : now, sign = c->sign;

	if (known && now - c->read_at < fresh_ns(c))
		return c;
	if (known)
		read_again(pw, c, now);
	if (known && c->read_at == now)
		return c;
	if (!read_code(pw, address, c) && !known)
		return NULL;
	c->since = known && c->sign == sign ? since : now;
	c->read_at = now;
	return c;
}

/* The code object that has @instruction: a known one, else the one with its head before it in memory; NULL: none. */
static const struct script_function *code_of(struct python_walk *pw, uint64_t instruction)
{
	uint64_t at = (instruction & ~7ull) - pw->py->offsets.bytecode, word;
	const struct script_function *code;

	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		const struct script_function *f = &pw->s->functions[i];

		if (f->serial != pw->s->serial || !script_function_has(f, instruction))
			continue;
		code = code_at(pw, f->address);
		if (code && script_function_has(code, instruction))
			return code;
	}
	for (size_t i = 0; i < SEARCH_MAX; i += 8, at -= 8) {
		if (!read_late(pw, at + CODE_TYPE, &word, sizeof(word)))
			return NULL;
		if (word != pw->py->code_type)
			continue;
		code = code_at(pw, at);
		if (code && script_function_has(code, instruction))
			return code;
	}
	return NULL;
}

/* ---- frames ---- */

struct python_frame {
	uint64_t address, code, previous;
	bool entry;  /* the last of its run */
	bool proved; /* its words were these at the sample */
};

/* The frame at @address as the BPF program copied it at the sample.  NULL: it did not. */
static const uint64_t *exact_frame(struct python_walk *pw, uint64_t address)
{
	const struct uw_snapshot *s = pw->w->snapshot;

	for (uint32_t i = 0; i < s->n_python && script_step(pw->s, 1); i++) {
		uint32_t at = (pw->exact + i) % s->n_python;
		const uint64_t *words = s->python + (size_t)at * UW_PYTHON_WORDS;

		if (words[0] == address) {
			pw->exact = at + 1;
			return words;
		}
	}
	return NULL;
}

/* The Python frame at @address, as far as it looks like one. */
static bool read_frame(struct python_walk *pw, uint64_t address, struct python_frame *ret_frame)
{
	const uint64_t *exact = exact_frame(pw, address);
	const struct uw_python_offsets *o = &pw->py->offsets;
	uint8_t bytes[FRAME_SIZE];
	struct python_frame f = {.address = address};

	if (exact && exact[2] >> 56 < OWNED_BY_C) {
		*ret_frame = (struct python_frame){
			.address = address,
			.code = exact[1],
			.previous = exact[2] << 16 >> 16,
			.entry = o->is_entry && (exact[2] >> 48 & 0xff),
			.proved = true,
		};
		return true;
	}
	if (address & 7 || !read_late(pw, address, bytes, sizeof(bytes)) ||
	    bytes[o->owner] >= OWNED_BY_C)
		return false;
	f.code = word_of(bytes, o->code) & ~(uint64_t)CODE_TAG;
	f.previous = word_of(bytes, o->previous);
	f.entry = o->is_entry && bytes[o->is_entry];
	f.proved = script_same(pw->s, pw->e, pw->w, address, f.code, f.previous);
	*ret_frame = f;
	return true;
}

/* ---- the C stack ---- */

/* Is the return address of the run at index @run within RUN_ROOM bytes behind @at? */
static bool is_of_run(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const struct walk *w = pw->w;
	uint64_t ra = run + 1 < w->n ? uw_frame_pc(w->frames[run + 1]) : 0;

	if (!ra || !script_step(pw->s, RUN_ROOM / 8))
		return false;
	for (uint64_t i = at; i < at + RUN_ROOM && in_copy(w, i, 8); i += 8)
		if (walk_word(w, i) == ra)
			return true;
	return false;
}

/* 3.12: code is CPython's trampoline, and the instruction is its first.  From 3.13 on: code is None.  The owner's word: up
 * to 3.13 stacktop u32, return_offset u16, owner; then return_offset, owner. */
static bool is_entry_frame(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const uint16_t owner = pw->py->offsets.owner;
	uint8_t bytes[FRAME_SIZE];
	uint64_t code, instr, word;

	if (at & 7 || !read_copy(pw->w, at, bytes, sizeof(bytes)))
		return false;
	word = word_of(bytes, owner & ~7u) << (56 - 8 * (owner & 7u));
	if (word != (uint64_t)OWNED_BY_C << 56)
		return false;
	code = word_of(bytes, pw->py->offsets.code) & ~(uint64_t)CODE_TAG;
	instr = word_of(bytes, INSTR_AT);
	return (code == pw->py->none || instr == code + pw->py->offsets.bytecode) &&
	       is_of_run(pw, run, at + FRAME_SIZE);
}

/* The entry frame of a run, 0: not found. */
static uint64_t find_entry_frame(const struct python_walk *pw, uint32_t run)
{
	for (uint64_t at = pw->cursor; in_copy(pw->w, at, FRAME_SIZE) && script_step(pw->s, 1);
	     at += 8)
		if (is_entry_frame(pw, run, at))
			return at;
	return 0;
}

/* 3.11: the _PyCFrame of a run that has @frame, 0: not found. */
static uint64_t find_cframe(const struct python_walk *pw, uint32_t run, uint64_t frame)
{
	for (uint64_t at = pw->cursor; in_copy(pw->w, at, 24) && script_step(pw->s, 1); at += 8)
		if (walk_word(pw->w, at + 8) == frame && is_of_run(pw, run, at + 24))
			return at;
	return 0;
}

/* ---- the stack ---- */

/* The innermost function, which the register of the next instruction shows; its frame reads as @f by now. */
static const struct script_function *leaf_code(struct python_walk *pw, struct python_frame *f)
{
	const struct script_function *late = f->code ? code_at(pw, f->code) : NULL, *known;

	if (!pw->next || f->proved)
		return late;
	known = late && script_function_has(late, pw->next) ? late : code_of(pw, pw->next);
	if (!known)
		return late;
	/* The frame is another one's by now, and so may be the list behind it. */
	pw->late = known != late;
	f->proved = true;
	return known;
}

/* The Python frames of a run, from @address outwards.  @first: the innermost run.  *ret_frame: behind the last one, an entry
 * frame or the frame of the next run.  false: they do not lead there. */
static bool push_run(struct python_walk *pw, uint64_t address, bool first, uint64_t *ret_frame)
{
	for (uint32_t i = 0; i < UW_MAX_FRAMES && script_step(pw->s, 1); i++) {
		const struct script_function *code;
		struct python_frame f = {0};
		bool there;

		if (!pw->py->offsets.is_entry && in_copy(pw->w, address, FRAME_SIZE)) {
			*ret_frame = address;
			return true;
		}
		there = read_frame(pw, address, &f);
		if (!there && (i || !first))
			return false;
		code = first && !i ? leaf_code(pw, &f) : code_at(pw, f.code);
		if (!code)
			return false;
		if (!code->hidden)
			script_push(pw->s, code->address | code->sign | UW_FRAME_SCRIPT |
						   (f.proved ? 0 : UW_FRAME_GUESSED));
		if (!there || pw->late)
			return false;
		address = f.previous;
		if (f.entry) {
			*ret_frame = address;
			return true;
		}
	}
	return false;
}

/* Where the frame of the next run outwards is, by the C stack.  @inside: a frame of this run, @behind: what its list led
 * to; 0: nothing. */
static uint64_t next_run(struct python_walk *pw, uint32_t run, uint64_t inside, uint64_t behind,
			 uint64_t *cframe)
{
	uint64_t at, word = 0;

	if (!pw->py->offsets.is_entry) {
		at = behind && is_entry_frame(pw, run, behind) ? behind : find_entry_frame(pw, run);
		if (!at)
			return 0;
		pw->cursor = at + FRAME_SIZE;
		return read_copy(pw->w, at + pw->py->offsets.previous, &word, 8) ? word : 0;
	}
	at = *cframe ? *cframe : inside ? find_cframe(pw, run, inside) : 0;
	*cframe = 0;
	if (!at || !read_copy(pw->w, at + 16, &word, 8))
		return behind;
	pw->cursor = at + 24;
	*cframe = word > at && in_copy(pw->w, word, 24) ? word : 0;
	return *cframe ? walk_word(pw->w, *cframe + 8) : behind;
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

static void replace(struct python_walk *pw, uint64_t frame)
{
	struct native_script *p = pw->s;
	uint64_t cframe = 0, behind;

	script_push_native(p, pw->w, 0, p->runs[0]);
	for (uint32_t k = 0; k < p->n_runs; k++) {
		uint32_t run = p->runs[k], end = k + 1 < p->n_runs ? p->runs[k + 1] : pw->w->n;
		uint32_t mark = p->n;
		uint64_t inside = frame;
		bool trampoline = has_trampoline(pw->w, run), whole;

		script_push(p, pw->w->frames[run]);
		if (p->n == UW_MAX_FRAMES)
			return;
		whole = frame && push_run(pw, frame, !k, &behind);
		if (pw->e->engine.settings.native_frames || (whole && p->n == mark + 1)) {
			; /* all of it; or the run begins or ends, and has no function */
		} else if (trampoline) {
			p->n = mark + 1;
		} else if (whole) {
			memmove(p->frames + mark, p->frames + mark + 1,
				(p->n - mark - 1) * sizeof(*p->frames));
			p->n--;
		} else if (p->n > mark + 1) { /* what the rest of the list was is not known */
			uint64_t loop = p->frames[mark];

			memmove(p->frames + mark, p->frames + mark + 1,
				(p->n - mark - 1) * sizeof(*p->frames));
			p->frames[p->n - 1] = loop;
		}
		frame = next_run(pw, run, inside, whole ? behind : 0, &cframe);
		if (!frame && !inside && !k && pw->w->snapshot->n_python)
			frame = pw->w->snapshot->python[0];
		pw->late = false; /* the copy has it */
		script_push_native(p, pw->w, run + 1, end);
	}
}

/* ---- all ---- */

void native_python(struct native_script *s, struct native *e, struct walk *w,
		   const struct uw_python *py)
{
	struct python_walk pw = {.e = e, .w = w, .s = s, .py = py, .cursor = w->base};
	struct cfi_regs regs;
	uint64_t frame = 0;

	if (native_regs_of(e, w, s->runs[0] + 1, &regs)) {
		if (py->has_frame && regs.known >> py->frame & 1)
			frame = regs.r[py->frame];
		if (py->has_next && regs.known >> py->next & 1)
			pw.next = regs.r[py->next];
		pw.cursor = regs.r[w->machine->sp];
	}
	/* The register has no frame yet, or none any more, where the run begins or ends. */
	if (w->snapshot->n_python && !(frame && exact_frame(&pw, frame)))
		frame = py->has_frame ? 0 : w->snapshot->python[0];
	replace(&pw, frame);
}
