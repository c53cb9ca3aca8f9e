/* native-guess.c - see native.h.  Frames without CFI: JIT code, stubs, hand-written assembly.
 *
 * The caller is [rbp + 8], where the code says nothing else (code.h), and it is believed when it lies in a
 * mapping and follows a call instruction; where code bytes cannot be read, the mapping has to do.  Both
 * answers are kept in the rule cache, for a read out of the process costs a hundred frames.  What is found
 * this way carries UW_FRAME_GUESSED. */
#include "unwinder/native.h"

/* What the code at the pc says; only where the pc is that of an interrupted instruction. */
static enum rule_form guess_form(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t pc = uw_frame_pc(w->frames[w->n - 1]), address = walk_lookup(w);
	enum rule_form form = rule_form(rule);
	uint8_t code[CODE_BEFORE + CODE_AFTER];
	size_t len;

	if (form != RULE_FORM_UNKNOWN)
		return form;
	/* A return address that is the first byte of a sigreturn stub was put there by the kernel. */
	len = native_code(w, pc, CODE_BEFORE, CODE_AFTER, code);
	form = len > CODE_BEFORE ? code_form(code, CODE_BEFORE, len) : RULE_FORM_FP;
	if ((w->frames[w->n - 1] & UW_FRAME_CALLER) && form != RULE_FORM_SIGRETURN)
		form = RULE_FORM_FP; /* the instruction after a call: its frame stands */
	if (len)
		native_note(e, w, address, rule_with_form(rule, form));
	return form;
}

/* Does @ra follow a call, as far as can be known? */
static bool guess_follows_call(struct native *e, struct walk *w, uint64_t ra)
{
	uint8_t code[CODE_BEFORE];
	enum rule_call call;
	rule_t rule;
	size_t len;

	rule = native_rule(e, w, ra - 1);
	if (rule_kind(rule) == RULE_NONE)
		return true; /* its module is not loaded: the next step says so */
	call = rule_call(rule);
	if (call == RULE_CALL_UNKNOWN) {
		len = native_code(w, ra, CODE_BEFORE, 0, code);
		if (len != CODE_BEFORE)
			return true;
		call = code_ends_in_call(code, len) ? RULE_CALL_YES : RULE_CALL_NO;
		native_note(e, w, ra - 1, rule_with_call(rule, call));
	}
	return call == RULE_CALL_YES;
}

static enum step guess_failed(struct walk *w, rule_t rule, uint64_t at)
{
	return walk_end(w, UW_FAILED, rule_why(rule) == RULE_NOT_READABLE ? UW_UNREADABLE : UW_NO_UNWIND_INFO, at);
}

/* The chain's end as the ABI has it: code before the first frame clears rbp.  Of compiled code without CFI
 * that may be chance, so JIT code and interrupted instructions do not count. */
static bool guess_is_root(const struct walk *w, rule_t rule)
{
	return !w->bp && rule_why(rule) != RULE_NO_FILE && (w->frames[w->n - 1] & UW_FRAME_CALLER);
}

enum step native_guess(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t pc = uw_frame_pc(w->frames[w->n - 1]), ra, bp = w->bp, at;
	enum rule_form form;

	if (w->n == w->max)
		return walk_end(w, UW_FAILED, UW_TOO_DEEP, pc);
	form = guess_form(e, w, rule);
	if (form == RULE_FORM_SIGRETURN)
		return native_ucontext(e, w, w->sp);
	if (form == RULE_FORM_FP && guess_is_root(w, rule))
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	at = form == RULE_FORM_FP ? w->bp + 8 : form == RULE_FORM_ENTRY ? w->sp : w->sp + 8;
	if (form == RULE_FORM_FP && (w->bp < w->sp || w->bp & 7))
		return guess_failed(w, rule, pc);
	if (!native_word(e, w, at, &ra))
		return STEP_ENDED;
	if (form == RULE_FORM_FP || form == RULE_FORM_PUSHED)
		if (!native_word(e, w, at - 8, &bp))
			return STEP_ENDED;
	if (!ra)
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	if (ra >> 48 || !uw_space_find(w->snapshot->space, ra - 1))
		return guess_failed(w, rule, pc);
	if (!guess_follows_call(e, w, ra))
		return walk_end(w, UW_FAILED, UW_BAD_RETURN, ra);
	w->sp = at + 8;
	w->bp = bp;
	return native_push(w, ra, UW_FRAME_CALLER | UW_FRAME_GUESSED);
}
