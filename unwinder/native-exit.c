/* native-exit.c - see native.h.  CFI that tells of no epilogue, as old compilers and much assembly have
 * it: true up to the first pop, and from there to the ret its CFA is still that of the whole frame.
 *
 *     pop  %rbx        CFA = rsp + 24     true
 *  -> pop  %rbp        CFA = rsp + 24     it is rsp + 16: what is found is the caller's caller
 *     ret              CFA = rsp + 24     it is rsp + 8
 *
 * Only what was interrupted stands there: callers stand behind calls.  True CFI tells of what is
 * behind it: some later row of the function gives stack back.  Or the function's last epilogue stands
 * before it, and was told of: who tells of one tells of all.  Where neither is so the code is asked,
 * once an address.  Straight code up to a ret (or to a jump to another function, whose CFI says what
 * it finds) is no guess, it is what happens next; so where it and the CFI differ the code is taken.
 * The frame says that it is a guess all the same, as one of two witnesses has lied; and it must follow
 * a call, so that a ret that is a jump (a retpoline) leads to no frame. */
#include "unwinder/code-walk.h"
#include "unwinder/native.h"

enum {
	EXIT_BEFORE = 64, /* jumps back to a ret that is shared */
	EXIT_AFTER = 192,
};

/* Where the return address is when the code has jumped to @vaddr: bytes above rsp there, by the CFI of
 * what stands there.  false: it is not known, or not by rsp. */
static bool exit_target(struct native *e, const struct native_place *place, uint64_t vaddr,
			int64_t *ret_ra)
{
	struct native_place target = *place;
	struct cfi_fde fde;
	rule_t rule;

	target.vaddr = vaddr;
	target.fde = 0;
	if (native_find_row(e, &target, NULL, &rule, &fde) != CFI_OK || rule_kind(rule) != RULE_SP)
		return false;
	*ret_ra = rule_cfa(rule) - 8;
	return true;
}

/* Bytes from rsp to the return address, by the code alone; < 0: it does not say. */
static int64_t exit_ra(struct native *e, const struct native_place *place,
		       const struct cfi_fde *fde, const struct code_exit *exit, uint64_t code_vaddr)
{
	uint64_t to = code_vaddr + (uint64_t)exit->to;
	int64_t ra = 0;

	switch (exit->kind) {
	case CODE_EXIT_RETURN:
		break;
	case CODE_EXIT_JUMP:
		if ((to >= fde->begin && to < fde->end) || !exit_target(e, place, to, &ra))
			return -1;
		break;
	case CODE_EXIT_POINTER:
		if (!exit->pops) /* a table of a switch, as likely */
			return -1;
	}
	ra += exit->sp;
	return ra & 7 || ra > CODE_WALK_MAX ? -1 : ra;
}

bool native_exit(struct native *e, const struct walk *w, const struct native_place *place,
		 uint64_t address, const struct cfi_fde *fde, rule_t *rule)
{
	uint8_t code[EXIT_BEFORE + EXIT_AFTER];
	size_t before = min_u64(EXIT_BEFORE, place->vaddr - fde->begin), len;
	struct code_exit exit;
	int64_t ra;

	if (w->machine->link || !rule_is_frame(*rule))
		return true;
	/* By the second byte: the first may be its mapping's first. */
	len = native_code(w, address + 1, before + 1,
			  min_u64(EXIT_AFTER, fde->end - place->vaddr) - 1, code);
	if (len <= before)
		return native_has_code(w, address + 1);
	if (!code_exits(code, before, len, &exit) || (exit.bp >= 0 && exit.bp & 7) ||
	    exit.bp > CODE_WALK_MAX)
		return true;
	ra = exit_ra(e, place, fde, &exit, place->vaddr - before);
	if (ra < 0)
		return true;
	/* By rbp: true as long as rbp is to be popped yet. */
	if (rule_kind(*rule) == RULE_FP ? exit.bp >= 0 : ra + 8 == rule_cfa(*rule))
		return true;
	*rule = rule_with_way(rule_guess(RULE_NOT_TRUE, RULE_FORM_UNKNOWN), (uint32_t)ra / 8,
			      exit.bp < 0 ? 0 : (uint32_t)exit.bp / 8 + 1);
	return true;
}
