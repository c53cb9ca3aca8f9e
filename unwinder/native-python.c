/* native-python.c - see native.h.  The functions that CPython's evaluation loop runs, in place of the loop's frames.
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
 * Where BPF programs are permitted, one has copied the Python frames at the sample (perf/python-stack.h): these are proved.
 * Else they are read from the process after the sample, and may be those of another call by then.  A frame is proved
 * where the register of the next instruction is inside the function's bytecode, or where its words read the same before
 * the sample and after; else it is guessed. */
#include <time.h>

#include "unwinder/native.h"

enum {
	PAGE = 4096,
	PAGES = 32,	     /* kept for one stack */
	READS_MAX = 64,	     /* pages read for one stack */
	CODES = 1024,	     /* code objects remembered */
	PASTS = 8192,	     /* Python frames remembered */
	RUNS_MAX = 256,	     /* frames of the loop in one stack */
	STEPS_MAX = 2 << 20, /* words of the copy and frames looked at for one stack: some ms */
	RUN_ROOM = 640,	     /* bytes from an entry frame to the return address of its run */
	FRAME_SIZE = 72,     /* up to the locals */
	CODE_SIZE = 208,     /* up to the bytecode */
	UNITS_MAX = 1 << 24,
	SEARCH_MAX = 64 << 10, /* bytes of bytecode behind the head of its code object */
	SAME_MIN = 32,	       /* times that a frame reads the same before it counts as proved, */
	SAME_NS = 2000000,     /* ... so far apart: a batch of samples is read at one time */
	OWNED_BY_C = 3,
	ENTRY_AT = 64, /* the word with stacktop, return_offset and owner, 3.12 on */
	INSTR_AT = 56,
	CODE_TYPE = 8,
	CODE_UNITS = 16,
	CODE_FRESH_NS = 20000000, /* how long what was read of a code object holds */
};

struct python_code {
	uint64_t code, bytecode, len;
	uint64_t sign;	  /* image.h */
	uint64_t read_at; /* time of the sample */
	uint32_t serial;  /* of the module; 0: free */
	bool hidden;	  /* CPython's own, between two functions */
};

/* The words of a frame, since when they read the same, and how often. */
struct python_past {
	uint64_t frame, code, previous, since, counted;
	uint32_t serial, same;
};

struct native_python {
	struct python_code codes[CODES];
	struct python_past pasts[PASTS];
	/* of the stack in hand */
	struct python_page {
		uint64_t address; /* 0: free */
		size_t len;
		uint8_t bytes[PAGE];
	} pages[PAGES];
	uint32_t n_reads, n_steps;
	uint32_t runs[RUNS_MAX]; /* indexes of the loop's frames */
	uint32_t n_runs;
	uint64_t frames[UW_MAX_FRAMES];
	uint32_t n;
};

/* One stack. */
struct python_walk {
	struct native *e;
	struct walk *w;
	struct native_python *p;
	const struct uw_python *py;
	uint32_t serial;
	bool late;	 /* the innermost frame is not what it was at the sample */
	uint64_t next;	 /* the innermost run's instruction; 0: not known */
	uint32_t exact;	 /* of the frames copied at the sample: the one that is looked for first */
	uint64_t cursor; /* the copy is searched from here on */
};

/* The process wrote the stack and the frames: what is looked for in them has an end.  false: it is reached. */
static bool step(const struct python_walk *pw, uint32_t n)
{
	if (pw->p->n_steps < STEPS_MAX)
		pw->p->n_steps += n;
	return pw->p->n_steps < STEPS_MAX;
}

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

static const struct python_page *page_of(struct python_walk *pw, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(PAGE - 1);
	struct python_page *page = &pw->p->pages[start / PAGE % PAGES];
	struct uw_memory *memory = pw->w->snapshot->space->memory;
	ssize_t n;

	if (page->address == start)
		return page;
	if (!start || start >> 47 || !memory || pw->p->n_reads == READS_MAX)
		return NULL;
	pw->p->n_reads++;
	n = memory->read(memory, start, page->bytes, PAGE);
	page->address = n > 0 && n <= PAGE ? start : 0;
	page->len = page->address ? (size_t)n : 0;
	return page->address ? page : NULL;
}

/* From the process, as it is now. */
static bool read_late(struct python_walk *pw, uint64_t address, void *to, size_t len)
{
	uint8_t *at = to;

	while (len) {
		const struct python_page *page = page_of(pw, address);
		size_t skip = address % PAGE, n;

		if (!page || page->len <= skip)
			return false;
		n = min_u64(len, page->len - skip);
		memcpy(at, page->bytes + skip, n);
		at += n;
		address += n;
		len -= n;
	}
	return true;
}

static uint64_t word_of(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* ---- code objects ---- */

/* Reads the code object at @address.  false: there is none. */
static bool read_code(struct python_walk *pw, uint64_t address, struct python_code *ret_code)
{
	const struct uw_python_offsets *o = &pw->py->offsets;
	struct uw_python_content content;
	uint8_t bytes[CODE_SIZE];
	uint64_t filename, qualname;

	if (address & 7 || !read_late(pw, address, bytes, sizeof(bytes)) ||
	    word_of(bytes, CODE_TYPE) != pw->py->code_type)
		return false;
	qualname = word_of(bytes, o->qualname);
	filename = word_of(bytes, o->filename);
	content.units = word_of(bytes, CODE_UNITS);
	memcpy(&content.line, bytes + o->line, sizeof(content.line));
	if (!content.units || content.units > UNITS_MAX ||
	    !read_late(pw, filename + UW_PYTHON_HASH, &content.filename, 8) ||
	    !read_late(pw, qualname + UW_PYTHON_LENGTH, &content.length, 8) ||
	    !read_late(pw, qualname + UW_PYTHON_HASH, &content.hash, 8))
		return false;
	*ret_code = (struct python_code){
		.code = address,
		.serial = pw->serial,
		.bytecode = address + o->bytecode,
		.len = 2 * content.units,
		.sign = uw_python_sign(&content),
		/* _Py_InitCleanup: no function has the same text for its file and its name. */
		.hidden = filename == qualname,
	};
	return true;
}

/* The code object at @address; NULL: there is none.  One that was freed is replaced when another is at its address. */
static const struct python_code *code_at(struct python_walk *pw, uint64_t address)
{
	struct python_code *c = &pw->p->codes[hash_u64(address ^ pw->serial) % CODES];
	bool known = c->serial == pw->serial && c->code == address;
	uint64_t now = pw->w->snapshot->time;

	if (known && now - c->read_at < CODE_FRESH_NS)
		return c;
	if (!read_code(pw, address, c) && !known)
		return NULL;
	c->read_at = now;
	return c;
}

static bool is_in(const struct python_code *c, uint64_t instruction)
{
	return instruction - c->bytecode < c->len;
}

/* The code object that has @instruction: a known one, else the one whose head is before it in memory; NULL: none. */
static const struct python_code *code_of(struct python_walk *pw, uint64_t instruction)
{
	uint64_t at = (instruction & ~7ull) - pw->py->offsets.bytecode, word;
	const struct python_code *code;

	for (size_t i = 0; i < CODES; i++)
		if (pw->p->codes[i].serial == pw->serial && is_in(&pw->p->codes[i], instruction)) {
			code = code_at(pw, pw->p->codes[i].code);
			if (code && is_in(code, instruction))
				return code;
		}
	for (size_t i = 0; i < SEARCH_MAX; i += 8, at -= 8) {
		if (!read_late(pw, at + CODE_TYPE, &word, sizeof(word)))
			return NULL;
		if (word != pw->py->code_type)
			continue;
		code = code_at(pw, at);
		if (code && is_in(code, instruction))
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

/* Did the frame read the same before the sample?  Notes that it reads so now. */
static bool read_before(struct python_walk *pw, const struct python_frame *f)
{
	struct python_past *past = &pw->p->pasts[hash_u64(f->address ^ pw->serial) % PASTS];
	uint64_t now = clock_ns((clockid_t)pw->e->engine.settings.clock);

	if (past->serial == pw->serial && past->frame == f->address && past->code == f->code &&
	    past->previous == f->previous) {
		if (now - past->counted >= SAME_NS) {
			past->counted = now;
			past->same++;
		}
		return past->since <= pw->w->snapshot->time && past->same >= SAME_MIN;
	}
	*past = (struct python_past){
		.frame = f->address,
		.code = f->code,
		.previous = f->previous,
		.since = now,
		.counted = now,
		.serial = pw->serial,
	};
	return false;
}

/* The frame at @address as the BPF program copied it at the sample.  NULL: it did not. */
static const uint64_t *exact_frame(struct python_walk *pw, uint64_t address)
{
	const struct uw_snapshot *s = pw->w->snapshot;

	for (uint32_t i = 0; i < s->n_python && step(pw, 1); i++) {
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
	f.code = word_of(bytes, o->code);
	f.previous = word_of(bytes, o->previous);
	f.entry = o->is_entry && bytes[o->is_entry];
	f.proved = read_before(pw, &f);
	*ret_frame = f;
	return true;
}

/* ---- the C stack ---- */

/* Is the return address of the run at index @run within RUN_ROOM bytes behind @at? */
static bool is_of_run(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const struct walk *w = pw->w;
	uint64_t ra = run + 1 < w->n ? uw_frame_pc(w->frames[run + 1]) : 0;

	if (!ra || !step(pw, RUN_ROOM / 8))
		return false;
	for (uint64_t i = at; i < at + RUN_ROOM && in_copy(w, i, 8); i += 8)
		if (walk_word(w, i) == ra)
			return true;
	return false;
}

/* 3.12: code is CPython's trampoline, whose bytecode it stands at.  3.13: code is None. */
static bool is_entry_frame(const struct python_walk *pw, uint32_t run, uint64_t at)
{
	const uint64_t owner = (uint64_t)OWNED_BY_C << 48, mask = UINT64_MAX >> 8;
	uint8_t bytes[FRAME_SIZE];
	uint64_t code, instr;

	if (at & 7 || !read_copy(pw->w, at, bytes, sizeof(bytes)) ||
	    (word_of(bytes, ENTRY_AT) & mask) != owner)
		return false;
	code = word_of(bytes, pw->py->offsets.code);
	instr = word_of(bytes, INSTR_AT);
	return (code == pw->py->none || instr == code + pw->py->offsets.bytecode) &&
	       is_of_run(pw, run, at + FRAME_SIZE);
}

/* The entry frame of a run, 0: not found. */
static uint64_t find_entry_frame(const struct python_walk *pw, uint32_t run)
{
	for (uint64_t at = pw->cursor; in_copy(pw->w, at, FRAME_SIZE) && step(pw, 1); at += 8)
		if (is_entry_frame(pw, run, at))
			return at;
	return 0;
}

/* 3.11: the _PyCFrame of a run that has @frame, 0: not found. */
static uint64_t find_cframe(const struct python_walk *pw, uint32_t run, uint64_t frame)
{
	for (uint64_t at = pw->cursor; in_copy(pw->w, at, 24) && step(pw, 1); at += 8)
		if (walk_word(pw->w, at + 8) == frame && is_of_run(pw, run, at + 24))
			return at;
	return 0;
}

/* ---- the stack ---- */

static void push(struct native_python *p, uint64_t frame)
{
	if (p->n < UW_MAX_FRAMES)
		p->frames[p->n++] = frame;
}

/* The innermost function, which the register of the next instruction shows; its frame reads as @f by now. */
static const struct python_code *leaf_code(struct python_walk *pw, struct python_frame *f)
{
	const struct python_code *late = f->code ? code_at(pw, f->code) : NULL, *known;

	if (!pw->next || f->proved)
		return late;
	known = late && is_in(late, pw->next) ? late : code_of(pw, pw->next);
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
	for (uint32_t i = 0; i < UW_MAX_FRAMES && step(pw, 1); i++) {
		const struct python_code *code;
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
			push(pw->p, code->code | code->sign | UW_FRAME_PYTHON |
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

/* The frame of run @k and those up to the next run, in the new list. */
static void push_native(struct python_walk *pw, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		push(pw->p, pw->w->frames[i]);
}

static void replace(struct python_walk *pw, uint64_t frame)
{
	struct native_python *p = pw->p;
	uint64_t cframe = 0, behind;

	p->n = 0;
	push_native(pw, 0, p->runs[0]);
	for (uint32_t k = 0; k < p->n_runs; k++) {
		uint32_t run = p->runs[k], end = k + 1 < p->n_runs ? p->runs[k + 1] : pw->w->n;
		uint32_t mark = p->n;
		uint64_t inside = frame;
		bool trampoline = has_trampoline(pw->w, run), whole;

		push(p, pw->w->frames[run]);
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
		push_native(pw, run + 1, end);
	}
}

/* ---- all ---- */

/* Is a frame in the interpreter's file?  Before its layout is loaded there is no better sign. */
static bool is_in_python(const struct walk *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		const struct uw_map *map =
			uw_space_find(w->snapshot->space, uw_frame_lookup(w->frames[i]));

		if (map && map->module && uw_path_is_python(uw_module_path(map->module)))
			return true;
	}
	return false;
}

static struct native_python *python_of(struct native *e)
{
	if (!e->python) {
		e->python = calloc(1, sizeof(*e->python));
		e->no_memory |= !e->python;
		e->stats.cache_bytes += e->python ? sizeof(*e->python) : 0;
	}
	return e->python;
}

/* Notes the frames of the loop.  false: there is none. */
static bool find_runs(struct native_python *p, const struct walk *w, const struct uw_python *py)
{
	p->n_runs = 0;
	for (uint32_t i = 0; i < w->n && p->n_runs < RUNS_MAX; i++) {
		uint64_t pc = uw_frame_lookup(w->frames[i]);

		if (pc >= py->eval_start && pc < py->eval_end)
			p->runs[p->n_runs++] = i;
	}
	return p->n_runs;
}

void native_python(struct native *e, struct walk *w)
{
	struct uw_module *module = w->snapshot->space->python;
	const struct uw_image *image = uw_module_image(module);
	struct python_walk pw = {.e = e, .w = w, .cursor = w->base};
	struct cfi_regs regs;
	uint64_t frame = 0;

	if (w->res->outcome == UW_PENDING || w->machine->link)
		return;
	if (!image) {
		if (uw_module_unwind_state(module) == UW_MODULE_UNREADABLE || !is_in_python(w))
			return;
		w->res->pending = module;
		walk_end(w, UW_PENDING, UW_OK, 0);
		return;
	}
	if (!image->python.version || (!image->python.has_frame && !w->snapshot->n_python) ||
	    !python_of(e) || !find_runs(e->python, w, &image->python))
		return;
	pw.p = e->python;
	pw.py = &image->python;
	pw.serial = uw_module_serial(module);
	pw.p->n_reads = pw.p->n_steps = 0;
	for (size_t i = 0; i < PAGES; i++)
		pw.p->pages[i].address = 0;
	if (native_regs_of(e, w, pw.p->runs[0] + 1, &regs)) {
		if (pw.py->has_frame && regs.known >> pw.py->frame & 1)
			frame = regs.r[pw.py->frame];
		if (pw.py->has_next && regs.known >> pw.py->next & 1)
			pw.next = regs.r[pw.py->next];
		pw.cursor = regs.r[w->machine->sp];
	}
	/* The register has no frame yet, or none any more, where the run begins or ends. */
	if (w->snapshot->n_python && !(frame && exact_frame(&pw, frame)))
		frame = pw.py->has_frame ? 0 : w->snapshot->python[0];
	replace(&pw, frame);
	memcpy(w->frames, pw.p->frames, min_u64(pw.p->n, w->max) * sizeof(*w->frames));
	w->n = (uint32_t)min_u64(pw.p->n, w->max);
	w->res->n_frames = w->n;
}

void native_python_free(struct native *e)
{
	free(e->python);
}
