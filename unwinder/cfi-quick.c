/* cfi-quick.c - see cfi.h.  The packed rule of an address, without the row of all registers.
 *
 * A rule needs the CFA, rbp and the return address; whatever a program says of other registers is
 * stepped over.  What is left is a state of four numbers, so that remembering it is a copy of a few
 * words.  What a CIE's program comes to is worked out once and kept with the CIE.  The rarer
 * operations are not here: who meets one goes the whole way (cfi-program.c), which says the same of
 * every address that this says anything of.
 *
 * The loop is most of a miss in the rule cache, some sixteen operations: what it needs at each of
 * them is in registers, hence p goes in and comes out by value. */
#include "unwinder/cfi.h"

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
	bool has_ended; /* it told of a whole epilogue */
};

/* Numbers of up to three bytes (a frame of 90 KB); no others are met here in compiled code.  What is
 * behind it, or NULL. */
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

/* Registers that a rule asks about, or whose being saved makes it none; rax is saved by what goes to
 * a landing pad only: see cfi_is_landing(). */
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

/* Runs up to the first advance by more than @left.  false: not told here.
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

/* Does the rest of the program tell of stack that is given back?  Whoever remembers a state will
 * restore it; what is not known may be anything. */
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
