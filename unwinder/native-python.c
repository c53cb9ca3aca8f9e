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
 * - The caller of a function is a guess, and proved after more readings, where each reading of this function at this
 *   address has shown the same caller (script_usual()).  One reading is not evidence: by then another call may have led
 *   to the same function.
 * - What is not known is left out, and the loop's frame stands for it. */
#include "unwinder/script-frames.h"

enum {
	RUN_ROOM = 640, /* bytes from an entry frame to the return address of its run */
	FRAME_SIZE = UW_PYTHON_FRAME,
	CODE_SIZE = UW_PYTHON_CODE,
	UNITS_MAX = 1 << 24,
	SEARCH_PAGES = 16, /* from an instruction to the head of its code object */
	SEARCH_PART = 64,  /* part of the time that searches in vain take at most */
	OWNED_BY_C = 3,
	CODE_TAG = 7, /* 3.14 on: bits of the pointer to the code object */
	INSTR_AT = 56,
	STACK_AT =
		64, /* up to 3.13 the size of its stack, i32: -1 while it runs; then a pointer, 0 while it runs */
	LOAD_NEAR = 96, /* bytes of the loop behind a call */
	NOTED_MAX = 64, /* frames of a run */
	NATIVE_MAX = 4, /* frames of C code that know a run's first function again */
	RUN_ENDS = 1,	/* in place of a caller's code */
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
	struct cfi_regs regs; /* of the innermost run, once has_regs */
	bool has_regs;
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

/* Reads the known object @c at once with others of which a quarter of the time is over.  One that is not as it was stays
 * as it is: it is read by itself when it is needed. */
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
	bool known = c->serial == pw->s->serial && c->address == address, read;
	/* Samples of several threads or of a batch are not in the order of their times. */
	uint64_t now = known ? max_u64(pw->w->snapshot->time, c->read_at) : pw->w->snapshot->time;
	uint64_t since = known ? c->since : now, sign = c->sign;

	if (known && now - c->read_at < fresh_ns(c))
		return c->gone ? NULL : c;
	if (known && !c->gone)
		read_again(pw, c, now);
	if (known && c->read_at == now && !c->gone)
		return c;
	pw->s->learned++;
	read = read_code(pw, address, c);
	if (!read && uw_memory_wanted(pw->w->snapshot->space->memory))
		return NULL;
	if (!read && (!known || c->gone)) {
		/* There is none: not asked again soon. */
		*c = (struct script_function){.address = address,
					      .serial = pw->s->serial,
					      .since = now,
					      .read_at = now,
					      .gone = true};
		return NULL;
	}
	c->since = known && c->sign == sign ? since : now;
	c->read_at = now;
	return c;
}

/* The known code object that has @instruction; NULL: none. */
static const struct script_function *known_code_of(struct python_walk *pw, uint64_t instruction)
{
	struct native_script *s = pw->s;
	struct script_hit *hit = &s->hits[hash_u64(instruction ^ s->serial) % SCRIPT_HITS];

	if (hit->serial == s->serial && hit->instruction == instruction &&
	    hit->learned == s->learned && !hit->function)
		return NULL;
	if (hit->serial == s->serial && hit->instruction == instruction && hit->function &&
	    hit->function->serial == s->serial && script_function_has(hit->function, instruction)) {
		const struct script_function *f = code_at(pw, hit->function->address);

		if (f && script_function_has(f, instruction))
			return f;
	}
	*hit = (struct script_hit){.instruction = instruction, .serial = s->serial};
	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		const struct script_function *f = &s->functions[i];

		if (f->serial != s->serial || !script_function_has(f, instruction))
			continue;
		f = code_at(pw, f->address);
		if (f && script_function_has(f, instruction)) {
			hit->function = f;
			return f;
		}
	}
	hit->learned = s->learned;
	return NULL;
}

/* The @n pages from the one at @start on downwards, as far as they can be read. */
static bool read_pages(struct python_walk *pw, uint64_t start, size_t n, uint8_t *to)
{
	struct uw_memory *memory = pw->w->snapshot->space->memory;
	struct uw_range ranges[SEARCH_PAGES];

	for (size_t i = 0; i < n; i++)
		ranges[i] = (struct uw_range){start - i * VM_PAGE, VM_PAGE};
	return vm_memory_is_address(start) && start > n * VM_PAGE && memory &&
	       memory->read_ranges && memory->read_ranges(memory, ranges, n, to);
}

/* The code object that has @instruction, with its head before it in memory; NULL: none. */
static const struct script_function *search_code(struct python_walk *pw, uint64_t instruction)
{
	uint64_t at = (instruction & ~7ull) - pw->py->offsets.bytecode + CODE_TYPE;
	uint64_t start = at & ~(uint64_t)(VM_PAGE - 1);
	uint8_t pages[(SEARCH_PAGES - 1) * VM_PAGE];
	const struct script_function *code;

	/* Most are near. */
	for (size_t i = 0, n = 1; i < SEARCH_PAGES; i += n, n = SEARCH_PAGES - 1) {
		if (!read_pages(pw, start, n, pages))
			return NULL;
		for (size_t k = 0; k < n; k++, start -= VM_PAGE)
			for (; at >= start; at -= 8) {
				if (word_of(pages + k * VM_PAGE, at - start) != pw->py->code_type)
					continue;
				code = code_at(pw, at - CODE_TYPE);
				if (code && script_function_has(code, instruction))
					return code;
			}
	}
	return NULL;
}

/* The same.  The word of a register may be any object's: the search for one that was searched in vain is repeated no sooner
 * than a function is read again. */
static const struct script_function *find_code_of(struct python_walk *pw, uint64_t instruction)
{
	clockid_t clock = (clockid_t)pw->e->engine.settings.clock;
	struct native_script *s = pw->s;
	struct script_nowhere *n =
		&s->nowheres[hash_u64(instruction ^ s->serial) % SCRIPT_NOWHERES];
	bool known = n->serial == s->serial && n->word == instruction;
	const struct script_function *code;
	uint64_t began, ended;

	if (s->read_at < s->search_after ||
	    (known && s->read_at - n->searched < script_fresh(n->since, n->searched)))
		return NULL;
	began = clock_ns(clock);
	code = search_code(pw, instruction);
	if (code || uw_memory_wanted(pw->w->snapshot->space->memory))
		return code;
	*n = (struct script_nowhere){
		.word = instruction,
		.since = known ? n->since : s->read_at,
		.searched = s->read_at,
		.serial = s->serial,
	};
	ended = clock_ns(clock);
	s->search_after = ended + (SEARCH_PART - 1) * (ended - began);
	return NULL;
}

/* ---- frames ---- */

struct python_frame {
	uint64_t address, code, previous;
	bool entry;   /* the last of its run */
	bool exact;   /* copied at the sample */
	bool same;    /* its words read the same before the sample and after */
	bool proved;  /* the function */
	bool calling; /* it waits for a function that it called */
	bool there; /* the words are those of the function that it has at the sample, as far as known */
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
			.exact = true,
			.proved = true,
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
	f.calling = pw->py->version < 0x30e ? (int32_t)word_of(bytes, STACK_AT) >= 0
					    : word_of(bytes, STACK_AT) != 0;
	f.same = f.proved = script_same(pw->s, pw->e, pw->w, address, f.code, f.previous);
	f.there = true;
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

/* The slot of the loop's stack that its code behind the return address @ra brings the instruction back from; < 0: not
 * found. */
static int slot_behind(struct python_walk *pw, uint64_t ra)
{
	static const uint8_t insn_of[8] = {0, 2, 1, 3, 6, 7, 5, 4}; /* of DWARF's */
	unsigned reg = pw->py->next < 8 ? insn_of[pw->py->next] : pw->py->next;
	struct script_slot *known = &pw->s->slots[hash_u64(ra ^ pw->s->serial) % SCRIPT_SLOTS];
	uint8_t code[LOAD_NEAR];

	if (known->serial == pw->s->serial && known->ra == ra)
		return known->slot;
	if (!read_late(pw, ra, code, sizeof(code)))
		return -1;
	*known = (struct script_slot){.ra = ra, .serial = pw->s->serial, .slot = -1};
	for (size_t i = 0; known->slot < 0 && i + 5 <= sizeof(code); i++)
		known->slot = uw_python_load(code + i, reg);
	return known->slot;
}

/* By the slots of the loop at index @run, which has @regs: the function that all that have one have; else, of the slot
 * that is in use at this call.  NULL: none. */
static const struct script_function *function_of_slots(struct python_walk *pw, uint32_t run,
						       const struct cfi_regs *regs)
{
	const struct script_function *of[UW_PYTHON_SLOTS], *one = NULL;
	uint64_t sp = regs->r[pw->w->machine->sp], instruction;
	bool several = false;
	int slot;

	for (size_t i = 0; i < pw->py->n_slots; i++) {
		of[i] = read_copy(pw->w, sp + pw->py->slots[i], &instruction, 8)
				? known_code_of(pw, instruction)
				: NULL;
		several |= one && of[i] && of[i] != one;
		one = of[i] ? of[i] : one;
	}
	if (one && !several)
		return one;
	slot = slot_behind(pw, uw_frame_pc(pw->w->frames[run]));
	for (size_t i = 0; one && i < pw->py->n_slots; i++)
		if (pw->py->slots[i] == slot)
			return of[i];
	if (one || slot < 0 || !read_copy(pw->w, sp + (uint64_t)slot, &instruction, 8))
		return NULL;
	return find_code_of(pw, instruction); /* that was not seen before */
}

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
	next = regs.known >> py->next & 1 ? regs.r[py->next] : 0;
	if (late && next && script_function_has(late, next))
		return late;
	f = next ? known_code_of(pw, next) : NULL;
	if (!f && pw->s->runs[k])
		f = function_of_slots(pw, pw->s->runs[k], &regs);
	return f || !next ? f : find_code_of(pw, next);
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

static bool ends_run(const struct python_walk *pw, const struct python_frame *f)
{
	return f->entry || (!pw->py->offsets.is_entry && in_copy(pw->w, f->previous, FRAME_SIZE));
}

static uint64_t key_of_call(uint64_t frame, uint64_t code)
{
	return hash_u64(frame ^ hash_u64(code));
}

/* Notes which function has called which, as the list from @f on reads now. */
static void note_calls(struct python_walk *pw, struct python_frame f)
{
	for (uint32_t i = 0; i < NOTED_MAX && f.there && script_step(pw->s, 1); i++) {
		uint64_t key = key_of_call(f.address, f.code);
		struct python_frame g = {0};

		if (ends_run(pw, &f)) /* (a generator that waits leads to nothing) */
			script_note(pw->s, pw->e, key, RUN_ENDS, f.entry ? 0 : f.previous);
		else if (read_frame(pw, f.previous, &g) && g.calling)
			script_note(pw->s, pw->e, key, g.code, g.address);
		else
			g.there = false;
		if (f.same && g.same) /* and so are those outwards, mostly */
			return;
		f = g;
	}
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
	late = read_frame(pw, address, f) ? code_at(pw, f->code) : NULL;
	if (f->exact)
		return late;
	note_calls(pw, *f);
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
	return code_at(pw, code);
}

/* 3.11: the frame of the next run outwards, by the _PyCFrame of this one, which is at *cframe, or (0) has the frame
 * @inside; 0: not known. *cframe: the next one. */
static uint64_t frame_outwards(struct python_walk *pw, uint32_t run, uint64_t inside,
			       uint64_t *cframe)
{
	uint64_t at = *cframe, word = 0;

	if (!at && inside && pw->py->offsets.is_entry)
		at = find_cframe(pw, run, inside);
	*cframe = 0;
	if (!at || !read_copy(pw->w, at + 16, &word, 8) || word <= at || !in_copy(pw->w, word, 24))
		return 0;
	*cframe = word;
	return walk_word(pw->w, word + 8);
}

/* From the frame @f of @function to that of its caller, the function of which is returned.  NULL: the caller is not
 * known, or (*ret_end) the run ends; f->previous is behind it. */
static const struct script_function *caller_of(struct python_walk *pw, struct python_frame *f,
					       const struct script_function *function,
					       bool *ret_end)
{
	uint64_t key = key_of_call(f->address, function->address), code, previous;
	bool end = f->there && ends_run(pw, f);
	struct python_frame g = {0};
	enum script_usual usual;
	bool read = f->there && !end && read_frame(pw, f->previous, &g);

	*ret_end = false;
	if (!f->exact) {
		if (!(f->same && (end || (read && g.same)))) {
			usual = script_usual(pw->s, pw->w, key, &code, &previous);
			if (usual == SCRIPT_UNUSUAL ||
			    (f->there && f->previous && !f->entry && f->previous != previous))
				return NULL;
			end = code == RUN_ENDS;
			read &= g.calling && g.address == previous && g.code == code;
			if (!end && !read && (!read_frame(pw, previous, &g) || g.code != code))
				g = (struct python_frame){.address = previous, .code = code};
			g.proved |= usual == SCRIPT_PROVED;
			f->previous = previous;
		}
	}
	*ret_end = end;
	if (end)
		return NULL;
	*f = g;
	return g.code ? code_at(pw, g.code) : NULL;
}

static void push_function(struct python_walk *pw, const struct script_function *code, bool proved)
{
	if (!code->hidden)
		script_push(pw->s, code->address | code->sign | UW_FRAME_SCRIPT |
					   (proved ? 0 : UW_FRAME_GUESSED));
}

/* The functions outwards of @f that are proved, behind the loop's frame for those between.  The list is the one of a
 * later time: it has to lead to the run's end, and not to @outer, the frame of the next run.  *ret_frame: behind the
 * end.  false: there is none. */
static bool push_proved(struct python_walk *pw, uint32_t run, struct python_frame *f,
			uint64_t outer, uint64_t *ret_frame)
{
	struct native_script *s = pw->s;
	uint32_t mark = s->n;

	for (uint32_t i = 0; i < UW_MAX_FRAMES && f->address && script_step(s, 1); i++) {
		const struct script_function *code = NULL;

		if (ends_run(pw, f)) {
			if (!i || s->n == mark ||
			    (!f->entry && !is_entry_frame(pw, run, f->previous)))
				break;
			*ret_frame = f->previous;
			return true;
		}
		if (!read_frame(pw, f->previous, f) || f->address == outer)
			break;
		/* What a function that runs now has called is over. */
		if (!f->same || !f->calling)
			s->n = mark;
		if (f->same)
			code = code_at(pw, f->code);
		if (!code)
			continue;
		if (s->n == mark)
			script_push(s, pw->w->frames[run]);
		push_function(pw, code, true);
	}
	s->n = mark;
	return false;
}

/* The Python frames of run @k, from @address outwards; @cframe: its _PyCFrame where that is known.  *ret_frame: behind
 * the last one, an entry frame or the frame of the next run.  false: they do not lead there. */
static bool push_run(struct python_walk *pw, uint32_t k, uint64_t address, uint64_t cframe,
		     uint64_t *ret_frame)
{
	uint32_t run = pw->s->runs[k];
	const struct script_function *code;
	struct python_frame f;
	bool end = false;

	if (!pw->py->offsets.is_entry && in_copy(pw->w, address, FRAME_SIZE)) {
		*ret_frame = address;
		return true;
	}
	code = first_function(pw, k, address, &f);
	for (uint32_t i = 0; i < UW_MAX_FRAMES && code && script_step(pw->s, 1); i++) {
		push_function(pw, code, f.proved);
		code = caller_of(pw, &f, code, &end);
	}
	if (end) {
		*ret_frame = f.previous;
		return true;
	}
	return push_proved(pw, run, &f, frame_outwards(pw, run, address, &cframe), ret_frame);
}

/* Where the frame of the next run outwards is, by the C stack; by the list where that was copied at the sample.  @inside: a
 * frame of this run, @behind: what its list led to; 0: nothing. */
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
	if (behind && exact_frame(pw, behind)) {
		*cframe = 0;
		return behind;
	}
	word = frame_outwards(pw, run, inside, cframe);
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

static void replace(struct python_walk *pw, uint64_t frame)
{
	struct native_script *p = pw->s;
	uint64_t cframe = 0, behind = 0;

	script_push_native(p, pw->w, 0, p->runs[0]);
	for (uint32_t k = 0; k < p->n_runs; k++) {
		uint32_t run = p->runs[k], end = k + 1 < p->n_runs ? p->runs[k + 1] : pw->w->n;
		uint32_t mark = p->n;
		uint64_t inside = frame;
		bool trampoline = has_trampoline(pw->w, run), whole;

		script_push(p, pw->w->frames[run]);
		if (p->n == UW_MAX_FRAMES)
			return;
		whole = frame && push_run(pw, k, frame, cframe, &behind);
		/* (where the innermost run begins or ends, a copy at the sample has no frame of it) */
		pw->w->res->lacks_functions |=
			!whole && !trampoline && (frame || k || !pw->w->snapshot->n_python);
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
		script_push_native(p, pw->w, run + 1, end);
		if (k + 1 == p->n_runs)
			break;
		frame = next_run(pw, run, inside, whole ? behind : 0, &cframe);
		if (!frame)
			frame = frame_of_run(pw, k + 1, inside);
		if (!frame && !inside && !k && pw->w->snapshot->n_python)
			frame = pw->w->snapshot->python[0];
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
		return s->python[0];
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
