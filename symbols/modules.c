/* modules.c - see modules.h.
 *
 *   keys      hash -> list of keys; a key is the bytes of a build id, of a file's device, inode and
 *             generation, or (when nothing else is known) of a path.  Several keys may lead to one
 *             entry.
 *   entries   one a module, in a list by last use
 *
 * A build id has priority over the inode (a file may be rewritten in place), which has priority
 * over the path. The bytes are compared, never hashes alone: a target may choose its build id. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "symbols/modules.h"
#include "symbols/parts.h"

enum {
	MODULES_MAX = 16384, /* beyond it, modules without other references are dropped */
	KEYS_MAX = 64, /* of one entry: one build id at more places than that is looked up by it
			  alone */
	PRUNE_STEPS = 64,
};

enum key_kind { KEY_BUILD_ID = 'b', KEY_FILE = 'f', KEY_PATH = 'p' };

struct key {
	struct key *next;     /* same hash */
	struct key *next_own; /* same entry */
	struct entry *entry;
	uint64_t hash;
	size_t len;
	uint8_t bytes[]; /* the first is the kind */
};

struct entry {
	struct uw_module *module;
	struct entry *older, *newer;
	struct key *keys;
	unsigned n_keys;
};

struct uw_modules {
	struct table keys;
	struct entry *oldest, *newest;
	size_t n;
	size_t bytes; /* of keys, entries and paths */
};

/* The bytes of a key of fixed size, on the stack. */
struct key_bytes {
	uint8_t bytes[64];
	size_t len;
};

static struct key_bytes build_id_key(const struct uw_build_id *id)
{
	struct key_bytes k = {.bytes = {KEY_BUILD_ID}, .len = 1u + id->len};

	memcpy(k.bytes + 1, id->bytes, id->len);
	return k;
}

static struct key_bytes file_key(const struct uw_file_id *id)
{
	const uint64_t words[] = {(uint64_t)id->major << 32 | id->minor, id->inode, id->generation};
	struct key_bytes k = {.bytes = {KEY_FILE}, .len = 1 + sizeof(words)};

	memcpy(k.bytes + 1, words, sizeof(words));
	return k;
}

/* ---- the order of use ---- */

static void list_remove(struct uw_modules *modules, struct entry *e)
{
	*(e->older ? &e->older->newer : &modules->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &modules->newest) = e->older;
	e->older = e->newer = NULL;
}

static void list_add(struct uw_modules *modules, struct entry *e)
{
	e->older = modules->newest;
	*(e->older ? &e->older->newer : &modules->oldest) = e;
	modules->newest = e;
}

/* ---- keys ---- */

static struct key *find_key(const struct uw_modules *modules, const void *bytes, size_t len)
{
	struct key *key = table_pointer(&modules->keys, hash_bytes(bytes, len));

	while (key && (key->len != len || memcmp(key->bytes, bytes, len) != 0))
		key = key->next;
	return key;
}

static void own_key(struct entry *e, struct key *key)
{
	key->entry = e;
	key->next_own = e->keys;
	e->keys = key;
	e->n_keys++;
}

static void disown_key(struct key *key)
{
	struct key **at = &key->entry->keys;

	while (*at != key)
		at = &(*at)->next_own;
	*at = key->next_own;
	key->entry->n_keys--;
}

/* With its slot in the table. */
static size_t key_size(const struct key *key)
{
	return sizeof(*key) + key->len + 48;
}

/* Makes the key lead to @e, wherever it led before. */
static int set_key(struct uw_modules *modules, struct entry *e, const void *bytes, size_t len)
{
	struct key *key = find_key(modules, bytes, len);
	int r;

	if (key && key->entry == e)
		return 0;
	if (key) {
		disown_key(key);
		own_key(e, key);
		return 0;
	}
	if (e->n_keys >= KEYS_MAX)
		return 0;
	key = calloc(1, sizeof(*key) + len);
	if (!key)
		return fail(-ENOMEM);
	key->hash = hash_bytes(bytes, len);
	key->len = len;
	memcpy(key->bytes, bytes, len);
	key->next = table_pointer(&modules->keys, key->hash);
	r = table_put(&modules->keys, key->hash, (uint64_t)(uintptr_t)key);
	if (r < 0) {
		free(key);
		return trace(r);
	}
	modules->bytes += key_size(key);
	own_key(e, key);
	return 0;
}

static void remove_key(struct uw_modules *modules, struct key *key)
{
	struct key *first = table_pointer(&modules->keys, key->hash), **at = &first;

	while (*at != key)
		at = &(*at)->next;
	*at = key->next;
	if (first) /* replacing a value never allocates */
		(void)table_put(&modules->keys, key->hash, (uint64_t)(uintptr_t)first);
	else
		(void)table_remove(&modules->keys, key->hash);
	disown_key(key);
	modules->bytes -= key_size(key);
	free(key);
}

/* ---- entries ---- */

/* With the layout that is there once it was loaded. */
static size_t entry_size(const struct entry *e)
{
	return sizeof(*e) + sizeof(*e->module) + strlen(uw_module_path(e->module)) + 256;
}

static void entry_free(struct uw_modules *modules, struct entry *e)
{
	while (e->keys)
		remove_key(modules, e->keys);
	list_remove(modules, e);
	modules->n--;
	modules->bytes -= entry_size(e);
	e->module->entry = NULL;
	uw_module_unref(e->module);
	free(e);
}

/* The oldest entry without other references: its processes are gone. */
static void prune(struct uw_modules *modules)
{
	struct entry *e = modules->oldest;

	for (unsigned i = 0; e && i < PRUNE_STEPS; i++, e = e->newer) {
		if (atomic_load_explicit(&e->module->refs, memory_order_acquire) != 1)
			continue;
		entry_free(modules, e);
		return;
	}
}

bool uw_modules_has_owners(const struct uw_module *module, uint32_t owners)
{
	return atomic_load_explicit(&module->refs, memory_order_acquire) ==
	       owners + (module->entry != NULL);
}

int uw_modules_forget_unused(struct uw_modules *modules,
			     int (*drop_unwind)(struct uw_module *module, void *arg), void *arg)
{
	struct entry *e = modules->oldest, *newer;
	int r = 0;

	for (; e && r >= 0; e = newer) {
		newer = e->newer;
		if (!uw_modules_has_owners(e->module, 0))
			continue;
		if (drop_unwind && uw_module_unwind_state(e->module) == UW_MODULE_READY)
			r = drop_unwind(e->module, arg);
		else
			entry_free(modules, e);
	}
	return r < 0 ? trace(r) : 0;
}

size_t uw_modules_n(const struct uw_modules *modules)
{
	return modules->n;
}

size_t uw_modules_set_bytes(const struct uw_modules *modules)
{
	return modules->bytes;
}

static int entry_new(struct uw_modules *modules, enum uw_module_kind kind, const char *path,
		     const struct uw_build_id *id, struct entry **ret_entry)
{
	_cleanup_(freep) struct entry *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fail(-ENOMEM);
	r = uw_module_new(kind, path, id, &e->module);
	if (r < 0)
		return trace(r);
	if (modules->n >= MODULES_MAX)
		prune(modules);
	e->module->entry = e;
	list_add(modules, e);
	modules->n++;
	modules->bytes += entry_size(e);
	*ret_entry = take(e);
	return 0;
}

int uw_modules_new(struct uw_modules **ret_modules)
{
	struct uw_modules *modules = calloc(1, sizeof(*modules));

	if (!modules)
		return fail(-ENOMEM);
	*ret_modules = modules;
	return 0;
}

struct uw_modules *uw_modules_free(struct uw_modules *modules)
{
	if (!modules)
		return NULL;
	while (modules->oldest)
		entry_free(modules, modules->oldest);
	table_deinit(&modules->keys);
	free(modules);
	return NULL;
}

/* ---- finding ---- */

static bool has_file(const struct uw_file_id *id)
{
	return id->major || id->minor || id->inode;
}

static struct entry *find_entry(const struct uw_modules *modules, const struct uw_file_id *id,
				const void *path_key, size_t path_len)
{
	struct key_bytes k;
	struct key *key;

	if (id->build_id.len) {
		k = build_id_key(&id->build_id);
		key = find_key(modules, k.bytes, k.len);
		if (key)
			return key->entry;
	}
	if (has_file(id)) {
		const struct uw_build_id *known;

		k = file_key(id);
		key = find_key(modules, k.bytes, k.len);
		if (!key)
			return NULL;
		known = uw_module_build_id(key->entry->module);
		/* another build id in the same inode: the file was rewritten */
		return id->build_id.len && known->len ? NULL : key->entry;
	}
	if (id->build_id.len)
		return NULL;
	key = find_key(modules, path_key, path_len);
	return key ? key->entry : NULL;
}

static int join(struct uw_modules *modules, struct entry *e, const struct uw_file_id *id,
		const void *path_key, size_t path_len)
{
	struct key_bytes k;
	int r = 0;

	if (id->build_id.len) {
		k = build_id_key(&id->build_id);
		r = set_key(modules, e, k.bytes, k.len);
	}
	if (r >= 0 && has_file(id)) {
		k = file_key(id);
		r = set_key(modules, e, k.bytes, k.len);
	}
	if (r >= 0 && !id->build_id.len && !has_file(id))
		r = set_key(modules, e, path_key, path_len);
	return trace(r);
}

int uw_modules_get(struct uw_modules *modules, const char *path, const struct uw_file_id *id,
		   struct uw_module **ret_module)
{
	static const struct uw_file_id nothing;
	size_t path_len = 1 + strlen(path);
	_cleanup_(freep) uint8_t *path_key = malloc(path_len);
	struct entry *e;
	bool is_new;
	int r;

	if (!path_key)
		return fail(-ENOMEM);
	path_key[0] = KEY_PATH;
	memcpy(path_key + 1, path, path_len - 1);
	if (!id)
		id = &nothing;
	e = find_entry(modules, id, path_key, path_len);
	is_new = !e;
	if (is_new) {
		r = entry_new(modules, UW_MODULE_FILE, path,
			      id->build_id.len ? &id->build_id : NULL, &e);
		if (r < 0)
			return trace(r);
	}
	r = join(modules, e, id, path_key, path_len);
	if (r < 0) {
		if (is_new)
			entry_free(modules, e);
		return trace(r);
	}
	uw_modules_touch(modules, e->module);
	*ret_module = uw_module_ref(e->module);
	return 0;
}

int uw_modules_add(struct uw_modules *modules, enum uw_module_kind kind, const char *path,
		   struct uw_module **ret_module)
{
	struct entry *e;
	int r;

	r = entry_new(modules, kind, path, NULL, &e);
	if (r < 0)
		return trace(r);
	*ret_module = uw_module_ref(e->module);
	return 0;
}

/* Moves the keys by inode and path of @from to @to: both are the same image. */
static void give_keys(struct entry *from, struct entry *to)
{
	struct key *next;

	for (struct key *key = from->keys; key; key = next) {
		next = key->next_own;
		if (key->bytes[0] == KEY_BUILD_ID || to->n_keys >= KEYS_MAX)
			continue;
		disown_key(key);
		own_key(to, key);
	}
}

int uw_modules_loaded(struct uw_modules *modules, struct uw_module *module)
{
	const struct uw_layout *layout = uw_module_layout(module);
	struct entry *e = module->entry;
	struct key_bytes k;
	struct key *key, *next;

	if (!layout || !layout->build_id.len || !e || module->kind != UW_MODULE_FILE)
		return 0;
	k = build_id_key(&layout->build_id);
	for (key = e->keys; key; key = next) { /* a build id that it was taken for and is not */
		next = key->next_own;
		if (key->bytes[0] == KEY_BUILD_ID &&
		    (key->len != k.len || memcmp(key->bytes, k.bytes, k.len) != 0))
			remove_key(modules, key);
	}
	key = find_key(modules, k.bytes, k.len);
	if (key && key->entry != e) {
		give_keys(e, key->entry);
		return 0;
	}
	return trace(set_key(modules, e, k.bytes, k.len));
}

/* ---- the whole set ---- */

void uw_modules_touch(struct uw_modules *modules, struct uw_module *module)
{
	struct entry *e = module->entry;

	if (!e || modules->newest == e)
		return;
	list_remove(modules, e);
	list_add(modules, e);
}

size_t uw_modules_bytes(const struct uw_modules *modules)
{
	size_t bytes = 0;

	for (const struct entry *e = modules->oldest; e; e = e->newer)
		bytes += uw_module_bytes(e->module);
	return bytes;
}

static void add_held(const struct uw_module *module, struct uw_modules_held *sum)
{
	sum->unwind += atomic_load_explicit(&module->unwind_bytes, memory_order_relaxed);
	sum->symbols += atomic_load_explicit(&module->symbol_bytes, memory_order_relaxed);
	sum->files += uw_module_keeps_file(module);
}

void uw_modules_count(const struct uw_modules *modules, struct uw_modules_held *ret_held)
{
	*ret_held = (struct uw_modules_held){0};
	for (const struct entry *e = modules->oldest; e; e = e->newer)
		add_held(e->module, ret_held);
}

/* Only the part that can be dropped: the unwind half has an owner of its own. */
static size_t droppable(const struct uw_modules_held *held, const struct uw_modules_limit *limit)
{
	return held->symbols + (limit->drop_unwind ? held->unwind : 0);
}

static bool is_over(const struct uw_modules_held *held, const struct uw_modules_limit *limit)
{
	return droppable(held, limit) > limit->bytes ||
	       (limit->drop_unwind && held->files > limit->files);
}

static int drop(struct uw_module *module, const struct uw_modules_limit *limit)
{
	if (uw_module_symbol_state(module) == UW_MODULE_READY)
		uw_module_drop_symbols(module);
	return limit->drop_unwind && uw_module_unwind_state(module) == UW_MODULE_READY
		       ? limit->drop_unwind(module, limit->arg)
		       : 0;
}

int uw_modules_keep_small(struct uw_modules *modules, const struct uw_modules_limit *limit)
{
	size_t left = limit->most ? limit->most : SIZE_MAX;
	struct entry *last = modules->newest, *next = modules->oldest;
	struct uw_modules_held all;
	int r = 0;

	uw_modules_count(modules, &all);
	while (next && r >= 0 && is_over(&all, limit)) {
		struct uw_modules_held own = {0};
		struct entry *e = next;

		next = e == last ? NULL : e->newer;
		add_held(e->module, &own);
		/* The vDSO's image is ours and small, and its symbols come with it only.  What a Java
		 * VM or an interpreter had is gone when its process is. */
		if (!(droppable(&own, limit) || own.files) || e->module->kind == UW_MODULE_MEMORY ||
		    uw_module_is_vm(e->module) || uw_module_language(e->module))
			continue;
		if (!left-- || (limit->in_use && limit->in_use(e->module, limit->arg)))
			break;
		r = drop(e->module, limit);
		all.unwind -= min_u64(own.unwind, all.unwind); /* an engine may have added since */
		all.symbols -= own.symbols;
		all.files -= own.files;
		/* Where another thread drops it, it holds its bytes for a while: the next call is to
		 * begin with others. */
		if (limit->drop_unwind)
			uw_modules_touch(modules, e->module);
	}
	return r < 0 ? trace(r) : 0;
}

void uw_modules_for_each(struct uw_modules *modules,
			 void (*visit)(struct uw_module *module, void *arg), void *arg)
{
	for (struct entry *e = modules->oldest, *newer; e; e = newer) {
		newer = e->newer; /* the visitor may touch */
		visit(e->module, arg);
	}
}
