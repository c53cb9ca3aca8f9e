/* emit.c - see emit.h.
 *
 * frame cache: direct-mapped, 16 bytes an entry: the whole key (address with its flags, space key) and the
 * frame id.  A nameless frame's id carries a mark, so that counting "samples without symbols" costs nothing
 * for the others; when a module's names come, its marked entries are dropped and looked up again. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "daemon/base/error.h"
#include "daemon/stage/emit.h"

enum {
	CACHE_SLOTS = 1 << 16,
	NAME_MAX_LEN = 1024,
	LINES_IN_FLIGHT = 64,
	MAX_IDS = UW_MAX_FRAMES + 512 + 1,
};
#define NAMELESS (1u << 31)

struct cached_frame {
	uint64_t frame; /* 0: free */
	uint32_t space_key;
	uint32_t id;
};

/* A frame whose name or lines are still to come. */
struct late_frame {
	uint64_t vaddr;
};
struct late_list {
	struct late_frame *items;
	size_t n, room;
};

struct emit_module {
	struct uw_module *module; /* a reference */
	uint32_t mapping;         /* writer's */
	bool has_mapping, no_lines, symbols_done;
	struct late_list unnamed, unlined;
	size_t unlined_asked;
	uint64_t nameless_samples, last_sample;
	uint32_t pid; /* of a process that has it mapped */
};

struct emit {
	struct emit_context c;
	struct cached_frame *cache;
	struct emit_module **modules; /* by order of arrival */
	size_t n_modules, modules_room;
	struct table by_serial; /* module serial -> index + 1 */
	struct table frame_module; /* marked frame id -> module serial */
	uint32_t unknown_mapping, end_mapping;
	bool has_unknown_mapping;
	uint32_t lines_in_flight;
	uint64_t n_samples, lines_left;
	uint32_t generation; /* of the writer's ids */
	uint32_t ids[MAX_IDS];
};

static int late_push(struct late_list *list, uint64_t vaddr)
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

static int module_of(struct emit *em, struct uw_module *module, uint32_t pid, struct emit_module **ret)
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
	m->pid = pid;
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

static struct cached_frame *cache_slot(struct emit *em, uint64_t frame, uint32_t space_key)
{
	return &em->cache[hash_u64(frame ^ (uint64_t)space_key << 32) & (CACHE_SLOTS - 1)];
}

/* The symbol's name at @vaddr, demangled into @name; false: none (yet). */
static bool name_of(struct emit *em, const struct emit_module *m, uint64_t vaddr, char name[NAME_MAX_LEN])
{
	struct uw_symbol symbol;

	(void)em;
	if (uw_module_symbol_state(m->module) != UW_MODULE_READY || !uw_module_symbol(m->module, vaddr, &symbol))
		return false;
	uw_demangle(symbol.name, name, NAME_MAX_LEN);
	return true;
}

static int want_symbols(struct emit *em, struct emit_module *m)
{
	struct load_request request = {.kind = LOAD_SYMBOLS, .pid = m->pid, .module = m->module};

	/* A file's symbols follow its unwind half by themselves; a JIT's names are asked for here. */
	if (uw_module_kind(m->module) != UW_MODULE_JIT || !uw_module_want_symbols(m->module))
		return 0;
	(void)uw_module_ref(m->module);
	if (!loader_ask(em->c.loader, &request))
		(void)uw_module_unref(m->module);
	return 0;
}

static int module_frame(struct emit *em, struct emit_module *m, const struct uw_map *map, uint64_t vaddr,
			uint32_t *ret_id)
{
	char name[NAME_MAX_LEN];
	bool named = name_of(em, m, vaddr, name);
	int r = mapping_of(em, m, map->offset);

	if (r < 0)
		return trace(r);
	r = writer_frame(em->c.writer, m->mapping, vaddr, named ? name : NULL, ret_id);
	if (r < 0)
		return trace(r);
	if (!m->no_lines) {
		r = late_push(&m->unlined, vaddr);
		if (r < 0)
			return trace(r);
	}
	if (named)
		return 0;
	r = table_put(&em->frame_module, *ret_id, uw_module_serial(m->module));
	if (r < 0)
		return trace(r);
	*ret_id |= NAMELESS;
	if (!m->symbols_done) {
		r = want_symbols(em, m);
		if (r >= 0)
			r = late_push(&m->unnamed, vaddr);
	}
	return r < 0 ? trace(r) : 0;
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

static int user_frame(struct emit *em, const struct sample_info *info, uint64_t frame, uint32_t *ret_id)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = info->space ? uw_space_find(info->space, pc) : NULL;
	struct emit_module *m;
	int r;

	if (!map || !map->module)
		return unknown_frame(em, pc, ret_id);
	r = module_of(em, map->module, info->pid, &m);
	if (r < 0)
		return trace(r);
	uw_modules_touch(em->c.modules, map->module);
	return module_frame(em, m, map, uw_map_vaddr(map, pc), ret_id);
}

static int kernel_frame(struct emit *em, uint64_t address, uint32_t *ret_id)
{
	uint64_t start;
	const char *name = em->c.kallsyms ? uw_kallsyms_name(em->c.kallsyms, address, &start) : NULL;

	return writer_frame(em->c.writer, WRITER_KERNEL_MAPPING, 0, name ? name : "", ret_id);
}

/* The id of one frame, by the cache.  @space_key 0 with no space: the kernel. */
static int frame_id(struct emit *em, const struct sample_info *info, uint64_t frame, bool kernel, uint32_t *ret_id)
{
	uint32_t key = kernel ? 0 : info->space->key;
	struct cached_frame *slot = cache_slot(em, frame, key);
	uint32_t id;
	int r;

	if (slot->frame == frame && slot->space_key == key) {
		*ret_id = slot->id;
		return 0;
	}
	r = kernel ? kernel_frame(em, frame, &id) : user_frame(em, info, frame, &id);
	if (r < 0)
		return trace(r);
	*slot = (struct cached_frame){frame, key, id};
	*ret_id = id;
	return 0;
}

static void count_nameless(struct emit *em, uint32_t id)
{
	uint64_t serial, index;
	struct emit_module *m;

	if (!table_get(&em->frame_module, id & ~NAMELESS, &serial) || !table_get(&em->by_serial, serial, &index))
		return;
	m = em->modules[index - 1];
	if (m->last_sample != em->n_samples) {
		m->last_sample = em->n_samples;
		m->nameless_samples++;
	}
}

/* ---- samples ---- */

/* A frame at the root side that says why the stack stops there. */
static int end_marker(struct emit *em, const struct outcome *o, uint32_t *ret_id)
{
	char name[64];
	int r;

	if (o->result == UW_CUT)
		(void)snprintf(name, sizeof(name), "[cut]");
	else
		(void)snprintf(name, sizeof(name), "[failed: %s]", uw_reason_name(o->reason));
	r = writer_mapping(em->c.writer, "", NULL, 0, 0, 0, &em->end_mapping);
	if (r < 0)
		return trace(r);
	return writer_frame(em->c.writer, em->end_mapping, o->result == UW_CUT ? 0 : 1ull + o->reason, name, ret_id);
}

/* Perfetto's StackUnwindError (facts: PerfSample) for an outcome. */
static uint32_t unwind_error(const struct outcome *o)
{
	static const uint8_t errors[UW_REASON_COUNT] = {
		[UW_NO_USER_STATE] = 9, /* SYSTEM_CALL */
		[UW_ABI] = 12,          /* BAD_ARCH */
		[UW_NO_MODULE] = 5,     /* INVALID_MAP */
		[UW_UNREADABLE] = 8,    /* INVALID_ELF */
		[UW_NO_UNWIND_INFO] = 3,
		[UW_BAD_CFI] = 3,
		[UW_BAD_RETURN] = 3,
		[UW_NO_PROGRESS] = 7, /* REPEATED_FRAME */
		[UW_MEMORY] = 2,      /* MEMORY_INVALID */
		[UW_TOO_DEEP] = 6,
	};

	if (o->result == UW_WHOLE)
		return 0;
	return o->result == UW_CUT ? 2 : errors[o->reason];
}

/* The writer started its tables anew: no id is good any more. */
static void forget_ids(struct emit *em)
{
	em->generation = writer_generation(em->c.writer);
	memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	table_clear(&em->frame_module);
	em->has_unknown_mapping = false;
	for (size_t i = 0; i < em->n_modules; i++)
		em->modules[i]->has_mapping = false;
}

static int stack_of(struct emit *em, const struct outcome *o, uint32_t *ret_callstack)
{
	size_t n = 0;
	int r;

	if (em->generation != writer_generation(em->c.writer))
		forget_ids(em);
	for (uint32_t i = 0; i < o->n_kernel + o->n_user && n < MAX_IDS - 1; i++) {
		uint32_t id;

		r = frame_id(em, &o->info, o->frames[i], i < o->n_kernel, &id);
		if (r < 0)
			return trace(r);
		if (id & NAMELESS)
			count_nameless(em, id);
		em->ids[n++] = id & ~NAMELESS;
	}
	if (o->result != UW_WHOLE) {
		r = end_marker(em, o, &em->ids[n++]);
		if (r < 0)
			return trace(r);
	}
	return writer_callstack(em->c.writer, em->ids, n, ret_callstack);
}

static int announce(struct emit *em, const struct sample_info *info)
{
	struct process *p = info->process;
	struct process_thread *thread = process_thread_get(p, info->tid);
	uint64_t now;
	int r = 0;

	if (p->announced && (!thread || thread->announced))
		return 0;
	now = clock_ns(CLOCK_BOOTTIME);
	if (!p->announced) {
		struct process_thread *first = process_thread_get(p, p->pid);

		r = writer_process(em->c.writer, p->pid, p->ppid, p->uid, first ? first->comm : "",
				   p->cmdline, p->cmdline_len, p->kernel_thread, now);
		p->announced = r >= 0;
	}
	if (r >= 0 && thread && !thread->announced) {
		r = writer_thread(em->c.writer, p->pid, info->tid, thread->comm, now);
		thread->announced = r >= 0;
	}
	return r < 0 ? trace(r) : 0;
}

static void count_outcome(struct account *a, const struct outcome *o)
{
	a->emitted++;
	a->whole += o->result == UW_WHOLE;
	a->cut += o->result == UW_CUT;
	a->failed[o->reason] += o->result == UW_FAILED;
	a->frames += o->n_kernel + o->n_user;
	for (uint32_t i = o->n_kernel; i < o->n_kernel + o->n_user; i++)
		a->guessed_frames += !!(o->frames[i] & UW_FRAME_GUESSED);
	if (o->info.pid)
		a->weight += o->info.weight;
}

/* SampleSkipReason (facts: PerfSample): 1 read stage, 2 unwind stage, 3 enqueue. */
static uint32_t skip_number(enum skip_reason reason)
{
	return reason == SKIP_PARK_FULL || reason == SKIP_OUTPUT ? 3 : 2;
}

static int write_sample(struct emit *em, const struct outcome *o)
{
	const struct sample_info *info = &o->info;
	struct writer_sample sample = {
		.time = info->time,
		.cpu = info->cpu,
		.pid = info->pid,
		.tid = info->tid,
		.cpu_mode = info->cpu_mode,
		.count = info->count,
		.follower_counts = info->followers,
		.n_follower_counts = info->n_followers,
	};
	int r = announce(em, info);

	if (r < 0)
		return trace(r);
	em->n_samples++;
	if (o->skipped) {
		sample.skipped_reason = skip_number(o->skipped);
	} else {
		r = stack_of(em, o, &sample.callstack);
		if (r < 0)
			return trace(r);
		sample.unwind_error = unwind_error(o);
	}
	return writer_sample(em->c.writer, &sample);
}

int emit_outcome(struct emit *em, const struct outcome *o)
{
	struct account *account = em->c.account;
	int r = write_sample(em, o);

	account->answered++;
	if (r < 0)
		account->skipped[SKIP_OUTPUT]++;
	else if (o->skipped)
		account->skipped[o->skipped]++;
	else
		count_outcome(account, o);
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
	return r < 0 ? trace(r) : 0;
}

/* ---- names that come later ---- */

static void forget_nameless(struct emit *em)
{
	for (size_t i = 0; i < CACHE_SLOTS; i++) {
		if (em->cache[i].id & NAMELESS)
			em->cache[i] = (struct cached_frame){0};
	}
}

static int write_late_names(struct emit *em, struct emit_module *m)
{
	char name[NAME_MAX_LEN];
	size_t kept = 0;

	for (size_t i = 0; i < m->unnamed.n; i++) {
		struct writer_line line = {.function = name};
		int r;

		if (!name_of(em, m, m->unnamed.items[i].vaddr, name)) {
			m->unnamed.items[kept++] = m->unnamed.items[i];
			continue;
		}
		r = writer_symbol(em->c.writer, m->mapping, m->unnamed.items[i].vaddr, &line, 1);
		if (r < 0)
			return trace(r);
	}
	/* A JIT's names may come with a later reading of its map; a file's do not. */
	m->unnamed.n = uw_module_kind(m->module) == UW_MODULE_JIT ? kept : 0;
	return 0;
}

static int symbols_came(struct emit *em, struct emit_module *m)
{
	int r;

	m->symbols_done = uw_module_kind(m->module) != UW_MODULE_JIT;
	m->nameless_samples = 0;
	if (!m->unnamed.n)
		return 0;
	r = write_late_names(em, m);
	forget_nameless(em);
	return r < 0 ? trace(r) : 0;
}

static int lines_came(struct emit *em, struct emit_module *m, const struct load_answer *a)
{
	struct writer_line lines[64];
	size_t n = 0;

	em->lines_in_flight--;
	if (a->error < 0)
		m->no_lines = true;
	for (; n < a->n_lines && n < ARRAY_SIZE(lines); n++)
		lines[n] = (struct writer_line){a->lines[n].function, a->lines[n].file, a->lines[n].line};
	return n ? writer_symbol(em->c.writer, m->mapping, a->request.vaddr, lines, n) : 0;
}

int emit_answer(struct emit *em, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	uint64_t v;
	int r = 0;

	if (a->request.kind == LOAD_UNWIND) {
		r = uw_modules_loaded(em->c.modules, module);
		return r < 0 ? trace(r) : 0; /* the reference goes on with the LOAD_SYMBOLS that follows */
	}
	if (table_get(&em->by_serial, uw_module_serial(module), &v)) {
		struct emit_module *m = em->modules[v - 1];

		if (a->request.kind == LOAD_SYMBOLS)
			r = symbols_came(em, m);
		else
			r = lines_came(em, m, a);
	}
	(void)uw_module_unref(module);
	return r < 0 ? trace(r) : 0;
}

static void ask_lines(struct emit *em, struct emit_module *m)
{
	while (!m->no_lines && m->unlined_asked < m->unlined.n && em->lines_in_flight < LINES_IN_FLIGHT) {
		struct load_request request = {
			.kind = LOAD_LINES,
			.pid = m->pid,
			.module = uw_module_ref(m->module),
			.vaddr = m->unlined.items[m->unlined_asked].vaddr,
		};

		if (!loader_ask(em->c.loader, &request)) {
			(void)uw_module_unref(m->module);
			return;
		}
		m->unlined_asked++;
		em->lines_in_flight++;
	}
}

/* A perf map grows while its program runs: read it again while frames wait for names. */
static void reread_perf_map(struct emit *em, struct emit_module *m)
{
	if (uw_module_kind(m->module) != UW_MODULE_JIT || !m->unnamed.n ||
	    uw_module_symbol_state(m->module) == UW_MODULE_WANTED)
		return;
	uw_module_drop_symbols(m->module);
	(void)want_symbols(em, m);
}

int emit_tick(struct emit *em, bool last)
{
	em->lines_left = em->lines_in_flight;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];

		if (!last) {
			reread_perf_map(em, m);
			ask_lines(em, m);
		}
		if (m->no_lines)
			m->unlined.n = m->unlined_asked = 0;
		em->lines_left += m->unlined.n - m->unlined_asked;
	}
	return writer_symbols_flush(em->c.writer);
}

uint64_t emit_lines_left(const struct emit *em)
{
	return em->lines_left;
}

static int by_samples(const void *a, const void *b)
{
	const struct emit_nameless *x = a, *y = b;

	return (x->samples < y->samples) - (x->samples > y->samples);
}

int emit_nameless(struct emit *em, struct emit_nameless **ret_list, size_t *ret_n)
{
	struct emit_nameless *list = calloc(em->n_modules + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < em->n_modules; i++) {
		const struct emit_module *m = em->modules[i];

		if (m->nameless_samples)
			list[n++] = (struct emit_nameless){uw_module_path(m->module),
							   *uw_module_build_id(m->module), m->nameless_samples};
	}
	qsort(list, n, sizeof(*list), by_samples);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int emit_new(const struct emit_context *context, struct emit **ret_emit)
{
	struct emit *em = calloc(1, sizeof(*em));

	if (!em)
		return fail(-ENOMEM);
	em->c = *context;
	em->cache = calloc(CACHE_SLOTS, sizeof(*em->cache));
	if (!em->cache) {
		free(em);
		return fail(-ENOMEM);
	}
	*ret_emit = em;
	return 0;
}

struct emit *emit_free(struct emit *em)
{
	if (!em)
		return NULL;
	for (size_t i = 0; i < em->n_modules; i++) {
		(void)uw_module_unref(em->modules[i]->module);
		free(em->modules[i]->unnamed.items);
		free(em->modules[i]->unlined.items);
		free(em->modules[i]);
	}
	free(em->modules);
	table_deinit(&em->by_serial);
	table_deinit(&em->frame_module);
	free(em->cache);
	free(em);
	return NULL;
}
