/* cfi-rule.c - see cfi.h.  Which rows are a packed rule, and which take the slow road. */
#include "unwinder/cfi.h"

/* A linker's .plt says of its stubs: CFA = rsp + 8, and 8 more from byte N of the 16-byte stub on,
 * behind the push.  breg7 8; breg16 0; lit15; and; lit N; ge; lit3; shl; plus.  The address is
 * fixed, so is the answer. */
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

bool cfi_rule_x86_64(bool by_bp, int64_t cfa, int64_t bp, int64_t ra, rule_t *ret_rule)
{
	uint64_t saved = (uint64_t)-bp / 8;

	if (!is_word(cfa, -RULE_N_MAX, RULE_N_MAX) || ra != -8 ||
	    (bp && !is_word(bp, -RULE_M_MAX, -1)))
		return false;
	/* Behind the pops of an epilogue the CFI may still name a slot that now lies below rsp:
	 * what was there is back in the register, and the copy does not reach there. */
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
