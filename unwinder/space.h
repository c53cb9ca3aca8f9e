/* space.h - the executable mappings of a process at one time.  Spaces are immutable and counted.
 * Thread: any. */
#pragma once

#include "symbols/module.h"

/* One executable mapping.  Not overlapping, ascending by start. */
struct uw_map {
	uint64_t start, end, offset; /* offset: in the module's file (memory modules: 0) */
	struct uw_module *module;    /* NULL: an unknown module (JIT, anonymous) */
};

/* A run of mappings, shared by all spaces that have it.  Immutable, counted, not empty. */
struct uw_maps {
	_Atomic uint32_t refs;
	uint32_t n;
	struct uw_map maps[];
};

/* The executable mappings of a process at one time.  Immutable. Two spaces with the same non-zero
 * key agree wherever both have a mapping (a fork's child; the same process after a dlopen into a
 * free area): cached rules are keyed by (key, pc).
 *
 *   space ──► parts[] ──► maps ──► map map map ...
 *   space of a moment later ──► the same runs but one */
struct uw_space {
	_Atomic uint32_t refs;
	uint32_t key;
	struct uw_memory
		*memory; /* for deep stacks; may be NULL.  Borrowed, must outlive the space */
	struct uw_module
		*script; /* of the process's interpreter (module.h); NULL: none.  A reference */
	size_t n_maps, n_parts;
	struct uw_part {
		uint64_t start; /* of its first mapping */
		struct uw_maps *maps;
	} parts[];
};

/* Copies @maps (at least one), takes a reference on each module.  -ENOMEM; -EINVAL when not
 * ascending. */
int uw_maps_new(const struct uw_map *maps, size_t n, struct uw_maps **ret_maps);
struct uw_maps *uw_maps_unref(struct uw_maps *maps);
/* A space of these runs, in this order; takes a reference on each.  Errors as in uw_maps_new(). */
int uw_space_of_parts(struct uw_maps *const *parts, size_t n_parts, uint32_t key,
		      struct uw_memory *memory, struct uw_space **ret_space);
/* A space of one run. */
int uw_space_new(const struct uw_map *maps, size_t n_maps, uint32_t key, struct uw_memory *memory,
		 struct uw_space **ret_space);
/* Before any other has the space: takes a reference on @script. */
void uw_space_set_script(struct uw_space *space, struct uw_module *script);
struct uw_space *uw_space_ref(struct uw_space *space);
struct uw_space *uw_space_unref(struct uw_space *space);
/* Bytes of all spaces and runs in this program. */
size_t uw_spaces_held(void);
/* The end of the highest mapping; 0: there is none. */
uint64_t uw_space_end(const struct uw_space *space);
/* The mapping with this number, which is below n_maps.  Borrowed. */
const struct uw_map *uw_space_map(const struct uw_space *space, size_t index);
/* The mapping that holds @pc, or NULL.  Borrowed. */
const struct uw_map *uw_space_find(const struct uw_space *space, uint64_t pc);
/* The virtual address of a pc in a mapping: the argument of addr2line, Perfetto's rel_pc.  JIT
 * modules: the pc itself. */
uint64_t uw_map_vaddr(const struct uw_map *map, uint64_t pc);
