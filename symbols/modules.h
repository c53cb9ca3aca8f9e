/* modules.h - the set of modules known, each once however many processes map it.  Thread: main.
 *
 * A mapping names its file by build id, or by device and inode (one MMAP2 record has one or the
 * other), and by path.  The set joins both ways: a module found by inode that turns out (by
 * loading) to have build id B is the module of B from then on. */
#pragma once

#include "symbols/module.h"

struct uw_modules;
int uw_modules_new(struct uw_modules **ret_modules);
struct uw_modules *uw_modules_free(struct uw_modules *modules);
/* The module of a mapping, made if new.  Returns a new reference.  @id may be NULL: by path alone.
 * With 16,384 modules the set drops old ones that have no other references. */
int uw_modules_get(struct uw_modules *modules, const char *path, const struct uw_file_id *id,
		   struct uw_module **ret_module);
/* After a load: joins modules by the image's own build id. */
int uw_modules_loaded(struct uw_modules *modules, struct uw_module *module);
/* A module of its own (vDSO, JIT area), not shared by key. */
int uw_modules_add(struct uw_modules *modules, enum uw_module_kind kind, const char *path,
		   struct uw_module **ret_module);

/* Does nothing refer to @module but the set and @owners others? */
bool uw_modules_has_owners(const struct uw_module *module, uint32_t owners);
/* Modules that no process maps and nothing else refers to are forgotten.  Where the unwind half is loaded, and @drop_unwind is not
 * NULL, it is dropped first: as in struct uw_modules_limit; the next call forgets the module. */
int uw_modules_forget_unused(struct uw_modules *modules,
			     int (*drop_unwind)(struct uw_module *module, void *arg), void *arg);
/* How many there are. */
size_t uw_modules_n(const struct uw_modules *modules);
/* Memory of the set itself: paths and keys, without what was loaded of the modules. */
size_t uw_modules_set_bytes(const struct uw_modules *modules);

/* Notes a use for the eviction order. */
void uw_modules_touch(struct uw_modules *modules, struct uw_module *module);
/* Memory held by all. */
size_t uw_modules_bytes(const struct uw_modules *modules);
/* By half, and the descriptors that images keep. Without the memory of an open DWARF. */
struct uw_modules_held {
	size_t unwind, symbols, files;
};
void uw_modules_count(const struct uw_modules *modules, struct uw_modules_held *ret_held);

/* The limit for the halves of all modules. The rest of 64 MiB is for the engine's own caches and
 * for modules that a stack loads before the next check. */
enum { UW_MODULES_BYTES = 58 << 20 };
/* Modules over a limit: the least recently used are dropped, both halves, until those that are left
 * are within it.  They are loaded again when they are needed again: the meaning of addresses (the
 * layout) stays, and a file that was replaced meanwhile is rejected. */
struct uw_modules_limit {
	size_t bytes;
	size_t files; /* descriptors that images keep for engines that read the file */
	size_t most;  /* modules to drop in one call; 0: any number */
	/* true ends the call: a module in use would be loaded again at once. NULL: none is in use.
	 */
	bool (*in_use)(const struct uw_module *module, void *arg);
	/* uw_engine_drop() by the thread that has the engine, now or later; < 0 ends the call.
	 * NULL: that thread is busy, and only symbols are counted and dropped. */
	int (*drop_unwind)(struct uw_module *module, void *arg);
	void *arg;
};
int uw_modules_keep_small(struct uw_modules *modules, const struct uw_modules_limit *limit);
void uw_modules_for_each(struct uw_modules *modules,
			 void (*visit)(struct uw_module *module, void *arg), void *arg);
