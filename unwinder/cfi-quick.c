/* cfi-quick.c - see cfi.h.  The packed rule of an address, without the row of all registers.
 *
 * A rule needs the CFA, rbp and the return address; whatever a program says of other registers is
 * stepped over.  What is left is a state of four numbers, so that remembering it is a copy of a few
 * words, and the programs of CIE and FDE run in one loop.  The rarer operations are not here: who
 * meets one goes the whole way (cfi-program.c), which says the same of every address that this says
 * anything of. */
#include "unwinder/cfi.h"

enum { QUICK_REMEMBERED = 8, KEPT = 0 };

struct quick {
	uint32_t cfa_register;
	int64_t cfa, bp, ra; /* CFA = register + cfa; saved at CFA + bp and CFA + ra; KEPT */
};

struct quick_run {
	const struct cfi_fde *fde;
	uint64_t loc, vaddr;
	struct quick now, initial, remembered[QUICK_REMEMBERED];
	unsigned n_remembered;
	bool in_fde; /* there is an initial state to go back to */
};

/* Numbers of one and two bytes; no others are met here in compiled code. */
static inline bool quick_uleb(const uint8_t **p, const uint8_t *end, uint64_t *ret_value)
{
	const uint8_t *at = *p;

	if (end - at >= 1 && at[0] < 0x80) {
		*ret_value = at[0];
		*p = at + 1;
		return true;
	}
	if (end - at >= 2 && at[1] < 0x80) {
		*ret_value = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
		*p = at + 2;
		return true;
	}
	return false;
}

/* rax is saved by what goes to a landing pad only: see cfi_is_landing(). */
static inline bool quick_register(struct quick_run *q, unsigned reg, int64_t bp, int64_t ra)
{
	if (reg == DWARF_X86_RBP)
		q->now.bp = bp;
	else if (reg == DWARF_X86_RIP)
		q->now.ra = ra;
	return reg != DWARF_X86_RSP && reg != DWARF_X86_RAX;
}

/* An operation without bits of its own for an operand.  false: not one of these. */
static bool quick_other(struct quick_run *q, unsigned op, const uint8_t **p, const uint8_t *end)
{
	uint64_t first, second;

	switch (op) {
	case CFA_NOP:
		return true;
	case CFA_REMEMBER_STATE:
		if (q->n_remembered == QUICK_REMEMBERED)
			return false;
		q->remembered[q->n_remembered++] = q->now;
		return true;
	case CFA_RESTORE_STATE:
		if (!q->n_remembered)
			return false;
		q->now = q->remembered[--q->n_remembered];
		return true;
	case CFA_DEF_CFA:
		if (!quick_uleb(p, end, &first) || !quick_uleb(p, end, &second))
			return false;
		q->now.cfa_register = (uint32_t)first;
		q->now.cfa = (int64_t)second;
		return true;
	case CFA_DEF_CFA_REGISTER:
		if (!quick_uleb(p, end, &first) || q->now.cfa_register == DWARF_REGS)
			return false;
		q->now.cfa_register = (uint32_t)first;
		return true;
	case CFA_DEF_CFA_OFFSET:
		if (!quick_uleb(p, end, &first) || q->now.cfa_register == DWARF_REGS)
			return false;
		q->now.cfa = (int64_t)first;
		return true;
	case CFA_GNU_ARGS_SIZE:
		return quick_uleb(p, end, &first);
	default:
		return false;
	}
}

/* An advance with an operand of its own.  false: it does not fit. */
static inline bool quick_advance(struct quick_run *q, unsigned op, const uint8_t **p,
				 const uint8_t *end)
{
	size_t len = op == CFA_ADVANCE_LOC1 ? 1 : op == CFA_ADVANCE_LOC2 ? 2 : 4;
	uint32_t delta = 0;

	if ((size_t)(end - *p) < len)
		return false;
	memcpy(&delta, *p, len);
	*p += len;
	q->loc += delta * q->fde->cie.code_align;
	return true;
}

static bool quick_program(struct quick_run *q, const uint8_t *p, const uint8_t *end)
{
	const uint64_t code_align = q->fde->cie.code_align;
	const int64_t data_align = q->fde->cie.data_align;
	uint64_t offset;

	if (end - p > CFI_PROGRAM_MAX)
		return false;
	while (p < end && q->loc <= q->vaddr) {
		unsigned op = *p++;

		if ((op & 0xc0) == CFA_ADVANCE_LOC) { /* every other one */
			q->loc += (op & 0x3f) * code_align;
			continue;
		}
		if (op == CFA_DEF_CFA_OFFSET && p < end && *p < 0x80 &&
		    q->now.cfa_register != DWARF_REGS) {
			q->now.cfa = *p++;
			continue;
		}
		switch (op & 0xc0) {
		case CFA_OFFSET:
			if (!quick_uleb(&p, end, &offset) || !offset ||
			    !quick_register(q, op & 0x3f, (int64_t)offset * data_align,
					    (int64_t)offset * data_align))
				return false;
			break;
		case CFA_RESTORE:
			if (!q->in_fde ||
			    !quick_register(q, op & 0x3f, q->initial.bp, q->initial.ra))
				return false;
			break;
		default:
			if (op >= CFA_ADVANCE_LOC1 && op <= CFA_ADVANCE_LOC4
				    ? !quick_advance(q, op, &p, end)
				    : !quick_other(q, op, &p, end))
				return false;
		}
	}
	return true;
}

bool cfi_quick_rule(const struct cfi_fde *fde, uint64_t vaddr, rule_t *ret_rule)
{
	struct quick_run q;

	if (fde->machine->link || fde->cie.signal || fde->cie.ra_column != DWARF_X86_RIP ||
	    fde->cie.data_align < -64 || fde->cie.data_align > 64 || vaddr < fde->begin ||
	    vaddr > fde->end || fde->begin == fde->end)
		return false;
	q.fde = fde;
	q.loc = fde->begin;
	q.vaddr = vaddr;
	q.n_remembered = 0;
	q.in_fde = false;
	q.now = q.initial = (struct quick){.cfa_register = DWARF_REGS};
	/* Of a CIE, only what is said before any advance is for all addresses: it has none. */
	if (!quick_program(&q, fde->cie.program, fde->cie.program_end) || q.loc != fde->begin ||
	    q.n_remembered)
		return false;
	q.initial = q.now;
	q.in_fde = true;
	if (!quick_program(&q, fde->program, fde->program_end))
		return false;
	if (q.now.cfa_register != DWARF_X86_RSP && q.now.cfa_register != DWARF_X86_RBP)
		return false;
	return cfi_rule_x86_64(q.now.cfa_register == DWARF_X86_RBP, q.now.cfa, q.now.bp, q.now.ra,
			       ret_rule);
}
