/* native-chain.c - see native.h.  Engine fp: a callchain that the kernel made of frame pointers, checked
 * against CFI.
 *
 * The kernel takes [rbp + 8] for the caller, whatever rbp is.  CFI states where that is true:
 *
 *     keeps   [rbp] and [rbp + 8] are the caller's rbp and the return address
 *     loses   the function has no frame record: its caller is missing, or rbp is any number
 *     root    the return address is undefined
 *
 * A callchain is whole where it ends at a root.  Mostly it ends one or two functions before it, as the C
 * library's first functions have no frame pointer and clear rbp.  This kind of end is learned from callchains
 * in which every other caller keeps the frame pointer; it is a root of all processes then.  A callchain
 * with a function that loses is whole where it ends at a root, too, but the frames behind that function
 * are guesses: an interrupted one often loses its caller alone.
 *
 * Where the files of its modules are gone (a recording from another machine), a callchain that does not end
 * at a root is whole and `unchecked`: nothing states that a caller is not missing.
 *
 * Code without CFI proves nothing: a callchain that ends in it is whole and `unchecked`, too.  Go's CFI does not state where
 * rbp is, but its compiler keeps frame pointers, to the root. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/native.h"

/* Of an address: RULE_FP keeps, RULE_SP loses, RULE_ROOT, RULE_CHAIN Go's, RULE_GUESS unknown. */
static enum rule_kind chain_kind(const struct cfi_fde *fde, const struct cfi_row *row)
{
	const struct uw_machine *m = row->machine;
	const struct cfi_reg *fp = &row->regs[m->fp], *ra = &row->regs[row->ra];

	if (ra->where == CFI_UNDEFINED)
		return RULE_ROOT;
	/* An entry of a PLT: its CFA is an expression. */
	if (row->cfa.where == CFI_VAL_EXPRESSION && fp->where == CFI_UNSPECIFIED && !row->signal)
		return RULE_SP;
	if (native_is_by_go(fde))
		return RULE_CHAIN;
	if (row->signal || row->cfa.where == CFI_VAL_EXPRESSION ||
	    (row->cfa_register != m->sp && row->cfa_register != m->fp))
		return RULE_GUESS;
	/* x86-64: before mov %rsp,%rbp the record is there, and rbp is the caller's. */
	return ra->where == CFI_OFFSET && fp->where == CFI_OFFSET && ra->value == fp->value + 8 &&
			       (m->link || row->cfa_register == m->fp)
		       ? RULE_FP
		       : RULE_SP;
}

/* The module and vaddr of an address, and its kind. */
struct chain_place {
	struct native_place place;
	enum rule_kind kind;
	bool unread; /* RULE_GUESS, as the module's file could not be read */
};

static enum native_where chain_look(struct native *e, const struct uw_snapshot *s, uint64_t address,
				    struct chain_place *ret)
{
	const struct uw_map *map = uw_space_find(s->space, address);
	struct rule_key key = rule_key(s->space->key);
	const struct rule_entry *entry;
	struct cfi_fde fde;
	struct cfi_row row;

	if (!map)
		return NATIVE_NO_MAP;
	*ret = (struct chain_place){.place.map = map, .kind = RULE_GUESS};
	if (!map->module || uw_module_kind(map->module) == UW_MODULE_JIT)
		return NATIVE_PLACE;
	ret->place.vaddr = uw_map_vaddr(map, address);
	entry = s->space->key ? rule_cache_find(&e->by_pc, &key, address) : NULL;
	if (entry) {
		ret->kind = rule_kind(entry->rule);
		return NATIVE_PLACE;
	}
	switch (uw_module_unwind_state(map->module)) {
	case UW_MODULE_READY:
		break;
	case UW_MODULE_UNREADABLE:
		ret->unread = true;
		return NATIVE_PLACE;
	default:
		return NATIVE_PENDING;
	}
	e->stats.cache_misses++;
	ret->place.image = uw_module_image(map->module);
	if (native_row(e, &ret->place, 0, &fde, &row) == CFI_OK)
		ret->kind = chain_kind(&fde, &row);
	if (s->space->key && !e->no_memory)
		rule_cache_add(&e->by_pc, &key, address, rule_simple(ret->kind));
	return NATIVE_PLACE;
}

/* ---- ends that were learned ---- */

static struct native_end *chain_end_of(struct native *e, const struct native_place *place)
{
	uint64_t serial = place->map->module ? uw_module_serial(place->map->module) : 0;

	return &e->ends[hash_u64(place->vaddr ^ serial << 32) % NATIVE_ENDS];
}

static bool chain_is_end(struct native *e, const struct native_place *place)
{
	const struct native_end *end = chain_end_of(e, place);

	return place->map->module && end->vaddr == place->vaddr &&
	       end->serial == uw_module_serial(place->map->module);
}

static void chain_learn(struct native *e, const struct native_place *place)
{
	*chain_end_of(e, place) = (struct native_end){
		.vaddr = place->vaddr, .serial = uw_module_serial(place->map->module)};
}

/* ---- a callchain ---- */

struct chain {
	const struct uw_snapshot *snapshot;
	struct uw_result *res;
	uint64_t lost, lost_caller; /* the first function, the first caller that loses and is not
				       the last; 0: none */
	bool kept;		    /* a caller keeps the frame pointer */
	bool unread;		    /* a function with unreadable unwind information */
};

/* The last frame is not a root. */
static void chain_ends(struct native *e, const struct chain *c, const struct chain_place *last)
{
	uint64_t pc = uw_frame_pc(c->res->frames[c->res->n_frames - 1]);

	if (c->lost_caller || (c->lost && !c->kept))
		uw_result_end(c->res, UW_FAILED, UW_NO_UNWIND_INFO, c->lost);
	else if (last->kind == RULE_FP) /* a page that is not there, or the kernel's limit */
		uw_result_end(c->res, UW_CUT, UW_OK, pc);
	else if (last->kind == RULE_SP && !c->kept && !c->unread)
		uw_result_end(c->res, UW_FAILED, UW_NO_UNWIND_INFO, pc);
	else
		uw_result_end(c->res, UW_WHOLE, UW_OK, 0);
	c->res->unchecked = (c->unread || last->kind == RULE_GUESS) && c->res->outcome == UW_WHOLE;
	if (last->kind == RULE_SP && c->res->outcome == UW_WHOLE && !c->unread)
		chain_learn(e, &last->place);
}

/* Frame @i.  false: the callchain has ended. */
static bool chain_step(struct native *e, struct chain *c, uint32_t i)
{
	uint64_t pc = uw_frame_pc(c->snapshot->chain[i]);
	uint64_t frame = pc | (i ? UW_FRAME_CALLER : 0) | (c->lost ? UW_FRAME_GUESSED : 0);
	bool last = i == c->snapshot->n_chain - 1;
	struct uw_result *res = c->res;
	struct chain_place at = {.kind = RULE_GUESS};
	enum native_where where;

	if (res->n_frames == res->max_frames || res->n_frames == UW_MAX_FRAMES) {
		uw_result_end(res, UW_CUT, UW_TOO_DEEP, pc);
		return false;
	}
	where = c->snapshot->check_chain ? chain_look(e, c->snapshot, uw_frame_lookup(frame), &at)
					 : NATIVE_PLACE;
	if (where == NATIVE_PENDING) {
		uw_result_end(res, UW_PENDING, UW_OK, pc);
		res->pending = at.place.map->module;
		return false;
	}
	if (where == NATIVE_PLACE || !i)
		res->frames[res->n_frames++] = frame;
	if (where == NATIVE_NO_MAP) {
		uw_result_end(res, UW_FAILED, UW_NO_MODULE, pc);
		return false;
	}
	if (at.kind == RULE_ROOT || (at.place.map && chain_is_end(e, &at.place)) ||
	    (last && !c->snapshot->check_chain)) {
		uw_result_end(res, UW_WHOLE, UW_OK, 0);
		res->unchecked = !c->snapshot->check_chain;
		return false;
	}
	c->unread |= at.unread;
	if (last) {
		chain_ends(e, c, &at);
		return false;
	}
	if (at.kind == RULE_SP && !c->lost)
		c->lost = pc;
	if (at.kind == RULE_SP && i && !c->lost_caller)
		c->lost_caller = pc;
	c->kept |= i && at.kind == RULE_FP;
	return true;
}

int native_chains(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		  struct uw_result *results)
{
	struct native *e = container_of(engine, struct native, engine);

	e->no_memory = false;
	for (size_t i = 0; i < n; i++) {
		struct chain c = {.snapshot = &snapshots[i], .res = &results[i]};
		uint32_t at = 0;

		c.res->n_frames = 0;
		c.res->pending = NULL;
		c.res->completed = c.res->unchecked = c.res->by_fp = c.res->lacks_functions = false;
		if (!snapshots[i].n_chain) {
			uw_result_end(c.res, UW_FAILED, UW_NO_USER_STATE, 0);
			continue;
		}
		while (chain_step(e, &c, at))
			at++;
		e->stats.frames += c.res->n_frames;
	}
	return e->no_memory ? fail(-ENOMEM) : 0;
}
