/* cfi-row.c - see cfi.h.  The row of an address, and the packed rule made of it. */
#include <stddef.h>

#include "unwinder/cfi.h"

/* ---- rows: the programs of a CIE and an FDE, run up to one address ----
 *
 * The bytes of the program bound the time: every operation takes at least one byte, and none jumps.
 * The longest programs met (one step a call in huge generated functions) have some hundred KB. */

enum { REMEMBERED_MAX = 16 };

struct machine {
	const struct cfi_fde *fde;
	struct cursor c;
	uint64_t loc, vaddr;
	struct cfi_row *row;
	const struct cfi_row *initial; /* NULL while the CIE's program runs */
	unsigned n_remembered;
	struct cfi_row remembered[REMEMBERED_MAX];
};

/* Most numbers are one byte. */
static inline uint64_t uleb(struct cursor *c)
{
	if (c->p < c->end && !(*c->p & 0x80))
		return *c->p++;
	return cursor_uleb(c);
}

static void set_reg(struct machine *m, uint64_t reg, enum cfi_where where, int64_t value)
{
	if (reg < m->fde->machine->n_regs)
		m->row->regs[reg] = (struct cfi_reg){.where = where, .value = value};
}

static void set_expression(struct machine *m, struct cfi_reg *reg, enum cfi_where where)
{
	uint64_t len = uleb(&m->c);
	const uint8_t *bytes = len <= UINT16_MAX ? cursor_bytes(&m->c, len) : NULL;

	if (!bytes) {
		m->c.bad = true;
		return;
	}
	if (reg)
		*reg = (struct cfi_reg){.where = where, .len = (uint32_t)len, .expression = bytes};
}

static struct cfi_reg *expression_reg(struct machine *m)
{
	uint64_t reg = uleb(&m->c);

	return reg < m->fde->machine->n_regs ? &m->row->regs[reg] : NULL;
}

static int64_t factored(const struct machine *m, uint64_t value)
{
	return (int64_t)(value * (uint64_t)m->fde->cie.data_align);
}

static void restore_reg(struct machine *m, uint64_t reg)
{
	if (!m->initial)
		m->c.bad = true;
	else if (reg < m->fde->machine->n_regs)
		m->row->regs[reg] = m->initial->regs[reg];
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->row->cfa = (struct cfi_reg){.where = CFI_REGISTER, .value = offset};
	m->row->cfa_register = (uint32_t)min_u64(reg, UINT32_MAX);
}

/* Operations on an offset or a register of the CFA are valid only while it is a register and an
 * offset. */
static bool has_cfa(struct machine *m)
{
	if (m->row->cfa.where != CFI_REGISTER)
		m->c.bad = true;
	return m->row->cfa.where == CFI_REGISTER;
}

/* The part of a row that its machine has registers for. */
static size_t row_size(const struct cfi_fde *fde)
{
	return offsetof(struct cfi_row, regs) + fde->machine->n_regs * sizeof(struct cfi_reg);
}

static void remember(struct machine *m)
{
	if (m->n_remembered == REMEMBERED_MAX)
		m->c.bad = true;
	else
		memcpy(&m->remembered[m->n_remembered++], m->row, row_size(m->fde));
}

static void recall(struct machine *m)
{
	if (!m->n_remembered)
		m->c.bad = true;
	else
		memcpy(m->row, &m->remembered[--m->n_remembered], row_size(m->fde));
}

/* DW_CFA_set_loc: an address in the FDE's encoding; only absolute and self-relative ones are met.
 */
static void set_loc(struct machine *m)
{
	uint64_t at = m->fde->section_vaddr + (uint64_t)(m->c.p - m->fde->section);

	switch (m->fde->cie.pointer_encoding) {
	case 0x00:
		m->loc = cursor_u64(&m->c);
		break;
	case 0x1b:
		m->loc = at + (uint64_t)(int64_t)(int32_t)cursor_u32(&m->c);
		break;
	default:
		m->c.bad = true;
	}
}

static void run_cfa(struct machine *m, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case CFA_DEF_CFA:
		reg = uleb(&m->c);
		set_cfa(m, reg, (int64_t)uleb(&m->c));
		break;
	case CFA_DEF_CFA_SF:
		reg = uleb(&m->c);
		set_cfa(m, reg, factored(m, (uint64_t)cursor_sleb(&m->c)));
		break;
	case CFA_DEF_CFA_REGISTER:
		reg = uleb(&m->c);
		if (has_cfa(m))
			m->row->cfa_register = (uint32_t)min_u64(reg, UINT32_MAX);
		break;
	case CFA_DEF_CFA_OFFSET:
		reg = uleb(&m->c);
		if (has_cfa(m))
			m->row->cfa.value = (int64_t)reg;
		break;
	case CFA_DEF_CFA_OFFSET_SF:
		reg = (uint64_t)cursor_sleb(&m->c);
		if (has_cfa(m))
			m->row->cfa.value = factored(m, reg);
		break;
	default: /* CFA_DEF_CFA_EXPRESSION */
		set_expression(m, &m->row->cfa, CFI_VAL_EXPRESSION);
	}
}

static void run_reg(struct machine *m, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_OFFSET, factored(m, uleb(&m->c)));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_OFFSET, factored(m, (uint64_t)cursor_sleb(&m->c)));
		break;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_OFFSET, factored(m, 0 - uleb(&m->c)));
		break;
	case CFA_VAL_OFFSET:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_VAL_OFFSET, factored(m, uleb(&m->c)));
		break;
	case CFA_VAL_OFFSET_SF:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_VAL_OFFSET, factored(m, (uint64_t)cursor_sleb(&m->c)));
		break;
	case CFA_REGISTER:
		reg = uleb(&m->c);
		set_reg(m, reg, CFI_REGISTER, (int64_t)uleb(&m->c));
		break;
	case CFA_RESTORE_EXTENDED:
		restore_reg(m, uleb(&m->c));
		break;
	case CFA_UNDEFINED:
		set_reg(m, uleb(&m->c), CFI_UNDEFINED, 0);
		break;
	case CFA_SAME_VALUE:
		set_reg(m, uleb(&m->c), CFI_SAME, 0);
		break;
	case CFA_EXPRESSION:
	case CFA_VAL_EXPRESSION: {
		struct cfi_reg *to = expression_reg(m);

		set_expression(m, to, op == CFA_EXPRESSION ? CFI_EXPRESSION : CFI_VAL_EXPRESSION);
		break;
	}
	default:
		m->c.bad = true; /* unknown, so its operands are, too */
	}
}

static void run_extended(struct machine *m, uint8_t op)
{
	switch (op) {
	case CFA_NOP:
		break;
	case CFA_SET_LOC:
		set_loc(m);
		break;
	case CFA_ADVANCE_LOC1:
		m->loc += cursor_u8(&m->c) * m->fde->cie.code_align;
		break;
	case CFA_ADVANCE_LOC2:
		m->loc += cursor_u16(&m->c) * m->fde->cie.code_align;
		break;
	case CFA_ADVANCE_LOC4:
		m->loc += cursor_u32(&m->c) * m->fde->cie.code_align;
		break;
	case CFA_REMEMBER_STATE:
		remember(m);
		break;
	case CFA_RESTORE_STATE:
		recall(m);
		break;
	case CFA_GNU_ARGS_SIZE:
		(void)uleb(&m->c);
		break;
	case CFA_AARCH64_NEGATE_RA_STATE:
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
		/* The signature is taken away wherever there is one: uw_machine_pac_mask(). */
		m->c.bad = !m->fde->machine->link;
		break;
	case CFA_DEF_CFA:
	case CFA_DEF_CFA_SF:
	case CFA_DEF_CFA_REGISTER:
	case CFA_DEF_CFA_OFFSET:
	case CFA_DEF_CFA_OFFSET_SF:
	case CFA_DEF_CFA_EXPRESSION:
		run_cfa(m, op);
		break;
	default:
		run_reg(m, op);
	}
}

static bool run(struct machine *m, const uint8_t *program, const uint8_t *end)
{
	if (end - program > CFI_PROGRAM_MAX)
		return false;
	m->c = cursor_of(program, (size_t)(end - program));
	while (m->c.p < m->c.end) {
		uint8_t op = *m->c.p++;

		switch (op & 0xc0) {
		case CFA_ADVANCE_LOC:
			m->loc += (op & 0x3f) * m->fde->cie.code_align;
			break;
		case CFA_OFFSET:
			set_reg(m, op & 0x3f, CFI_OFFSET, factored(m, uleb(&m->c)));
			break;
		case CFA_RESTORE:
			restore_reg(m, op & 0x3f);
			break;
		default:
			run_extended(m, op);
		}
		if (m->c.bad)
			return false;
		if (m->loc > m->vaddr) /* the row before this advance is the one */
			break;
	}
	return true;
}

enum cfi_result cfi_row_at(const struct cfi_fde *fde, uint64_t vaddr, struct cfi_row *row)
{
	struct cfi_row initial;
	struct machine m; /* not cleared: its rows are written before they are read */

	if (vaddr < fde->begin || vaddr > fde->end || fde->begin == fde->end)
		return CFI_NONE;
	memset(row, 0, row_size(fde));
	row->signal = fde->cie.signal;
	row->machine = fde->machine;
	row->ra = fde->machine->link ? (uint8_t)fde->cie.ra_column : fde->machine->pc;
	m.fde = fde;
	m.row = row;
	m.n_remembered = 0;
	m.initial = NULL;
	m.loc = fde->begin;
	m.vaddr = vaddr;
	if (!run(&m, fde->cie.program, fde->cie.program_end))
		return CFI_BAD;
	memcpy(&initial, row, row_size(fde));
	m.initial = &initial;
	m.loc = fde->begin;
	if (!run(&m, fde->program, fde->program_end))
		return CFI_BAD;
	return row->cfa.where == CFI_UNSPECIFIED ? CFI_BAD : CFI_OK;
}

/* ---- rules: which rows can be packed, and which need full registers ---- */

/* The CFI of a linker's .plt: CFA = rsp + 8, and 8 more from byte N of the 16-byte entry on, behind
 * the push.  breg7 8; breg16 0; lit15; and; lit N; ge; lit3; shl; plus.  The address is fixed, so
 * is the answer. */
static bool plt_offset(const struct cfi_reg *cfa, uint64_t vaddr, int64_t *ret_offset)
{
	static const uint8_t head[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a},
			     tail[] = {0x2a, 0x33, 0x24, 0x22};
	const uint8_t *e = cfa->expression;

	if (cfa->where != CFI_VAL_EXPRESSION || cfa->len != sizeof(head) + 1 + sizeof(tail) ||
	    memcmp(e, head, sizeof(head)) != 0 || memcmp(e + 7, tail, sizeof(tail)) != 0 ||
	    e[6] < 0x30 || e[6] > 0x3f)
		return false;
	*ret_offset = 8 + ((vaddr & 15) >= e[6] - 0x30u ? 8 : 0);
	return true;
}

static bool is_word(int64_t offset, int64_t low, int64_t high)
{
	return !(offset & 7) && offset / 8 >= low && offset / 8 <= high;
}

/* The packed rule of an x86-64 row: the CFA by rbp or rsp, rbp and the return address at these
 * distances from it (@bp 0: kept).  false: it cannot be packed. */
static bool cfi_rule_x86_64(bool by_bp, int64_t cfa, int64_t bp, int64_t ra, rule_t *ret_rule)
{
	uint64_t saved = (uint64_t)-bp / 8;

	if (!is_word(cfa, -RULE_N_MAX, RULE_N_MAX) || ra != -8 ||
	    (bp && !is_word(bp, -RULE_M_MAX, -1)))
		return false;
	/* Behind the pops of an epilogue the CFI may still name a slot that now lies below rsp: the
	 * register has its value again, and the copy does not reach there. */
	if (!by_bp && -bp > cfa)
		saved = 0;
	*ret_rule = rule_frame(by_bp ? RULE_FP : RULE_SP, cfa / 8, saved);
	return true;
}

static bool by_another_register(const struct cfi_row *row)
{
	return row->cfa.where == CFI_REGISTER && row->cfa_register != DWARF_X86_RSP &&
	       row->cfa_register != DWARF_X86_RBP;
}

static bool saves_all(const struct cfi_row *row, unsigned first, unsigned last)
{
	for (unsigned reg = first; reg <= last; reg++)
		if (row->regs[reg].where != CFI_OFFSET)
			return false;
	return true;
}

bool cfi_saves_landing(const struct cfi_row *row)
{
	return !row->signal && (row->machine->link ? saves_all(row, DWARF_ARM64_X0, DWARF_ARM64_X3)
						   : saves_all(row, DWARF_X86_RAX, DWARF_X86_RDX));
}

/* The last instructions of the way restore everything, take the other stack pointer, and return. */
static bool is_landing_aarch64(const struct cfi_fde *fde, uint64_t vaddr, const struct cfi_row *row)
{
	bool saves = cfi_saves_landing(row);
	uint64_t at = vaddr & ~3ull;
	struct cfi_row other;

	if (fde->program_end - fde->program < CFI_LANDING_PROGRAM)
		return false;
	if (saves && fde->end - vaddr <= CFI_LANDING_LAST)
		return true;
	for (uint64_t n = 4; n <= (saves ? CFI_LANDING_ARM64 : 8); n += 4) {
		uint64_t there = saves ? at + n : at - n;

		if (there - fde->begin >= fde->end - fde->begin)
			return false;
		if (cfi_row_at(fde, there, &other) == CFI_OK && cfi_saves_landing(&other) != saves)
			return true;
	}
	return false;
}

bool cfi_is_landing(const struct cfi_fde *fde, uint64_t vaddr, const struct cfi_row *row)
{
	struct cfi_row later;

	if (row->machine->link)
		return is_landing_aarch64(fde, vaddr, row);
	if (!cfi_saves_landing(row) || by_another_register(row))
		return false;
	for (uint64_t at = vaddr + 1; at < fde->end && at - vaddr <= CFI_LANDING_MAX; at++)
		if (cfi_row_at(fde, at, &later) == CFI_OK && by_another_register(&later))
			return true;
	return false;
}

static rule_t rule_x86(const struct cfi_row *row, uint64_t vaddr, rule_t slow)
{
	const struct cfi_reg *ra = &row->regs[DWARF_X86_RIP], *bp = &row->regs[DWARF_X86_RBP];
	bool by_bp = false;
	int64_t n;
	rule_t rule;

	if (row->cfa.where == CFI_REGISTER) {
		n = row->cfa.value;
		by_bp = row->cfa_register == DWARF_X86_RBP;
		if (!by_bp && row->cfa_register != DWARF_X86_RSP)
			return slow;
	} else if (!plt_offset(&row->cfa, vaddr, &n)) {
		return slow;
	}
	if (ra->where != CFI_OFFSET || row->regs[DWARF_X86_RSP].where != CFI_UNSPECIFIED)
		return slow;
	if (!by_bp && cfi_saves_landing(row)) /* rsp is the landing's already */
		return slow;
	if (bp->where == CFI_OFFSET ? !bp->value
				    : bp->where != CFI_UNSPECIFIED && bp->where != CFI_SAME)
		return slow;
	return cfi_rule_x86_64(by_bp, n, bp->where == CFI_OFFSET ? bp->value : 0, ra->value, &rule)
		       ? rule
		       : slow;
}

/* x29 and x30 at one offset each, unset, or unchanged. */
static bool is_kept(const struct cfi_reg *reg)
{
	return reg->where == CFI_UNSPECIFIED || reg->where == CFI_SAME;
}

static bool is_saved(const struct cfi_reg *reg)
{
	return reg->where == CFI_OFFSET && is_word(reg->value, -RULE_M_MAX, -1);
}

static rule_t rule_aarch64(const struct cfi_row *row, rule_t slow)
{
	const struct cfi_reg *ra = &row->regs[DWARF_ARM64_LR], *fp = &row->regs[DWARF_ARM64_FP];
	bool by_fp = row->cfa_register == DWARF_ARM64_FP;
	enum rule_kind kind = by_fp ? RULE_FP : RULE_SP;
	int64_t n = row->cfa.value;

	if (row->cfa.where != CFI_REGISTER || (!by_fp && row->cfa_register != DWARF_ARM64_SP) ||
	    row->ra != DWARF_ARM64_LR || !is_word(n, -RULE_N_MAX, RULE_N_MAX) ||
	    row->regs[DWARF_ARM64_SP].where != CFI_UNSPECIFIED)
		return slow;
	if (is_kept(ra) && is_kept(fp))
		return rule_frame_link(kind, n / 8, 0, RULE_LINK_LIVE);
	/* Below sp: popped already, the registers have them (see rule_x86). */
	if (!is_saved(ra) || (!by_fp && -ra->value > n))
		return slow;
	if (is_kept(fp))
		return rule_frame_link(kind, n / 8, (uint64_t)-ra->value / 8, RULE_LINK_ONLY);
	if (is_saved(fp) && fp->value == ra->value - 8 && (by_fp || -fp->value <= n))
		return rule_frame_link(kind, n / 8, (uint64_t)-fp->value / 8, RULE_LINK_PAIR);
	return slow;
}

rule_t cfi_rule(const struct cfi_row *row, uint64_t vaddr, uint32_t offset, bool debug_frame)
{
	rule_t slow = rule_slow(offset, debug_frame);

	if (row->regs[row->ra].where == CFI_UNDEFINED)
		return rule_simple(RULE_ROOT);
	if (row->signal)
		return slow;
	return row->machine->link ? rule_aarch64(row, slow) : rule_x86(row, vaddr, slow);
}

/* ---- the packed rule of an address, without the row of all registers ----
 *
 * A rule needs the CFA, rbp and the return address; operations on other registers are skipped.  The
 * state is then four numbers, so that remembering it is a copy of a few words.  The result of a CIE's
 * program is computed once and kept with the CIE.  A program with a rare operation is left to
 * cfi_row_at(), which agrees for every address that this code can answer.
 *
 * The loop is most of a miss in the rule cache, some sixteen operations.  Its variables are in
 * registers, hence p is passed and returned by value. */

enum {
	QUICK_REMEMBERED = 8,
	QUICK_ENTRY = 8, /* the CFA at a function's first byte, above rsp */
};

struct quick_run {
	struct cfi_quick now, remembered[QUICK_REMEMBERED];
	const struct cfi_quick *initial; /* NULL: a CIE's program */
	const uint8_t *rest;		 /* of the program, behind the row */
	int64_t data_align;
	unsigned n_remembered;
	bool has_ended; /* a row of a whole epilogue was seen */
};

/* Numbers of up to three bytes (a frame of 90 KB); compiled code has no others here. Returns the
 * byte behind the number, or NULL. */
static inline const uint8_t *quick_uleb(const uint8_t *p, const uint8_t *end, uint64_t *ret_value)
{
	if (p < end && *p < 0x80) {
		*ret_value = *p;
		return p + 1;
	}
	if (end - p >= 2 && p[1] < 0x80) {
		*ret_value = (p[0] & 0x7fu) | (uint64_t)p[1] << 7;
		return p + 2;
	}
	if (end - p >= 3 && p[2] < 0x80) {
		*ret_value = (p[0] & 0x7fu) | (p[1] & 0x7fu) << 7 | (uint64_t)p[2] << 14;
		return p + 3;
	}
	return NULL;
}

/* Registers that a rule needs, or that prevent a packed rule when they are saved; only functions
 * that return to a landing pad save rax: see cfi_is_landing(). */
static inline bool quick_matters(unsigned reg)
{
	return 1ull << reg & (1ull << DWARF_X86_RBP | 1ull << DWARF_X86_RIP |
			      1ull << DWARF_X86_RSP | 1ull << DWARF_X86_RAX);
}

static bool quick_register(struct quick_run *q, unsigned reg, int64_t bp, int64_t ra)
{
	if (reg == DWARF_X86_RBP)
		q->now.bp = bp;
	else if (reg == DWARF_X86_RIP)
		q->now.ra = ra;
	else
		return false;
	return true;
}

static inline const uint8_t *quick_offset(struct quick_run *q, unsigned reg, const uint8_t *p,
					  const uint8_t *end)
{
	uint64_t offset;

	p = quick_uleb(p, end, &offset);
	if (!p || !quick_matters(reg))
		return p;
	if (!offset || !quick_register(q, reg, (int64_t)offset * q->data_align,
				       (int64_t)offset * q->data_align))
		return NULL;
	return p;
}

static inline void quick_set_cfa(struct quick_run *q, uint64_t cfa)
{
	q->now.cfa = (int64_t)cfa;
	if (__builtin_expect(cfa == QUICK_ENTRY, 0))
		q->has_ended |= q->now.cfa_register == DWARF_X86_RSP;
}

/* An operation that is neither an advance nor has bits of its own for an operand. */
static const uint8_t *quick_other(struct quick_run *q, unsigned op, const uint8_t *p,
				  const uint8_t *end)
{
	uint64_t first = 0, second = 0;

	if (op >= CFA_RESTORE)
		return q->initial && (!quick_matters(op - CFA_RESTORE) ||
				      quick_register(q, op - CFA_RESTORE, q->initial->bp,
						     q->initial->ra))
			       ? p
			       : NULL;
	switch (op) {
	case CFA_NOP:
		return p;
	case CFA_REMEMBER_STATE:
		if (q->n_remembered == QUICK_REMEMBERED)
			return NULL;
		q->remembered[q->n_remembered++] = q->now;
		return p;
	case CFA_RESTORE_STATE:
		if (!q->n_remembered)
			return NULL;
		q->now = q->remembered[--q->n_remembered];
		return p;
	case CFA_DEF_CFA:
		p = quick_uleb(p, end, &first);
		p = p ? quick_uleb(p, end, &second) : NULL;
		q->now.cfa_register = (uint32_t)first;
		quick_set_cfa(q, second);
		return p;
	case CFA_DEF_CFA_REGISTER:
		p = quick_uleb(p, end, &first);
		q->now.cfa_register = (uint32_t)first;
		return p;
	case CFA_DEF_CFA_OFFSET:
		p = quick_uleb(p, end, &first);
		quick_set_cfa(q, first);
		return p;
	case CFA_GNU_ARGS_SIZE:
		return quick_uleb(p, end, &first);
	default:
		return NULL;
	}
}

/* An advance with an operand of its own. */
static inline const uint8_t *quick_advance(unsigned op, const uint8_t *p, const uint8_t *end,
					   uint64_t *ret_delta)
{
	size_t len = op == CFA_ADVANCE_LOC1 ? 1 : op == CFA_ADVANCE_LOC2 ? 2 : 4;

	if ((size_t)(end - p) < len)
		return NULL;
	*ret_delta = p[0];
	if (len > 1)
		*ret_delta |= (uint64_t)p[1] << 8;
	if (len > 2)
		*ret_delta |= (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
	return p + len;
}

/* Runs up to the first advance by more than @left. false: an operation that is left to
 * cfi_row_at().
 *
 *   signed    -128 .. -65   -64 .. -1      0 .. 63      64 .. 127
 *             OFFSET        RESTORE        others       ADVANCE_LOC: every other one  */
static bool quick_program(struct quick_run *q, const uint8_t *p, const uint8_t *end, uint64_t left)
{
	if (end - p > CFI_PROGRAM_MAX)
		return false;
	while (p < end) {
		int op = (int8_t)*p++;
		uint64_t delta = (uint64_t)op - CFA_ADVANCE_LOC;

		if (op < CFA_ADVANCE_LOC) {
			if (op < CFA_RESTORE - 0x100)
				p = quick_offset(q, (unsigned)op & 0x3f, p, end);
			else if (op < CFA_ADVANCE_LOC1 || op > CFA_ADVANCE_LOC4)
				p = quick_other(q, (uint8_t)op, p, end);
			else
				p = quick_advance((uint8_t)op, p, end, &delta);
			if (!p)
				return false;
			if (delta >> 32) /* not an advance */
				continue;
		}
		if (delta > left) {
			q->rest = p;
			return q->initial; /* an advance in a CIE is for some addresses only */
		}
		left -= delta;
		if (p + 1 < end && *p == CFA_DEF_CFA_OFFSET && p[1] < 0x80) { /* behind a push */
			quick_set_cfa(q, p[1]);
			p += 2;
		}
	}
	q->rest = end;
	return true;
}

/* Has the rest of the program a row that releases stack?  true also where this is not known; a
 * program that remembers a state will restore it. */
static bool quick_ends(const struct quick_run *q, const uint8_t *end)
{
	const uint8_t *p = q->rest;
	bool by_sp = q->now.cfa_register == DWARF_X86_RSP;
	uint64_t cfa = (uint64_t)q->now.cfa, value, reg;

	while (p && p < end) {
		unsigned op = *p++;

		if ((op & 0xc0) == CFA_ADVANCE_LOC || op == CFA_NOP)
			continue;
		if ((op & 0xc0) == CFA_OFFSET || op == CFA_GNU_ARGS_SIZE) {
			p = quick_uleb(p, end, &value);
		} else if (op == CFA_DEF_CFA_OFFSET) {
			p = quick_uleb(p, end, &value);
			if (!p || (by_sp && value < cfa))
				return true;
			cfa = value;
		} else if (op == CFA_DEF_CFA_REGISTER) {
			p = quick_uleb(p, end, &reg);
			by_sp = false;
			if (!p || reg == DWARF_X86_RSP)
				return true;
		} else if (op >= CFA_ADVANCE_LOC1 && op <= CFA_ADVANCE_LOC4) {
			p = quick_advance(op, p, end, &value);
		} else {
			return true; /* DEF_CFA, RESTORE, REMEMBER_STATE */
		}
	}
	return !p;
}

bool cfi_quick_cie(const struct cfi_cie *cie, struct cfi_quick *ret_quick)
{
	struct quick_run q;

	/* All CIEs begin so; before it there is no CFA that could be changed. */
	if (cie->program == cie->program_end || *cie->program != CFA_DEF_CFA ||
	    cie->ra_column != DWARF_X86_RIP || cie->signal || cie->code_align != 1 ||
	    cie->data_align < -64 || cie->data_align > 64)
		return false;
	q.now = (struct cfi_quick){0};
	q.initial = NULL;
	q.data_align = cie->data_align;
	q.n_remembered = 0;
	q.has_ended = false;
	if (!quick_program(&q, cie->program, cie->program_end, 0) || q.n_remembered)
		return false;
	*ret_quick = q.now;
	return true;
}

bool cfi_quick_rule(const struct cfi_fde *fde, uint64_t vaddr, bool *ret_ends, rule_t *ret_rule)
{
	struct quick_run q;

	if (!fde->cie.is_quick || fde->machine->link || vaddr < fde->begin || vaddr > fde->end ||
	    fde->begin == fde->end)
		return false;
	q.now = fde->cie.quick;
	q.initial = &fde->cie.quick;
	q.data_align = fde->cie.data_align;
	q.n_remembered = 0;
	q.has_ended = false;
	if (!quick_program(&q, fde->program, fde->program_end, vaddr - fde->begin))
		return false;
	if (q.now.cfa_register != DWARF_X86_RSP && q.now.cfa_register != DWARF_X86_RBP)
		return false;
	if (!cfi_rule_x86_64(q.now.cfa_register == DWARF_X86_RBP, q.now.cfa, q.now.bp, q.now.ra,
			     ret_rule))
		return false;
	if (ret_ends)
		*ret_ends = *ret_rule == rule_frame(RULE_SP, 1, 0) || q.has_ended ||
			    quick_ends(&q, fde->program_end);
	return true;
}
