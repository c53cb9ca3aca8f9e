/* cfi-program.c - see cfi.h.  The program of a CIE and an FDE, run up to one address.
 *
 * Time is bounded by the bytes of the program: every operation takes at least one, and none jumps.
 * The longest programs met (one step a call in huge generated functions) are some hundred KB. */
#include <stddef.h>

#include "unwinder/cfi.h"

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
