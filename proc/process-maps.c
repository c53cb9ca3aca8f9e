/* process-maps.c - see process-maps.h.
 *
 * A change is one splice: the mappings [i, j) that the new one touches are replaced by at most
 * three: what is left of the first, the new one, what is left of the last.
 *
 *      i             j-1                      ┌────────┐ new
 *   ┌──────┐ ┌───┐ ┌──────┐      ──►    ┌─────┤        ├───┐
 *   └──────┘ └───┘ └──────┘             └─────┴────────┴───┘
 *
 * Where all of [i, j) agree with the new one (module, and offset at each address) nothing that
 * was known becomes untrue: they are joined and the key stays.  That is what the kernel's own
 * merging of areas gives. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "proc/process-maps.h"
#include "proc/procfs.h"

static uint32_t key_new(void)
{
	/* Shared by all tables, as an engine may see the spaces of two; 0 means no key. */
	static _Atomic uint32_t keys;
	uint32_t key;

	do {
		key = atomic_fetch_add_explicit(&keys, 1, memory_order_relaxed) + 1;
	} while (!key);
	return key;
}

/* Room for mappings in all lists of this program, shared like the keys: a process with many mappings
 * that forks and then maps one more gets a copy of all of them. */
static _Atomic size_t held;

size_t process_maps_held(void)
{
	return atomic_load_explicit(&held, memory_order_relaxed);
}

int process_maps_new(struct process_maps **ret_maps)
{
	struct process_maps *m = calloc(1, sizeof(*m));

	if (!m)
		return fail(-ENOMEM);
	atomic_init(&m->refs, 1);
	m->key = key_new();
	*ret_maps = m;
	return 0;
}

struct process_maps *process_maps_ref(struct process_maps *maps)
{
	atomic_fetch_add_explicit(&maps->refs, 1, memory_order_relaxed);
	return maps;
}

struct process_maps *process_maps_unref(struct process_maps *maps)
{
	if (!maps || atomic_fetch_sub_explicit(&maps->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < maps->n; i++)
		(void)uw_module_unref(maps->maps[i].module);
	(void)atomic_fetch_sub_explicit(&held, maps->room, memory_order_relaxed);
	free(maps->maps);
	free(maps);
	return NULL;
}

size_t process_maps_at(const struct process_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (maps->maps[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int grow(struct process_maps *maps, size_t n)
{
	size_t room = maps->room ? maps->room : 16;
	struct process_map *more;

	if (n <= maps->room)
		return 0;
	while (room < n)
		room *= 2;
	more = reallocarray(maps->maps, room, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	(void)atomic_fetch_add_explicit(&held, room - maps->room, memory_order_relaxed);
	maps->maps = more;
	maps->room = room;
	return 0;
}

static struct uw_module *module_ref(struct uw_module *module)
{
	return module ? uw_module_ref(module) : NULL;
}

/* Makes *maps ours alone; a copy has a key of its own. */
static int own(struct process_maps **maps)
{
	_cleanup_(process_maps_unrefp) struct process_maps *copy = NULL;
	int r;

	if (atomic_load_explicit(&(*maps)->refs, memory_order_acquire) == 1)
		return 0;
	r = process_maps_new(&copy);
	if (r < 0)
		return trace(r);
	r = grow(copy, (*maps)->n + 1);
	if (r < 0)
		return trace(r);
	for (; copy->n < (*maps)->n; copy->n++) {
		copy->maps[copy->n] = (*maps)->maps[copy->n];
		(void)module_ref(copy->maps[copy->n].module);
	}
	(void)process_maps_unref(*maps);
	*maps = take(copy);
	return 0;
}

/* Has it one offset at all addresses? */
static bool is_flat(const struct process_map *map)
{
	return !map->module || uw_module_kind(map->module) == UW_MODULE_JIT;
}

/* Do both describe the addresses that they share in the same way? */
static bool agree(const struct process_map *a, const struct process_map *b)
{
	return a->module == b->module &&
	       (is_flat(a) || a->start - a->offset == b->start - b->offset);
}

static void join_id(struct uw_file_id *id, const struct uw_file_id *more)
{
	if (!id->build_id.len)
		id->build_id = more->build_id;
	if (!id->inode && more->inode) {
		id->major = more->major;
		id->minor = more->minor;
		id->inode = more->inode;
		id->generation = more->generation;
	}
}

/* Replaces [i, j) by @with (their modules are borrowed). */
static int splice(struct process_maps *maps, size_t i, size_t j, const struct process_map *with,
		  size_t n_with)
{
	int r = grow(maps, maps->n + n_with);

	if (r < 0)
		return trace(r);
	for (size_t k = 0; k < n_with; k++)
		(void)module_ref(with[k].module); /* before the old go: it may be the same */
	for (size_t k = i; k < j; k++)
		(void)uw_module_unref(maps->maps[k].module);
	memmove(maps->maps + i + n_with, maps->maps + j, (maps->n - j) * sizeof(*maps->maps));
	if (n_with)
		memcpy(maps->maps + i, with, n_with * sizeof(*with));
	maps->n = maps->n - (j - i) + n_with;
	return 0;
}

/* Everything in [i, j) agrees with @map: one mapping over all of them. */
static int join(struct process_maps **maps, size_t i, size_t j, const struct process_map *map,
		bool *ret_changed)
{
	struct process_map *first = &(*maps)->maps[i], *last = &(*maps)->maps[j - 1];
	struct process_map joined = *map;
	int r;

	for (size_t k = i; k < j; k++)
		join_id(&joined.id, &(*maps)->maps[k].id);
	if (j == i + 1 && first->start <= map->start && first->end >= map->end) {
		first->id = joined.id; /* true for a sharer as well */
		return 0;
	}
	if (first->start < joined.start) {
		joined.offset -= is_flat(map) ? 0 : joined.start - first->start;
		joined.start = first->start;
	}
	joined.end = max_u64(joined.end, last->end);
	r = own(maps);
	if (r < 0)
		return trace(r);
	*ret_changed = true;
	return splice(*maps, i, j, &joined, 1);
}

static int cover(struct process_maps **maps, size_t i, size_t j, const struct process_map *map,
		 bool exec, bool *ret_changed)
{
	struct process_map with[3];
	size_t n = 0;
	int r;

	if (i == j && (!exec || (*maps)->n >= PROCESS_MAX_MAPS))
		return 0;
	r = own(maps);
	if (r < 0)
		return trace(r);
	if (i < j && (*maps)->maps[i].start < map->start) {
		with[n] = (*maps)->maps[i];
		with[n++].end = map->start;
	}
	if (exec && (*maps)->n < PROCESS_MAX_MAPS)
		with[n++] = *map;
	if (i < j && (*maps)->maps[j - 1].end > map->end) {
		with[n] = (*maps)->maps[j - 1];
		with[n].offset += is_flat(&with[n]) ? 0 : map->end - with[n].start;
		with[n++].start = map->end;
	}
	r = splice(*maps, i, j, with, n);
	if (r < 0)
		return trace(r);
	if (i < j)
		(*maps)->key = key_new();
	*ret_changed = true;
	return 0;
}

int process_maps_put(struct process_maps **maps, const struct process_map *map, bool exec,
		     bool *ret_changed)
{
	size_t i, j;
	bool same = exec;

	if (map->start >= map->end)
		return 0; /* nothing that the kernel maps */
	i = process_maps_at(*maps, map->start);
	for (j = i; j < (*maps)->n && (*maps)->maps[j].start < map->end; j++)
		same = same && agree(&(*maps)->maps[j], map);
	/* A JIT compiler makes its arena executable piece by piece: one mapping, not thousands. */
	if (same && map->module && is_flat(map)) {
		if (i && (*maps)->maps[i - 1].end == map->start &&
		    agree(&(*maps)->maps[i - 1], map))
			i--;
		if (j < (*maps)->n && (*maps)->maps[j].start == map->end &&
		    agree(&(*maps)->maps[j], map))
			j++;
	}
	return same && i < j ? join(maps, i, j, map, ret_changed)
			     : cover(maps, i, j, map, exec, ret_changed);
}

/* Is all of @map in @maps, saying the same? */
static bool holds(const struct process_maps *maps, const struct process_map *map)
{
	uint64_t at = map->start;

	for (size_t i = process_maps_at(maps, at); i < maps->n && at < map->end; i++) {
		const struct process_map *m = &maps->maps[i];

		if (m->start > at || !agree(m, map))
			return false;
		at = m->end;
	}
	return at >= map->end;
}

static bool holds_all(const struct process_maps *maps, const struct process_maps *of)
{
	for (size_t i = 0; i < of->n; i++) {
		if (!holds(maps, &of->maps[i]))
			return false;
	}
	return true;
}

void process_maps_adopt(struct process_maps **maps, struct process_maps *fresh, bool *ret_changed)
{
	struct process_maps *old = *maps;
	bool kept = holds_all(fresh, old), grown = !holds_all(old, fresh);

	if (kept && !grown) {
		/* The same, and true for a sharer too: how it is cut into areas and named may be
		 * newer. */
		struct process_maps was = {.n = old->n, .room = old->room, .maps = old->maps};

		old->n = fresh->n;
		old->room = fresh->room;
		old->maps = fresh->maps;
		fresh->n = was.n;
		fresh->room = was.room;
		fresh->maps = was.maps;
		(void)process_maps_unref(fresh);
		return;
	}
	if (kept && atomic_load_explicit(&old->refs, memory_order_acquire) == 1)
		fresh->key = old->key;
	(void)process_maps_unref(old);
	*maps = fresh;
	*ret_changed = true;
}

/* ---- the log ---- */

struct process_log *process_log_free(struct process_log *log)
{
	if (!log)
		return NULL;
	for (size_t i = 0; i < log->n; i++)
		(void)uw_module_unref(log->entries[i].map.module);
	free(log->entries);
	free(log);
	return NULL;
}

static bool log_room(struct process_log *log)
{
	size_t room = log->room ? log->room * 2 : 16;
	struct process_log_entry *more;

	if (log->n < log->room)
		return true;
	if (log->n >= PROCESS_MAX_LOG)
		return false;
	more = reallocarray(log->entries, room, sizeof(*more));
	if (!more)
		return false;
	log->entries = more;
	log->room = room;
	return true;
}

void process_log_add(struct process *process, const struct process_map *map, bool exec)
{
	struct process_log *log = process->log;

	if (!log || log->overflowed)
		return;
	if (!log_room(log)) {
		log->overflowed = true;
		return;
	}
	log->entries[log->n] = (struct process_log_entry){.map = *map, .exec = exec};
	(void)module_ref(map->module);
	log->n++;
}

/* ---- the module of a mapping ----
 *
 * Code without a file comes from a JIT compiler: all of it in one process shares one module.  Its
 * path is the perf map that the compiler may write, named by the pid that the compiler sees
 * (tools/perf/Documentation/jit-interface.txt).  The vDSO is the same image in every process of one
 * kind; the kinds differ by size. */

static bool starts_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* System V shared memory: "/SYSV" and the key in hex. */
static bool is_sysv(const char *path)
{
	return starts_with(path, "/SYSV") && strspn(path + 5, "0123456789abcdef") == 8 &&
	       (!path[13] || path[13] == ' ');
}

static bool is_jitdump(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : "";
	size_t digits;

	if (!starts_with(name, "jit-"))
		return false;
	digits = strspn(name + 4, "0123456789");
	name += 4 + digits;
	return digits && starts_with(name, ".dump") && (!name[5] || name[5] == ' ');
}

enum path_kind process_path_kind(const char *path, bool has_build_id)
{
	static const char *const without_file[] = {
		"//anon",    "[heap]",	       "[stack",       "[anon",
		"/dev/zero", "/anon_hugepage", "/dev/ashmem/", "anon_inode:",
	};

	if (!*path)
		return PATH_JIT;
	if (!strcmp(path, "[vdso]"))
		return PATH_VDSO;
	/* an ELF file in a memfd has a build id, where the kernel records build ids */
	if (starts_with(path, "/memfd:"))
		return has_build_id ? PATH_FILE : PATH_JIT;
	for (size_t i = 0; i < ARRAY_SIZE(without_file); i++) {
		if (starts_with(path, without_file[i]))
			return PATH_JIT;
	}
	if (is_sysv(path))
		return PATH_JIT;
	if (*path != '/')
		return PATH_NONE;
	return !has_build_id && is_jitdump(path) ? PATH_JITDUMP : PATH_FILE;
}

static int vdso_module(struct process_table *table, uint64_t size, struct uw_module **ret_module)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->vdsos); i++) {
		struct process_vdso *v = &table->vdsos[i];
		int r;

		if (!v->module) {
			r = uw_modules_add(table->modules, UW_MODULE_MEMORY, "[vdso]", &v->module);
			if (r < 0)
				return trace(r);
			v->size = size;
		}
		if (v->size == size) {
			*ret_module = uw_module_ref(v->module);
			return 0;
		}
	}
	*ret_module = NULL; /* more kinds than a kernel has: this cannot be a vDSO */
	return 0;
}

static int jit_module(struct process_table *table, struct process *process,
		      struct uw_module **ret_module)
{
	char path[64];
	int r;

	if (!process->jit) {
		(void)snprintf(path, sizeof(path), "/tmp/perf-%u.map",
			       process->ns_pid ? process->ns_pid : process->pid);
		r = uw_modules_add(table->modules, UW_MODULE_JIT, path, &process->jit);
		if (r < 0)
			return trace(r);
	}
	*ret_module = uw_module_ref(process->jit);
	return 0;
}

/* @path as it was before the file was deleted; @plain has room for it. */
static const char *without_deleted(const char *path, char plain[static PROCESS_PATH_MAX])
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), tail = strlen(deleted);

	if (len <= tail || len - tail >= PROCESS_PATH_MAX ||
	    strcmp(path + len - tail, deleted) != 0)
		return path;
	memcpy(plain, path, len - tail);
	plain[len - tail] = 0;
	return plain;
}

/* @map is of a jitdump: it belongs to the module of the JIT code, which learns of it. */
static int jitdump_module(struct process_table *table, struct process *process, const char *path,
			  const struct process_map *map, struct uw_module **ret_module)
{
	char plain[PROCESS_PATH_MAX];
	int r = jit_module(table, process, ret_module);

	if (r < 0)
		return trace(r);
	return trace(uw_module_set_jitdump(*ret_module, without_deleted(path, plain), map->start,
					   map->end, &map->id));
}

static int file_module(struct process_table *table, const char *path, const struct uw_file_id *id,
		       struct uw_module **ret_module)
{
	char plain[PROCESS_PATH_MAX];

	return uw_modules_get(table->modules, without_deleted(path, plain), id, ret_module);
}

int process_map_resolve(struct process_table *table, struct process *process, const char *path,
			struct process_map *map)
{
	int r = 0;

	map->module = NULL;
	switch (process_path_kind(path, map->id.build_id.len != 0)) {
	case PATH_FILE:
		r = file_module(table, path, &map->id, &map->module);
		break;
	case PATH_JIT:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		r = jit_module(table, process, &map->module);
		break;
	case PATH_JITDUMP:
		r = jitdump_module(table, process, path, map, &map->module);
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		break;
	case PATH_VDSO:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		r = vdso_module(table, map->end - map->start, &map->module);
		break;
	case PATH_NONE:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		break;
	}
	return r < 0 ? trace(r) : 0;
}

/* The perf map has another name than assumed: the module of the JIT code changes with it. */
int process_set_ns_pid(struct process_table *table, struct process *process, uint32_t ns_pid)
{
	uint32_t before = process->ns_pid ? process->ns_pid : process->pid;
	struct uw_module *old = process->jit, *now = NULL;
	int r = 0;

	process->ns_pid = ns_pid;
	if (!old || !ns_pid || ns_pid == before)
		return 0;
	process->jit = NULL;
	r = jit_module(table, process, &now);
	if (r >= 0 && uw_module_jitdump(old)) {
		const struct uw_jitdump *dump = uw_module_jitdump(old);

		r = uw_module_set_jitdump(now, dump->path, dump->start, dump->end, &dump->id);
	}
	for (size_t i = 0; i < process->maps->n && r >= 0; i++) {
		struct process_map map = process->maps->maps[i];
		bool changed = false;

		if (map.module != old)
			continue;
		map.module = now;
		r = process_maps_put(&process->maps, &map, true, &changed);
		i = process_maps_at(process->maps, map.start);
		process->space = uw_space_unref(process->space);
	}
	for (size_t i = 0; process->log && i < process->log->n && r >= 0; i++) {
		struct process_map *map = &process->log->entries[i].map;

		if (map->module == old) {
			(void)uw_module_unref(old);
			map->module = uw_module_ref(now);
		}
	}
	(void)uw_module_unref(now);
	(void)uw_module_unref(old);
	return r < 0 ? trace(r) : 0;
}
