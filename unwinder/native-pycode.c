/* native-pycode.c - see python-walk.h.  CPython's code objects: which function an address or an instruction is of, and where its loop has
 * the instruction during a call.
 *
 * Each is read from the process, and known by its address and by a sign of its content (base/python-sign.h): the memory of one
 * that was freed is used again.  A frame that was copied at the sample has the sign as of then, and needs no reading. */
#include "unwinder/python-walk.h"

enum {
	CODE_SIZE = UW_PYTHON_CODE,
	UNITS_MAX = 1 << 24,
	LOAD_NEAR = 192,   /* bytes of the loop behind a call */
	SEARCH_PAGES = 16, /* from an instruction to the head of its code object */
	SEARCH_PART = 64,  /* part of the time that searches in vain take at most */
	CODE_TYPE = 8,
	CODE_UNITS = 16,
	CODE_FLAGS = 48, /* i32 */
	NOP_OF_12 = 9,
	GENERATOR = 0x20 | 0x80 | 0x200, /* ... coroutines, too */
	WORDS_MAX = 1 << 16,		 /* of a frame */
	SETTLED_NS = 300000000,
	/* An object is read again with those that will be soon. */
	AGAIN_MAX = 64,
	AGAIN_NAME = CODE_SIZE,
	AGAIN_TAIL = AGAIN_NAME + sizeof(struct python_name),
	AGAIN_BYTES = AGAIN_TAIL + 8,
};

/* What identifies the code object of which @bytes were read, apart from its strings.  false: it is none. */
static bool code_of_bytes(const struct python_walk *pw, uint64_t address, const uint8_t *bytes,
			  struct python_content *content, struct script_function *ret_code)
{
	const struct uw_python_offsets *o = &pw->py->offsets;
	uint64_t words = o->frame_words + half_of(bytes, o->stack) + half_of(bytes, o->locals);

	*content = (struct python_content){
		.units = word_of(bytes, CODE_UNITS),
		.line = half_of(bytes, o->line),
		.filename = word_of(bytes, o->filename),
	};
	*ret_code = (struct script_function){
		.address = address,
		.serial = pw->s->serial,
		.code = address + o->bytecode,
		.len = 2 * content->units,
		.filename = word_of(bytes, o->filename),
		.qualname = word_of(bytes, o->qualname),
	};
	if (!(half_of(bytes, CODE_FLAGS) & GENERATOR) && words <= WORDS_MAX)
		ret_code->size = 8 * (uint32_t)words;
	/* _Py_InitCleanup: no function has the same text for its file and its name.  3.12: the code of entry frames is NOP, INTERPRETER_EXIT,
	 * RESUME; that of no function begins with NOP. */
	ret_code->hidden = ret_code->filename == ret_code->qualname ||
			   (pw->py->version == 0x30c && content->units == 3 &&
			    bytes[o->bytecode] == NOP_OF_12);
	return word_of(bytes, CODE_TYPE) == pw->py->code_type && content->units &&
	       content->units <= UNITS_MAX;
}

/* Of a code object with this content and name. */
static uint64_t sign_of(const struct python_walk *pw, struct python_content *content,
			const struct python_name *name, uint64_t tail)
{
	content->length = name->length;
	content->head = python_name_head(name, uw_python_minor(pw->py->version));
	content->tail = tail;
	return uw_python_sign(python_sign(content));
}

/* Reads the code object at @address.  false: there is none. */
static bool read_code(struct python_walk *pw, uint64_t address, struct script_function *ret_code)
{
	struct python_content content;
	struct script_function code;
	struct python_name name;
	uint8_t bytes[CODE_SIZE];
	uint64_t tail = 0;

	if (address & 7 || !read_late(pw, address, bytes, sizeof(bytes)) ||
	    !code_of_bytes(pw, address, bytes, &content, &code) ||
	    !read_late(pw, code.qualname + PYTHON_NAME_AT, &name, sizeof(name)))
		return false;
	code.tail = python_name_tail(&name, uw_python_minor(pw->py->version), code.qualname);
	if (code.tail && !read_late(pw, code.tail, &tail, 8))
		return false;
	code.sign = sign_of(pw, &content, &name, tail);
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
	struct python_content content;
	struct script_function now;
	struct python_name name;

	if (!code_of_bytes(pw, c->address, bytes, &content, &now) || now.len != c->len ||
	    now.filename != c->filename || now.qualname != c->qualname)
		return false;
	memcpy(&name, bytes + AGAIN_NAME, sizeof(name));
	return sign_of(pw, &content, &name, c->tail ? word_of(bytes, AGAIN_TAIL) : 0) == c->sign;
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
		ranges[3 * i + 1] = (struct uw_range){list[i]->qualname + PYTHON_NAME_AT,
						      sizeof(struct python_name)};
		ranges[3 * i + 2] = (struct uw_range){
			list[i]->tail ? list[i]->tail : list[i]->qualname + PYTHON_NAME_AT, 8};
	}
	if (!memory->read_ranges(memory, ranges, 3 * n, bytes))
		return;
	for (size_t i = 0; i < n; i++)
		if (is_same_code(pw, list[i], bytes + i * AGAIN_BYTES))
			list[i]->read_at = now;
}

const struct script_function *python_code_at(struct python_walk *pw, uint64_t address)
{
	struct script_function *c = script_function_slot(pw->s, address);
	bool known = c->serial == pw->s->serial && c->address == address, read, same;
	/* Samples of several threads or of a batch are not in the order of their times. */
	uint64_t now = known ? max_u64(pw->w->snapshot->time, c->read_at) : pw->w->snapshot->time;
	uint64_t since = known ? c->since : now, sign = c->sign;
	uint64_t found = known ? c->found : pw->s->read_at, changed = known ? c->changed : 0;

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
	same = known && c->sign == sign;
	c->since = same ? since : now;
	c->found = same ? found : pw->s->read_at;
	c->changed = same && read ? changed : known ? now : 0;
	c->read_at = now;
	return c;
}

bool python_is_known(const struct python_walk *pw, uint64_t id)
{
	const struct script_function *c = script_function_slot(pw->s, id & ~UW_PYTHON_SIGN);

	return c->serial == pw->s->serial && id_of(c) == id && !c->gone &&
	       c->found <= pw->w->snapshot->time &&
	       (!c->changed || pw->w->snapshot->time >= c->changed + SETTLED_NS);
}

const struct script_function *python_code_of(struct python_walk *pw, const struct python_frame *f)
{
	if (!f->sign)
		return python_code_at(pw, f->code);
	pw->seen = (struct script_function){
		.address = f->code,
		.serial = pw->s->serial,
		.sign = f->sign,
		.hidden = f->hidden,
	};
	return &pw->seen;
}

const struct script_function *python_known_code(struct python_walk *pw, uint64_t instruction)
{
	struct native_script *s = pw->s;
	struct script_hit *hit = &s->hits[hash_u64(instruction ^ s->serial) % SCRIPT_HITS];

	if (hit->serial == s->serial && hit->instruction == instruction &&
	    hit->learned == s->learned && !hit->function)
		return NULL;
	if (hit->serial == s->serial && hit->instruction == instruction && hit->function &&
	    hit->function->serial == s->serial && script_function_has(hit->function, instruction)) {
		const struct script_function *f = python_code_at(pw, hit->function->address);

		if (f && script_function_has(f, instruction))
			return f;
	}
	*hit = (struct script_hit){.instruction = instruction, .serial = s->serial};
	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		const struct script_function *f = &s->functions[i];

		if (f->serial != s->serial || !script_function_has(f, instruction))
			continue;
		f = python_code_at(pw, f->address);
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
				code = python_code_at(pw, at - CODE_TYPE);
				if (code && script_function_has(code, instruction))
					return code;
			}
	}
	return NULL;
}

const struct script_function *python_find_code(struct python_walk *pw, uint64_t instruction)
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

/* ---- the instruction that the loop has during a call ---- */

/* The instruction set's number of DWARF's, and back. */
static unsigned insn_register(unsigned reg)
{
	static const uint8_t of[8] = {0, 2, 1, 3, 6, 7, 5, 4};

	return reg < 8 ? of[reg] : reg;
}

static unsigned dwarf_register(unsigned reg)
{
	static const uint8_t of[8] = {0, 2, 1, 3, 7, 6, 4, 5};

	return reg < 8 ? of[reg] : reg;
}

/* Where the loop has its instruction during the call with the return address @ra; NULL: its code cannot be read. */
static const struct script_slot *slots_behind(struct python_walk *pw, uint64_t ra)
{
	struct script_slot *known = &pw->s->slots[hash_u64(ra ^ pw->s->serial) % SCRIPT_SLOTS];
	unsigned next = insn_register(pw->py->next);
	uint8_t code[LOAD_NEAR];
	uint64_t at;
	bool read;

	if (known->serial == pw->s->serial && known->ra == ra)
		return known;
	read = read_late(pw, ra, code, sizeof(code));
	if (!read && uw_memory_wanted(pw->w->snapshot->space->memory))
		return NULL;
	*known = (struct script_slot){.ra = ra, .serial = pw->s->serial};
	if (!read)
		return known;
	at = script_loop_slots(known, code, sizeof(code), ra, next);
	if (!known->n && at >= pw->py->eval_start && at < pw->py->eval_end &&
	    read_late(pw, at, code, sizeof(code)))
		(void)script_loop_slots(known, code, sizeof(code), at, next);
	return known;
}

/* The word at a place; 0: not known. */
static uint64_t word_at(struct python_walk *pw, const struct script_where *where,
			const struct cfi_regs *regs)
{
	unsigned reg = where->kind == SCRIPT_IN_SLOT ? pw->w->machine->sp
						     : dwarf_register((unsigned)where->at);
	uint64_t word = regs->known >> reg & 1 ? regs->r[reg] : 0;

	if (where->kind == SCRIPT_IN_SLOT &&
	    !read_copy(pw->w, regs->r[pw->w->machine->sp] + (uint64_t)where->at, &word, 8))
		return 0;
	return word;
}

bool python_takes_from_frame(struct python_walk *pw, uint32_t run, const struct cfi_regs *regs)
{
	const struct script_slot *slots = slots_behind(pw, uw_frame_pc(pw->w->frames[run]));

	return slots && slots->n && slots->where[0].kind == SCRIPT_IN_FRAME &&
	       word_at(pw, &slots->where[0], regs) == regs->r[pw->py->frame];
}

/* The function that all slots agree on which have one. */
static const struct script_function *function_of_all(struct python_walk *pw,
						     const struct cfi_regs *regs)
{
	uint64_t sp = regs->r[pw->w->machine->sp], instruction;
	const struct script_function *one = NULL, *f;

	for (size_t i = 0; i < pw->py->n_slots; i++) {
		f = read_copy(pw->w, sp + pw->py->slots[i], &instruction, 8)
			    ? python_known_code(pw, instruction)
			    : NULL;
		if (one && f && f != one)
			return NULL;
		one = f ? f : one;
	}
	return one;
}

const struct script_function *python_function_of_slots(struct python_walk *pw, uint32_t run,
						       const struct cfi_regs *regs)
{
	const struct script_slot *slots = slots_behind(pw, uw_frame_pc(pw->w->frames[run]));
	const struct script_function *f = NULL;
	uint64_t word, first = 0;

	for (uint32_t i = 0; slots && i < slots->n && !f; i++) {
		word = word_at(pw, &slots->where[i], regs);
		if (slots->where[i].kind == SCRIPT_IN_FRAME) {
			if (word == regs->r[pw->py->frame])
				return NULL;
			continue;
		}
		first = first ? first : word;
		f = word ? python_known_code(pw, word) : NULL;
	}
	if (!f && first)
		f = python_find_code(pw, first); /* that was not seen before */
	return f ? f : function_of_all(pw, regs);
}
