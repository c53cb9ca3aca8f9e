/* native-rule.c - see native.h.  The rule of an address, and the code that it is read from.
 *
 *   by_pc      miss: a pc not met in this process
 *     -> map     binary search
 *     -> by_vaddr  hit: the same code was met in another process (a parallel build: nearly always)
 *       -> .eh_frame_hdr -> FDE -> its program -> rule, put into both caches
 *
 * Results that can change are not cached: no mapping, or a module that waits to be loaded.
 *
 * Each arrow is a cache line that was not used for a while and that holds the address of the next
 * one.  The leaves of sixteen stacks are known at once, so those that miss follow the arrows in
 * parallel (native_prefetch). */
#include <errno.h>
#include <unistd.h>

#include "unwinder/native.h"

/* The file of a module, where the images keep one: only then may it be read here (module.h, no_duplicate).
 */
static int code_file(const struct uw_map *map)
{
	const struct uw_image *image = map->module ? uw_module_image(map->module) : NULL;

	return image ? image->fd : -1;
}

bool native_has_code(const struct walk *w, uint64_t address)
{
	const struct uw_map *map;

	if (w->snapshot->space->memory)
		return true;
	map = uw_space_find(w->snapshot->space, address - 1);
	return map && code_file(map) >= 0;
}

size_t native_code(const struct walk *w, uint64_t address, size_t before, size_t after, uint8_t *to)
{
	struct uw_memory *memory = w->snapshot->space->memory;
	const struct uw_map *map = uw_space_find(
		w->snapshot->space, address - 1); /* a call may be the mapping's last bytes */
	uint64_t from = address - before;
	ssize_t got;
	int fd;

	if (!map || address - map->start < before)
		return 0;
	after = min_u64(after, map->end - address);
	got = memory ? memory->read(memory, from, to, before + after) : 0;
	fd = got > 0 ? -1 : code_file(map);
	if (fd >= 0)
		got = pread(fd, to, before + after, (off_t)(from - map->start + map->offset));
	return got > 0 && (size_t)got <= before + after ? (size_t)got : 0;
}

size_t native_file_code(struct native *e, const struct walk *w, const struct uw_map *map,
			uint64_t address, size_t before, size_t after, uint8_t *to)
{
	uint64_t from = address - before, start = from & ~(uint64_t)(NATIVE_CODE_PAGE - 1);
	uint64_t skip = from - start;
	struct native_code_page *page =
		&e->code_pages[start / NATIVE_CODE_PAGE % NATIVE_CODE_PAGES];
	size_t len = before + after;

	if (!w->snapshot->space->key || !w->snapshot->space->memory || !map->module ||
	    uw_module_kind(map->module) != UW_MODULE_FILE || start < map->start ||
	    skip + len > NATIVE_CODE_PAGE)
		return native_code(w, address, before, after, to);
	if (page->key != w->snapshot->space->key || page->address != start) {
		page->key = 0;
		page->len =
			(uint32_t)native_code(w, start + 1, 1, NATIVE_CODE_PAGE - 1, page->bytes);
		page->address = start;
		page->key = page->len ? w->snapshot->space->key : 0;
	}
	if (page->len < skip + len)
		return native_code(w, address, before, after, to);
	memcpy(to, page->bytes + skip, len);
	return len;
}

/* Size of a function that switches to another stack: glibc's has 260 bytes; with CET, some 700. */
enum { ONE_ROW_MIN = 8, ONE_ROW_MAX = 1024, ONE_ROW_STEP = 256, ONE_ROW_INSN = 15 };

/* ---- CFI without epilogues ----
 *
 * Old compilers and much assembly write CFI of this kind.  It is correct up to the first pop; from there to
 * the ret its CFA is still that of the whole frame:
 *
 *     pop  %rbx        CFA = rsp + 24     correct
 *  -> pop  %rbp        CFA = rsp + 24     rsp + 16 is correct: the CFI leads to the caller's caller
 *     ret              CFA = rsp + 24     rsp + 8 is correct
 *
 * Only an interrupted frame can be there: a caller is behind a call.  Correct CFI has a later row
 * that releases stack.  Or the last epilogue of the function is before the address, and has rows:
 * CFI that describes one epilogue describes every epilogue.  Otherwise the code is read, once an
 * address.  Straight code up to a ret (or to a jump to another function: its CFI applies there) is
 * certain to run next, so where code and CFI differ the code is used.  The frame is still marked as
 * guessed, because one of two sources is wrong; and its return address must follow a call, so that a
 * ret used as a jump (a retpoline) leads to no frame. */

enum {
	EXIT_BEFORE = 64, /* jumps back to a ret that is shared */
	EXIT_AFTER = 192,
};

/* The place of the return address after a jump to @vaddr: bytes above rsp there, by the CFI of the
 * target. false: it is not known, or not by rsp. */
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

/* Bytes from rsp to the return address, by the code alone; < 0: unknown. */
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

/* The walk stands on an interrupted frame at @address; its CFI (@fde) gives *rule and describes
 * no epilogue from there on. Where the code returns in another way, *rule becomes that, as a guess.
 * false: the code cannot be read now. */
static bool native_exit(struct native *e, const struct walk *w, const struct native_place *place,
			uint64_t address, const struct cfi_fde *fde, rule_t *rule)
{
	uint8_t code[EXIT_BEFORE + EXIT_AFTER];
	size_t before = min_u64(EXIT_BEFORE, place->vaddr - fde->begin), len;
	struct code_exit exit;
	int64_t ra;

	if (w->machine->link || !rule_is_frame(*rule))
		return true;
	/* By the second byte: the first may be its mapping's first. */
	len = native_file_code(e, w, place->map, address + 1, before + 1,
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
	*rule = rule_with_way(rule_guess(RULE_CFI_WRONG, RULE_FORM_UNKNOWN), (uint32_t)ra / 8,
			      exit.bp < 0 ? 0 : (uint32_t)exit.bp / 8 + 1);
	return true;
}

/* ---- CFI of an address ---- */

/* Has the JIT module @module unwinding information, or can the first reading of it show some? */
static bool has_tables(const struct uw_module *module)
{
	enum uw_module_state state = uw_module_unwind_state(module);

	if (uw_module_has_jit_cfi(module) || uw_module_is_vm(module))
		return true;
	if (uw_module_expects_vm(module))
		return state != UW_MODULE_READY;
	return uw_module_jitdump(module) && (state == UW_MODULE_NEW || state == UW_MODULE_WANTED);
}

enum native_where native_place(const struct walk *w, uint64_t address, struct native_place *place)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, address);
	const struct uw_module *module;

	if (!map)
		return NATIVE_NO_MAP;
	*place = (struct native_place){.map = map, .why = RULE_NO_FILE};
	module = map->module;
	if (!module)
		return NATIVE_PLACE;
	if (uw_module_kind(module) == UW_MODULE_JIT && !has_tables(module))
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

/* It is dropped with its module, so it also counts as the module's memory. */
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

void native_forget_indexes(struct native *e, const struct uw_module *module)
{
	uint64_t first = module ? (uint64_t)uw_module_serial(module) * 2 : 0;

	memset(e->cies.entries, 0, sizeof(e->cies.entries));
	if (!module) {
		table_for_each (&e->indexes, slot)
			native_index_free(e, (struct cfi_index *)(uintptr_t)slot->value);
		table_clear(&e->indexes);
		return;
	}
	for (uint64_t key = first; key <= first + 1; key++) {
		native_index_free(e, table_pointer(&e->indexes, key));
		(void)table_remove(&e->indexes, key);
	}
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
	/* The word there may belong to another frame: as a guess it is marked, and must follow a
	 * call. */
	if ((*ret_rule == rule_frame(RULE_FP, 2, 2) || fde->machine->link) &&
	    cfi_is_landing(fde, place->vaddr, &row))
		*ret_rule = fde->machine->link ? rule_slow(offset, debug_frame)
					       : rule_chain(RULE_NO_CFI);
	return CFI_OK;
}

/* A thread inside a system call that is its function's last instruction stands behind the function:
 * at rt_sigreturn in a signal trampoline, at exit.  The rule there is taken if it is also that of a
 * function's first byte, or if no other is possible. */
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

bool native_is_by_go(const struct cfi_fde *fde)
{
	return fde->program < fde->program_end && *fde->program == CFA_DEF_CFA_OFFSET_SF;
}

/* Has an FDE no operations of its own? */
static bool has_one_row(const struct cfi_fde *fde)
{
	const uint8_t *p = fde->program, *end = fde->program_end;

	/* Go's linker: the offset that the CIE has, once more, and an advance to the function's end. */
	if (native_is_by_go(fde)) {
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

/* Has a function's code moved rsp before the place? Code is read once. false: it cannot be read. */
static bool one_row_moves(struct native *e, const struct walk *w, const struct native_place *place,
			  uint64_t address, const struct cfi_fde *fde, bool *ret_moves)
{
	uint64_t at = place->vaddr - fde->begin, size = fde->end - fde->begin;
	uint64_t key = (uint64_t)uw_module_serial(place->map->module) << 32 |
		       ((uint64_t)(fde->program - fde->section) + 1);
	struct native_one_row *known = &e->one_row[hash_u64(key) % NATIVE_ONE_ROW];
	uint8_t code[ONE_ROW_MAX];
	size_t len;

	if (known->key != key)
		*known = (struct native_one_row){.key = key};
	if (known->moves == known->seen && known->seen < at) {
		len = min_u64((at | (ONE_ROW_STEP - 1)) + 1 + ONE_ROW_INSN, size);
		/* By its second byte: the first may be its mapping's first. */
		len = native_file_code(e, w, place->map, address - at + 1, 1, len - 1, code);
		if (len < at)
			return false;
		known->moves = (uint32_t)code_moves_sp(code, len);
		/* An instruction that does not decode near the end of a piece may be cut: not seen
		 * yet. */
		known->seen = len < size && known->moves + ONE_ROW_INSN > len ? known->moves
									      : (uint32_t)len;
	}
	*ret_moves = at > known->moves;
	return true;
}

/* How has a caller, looked up by @address, gone to the thread's own stack?  false: the code cannot be read now. */
static bool go_switch(const struct walk *w, uint64_t address, enum code_go *ret_go)
{
	uint8_t code[CODE_BEFORE + CODE_AFTER];
	size_t len;

	*ret_go = CODE_GO_NONE;
	if (w->machine->link)
		return true;
	len = native_code(w, address + 1, CODE_BEFORE, CODE_AFTER, code);
	if (len <= CODE_BEFORE)
		return false;
	*ret_go = code_go_switch(w->machine->arch, code, CODE_BEFORE, len);
	return true;
}

/* Has a caller, with CFI by Go's linker, called the vDSO?  Functions of Go's runtime that read the clock (time.now,
 * nanotime1: frames of 24 bytes) go to the thread's own stack for that, and the CFI does not state it. */
static bool calls_vdso(const struct walk *w, uint64_t address, rule_t rule)
{
	const struct uw_map *callee;
	uint32_t n = w->n - (walk_lookup(w) == address); /* it may not be pushed yet */

	if (w->machine->link || !n || rule != rule_frame(RULE_SP, 4, 0))
		return false;
	callee = uw_space_find(w->snapshot->space, uw_frame_lookup(w->frames[n - 1]));
	return callee && callee->module && !strcmp(uw_module_path(callee->module), "[vdso]");
}

/* CFI of assembly often has the first and last address of a function and no more, although the code
 * moves rsp: glibc's swapcontext() switches to another stack and pushes the address that it returns
 * to. Behind the first instruction that moves rsp this CFI is useless, for callers too, and the
 * code is read. false: the code cannot be read now, and the CFI is a guess. */
static bool native_holds(struct native *e, const struct walk *w, const struct native_place *place,
			 uint64_t address, const struct cfi_fde *fde, rule_t *rule)
{
	uint64_t size = fde->end - fde->begin;
	enum code_go go;
	bool moves, known = true;

	/* mcall and, of Go 1.21 on, systemstack have pushed a word there; asmcgocall of 1.22 on four.  A root: of .gopclntab. */
	if ((*rule == rule_frame(RULE_SP, 2, 0) || *rule == rule_frame(RULE_SP, 4, 0) ||
	     *rule == rule_simple(RULE_ROOT)) &&
	    native_is_by_go(fde)) {
		known = go_switch(w, address, &go);
		if (go) {
			*rule = go == CODE_GO_MCALL ? rule_simple(RULE_ROOT)
						    : rule_guess(RULE_NO_CFI, RULE_FORM_GO);
			return true;
		}
		if (*rule != rule_frame(RULE_SP, 4, 0) && native_go_leaf(w, address)) {
			*rule = rule_guess(RULE_NO_CFI, RULE_FORM_GO);
			return true;
		}
	}
	if (native_is_by_go(fde) && calls_vdso(w, address, *rule)) {
		*rule = rule_guess(RULE_NO_CFI, RULE_FORM_OWN_STACK);
		return known;
	}
	if (*rule != rule_frame(RULE_SP, 1, 0) || w->machine->link || size < ONE_ROW_MIN ||
	    size > ONE_ROW_MAX || !has_one_row(fde))
		return known;
	if (!one_row_moves(e, w, place, address, fde, &moves)) {
		*rule = rule_guess(RULE_NO_CFI, RULE_FORM_ENTRY);
		return false;
	}
	if (moves)
		*rule = rule_guess(RULE_NO_CFI,
				   native_go_leaf(w, address) ? RULE_FORM_GO : RULE_FORM_UNKNOWN);
	return known;
}

static bool is_in_heaps(const struct uw_vm_code *vm, uint64_t vaddr)
{
	for (uint32_t i = 0; i < vm->n_heaps; i++)
		if (vaddr >= vm->heaps[i].start && vaddr < vm->heaps[i].end)
			return true;
	return false;
}

/* May the word @at of the copy be a return address?  @strict: it follows a call, or leads to the interpreter, which makes
 * return addresses by hand. */
static bool is_return_at(const struct walk *w, const struct native_place *place, uint64_t at,
			 bool strict)
{
	const struct uw_vm_range *interpreter = &place->image->vm.interpreter;
	uint8_t code[CODE_BEFORE];
	uint64_t ra;

	if (at >= w->room)
		return false;
	memcpy(&ra, w->stack + at, sizeof(ra));
	if (ra >> 48 || !uw_space_find(w->snapshot->space, ra - 1))
		return false;
	return !strict || (ra >= interpreter->start && ra < interpreter->end) ||
	       (native_code(w, ra, CODE_BEFORE, 0, code) == CODE_BEFORE &&
		code_ends_in_call(w->machine->arch, code, CODE_BEFORE));
}

/* Compiled code pushes registers inside some loops (C2's comparison of strings): its frame is then larger than the VM
 * knows.  The first word that can be a return address is it. */
static rule_t with_pushes(const struct walk *w, const struct native_place *place, rule_t rule)
{
	enum { PUSHES_MAX = 8 };
	uint64_t at = w->sp - w->base + (uint64_t)rule_cfa(rule) - 8;

	if (rule_kind(rule) != RULE_SP || w->sp < w->base || at >= w->room ||
	    is_return_at(w, place, at, false))
		return rule;
	for (int64_t n = 1; n <= PUSHES_MAX; n++)
		if (is_return_at(w, place, at + 8 * (uint64_t)n, true))
			return rule_frame(RULE_SP, rule_cfa(rule) / 8 + n, rule_saved(rule) / 8);
	return rule;
}

/* In code of a jitdump with unwinding information, at least of some of it.  RULE_NONE: of code that was added since. */
static rule_t native_compile_jit(struct native *e, const struct walk *w,
				 const struct native_place *place)
{
	struct cfi_fde fde;
	rule_t rule;

	switch (native_find_row(e, place, NULL, &rule, &fde)) {
	case CFI_OK:
		return rule;
	case CFI_NONE:
		return w->snapshot->settled ? rule_guess(RULE_NO_FILE, RULE_FORM_UNKNOWN)
					    : rule_simple(RULE_NONE);
	default:
		return rule_simple(RULE_BAD);
	}
}

/* In the code of a Java VM.  Its rules by rbp, the interpreter's aside, are rules of routines that the VM generates for itself: one
 * that is interrupted may be before or behind its frame, so its code is looked at.  RULE_NONE: code that was added since. */
static rule_t native_compile_vm(struct native *e, const struct walk *w,
				const struct native_place *place, bool leaf)
{
	const rule_t unknown = rule_guess(RULE_NO_FILE, RULE_FORM_UNKNOWN);
	struct cfi_fde fde;
	rule_t rule;

	switch (native_find_row(e, place, NULL, &rule, &fde)) {
	case CFI_OK:
		if (leaf && rule == rule_frame(RULE_FP, 2, 2))
			return unknown;
		return leaf ? with_pushes(w, place, rule) : rule;
	case CFI_NONE:
		return w->snapshot->settled || !is_in_heaps(&place->image->vm, place->vaddr)
			       ? unknown
			       : rule_simple(RULE_NONE);
	default:
		return rule_simple(RULE_BAD);
	}
}

/* The rule of @address, at @place in an image, for the frame that the walk stands on.  *ret_kept is
 * false where it is not for other processes.  RULE_NONE: more of the module has to be loaded. */
static rule_t native_compile(struct native *e, const struct walk *w,
			     const struct native_place *place, uint64_t address, bool *ret_kept)
{
	/* Callers stand behind a call, and no epilogue has one. */
	bool leaf = walk_is_interrupted(w) && address == walk_lookup(w), ends = true;
	struct cfi_fde fde;
	rule_t rule;

	e->stats.cfi_runs++;
	*ret_kept = true;
	if (place->image->vm.n_heaps)
		return native_compile_vm(e, w, place, leaf);
	if (uw_module_kind(place->map->module) == UW_MODULE_JIT)
		return native_compile_jit(e, w, place);
	switch (native_find_row(e, place, leaf ? &ends : NULL, &rule, &fde)) {
	case CFI_OK:
		*ret_kept = native_holds(e, w, place, address, &fde, &rule);
		*ret_kept &= native_ocaml_rule(e, w, place, address, leaf, &fde, &rule);
		if (!ends)
			*ret_kept &= native_exit(e, w, place, address, &fde, &rule);
		return rule;
	case CFI_NONE:
		rule = native_compile_behind(e, place);
		if (rule_kind(rule) != RULE_GUESS || !place->image->has_separate)
			return rule;
		uw_module_want_separate(place->map->module);
		return rule_simple(RULE_NONE);
	default:
		return rule_simple(RULE_BAD);
	}
}

/* ---- a miss in the cache by pc ---- */

/* A caller in no mapping is not a caller: the word on the stack is not a return address. */
static rule_t native_no_module(struct native *e, struct walk *w)
{
	uint64_t frame = w->frames[w->n - 1];

	/* Except a signal trampoline that begins its mapping. */
	if (frame & UW_FRAME_CALLER && uw_space_find(w->snapshot->space, uw_frame_pc(frame)) &&
	    native_is_signal(e, w))
		return rule_guess(RULE_NO_FILE, RULE_FORM_SIGRETURN);
	if (frame & UW_FRAME_CALLER)
		w->n--;
	if (frame & UW_FRAME_GUESSED)
		walk_end(w, UW_FAILED, UW_NO_UNWIND_INFO, uw_frame_pc(w->frames[w->n - 1]));
	else
		walk_end(w, UW_FAILED, UW_NO_MODULE, uw_frame_pc(frame));
	return rule_simple(RULE_NONE);
}

/* Key 0 has no meaning beyond its space: its rules are not cached.  Nor are rules for want of memory, which there may be for the next
 * batch. */
static void native_add(struct native *e, struct walk *w, uint64_t address, rule_t rule)
{
	if (w->snapshot->space->key && !e->no_memory &&
	    !uw_memory_wanted(w->snapshot->space->memory))
		rule_cache_add(&e->by_pc, &w->key, address, rule);
}

/* The place of the last miss is where the next one is, mostly.  false: not there. */
static bool native_same_place(const struct native *e, const struct walk *w, uint64_t address,
			      struct native_place *place)
{
	const struct uw_map *map = e->last.map;

	if (w->snapshot->space != e->last_space || address < map->start || address >= map->end ||
	    w->machine->arch != e->last.image->arch)
		return false;
	*place = e->last;
	place->vaddr = uw_map_vaddr(map, address);
	return true;
}

static enum native_where native_miss_place(struct native *e, const struct walk *w, uint64_t address,
					   struct native_place *place)
{
	enum native_where where;

	if (address && w->ahead_address == address) {
		*place = w->ahead;
		return NATIVE_PLACE;
	}
	if (native_same_place(e, w, address, place))
		return NATIVE_PLACE;
	where = native_place(w, address, place);
	if (where == NATIVE_PLACE && place->image) {
		e->last = *place;
		e->last_space = w->snapshot->space;
	}
	return where;
}

static rule_t native_pending(struct walk *w, const struct native_place *place, uint64_t address)
{
	walk_end(w, UW_PENDING, UW_OK, address);
	w->res->pending = place->map->module;
	return rule_simple(RULE_NONE);
}

/* Have other processes than the walk's met the module? If not, by_vaddr has nothing that by_pc has
 * not (or had, before a full set dropped it), and its cache line, which is cold, need not be waited
 * for. */
static bool native_is_shared(struct native *e, const struct walk *w, uint32_t serial)
{
	struct native_user *user = &e->users[serial % NATIVE_USERS];
	uint32_t key = w->snapshot->space->key;

	if (user->serial == serial && user->key == key)
		return !key;
	user->key = user->serial ? 0 : key;
	user->serial = serial;
	return !user->key;
}

rule_t native_rule(struct native *e, struct walk *w, uint64_t address)
{
	struct rule_entry *entry = rule_cache_find(&e->by_pc, &w->key, address);
	struct native_place place;
	struct rule_key key;
	uint32_t serial;
	bool kept = true;
	rule_t rule;

	if (entry)
		return entry->rule & RULE_MASK;
	e->stats.cache_misses++;
	switch (native_miss_place(e, w, address, &place)) {
	case NATIVE_NO_MAP:
		return native_no_module(e, w);
	case NATIVE_PENDING:
		return native_pending(w, &place, address);
	default:
		break;
	}
	if (!place.image) {
		rule = rule_guess(place.why, RULE_FORM_UNKNOWN);
		e->not_readable |= place.why == RULE_NOT_READABLE;
		native_add(e, w, address, rule);
		return rule;
	}
	serial = uw_module_serial(place.map->module);
	key = rule_key(serial);
	rule_cache_prefetch(&e->by_vaddr, &key, place.vaddr);
	if (!(place.vaddr >> 48) && native_is_shared(e, w, serial))
		entry = rule_cache_find(&e->by_vaddr, &key, place.vaddr);
	if (entry) {
		e->stats.shared_hits++;
		rule = entry->rule & RULE_MASK;
	} else {
		rule = native_compile(e, w, &place, address, &kept);
		if (rule_kind(rule) == RULE_NONE)
			return native_pending(w, &place, address);
		if (kept && !(place.vaddr >> 48) && !e->no_memory &&
		    !uw_memory_wanted(w->snapshot->space->memory))
			rule_cache_put(&e->by_vaddr, &key, place.vaddr, rule);
	}
	/* A rule that cannot be known now may be known for the next snapshot, which may have a
	 * reader. */
	if (kept || native_has_code(w, address))
		native_add(e, w, address, rule);
	return rule;
}

/* A leaf's place, and the first lines that its rule is read from. */
static bool ahead_place(struct native *e, struct walk *w)
{
	struct rule_key key;

	if (rule_cache_find(&e->by_pc, &w->key, w->address) ||
	    native_miss_place(e, w, w->address, &w->ahead) != NATIVE_PLACE || !w->ahead.image ||
	    !cfi_has_table(w->ahead.image))
		return false;
	w->ahead_address = w->address;
	key = rule_key(uw_module_serial(w->ahead.map->module));
	rule_cache_prefetch(&e->by_vaddr, &key, w->ahead.vaddr);
	cfi_table_prefetch_slice(w->ahead.image, w->ahead.vaddr);
	return true;
}

void native_prefetch(struct native *e, struct walk *const *walks, size_t n)
{
	enum { LINE = 64 };
	struct walk *missing[UW_BATCH];
	size_t n_missing = 0;
	uint32_t offset;

	for (size_t i = 0; i < n; i++) {
		struct walk *w = walks[i];

		if (ahead_place(e, w))
			missing[n_missing++] = w;
	}
	for (size_t i = 0; i < n_missing; i++)
		cfi_table_prefetch_entries(missing[i]->ahead.image, missing[i]->ahead.vaddr);
	for (size_t i = 0; i < n_missing; i++) {
		struct native_place *place = &missing[i]->ahead;

		if (cfi_table_find(place->image, place->vaddr, &offset) != CFI_OK ||
		    offset == UINT32_MAX)
			continue;
		place->fde = offset + 1;
		__builtin_prefetch(place->image->eh_frame.data + offset);
		__builtin_prefetch(place->image->eh_frame.data + offset + LINE);
	}
}
