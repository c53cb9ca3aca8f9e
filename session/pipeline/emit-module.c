/* emit-module.c - see emit-module.h.
 *
 * A JIT compiler appends to its perf map (or jitdump) while the program runs, so the file is read
 * again while frames wait for names.  Some code never gets a name: as long as a read brings nothing
 * for frames that wait, the next one waits twice as long. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/emit-module.h"
#include "session/pipeline/jit-hint.h"
#include "symbols/image.h"

enum {
	AGAIN_MAX_S = 8,
	LINED_MAX = 128 << 10, /* addresses of a module; of more all lines are requested again */
	LIST_KEPT = 64,	       /* addresses: room that an empty list keeps */
};

struct emit_module *emit_module_new(struct uw_module *module, const struct sample_info *info)
{
	struct emit_module *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->module = uw_module_ref(module);
	m->frames.unshared = true;
	m->pid = info->pid;
	m->owner = info->process ? info->process->owner : PROCFS_NO_OWNER;
	if (!info->process)
		return m;
	(void)process_mapping_of(info->process, module, &m->mapped);
	if (uw_module_kind(module) == UW_MODULE_JIT && !uw_module_language(module))
		m->hint = jit_hint(info->process);
	if (uw_module_kind(module) == UW_MODULE_JIT)
		m->vm = process_vm_of_module(info->process, module);
	return m;
}

void emit_module_free(struct emit_module *m)
{
	(void)uw_module_unref(m->module);
	table_deinit(&m->frames);
	table_deinit(&m->functions);
	free(m->unnamed.vaddrs);
	free(m->unlined.vaddrs);
	free(m->lined);
	jit_epochs_deinit(&m->epochs);
	free(m);
}

bool emit_module_names_to_come(const struct emit_module *m)
{
	enum uw_module_state state = uw_module_symbol_state(m->module);

	return uw_module_kind(m->module) == UW_MODULE_JIT || state == UW_MODULE_NEW ||
	       state == UW_MODULE_WANTED;
}

int late_list_push(struct late_list *list, uint64_t vaddr)
{
	if (list->n == list->room && !array_grow(list->vaddrs, list->room, 32))
		return fail(-ENOMEM);
	list->vaddrs[list->n++] = vaddr;
	return 0;
}

/* A request of a module.  The caller takes a reference on the module for it. */
static struct load_request emit_module_request(const struct emit_module *m, enum load_kind kind)
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
		.vm = m->vm,
	};
}

void emit_module_ask_symbols(struct emit_module *m, struct loader *loader)
{
	const struct load_request request = emit_module_request(m, LOAD_SYMBOLS);

	if (uw_module_kind(m->module) == UW_MODULE_MEMORY || !uw_module_want_symbols(m->module))
		return;
	m->dump_asked_at = clock_ns(CLOCK_MONOTONIC);
	(void)uw_module_ref(m->module);
	if (!loader_ask(loader, &request))
		(void)uw_module_unref(m->module);
}

static int by_address(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static size_t sort_unique(uint64_t *list, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_address);
	for (size_t i = 0; i < n; i++)
		if (!kept || list[kept - 1] != list[i])
			list[kept++] = list[i];
	return kept;
}

/* A frame may be there twice, as it is where one was guessed. */
static size_t take_due(struct emit_module *m, uint64_t to[static LOAD_VADDRS_MAX])
{
	size_t due = min_u64(m->unlined_due - m->unlined_asked, LOAD_VADDRS_MAX);

	memcpy(to, m->unlined.vaddrs + m->unlined_asked, due * sizeof(*to));
	return sort_unique(to, due);
}

/* Names of JIT code and of scripts come with lines, or change: their frames get them again. */
static void remember_lined(struct emit_module *m)
{
	uint32_t *list;
	size_t n = 0;

	if (m->no_lines || !m->frames.n_used || uw_module_kind(m->module) == UW_MODULE_JIT)
		return;
	list = reallocarray(m->lined, m->n_lined + m->frames.n_used, sizeof(*list));
	if (!list)
		return;
	n = m->n_lined;
	table_for_each (&m->frames, slot)
		if ((slot->key & ~WRITER_GUESSED) <= UINT32_MAX)
			list[n++] = (uint32_t)slot->key;
	m->lined = list;
	m->n_lined = sort_unique_u32(list, n);
	list = reallocarray(m->lined, m->n_lined, sizeof(*list));
	m->lined = list ? list : m->lined;
}

void emit_module_forget_frames(struct emit_module *m)
{
	remember_lined(m);
	if (m->n_lined > LINED_MAX) {
		free(take(m->lined));
		m->n_lined = 0;
	}
	m->unnamed.n = sort_unique(m->unnamed.vaddrs, m->unnamed.n); /* they are added again */
	m->has_mapping = false;
	table_deinit(&m->frames);
}

bool emit_module_had_lines(const struct emit_module *m, uint64_t vaddr)
{
	size_t low = 0, high = m->n_lined;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (m->lined[mid] < vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < m->n_lined && m->lined[low] == vaddr;
}

size_t emit_module_ask_lines(struct emit_module *m, struct loader *loader)
{
	struct load_request request = emit_module_request(m, LOAD_LINES);
	size_t n = min_u64(m->unlined_due - m->unlined_asked, LOAD_VADDRS_MAX), distinct;

	request.vaddrs = n ? calloc(LOAD_VADDRS_MAX, sizeof(*request.vaddrs)) : NULL;
	if (!request.vaddrs)
		return 0;
	request.n_vaddrs = distinct = take_due(m, request.vaddrs);
	(void)uw_module_ref(m->module);
	if (!loader_ask(loader, &request)) {
		(void)uw_module_unref(m->module);
		load_request_deinit(&request);
		return 0;
	}
	m->unlined_asked += n;
	return distinct;
}

void emit_module_forget_lined(struct emit_module *m)
{
	if (m->unlined.room > LIST_KEPT) {
		free(m->unlined.vaddrs);
		m->unlined = (struct late_list){0};
	}
	m->unlined.n = m->unlined_asked = m->unlined_due = 0;
}

void emit_module_forget_lines(struct emit_module *m)
{
	emit_module_forget_lined(m);
	free(take(m->lined));
	m->n_lined = 0;
}

static uint64_t function_of(const struct emit_module *m, uint64_t place)
{
	return uw_module_language(m->module) == UW_LANGUAGE_PYTHON
		       ? place
		       : uw_script_without_position(place);
}

bool emit_module_was_asked(const struct emit_module *m, uint64_t place)
{
	uint64_t named;

	return table_get(&m->functions, function_of(m, place), &named);
}

int64_t emit_module_count_freed(struct emit_module *m, const struct load_answer *a)
{
	enum uw_language language = uw_module_language(m->module);
	uint64_t had_name;
	int64_t freed = 0;
	size_t line = 0;

	if (!language || language == UW_LANGUAGE_JS || a->error < 0)
		return 0;
	for (size_t i = 0; i < a->request.n_vaddrs; i++) {
		uint64_t function = function_of(m, a->request.vaddrs[i]);
		bool named = line < a->n_lines && a->lines[line].address == i;

		while (line < a->n_lines && a->lines[line].address <= i)
			line++;
		if (!table_get(&m->functions, function, &had_name))
			freed += !named;
		else if (had_name || !named)
			continue;
		else
			freed--;
		if (table_put(&m->functions, function, named) < 0)
			break;
	}
	return freed;
}

/* Is the map of a JIT module due, once a second? */
static bool is_due(struct emit_module *m)
{
	if (m->again_in > 1) {
		m->again_in--;
		return false;
	}
	m->again_after = m->again_after ? (uint32_t)min_u64(m->again_after * 2, AGAIN_MAX_S) : 1;
	m->again_in = m->again_after;
	return true;
}

void emit_module_ask_again(struct emit_module *m, struct loader *loader, bool at_end)
{
	/* A Java VM is read again when a stack needs it; it may have ended before, but left a map. */
	if (!m->unnamed.n || uw_module_language(m->module) ||
	    (uw_module_is_vm(m->module) && !at_end) ||
	    uw_module_symbol_state(m->module) == UW_MODULE_WANTED)
		return;
	if (uw_module_kind(m->module) == UW_MODULE_JIT) {
		/* A dump is read on (emit_module_ask_dump()), and its names stay meanwhile. */
		if (m->dump_asked || (!at_end && !is_due(m)) ||
		    (emit_module_has_epochs(m) && uw_module_jitdump(m->module) &&
		     uw_module_symbol_state(m->module) == UW_MODULE_READY))
			return;
		uw_module_drop_symbols(m->module);
	}
	emit_module_ask_symbols(m, loader);
}

bool emit_module_has_epochs(const struct emit_module *m)
{
	return uw_module_kind(m->module) == UW_MODULE_JIT && !emit_module_names_by_lines(m->module);
}

void emit_module_ask_dump(struct emit_module *m, struct loader *loader)
{
	struct load_request request = emit_module_request(m, LOAD_SYMBOLS);

	if (!emit_module_has_epochs(m) || !uw_module_jitdump(m->module) || m->dump_asked ||
	    uw_module_symbol_state(m->module) != UW_MODULE_READY)
		return;
	request.reading.again = true;
	request.reading.known = uw_module_extent(m->module);
	m->dump_asked_at = clock_ns(CLOCK_MONOTONIC);
	request.reading.names_only =
		m->dump_asked_at - m->dump_unwound_at < uw_module_bytes(m->module) * DUMP_BYTE_NS;
	if (!request.reading.names_only)
		m->dump_unwound_at = m->dump_asked_at;
	(void)uw_module_ref(m->module);
	m->dump_asked = loader_ask(loader, &request);
	if (!m->dump_asked)
		(void)uw_module_unref(m->module);
}

bool emit_module_symbol(const struct emit_module *m, uint64_t vaddr, struct uw_symbol *ret_symbol)
{
	if (!emit_module_has_epochs(m))
		return uw_module_symbol(m->module, vaddr, ret_symbol);
	return uw_module_symbol_at(m->module, vaddr & JIT_ADDRESS,
				   jit_epochs_time(&m->epochs, vaddr), ret_symbol);
}

bool emit_module_names_by_lines(const struct uw_module *module)
{
	return uw_module_is_vm(module) || uw_module_language(module);
}

/* Where a Java VM has its code: a Method belongs to the same module. */
static const struct uw_map *map_of_vm(const struct uw_space *space)
{
	for (size_t i = 0; i < space->n_parts; i++) {
		const struct uw_maps *part = space->parts[i].maps;

		for (uint32_t k = 0; k < part->n; k++)
			if (part->maps[k].module && uw_module_is_vm(part->maps[k].module))
				return &part->maps[k];
	}
	return NULL;
}

const struct uw_map *emit_map_of_frame(const struct uw_space *space, uint64_t frame,
				       struct uw_map *script)
{
	if (!space)
		return NULL;
	if (frame & UW_FRAME_SCRIPT) {
		*script = (struct uw_map){.module = space->script};
		return script;
	}
	return frame & UW_FRAME_METHOD ? map_of_vm(space)
				       : uw_space_find(space, uw_frame_lookup(frame));
}

uint32_t emit_frame_key(const struct uw_space *space, uint64_t frame)
{
	return frame & UW_FRAME_SCRIPT ? ~uw_module_serial(space->script) : space->key;
}
