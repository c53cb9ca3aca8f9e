/* native-step.c - see native.h.  One frame on, where no packed rule applies: signal frames, realigned
 * stacks (CFA by an expression or another register), hand-written CFI.
 *
 * The walk keeps rsp and rbp only, which mostly suffices here, too.  When a frame needs another
 * register, the stack is walked again with full registers, from the leaf or from the last frame
 * where all registers are known.  The registers are kept, so that a stack of these frames costs each
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
	uint64_t method; /* of a Java VM's interpreter: the Method; 0: none */
};

/* The Method of an interpreted frame: in its frame, or in rbx while the frame is made. */
static uint64_t method_of(struct native *e, struct walk *w, const struct native_place *place,
			  const struct cfi_row *row, const struct cfi_regs *regs)
{
	const struct uw_vm_code *vm = &place->image->vm;
	uint64_t method = 0;

	if (w->machine->link || place->vaddr < vm->interpreter.start ||
	    place->vaddr >= vm->interpreter.end)
		return 0;
	if (row->cfa_register == DWARF_X86_RSP)
		method = regs->known >> DWARF_X86_RBX & 1 ? regs->r[DWARF_X86_RBX] : 0;
	else if (!native_bytes(e, w, regs->r[DWARF_X86_RBP] + (uint64_t)vm->method, &method,
			       sizeof(method)))
		return 0;
	/* Behind the frame's end rbx has the caller's rsp. */
	return method & 7 || method >> 47 || method - w->base < NATIVE_DEEP_MAX ? 0 : method;
}

static void note_method(struct native *e, struct walk *w, uint64_t method)
{
	if (!w->methods)
		w->methods = malloc(UW_MAX_FRAMES * sizeof(*w->methods));
	if (!w->methods)
		e->no_memory = true;
	else if (w->n_methods < UW_MAX_FRAMES)
		w->methods[w->n_methods++] = (struct native_method){method, w->n - 1};
}

/* ---- plain rows ----
 *
 * The registers of a frame of CPython's loop are looked for at each sample, through the same few functions: their rows of CFI
 * are kept, as rules are. */

static const uint8_t plain_regs[NATIVE_PLAIN_REGS] = {
	DWARF_X86_RBX,	   DWARF_X86_RBP,     DWARF_X86_R12,
	DWARF_X86_R12 + 1, DWARF_X86_R12 + 2, DWARF_X86_R15,
};

static struct native_plain_row *plain_place(struct native *e, const struct walk *w,
					    uint64_t address)
{
	uint64_t hash = hash_u64(address ^ (uint64_t)w->snapshot->space->key << 32);

	return &e->plain_rows[hash % NATIVE_PLAIN_ROWS];
}

/* In units of 8 from the CFA; 0: kept.  false: neither. */
static bool plain_saved(const struct cfi_reg *how, bool may_be_kept, int16_t *ret_at)
{
	*ret_at = 0;
	if (how->where == CFI_UNSPECIFIED || how->where == CFI_SAME)
		return may_be_kept;
	*ret_at = (int16_t)(how->value / 8);
	return how->where == CFI_OFFSET && how->value % 8 == 0 && *ret_at &&
	       *ret_at == how->value / 8;
}

/* Keeps the row of the code at @address where it is plain. */
static void plain_note(struct native *e, const struct walk *w, uint64_t address,
		       const struct cfi_row *row)
{
	struct native_plain_row plain = {
		.address = address,
		.key = w->snapshot->space->key,
		.cfa = (int32_t)row->cfa.value,
		.cfa_register = (uint8_t)row->cfa_register,
	};
	bool is = !row->machine->link && !row->signal && plain.key &&
		  row->cfa.where == CFI_REGISTER && row->cfa_register < DWARF_X86_RIP &&
		  plain.cfa == row->cfa.value && row->ra == DWARF_X86_RIP &&
		  plain_saved(&row->regs[row->ra], false, &plain.ra);

	for (unsigned reg = 0, i = 0; reg < DWARF_X86_RIP && is; reg++) {
		if (row->machine->preserved >> reg & 1)
			is = plain_saved(&row->regs[reg], true, &plain.at[i++]);
		else
			is = row->regs[reg].where == CFI_UNSPECIFIED ||
			     (reg != DWARF_X86_RSP && row->regs[reg].where == CFI_UNDEFINED);
	}
	if (is)
		*plain_place(e, w, address) = plain;
}

/* As slow_apply() of the row, in place.  false: @regs stay, as the caller's address is not @pc, or is not known. */
static bool plain_apply(struct native *e, struct walk *w, const struct native_plain_row *plain,
			uint64_t pc, struct cfi_regs *regs)
{
	uint64_t known = 1ull << DWARF_X86_RSP | 1ull << DWARF_X86_RIP, ra;
	uint64_t cfa = regs->r[plain->cfa_register] + (uint64_t)(int64_t)plain->cfa;
	uint64_t saved[NATIVE_PLAIN_REGS];

	if (!(regs->known >> plain->cfa_register & 1) ||
	    !native_bytes(e, w, cfa + (uint64_t)(8 * (int64_t)plain->ra), &ra, 8) || ra != pc)
		return false;
	for (size_t i = 0; i < NATIVE_PLAIN_REGS; i++) {
		unsigned reg = plain_regs[i];
		uint64_t address = cfa + (uint64_t)(8 * (int64_t)plain->at[i]);
		bool is = regs->known >> reg & 1;

		saved[i] = regs->r[reg];
		if (plain->at[i] && (address >= regs->r[DWARF_X86_RSP] || !is))
			is = native_bytes(e, w, address, &saved[i], 8);
		if (!is && plain->at[i] && reg == DWARF_X86_RBP)
			return false;
		known |= (uint64_t)is << reg;
	}
	for (size_t i = 0; i < NATIVE_PLAIN_REGS; i++)
		regs->r[plain_regs[i]] = saved[i];
	regs->r[DWARF_X86_RSP] = cfa;
	regs->r[DWARF_X86_RIP] = ra;
	regs->known = known;
	return true;
}

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
	if (!rule)
		plain_note(e, w, address, &row);
	f.bias = address - place.vaddr;
	ret_way->signal = row.signal;
	ret_way->landing = row.machine->link ? cfi_is_landing(&fde, place.vaddr, &row)
					     : cfi_saves_landing(&row);
	result = slow_apply(&f, w->pac_mask, ret_regs);
	ret_way->missed = memory.memory.missed;
	ret_way->method = result == CFI_OK ? method_of(e, w, &place, &row, regs) : 0;
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

/* Registers of frame @to, from the leaf or the last frame known in full. CFI_BAD: the second walk finds
 * other frames. */
static enum cfi_result slow_rewalk(struct native *e, struct walk *w, uint32_t to,
				   struct cfi_regs *regs)
{
	uint32_t n = 1;

	if (w->full_at && w->full_whole && w->full_at <= to) {
		n = w->full_at;
		*regs = w->full;
	} else {
		leaf_regs(w, regs);
	}
	for (; n < to; n++) {
		struct cfi_regs caller;
		enum cfi_result result = CFI_OK;
		struct slow_way way;
		uint64_t address = uw_frame_lookup(w->frames[n - 1]);
		const struct native_plain_row *plain = plain_place(e, w, address);

		if (plain->address == address && plain->key == w->snapshot->space->key &&
		    plain->key && plain_apply(e, w, plain, uw_frame_pc(w->frames[n]), regs))
			continue;
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
	return CFI_OK;
}

bool native_regs_of(struct native *e, struct walk *w, uint32_t n, struct cfi_regs *ret_regs)
{
	return n <= w->n && slow_rewalk(e, w, n, ret_regs) == CFI_OK;
}

bool native_regs(const struct walk *w, struct cfi_regs *regs)
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

/* Takes the walk to the caller with the registers @regs: all of them when @whole.  @signal: it was
 * interrupted. */
static enum step native_arrive(struct walk *w, const struct cfi_regs *regs, bool whole, bool signal)
{
	const struct uw_machine *m = w->machine;
	uint64_t sp = regs->r[m->sp];

	/* A signal frame may lead anywhere: to another stack, or to one further down.  Code that
	 * has popped its return address into a register (glibc's vfork) gives no stack back, but
	 * a function of this kind calls none. */
	if (!signal && (sp < w->sp || (sp == w->sp && !walk_is_interrupted(w))))
		return walk_end(w, UW_FAILED, UW_NO_PROGRESS, sp);
	/* The kernel called the handler and made its return address the trampoline's first byte:
	 * the byte before it is another function's. */
	if (signal)
		w->frames[w->n - 1] &= ~UW_FRAME_CALLER;
	w->sp = sp;
	if (regs->known >> m->fp & 1)
		w->bp = regs->r[m->fp];
	if (native_push(w, regs->r[m->pc], signal ? UW_FRAME_SIGNAL : UW_FRAME_CALLER) ==
	    STEP_ENDED)
		return STEP_ENDED;
	/* An address in no mapping, where it is not known. */
	if (m->link)
		w->lr = regs->known >> DWARF_ARM64_LR & 1 ? regs->r[DWARF_ARM64_LR] : UINT64_MAX;
	w->full = *regs;
	w->full_at = w->n;
	w->full_whole = whole;
	return STEP_FRAME;
}

enum step native_signal(struct native *e, struct walk *w)
{
	struct cfi_regs regs;

	if (!native_signal_regs(e, w, w->sp, &regs)) {
		uw_result_out_of_copy(w->snapshot, w->res, w->sp + w->machine->signal_regs);
		return STEP_ENDED;
	}
	return native_arrive(w, &regs, true, true);
}

enum step native_slow(struct native *e, struct walk *w, rule_t rule)
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
		result = slow_rewalk(e, w, w->n, &regs);
		if (result == CFI_OK && regs.r[w->machine->sp] != w->sp)
			result = CFI_BAD;
		if (result != CFI_OK)
			return slow_end(w, result, 0);
		whole = true;
		result = slow_step(e, w, frame, rule, &regs, &caller, &way);
	}
	if (result != CFI_OK)
		return slow_end(w, result, way.missed);
	if (way.method)
		note_method(e, w, way.method);
	/* A signal frame hands back every register, whatever was known before. */
	step = native_arrive(w, &caller, whole || way.signal, way.signal);
	if (step == STEP_FRAME && way.landing)
		w->frames[w->n - 1] |= UW_FRAME_GUESSED;
	return step;
}

/* The word at @address of the walk's stack: from the copy, else from the process.  false: it is in
 * neither; the walk's result is set. */
static bool native_word(struct native *e, struct walk *w, uint64_t address, uint64_t *ret_word)
{
	if (native_bytes(e, w, address, ret_word, sizeof(*ret_word)))
		return true;
	uw_result_out_of_copy(w->snapshot, w->res, address);
	return false;
}

/* aarch64: the return address of the frame that the walk stands on, with the CFA @cfa. */
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

/* One frame on, by a plain rule with words outside the copy, or that makes no progress. */
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
			w->far_cfa = cfa;
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

/* ---- every kind of rule ---- */

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
		return native_slow(e, w, rule);
	default:
		return native_far(e, w, rule);
	}
}
