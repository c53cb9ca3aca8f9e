/* native-rule.c - see native.h.  The rule of an address, as its module's CFI says it. */
#include <errno.h>

#include "unwinder/code-walk.h"
#include "unwinder/native.h"

/* A function that goes to another stack has so many bytes: glibc's, 260; with CET, some 700. */
enum { STILL_MIN = 8, STILL_MAX = 1024, STILL_STEP = 256, STILL_INSN = 15 };

enum native_where native_place(const struct walk *w, uint64_t address, struct native_place *place)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, address);
	const struct uw_module *module;

	if (!map)
		return NATIVE_NO_MAP;
	*place = (struct native_place){.map = map, .why = RULE_NO_FILE};
	module = map->module;
	if (!module || uw_module_kind(module) == UW_MODULE_JIT)
		return NATIVE_PLACE;
	switch (uw_module_unwind_state(module)) {
	case UW_MODULE_READY:
		place->image = uw_module_image(module);
		if (place->image && place->image->arch != w->machine->arch)
			place->image = NULL; /* another machine's program under an emulator: data to
						this one */
		place->why = place->image ? RULE_NO_CFI : RULE_NO_FILE;
		place->vaddr = uw_map_vaddr(map, address);
		return NATIVE_PLACE;
	case UW_MODULE_UNREADABLE:
		place->why = RULE_NOT_READABLE;
		return NATIVE_PLACE;
	default:
		return NATIVE_PENDING;
	}
}

static size_t native_index_bytes(const struct cfi_index *index)
{
	return sizeof(*index) + index->n_entries * sizeof(*index->entries);
}

/* It goes with its module, so it counts as the module's, too, for those who keep memory small. */
static void native_index_count(struct native *e, struct uw_module *module,
			       const struct cfi_index *index)
{
	e->stats.cache_bytes += native_index_bytes(index);
	e->cies.fdes_read += index->n_entries;
	uw_module_count_unwind(module, native_index_bytes(index));
}

/* The sorted index of a section without a search table, made at the first need.  NULL: no memory.
 */
static const struct cfi_index *native_index(struct native *e, const struct native_place *place,
					    bool debug_frame)
{
	uint64_t key = (uint64_t)uw_module_serial(place->map->module) * 2 + debug_frame;
	struct cfi_index *index = table_pointer(&e->indexes, key);

	if (index)
		return index;
	index = calloc(1, sizeof(*index));
	if (index && (cfi_index_init(index, place->image, debug_frame) < 0 ||
		      table_put(&e->indexes, key, (uintptr_t)index) < 0)) {
		cfi_index_deinit(index);
		free(index);
		index = NULL;
	}
	if (!index)
		e->no_memory = true;
	else
		native_index_count(e, place->map->module, index);
	return index;
}

static void native_index_free(struct native *e, struct cfi_index *index)
{
	if (!index)
		return;
	e->stats.cache_bytes -= native_index_bytes(index);
	cfi_index_deinit(index);
	free(index);
}

void native_forget_index(struct native *e, uint32_t serial)
{
	memset(e->cies.entries, 0, sizeof(e->cies.entries));
	for (uint64_t key = (uint64_t)serial * 2; key <= (uint64_t)serial * 2 + 1; key++) {
		native_index_free(e, table_pointer(&e->indexes, key));
		(void)table_remove(&e->indexes, key);
	}
}

void native_forget_indexes(struct native *e)
{
	memset(e->cies.entries, 0, sizeof(e->cies.entries));
	table_for_each (&e->indexes, slot)
		native_index_free(e, (struct cfi_index *)(uintptr_t)slot->value);
	table_clear(&e->indexes);
}

/* An FDE of one section that covers the address. */
static enum cfi_result native_fde(struct native *e, const struct native_place *place,
				  bool debug_frame, uint32_t *ret_offset, struct cfi_fde *fde)
{
	const struct uw_section *section =
		debug_frame ? &place->image->debug_frame : &place->image->eh_frame;
	const struct cfi_index *index;
	enum cfi_result result;

	if (!section->data)
		return CFI_NONE;
	if (!debug_frame && place->fde) {
		*ret_offset = place->fde - 1;
		result = CFI_OK;
	} else if (!debug_frame && cfi_has_table(place->image)) {
		result = cfi_table_find(place->image, place->vaddr, ret_offset);
	} else {
		index = native_index(e, place, debug_frame);
		result = index ? cfi_index_find(index, place->vaddr, ret_offset) : CFI_NONE;
	}
	if (result == CFI_OK)
		result = cfi_fde_read(place->image, debug_frame, *ret_offset, &e->cies,
				      uw_module_serial(place->map->module), fde);
	if (result == CFI_OK && (place->vaddr < fde->begin || place->vaddr >= fde->end))
		result = CFI_NONE;
	return result;
}

static enum cfi_result native_find(struct native *e, const struct native_place *place,
				   uint32_t *ret_offset, bool *ret_debug_frame, struct cfi_fde *fde)
{
	enum cfi_result eh = native_fde(e, place, false, ret_offset, fde);
	enum cfi_result debug;

	*ret_debug_frame = false;
	if (eh == CFI_OK)
		return eh;
	debug = native_fde(e, place, true, ret_offset, fde);
	*ret_debug_frame = debug == CFI_OK;
	return debug == CFI_NONE ? eh : debug;
}

bool native_function(struct native *e, const struct native_place *place, uint64_t *ret_begin,
		     uint64_t *ret_end)
{
	struct cfi_fde fde;
	uint32_t offset;
	bool debug_frame;

	if (!place->image || native_find(e, place, &offset, &debug_frame, &fde) != CFI_OK)
		return false;
	*ret_begin = fde.begin;
	*ret_end = fde.end;
	return true;
}

enum cfi_result native_row(struct native *e, const struct native_place *place, rule_t rule,
			   struct cfi_fde *fde, struct cfi_row *row)
{
	uint32_t offset;
	bool debug_frame;
	enum cfi_result result;

	if (!place->image)
		return CFI_NONE;
	if (rule)
		result = cfi_fde_read(place->image, rule_fde_in_debug_frame(rule), rule_fde(rule),
				      &e->cies, uw_module_serial(place->map->module), fde);
	else
		result = native_find(e, place, &offset, &debug_frame, fde);
	return result == CFI_OK ? cfi_row_at(fde, place->vaddr, row) : result;
}

enum cfi_result native_find_row(struct native *e, const struct native_place *place, bool *ret_ends,
				rule_t *ret_rule, struct cfi_fde *fde)
{
	struct cfi_row row;
	uint32_t offset;
	bool debug_frame;
	enum cfi_result result = native_find(e, place, &offset, &debug_frame, fde);

	if (ret_ends)
		*ret_ends = true;
	if (result == CFI_OK && cfi_quick_rule(fde, place->vaddr, ret_ends, ret_rule))
		return CFI_OK;
	if (result == CFI_OK)
		result = cfi_row_at(fde, place->vaddr, &row);
	if (result != CFI_OK)
		return result;
	*ret_rule = cfi_rule(&row, place->vaddr, offset, debug_frame);
	/* What stands there may be another frame's: as a guess it is marked, and must follow a call. */
	if ((*ret_rule == rule_frame(RULE_FP, 2, 2) || fde->machine->link) &&
	    cfi_is_landing(fde, place->vaddr, &row))
		*ret_rule = fde->machine->link ? rule_slow(offset, debug_frame)
					       : rule_chain(RULE_NO_CFI);
	return CFI_OK;
}

/* A thread inside a system call that is its function's last instruction stands behind the function:
 * at rt_sigreturn in a signal trampoline, at exit.  What was true there is taken if it is so for a
 * function's first byte, too, or can be nothing else. */
static rule_t native_compile_behind(struct native *e, const struct native_place *place)
{
	struct native_place before = *place;
	struct cfi_fde fde;
	rule_t rule, first_byte = place->image->arch == UW_ARCH_AARCH64
					  ? rule_frame_link(RULE_SP, 0, 0, RULE_LINK_LIVE)
					  : rule_frame(RULE_SP, 1, 0);

	before.vaddr--;
	before.fde = 0;
	if (native_find_row(e, &before, NULL, &rule, &fde) == CFI_OK && fde.end == place->vaddr &&
	    (fde.cie.signal || rule == first_byte))
		return rule;
	return rule_guess(RULE_NO_CFI, RULE_FORM_UNKNOWN);
}

static bool is_by_go(const struct cfi_fde *fde)
{
	return fde->program < fde->program_end && *fde->program == CFA_DEF_CFA_OFFSET_SF;
}

/* Does an FDE say nothing of its own? */
static bool is_still(const struct cfi_fde *fde)
{
	const uint8_t *p = fde->program, *end = fde->program_end;

	/* Go's linker: the offset that the CIE has, once more, and an advance to the function's end. */
	if (is_by_go(fde)) {
		p += 2;
		p += p >= end		      ? 0
		     : *p == CFA_ADVANCE_LOC1 ? 2
		     : *p == CFA_ADVANCE_LOC2 ? 3
		     : *p == CFA_ADVANCE_LOC4 ? 5
					      : (*p & 0xc0) == CFA_ADVANCE_LOC;
	}
	while (p < end && *p == CFA_NOP)
		p++;
	return p >= end;
}

/* Has a function's code moved rsp before the place?  What was read is not read again.  false: it
 * cannot be read. */
static bool still_moves(struct native *e, const struct walk *w, const struct native_place *place,
			uint64_t address, const struct cfi_fde *fde, bool *ret_moves)
{
	uint64_t at = place->vaddr - fde->begin, size = fde->end - fde->begin;
	uint64_t key = (uint64_t)uw_module_serial(place->map->module) << 32 |
		       ((uint64_t)(fde->program - fde->section) + 1);
	struct native_still *still = &e->still[hash_u64(key) % NATIVE_STILL];
	uint8_t code[STILL_MAX];
	size_t len;

	if (still->key != key)
		*still = (struct native_still){.key = key};
	if (still->moves == still->seen && still->seen < at) {
		len = min_u64((at | (STILL_STEP - 1)) + 1 + STILL_INSN, size);
		/* By its second byte: the first may be its mapping's first. */
		len = native_code(w, address - at + 1, 1, len - 1, code);
		if (len < at)
			return false;
		still->moves = (uint32_t)code_moves_sp(code, len);
		/* What does not decode so near to a piece's end may be cut: not seen yet. */
		still->seen = len < size && still->moves + STILL_INSN > len ? still->moves
									    : (uint32_t)len;
	}
	*ret_moves = at > still->moves;
	return true;
}

/* Is a caller, looked up by @address, one that Go's runtime goes to the thread's own stack with? */
static bool is_go_switch(const struct walk *w, uint64_t address)
{
	uint8_t code[CODE_BEFORE + CODE_AFTER];
	size_t len =
		w->machine->link ? 0 : native_code(w, address + 1, CODE_BEFORE, CODE_AFTER, code);

	return len > CODE_BEFORE && code_is_go_switch(w->machine->arch, code, CODE_BEFORE, len);
}

/* Assembly often says where it begins and ends and no more, whatever it does to rsp meanwhile:
 * glibc's swapcontext() takes another stack and pushes what it returns to.  Behind the first
 * instruction that moves rsp such CFI is as good as none, of callers, too: the code has to say.
 * false: nobody can tell now, and the CFI is a guess. */
static bool native_holds(struct native *e, const struct walk *w, const struct native_place *place,
			 uint64_t address, const struct cfi_fde *fde, rule_t *rule)
{
	uint64_t size = fde->end - fde->begin;
	bool moves;

	if (*rule == rule_frame(RULE_SP, 2, 0) && is_by_go(fde) && is_go_switch(w, address)) {
		*rule = rule_simple(RULE_ROOT); /* runtime.mcall has pushed a word there */
		return true;
	}
	if (*rule != rule_frame(RULE_SP, 1, 0) || w->machine->link || size < STILL_MIN ||
	    size > STILL_MAX || !is_still(fde))
		return true;
	if (!still_moves(e, w, place, address, fde, &moves)) {
		*rule = rule_guess(RULE_NO_CFI, RULE_FORM_ENTRY);
		return false;
	}
	if (moves)
		*rule = rule_guess(RULE_NO_CFI, RULE_FORM_UNKNOWN);
	return true;
}

rule_t native_compile(struct native *e, const struct walk *w, const struct native_place *place,
		      uint64_t address, bool *ret_kept)
{
	/* Callers stand behind a call, and no epilogue has one. */
	bool leaf = walk_is_interrupted(w) && address == walk_lookup(w), ends = true;
	struct cfi_fde fde;
	rule_t rule;

	e->stats.cfi_runs++;
	*ret_kept = true;
	switch (native_find_row(e, place, leaf ? &ends : NULL, &rule, &fde)) {
	case CFI_OK:
		*ret_kept = native_holds(e, w, place, address, &fde, &rule);
		if (!ends)
			*ret_kept = native_exit(e, w, place, address, &fde, &rule);
		return rule;
	case CFI_NONE:
		rule = native_compile_behind(e, place);
		if (rule_kind(rule) != RULE_GUESS || !place->image->more)
			return rule;
		uw_module_want_separate(place->map->module);
		return rule_simple(RULE_NONE);
	default:
		return rule_simple(RULE_BAD);
	}
}
