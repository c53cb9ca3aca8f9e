/* native-ocaml.c - OCaml (x86-64, 4.10 on): where its CFI does not hold.  Private to unwinder/ (native.h).  Thread: the engine's.
 *
 * A raise takes rsp back to the record of the innermost handler, in the frame of the function with the try, and goes there:
 *
 *     mov  n(%r14),%rsp    [record before][address of the handler]
 *  -> pop  n(%r14)         CFI: still that of the function that raises
 *  -> pop  %r11
 *  -> jmp  *%r11           or, in the runtime's functions, ret
 *
 * From the mov on the function that raises has no frame; what is next on the stack is the handler's.  The address of the handler
 * follows no call, so its row is looked up by itself, not by the byte before it.
 *
 * Calls of the collector and of errors stand behind the function's code (asmcomp/amd64/emit.mlp), where the CFI has the row of the
 * function's end, although jumps from anywhere lead there, from inside a try as well.  The row of the jump is right. */
#include <string.h>

#include "unwinder/native.h"

enum {
	OUT_OF_LINE_MAX = 4096, /* bytes of a function that are searched for the jump */
	CALL = 5,		/* bytes */
	DWARF_R11 = 11,
};

/* May OCaml's compiler have written the FDE?  It states where the CFA is, by rsp, and no more.  *ret_last: the vaddr at which its last
 * row begins. */
static bool is_by_ocaml(const struct cfi_fde *fde, uint64_t *ret_last)
{
	const uint8_t *p = fde->program, *end = fde->program_end;
	uint64_t at = fde->begin, last = 0;
	size_t n;

	while (p < end) {
		uint8_t op = *p++;
		uint32_t by = 0;

		if ((op & 0xc0) == CFA_ADVANCE_LOC) {
			by = op & 0x3f;
		} else if (op == CFA_DEF_CFA_OFFSET || op == CFA_DEF_CFA_OFFSET_SF) {
			while (p < end && *p++ & 0x80)
				;
		} else if (op >= CFA_ADVANCE_LOC1 && op <= CFA_ADVANCE_LOC4) {
			n = 1u << (op - CFA_ADVANCE_LOC1);
			if ((size_t)(end - p) < n)
				return false;
			memcpy(&by, p, n);
			p += n;
		} else if (op != CFA_NOP) {
			return false;
		}
		at += by;
		if (by && at < fde->end)
			last = at;
	}
	*ret_last = last;
	return last && !native_is_by_go(fde);
}

/* ---- rules ---- */

/* The rule at a jump to @to (a vaddr) of the function @fde: bytes from rsp to the CFA.  0: there is no jump, or none by rsp. */
static int64_t cfa_at_jump(struct native *e, const struct native_place *place,
			   const struct cfi_fde *fde, const uint8_t *code, uint64_t to)
{
	struct native_place jump = *place;
	size_t at = code_branch_to(code, to - fde->begin);
	struct cfi_fde same;
	rule_t rule;

	jump.vaddr = fde->begin + at;
	jump.fde = 0;
	return jump.vaddr < to && native_find_row(e, &jump, NULL, &rule, &same) == CFI_OK &&
			       rule_kind(rule) == RULE_SP
		       ? rule_cfa(rule)
		       : 0;
}

/* Of a caller at @address, behind the function's code. */
static bool caller_rule(struct native *e, const struct walk *w, const struct native_place *place,
			uint64_t address, const struct cfi_fde *fde, rule_t *rule)
{
	uint8_t code[OUT_OF_LINE_MAX];
	uint64_t size = place->vaddr + 1 - fde->begin; /* up to the return address */
	int64_t cfa;

	if (size <= CALL || size > sizeof(code))
		return true;
	if (native_file_code(e, w, place->map, address + 1, size, 0, code) != size)
		return native_has_code(w, address + 1);
	cfa = code[size - CALL] == 0xe8 ? cfa_at_jump(e, place, fde, code, place->vaddr + 1 - CALL)
					: 0;
	if (cfa)
		*rule = rule_frame(RULE_SP, cfa / 8, 0);
	return true;
}

bool native_ocaml_rule(struct native *e, const struct walk *w, const struct native_place *place,
		       uint64_t address, bool leaf, const struct cfi_fde *fde, rule_t *rule)
{
	uint8_t code[CODE_RAISE_BEFORE + CODE_RAISE_AFTER];
	size_t before = min_u64(CODE_RAISE_BEFORE, place->vaddr - fde->begin), len;
	uint64_t last;
	int raise;

	if (w->machine->link || rule_kind(*rule) != RULE_SP || rule_saved(*rule) ||
	    !is_by_ocaml(fde, &last))
		return true;
	if (!leaf)
		return place->vaddr < last || caller_rule(e, w, place, address, fde, rule);
	/* By the second byte: the first may be its mapping's first. */
	len = native_file_code(e, w, place->map, address + 1, before + 1,
			       min_u64(CODE_RAISE_AFTER, fde->end - place->vaddr) - 1, code);
	if (len <= before)
		return native_has_code(w, address + 1);
	raise = code_raise(code, before, len);
	if (raise != CODE_RAISE_NONE)
		*rule = rule_with_form(
			rule_with_way(rule_guess(RULE_CFI_WRONG, RULE_FORM_HANDLER),
				      raise == CODE_RAISE_R11 ? RULE_WAY_BY_FP : (uint32_t)raise,
				      0),
			RULE_FORM_HANDLER);
	return true;
}

/* ---- the step ---- */

/* Is the code at @address in the function that the walk stands on? */
static bool is_same_function(struct native *e, const struct walk *w, uint64_t address)
{
	struct native_place place;
	uint64_t begin, end, vaddr;

	if (native_place(w, walk_lookup(w), &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return false;
	vaddr = address - walk_lookup(w) + place.vaddr;
	return vaddr >= begin && vaddr < end;
}

enum step native_ocaml_handler(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t at = w->sp + 8 * rule_way_ra(rule), handler;
	bool in_register = rule_way_ra(rule) == RULE_WAY_BY_FP;
	struct cfi_regs regs;
	rule_t next;

	if (in_register) {
		if (!native_regs(w, &regs) || !(regs.known >> DWARF_R11 & 1))
			return walk_end(w, UW_FAILED, UW_BAD_CFI, walk_lookup(w));
		handler = regs.r[DWARF_R11];
	} else if (!native_bytes(e, w, at, &handler, sizeof(handler))) {
		uw_result_out_of_copy(w->snapshot, w->res, at);
		return STEP_ENDED;
	}
	if (handler >> 48 || !uw_space_find(w->snapshot->space, handler))
		return walk_end(w, UW_FAILED, UW_BAD_RETURN, handler);
	w->sp = in_register ? w->sp : at + 8;
	if (!is_same_function(e, w, handler))
		return native_push(w, handler, 0);
	/* The function itself handles it: its frame is in the walk. */
	next = native_rule(e, w, handler);
	return rule_kind(next) == RULE_SP     ? native_step(e, w, next)
	       : rule_kind(next) == RULE_NONE ? STEP_ENDED
					      : walk_end(w, UW_FAILED, UW_BAD_CFI, handler);
}
