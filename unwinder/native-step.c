/* native-step.c - see native.h.  One frame on, where no packed rule applies: signal frames, realigned
 * stacks (CFA by an expression or another register), hand-written CFI, and code without CFI.
 *
 * The walk keeps rsp and rbp only, which mostly suffices here, too.  When a frame needs another
 * register, the stack is walked again with full registers, from the leaf or from the last frame
 * where all registers are known.  The registers are kept, so that a stack of such frames costs each
 * step once. */
#include "unwinder/native.h"

/* ---- signal frames without usable CFI ----
 *
 * They are recognised by the instructions of their trampoline, or on aarch64 by the stack.
 *
 * aarch64: the vDSO's CFI (arch/arm64/kernel/vdso/sigreturn.S) describes the x29 and x30 of the
 * interrupted function but neither its pc nor its sp: an unwinder that follows it skips one function.
 * The kernel put all registers on the stack, and a frame record behind them, to which x29 points:
 *
 *     sp  [siginfo 128][ucontext ... regs[31] sp pc ... ]   x29  [x29][x30]  of the interrupted
 *
 * Where the code of the trampoline cannot be read (a recording has no vDSO), the proof is that the
 * record and the registers agree. */

/* All registers of the interrupted function, from a signal frame with its stack pointer at @sp.
 * false: not in memory. */
static bool native_signal_regs(struct native *e, struct walk *w, uint64_t sp,
			       struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = w->machine;
	uint64_t words[DWARF_REGS];

	if (!native_bytes(e, w, sp + m->signal_regs, words, m->n_regs * sizeof(*words)))
		return false;
	for (unsigned reg = 0; reg < m->n_regs; reg++)
		ret_regs->r[reg] = words[m->signal[reg]];
	ret_regs->known = (1ull << m->n_regs) - 1;
	return true;
}

bool native_is_signal(struct native *e, struct walk *w)
{
	uint64_t record[2];
	struct cfi_regs regs;

	return w->machine->link && w->bp > w->sp && w->bp - w->sp < NATIVE_CHUNK &&
	       native_bytes(e, w, w->bp, record, sizeof(record)) &&
	       native_signal_regs(e, w, w->sp, &regs) && record[0] == regs.r[DWARF_ARM64_FP] &&
	       record[1] == regs.r[DWARF_ARM64_LR] &&
	       uw_space_find(w->snapshot->space, regs.r[DWARF_ARM64_PC]);
}

/* ---- frames by full registers ---- */

/* The stack first, then the memory of the process. */
struct slow_memory {
	struct cfi_memory memory;
	struct native *e;
	struct walk *w;
};

static bool slow_read(struct cfi_memory *memory, uint64_t address, unsigned size,
		      uint64_t *ret_value)
{
	struct slow_memory *m = container_of(memory, struct slow_memory, memory);
	uint64_t value = 0;

	if (!native_bytes(m->e, m->w, address, &value, size)) {
		m->memory.missed = address;
		return false;
	}
	*ret_value = value;
	return true;
}

/* One frame's values out of its row. */
struct slow_frame {
	const struct cfi_row *row;
	const struct cfi_regs *regs;
	uint64_t cfa, bias;
	struct cfi_memory *memory;
};

static enum cfi_result slow_cfa(struct slow_frame *f)
{
	const struct cfi_row *row = f->row;

	if (row->cfa.where == CFI_VAL_EXPRESSION)
		return cfi_evaluate(row->cfa.expression, row->cfa.len, f->regs, f->bias, NULL,
				    f->memory, &f->cfa);
	if (row->cfa_register >= row->machine->n_regs)
		return CFI_BAD;
	if (!(f->regs->known >> row->cfa_register & 1))
		return CFI_NEED_REG;
	f->cfa = f->regs->r[row->cfa_register] + (uint64_t)row->cfa.value;
	return CFI_OK;
}

static enum cfi_result slow_load(struct slow_frame *f, uint64_t address, uint64_t *ret_value)
{
	return f->memory->read(f->memory, address, 8, ret_value) ? CFI_OK : CFI_MEMORY;
}

/* One register of the caller.  CFI_NEED_REG: its value is not known. */
static enum cfi_result slow_reg(struct slow_frame *f, unsigned reg, uint64_t *ret_value)
{
	const struct cfi_reg *how = &f->row->regs[reg];
	const struct uw_machine *m = f->row->machine;
	uint64_t address;
	enum cfi_result result;

	switch ((enum cfi_where)how->where) {
	case CFI_UNSPECIFIED:
		if (reg == m->sp) {
			*ret_value = f->cfa;
			return CFI_OK;
		}
		if (!(m->preserved >> reg & 1))
			return CFI_NEED_REG;
		/* fall through */
	case CFI_SAME:
		*ret_value = f->regs->r[reg];
		return f->regs->known >> reg & 1 ? CFI_OK : CFI_NEED_REG;
	case CFI_UNDEFINED:
		return CFI_NEED_REG;
	case CFI_OFFSET:
		address = f->cfa + (uint64_t)how->value;
		/* Popped already: the register has it (see walk_apply).  But a stack pointer is not
		 * popped: where its CFI has it saved, as in glibc's setcontext(), the frame is a
		 * block of registers, which may lie anywhere. */
		if (reg != m->pc && f->row->regs[m->sp].where != CFI_OFFSET && !f->row->signal &&
		    address < f->regs->r[m->sp] && f->regs->known >> reg & 1) {
			*ret_value = f->regs->r[reg];
			return CFI_OK;
		}
		return slow_load(f, address, ret_value);
	case CFI_VAL_OFFSET:
		*ret_value = f->cfa + (uint64_t)how->value;
		return CFI_OK;
	case CFI_REGISTER:
		if (how->value < 0 || how->value >= m->n_regs)
			return CFI_BAD;
		*ret_value = f->regs->r[how->value];
		return f->regs->known >> how->value & 1 ? CFI_OK : CFI_NEED_REG;
	case CFI_EXPRESSION:
		result = cfi_evaluate(how->expression, how->len, f->regs, f->bias, &f->cfa,
				      f->memory, &address);
		/* The same behind the leave of a realigned frame, where the expression leads
		 * from the caller's rbp to anywhere. */
		if (result == CFI_OK && reg == DWARF_X86_RBP && !f->row->signal &&
		    f->row->cfa.where != CFI_VAL_EXPRESSION &&
		    (address < f->regs->r[DWARF_X86_RSP] || address >= f->cfa) &&
		    f->regs->known >> reg & 1) {
			*ret_value = f->regs->r[reg];
			return CFI_OK;
		}
		return result == CFI_OK ? slow_load(f, address, ret_value) : result;
	case CFI_VAL_EXPRESSION:
		return cfi_evaluate(how->expression, how->len, f->regs, f->bias, &f->cfa, f->memory,
				    ret_value);
	}
	return CFI_BAD;
}

/* All registers of the caller.  Only those that a walk cannot go on without make it fail. */
static enum cfi_result slow_apply(struct slow_frame *f, uint64_t pac_mask,
				  struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = f->row->machine;
	struct cfi_regs caller = {.known = 0};
	enum cfi_result result = slow_cfa(f);

	if (result != CFI_OK)
		return result;
	for (unsigned reg = 0; reg < m->n_regs; reg++) {
		unsigned column = reg == m->pc ? f->row->ra : reg;

		result = slow_reg(f, column, &caller.r[reg]);
		if (result == CFI_OK)
			caller.known |= 1ull << reg;
		else if (reg == m->pc || reg == m->sp ||
			 (reg == m->fp &&
			  (result != CFI_NEED_REG || f->row->regs[reg].where == CFI_REGISTER)))
			return result;
	}
	caller.r[m->pc] &= ~pac_mask;
	/* It holds the address behind the call, which no caller needs. */
	if (m->link && !f->row->signal)
		caller.known &= ~(1ull << DWARF_ARM64_LR);
	*ret_regs = caller;
	return CFI_OK;
}

/* How a frame was left. */
struct slow_way {
	bool signal;  /* it was interrupted, not called */
	bool landing; /* it returns to a landing pad, which is not in its caller's frame (cfi.h) */
	uint64_t missed; /* CFI_MEMORY: an address that could not be read */
};

/* Frame @at's caller, of registers @regs. */
static enum cfi_result slow_step(struct native *e, struct walk *w, uint64_t frame, rule_t rule,
				 const struct cfi_regs *regs, struct cfi_regs *ret_regs,
				 struct slow_way *ret_way)
{
	struct slow_memory memory = {.memory = {.read = slow_read}, .e = e, .w = w};
	uint64_t address = uw_frame_lookup(frame);
	struct native_place place;
	struct cfi_fde fde;
	struct cfi_row row;
	struct slow_frame f = {.row = &row, .regs = regs, .memory = &memory.memory};
	enum cfi_result result;

	switch (native_place(w, address, &place)) {
	case NATIVE_PLACE:
		break;
	case NATIVE_PENDING:
		w->res->pending = place.map->module;
		return CFI_PENDING;
	default:
		return CFI_NONE;
	}
	result = native_row(e, &place, rule, &fde, &row);
	if (result != CFI_OK)
		return result;
	f.bias = address - place.vaddr;
	ret_way->signal = row.signal;
	ret_way->landing = row.machine->link ? cfi_is_landing(&fde, place.vaddr, &row)
					     : cfi_saves_landing(&row);
	result = slow_apply(&f, w->pac_mask, ret_regs);
	ret_way->missed = memory.memory.missed;
	return result;
}

/* The registers that a walk always keeps. */
static uint64_t walk_known(const struct uw_machine *m)
{
	return 1ull << m->fp | 1ull << m->sp | 1ull << m->pc;
}

/* Is the return address of frame @n at @ra_at, and its rbp at @fp_at (0: still in the register)? */
static bool slow_guess_is(const struct walk *w, uint32_t n, const struct cfi_regs *regs,
			  uint64_t ra_at, uint64_t fp_at, struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = w->machine;
	struct cfi_regs caller = {.known = walk_known(m)};

	if (ra_at - w->base >= w->room || (fp_at && fp_at - w->base >= w->room))
		return false;
	memcpy(&caller.r[m->pc], w->stack + (ra_at - w->base), 8);
	caller.r[m->pc] &= ~w->pac_mask;
	caller.r[m->sp] = ra_at + 8;
	caller.r[m->fp] = regs->r[m->fp];
	if (fp_at)
		memcpy(&caller.r[m->fp], w->stack + (fp_at - w->base), 8);
	*ret_regs = caller;
	return caller.r[m->pc] == uw_frame_pc(w->frames[n]);
}

/* A frame without CFI, as native_guess() found it: only the registers that it found stay known. The
 * forms that do not change rbp keep the others too, but their code was not read: a wrong register
 * would be worse. */
static bool slow_guessed(struct native *e, const struct walk *w, uint32_t n,
			 const struct cfi_regs *regs, struct cfi_regs *ret_regs)
{
	const struct rule_entry *entry =
		rule_cache_find(&e->by_pc, &w->key, uw_frame_lookup(w->frames[n - 1]));
	rule_t rule = entry ? entry->rule & RULE_MASK : rule_simple(RULE_NONE);
	uint64_t sp = regs->r[w->machine->sp], fp = regs->r[w->machine->fp];
	enum rule_form form = rule_kind(rule) == RULE_GUESS ? rule_form(rule) : RULE_FORM_UNKNOWN;
	uint32_t ra = rule_way_ra(rule), way_fp = rule_way_bp(rule);

	if (!(w->frames[n] & UW_FRAME_GUESSED))
		return false;
	if (form == RULE_FORM_WALKED && ra != RULE_WAY_BY_FP &&
	    slow_guess_is(w, n, regs, sp + 8 * ra, way_fp ? sp + 8 * (way_fp - 1) : 0, ret_regs))
		return true;
	if ((form == RULE_FORM_PUSHED || form == RULE_FORM_PLT) &&
	    slow_guess_is(w, n, regs, sp + 8, form == RULE_FORM_PUSHED ? sp : 0, ret_regs))
		return true;
	return slow_guess_is(w, n, regs, fp + 8, fp, ret_regs) ||
	       (!w->machine->link && slow_guess_is(w, n, regs, sp, 0, ret_regs));
}

/* A frame as native_signal() found it. */
static bool slow_interrupted(struct native *e, struct walk *w, uint32_t n,
			     const struct cfi_regs *regs, struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = w->machine;

	return m->link && w->frames[n] & UW_FRAME_SIGNAL &&
	       native_signal_regs(e, w, regs->r[m->sp], ret_regs) &&
	       ret_regs->r[m->pc] == uw_frame_pc(w->frames[n]);
}

static void leaf_regs(const struct walk *w, struct cfi_regs *regs)
{
	const struct uw_machine *m = w->machine;

	for (unsigned reg = 0; reg < m->n_regs; reg++)
		regs->r[reg] = w->snapshot->regs[m->perf[reg]];
	regs->known = (1ull << m->n_regs) - 1;
}

/* Registers of the frame that the walk stands on, from the leaf or the last frame known in full.
 * CFI_BAD: the second walk finds other frames. */
static enum cfi_result slow_rewalk(struct native *e, struct walk *w, struct cfi_regs *regs)
{
	uint32_t n = 1;

	if (w->full_at && w->full_whole && w->full_at < w->n) {
		n = w->full_at;
		*regs = w->full;
	} else {
		leaf_regs(w, regs);
	}
	for (; n < w->n; n++) {
		struct cfi_regs caller;
		enum cfi_result result = CFI_OK;
		struct slow_way way;

		if (!slow_interrupted(e, w, n, regs, &caller))
			result = slow_step(e, w, w->frames[n - 1], 0, regs, &caller, &way);
		if (result == CFI_PENDING)
			return result;
		/* Also where the code was followed instead of the CFI. */
		if ((result != CFI_OK || caller.r[w->machine->pc] != uw_frame_pc(w->frames[n])) &&
		    !slow_guessed(e, w, n, regs, &caller))
			return CFI_BAD;
		if (caller.r[w->machine->pc] != uw_frame_pc(w->frames[n]))
			return CFI_BAD;
		*regs = caller;
	}
	return regs->r[w->machine->sp] == w->sp ? CFI_OK : CFI_BAD;
}

/* The known registers of the frame that the walk stands on; true: all are known. */
static bool native_regs(const struct walk *w, struct cfi_regs *regs)
{
	if (w->full_at == w->n) {
		*regs = w->full;
		return w->full_whole;
	}
	if (w->n == 1) {
		leaf_regs(w, regs);
		return true;
	}
	*regs = (struct cfi_regs){.known = walk_known(w->machine)};
	regs->r[w->machine->fp] = w->bp;
	regs->r[w->machine->sp] = w->sp;
	regs->r[w->machine->pc] = uw_frame_pc(w->frames[w->n - 1]);
	return false;
}

static enum step slow_end(struct walk *w, enum cfi_result result, uint64_t missed)
{
	switch (result) {
	case CFI_MEMORY:
		uw_result_out_of_copy(w->snapshot, w->res, missed);
		return STEP_ENDED;
	case CFI_PENDING:
		return walk_end(w, UW_PENDING, UW_OK, walk_lookup(w));
	default:
		return walk_end(w, UW_FAILED, UW_BAD_CFI, uw_frame_pc(w->frames[w->n - 1]));
	}
}

/* Takes the walk to the caller whose registers are @regs: all of them when @whole.  @signal: it was
 * interrupted. */
static enum step native_arrive(struct walk *w, const struct cfi_regs *regs, bool whole, bool signal)
{
	const struct uw_machine *m = w->machine;
	uint64_t sp = regs->r[m->sp];

	/* A signal frame may lead anywhere: to another stack, or to one further down.  Code that
	 * has popped its return address into a register (glibc's vfork) gives no stack back, but
	 * such a function calls none. */
	if (!signal && (sp < w->sp || (sp == w->sp && !walk_is_interrupted(w))))
		return walk_end(w, UW_FAILED, UW_NO_PROGRESS, sp);
	/* The kernel called the handler and made its return address the trampoline's first byte:
	 * the byte before it is another function's. */
	if (signal)
		w->frames[w->n - 1] &= ~UW_FRAME_CALLER;
	if (native_push(w, regs->r[m->pc], signal ? UW_FRAME_SIGNAL : UW_FRAME_CALLER) ==
	    STEP_ENDED)
		return STEP_ENDED;
	w->sp = sp;
	if (regs->known >> m->fp & 1)
		w->bp = regs->r[m->fp];
	/* An address in no mapping, where it is not known. */
	if (m->link)
		w->lr = regs->known >> DWARF_ARM64_LR & 1 ? regs->r[DWARF_ARM64_LR] : UINT64_MAX;
	w->full = *regs;
	w->full_at = w->n;
	w->full_whole = whole;
	return STEP_FRAME;
}

/* One frame on, from a signal frame: to the interrupted function. */
static enum step native_signal(struct native *e, struct walk *w)
{
	struct cfi_regs regs;

	if (!native_signal_regs(e, w, w->sp, &regs)) {
		uw_result_out_of_copy(w->snapshot, w->res, w->sp + w->machine->signal_regs);
		return STEP_ENDED;
	}
	return native_arrive(w, &regs, true, true);
}

/* One frame on, by the row of all registers. */
static enum step native_slow(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t frame = w->frames[w->n - 1];
	struct slow_way way = {0};
	struct cfi_regs regs, caller;
	bool whole = native_regs(w, &regs);
	enum cfi_result result;
	enum step step;

	result = slow_step(e, w, frame, rule, &regs, &caller, &way);
	if (way.signal && native_is_signal(e, w))
		return native_signal(e, w);
	if (result == CFI_NEED_REG && !whole) {
		result = slow_rewalk(e, w, &regs);
		if (result != CFI_OK)
			return slow_end(w, result, 0);
		whole = true;
		result = slow_step(e, w, frame, rule, &regs, &caller, &way);
	}
	if (result != CFI_OK)
		return slow_end(w, result, way.missed);
	/* A signal frame hands back every register, whatever was known before. */
	step = native_arrive(w, &caller, whole || way.signal, way.signal);
	if (step == STEP_FRAME && way.landing)
		w->frames[w->n - 1] |= UW_FRAME_GUESSED;
	return step;
}

/* aarch64: the return address of the frame that the walk stands on, whose CFA is @cfa. */
static bool far_link(struct native *e, struct walk *w, rule_t rule, uint64_t cfa, uint64_t *ret_ra)
{
	uint64_t at = cfa - rule_saved(rule);
	enum rule_link link = rule_link(rule);

	if (link == RULE_LINK_LIVE || rule_saved(rule) > cfa - w->sp) { /* below sp: popped */
		*ret_ra = w->lr;
		return true;
	}
	if (link == RULE_LINK_PAIR && !native_word(e, w, at, &w->bp))
		return false;
	return native_word(e, w, at + (link == RULE_LINK_PAIR ? 8 : 0), ret_ra);
}

/* One frame on, by a plain rule whose words lie outside the copy, or that makes no progress. */
static enum step native_far(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t cfa = (rule_kind(rule) == RULE_FP ? w->bp : w->sp) + (uint64_t)rule_cfa(rule);
	uint64_t saved = rule_saved(rule), ra, bp = w->bp;

	if (w->machine->link) {
		/* A function that has called has its return address on the stack; an interrupted
		 * one may have left sp as it was. */
		if (!walk_is_interrupted(w) && rule_link(rule) == RULE_LINK_LIVE)
			return walk_end(w, UW_FAILED, UW_BAD_CFI, uw_frame_pc(w->frames[w->n - 1]));
		if (cfa < w->sp || (!walk_is_interrupted(w) && saved > cfa - w->sp))
			return walk_end(w, UW_FAILED, UW_NO_PROGRESS, cfa);
		if (!far_link(e, w, rule, cfa, &ra))
			return STEP_ENDED;
		bp = w->bp;
		ra &= ~w->pac_mask;
	} else {
		if (cfa <= w->sp)
			return walk_end(w, UW_FAILED, UW_NO_PROGRESS, cfa);
		if (!native_word(e, w, cfa - 8, &ra) &&
		    !(native_same_frame(e, w, cfa - 8) && native_word(e, w, cfa - 8, &ra))) {
			native_hole_cross(e, w, cfa);
			return STEP_ENDED;
		}
		if (saved && saved <= cfa - w->sp && !native_word(e, w, cfa - saved, &bp))
			return STEP_ENDED;
	}
	w->sp = cfa;
	w->bp = bp;
	return native_push(w, ra, UW_FRAME_CALLER);
}

/* ---- frames without CFI: JIT code, stubs, hand-written assembly ----
 *
 * The caller is [rbp + 8], unless the code shows another place (code.h).  It is accepted when it
 * lies in a mapping and follows a call instruction; where code bytes cannot be read, the mapping is
 * enough.  Both answers are kept in the rule cache, because a read from the process costs as much as
 * a hundred frames.  Frames found this way carry UW_FRAME_GUESSED. */

/* The form that the code around the pc has; false: it cannot be read. */
static bool guess_code(const struct walk *w, uint64_t pc, bool caller, enum rule_form *ret_form)
{
	uint8_t code[CODE_SCAN + CODE_AFTER];
	size_t before = CODE_BEFORE, len;

	if (w->machine->link && !caller) { /* as far as the mapping goes */
		const struct uw_map *map = uw_space_find(w->snapshot->space, pc);

		before = map ? min_u64(CODE_SCAN, pc - map->start) & ~3ull : 0;
	}
	len = native_code(w, pc, before, CODE_AFTER, code);
	if (len <= before)
		return false;
	*ret_form = caller && (code_is_goexit(w->machine->arch, code, before, len) ||
			       code_is_go_switch(w->machine->arch, code, before, len))
			    ? RULE_FORM_ROOT
			    : code_form(w->machine->arch, code, before, len);
	return true;
}

static struct rule_source source_of(const struct code_source *source)
{
	return (struct rule_source){source->reg, source->memory, source->offset};
}

/* The rule by a walk through the code from the pc to the end of its function, into *rule. */
static bool guess_walk(const struct walk *w, uint64_t pc, rule_t *rule)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, pc - 1);
	uint8_t code[CODE_WALK_BEFORE + CODE_WALK_AFTER];
	struct code_way way;
	size_t before, len;

	if (!map || w->machine->link)
		return false;
	before = min_u64(CODE_WALK_BEFORE, pc - map->start);
	len = native_code(w, pc, before, CODE_WALK_AFTER, code);
	if (len <= before || !code_walk(code, before, len, &way))
		return false;
	if (way.kind == CODE_WAY_PUSHES)
		*rule = rule_with_sources(*rule, source_of(&way.from), source_of(&way.bp_from));
	else
		*rule = rule_with_way(*rule, way.kind == CODE_WAY_FP ? RULE_WAY_BY_FP : way.ra / 8,
				      way.bp < 0 ? 0 : (uint32_t)way.bp / 8 + 1);
	return true;
}

/* The form by the code at the pc, also set in *ret_rule. */
static enum rule_form guess_form(struct native *e, struct walk *w, rule_t *ret_rule)
{
	rule_t rule = *ret_rule;
	uint64_t pc = uw_frame_pc(w->frames[w->n - 1]), address = walk_lookup(w);
	bool caller = w->frames[w->n - 1] & UW_FRAME_CALLER, read;
	enum rule_form form = rule_form(rule);

	if (rule_kind(rule) == RULE_CHAIN)
		return RULE_FORM_FP;
	if (form != RULE_FORM_UNKNOWN)
		return form;
	form = RULE_FORM_FP;
	read = guess_code(w, pc, caller, &form);
	/* The instruction after a call: its frame stands.  But these two are return addresses made
	 * by hand. */
	if (caller && form != RULE_FORM_SIGRETURN && form != RULE_FORM_ROOT)
		form = RULE_FORM_FP;
	/* Without a reader no code was read: the next snapshot may have one, under the same key.
	 * With a reader, a failure is noted: a process that is gone does not come back. */
	if (!native_has_code(w, pc))
		return form;
	/* JIT code has frame pointers: at a call, nothing else is read. */
	if (form == RULE_FORM_FP && !(caller && rule_why(rule) == RULE_NO_FILE) &&
	    guess_walk(w, pc, &rule))
		form = rule_form(rule);
	/* aarch64: code that cannot be read may be a signal trampoline, which has no frame record.
	 */
	if (form == RULE_FORM_WALKED || form == RULE_FORM_PUSHES)
		*ret_rule = rule;
	else if (caller && form == RULE_FORM_FP && (read || !w->machine->link))
		rule = rule_with_call(rule_chain(rule_why(rule)), rule_call(rule));
	else
		rule = rule_with_form(rule, form);
	native_note(e, w, address, rule);
	return form;
}

/* Does @ra follow a call, as far as can be known?  @rule is that of @ra - 1. */
static bool guess_follows_call(struct native *e, struct walk *w, uint64_t ra, rule_t rule)
{
	enum rule_call call = rule_call(rule);
	uint8_t code[CODE_BEFORE + CODE_AFTER];
	size_t len;

	if (call == RULE_CALL_UNKNOWN) {
		call = RULE_CALL_UNREADABLE;
		len = native_code(w, ra, CODE_BEFORE, CODE_AFTER, code);
		if (len >= CODE_BEFORE)
			call = code_ends_in_call(w->machine->arch, code, CODE_BEFORE) ||
					       code_is_goexit(w->machine->arch, code, CODE_BEFORE,
							      len)
				       ? RULE_CALL_YES
				       : RULE_CALL_NO;
		if (native_has_code(w, ra))
			native_note(e, w, ra - 1, rule_with_call(rule, call));
	}
	return call != RULE_CALL_NO;
}

enum step native_prove(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t ra = uw_frame_pc(w->frames[w->n - 1]);

	/* Of a module that is not loaded yet nothing can be noted: the check is made when it is
	 * loaded. */
	if (rule_kind(rule) == RULE_NONE || guess_follows_call(e, w, ra, rule))
		return STEP_FRAME;
	w->n--;
	return walk_end(w, UW_FAILED, UW_BAD_RETURN, ra);
}

struct guess {
	rule_t rule; /* RULE_FORM_WALKED */
	uint64_t ra, sp, bp;
	uint64_t missed; /* an address that the stack does not hold; 0: none */
};

enum guess_result { GUESS_HOLDS, GUESS_FAILS, GUESS_NO_CALL, GUESS_NO_MEMORY };

/* The words of the caller as the walk through the code found them. */
static enum guess_result guess_read_way(struct native *e, struct walk *w, struct guess *g)
{
	uint64_t bp_at = rule_way_bp(g->rule), at = w->sp + 8 * rule_way_ra(g->rule);

	g->bp = w->bp;
	g->sp = at + 8;
	g->missed = at;
	if (!native_bytes(e, w, at, &g->ra, sizeof(g->ra)))
		return GUESS_NO_MEMORY;
	if (!bp_at)
		return GUESS_HOLDS;
	g->missed = w->sp + 8 * (bp_at - 1);
	return native_bytes(e, w, g->missed, &g->bp, sizeof(g->bp)) ? GUESS_HOLDS : GUESS_NO_MEMORY;
}

/* One of the words that will be the caller's. */
static enum guess_result guess_read_source(struct native *e, struct walk *w,
					   struct rule_source source, struct guess *g,
					   uint64_t *ret_word)
{
	struct cfi_regs regs;

	if (!native_regs(w, &regs) || !(regs.known >> source.reg & 1))
		return GUESS_FAILS;
	if (!source.memory) {
		*ret_word = regs.r[source.reg];
		return GUESS_HOLDS;
	}
	g->missed = regs.r[source.reg] + source.offset;
	return native_bytes(e, w, g->missed, ret_word, sizeof(*ret_word)) ? GUESS_HOLDS
									  : GUESS_NO_MEMORY;
}

/* The caller that the code is about to push. */
static enum guess_result guess_read_sources(struct native *e, struct walk *w, struct guess *g)
{
	enum guess_result result = guess_read_source(e, w, rule_source(g->rule, false), g, &g->ra);

	g->sp = w->sp;
	return result == GUESS_HOLDS
		       ? guess_read_source(e, w, rule_source(g->rule, true), g, &g->bp)
		       : result;
}

/* The words of the caller by @form. */
static enum guess_result guess_read(struct native *e, struct walk *w, enum rule_form form,
				    struct guess *g)
{
	uint64_t at = form == RULE_FORM_FP	? w->bp + 8
		      : form == RULE_FORM_ENTRY ? w->sp
						: w->sp + 8;

	if (form == RULE_FORM_WALKED && rule_way_ra(g->rule) != RULE_WAY_BY_FP)
		return guess_read_way(e, w, g);
	if (form == RULE_FORM_WALKED)
		return guess_read(e, w, RULE_FORM_FP, g);
	if (form == RULE_FORM_PUSHES)
		return guess_read_sources(e, w, g);
	g->bp = w->bp;
	if (form == RULE_FORM_ENTRY && w->machine->link) {
		if (!walk_is_interrupted(w))
			return GUESS_FAILS;
		g->ra = w->lr & ~w->pac_mask;
		g->sp = w->sp;
		return GUESS_HOLDS;
	}
	if (form == RULE_FORM_FP && (w->bp < w->sp || w->bp - w->sp > NATIVE_DEEP_MAX || w->bp & 7))
		return GUESS_FAILS;
	g->missed = at;
	if (!native_bytes(e, w, at, &g->ra, sizeof(g->ra)))
		return GUESS_NO_MEMORY;
	g->missed = at - 8;
	if ((form == RULE_FORM_FP || form == RULE_FORM_PUSHED) &&
	    !native_bytes(e, w, at - 8, &g->bp, sizeof(g->bp)))
		return GUESS_NO_MEMORY;
	g->sp = at + 8;
	g->ra &= ~w->pac_mask;
	return GUESS_HOLDS;
}

/* May a return address of 0 be the stack's end?  Of a chain, yes; but where x86-64 code was
 * interrupted, rbp may be any number, unless the code itself sets up a frame. */
static bool guess_may_end(const struct walk *w, enum rule_form form, rule_t rule)
{
	if (form == RULE_FORM_WALKED)
		return rule_way_ra(rule) == RULE_WAY_BY_FP;
	return form == RULE_FORM_FP && (w->machine->link || !walk_is_interrupted(w));
}

/* The caller by @form, if it looks like one. */
static enum guess_result guess_try(struct native *e, struct walk *w, enum rule_form form,
				   struct guess *g)
{
	enum guess_result result = guess_read(e, w, form, g);
	rule_t rule;

	if (result != GUESS_HOLDS)
		return result;
	if (!g->ra)
		return guess_may_end(w, form, g->rule) ? GUESS_HOLDS : GUESS_FAILS;
	if (g->ra >> 48 || !uw_space_find(w->snapshot->space, g->ra - 1))
		return GUESS_FAILS;
	rule = native_rule(e, w, g->ra - 1);
	/* RULE_NONE: its module is not loaded; the next step ends PENDING. */
	return rule_kind(rule) == RULE_NONE || guess_follows_call(e, w, g->ra, rule)
		       ? GUESS_HOLDS
		       : GUESS_NO_CALL;
}

/* The chain's end as the ABI has it: code before the first frame clears rbp.  Of compiled code
 * without CFI that may be chance, so JIT code, interrupted instructions, and modules that cannot be
 * read do not count. */
static bool guess_is_root(const struct walk *w, rule_t rule)
{
	return !w->bp && rule_why(rule) == RULE_NO_CFI && (w->frames[w->n - 1] & UW_FRAME_CALLER);
}

/* Hand-written assembly mostly is a leaf that leaves rsp and rbp alone: [rsp] first.  JIT code
 * mostly has frame pointers.  aarch64: the code was read (code.h), where that is possible. */
static enum guess_result guess_leaf(struct native *e, struct walk *w, rule_t rule, struct guess *g)
{
	bool by_fp =
		rule_why(rule) == RULE_NO_FILE || (w->machine->link && w->snapshot->space->memory);
	enum rule_form first = by_fp ? RULE_FORM_FP : RULE_FORM_ENTRY;
	enum rule_form second = first == RULE_FORM_FP ? RULE_FORM_ENTRY : RULE_FORM_FP;
	enum guess_result result = guess_try(e, w, first, g);
	struct guess other = {.rule = rule};

	if (result == GUESS_HOLDS)
		return result;
	if (guess_try(e, w, second, &other) == GUESS_HOLDS) {
		*g = other;
		return GUESS_HOLDS;
	}
	return result;
}

/* The end of a list of pointers into the stack above: the address behind its 0, 0: it is none. */
static uint64_t skip_pointers(struct native *e, struct walk *w, uint64_t at, size_t n)
{
	uint64_t word;

	for (size_t i = 0; i < n; i++, at += 8) {
		if (!native_bytes(e, w, at, &word, 8))
			return 0;
		if (!word)
			return at + 8;
		if (word <= at || word - at > NATIVE_DEEP_MAX)
			return 0;
	}
	return 0;
}

/* A program's very first instructions, ld.so's as a rule: rsp is at argc, argv, 0, the environment,
 * 0, and the auxiliary vector, which has the size of a page.  x86-64 psABI, 3.4.1 and 3.4.3. */
static bool guess_is_start(struct native *e, struct walk *w, rule_t rule)
{
	enum { ARGS_MAX = 1 << 16, AUX_MAX = 64, AUX_PAGESZ = 6 };
	uint64_t argc, at, aux[2];

	if (w->machine->link || !walk_is_interrupted(w) || rule_why(rule) != RULE_NO_CFI ||
	    !native_bytes(e, w, w->sp, &argc, 8) || !argc || argc >= ARGS_MAX)
		return false;
	at = skip_pointers(e, w, w->sp + 8, argc + 1);
	if (at != w->sp + 8 * (argc + 2))
		return false;
	at = skip_pointers(e, w, at, ARGS_MAX);
	for (size_t i = 0; at && i < AUX_MAX; i++, at += sizeof(aux)) {
		if (!native_bytes(e, w, at, aux, sizeof(aux)) || !aux[0] || aux[0] >= 1 << 16)
			return false;
		if (aux[0] == AUX_PAGESZ)
			return aux[1] >= 4096 && !(aux[1] & (aux[1] - 1));
	}
	return false;
}

/* Where the CFI has no row for a moved rsp and the code moved it to a new stack (Go's clone), the
 * CFI's return address is the word at the top of the new stack: 0 is its end. */
static bool guess_is_top(struct native *e, struct walk *w, rule_t rule)
{
	struct native_place place;
	struct cfi_fde fde;
	uint64_t word;
	rule_t by_cfi;

	return !w->machine->link && !walk_is_interrupted(w) && rule_why(rule) == RULE_NO_CFI &&
	       native_place(w, walk_lookup(w), &place) == NATIVE_PLACE && place.image &&
	       native_find_row(e, &place, NULL, &by_cfi, &fde) == CFI_OK &&
	       by_cfi == rule_frame(RULE_SP, 1, 0) && native_bytes(e, w, w->sp, &word, 8) && !word;
}

static enum step guess_failed(struct walk *w, rule_t rule, enum guess_result result,
			      const struct guess *g)
{
	if (result == GUESS_NO_MEMORY) {
		uw_result_out_of_copy(w->snapshot, w->res, g->missed);
		return STEP_ENDED;
	}
	if (result == GUESS_NO_CALL)
		return walk_end(w, UW_FAILED, UW_BAD_RETURN, g->ra);
	return walk_end(w, UW_FAILED,
			rule_why(rule) == RULE_NOT_READABLE ? UW_UNREADABLE : UW_NO_UNWIND_INFO,
			uw_frame_pc(w->frames[w->n - 1]));
}

static enum step guess_arrive(struct walk *w, const struct guess *g)
{
	w->sp = g->sp;
	w->bp = g->bp;
	return native_push(w, g->ra, UW_FRAME_CALLER | UW_FRAME_GUESSED);
}

/* Is @ra where a function begins, behind padding?  V8's deoptimizer writes such return addresses:
 * no call is before them. */
static bool guess_is_entry(const struct walk *w, uint64_t ra)
{
	static const uint8_t padding[4] = {0xcc, 0xcc, 0xcc, 0xcc};
	uint8_t code[sizeof(padding)];

	return !w->machine->link && !(ra & 15) &&
	       native_code(w, ra, sizeof(code), 0, code) == sizeof(code) &&
	       !memcmp(code, padding, sizeof(code));
}

/* The place that the code gives holds no return address either: the CFI's is a guess now. */
static enum step guess_by_cfi(struct native *e, struct walk *w)
{
	enum step step = native_slow(e, w, 0);

	if (step == STEP_FRAME)
		w->frames[w->n - 1] |= UW_FRAME_GUESSED;
	return step;
}

/* One frame on, without CFI. */
static enum step native_guess(struct native *e, struct walk *w, rule_t rule)
{
	bool caller = w->frames[w->n - 1] & UW_FRAME_CALLER;
	struct guess g = {0}, by_code = {0};
	enum guess_result result;
	enum rule_form form;

	form = guess_form(e, w, &rule);
	g.rule = rule;
	if (form == RULE_FORM_WALKED) {
		result = guess_try(e, w, form, &g);
		if (result == GUESS_HOLDS)
			return guess_arrive(w, &g);
		if (rule_why(rule) == RULE_CFI_WRONG)
			return guess_by_cfi(e, w);
		if (result == GUESS_NO_CALL)
			by_code = g;
		form = RULE_FORM_FP;
	}
	if (form == RULE_FORM_SIGRETURN || (form == RULE_FORM_FP && native_is_signal(e, w)))
		return native_signal(e, w);
	if (form == RULE_FORM_ROOT || (form == RULE_FORM_FP && guess_is_root(w, rule)))
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	result = form == RULE_FORM_FP && !caller ? guess_leaf(e, w, rule, &g)
						 : guess_try(e, w, form, &g);
	if (result == GUESS_HOLDS)
		return guess_arrive(w, &g);
	if (guess_is_start(e, w, rule) || guess_is_top(e, w, rule))
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	/* The code itself returns to this address. */
	if (by_code.ra && guess_is_entry(w, by_code.ra))
		return guess_arrive(w, &by_code);
	return guess_failed(w, rule, result, &g);
}

/* ---- all of them ---- */

enum step native_step(struct native *e, struct walk *w, rule_t rule)
{
	switch (rule_kind(rule)) {
	case RULE_NONE: /* native_rule() has ended the walk */
		return STEP_ENDED;
	case RULE_ROOT:
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	case RULE_BAD:
		return walk_end(w, UW_FAILED, UW_BAD_CFI, uw_frame_pc(w->frames[w->n - 1]));
	case RULE_GUESS:
	case RULE_CHAIN:
		return native_guess(e, w, rule);
	case RULE_SLOW:
		e->stats.slow_frames++;
		return native_slow(e, w, rule);
	default:
		return native_far(e, w, rule);
	}
}
