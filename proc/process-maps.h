/* process-maps.h - the executable mappings of one process.  Private to proc.  Thread: main.
 *
 *   struct process ──► process_maps (counted, one key) ──► process_chunk[] ──► process_map[]
 *                            ▲                                 ▲                ascending, no overlap
 *   fork's child ────────────┘                                 │
 *   a copy, made by the first of the two that changes it ──────┘   of the list; chunks stay shared
 *
 * A change copies or moves few chunks, and a new snapshot of the mappings copies the chunks that
 * changed: no list makes a record or a sample expensive.  Two chunks side by side have more than
 * half a chunk of mappings together, so there are few.
 *
 * The key follows from the sharing.  All snapshots that ever had one key must agree wherever two of
 * them have a mapping (struct uw_space).  A list with one user may grow into free areas under its
 * key: earlier users of the key left it with a subset.  A list that is shared is copied first, with
 * a new key, or else parent and child could both grow into the same area.  A change that ends or
 * alters a mapping takes a new key. */
#pragma once

#include "proc/process.h"

enum {
	PROCESS_MAX_MAPS = 65536,
	PROCESS_MAX_THREADS = 65536,
	PROCESS_MAX_LOG = 1024,
	PROCESS_MAX_ENDED = 4096,
	PROCESS_PATH_MAX = 4096,
	PROCESS_CHUNK = 256,
};

struct process_map {
	uint64_t start, end;
	uint64_t offset;	  /* JIT areas and those without a module: 0 */
	struct uw_module *module; /* a reference; NULL: none */
	struct uw_file_id id;
};

struct process_chunk {
	_Atomic uint32_t refs;
	uint32_t n, room;     /* mappings; at most PROCESS_CHUNK */
	struct uw_maps *part; /* the same for a space; NULL: not made since the last change */
	struct process_map maps[];
};

struct process_maps {
	_Atomic uint32_t refs;
	uint32_t key;
	size_t n; /* mappings */
	size_t n_chunks, room;
	struct process_chunk **chunks; /* none is empty */
};

/* Of a mapping, or the end: behind the last one. */
struct process_place {
	size_t chunk, at;
};

int process_maps_new(struct process_maps **ret_maps);
static inline struct process_maps *process_maps_ref(struct process_maps *maps)
{
	atomic_fetch_add_explicit(&maps->refs, 1, memory_order_relaxed);
	return maps;
}
struct process_maps *process_maps_unref(struct process_maps *maps);
static inline void process_maps_unrefp(struct process_maps **maps)
{
	(void)process_maps_unref(*maps);
}

/* The first mapping that ends behind @address, or the end. */
struct process_place process_maps_at(const struct process_maps *maps, uint64_t address);
struct process_place process_maps_next(const struct process_maps *maps, struct process_place place);
/* NULL at the end. */
static inline const struct process_map *process_maps_get(const struct process_maps *maps,
							 struct process_place place)
{
	return place.chunk < maps->n_chunks ? &maps->chunks[place.chunk]->maps[place.at] : NULL;
}
/* For all mappings of @list: `const struct process_map *@m`. */
#define process_maps_each(list, m)                                                      \
	for (struct process_place place_ = {0}; ((m) = process_maps_get(list, place_)); \
	     place_ = process_maps_next(list, place_))
/* A snapshot of all mappings; chunks that did not change since an earlier one are shared with it. */
int process_maps_space(const struct process_maps *maps, struct uw_memory *memory,
		       struct uw_space **ret_space);
/* Puts @map (its module is borrowed) over the mappings there; !exec: only ends those that it covers.
 * *maps may become another list.  *ret_changed is set when anything changes, else left alone. */
int process_maps_put(struct process_maps **maps, const struct process_map *map, bool exec,
		     bool *ret_changed);
/* Consumes @fresh, the mappings according to a text, and puts it in place of *maps.  The key stays
 * when the text has all known mappings and no other process shares the list.  *ret_changed is set
 * when the two differ, else left alone. */
void process_maps_adopt(struct process_maps **maps, struct process_maps *fresh, bool *ret_changed);

/* Records kept while a text is being read. */
struct process_log {
	size_t n, room;
	bool overflowed; /* ask again */
	struct process_log_entry {
		struct process_map map; /* holds a reference on the module */
		bool exec;
	} * entries;
};
/* Keeps a record, if a text is being read. */
void process_log_add(struct process *process, const struct process_map *map, bool exec);
struct process_log *process_log_free(struct process_log *log);

/* The kind of a mapping, by its path. */
enum path_kind {
	PATH_FILE,
	PATH_JIT,     /* anonymous memory, or a file without a name */
	PATH_JITDUMP, /* jit-PID.dump, mapped by a JIT compiler for profilers to see */
	PATH_VDSO,
	PATH_NONE, /* the kernel's own: [vsyscall], [uprobes] */
};
enum path_kind process_path_kind(const char *path, bool has_build_id);
/* Sets map->module to the module of @path, a new reference or NULL, and map->offset as that kind of
 * module needs it. */
int process_map_resolve(struct process_table *table, struct process *process, const char *path,
			struct process_map *map);

/* ---- process.c ---- */
struct process_table {
	struct uw_modules *modules; /* borrowed */
	size_t max;
	struct table by_pid;
	/* in order of use; exited processes have a list of their own and are removed first */
	struct process_order {
		struct process *oldest, *newest;
		size_t n;
	} living, exited;
	uint64_t serial, exits;
	bool interpreters;
	struct process_vdso {
		uint64_t size;
		struct uw_module *module;
	} vdsos[4];
};
/* NULL when out of memory or past the limit. */
static inline void process_unrefp(struct process **process)
{
	(void)process_unref(*process);
}
