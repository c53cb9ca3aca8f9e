/* process-map-nth.h - for tests: a mapping by its number. */
#pragma once

#include "proc/process-maps.h"

/* NULL: there are not so many. */
static inline const struct process_map *process_map_nth(const struct process_maps *maps, size_t n)
{
	const struct process_map *m;

	process_maps_each(maps, m) if (!n--) return m;
	return NULL;
}
