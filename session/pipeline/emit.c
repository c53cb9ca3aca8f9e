/* emit.c - from the frames of an outcome to their ids and names (emit.h); emit-sample.c writes the sample.
 *
 *   outcome ─► emit_stack_ids() ─┬─ recent stacks of the thread ─► the ids of unchanged frames
 *                                └─ frame cache ─► user_frame() | kernel_frame() ─► module ─► name
 *           ─► writer_callstack() ─► writer_sample()   (emit-sample.c)
 *
 * Frame cache: direct-mapped, 16 bytes a slot: the whole key (address with its flags, space key)
 * and the frame id.  A frame without a symbol has a marked index instead of its id.  The index
 * leads to the id and to the module, so counting samples without symbols costs nothing for other
 * frames and two loads for these.  When the names of a module arrive, its marked slots are dropped
 * and looked up again.
 *
 * Recent stacks: consecutive samples of a thread share most of their stack, and 50 lookups in a
 * cache of a megabyte are 50 loads from far memory.  So the last stack of each thread is kept,
 * root first, in a small table by thread.  The ids of equal frames are copied, and only the rest
 * is looked up.
 *
 * Lines: opening the DWARF of a module costs 10-100 ms, a unit in it 1 ms, an address 2 us, and the DWARF of one file can be
 * as large as all of our memory.  So lines are looked up once, at the end, module by module; during the recording only where
 * many addresses wait, for modules with many, and within a share of one CPU. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/unshared.h"
#include "session/pipeline/emit-private.h"
#include "session/pipeline/jit-epochs.h"
#include "session/pipeline/jit-hint.h"
#include "symbols/demangle.h"

enum {
	CACHE_SLOTS = 1 << 16,
	NAME_MAX_LEN = 1024,
	LINES_IN_FLIGHT = 4, /* requests */
	LINES_BATCH = 2048,  /* addresses that justify opening a module's DWARF while recording */
	LINES_MANY = 4096,   /* of all modules: more than are looked up soon after the stop */
	LINES_SHARE = 100,   /* ... while lines have cost less than 1/100 of one CPU */
	NAMED_SLOTS = 16384,
	RECENT_STACKS = 64,
	CALLERS_MAX = 16, /* frames without a symbol, up to the one that called this code */
	CALLER_LOOKS = 64,
	RECENT_FRAMES = 256,
	PREFETCH_FRAMES = 16,  /* of the next stack: the innermost ones change */
	RENEW_S = 600,	       /* frames and stacks that were last seen before are forgotten, */
	RENEW_BYTES = 4 << 20, /* ... where they need more than this */
};

/* A mark: the other bits are an index into emit->unsymbolized, not a frame id. */
#define UNSYMBOLIZED (1u << 31)

struct cached_frame {
	uint64_t frame;
	uint32_t space_key;
	uint32_t id; /* or an index marked UNSYMBOLIZED; 0: free */
};

/* The name of a function, for further addresses in it: demangling costs 4,000 instructions. */
struct named_symbol {
	uint64_t start;
	uint32_t module; /* its serial; 0: free */
	uint32_t name;	 /* id of the writer */
};
struct frame_name {
	uint32_t id; /* of the writer; 0: none (yet) */
	enum frame_kind kind;
	const char *file; /* of a jitdump; borrowed from the symbols */
	uint32_t line;
};

struct recent_stack {
	uint32_t tid, space_key, n;
	uint32_t ids[RECENT_FRAMES]; /* or marked UNSYMBOLIZED */
	uint64_t frames[RECENT_FRAMES];
};

/* All that each frame is looked up in: one huge page. */
struct emit_tables {
	struct cached_frame cache[CACHE_SLOTS];
	struct named_symbol named[NAMED_SLOTS];
	struct recent_stack recent[RECENT_STACKS];
};
#define TABLES_BYTES max_u64(sizeof(struct emit_tables), UNSHARED_HUGE)

/* ---- memory of ids ---- */

/* Marked ids have changed: the recent stacks are dropped. */
static void forget_recent(struct emit *em)
{
	for (size_t i = 0; i < RECENT_STACKS; i++)
		em->recent[i].n = 0;
}

/* At a reset: frames that still wait for names will most likely get them, so they are not counted.
 * JIT code is the exception: many of its frames never get a name. */
static void settle_unsymbolized(struct emit *em)
{
	for (size_t i = 0; i < em->n_unsymbolized; i++) {
		struct emit_module *m;

		if (em->unsymbolized[i].module == EMIT_NO_MODULE)
			continue;
		m = em->modules[em->unsymbolized[i].module];
		if (emit_module_names_to_come(m) && uw_module_kind(m->module) != UW_MODULE_JIT)
			m->unsymbolized_samples -= em->unsymbolized[i].samples;
	}
	em->n_unsymbolized = 0;
}

static void forget_ids(struct emit *em)
{
	em->generation = writer_generation(em->c.writer);
	memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	memset(em->named, 0, NAMED_SLOTS * sizeof(*em->named)); /* ids of names */
	settle_unsymbolized(em);
	unshared_free(em->unsymbolized, em->unsymbolized_room * sizeof(*em->unsymbolized));
	em->unsymbolized = NULL;
	em->unsymbolized_room = 0;
	forget_recent(em);
	em->has_unknown_mapping = false;
	for (size_t i = 0; i < em->n_modules; i++)
		emit_module_forget_frames(em->modules[i]); /* the next ones may be others */
}

void emit_check_ids(struct emit *em)
{
	if (em->generation != writer_generation(em->c.writer))
		forget_ids(em);
}

/* Between two stacks only.  Modules with frames without symbols stay for the list at the end. */
void emit_renew(struct emit *em)
{
	size_t n = em->n_modules;

	forget_ids(em);
	table_clear(&em->by_serial);
	em->n_modules = em->n_unlined = 0;
	for (size_t i = 0; i < n; i++) {
		struct emit_module *m = em->modules[i];

		emit_module_forget_lines(m);
		if (!m->unsymbolized_samples || em->n_modules >= EMIT_MODULES_MAX / 4 ||
		    table_put(&em->by_serial, uw_module_serial(m->module), em->n_modules + 1) < 0) {
			emit_module_free(m);
			continue;
		}
		m->index = (uint32_t)em->n_modules;
		em->modules[em->n_modules++] = m;
	}
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
	if (em->n_modules == em->modules_room && !array_grow(em->modules, em->modules_room, 64))
		return fail(-ENOMEM);
	m = emit_module_new(module, info);
	if (!m)
		return fail(-ENOMEM);
	r = table_put(&em->by_serial, uw_module_serial(module), em->n_modules + 1);
	if (r < 0) {
		emit_module_free(m);
		return trace(r);
	}
	m->index = (uint32_t)em->n_modules;
	m->no_lines = em->c.no_lines && !emit_module_names_by_lines(module);
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
	m->offset = offset;
	m->has_mapping = true;
	return 0;
}

/* ---- frames ---- */

static struct cached_frame *cache_slot(const struct emit *em, uint64_t frame, uint32_t space_key)
{
	return &em->cache[hash_u64(frame ^ (uint64_t)space_key << 32) & (CACHE_SLOTS - 1)];
}

/* Prefetches the cache slot of a frame that is looked up soon. */
static void prefetch_frame(const struct emit *em, uint64_t frame, uint32_t space_key)
{
	__builtin_prefetch(cache_slot(em, frame, space_key));
}

/* The demangled name of the symbol at @vaddr. */
static int name_of(struct emit *em, const struct emit_module *m, uint64_t vaddr,
		   struct frame_name *ret_name)
{
	const uint32_t serial = uw_module_serial(m->module);
	char name[NAME_MAX_LEN];
	struct named_symbol *slot;
	struct uw_symbol symbol;
	int r;

	*ret_name = (struct frame_name){0};
	if (!emit_module_symbol(m, vaddr, &symbol))
		return 0;
	ret_name->kind = symbol.kind;
	ret_name->file = symbol.file;
	ret_name->line = symbol.line;
	slot = &em->named[hash_u64(symbol.start ^ (uint64_t)serial << 32) & (NAMED_SLOTS - 1)];
	if (slot->module == serial && slot->start == symbol.start) {
		ret_name->id = slot->name;
		return 0;
	}
	uw_demangle(symbol.name, name, NAME_MAX_LEN);
	r = writer_name(em->c.writer, name, &ret_name->id);
	/* JIT code at one address may get another name. */
	if (r >= 0 && uw_module_kind(m->module) != UW_MODULE_JIT)
		*slot = (struct named_symbol){symbol.start, serial, ret_name->id};
	return r < 0 ? trace(r) : 0;
}

/* The name and line that a symbol has, as ModuleSymbols. */
static int write_named(struct emit *em, struct emit_module *m, uint64_t vaddr,
		       const struct frame_name *name)
{
	const struct writer_line line = {writer_name_text(em->c.writer, name->id), name->file,
					 name->line, name->kind};
	int r = mapping_of(em, m, m->offset);

	return r < 0 ? trace(r) : writer_symbol(em->c.writer, m->mapping, vaddr, &line, 1);
}

static int unsymbolized_push(struct emit *em, const struct emit_module *m, uint32_t *id)
{
	if (em->n_unsymbolized == em->unsymbolized_room) {
		size_t room = em->unsymbolized_room ? em->unsymbolized_room * 2 : 256;
		struct unsymbolized_frame *more =
			unshared_resize(em->unsymbolized, em->unsymbolized_room * sizeof(*more),
					room * sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		em->unsymbolized = more;
		em->unsymbolized_room = room;
	}
	em->unsymbolized[em->n_unsymbolized] =
		(struct unsymbolized_frame){.id = *id, .module = m->index};
	*id = UNSYMBOLIZED | (uint32_t)em->n_unsymbolized++;
	return 0;
}

/* The lines of a jitdump came with its names. */
static void write_own_lines(struct emit *em, struct emit_module *m)
{
	struct frame_name name;

	for (; m->unlined_asked < m->unlined_due; m->unlined_asked++)
		if (name_of(em, m, m->unlined.vaddrs[m->unlined_asked], &name) >= 0 && name.line)
			(void)write_named(em, m, m->unlined.vaddrs[m->unlined_asked], &name);
}

void emit_request_lines(struct emit *em, struct emit_module *m)
{
	if (emit_module_has_epochs(m))
		write_own_lines(em, m);
	while (!m->no_lines && m->unlined_asked < m->unlined_due &&
	       em->lines_in_flight < LINES_IN_FLIGHT) {
		size_t n = emit_module_ask_lines(m, em->c.loader);

		if (!n)
			return;
		em->vaddrs_in_flight += n;
		em->lines_in_flight++;
	}
	if (m->no_lines || m->unlined_asked == m->unlined.n) {
		em->n_unlined -= m->unlined.n;
		emit_module_forget_lined(m);
	}
	em->lines_blocked |= m->unlined_asked < m->unlined_due && !m->no_lines &&
			     emit_module_names_by_lines(m->module);
}

/* After an answer: lines_blocked.  Modules named by lines do not wait for the end: their processes may be gone by then. */
static void request_blocked(struct emit *em)
{
	if (!em->lines_blocked)
		return;
	em->lines_blocked = false;
	for (size_t i = 0; i < em->n_modules; i++)
		if (emit_module_names_by_lines(em->modules[i]->module))
			emit_request_lines(em, em->modules[i]);
}

/* A frame that is new in this module.  @address has WRITER_GUESSED where the frame was guessed; @kind: FRAME_NATIVE
 * where its symbol has the kind. */
static int new_frame(struct emit *em, struct emit_module *m, const struct uw_map *map,
		     uint64_t address, enum frame_kind kind, uint32_t *ret_id)
{
	uint64_t vaddr = address & ~WRITER_GUESSED;
	struct frame_name name;
	int r = name_of(em, m, vaddr, &name);

	if (r >= 0 && emit_module_has_epochs(m) && uw_module_jitdump(m->module))
		r = jit_epochs_note(&m->epochs, vaddr);

	if (r >= 0)
		r = mapping_of(em, m, map->offset);
	if (r >= 0)
		r = writer_frame_named(em->c.writer, m->mapping, address, name.id, ret_id);
	kind = kind == FRAME_NATIVE ? name.kind : kind;
	if (r >= 0 && kind != FRAME_NATIVE)
		writer_frame_kind(em->c.writer, *ret_id, kind);
	if (r >= 0 && !m->no_lines && em->n_unlined < EMIT_UNLINED_MAX &&
	    (name.line || !emit_module_has_epochs(m)) && !emit_module_had_lines(m, vaddr)) {
		em->n_unlined++;
		r = late_list_push(&m->unlined, vaddr);
		if (r >= 0 && emit_module_names_by_lines(m->module)) {
			m->unlined_due = m->unlined.n;
			emit_request_lines(em, m);
		}
	}
	if (r < 0 || name.id)
		return r < 0 ? trace(r) : 0;
	r = unsymbolized_push(em, m, ret_id);
	if (r >= 0 && emit_module_names_to_come(m)) {
		m->again_in = m->again_after = 0;
		emit_module_ask_symbols(m, em->c.loader);
		r = late_list_push(&m->unnamed, vaddr);
	}
	return r < 0 ? trace(r) : 0;
}

static int module_frame(struct emit *em, struct emit_module *m, const struct uw_map *map,
			uint64_t address, enum frame_kind kind, uint32_t *ret_id)
{
	uint64_t known;
	int r;

	if (!table_get(&m->frames, address, &known)) {
		r = new_frame(em, m, map, address, kind, ret_id);
		return r < 0 ? trace(r) : table_put(&m->frames, address, *ret_id);
	}
	*ret_id = (uint32_t)known;
	return 0;
}

/* An address outside of all known mappings: shown as an address, without a symbol. */
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

/* No mapping covers the address yet.  One may follow under the same key, so nothing is cached. */
enum { UNMAPPED = 1 };

static int user_frame(struct emit *em, const struct sample_info *info, uint64_t frame,
		      uint32_t *ret_id)
{
	bool is_script = frame & UW_FRAME_SCRIPT;
	uint64_t pc = is_script ? uw_frame_script_address(frame) : uw_frame_lookup(frame);
	struct uw_map script;
	const struct uw_map *map = emit_map_of_frame(info->space, frame, &script);
	struct emit_module *m = NULL;
	int r;

	if (!map || !map->module) {
		r = unknown_frame(em, pc, ret_id);
		return r < 0 ? trace(r) : UNMAPPED;
	}
	r = module_of(em, map->module, info, &m);
	if (r < 0)
		return trace(r);
	m->last_use = em->seconds;
	uw_modules_touch(em->c.modules, map->module);
	pc = uw_map_vaddr(map, pc) | (frame & UW_FRAME_GUESSED ? WRITER_GUESSED : 0);
	if (emit_module_has_epochs(m)) {
		emit_note_dump(em, m);
		r = jit_epochs_key(&m->epochs, m->module, pc,
				   jit_epochs_monotonic(em->c.clock, info->time), &pc);
		if (r < 0)
			return trace(r);
	}
	return module_frame(em, m, map, pc,
			    frame & UW_FRAME_METHOD && !is_script ? FRAME_JAVA_INTERPRETED
								  : FRAME_NATIVE,
			    ret_id);
}

static int kernel_frame(struct emit *em, uint64_t address, uint32_t *ret_id)
{
	struct uw_kernel_names *names = em->c.kernel_names;
	uint64_t start;
	const char *name = names ? uw_kernel_name(names, address, &start) : NULL;

	/* Addresses of a module may belong to another one now. */
	if (names && uw_kernel_names_generation(names) != em->kernel_generation) {
		em->kernel_generation = uw_kernel_names_generation(names);
		memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	}
	/* Without the bit that all addresses of the kernel have: it is a mark here. */
	return writer_frame(em->c.writer, WRITER_KERNEL_MAPPING,
			    em->c.addresses ? address & ~WRITER_GUESSED : 0, name ? name : "",
			    ret_id);
}

/* The id of one frame, through the cache; a marked index where it has no symbol.  Frames of the
 * kernel have space key 0. */
static int frame_id(struct emit *em, const struct sample_info *info, uint64_t frame, bool kernel,
		    uint32_t *ret_id)
{
	uint32_t key = kernel ? 0 : emit_frame_key(info->space, frame);
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
	if (r != UNMAPPED)
		*slot = (struct cached_frame){frame, key, id};
	*ret_id = id;
	return r;
}

/* ---- stacks ---- */

static bool set_named(const struct emit *em, struct emit_module *m, uint64_t vaddr);

/* JIT code without a symbol, @ids[i], which a compiler of regular expressions made, has a name by the function that runs it. */
static int name_by_caller(struct emit *em, uint32_t *ids, size_t i, size_t n)
{
	struct unsymbolized_frame *f = &em->unsymbolized[ids[i] & ~UNSYMBOLIZED];
	struct emit_module *m = em->modules[f->module];
	struct writer_frame_parts own, caller;
	const char *text = NULL;
	uint32_t name;
	size_t k = i + 1;
	int r;

	if (f->looked == CALLER_LOOKS || uw_module_kind(m->module) != UW_MODULE_JIT ||
	    uw_module_language(m->module))
		return 0;
	f->looked++;
	while (k < n && k - i < CALLERS_MAX && ids[k] & UNSYMBOLIZED)
		k++;
	if (k < n && writer_frame_parts(em->c.writer, ids[k], &caller) && caller.name)
		text = jit_name_by_caller(caller.name);
	if (!text || !writer_frame_parts(em->c.writer, f->id, &own))
		return 0;
	ids[i] = f->id;
	own.rel_pc &= ~WRITER_GUESSED;
	r = writer_name(em->c.writer, text, &name);
	if (r >= 0 && writer_rename(em->c.writer, own.mapping, own.rel_pc, name, FRAME_NATIVE))
		r = writer_symbol(em->c.writer, own.mapping, own.rel_pc,
				  &(struct writer_line){.function = text}, 1);
	if (set_named(em, m, own.rel_pc))
		emit_forget_unsymbolized(em);
	return r < 0 ? trace(r) : 0;
}

/* User frames: @frames and @ids innermost first. */
static int user_ids(struct emit *em, const struct sample_info *info, const uint64_t *frames,
		    size_t n, uint32_t *ids)
{
	struct recent_stack *recent = &em->recent[info->tid % RECENT_STACKS];
	uint32_t key = info->space->key;
	bool unmapped = false;
	size_t same = 0, most = min_u64(n, recent->n), kept = min_u64(n, RECENT_FRAMES);

	if (recent->tid != info->tid || recent->space_key != key)
		most = 0;
	for (; same < most && recent->frames[same] == frames[n - 1 - same]; same++)
		ids[n - 1 - same] = recent->ids[same];
	recent->n = 0; /* until it is complete again */
	for (size_t i = 0; i < n - same; i++)
		prefetch_frame(em, frames[i], emit_frame_key(info->space, frames[i]));
	for (size_t i = 0; i < n - same; i++) {
		int r = frame_id(em, info, frames[i], false, &ids[i]);

		if (r < 0)
			return trace(r);
		unmapped |= r == UNMAPPED;
	}
	for (size_t i = 0; i < n - same; i++) {
		int r = ids[i] & UNSYMBOLIZED ? name_by_caller(em, ids, i, n) : 0;

		if (r < 0)
			return trace(r);
	}
	if (unmapped)
		return 0;
	for (size_t k = same; k < kept; k++) {
		recent->frames[k] = frames[n - 1 - k];
		recent->ids[k] = ids[n - 1 - k];
	}
	recent->tid = info->tid;
	recent->space_key = key;
	recent->n = (uint32_t)kept;
	return 0;
}

/* A sample counts once, for the innermost frame of the module without a symbol. */
static void count_unsymbolized(struct emit *em, struct unsymbolized_frame *frame)
{
	struct emit_module *m = em->modules[frame->module];

	if (m->last_sample != em->n_samples) {
		m->last_sample = em->n_samples;
		m->unsymbolized_samples++;
		frame->samples++;
	}
	emit_name_again(em, m, frame);
}

void emit_prefetch(const struct emit *em, const struct outcome *o)
{
	size_t n = min_u64((size_t)o->n_kernel + o->n_user, PREFETCH_FRAMES);

	for (size_t i = 0; i < n; i++)
		prefetch_frame(em, o->frames[i],
			       i < o->n_kernel ? 0 : emit_frame_key(o->info.space, o->frames[i]));
}

int emit_stack_ids(struct emit *em, const struct outcome *o, size_t *ret_n)
{
	size_t n = (size_t)o->n_kernel + o->n_user;
	int r;

	emit_enter_time(em, &o->info);
	for (uint32_t i = 0; i < o->n_kernel; i++)
		prefetch_frame(em, o->frames[i], 0);
	for (uint32_t i = 0; i < o->n_kernel; i++) {
		r = frame_id(em, &o->info, o->frames[i], true, &em->ids[i]);
		if (r < 0)
			return trace(r);
	}
	if (o->n_user) {
		r = user_ids(em, &o->info, o->frames + o->n_kernel, o->n_user,
			     em->ids + o->n_kernel);
		if (r < 0)
			return trace(r);
	}
	for (size_t i = 0; i < n; i++) {
		struct unsymbolized_frame *frame;

		if (!(em->ids[i] & UNSYMBOLIZED))
			continue;
		frame = &em->unsymbolized[em->ids[i] & ~UNSYMBOLIZED];
		em->ids[i] = frame->id;
		/* A root without a symbol (_start of a stripped program) is not worth a count.  The last frame of
		 * a stack that is not whole is not a root, so it counts. */
		if (i + 1 < n || !i || o->result != UW_WHOLE)
			count_unsymbolized(em, frame);
	}
	*ret_n = n;
	return 0;
}

/* ---- names and lines that arrive later ---- */

/* The frames at @vaddr have a name now; it is written as ModuleSymbols.  true: they had none. */
static bool set_named(const struct emit *em, struct emit_module *m, uint64_t vaddr)
{
	const uint64_t addresses[] = {vaddr, vaddr | WRITER_GUESSED};
	bool changed = false;
	uint64_t id;

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct unsymbolized_frame *frame;

		if (!table_get(&m->frames, addresses[i], &id) || !(id & UNSYMBOLIZED))
			continue;
		frame = &em->unsymbolized[id & ~(uint64_t)UNSYMBOLIZED];
		m->unsymbolized_samples -= frame->samples;
		frame->samples = 0; /* not once more by settle_unsymbolized() */
		(void)table_put(&m->frames, addresses[i], frame->id); /* cannot fail */
		changed = true;
	}
	return changed;
}

void emit_forget_unsymbolized(struct emit *em)
{
	for (size_t i = 0; i < CACHE_SLOTS; i++) {
		if (em->cache[i].id & UNSYMBOLIZED)
			em->cache[i] = (struct cached_frame){0};
	}
	forget_recent(em);
}

/* Got the frames at @vaddr a name in another way (the lines of a Java VM)? */
static bool has_name(const struct emit_module *m, uint64_t vaddr)
{
	uint64_t plain = 0, guessed = 0;
	bool there = table_get(&m->frames, vaddr, &plain);

	there |= table_get(&m->frames, vaddr | WRITER_GUESSED, &guessed);
	return there && !((plain | guessed) & UNSYMBOLIZED);
}

/* > 0: some frames have names now. */
static int write_late_names(struct emit *em, struct emit_module *m)
{
	size_t n = m->unnamed.n, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct frame_name name;
		int r;

		if (has_name(m, m->unnamed.vaddrs[i]))
			continue;
		r = name_of(em, m, m->unnamed.vaddrs[i], &name);
		if (r < 0)
			return trace(r);
		if (!name.id) {
			m->unnamed.vaddrs[kept++] = m->unnamed.vaddrs[i];
			continue;
		}
		r = write_named(em, m, m->unnamed.vaddrs[i], &name);
		if (r < 0)
			return trace(r);
		(void)set_named(em, m, m->unnamed.vaddrs[i]);
	}
	m->unnamed.n = emit_module_names_to_come(m) ? kept : 0;
	if (kept < n) /* the map grows */
		m->again_in = m->again_after = 0;
	return kept < n;
}

/* Frames of an address without a name are new ones from here on. */
static int begin_epochs(struct emit *em, struct emit_module *m)
{
	int r = emit_module_has_epochs(m) ? jit_epochs_begin(&m->epochs, m->module) : 0;

	if (r > 0)
		emit_note_uses(em);
	return r < 0 ? trace(r) : 0;
}

/* Names that were looked up before the dump was read up to their samples. */
static int settle_names(struct emit *em, struct emit_module *m)
{
	uint64_t vaddr;
	int r = 0;

	emit_check_ids(em);
	while (r >= 0 && jit_epochs_settle(&m->epochs, &vaddr)) {
		struct frame_name name;

		r = name_of(em, m, vaddr, &name);
		if (r < 0 || !name.id || !m->has_mapping ||
		    !writer_rename(em->c.writer, m->mapping, vaddr, name.id, name.kind))
			continue;
		r = write_named(em, m, vaddr, &name);
		if (set_named(em, m, vaddr))
			emit_forget_unsymbolized(em);
	}
	return r < 0 ? trace(r) : 0;
}

/* Of what was asked for at m->dump_asked_at.  After an error samples do not wait for more: there is none. */
static int dump_arrived(struct emit *em, struct emit_module *m, int error)
{
	bool again = m->dump_again;
	uint64_t until = em->at_end && !again ? UINT64_MAX : uw_module_symbols_until(m->module);

	m->dump_asked = m->dump_again = false;
	if (error >= 0)
		emit_note_reading(m);
	jit_epochs_read(&m->epochs, min_u64(m->dump_asked_at, until), error >= 0);
	if (again)
		emit_module_ask_dump(m, em->c.loader);
	return settle_names(em, m);
}

/* @again: as requested by emit_module_ask_dump().  Else, while that is in progress, they are of a request of the unwinder: how far the
 * dump was read is not known from it. */
static int symbols_arrived(struct emit *em, struct emit_module *m, bool again, int error)
{
	int r = 0;

	emit_note_dump(em, m);
	if (emit_module_has_epochs(m) && again == m->dump_asked)
		r = dump_arrived(em, m, error);
	if (r < 0 || !m->unnamed.n)
		return r;
	emit_check_ids(em);
	r = write_late_names(em, m);
	if (r)
		emit_forget_unsymbolized(em);
	return r < 0 ? trace(r) : 0;
}

/* Of one address.  *named: its frames have a name now. */
static int write_lines(struct emit *em, struct emit_module *m, uint64_t vaddr,
		       const struct load_line *from, size_t n, bool *named)
{
	struct writer_line lines[64];
	int r;

	n = min_u64(n, ARRAY_SIZE(lines));
	for (size_t i = 0; i < n; i++)
		lines[i] = (struct writer_line){from[i].function, from[i].file, from[i].line,
						from[i].kind};
	*named |= emit_module_names_by_lines(m->module) && set_named(em, m, vaddr);
	r = mapping_of(em, m, m->offset);
	return r < 0 ? trace(r) : writer_symbol(em->c.writer, m->mapping, vaddr, lines, n);
}

static int lines_arrived(struct emit *em, struct emit_module *m, const struct load_answer *a)
{
	bool named = false;
	int r = 0;

	emit_check_ids(em);
	if (a->error < 0)
		m->no_lines = true;
	em->c.account->freed_functions += (uint64_t)emit_module_count_freed(m, a);
	emit_request_lines(em, m);
	request_blocked(em);
	for (size_t i = 0, n; i < a->n_lines && a->lines[i].address < a->request.n_vaddrs && r >= 0;
	     i += n) {
		const struct load_line *first = &a->lines[i];

		for (n = 1; i + n < a->n_lines && first[n].address == first->address;)
			n++;
		r = write_lines(em, m, a->request.vaddrs[first->address], first, n, &named);
	}
	if (named) /* once: it walks over the whole cache */
		emit_forget_unsymbolized(em);
	return r < 0 ? trace(r) : 0;
}

int emit_answer(struct emit *em, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	int adopted = uw_module_adopt_symbols(module), r = 0;
	uint64_t v;

	if (adopted < 0 && a->request.kind == LOAD_SYMBOLS && a->error >= 0)
		a->error = adopted;
	if (adopted == UW_MODULE_ADOPTED && table_get(&em->by_serial, uw_module_serial(module), &v))
		jit_epochs_read(&em->modules[v - 1]->epochs, 0, true);
	if (a->request.kind == LOAD_UNWIND) /* the LOAD_SYMBOLS that follows keeps the reference */
		return uw_modules_loaded(em->c.modules, module);
	if (a->request.kind == LOAD_LINES) {
		em->lines_in_flight--;
		em->vaddrs_in_flight -= a->request.n_vaddrs;
		em->lines_cpu_ns += a->cpu_ns;
	}
	if (table_get(&em->by_serial, uw_module_serial(module), &v)) {
		struct emit_module *m = em->modules[v - 1];

		if (a->request.kind == LOAD_SYMBOLS)
			r = symbols_arrived(em, m, a->request.reading.again, a->error);
		else
			r = lines_arrived(em, m, a);
	}
	(void)uw_module_unref(module);
	return r < 0 ? trace(r) : 0;
}

void emit_ask_names(struct emit *em)
{
	em->at_end = true;
	for (size_t i = 0; i < em->n_modules; i++) {
		em->modules[i]->dump_again = em->modules[i]->dump_asked;
		emit_module_ask_dump(em->modules[i], em->c.loader);
		emit_module_ask_again(em->modules[i], em->c.loader, true);
	}
}

void emit_ask(struct emit *em)
{
	emit_check_ids(em);
	for (size_t i = 0; i < em->n_modules && em->lines_in_flight < LINES_IN_FLIGHT; i++) {
		em->modules[i]->unlined_due = em->modules[i]->unlined.n;
		emit_request_lines(em, em->modules[i]);
	}
}

bool emit_has_time_for_lines(const struct emit *em)
{
	return !em->c.lines_at_end &&
	       em->lines_cpu_ns <= (clock_ns(CLOCK_MONOTONIC) - em->started_at) / LINES_SHARE;
}

/* While recording: one module at a time, and only with many addresses. */
static void request_batch(struct emit *em)
{
	if (em->lines_in_flight || emit_lines_left(em) < LINES_MANY || !emit_has_time_for_lines(em))
		return;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];

		if (m->no_lines || m->unlined.n - m->unlined_asked < LINES_BATCH)
			continue;
		m->unlined_due = m->unlined.n;
		emit_request_lines(em, m);
		return;
	}
}

int emit_tick(struct emit *em)
{
	em->seconds++;
	emit_check_ids(em);
	if (em->c.kernel_names)
		uw_kernel_names_tick(em->c.kernel_names);
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];
		int r = 0;

		if (uw_module_symbols_overlap(m->module))
			r = begin_epochs(em, m);
		if (r < 0)
			return trace(r);
		emit_module_ask_again(m, em->c.loader, false);
	}
	request_batch(em);
	emit_forget_modules(em);
	if (em->seconds % RENEW_S == 0 && writer_table_bytes(em->c.writer) > RENEW_BYTES)
		return writer_forget(em->c.writer);
	return writer_symbols_flush(em->c.writer);
}

uint64_t emit_lines_left(const struct emit *em)
{
	uint64_t left = em->vaddrs_in_flight;

	for (size_t i = 0; i < em->n_modules; i++) {
		const struct emit_module *m = em->modules[i];

		left += m->no_lines ? 0 : m->unlined.n - m->unlined_asked;
	}
	return left;
}

/* ---- limits ---- */

uint32_t emit_idle_seconds(const struct emit *em, const struct uw_module *module)
{
	uint64_t index;

	if (!table_get(&em->by_serial, uw_module_serial(module), &index))
		return UINT32_MAX;
	return em->seconds - em->modules[index - 1]->last_use;
}

void emit_note_uses(struct emit *em)
{
	memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	forget_recent(em);
}

bool emit_is_full(const struct emit *em)
{
	return em->n_modules >= EMIT_MODULES_MAX / 2 || em->n_unlined >= EMIT_UNLINED_MAX / 2;
}

size_t emit_n_modules(const struct emit *em)
{
	return em->n_modules;
}

static int by_samples(const void *a, const void *b)
{
	const struct emit_unsymbolized *x = a, *y = b;

	return (x->samples < y->samples) - (x->samples > y->samples);
}

static int by_file(const void *a, const void *b)
{
	const struct emit_unsymbolized *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	return order ? order : memcmp(&x->build_id, &y->build_id, sizeof(x->build_id));
}

/* Each process has a module of its own for frames of an interpreter, and files of one name without build ids look alike. */
static size_t join_files(struct emit_unsymbolized *list, size_t n)
{
	size_t to = 0;

	qsort(list, n, sizeof(*list), by_file);
	for (size_t i = 1; i < n; i++)
		if (by_file(&list[to], &list[i]) == 0)
			list[to].samples += list[i].samples;
		else
			list[++to] = list[i];
	return n ? to + 1 : 0;
}

int emit_unsymbolized(struct emit *em, struct emit_unsymbolized **ret_list, size_t *ret_n)
{
	struct emit_unsymbolized *list = calloc(em->n_modules + em->n_forgotten + 1, sizeof(*list));
	size_t n = em->n_forgotten;

	if (!list)
		return fail(-ENOMEM);
	if (n)
		memcpy(list, em->forgotten, n * sizeof(*list));
	for (size_t i = 0; i < em->n_modules; i++) {
		const struct emit_module *m = em->modules[i];

		if (m->unsymbolized_samples)
			list[n++] = (struct emit_unsymbolized){uw_module_path(m->module),
							       *uw_module_build_id(m->module),
							       m->unsymbolized_samples, m->hint};
	}
	n = join_files(list, n);
	qsort(list, n, sizeof(*list), by_samples);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

/* ---- life cycle ---- */

void emit_set_kernel_names(struct emit *em, struct uw_kernel_names *names)
{
	em->c.kernel_names = names;
	em->kernel_generation = uw_kernel_names_generation(names);
}

int emit_new(const struct emit_context *context, struct emit **ret_emit)
{
	struct emit *em = calloc(1, sizeof(*em));

	if (!em)
		return fail(-ENOMEM);
	em->c = *context;
	em->announcer.round = 1;
	em->generation = writer_generation(context->writer);
	em->started_at = clock_ns(CLOCK_MONOTONIC);
	em->tables = unshared_new(TABLES_BYTES);
	if (!em->tables) {
		(void)emit_free(em);
		return fail(-ENOMEM);
	}
	em->cache = em->tables->cache;
	em->named = em->tables->named;
	em->recent = em->tables->recent;
	*ret_emit = em;
	return 0;
}

struct emit *emit_free(struct emit *em)
{
	if (!em)
		return NULL;
	for (size_t i = 0; i < em->n_modules; i++)
		emit_module_free(em->modules[i]);
	free(em->modules);
	for (size_t i = 0; i < em->n_forgotten; i++)
		free((char *)em->forgotten[i].path);
	free(em->forgotten);
	free(em->timeless);
	table_deinit(&em->by_serial);
	table_deinit(&em->unwritten);
	unshared_free(em->unsymbolized, em->unsymbolized_room * sizeof(*em->unsymbolized));
	table_deinit(&em->announcer.incarnations);
	unshared_free(em->tables, TABLES_BYTES);
	free(em);
	return NULL;
}
