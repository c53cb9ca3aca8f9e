/* oracle.c - see oracle.h. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/oracle.h"

void oracle_space_drop(struct oracle_spaces *spaces, struct oracle_space *slot)
{
	if (slot->handle)
		spaces->drop(slot->handle);
	for (size_t i = 0; i < slot->n_modules; i++)
		free(slot->modules[i].made_table);
	free(slot->modules);
	uw_regions_deinit(&slot->regions);
	uw_space_unref(slot->held);
	*slot = (struct oracle_space){0};
}

void oracle_spaces_deinit(struct oracle_spaces *spaces)
{
	for (size_t i = 0; i < ORACLE_SPACES; i++)
		oracle_space_drop(spaces, &spaces->slots[i]);
}

static bool oracle_space_is(const struct oracle_space *slot, const struct uw_space *space)
{
	return slot->handle && slot->key == space->key && (slot->key || slot->held == space);
}

struct oracle_space *oracle_spaces_get(struct oracle_spaces *spaces, struct uw_space *space)
{
	struct oracle_space *slot = &spaces->slots[spaces->last], *oldest = slot;

	if (!oracle_space_is(slot, space)) {
		for (slot = spaces->slots; slot < spaces->slots + ORACLE_SPACES; slot++) {
			if (oracle_space_is(slot, space))
				break;
			if (slot->used < oldest->used)
				oldest = slot;
		}
		if (slot == spaces->slots + ORACLE_SPACES) {
			slot = oldest;
			oracle_space_drop(spaces, slot);
			slot->key = space->key;
			slot->held = space->key ? NULL : uw_space_ref(space);
		}
		spaces->last = (size_t)(slot - spaces->slots);
	}
	slot->used = ++spaces->tick;
	return slot;
}

void oracle_spaces_forget(struct oracle_spaces *spaces, const struct uw_module *module)
{
	for (struct oracle_space *slot = spaces->slots; slot < spaces->slots + ORACLE_SPACES;
	     slot++) {
		bool knows = !module;

		for (size_t i = 0; i < slot->n_modules && !knows; i++)
			knows = slot->modules[i].module == module;
		if (knows)
			oracle_space_drop(spaces, slot);
	}
}

static int oracle_stop(struct uw_result *res, enum uw_outcome outcome, enum uw_reason reason,
		       uint64_t pc)
{
	uw_result_end(res, outcome, reason, pc);
	return ORACLE_STOP;
}

static int oracle_module_add(struct oracle_space *slot, const struct uw_map *map, uint64_t bias,
			     struct oracle_module **ret_module)
{
	const struct uw_image *image = uw_module_image(map->module);
	const struct uw_section *sections[] = {&image->eh_frame_hdr, &image->eh_frame,
					       &image->debug_frame};
	struct oracle_module *more;

	more = reallocarray(slot->modules, slot->n_modules + 1, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	slot->modules = more;
	/* .debug_frame is not part of the process: its vaddr is 0 and it is read by offset, never
	 * by address. */
	for (size_t i = 0; i < 2; i++) {
		int r = 0;

		if (sections[i]->data && sections[i]->size)
			r = uw_regions_add(&slot->regions, sections[i]->vaddr + bias,
					   sections[i]->data, sections[i]->size);
		if (r == -ENOMEM)
			return trace(r);
	}
	more[slot->n_modules] =
		(struct oracle_module){.module = map->module, .image = image, .bias = bias};
	*ret_module = &more[slot->n_modules++];
	return 0;
}

int oracle_module_at(struct oracle_space *slot, const struct uw_space *space, uint64_t pc,
		     struct uw_result *res, struct oracle_module **ret_module)
{
	const struct uw_map *map = uw_space_find(space, pc);
	uint64_t bias;
	int r;

	if (!map)
		return oracle_stop(res, UW_FAILED, UW_NO_MODULE, pc);
	if (!map->module || uw_module_kind(map->module) == UW_MODULE_JIT)
		return ORACLE_NO_INFO;
	switch (uw_module_unwind_state(map->module)) {
	case UW_MODULE_READY:
		break;
	case UW_MODULE_UNREADABLE:
		return oracle_stop(res, UW_FAILED, UW_UNREADABLE, pc);
	case UW_MODULE_NEW:
	case UW_MODULE_WANTED:
	default:
		res->pending = map->module;
		return oracle_stop(res, UW_PENDING, UW_OK, pc);
	}
	bias = pc - uw_map_vaddr(map, pc);
	for (size_t i = 0; i < slot->n_modules; i++) {
		if (slot->modules[i].module == map->module && slot->modules[i].bias == bias) {
			*ret_module = &slot->modules[i];
			return ORACLE_READY;
		}
	}
	r = oracle_module_add(slot, map, bias, ret_module);
	return r < 0 ? trace(r) : ORACLE_NEW;
}
