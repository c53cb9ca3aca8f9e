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

/* Bytes of all lists of this program, shared like the keys. */
static _Atomic size_t held;

size_t process_maps_held(void)
{
	return atomic_load_explicit(&held, memory_order_relaxed);
}

static struct uw_module *module_ref(struct uw_module *module)
{
	return module ? uw_module_ref(module) : NULL;
}

/* ---- chunks ---- */

static size_t chunk_bytes(size_t room)
{
	return sizeof(struct process_chunk) + room * sizeof(struct process_map);
}

static struct process_chunk *chunk_new(size_t n)
{
	size_t room = 16;
	struct process_chunk *chunk;

	while (room < n)
		room *= 2;
	chunk = malloc(chunk_bytes(room));
	if (!chunk)
		return NULL;
	*chunk = (struct process_chunk){.room = (uint32_t)room};
	atomic_init(&chunk->refs, 1);
	(void)atomic_fetch_add_explicit(&held, chunk_bytes(room), memory_order_relaxed);
	return chunk;
}

static struct process_chunk *chunk_unref(struct process_chunk *chunk)
{
	if (!chunk || atomic_fetch_sub_explicit(&chunk->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < chunk->n; i++)
		(void)uw_module_unref(chunk->maps[i].module);
	(void)uw_maps_unref(chunk->part);
	(void)atomic_fetch_sub_explicit(&held, chunk_bytes(chunk->room), memory_order_relaxed);
	free(chunk);
	return NULL;
}

/* Makes the chunk's part of a space. */
static int chunk_part(struct process_chunk *chunk)
{
	struct uw_map list[PROCESS_CHUNK];
	int r;

	if (chunk->part)
		return 0;
	for (size_t i = 0; i < chunk->n; i++) {
		const struct process_map *m = &chunk->maps[i];

		list[i] = (struct uw_map){m->start, m->end, m->offset, m->module};
	}
	r = uw_maps_new(list, chunk->n, &chunk->part);
	return r < 0 ? trace(r) : 0;
}

/* ---- lists ---- */

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

struct process_maps *process_maps_unref(struct process_maps *maps)
{
	if (!maps || atomic_fetch_sub_explicit(&maps->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < maps->n_chunks; i++)
		(void)chunk_unref(maps->chunks[i]);
	(void)atomic_fetch_sub_explicit(&held, maps->room * sizeof(*maps->chunks),
					memory_order_relaxed);
	free(maps->chunks);
	free(maps);
	return NULL;
}

/* Index of the first chunk with a mapping that ends behind @address. */
static size_t chunk_at(const struct process_maps *maps, uint64_t address)
{
	return bisect(i, maps->n_chunks,
		      maps->chunks[i]->maps[maps->chunks[i]->n - 1].end <= address);
}

struct process_place process_maps_at(const struct process_maps *maps, uint64_t address)
{
	const size_t chunk = chunk_at(maps, address);
	size_t low = bisect(i, chunk < maps->n_chunks ? maps->chunks[chunk]->n : 0,
			    maps->chunks[chunk]->maps[i].end <= address);

	return (struct process_place){chunk, low};
}

struct process_place process_maps_next(const struct process_maps *maps, struct process_place place)
{
	if (++place.at < maps->chunks[place.chunk]->n)
		return place;
	return (struct process_place){place.chunk + 1, 0};
}

/* The place before; @place is not the first. */
static struct process_place prev(const struct process_maps *maps, struct process_place place)
{
	if (place.at)
		return (struct process_place){place.chunk, place.at - 1};
	return (struct process_place){place.chunk - 1, maps->chunks[place.chunk - 1]->n - 1};
}

static bool is_same_place(struct process_place a, struct process_place b)
{
	return a.chunk == b.chunk && a.at == b.at;
}

/* Room for @n chunks. */
static int grow(struct process_maps *maps, size_t n)
{
	size_t room = maps->room ? maps->room : 1;
	struct process_chunk **more;

	if (n <= maps->room)
		return 0;
	while (room < n)
		room *= 2;
	more = reallocarray(maps->chunks, room, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	(void)atomic_fetch_add_explicit(&held, (room - maps->room) * sizeof(*more),
					memory_order_relaxed);
	maps->chunks = more;
	maps->room = room;
	return 0;
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
	r = grow(copy, (*maps)->n_chunks);
	if (r < 0)
		return trace(r);
	for (; copy->n_chunks < (*maps)->n_chunks; copy->n_chunks++) {
		copy->chunks[copy->n_chunks] = (*maps)->chunks[copy->n_chunks];
		(void)atomic_fetch_add_explicit(&copy->chunks[copy->n_chunks]->refs, 1,
						memory_order_relaxed);
	}
	copy->n = (*maps)->n;
	(void)process_maps_unref(*maps);
	*maps = take(copy);
	return 0;
}

int process_maps_space(const struct process_maps *maps, struct uw_memory *memory,
		       struct uw_space **ret_space)
{
	_cleanup_(freep) struct uw_maps **parts = calloc(maps->n_chunks + 1, sizeof(*parts));
	int r = parts ? 0 : -ENOMEM;

	for (size_t i = 0; i < maps->n_chunks && r >= 0; i++) {
		r = chunk_part(maps->chunks[i]);
		parts[i] = maps->chunks[i]->part;
	}
	if (r >= 0)
		r = uw_space_of_parts(parts, maps->n_chunks, maps->key, memory, ret_space);
	return r < 0 ? trace(r) : 0;
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

/* ---- one splice ---- */

struct run {
	const struct process_map *maps;
	size_t n;
};

/* The runs, one behind the other, as one to three new chunks. */
static int chunks_of(const struct run *runs, size_t n_runs, size_t total, size_t n_chunks,
		     struct process_chunk **ret_chunks)
{
	struct process_chunk *chunk;
	size_t at = 0;

	for (size_t i = 0; i < n_chunks; i++) {
		ret_chunks[i] = chunk_new(n_chunks > 1 ? PROCESS_CHUNK : total);
		if (ret_chunks[i])
			continue;
		while (i)
			(void)chunk_unref(ret_chunks[--i]);
		return fail(-ENOMEM);
	}
	for (size_t i = 0; i < n_runs; i++) {
		for (size_t k = 0; k < runs[i].n; k++) {
			chunk = ret_chunks[at++ * n_chunks / total];
			chunk->maps[chunk->n++] = runs[i].maps[k];
			(void)module_ref(runs[i].maps[k].module);
		}
	}
	return 0;
}

static size_t chunk_n(const struct process_maps *maps, size_t chunk)
{
	return chunk < maps->n_chunks ? maps->chunks[chunk]->n : 0;
}

/* Replaces the chunks [first, last] by new ones: with their mappings before @i, @with, and their
 * mappings from @j on.  A small neighbour is joined. */
static int rebuild(struct process_maps *maps, struct process_place i, struct process_place j,
		   const struct process_map *with, size_t n_with)
{
	struct run runs[5] = {[2] = {with, n_with}};
	struct process_chunk *new[4];
	size_t first = i.chunk, behind = min_u64(j.chunk + 1, maps->n_chunks), total, n_new;
	int r;

	if (maps->n_chunks) {
		runs[1] = (struct run){maps->chunks[i.chunk]->maps, i.at};
		runs[3] = (struct run){maps->chunks[j.chunk]->maps + j.at,
				       maps->chunks[j.chunk]->n - j.at};
	}
	total = runs[1].n + n_with + runs[3].n;
	if (behind < maps->n_chunks && total + chunk_n(maps, behind) <= PROCESS_CHUNK / 2) {
		runs[4] = (struct run){maps->chunks[behind]->maps, chunk_n(maps, behind)};
		total += runs[4].n;
		behind++;
	}
	if (first && total + chunk_n(maps, first - 1) <= PROCESS_CHUNK / 2) {
		first--;
		runs[0] = (struct run){maps->chunks[first]->maps, chunk_n(maps, first)};
		total += runs[0].n;
	}
	n_new = (total + PROCESS_CHUNK - 1) / PROCESS_CHUNK;
	r = grow(maps, maps->n_chunks - (behind - first) + n_new);
	if (r >= 0 && n_new)
		r = chunks_of(runs, ARRAY_SIZE(runs), total, n_new, new);
	if (r < 0)
		return trace(r);
	for (size_t k = first; k < behind; k++)
		(void)chunk_unref(maps->chunks[k]);
	memmove(maps->chunks + first + n_new, maps->chunks + behind,
		(maps->n_chunks - behind) * sizeof(*maps->chunks));
	if (n_new)
		memcpy(maps->chunks + first, new, n_new * sizeof(*new));
	maps->n_chunks = maps->n_chunks - (behind - first) + n_new;
	return 0;
}

/* The same within one chunk that no other list has; it does not shrink, and has room. */
static void splice_in_place(struct process_chunk *chunk, size_t i, size_t j,
			    const struct process_map *with, size_t n_with)
{
	for (size_t k = 0; k < n_with; k++)
		(void)module_ref(with[k].module); /* before the old go: it may be the same */
	for (size_t k = i; k < j; k++)
		(void)uw_module_unref(chunk->maps[k].module);
	memmove(chunk->maps + i + n_with, chunk->maps + j, (chunk->n - j) * sizeof(*chunk->maps));
	memcpy(chunk->maps + i, with, n_with * sizeof(*with));
	chunk->n += (uint32_t)(n_with - (j - i));
	chunk->part = uw_maps_unref(chunk->part);
}

/* Replaces [i, j) by @with (their modules are borrowed). */
static int splice(struct process_maps *maps, struct process_place i, struct process_place j,
		  const struct process_map *with, size_t n_with)
{
	struct process_chunk *chunk;
	size_t gone;
	int r = 0;

	/* Both at or behind a mapping of a chunk, where there is one. */
	if (i.chunk && !chunk_n(maps, i.chunk))
		i = (struct process_place){i.chunk - 1, chunk_n(maps, i.chunk - 1)};
	if (j.chunk > i.chunk && !j.at)
		j = (struct process_place){j.chunk - 1, chunk_n(maps, j.chunk - 1)};
	gone = j.at - i.at;
	for (size_t k = i.chunk; k < j.chunk; k++)
		gone += chunk_n(maps, k);
	chunk = maps->n_chunks ? maps->chunks[i.chunk] : NULL;
	if (chunk && i.chunk == j.chunk && n_with >= gone && n_with &&
	    chunk->n + n_with - gone <= chunk->room &&
	    atomic_load_explicit(&chunk->refs, memory_order_acquire) == 1)
		splice_in_place(chunk, i.at, j.at, with, n_with);
	else
		r = rebuild(maps, i, j, with, n_with);
	if (r < 0)
		return trace(r);
	maps->n = maps->n - gone + n_with;
	return 0;
}

/* Everything in [i, j) agrees with @map: one mapping over the whole range. */
static int join(struct process_maps **maps, struct process_place i, struct process_place j,
		const struct process_map *map, bool *ret_changed)
{
	struct process_map *first = &(*maps)->chunks[i.chunk]->maps[i.at];
	const struct process_map *last = process_maps_get(*maps, prev(*maps, j));
	struct process_map joined = *map;
	int r;

	for (struct process_place k = i; !is_same_place(k, j); k = process_maps_next(*maps, k))
		join_id(&joined.id, &process_maps_get(*maps, k)->id);
	if (first == last && first->start <= map->start && first->end >= map->end) {
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

static int cover(struct process_maps **maps, struct process_place i, struct process_place j,
		 const struct process_map *map, bool exec, bool *ret_changed)
{
	const bool none = is_same_place(i, j);
	struct process_map with[3];
	size_t n = 0;
	int r;

	if (none && (!exec || (*maps)->n >= PROCESS_MAX_MAPS))
		return 0;
	r = own(maps);
	if (r < 0)
		return trace(r);
	if (!none && process_maps_get(*maps, i)->start < map->start) {
		with[n] = *process_maps_get(*maps, i);
		with[n++].end = map->start;
	}
	if (exec && (*maps)->n < PROCESS_MAX_MAPS)
		with[n++] = *map;
	if (!none && process_maps_get(*maps, prev(*maps, j))->end > map->end) {
		with[n] = *process_maps_get(*maps, prev(*maps, j));
		with[n].offset += is_flat(&with[n]) ? 0 : map->end - with[n].start;
		with[n++].start = map->end;
	}
	r = splice(*maps, i, j, with, n);
	if (r < 0)
		return trace(r);
	if (!none)
		(*maps)->key = key_new();
	*ret_changed = true;
	return 0;
}

/* A JIT compiler makes its arena executable piece by piece: one mapping, not thousands. */
static void add_neighbours(const struct process_maps *maps, const struct process_map *map,
			   struct process_place *i, struct process_place *j)
{
	const struct process_map *behind = process_maps_get(maps, *j);

	if (i->chunk || i->at) {
		const struct process_place before = prev(maps, *i);
		const struct process_map *m = process_maps_get(maps, before);

		if (m->end == map->start && agree(m, map))
			*i = before;
	}
	if (behind && behind->start == map->end && agree(behind, map))
		*j = process_maps_next(maps, *j);
}

int process_maps_put(struct process_maps **maps, const struct process_map *map, bool exec,
		     bool *ret_changed)
{
	struct process_place i, j;
	const struct process_map *m;
	bool same = exec;

	if (map->start >= map->end)
		return 0; /* nothing that the kernel maps */
	i = j = process_maps_at(*maps, map->start);
	for (; (m = process_maps_get(*maps, j)) && m->start < map->end;
	     j = process_maps_next(*maps, j))
		same = same && agree(m, map);
	if (same && map->module && is_flat(map))
		add_neighbours(*maps, map, &i, &j);
	return same && !is_same_place(i, j) ? join(maps, i, j, map, ret_changed)
					    : cover(maps, i, j, map, exec, ret_changed);
}

/* Is all of @map in @maps, with the same contents? */
static bool holds(const struct process_maps *maps, const struct process_map *map)
{
	uint64_t at = map->start;
	const struct process_map *m;

	for (struct process_place i = process_maps_at(maps, at);
	     (m = process_maps_get(maps, i)) && at < map->end; i = process_maps_next(maps, i)) {
		if (m->start > at || !agree(m, map))
			return false;
		at = m->end;
	}
	return at >= map->end;
}

static bool holds_all(const struct process_maps *maps, const struct process_maps *of)
{
	const struct process_map *m;

	process_maps_each(of, m) if (!holds(maps, m)) return false;
	return true;
}

static void swap_lists(struct process_maps *a, struct process_maps *b)
{
	const struct process_maps was = {
		.n = a->n, .n_chunks = a->n_chunks, .room = a->room, .chunks = a->chunks};

	a->n = b->n;
	a->n_chunks = b->n_chunks;
	a->room = b->room;
	a->chunks = b->chunks;
	b->n = was.n;
	b->n_chunks = was.n_chunks;
	b->room = was.room;
	b->chunks = was.chunks;
}

void process_maps_adopt(struct process_maps **maps, struct process_maps *fresh, bool *ret_changed)
{
	struct process_maps *old = *maps;
	bool kept = holds_all(fresh, old), grown = !holds_all(old, fresh);

	if (kept && !grown) {
		/* The same, and true for a sharer too: how it is cut into areas and named may be
		 * newer. */
		swap_lists(old, fresh);
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
	return log->n < log->room ||
	       (log->n < PROCESS_MAX_LOG && array_grow(log->entries, log->room, 16));
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
	const char *name = strrchr(path, '/');
	size_t digits;

	if (!name || !starts_with(name, "/jit-"))
		return false;
	digits = strspn(name + 5, "0123456789");
	name += 5 + digits;
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
		if (process->has_vm)
			uw_module_expect_vm(process->jit);
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

static bool is_vm(const char *path)
{
	static const char name[] = "/libjvm.so";
	const char *at = strstr(path, name);

	return at && (!at[sizeof(name) - 1] || at[sizeof(name) - 1] == ' ');
}

static void note_vm(struct process *process)
{
	process->has_vm = true;
	if (process->jit)
		uw_module_expect_vm(process->jit);
}

/* Where the image of a Java VM (libjvm.so) begins; 0: nowhere. */
static uint64_t process_vm_of(const struct process *process)
{
	const struct process_map *m;

	process_maps_each(process->maps, m)
	{
		if (m->module && m->start >= m->offset && is_vm(uw_module_path(m->module)))
			return m->start - m->offset;
	}
	return 0;
}

/* The same of its interpreter's library, or of the program where that has no library. */
static uint64_t process_interpreter_of(const struct process *process)
{
	const struct process_map *m;
	uint64_t program = 0;

	process_maps_each(process->maps, m)
	{
		const char *path = m->module ? uw_module_path(m->module) : "";

		if (m->start < m->offset || !process->language ||
		    uw_path_language(path) != process->language)
			continue;
		if (strstr(path, "/lib") && !strncmp(strrchr(path, '/'), "/lib", 4))
			return m->start - m->offset;
		program = program ? program : m->start - m->offset;
	}
	return program;
}

void process_interpreter_name(const struct process *process, char *to, size_t room)
{
	static const char *const names[UW_LANGUAGES] = {
		[UW_LANGUAGE_NONE] = "The interpreter",
		[UW_LANGUAGE_PYTHON] = "CPython",
		[UW_LANGUAGE_PHP] = "PHP",
		[UW_LANGUAGE_RUBY] = "Ruby",
		[UW_LANGUAGE_JS] = "Node.js",
	};
	static const char digits[] = "0123456789";
	const struct process_map *m;

	(void)snprintf(to, room, "%s", names[process ? process->language : UW_LANGUAGE_NONE]);
	if (!process || !process->language)
		return;
	process_maps_each(process->maps, m)
	{
		const char *path = m->module ? uw_module_path(m->module) : "", *version;
		size_t major, len;

		if (uw_path_language(path) != process->language)
			continue;
		version = strpbrk(strrchr(path, '/') ? strrchr(path, '/') : path, digits);
		major = version ? strspn(version, digits) : 0;
		len = major && version[major] == '.' ? strspn(version + major + 1, digits) : 0;
		if (!len)
			continue;
		len += major + 1;
		(void)snprintf(to, room, "%s %.*s%s", names[process->language], (int)len, version,
			       version[len] == 't' ? " without a GIL" : "");
		return;
	}
}

uint64_t process_vm_of_module(const struct process *process, const struct uw_module *module)
{
	return uw_module_language(module) ? process_interpreter_of(process)
					  : process_vm_of(process);
}

static int file_module(struct process_table *table, const char *path, const struct uw_file_id *id,
		       struct uw_module **ret_module)
{
	char plain[PROCESS_PATH_MAX];

	return uw_modules_get(table->modules, without_deleted(path, plain), id, ret_module);
}

bool process_table_interpreters(const struct process_table *table)
{
	return table->interpreters;
}

int process_map_resolve(struct process_table *table, struct process *process, const char *path,
			struct process_map *map)
{
	int r = 0;

	map->module = NULL;
	switch (process_path_kind(path, map->id.build_id.len != 0)) {
	case PATH_FILE:
		if (is_vm(path))
			note_vm(process);
		if (!process->language)
			process->language = uw_path_language(path);
		table->interpreters |= process->language && process->language != UW_LANGUAGE_JS;
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
	for (struct process_place i = {0}; r >= 0 && process_maps_get(process->maps, i);) {
		struct process_map map = *process_maps_get(process->maps, i);
		bool changed = false;

		if (map.module == old) {
			map.module = now;
			r = process_maps_put(&process->maps, &map, true, &changed);
			process->space = uw_space_unref(process->space);
		}
		i = process_maps_at(process->maps, map.end);
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
