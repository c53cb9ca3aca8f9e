/* replay.c - events to snapshots: processes and their mappings over time, modules by path.  See
 * samples.h.
 *
 * A space is made when a stack needs it and kept until its process's mappings change.  The key
 * changes when a mapping is replaced by a different one, at exec and in a fork's child; a mapping
 * in a free area keeps it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/table.h"
#include "tests/differential/samples.h"
#include "symbols/demangle.h"

enum { VDSO_BYTES = 8192 };

/* The vDSO of a process, which has the bytes of our own: same kernel. */
struct vdso_memory {
	struct uw_memory memory;
	uint64_t start, end;
};

struct process {
	struct uw_map *maps;
	size_t n, room;
	uint32_t key;
	struct uw_space *space; /* NULL: to be made */
	struct vdso_memory *vdso;
};

struct samples_replay {
	struct table processes; /* pid -> struct process */
	struct string_table paths;
	struct uw_module **modules; /* by path id - 1 */
	uint32_t last_key;
	struct uw_space **spaces; /* every one made */
	size_t n_spaces;
	struct vdso_memory **vdsos;
	size_t n_vdsos;
};

static ssize_t vdso_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	const struct vdso_memory *vdso = container_of(memory, struct vdso_memory, memory);
	uint64_t own = getauxval(AT_SYSINFO_EHDR);

	if (!own || address < vdso->start || address >= vdso->end)
		return 0;
	len = min_u64(len, vdso->end - address);
	memcpy(to, (const void *)(uintptr_t)(own + (address - vdso->start)), len);
	return (ssize_t)len;
}

static struct process *process_get(struct samples_replay *replay, uint32_t pid)
{
	struct process *p = table_pointer(&replay->processes, pid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (p && table_put(&replay->processes, pid, (uint64_t)(uintptr_t)p) < 0) {
		free(p);
		return NULL;
	}
	if (p)
		p->key = ++replay->last_key;
	return p;
}

/* [start, end) without what the process has there; false when that was the very same mapping. */
static bool process_cut(struct process *p, const struct uw_map *new)
{
	struct uw_map kept[2];
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (!memcmp(&p->maps[i], new, sizeof(*new)))
			return false;
	for (size_t i = 0; i < p->n;) {
		struct uw_map *m = &p->maps[i];

		if (m->end <= new->start || m->start >= new->end) {
			i++;
			continue;
		}
		n = 0;
		if (m->start < new->start)
			kept[n++] = (struct uw_map){m->start, new->start, m->offset, m->module};
		if (m->end > new->end)
			kept[n++] = (struct uw_map){new->end, m->end,
						    m->offset + (new->end - m->start), m->module};
		memmove(m + n, m + 1,
			(p->n - i - 1) * sizeof(*m)); /* room for one more: process_add() */
		memcpy(m, kept, n * sizeof(*m));
		p->n = p->n - 1 + n;
		i += n;
		p->key = 0; /* replaced: a new one is due */
	}
	return true;
}

static int process_add(struct samples_replay *replay, struct process *p, const struct uw_map *new)
{
	size_t at = 0;

	if (p->n + 2 > p->room) {
		size_t room = p->room ? p->room * 2 : 32;
		struct uw_map *more = reallocarray(p->maps, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->maps = more;
		p->room = room;
	}
	if (!process_cut(p, new))
		return 0;
	while (at < p->n && p->maps[at].start < new->start)
		at++;
	memmove(p->maps + at + 1, p->maps + at, (p->n - at) * sizeof(*p->maps));
	p->maps[at] = *new;
	p->n++;
	if (!p->key)
		p->key = ++replay->last_key;
	p->space = NULL;
	return 0;
}

static int module_load(struct uw_module *module, const char *path)
{
	uint64_t own = getauxval(AT_SYSINFO_EHDR);
	struct vdso_memory self = {{.read = vdso_read}, own, own + VDSO_BYTES};
	struct uw_source source = {
		.fd = -1, .memory = &self.memory, .start = own, .end = own + VDSO_BYTES};
	int r;

	if (uw_module_kind(module) == UW_MODULE_FILE) {
		source = (struct uw_source){.fd = open(path, O_RDONLY | O_CLOEXEC)};
		if (source.fd < 0) {
			uw_module_set_unreadable(module);
			return 0;
		}
	}
	(void)uw_module_want_unwind(module);
	r = uw_module_load_unwind(module, &source);
	fd_close(source.fd);
	return r == -ENOMEM ? r : 0;
}

/* NULL for what is not a file. */
static int module_get(struct samples *samples, const char *path, const struct uw_build_id *build_id,
		      struct uw_module **ret_module)
{
	struct samples_replay *replay = samples->replay;
	bool vdso = !strcmp(path, "[vdso]"), new;
	char key[4096 + sizeof(*build_id)]; /* one path may have been several files */
	size_t len = min_u64(strlen(path), 4096);
	struct uw_module *module, **more;
	uint32_t id;
	int r;

	*ret_module = NULL;
	if (!vdso && (path[0] != '/' || !strncmp(path, "//", 2)))
		return 0;
	memcpy(key, path, len);
	memcpy(key + len, build_id, sizeof(*build_id));
	r = string_table_add(&replay->paths, key, len + sizeof(*build_id), &id, &new);
	if (r < 0)
		return r;
	if (!new) {
		*ret_module = replay->modules[id - 1];
		return 0;
	}
	more = reallocarray(replay->modules, id, sizeof(*more));
	if (!more)
		return -ENOMEM;
	replay->modules = more;
	more[id - 1] = NULL;
	r = uw_module_new(vdso ? UW_MODULE_MEMORY : UW_MODULE_FILE, path,
			  build_id->len ? build_id : NULL, &module);
	if (r < 0)
		return r;
	more[id - 1] = module;
	r = module_load(module, path);
	samples->n_modules++;
	samples->n_modules_unreadable += uw_module_unwind_state(module) != UW_MODULE_READY;
	*ret_module = module;
	return r;
}

static int replay_map(struct samples *samples, const struct sample_event *e)
{
	struct process *p = process_get(samples->replay, e->pid);
	struct uw_map map = {.start = e->map.start, .end = e->map.end, .offset = e->map.offset};
	struct vdso_memory **more;
	int r;

	if (!p)
		return -ENOMEM;
	r = module_get(samples, (const char *)e->data, &e->map.id, &map.module);
	if (r < 0)
		return r;
	if (map.module && uw_module_kind(map.module) == UW_MODULE_MEMORY) {
		struct samples_replay *replay = samples->replay;

		map.offset = 0;
		more = reallocarray(replay->vdsos, replay->n_vdsos + 1, sizeof(*more));
		if (more)
			replay->vdsos = more;
		p->vdso = more ? calloc(1, sizeof(*p->vdso)) : NULL;
		if (!p->vdso)
			return -ENOMEM;
		*p->vdso = (struct vdso_memory){{.read = vdso_read}, map.start, map.end};
		more[replay->n_vdsos++] = p->vdso;
	}
	return process_add(samples->replay, p, &map);
}

static int replay_fork(struct samples_replay *replay, const struct sample_event *e)
{
	struct process *parent = process_get(replay, e->parent),
		       *child = process_get(replay, e->pid);

	if (!parent || !child)
		return -ENOMEM;
	child->maps = reallocarray(child->maps, parent->room + 1, sizeof(*child->maps));
	if (!child->maps)
		return -ENOMEM;
	child->room = parent->room;
	child->n = parent->n;
	child->vdso = parent->vdso;
	child->space = NULL;
	child->key = ++replay->last_key;
	if (parent->n)
		memcpy(child->maps, parent->maps, parent->n * sizeof(*child->maps));
	return 0;
}

static int replay_stack(struct samples *samples, const struct sample_event *e)
{
	struct samples_replay *replay = samples->replay;
	struct process *p = process_get(replay, e->pid);
	struct uw_space **more;
	int r;

	if (!p)
		return -ENOMEM;
	/* A kernel thread, an exiting task, or one inside execve(): see session/pipeline/reader.c. */
	if (!e->stack.n_regs || (!e->stack.len && (e->flags >> 1 & 1))) {
		samples->n_no_user++;
		return 0;
	}
	if (!p->space) {
		more = reallocarray(replay->spaces, replay->n_spaces + 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		replay->spaces = more;
		r = uw_space_new(p->maps, p->n, p->key, p->vdso ? &p->vdso->memory : NULL,
				 &p->space);
		if (r < 0)
			return r;
		more[replay->n_spaces++] = p->space;
	}
	samples->list[samples->n++] = (struct sample){
		.snapshot = {.space = p->space,
			     .regs = e->stack.regs,
			     .arch = UW_ARCH_X86_64,
			     .stack_full = e->flags & 1,
			     .stack_len = e->stack.len,
			     .stack = e->data,
			     .thread = e->tid},
		.pid = e->pid,
		.tid = e->tid,
		.time = e->time,
		.kernel = e->flags >> 1 & 1,
	};
	samples->stack_bytes += e->stack.len;
	return 0;
}

static int replay_event(struct samples *samples, const struct sample_event *e)
{
	struct process *p;

	switch ((enum sample_event_type)e->type) {
	case SAMPLE_STACK:
		return replay_stack(samples, e);
	case SAMPLE_MAP:
		return replay_map(samples, e);
	case SAMPLE_FORK:
		return replay_fork(samples->replay, e);
	case SAMPLE_TRUTH:
		if (samples->n) {
			samples->list[samples->n - 1].truth =
				(const uint64_t *)(const void *)e->data;
			samples->list[samples->n - 1].n_truth = e->truth.n;
		}
		return 0;
	case SAMPLE_EXEC:
		p = process_get(samples->replay, e->pid);
		if (!p)
			return -ENOMEM;
		p->n = 0;
		p->space = NULL;
		p->vdso = NULL;
		p->key = ++samples->replay->last_key;
		return 0;
	default:
		return -EBADMSG;
	}
}

static int event_compare(const void *a, const void *b)
{
	const struct sample_event *x = *(const struct sample_event *const *)a,
				  *y = *(const struct sample_event *const *)b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x < y ? -1 : x > y;
}

int samples_replay(struct samples *samples)
{
	_cleanup_(freep) const struct sample_event **events = NULL;
	size_t n = 0, room = 0;
	int r = 0;

	for (size_t at = 0; at < samples->area->used; n++)
		at += ((const struct sample_event *)(const void *)(samples->area->base + at))->size;
	room = n + 1;
	events = reallocarray(NULL, room, sizeof(*events));
	samples->list = reallocarray(NULL, room, sizeof(*samples->list));
	samples->replay = calloc(1, sizeof(*samples->replay));
	if (!events || !samples->list || !samples->replay)
		return -ENOMEM;
	n = 0;
	for (size_t at = 0; at < samples->area->used; n++) {
		events[n] = (const void *)(samples->area->base + at);
		at += events[n]->size;
	}
	qsort(events, n, sizeof(*events), event_compare);
	for (size_t i = 0; i < n && r == 0; i++)
		r = replay_event(samples, events[i]);
	return r;
}

void samples_replay_free(struct samples_replay *replay)
{
	if (!replay)
		return;
	for (size_t i = 0; i < replay->n_spaces; i++)
		uw_space_unref(replay->spaces[i]);
	table_for_each (&replay->processes, slot) {
		free(((struct process *)(uintptr_t)slot->value)->maps);
		free((void *)(uintptr_t)slot->value);
	}
	table_deinit(&replay->processes);
	for (uint32_t i = 0; i < replay->paths.n_entries; i++)
		uw_module_unref(replay->modules[i]);
	for (size_t i = 0; i < replay->n_vdsos; i++)
		free(replay->vdsos[i]);
	free(replay->vdsos);
	free(replay->modules);
	free(replay->spaces);
	string_table_deinit(&replay->paths);
	free(replay);
}

/* ---- names ---- */

static void symbols_load(struct uw_module *module)
{
	struct uw_source source = {.fd = -1};

	if (uw_module_kind(module) != UW_MODULE_FILE || !uw_module_want_symbols(module))
		return;
	source.fd = open(uw_module_path(module), O_RDONLY | O_CLOEXEC);
	if (source.fd >= 0)
		(void)uw_module_load_symbols(module, &source);
	fd_close(source.fd);
}

void samples_symbol(struct samples *samples, const struct sample *sample, uint64_t frame, char *to,
		    size_t size)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = uw_space_find(sample->snapshot.space, pc);
	struct uw_symbol symbol;

	(void)samples;
	if (size)
		*to = 0;
	if (!map || !map->module)
		return;
	symbols_load(map->module);
	if (uw_module_symbol_state(map->module) == UW_MODULE_READY &&
	    uw_module_symbol(map->module, uw_map_vaddr(map, pc), &symbol))
		uw_demangle(symbol.name, to, size);
}

void samples_describe(struct samples *samples, const struct sample *sample, uint64_t frame,
		      char *to, size_t size)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = uw_space_find(sample->snapshot.space, pc);
	const char *path;
	char symbol[128];

	if (!map || !map->module) {
		snprintf(to, size, "%s %#llx", map ? "[anon]" : "[no mapping]",
			 (unsigned long long)uw_frame_pc(frame));
		return;
	}
	samples_symbol(samples, sample, frame, symbol, sizeof(symbol));
	path = strrchr(uw_module_path(map->module), '/');
	snprintf(to, size, "%s+%#llx %s", path ? path + 1 : uw_module_path(map->module),
		 (unsigned long long)uw_map_vaddr(map, uw_frame_pc(frame)), symbol);
}
