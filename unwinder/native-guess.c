/* native-guess.c - see native.h.  One frame on without CFI: JIT code, entries of PLTs, hand-written assembly.
 *
 * The caller is [rbp + 8], or at the place that the code shows (code.h).  It is accepted when it
 * lies in a mapping and follows a call instruction; where code bytes cannot be read, the mapping is
 * enough.  Both answers are kept in the rule cache, because a read from the process costs as much as
 * a hundred frames.  Frames found this way carry UW_FRAME_GUESSED.
 *
 * ---- return addresses that follow no call ----
 *
 * An interpreter made of machine code pushes the address where its caller continues, and jumps to the
 * method: HotSpot's return entries, which no call is before.  In anonymous memory the other evidence
 * counts then.  This frame is open:
 *
 *     leaf                 open      open                  joined
 *     registers   [rbp]    [rbp]     [rbp]    follows a    CFI from here on
 *     of the  --> [ra]  -> [ra]   -> [ra]  -> call: libjvm -------------------> root
 *     sample
 *
 * The frame pointers lead into the stack and upwards, each return address lies in executable memory,
 * and the last one follows a call in code with CFI, by which the walk reaches the root.  Then the open
 * frames hold, and their addresses count as return addresses from now on: HotSpot has some dozens.
 * Otherwise the stack has failed at the first open frame. */
#include "unwinder/native.h"

enum {
	OWN_STACK_ROOM = 256
}; /* bytes from rsp to rbp in functions of Go's runtime that read the clock */

/* The form that the code around the pc has; false: it cannot be read. */
static bool guess_code(const struct walk *w, uint64_t pc, bool caller, enum rule_form *ret_form)
{
	uint8_t code[CODE_SCAN + CODE_AFTER];
	size_t before = CODE_BEFORE, len;
	enum code_go go;

	if (w->machine->link && !caller) { /* as far as the mapping goes */
		const struct uw_map *map = uw_space_find(w->snapshot->space, pc);

		before = map ? min_u64(CODE_SCAN, pc - map->start) & ~3ull : 0;
	}
	len = native_code(w, pc, before, CODE_AFTER, code);
	if (len <= before)
		return false;
	go = caller ? code_go_switch(w->machine->arch, code, before, len) : CODE_GO_NONE;
	if (go == CODE_GO_MCALL || (caller && code_is_goexit(w->machine->arch, code, before, len)))
		*ret_form = RULE_FORM_ROOT;
	else if (go)
		*ret_form = RULE_FORM_GO;
	else
		*ret_form = code_form(w->machine->arch, code, before, len);
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
				      way.bp < 0 ? 0 : (uint32_t)way.bp / 8 + 1) |
			(way.returns ? RULE_WAY_RETURNS : 0);
	return true;
}

/* The walk through JIT code gave the rule @rule.  Does it decide in place of @form?  Most JIT code has
 * frame pointers, and RULE_CHAIN is the faster rule.  Trampolines and, by default, HotSpot's compiled code
 * have none; a push of rbp may stand behind other pushes. */
static bool guess_walk_decides(const struct walk *w, enum rule_form form, rule_t rule)
{
	uint64_t ra = rule_way_ra(rule), bp = rule_way_bp(rule);
	bool caller = w->frames[w->n - 1] & UW_FRAME_CALLER;

	if (form == RULE_FORM_FP && !caller)
		return true;
	if (rule_form(rule) != RULE_FORM_WALKED || ra == RULE_WAY_BY_FP ||
	    !(rule & RULE_WAY_RETURNS))
		return false;
	return !caller || !bp || w->sp + 8 * ra != w->bp + 8 || w->sp + 8 * (bp - 1) != w->bp;
}

/* Replaces the rule of @address in the cache, after its code was looked at.  Key 0 has no meaning beyond its space: its
 * rules are not cached. */
static void native_note(struct native *e, struct walk *w, uint64_t address, rule_t rule)
{
	if (w->snapshot->space->key && !e->no_memory &&
	    !uw_memory_wanted(w->snapshot->space->memory))
		rule_cache_put(&e->by_pc, &w->key, address, rule);
}

/* The form by the code at the pc, also set in *ret_rule. */
static enum rule_form guess_form(struct native *e, struct walk *w, rule_t *ret_rule)
{
	rule_t rule = *ret_rule, walked = rule;
	uint64_t pc = uw_frame_pc(w->frames[w->n - 1]), address = walk_lookup(w);
	bool caller = w->frames[w->n - 1] & UW_FRAME_CALLER, read, jit;
	enum rule_form form = rule_form(rule);

	if (rule_kind(rule) == RULE_CHAIN)
		return RULE_FORM_FP;
	if (form != RULE_FORM_UNKNOWN)
		return form;
	form = RULE_FORM_FP;
	read = guess_code(w, pc, caller, &form);
	/* The instruction after a call: its frame stands.  But these are return addresses made
	 * by hand. */
	if (caller && form != RULE_FORM_SIGRETURN && form != RULE_FORM_ROOT && form != RULE_FORM_GO)
		form = RULE_FORM_FP;
	/* Without a reader no code was read: the next snapshot may have one, under the same key.
	 * With a reader, a failure is noted: a process that is gone does not come back. */
	if (!native_has_code(w, pc))
		return form;
	jit = rule_why(rule) == RULE_NO_FILE;
	if ((form == RULE_FORM_FP || (form == RULE_FORM_ENTRY && jit)) &&
	    guess_walk(w, pc, &walked) && (!jit || guess_walk_decides(w, form, walked))) {
		rule = walked;
		form = rule_form(rule);
	}
	/* aarch64: code that cannot be read may be a signal trampoline, which has no frame record.
	 */
	if (form == RULE_FORM_WALKED || form == RULE_FORM_PUSHES)
		;
	else if (caller && form == RULE_FORM_FP && (read || !w->machine->link))
		rule = rule_with_call(rule_chain(rule_why(rule)), rule_call(rule));
	else
		rule = rule_with_form(rule, form);
	*ret_rule = rule;
	native_note(e, w, address, rule);
	return form;
}

/* A JIT compiler reuses memory: the rule of the frame that the walk stands on, which led to no caller, may
 * be that of other code.  Reads the code again, and forgets whether a call is before @ra: at the first
 * failure, the second, the fourth ..., as a read costs as much as a hundred frames.  true: *rule is
 * another one now, or @ra is to be looked at again. */
static bool guess_renew(struct native *e, struct walk *w, rule_t *rule, uint64_t ra)
{
	uint64_t address = walk_lookup(w);
	uint32_t key = w->snapshot->space->key;
	struct native_stale *stale = &e->stale[hash_u64(address ^ key) % NATIVE_STALE];
	const struct rule_entry *entry;
	rule_t old = *rule;
	bool no_call;

	if (rule_why(old) != RULE_NO_FILE || !key || !native_has_code(w, address + 1))
		return false;
	if (stale->address != address || stale->key != key)
		*stale = (struct native_stale){.address = address, .key = key};
	stale->failures++;
	if (stale->failures & (stale->failures - 1))
		return false;
	*rule = rule_guess(RULE_NO_FILE, RULE_FORM_UNKNOWN);
	(void)guess_form(e, w, rule);
	*rule = rule_with_call(*rule, rule_call(old));
	entry = ra ? rule_cache_find(&e->by_pc, &w->key, ra - 1) : NULL;
	no_call = entry && rule_call(entry->rule) == RULE_CALL_NO &&
		  rule_why(entry->rule) == RULE_NO_FILE;
	if (no_call)
		native_note(e, w, ra - 1,
			    rule_with_call(entry->rule & RULE_MASK, RULE_CALL_UNKNOWN));
	return (*rule ^ old) & ~RULE_NO_PROLOGUE || no_call;
}

bool native_follows_call(struct native *e, struct walk *w, uint64_t ra, rule_t rule)
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

/* May a return address with the rule @rule follow no call? */
static bool guess_may_be_open(rule_t rule)
{
	return (rule_kind(rule) == RULE_GUESS || rule_kind(rule) == RULE_CHAIN) &&
	       rule_why(rule) == RULE_NO_FILE;
}

/* The frame that was pushed last follows no call. */
static void guess_open(struct walk *w)
{
	if (!w->n_open)
		w->open_first = w->n;
	w->open_last = w->n;
	w->open[w->n_open++ % NATIVE_OPEN] = walk_lookup(w);
}

enum step native_prove(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t ra = uw_frame_pc(w->frames[w->n - 1]);

	/* Of a module that is not loaded yet nothing can be noted: the check is made when it is
	 * loaded. */
	if (rule_kind(rule) == RULE_NONE || native_follows_call(e, w, ra, rule))
		return STEP_FRAME;
	if (guess_may_be_open(rule)) {
		guess_open(w);
		return STEP_FRAME;
	}
	w->n--;
	return walk_end(w, UW_FAILED, UW_BAD_RETURN, ra);
}

/* Is there a frame with CFI behind the last open one?  It has given the frame behind itself, or is the
 * root. */
static bool settle_is_joined(const struct native *e, const struct walk *w)
{
	const struct rule_entry *entry;

	for (uint32_t i = w->open_last; i < w->n; i++)
		if (!(w->frames[i] & UW_FRAME_GUESSED))
			return true;
	entry = rule_cache_find(&e->by_pc, &w->key, walk_lookup(w));
	return w->n > w->open_last && entry && rule_kind(entry->rule) == RULE_ROOT;
}

void native_settle(struct native *e, struct walk *w)
{
	uint32_t n = (uint32_t)min_u64(w->n_open, NATIVE_OPEN);

	if (w->res->outcome == UW_PENDING || w->res->outcome == UW_CUT)
		return;
	if (w->res->outcome != UW_WHOLE || !settle_is_joined(e, w)) {
		w->n = w->open_first - 1;
		walk_end(w, UW_FAILED, UW_BAD_RETURN, uw_frame_pc(w->frames[w->n]));
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct rule_entry *entry = rule_cache_find(&e->by_pc, &w->key, w->open[i]);

		if (entry && guess_may_be_open(entry->rule))
			native_note(e, w, w->open[i],
				    rule_with_call(entry->rule & RULE_MASK, RULE_CALL_YES));
	}
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
 * interrupted, rbp may be any number, except where the code itself sets up a frame. */
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
	return rule_kind(rule) == RULE_NONE || native_follows_call(e, w, g->ra, rule)
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

/* Is the call before @ra, in a file, one through a pointer? */
static bool guess_is_indirect(struct native *e, const struct walk *w, uint64_t ra)
{
	uint32_t key = w->snapshot->space->key;
	struct native_site *site = &e->sites[hash_u64(ra ^ key) % NATIVE_SITES];
	uint8_t code[CODE_BEFORE];
	bool indirect;

	if (key && site->key == key && site->ra == ra)
		return site->indirect;
	indirect = native_code(w, ra, sizeof(code), 0, code) == sizeof(code) &&
		   code[sizeof(code) - 5] != 0xe8 && code_ends_in_indirect_call(code, sizeof(code));
	if (key && native_has_code(w, ra))
		*site = (struct native_site){ra, key, indirect};
	return indirect;
}

/* Code that was made at run time states where its return address is (a prologue, or all paths to a ret), and there is one in a function
 * with CFI, behind a call through a pointer. */
static bool guess_is_stated(struct native *e, struct walk *w, const struct guess *g)
{
	enum rule_kind kind;

	if (w->machine->link || rule_why(g->rule) != RULE_NO_FILE ||
	    rule_form(g->rule) != RULE_FORM_WALKED || rule_way_ra(g->rule) == RULE_WAY_BY_FP ||
	    !(g->rule & RULE_WAY_RETURNS) || !g->ra)
		return false;
	kind = rule_kind(native_rule(e, w, g->ra - 1));
	return (kind == RULE_SP || kind == RULE_FP || kind == RULE_SLOW) &&
	       guess_is_indirect(e, w, g->ra);
}

static enum step guess_arrive(struct walk *w, const struct guess *g)
{
	w->sp = g->sp;
	w->bp = g->bp;
	return native_push(w, g->ra, UW_FRAME_CALLER | UW_FRAME_GUESSED);
}

/* Is @ra where a function begins, behind padding?  V8's deoptimizer writes return addresses of this kind:
 * no call is before them. */
static bool guess_is_entry(const struct walk *w, uint64_t ra)
{
	static const uint8_t padding[4] = {0xcc, 0xcc, 0xcc, 0xcc};
	uint8_t code[sizeof(padding)];

	return !w->machine->link && !(ra & 15) &&
	       native_code(w, ra, sizeof(code), 0, code) == sizeof(code) &&
	       !memcmp(code, padding, sizeof(code));
}

/* The same, where the return address follows no call. */
static enum step guess_arrive_open(struct walk *w, const struct guess *g)
{
	enum step step = guess_arrive(w, g);

	if (step == STEP_FRAME)
		guess_open(w);
	return step;
}

/* The place that the code gives holds no return address either: the CFI's is a guess now. */
static enum step guess_by_cfi(struct native *e, struct walk *w)
{
	enum step step = native_slow(e, w, 0);

	if (step == STEP_FRAME)
		w->frames[w->n - 1] |= UW_FRAME_GUESSED;
	return step;
}

/* The nearest prologue before @pc in *rule. */
static bool guess_find_prologue(const struct walk *w, uint64_t pc, rule_t *rule)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, pc - 1);
	uint8_t code[CODE_PROLOGUE_STEP + CODE_PROLOGUE_BYTES];
	struct code_way way;

	for (size_t back = 0; map && back < CODE_PROLOGUE_MAX && back < pc - map->start;
	     back += CODE_PROLOGUE_STEP) {
		size_t before = min_u64(CODE_PROLOGUE_STEP, pc - map->start - back), len;

		len = native_code(w, pc - back, before, CODE_PROLOGUE_BYTES, code);
		if (len <= before)
			return false;
		if (code_prologue(code, back ? len : before, len, &way)) {
			*rule = rule_with_way(*rule, way.ra / 8,
					      way.bp < 0 ? 0 : (uint32_t)way.bp / 8 + 1) |
				RULE_WAY_RETURNS;
			return true;
		}
	}
	return false;
}

/* A helper in the same code has put its return address into the frame of that code, at [rsp] (PCRE's \b): the walk took it for
 * a call's, and rsp is 8 too high. */
static bool guess_behind_helper(struct native *e, struct walk *w, uint64_t pc, struct guess *g)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, pc - 1);
	bool holds;

	if (w->n != 2 || !map ||
	    map != uw_space_find(w->snapshot->space, uw_frame_pc(w->frames[0])))
		return false;
	w->sp -= 8;
	holds = guess_try(e, w, RULE_FORM_WALKED, g) == GUESS_HOLDS && guess_is_stated(e, w, g);
	w->sp += 8;
	return holds;
}

/* JIT code without frame pointers that a walk to a ret does not get through: loops of a regular expression (PCRE), code of LLVM.  Its
 * prologue shows the frame.  true: the caller that it gives follows a call. */
static bool guess_by_prologue(struct native *e, struct walk *w, rule_t rule, struct guess *ret)
{
	uint64_t pc = uw_frame_pc(w->frames[w->n - 1]);
	struct guess g = {0};
	bool found;

	if (w->machine->link || rule_kind(rule) != RULE_GUESS || rule_why(rule) != RULE_NO_FILE ||
	    rule & RULE_NO_PROLOGUE || !native_has_code(w, pc))
		return false;
	g.rule = rule_guess(RULE_NO_FILE, RULE_FORM_UNKNOWN);
	g.rule = rule_with_call(g.rule, rule_call(rule));
	found = guess_find_prologue(w, pc, &g.rule);
	if (found && guess_try(e, w, RULE_FORM_WALKED, &g) == GUESS_HOLDS) {
		native_note(e, w, walk_lookup(w), g.rule);
		*ret = g;
		return true;
	}
	if (found && guess_behind_helper(e, w, pc, &g)) {
		*ret = g;
		return true;
	}
	native_note(e, w, walk_lookup(w), rule | RULE_NO_PROLOGUE);
	return false;
}

/* ---- Haskell ----
 *
 * Code of GHC has no CFI and, in rbp, a stack of its own, which is in the heap.  rsp stays where StgRun has put it
 * (rts/StgCRun.c):
 *
 *     rsp           16,384 bytes that the code may use
 *     rsp + 16384   rbx, rbp, r12 to r15 as schedule() had them
 *     rsp + 16432   the return address, in schedule()
 *
 * and 8 bytes below that while a C function is called.  The proof: before the return address is a call of a function
 * with CFI that describes this very frame. */

enum { STG_BP = 16384 + 8, STG_RA = 16384 + 48, STG_ALIGN = 8 };

static bool stg_is_at(const struct cfi_reg *reg, int64_t offset)
{
	return reg->where == CFI_OFFSET && reg->value == offset;
}

/* Is @address in StgRun, by its CFI? */
static bool stg_is_run(struct native *e, const struct walk *w, uint64_t address)
{
	struct native_place place;
	uint64_t begin, end;
	struct cfi_fde fde;
	struct cfi_row row;

	if (native_place(w, address, &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return false;
	place.vaddr = end - 1;
	return native_row(e, &place, 0, &fde, &row) == CFI_OK &&
	       row.cfa.where != CFI_VAL_EXPRESSION && row.cfa_register == DWARF_X86_RSP &&
	       !row.cfa.value && stg_is_at(&row.regs[row.ra], STG_RA) &&
	       stg_is_at(&row.regs[DWARF_X86_RBP], STG_BP);
}

/* The word at @address: of the copy, or of the process, as the pages that the code does not use were never touched. */
static bool stg_word(const struct walk *w, uint64_t address, uint64_t *ret_word)
{
	const struct uw_snapshot *s = w->snapshot;
	struct uw_memory *memory = s->space->memory;
	uint64_t at = address - w->base;

	if (s->stack_len >= 8 && at <= s->stack_len - 8)
		memcpy(ret_word, s->stack + at, 8);
	else if (!memory || memory->read(memory, address, ret_word, 8) != 8)
		return false;
	return true;
}

/* Is the word @at, an address, behind a call of StgRun? */
static bool stg_is_return(struct native *e, const struct walk *w, uint64_t at)
{
	uint8_t call[5];
	uint64_t ra;
	int32_t to;

	if (!stg_word(w, at, &ra) || ra >> 48 || !uw_space_find(w->snapshot->space, ra - 1) ||
	    native_code(w, ra, sizeof(call), 0, call) != sizeof(call) || call[0] != 0xe8)
		return false;
	memcpy(&to, call + 1, sizeof(to));
	return stg_is_run(e, w, ra + (uint64_t)(int64_t)to);
}

/* One frame on, from code of GHC with the rule @rule. */
static enum step stg_step(struct native *e, struct walk *w, rule_t rule)
{
	uint64_t skip = rule_way_ra(rule) * STG_ALIGN;

	return native_step(
		e, w,
		rule_frame(RULE_SP, (int64_t)(skip + STG_RA + 8) / 8, (STG_RA + 8 - STG_BP) / 8));
}

/* Does the walk stand on code of GHC?  Its rule in *rule, and in the cache. */
static bool guess_stg(struct native *e, struct walk *w, rule_t *rule)
{
	if (w->machine->link || rule_kind(*rule) != RULE_GUESS || rule_why(*rule) != RULE_NO_CFI)
		return false;
	for (uint64_t skip = 0; skip <= STG_ALIGN; skip += STG_ALIGN) {
		if (!stg_is_return(e, w, w->sp + skip + STG_RA))
			continue;
		*rule = rule_with_form(rule_with_way(rule_guess(RULE_NO_CFI, RULE_FORM_STG),
						     (uint32_t)(skip / STG_ALIGN), 0),
				       RULE_FORM_STG);
		e->has_stg = true;
		native_note(e, w, walk_lookup(w), *rule);
		return true;
	}
	return false;
}

enum step native_guess(struct native *e, struct walk *w, rule_t rule)
{
	bool caller = w->frames[w->n - 1] & UW_FRAME_CALLER;
	struct guess g = {0}, by_code = {0};
	enum guess_result result;
	enum rule_form form;

	if (rule_form(rule) == RULE_FORM_STG ||
	    (rule_form(rule) == RULE_FORM_UNKNOWN && guess_stg(e, w, &rule)))
		return stg_step(e, w, rule);
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
		if (by_code.ra && rule & RULE_WAY_RETURNS && rule_why(rule) == RULE_NO_FILE &&
		    guess_may_be_open(native_rule(e, w, g.ra - 1)))
			return guess_arrive_open(w, &g);
		if (guess_renew(e, w, &rule, by_code.ra))
			return native_guess(e, w, rule);
		form = RULE_FORM_FP;
	}
	if (form == RULE_FORM_SIGRETURN || (form == RULE_FORM_FP && native_is_signal(e, w)))
		return native_signal(e, w);
	if (form == RULE_FORM_OWN_STACK) { /* its frame has rbp */
		if (w->bp < w->sp || w->bp - w->sp >= OWN_STACK_ROOM)
			return native_go_clock(e, w);
		form = RULE_FORM_FP;
	}
	if (form == RULE_FORM_GO)
		return native_go(e, w);
	if (form == RULE_FORM_HANDLER)
		return native_ocaml_handler(e, w, rule);
	if (form == RULE_FORM_ROOT || (form == RULE_FORM_FP && guess_is_root(w, rule)))
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	result = form == RULE_FORM_FP && !caller ? guess_leaf(e, w, rule, &g)
						 : guess_try(e, w, form, &g);
	if (result == GUESS_HOLDS)
		return guess_arrive(w, &g);
	if (result == GUESS_NO_CALL && rule_why(rule) == RULE_NO_FILE &&
	    guess_may_be_open(native_rule(e, w, g.ra - 1)))
		return guess_arrive_open(w, &g);
	if (guess_is_start(e, w, rule) || guess_is_top(e, w, rule))
		return walk_end(w, UW_WHOLE, UW_OK, 0);
	/* The code itself returns to this address. */
	if (by_code.ra && guess_is_entry(w, by_code.ra))
		return guess_arrive(w, &by_code);
	if (guess_by_prologue(e, w, rule, &g))
		return guess_arrive(w, &g);
	/* At the first sample there the process may not have been readable yet. */
	if (guess_stg(e, w, &rule))
		return stg_step(e, w, rule);
	if (guess_renew(e, w, &rule, g.ra))
		return native_guess(e, w, rule);
	return guess_failed(w, rule, result, &g);
}
