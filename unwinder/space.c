/* space.c - see space.h.  Immutable once made, so that any thread may look and count. */
#include <errno.h>
#include <stdatomic.h>

#include "base/error.h"
#include "unwinder/space.h"

static _Atomic size_t held;

size_t uw_spaces_held(void)
{
	return atomic_load_explicit(&held, memory_order_relaxed);
}

static void hold(size_t bytes)
{
	(void)atomic_fetch_add_explicit(&held, bytes, memory_order_relaxed);
}

static void let_go(size_t bytes)
{
	(void)atomic_fetch_sub_explicit(&held, bytes, memory_order_relaxed);
}

static int maps_check(const struct uw_map *maps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (maps[i].start >= maps[i].end || (i && maps[i].start < maps[i - 1].end))
			return -EINVAL; /* the caller must sort the kernel's mappings; its order is checked */
	return 0;
}

static size_t maps_bytes(size_t n)
{
	return sizeof(struct uw_maps) + n * sizeof(struct uw_map);
}

int uw_maps_new(const struct uw_map *maps, size_t n, struct uw_maps **ret_maps)
{
	struct uw_maps *new;
	int r = maps_check(maps, n);

	if (r < 0)
		return fail(r);
	if (n > UINT32_MAX)
		return fail(-ENOMEM);
	new = malloc(maps_bytes(n));
	if (!new)
		return fail(-ENOMEM);
	atomic_init(&new->refs, 1);
	new->n = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		new->maps[i] = maps[i];
		if (maps[i].module)
			uw_module_ref(maps[i].module);
	}
	hold(maps_bytes(n));
	*ret_maps = new;
	return 0;
}

static struct uw_maps *maps_ref(struct uw_maps *maps)
{
	atomic_fetch_add_explicit(&maps->refs, 1, memory_order_relaxed);
	return maps;
}

struct uw_maps *uw_maps_unref(struct uw_maps *maps)
{
	if (!maps || atomic_fetch_sub_explicit(&maps->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < maps->n; i++)
		uw_module_unref(maps->maps[i].module);
	let_go(maps_bytes(maps->n));
	free(maps);
	return NULL;
}

static size_t space_bytes(size_t n_parts)
{
	return sizeof(struct uw_space) + n_parts * sizeof(struct uw_part);
}

int uw_space_of_parts(struct uw_maps *const *parts, size_t n_parts, uint32_t key,
		      struct uw_memory *memory, struct uw_space **ret_space)
{
	struct uw_space *space;

	for (size_t i = 1; i < n_parts; i++)
		if (parts[i]->maps[0].start < parts[i - 1]->maps[parts[i - 1]->n - 1].end)
			return fail(-EINVAL);
	space = malloc(space_bytes(n_parts));
	if (!space)
		return fail(-ENOMEM);
	*space = (struct uw_space){.key = key, .memory = memory, .n_parts = n_parts};
	atomic_init(&space->refs, 1);
	for (size_t i = 0; i < n_parts; i++) {
		space->n_maps += parts[i]->n;
		space->parts[i] = (struct uw_part){parts[i]->maps[0].start, maps_ref(parts[i])};
	}
	hold(space_bytes(n_parts));
	*ret_space = space;
	return 0;
}

int uw_space_new(const struct uw_map *maps, size_t n_maps, uint32_t key, struct uw_memory *memory,
		 struct uw_space **ret_space)
{
	struct uw_maps *run = NULL;
	int r = n_maps ? uw_maps_new(maps, n_maps, &run) : 0;

	if (r < 0)
		return trace(r);
	r = uw_space_of_parts(&run, n_maps > 0, key, memory, ret_space);
	(void)uw_maps_unref(run);
	return r < 0 ? trace(r) : 0;
}

void uw_space_set_script(struct uw_space *space, struct uw_module *script)
{
	space->script = uw_module_ref(script);
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
	for (size_t i = 0; i < space->n_parts; i++)
		(void)uw_maps_unref(space->parts[i].maps);
	(void)uw_module_unref(space->script);
	let_go(space_bytes(space->n_parts));
	free(space);
	return NULL;
}

uint64_t uw_space_end(const struct uw_space *space)
{
	const struct uw_maps *last = space->n_parts ? space->parts[space->n_parts - 1].maps : NULL;

	return last ? last->maps[last->n - 1].end : 0;
}

const struct uw_map *uw_space_map(const struct uw_space *space, size_t index)
{
	const struct uw_part *part = space->parts;

	for (; index >= part->maps->n; part++)
		index -= part->maps->n;
	return &part->maps->maps[index];
}

const struct uw_map *uw_space_find(const struct uw_space *space, uint64_t pc)
{
	const struct uw_part *part = space->parts;
	const struct uw_map *map;
	size_t n = space->n_parts;

	if (!n)
		return NULL;
	/* The last part, then mapping, that starts at or before pc; no branch to mispredict in the
	 * loops. */
	while (n > 1) {
		size_t half = n / 2;

		part = part[half].start <= pc ? part + half : part;
		n -= half;
	}
	map = part->maps->maps;
	n = part->maps->n;
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
