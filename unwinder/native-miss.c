/* native-miss.c - see native.h.  A miss in the cache by pc.
 *
 *   by_pc      miss: a pc not met in this process
 *     -> map     binary search
 *     -> by_vaddr  hit: the same code met in another process (a parallel build: nearly always)
 *       -> .eh_frame_hdr -> FDE -> its program -> rule, put into both
 *
 * What can change is not cached: no mapping, or a module that waits for its loading.
 *
 * Each arrow is a line of memory that nobody had for a while and that says where the next one is.  Of
 * leaves sixteen are known at once, so those that miss go down the arrows side by side. */
#include "unwinder/native.h"

/* A caller in no mapping is no caller: what stands on the stack there is not a return address. */
static rule_t native_no_module(struct native *e, struct walk *w)
{
	uint64_t frame = w->frames[w->n - 1];

	/* But for a signal trampoline that is the first of its mapping. */
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

/* Key 0 promises nothing about other spaces of key 0. */
void native_note(struct native *e, struct walk *w, uint64_t address, rule_t rule)
{
	if (w->snapshot->space->key)
		rule_cache_put(&e->by_pc, &w->key, address, rule);
}

static void native_add(struct native *e, struct walk *w, uint64_t address, rule_t rule)
{
	if (w->snapshot->space->key)
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

	if (w->ahead_address == address) {
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

/* Have other processes than the walk's met the module?  Else by_vaddr has nothing that by_pc has not (or
 * had, where a full set dropped it), and its line, which nobody had for a while, need not be waited
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
		if (kept && !(place.vaddr >> 48) && !e->no_memory)
			rule_cache_put(&e->by_vaddr, &key, place.vaddr, rule);
	}
	/* What nobody can tell now a reader may tell the next snapshot. */
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

void native_ahead(struct native *e, struct walk *const *walks, size_t n)
{
	enum { LINE = 64 };
	struct walk *missing[UW_BATCH];
	size_t n_missing = 0;
	uint32_t offset;
	rule_t rule;

	for (size_t i = 0; i < n; i++) {
		struct walk *w = walks[i];

		if (!rule_cache_at(w->entry, &w->key, w->address, &rule) && ahead_place(e, w))
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
