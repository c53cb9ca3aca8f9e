/* emit-frame.c - from an address to a frame id.  Thread: main.
 *
 * frame cache: direct-mapped, 16 bytes an entry: the whole key (address with its flags, space key)
 * and the frame id.  Instead of the id of a nameless frame stands a marked index, which leads to
 * the id and to the module, so that counting "samples without symbols" costs nothing for the others
 * and two loads for it; when a module's names come, its marked entries are dropped and looked up
 * again. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "session/pipeline/emit-private.h"

int emit_late_push(struct late_list *list, uint64_t vaddr)
{
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 32;
		struct late_frame *more = reallocarray(list->items, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		list->items = more;
		list->room = room;
	}
	list->items[list->n++] = (struct late_frame){vaddr};
	return 0;
}

/* ---- modules ---- */

static int module_of(struct emit *em, struct uw_module *module, const struct sample_info *info,
		     struct emit_module **ret)
{
	struct emit_module *m;
	uint64_t v;
	int r;

	if (table_get(&em->by_serial, uw_module_serial(module), &v)) {
		*ret = em->modules[v - 1];
		return 0;
	}
	if (em->n_modules == em->modules_room) {
		size_t room = em->modules_room ? em->modules_room * 2 : 64;
		struct emit_module **more = reallocarray(em->modules, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		em->modules = more;
		em->modules_room = room;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(-ENOMEM);
	r = table_put(&em->by_serial, uw_module_serial(module), em->n_modules + 1);
	if (r < 0) {
		free(m);
		return trace(r);
	}
	m->module = uw_module_ref(module);
	m->index = (uint32_t)em->n_modules;
	m->pid = info->pid;
	m->owner = info->process ? info->process->owner : PROCFS_NO_OWNER;
	(void)process_mapping_of(info->process, module, &m->mapped);
	m->no_lines = em->c.no_lines;
	em->modules[em->n_modules++] = m;
	*ret = m;
	return 0;
}

static int mapping_of(struct emit *em, struct emit_module *m, uint64_t offset)
{
	const struct uw_build_id *id = uw_module_build_id(m->module);
	int r;

	if (m->has_mapping)
		return 0;
	r = writer_mapping(em->c.writer, uw_module_path(m->module), id->bytes, id->len,
			   uw_module_load_bias(m->module), offset, &m->mapping);
	if (r < 0)
		return trace(r);
	m->has_mapping = true;
	return 0;
}

/* ---- frames ---- */

static struct cached_frame *cache_slot(const struct emit *em, uint64_t frame, uint32_t space_key)
{
	return &em->cache[hash_u64(frame ^ (uint64_t)space_key << 32) & (CACHE_SLOTS - 1)];
}

void emit_frame_prefetch(const struct emit *em, uint64_t frame, uint32_t space_key)
{
	__builtin_prefetch(cache_slot(em, frame, space_key));
}

int emit_name_of(struct emit *em, const struct emit_module *m, uint64_t vaddr, uint32_t *ret_name)
{
	char name[NAME_MAX_LEN];
	struct named_symbol *slot;
	struct uw_symbol symbol;
	int r;

	*ret_name = 0;
	if (uw_module_symbol_state(m->module) != UW_MODULE_READY ||
	    !uw_module_symbol(m->module, vaddr, &symbol))
		return 0;
	slot = &em->named[hash_u64(symbol.start ^ (uint64_t)m->index << 48) & (NAMED_SLOTS - 1)];
	if (slot->module == m->index + 1 && slot->start == symbol.start) {
		*ret_name = slot->name;
		return 0;
	}
	uw_demangle(symbol.name, name, NAME_MAX_LEN);
	r = writer_name(em->c.writer, name, ret_name);
	/* JIT code may get another name where it stands. */
	if (r >= 0 && uw_module_kind(m->module) != UW_MODULE_JIT)
		*slot = (struct named_symbol){symbol.start, m->index + 1, *ret_name};
	return r < 0 ? trace(r) : 0;
}

struct load_request emit_request(const struct emit_module *m, enum load_kind kind)
{
	return (struct load_request){
		.kind = kind,
		.pid = m->pid,
		.owner = m->owner,
		.module = m->module,
		.start = m->mapped.start,
		.end = m->mapped.end,
		.offset = m->mapped.offset,
		.id = m->mapped.id,
	};
}

void emit_want_symbols(struct emit *em, struct emit_module *m)
{
	const struct load_request request = emit_request(m, LOAD_SYMBOLS);

	if (uw_module_kind(m->module) == UW_MODULE_MEMORY || !uw_module_want_symbols(m->module))
		return;
	(void)uw_module_ref(m->module);
	if (!loader_ask(em->c.loader, &request))
		(void)uw_module_unref(m->module);
}

bool emit_names_to_come(const struct emit_module *m)
{
	enum uw_module_state state = uw_module_symbol_state(m->module);

	return uw_module_kind(m->module) == UW_MODULE_JIT || state == UW_MODULE_NEW ||
	       state == UW_MODULE_WANTED;
}

static int nameless_push(struct emit *em, const struct emit_module *m, uint32_t *id)
{
	if (em->n_nameless == em->nameless_room) {
		size_t room = em->nameless_room ? em->nameless_room * 2 : 256;
		struct nameless_frame *more = reallocarray(em->nameless, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		em->nameless = more;
		em->nameless_room = room;
	}
	em->nameless[em->n_nameless] = (struct nameless_frame){*id, m->index, 0};
	*id = NAMELESS | (uint32_t)em->n_nameless++;
	return 0;
}

/* A frame not met in this module before.  @address: with WRITER_GUESSED where it was guessed. */
static int new_frame(struct emit *em, struct emit_module *m, const struct uw_map *map,
		     uint64_t address, uint32_t *ret_id)
{
	uint64_t vaddr = address & ~WRITER_GUESSED;
	uint32_t name;
	int r = emit_name_of(em, m, vaddr, &name);

	if (r >= 0)
		r = mapping_of(em, m, map->offset);
	if (r >= 0)
		r = writer_frame_named(em->c.writer, m->mapping, address, name, ret_id);
	if (r >= 0 && !m->no_lines && em->n_unlined < MAX_UNLINED) {
		em->n_unlined++;
		r = emit_late_push(&m->unlined, vaddr);
	}
	if (r < 0 || name)
		return r < 0 ? trace(r) : 0;
	r = nameless_push(em, m, ret_id);
	if (r >= 0 && emit_names_to_come(m)) {
		emit_want_symbols(em, m);
		r = emit_late_push(&m->unnamed, vaddr);
	}
	return r < 0 ? trace(r) : 0;
}

static int module_frame(struct emit *em, struct emit_module *m, const struct uw_map *map,
			uint64_t address, uint32_t *ret_id)
{
	uint64_t known;
	int r;

	if (!table_get(&m->frames, address, &known)) {
		r = new_frame(em, m, map, address, ret_id);
		return r < 0 ? trace(r) : table_put(&m->frames, address, *ret_id);
	}
	*ret_id = (uint32_t)known;
	return 0;
}

void emit_set_named(const struct emit *em, struct emit_module *m, uint64_t vaddr)
{
	const uint64_t addresses[] = {vaddr, vaddr | WRITER_GUESSED};
	uint64_t id;

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		const struct nameless_frame *frame;

		if (!table_get(&m->frames, addresses[i], &id) || !(id & NAMELESS))
			continue;
		frame = &em->nameless[id & ~(uint64_t)NAMELESS];
		m->nameless_samples -= frame->samples;
		(void)table_put(&m->frames, addresses[i], frame->id); /* cannot fail */
	}
}

/* An address outside every known mapping: shown as such, never given a name. */
static int unknown_frame(struct emit *em, uint64_t pc, uint32_t *ret_id)
{
	int r;

	if (!em->has_unknown_mapping) {
		r = writer_mapping(em->c.writer, "[unknown]", NULL, 0, 0, 0, &em->unknown_mapping);
		if (r < 0)
			return trace(r);
		em->has_unknown_mapping = true;
	}
	return writer_frame(em->c.writer, em->unknown_mapping, pc, NULL, ret_id);
}

static int user_frame(struct emit *em, const struct sample_info *info, uint64_t frame,
		      uint32_t *ret_id)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = info->space ? uw_space_find(info->space, pc) : NULL;
	struct emit_module *m = NULL;
	int r;

	if (!map || !map->module) {
		r = unknown_frame(em, pc, ret_id);
		return r < 0 ? trace(r) : EMIT_UNMAPPED;
	}
	r = module_of(em, map->module, info, &m);
	if (r < 0)
		return trace(r);
	m->last_use = em->seconds;
	uw_modules_touch(em->c.modules, map->module);
	return module_frame(em, m, map,
			    uw_map_vaddr(map, pc) | (frame & UW_FRAME_GUESSED ? WRITER_GUESSED : 0),
			    ret_id);
}

static int kernel_frame(struct emit *em, uint64_t address, uint32_t *ret_id)
{
	uint64_t start;
	const char *name =
		em->c.kallsyms ? uw_kallsyms_name(em->c.kallsyms, address, &start) : NULL;

	return writer_frame(em->c.writer, WRITER_KERNEL_MAPPING, 0, name ? name : "", ret_id);
}

/* The kernel's frames have space key 0. */
int emit_frame_id(struct emit *em, const struct sample_info *info, uint64_t frame, bool kernel,
		  uint32_t *ret_id)
{
	uint32_t key = kernel ? 0 : info->space->key;
	struct cached_frame *slot = cache_slot(em, frame, key);
	uint32_t id;
	int r;

	if (slot->frame == frame && slot->space_key == key && slot->id) {
		*ret_id = slot->id;
		return 0;
	}
	r = kernel ? kernel_frame(em, frame, &id) : user_frame(em, info, frame, &id);
	if (r < 0)
		return trace(r);
	if (r != EMIT_UNMAPPED)
		*slot = (struct cached_frame){frame, key, id};
	*ret_id = id;
	return r;
}
