/* space.c - see space.h.  Immutable once made, so that any thread may look and count. */
#include <errno.h>
#include <stdatomic.h>

#include "base/error.h"
#include "unwinder/space.h"

static int space_check(const struct uw_map *maps, size_t n_maps)
{
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].start >= maps[i].end || (i && maps[i].start < maps[i - 1].end))
			return -EINVAL; /* the caller must sort the kernel's mappings; its order is checked */
	return 0;
}

int uw_space_new(const struct uw_map *maps, size_t n_maps, uint32_t key, struct uw_memory *memory,
		 struct uw_space **ret_space)
{
	struct uw_space *space;
	int r;

	r = space_check(maps, n_maps);
	if (r < 0)
		return fail(r);
	if (n_maps > (SIZE_MAX / 2 - sizeof(*space)) / sizeof(*maps))
		return fail(-ENOMEM);
	space = malloc(sizeof(*space) + n_maps * sizeof(*maps));
	if (!space)
		return fail(-ENOMEM);
	atomic_init(&space->refs, 1);
	space->key = key;
	space->memory = memory;
	space->n_maps = n_maps;
	for (size_t i = 0; i < n_maps; i++) {
		space->maps[i] = maps[i];
		if (maps[i].module)
			uw_module_ref(maps[i].module);
	}
	*ret_space = space;
	return 0;
}

struct uw_space *uw_space_ref(struct uw_space *space)
{
	atomic_fetch_add_explicit(&space->refs, 1, memory_order_relaxed);
	return space;
}

struct uw_space *uw_space_unref(struct uw_space *space)
{
	if (!space || atomic_fetch_sub_explicit(&space->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < space->n_maps; i++)
		uw_module_unref(space->maps[i].module);
	free(space);
	return NULL;
}

const struct uw_map *uw_space_find(const struct uw_space *space, uint64_t pc)
{
	const struct uw_map *map = space->maps;
	size_t n = space->n_maps;

	if (!n)
		return NULL;
	/* The last mapping that starts at or before pc; no branch to mispredict in the loop. */
	while (n > 1) {
		size_t half = n / 2;

		map = map[half].start <= pc ? map + half : map;
		n -= half;
	}
	return pc >= map->start && pc < map->end ? map : NULL;
}

uint64_t uw_map_vaddr(const struct uw_map *map, uint64_t pc)
{
	if (!map->module || uw_module_kind(map->module) == UW_MODULE_JIT)
		return pc;
	return uw_module_vaddr(map->module, pc - map->start + map->offset);
}
