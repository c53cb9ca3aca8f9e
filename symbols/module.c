/* module.c - see module.h.  References, the states of the two halves, the meaning of addresses.
 *
 * A half is published by a store-release of READY after its pointer is set, and read after a
 * load-acquire. Only the thread that uses a half drops it, so no reader can hold what is being
 * freed; a drop leaves WANTED alone, because the loader may be at work then.  The layout (segments,
 * build id) is never dropped: the same address must get the same rel_pc before and after an
 * eviction. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/unshared.h"
#include "symbols/elf.h"
#include "symbols/hotspot.h"
#include "symbols/interpreter.h"
#include "symbols/jitdump.h"
#include "symbols/lines.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

/* ---- halves that a Java VM or an interpreter describes (hotspot.h, interpreter.h) ---- */

struct process_memory {
	struct uw_memory memory;
	int fd; /* borrowed; /proc/PID/mem */
};

static ssize_t read_memory(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	const struct process_memory *m = container_of(memory, struct process_memory, memory);
	ssize_t n;

	if (address > INT64_MAX)
		return fail(-EFAULT);
	do
		n = pread(m->fd, to, len, (off_t)address);
	while (n < 0 && errno == EINTR);
	return n;
}

static int image_of(struct uw_module *module, struct hotspot_code *code,
		    struct uw_image **ret_image)
{
	const struct uw_layout *layout = uw_module_layout(module);
	int r;

	if (!layout) { /* no segments: addresses of the process */
		struct uw_layout *empty = calloc(1, sizeof(*empty));

		if (!empty)
			return fail(-ENOMEM);
		layout = empty;
		atomic_store_explicit(&module->layout, empty, memory_order_release);
	}
	r = uw_image_of_sections(UW_ARCH_HOST, layout, code->sections, ret_image);
	if (r >= 0)
		(*ret_image)->vm = code->places;
	return trace(r);
}

/* Both halves of a JIT module, by source->vm.  -ENOEXEC, -ENOTSUP, -EPROTONOSUPPORT: hotspot.h; -EIO: its memory cannot be read. */
static int vm_load(struct uw_module *module, struct uw_source *source, struct uw_image **ret_image,
		   struct uw_symbols **ret_symbols)
{
	struct process_memory m = {.memory = {.read = read_memory}, .fd = source->fd};
	struct hotspot_code code;
	int r = 0;

	if (module->language)
		return trace(
			interpreter_load(module, &m.memory, source->vm, ret_image, ret_symbols));
	if (!module->vm)
		r = hotspot_new(&m.memory, source->vm, &module->vm);
	if (r >= 0)
		r = hotspot_code(module->vm, &m.memory, &code);
	if (r < 0)
		return trace(r);
	r = image_of(module, &code, ret_image);
	if (r >= 0)
		*ret_symbols = take(code.symbols);
	hotspot_code_deinit(&code);
	return trace(r);
}

/* The Java methods at an address, as uw_module_lines(). */
static int vm_lines(struct uw_module *module, struct uw_source *source, uint64_t address,
		    void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	struct process_memory m = {.memory = {.read = read_memory}, .fd = source->fd};
	int r = 0;

	if (module->language)
		return trace(interpreter_lines(module, &m.memory, source->vm, address, add, arg));
	if (!module->vm)
		r = hotspot_new(&m.memory, source->vm, &module->vm);
	return r < 0 ? trace(r) : trace(hotspot_lines(module->vm, &m.memory, address, add, arg));
}

/* ---- loaded again ---- */

void uw_module_expect_vm(struct uw_module *module)
{
	atomic_store_explicit(&module->expects_vm, true, memory_order_relaxed);
}

bool uw_module_expects_vm(const struct uw_module *module)
{
	return atomic_load_explicit(&module->expects_vm, memory_order_relaxed);
}

bool uw_module_is_vm(const struct uw_module *module)
{
	return atomic_load_explicit(&module->is_vm, memory_order_relaxed);
}

bool uw_module_has_jit_cfi(const struct uw_module *module)
{
	return atomic_load_explicit(&module->has_jit_cfi, memory_order_acquire);
}

/* The image that is there, or comes, is of a jitdump. */
static void note_jit_cfi(struct uw_module *module)
{
	if (!atomic_exchange_explicit(&module->has_jit_cfi, true, memory_order_acq_rel))
		atomic_store_explicit(&module->first_cfi, true, memory_order_release);
}

bool uw_module_take_first_cfi(struct uw_module *module)
{
	return atomic_exchange_explicit(&module->first_cfi, false, memory_order_acq_rel);
}

struct uw_renewal *uw_module_renewal(struct uw_module *module)
{
	return &module->renewal;
}

/* For a half that is READY: used from uw_module_adopt_*() on.  Consumes it.  Of a process that is gone nothing was read: what
 * is there stays. */
static void vm_keep_image(struct uw_module *module, struct uw_image *image)
{
	if (image->vm.n_heaps || uw_module_has_jit_cfi(module))
		image = atomic_exchange_explicit(&module->next_image, image, memory_order_acq_rel);
	(void)uw_image_free(image);
}

static void vm_keep_symbols(struct uw_module *module, struct uw_symbols *symbols)
{
	if (uw_module_is_vm(module) || uw_symbols_have_times(symbols))
		symbols = atomic_exchange_explicit(&module->next_symbols, symbols,
						   memory_order_acq_rel);
	(void)uw_symbols_free(symbols);
}

bool uw_module_adopt_unwind(struct uw_module *module)
{
	struct uw_image *next =
		atomic_exchange_explicit(&module->next_image, NULL, memory_order_acq_rel);

	if (!next || uw_module_unwind_state(module) != UW_MODULE_READY) {
		(void)uw_image_free(next);
		return false;
	}
	(void)uw_image_free(module->image);
	module->image = next;
	atomic_store_explicit(&module->unwind_bytes, next->bytes, memory_order_relaxed);
	return true;
}

int uw_module_adopt_symbols(struct uw_module *module)
{
	struct uw_symbols *next =
		atomic_exchange_explicit(&module->next_symbols, NULL, memory_order_acq_rel);
	int r;

	if (!next || uw_module_symbol_state(module) != UW_MODULE_READY) {
		(void)uw_symbols_free(next);
		return 0;
	}
	r = uw_symbols_renew(&module->symbols, next);
	if (r < 0)
		return trace(r);
	atomic_store_explicit(&module->symbol_bytes, uw_symbols_bytes(module->symbols),
			      memory_order_relaxed);
	return UW_MODULE_ADOPTED;
}

static void vm_free(struct uw_module *module)
{
	(void)hotspot_free(module->vm);
	(void)interpreter_free(module->interpreter);
	(void)jitdump_free(module->dump);
	(void)uw_image_free(atomic_load_explicit(&module->next_image, memory_order_relaxed));
	(void)uw_symbols_free(atomic_load_explicit(&module->next_symbols, memory_order_relaxed));
}

/* ---- references ---- */

int uw_module_new(enum uw_module_kind kind, const char *path, const struct uw_build_id *id,
		  struct uw_module **ret_module)
{
	static _Atomic uint32_t serials;
	size_t len = strlen(path);
	struct uw_module *m = calloc(1, sizeof(*m) + len + 1);

	if (!m)
		return fail(-ENOMEM);
	atomic_init(&m->refs, 1);
	m->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
	m->kind = kind;
	m->language = kind == UW_MODULE_JIT ? interpreter_language(path) : UW_LANGUAGE_NONE;
	if (id)
		m->given_id = *id;
	memcpy(m->path, path, len);
	*ret_module = m;
	return 0;
}

struct uw_module *uw_module_ref(struct uw_module *module)
{
	atomic_fetch_add_explicit(&module->refs, 1, memory_order_relaxed);
	return module;
}

struct uw_module *uw_module_unref(struct uw_module *module)
{
	if (!module || atomic_fetch_sub_explicit(&module->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	uw_image_free(module->image);
	uw_symbols_free(module->symbols);
	uw_lines_free(module->lines);
	vm_free(module);
	free(atomic_load_explicit(&module->layout, memory_order_relaxed));
	free(atomic_load_explicit(&module->jitdump, memory_order_relaxed));
	free(module);
	return NULL;
}

enum uw_module_kind uw_module_kind(const struct uw_module *module)
{
	return module->kind;
}

const char *uw_module_path(const struct uw_module *module)
{
	return module->path;
}

int uw_module_set_jitdump(struct uw_module *module, const char *path, uint64_t start, uint64_t end,
			  const struct uw_file_id *id)
{
	size_t len = strlen(path);
	struct uw_jitdump *dump;

	if (uw_module_jitdump(module))
		return 0;
	dump = calloc(1, sizeof(*dump) + len + 1);
	if (!dump)
		return fail(-ENOMEM);
	dump->start = start;
	dump->end = end;
	dump->id = *id;
	memcpy(dump->path, path, len);
	atomic_store_explicit(&module->jitdump, dump, memory_order_release);
	return 0;
}

const struct uw_jitdump *uw_module_jitdump(const struct uw_module *module)
{
	return atomic_load_explicit(&module->jitdump, memory_order_acquire);
}

const struct uw_build_id *uw_module_build_id(const struct uw_module *module)
{
	const struct uw_layout *layout = uw_module_layout(module);

	return layout && layout->build_id.len ? &layout->build_id : &module->given_id;
}

uint32_t uw_module_serial(const struct uw_module *module)
{
	return module->serial;
}

size_t uw_module_bytes(const struct uw_module *module)
{
	return atomic_load_explicit(&module->unwind_bytes, memory_order_relaxed) +
	       atomic_load_explicit(&module->symbol_bytes, memory_order_relaxed) +
	       atomic_load_explicit(&module->lines_bytes, memory_order_relaxed);
}

bool uw_module_keeps_file(const struct uw_module *module)
{
	return atomic_load_explicit(&module->keeps_file, memory_order_relaxed);
}

void uw_module_count_unwind(struct uw_module *module, size_t bytes)
{
	atomic_fetch_add_explicit(&module->unwind_bytes, bytes, memory_order_relaxed);
}

/* ---- addresses ---- */

uint64_t uw_module_load_bias(const struct uw_module *module)
{
	const struct uw_layout *layout = uw_module_layout(module);

	return layout ? layout->load_bias : 0;
}

/* The kernel maps whole pages, so a pc may lie a little outside the bytes that a segment claims. */
static bool covers(const struct uw_segment *s, uint64_t offset, bool whole_pages)
{
	const uint64_t page = 4096;
	uint64_t first = s->offset, end = s->offset + s->filesz;

	if (whole_pages) {
		first &= ~(page - 1);
		end = (end + page - 1) & ~(page - 1);
	}
	return offset >= first && offset < end;
}

uint64_t uw_module_vaddr(const struct uw_module *module, uint64_t offset)
{
	const struct uw_layout *layout = uw_module_layout(module);

	if (!layout)
		return offset;
	/* executable segments first, exact before page-wise: two segments may share a page of the
	 * file */
	for (unsigned step = 0; step < 4; step++) {
		for (size_t i = 0; i < layout->n_segments; i++) {
			const struct uw_segment *s = &layout->segments[i];

			if (s->exec == !(step & 2) && covers(s, offset, step & 1))
				return offset - s->offset + s->vaddr;
		}
	}
	return offset;
}

static int layout_new(const struct uw_elf *elf, struct uw_layout **ret_layout)
{
	struct uw_layout *layout =
		calloc(1, sizeof(*layout) + elf->n_phdrs * sizeof(layout->segments[0]));
	bool biased = false;

	if (!layout)
		return fail(-ENOMEM);
	for (size_t i = 0; i < elf->n_phdrs; i++) {
		const Elf64_Phdr *p = &elf->phdrs[i];
		struct uw_segment *s = &layout->segments[layout->n_segments];

		if (p->p_type != PT_LOAD || p->p_filesz > p->p_memsz ||
		    p->p_offset > UINT64_MAX / 2 || p->p_memsz > UINT64_MAX / 2 ||
		    p->p_vaddr > UINT64_MAX - p->p_memsz)
			continue; /* not what any loader maps; nothing computed from it may wrap */
		*s = (struct uw_segment){
			.offset = p->p_offset,
			.vaddr = p->p_vaddr,
			.filesz = p->p_filesz,
			.memsz = p->p_memsz,
			.exec = p->p_flags & PF_X,
		};
		layout->n_segments++;
		if (s->exec && !biased)
			layout->load_bias = s->vaddr - s->offset;
		biased |= s->exec;
	}
	uw_elf_build_id(elf, &layout->build_id);
	*ret_layout = layout;
	return 0;
}

static bool layout_equal(const struct uw_layout *a, const struct uw_layout *b)
{
	if (a->n_segments != b->n_segments || !uw_build_id_equal(&a->build_id, &b->build_id))
		return false;
	for (size_t i = 0; i < a->n_segments; i++) {
		const struct uw_segment *s = &a->segments[i], *t = &b->segments[i];

		if (s->offset != t->offset || s->vaddr != t->vaddr || s->filesz != t->filesz ||
		    s->memsz != t->memsz || s->exec != t->exec)
			return false;
	}
	return true;
}

/* check_layout() with a layout that was read already, and is consumed. */
static int adopt_layout(struct uw_module *module, struct uw_layout *consumed,
			const struct uw_layout **ret_layout)
{
	const struct uw_layout *old = uw_module_layout(module);
	_cleanup_(freep) struct uw_layout *layout = consumed;

	if (module->given_id.len && !uw_build_id_equal(&module->given_id, &layout->build_id))
		return fail(-ESTALE);
	if (old) {
		if (!layout_equal(old, layout))
			return fail(-ESTALE);
		*ret_layout = old;
		return 0;
	}
	*ret_layout = layout;
	atomic_store_explicit(&module->layout, take(layout), memory_order_release);
	return 0;
}

/* Reads the layout.  Publishes it on the first load; on a later one checks that it has not changed.
 * -ESTALE when it has, or has another build id than the given one. */
static int check_layout(struct uw_module *module, const struct uw_elf *elf,
			const struct uw_layout **ret_layout)
{
	struct uw_layout *layout = NULL;
	int r;

	r = layout_new(elf, &layout);
	if (r < 0)
		return trace(r);
	return trace(adopt_layout(module, layout, ret_layout));
}

/* ---- states ---- */

enum uw_module_state uw_module_unwind_state(const struct uw_module *module)
{
	return (enum uw_module_state)atomic_load_explicit(&module->unwind_state,
							  memory_order_acquire);
}

enum uw_module_state uw_module_symbol_state(const struct uw_module *module)
{
	return (enum uw_module_state)atomic_load_explicit(&module->symbol_state,
							  memory_order_acquire);
}

static bool want(_Atomic int *state)
{
	int expected = UW_MODULE_NEW;

	return atomic_compare_exchange_strong_explicit(state, &expected, UW_MODULE_WANTED,
						       memory_order_acq_rel, memory_order_acquire);
}

bool uw_module_want_unwind(struct uw_module *module)
{
	return want(&module->unwind_state);
}

bool uw_module_want_symbols(struct uw_module *module)
{
	return want(&module->symbol_state);
}

static void publish(_Atomic int *state, int r)
{
	atomic_store_explicit(state, r < 0 ? UW_MODULE_UNREADABLE : UW_MODULE_READY,
			      memory_order_release);
}

void uw_module_set_no_symbols(struct uw_module *module)
{
	if (uw_module_symbol_state(module) != UW_MODULE_READY)
		publish(&module->symbol_state, -EIO);
}

void uw_module_set_unreadable(struct uw_module *module)
{
	if (uw_module_unwind_state(module) != UW_MODULE_READY)
		publish(&module->unwind_state, -EIO);
	uw_module_set_no_symbols(module);
}

void uw_module_set_unresponsive(struct uw_module *module)
{
	atomic_store_explicit(&module->unresponsive, true, memory_order_relaxed);
	uw_module_set_unreadable(module);
}

bool uw_module_unresponsive(const struct uw_module *module)
{
	return atomic_load_explicit(&module->unresponsive, memory_order_relaxed) &&
	       uw_module_unwind_state(module) != UW_MODULE_READY;
}

void uw_module_want_separate(struct uw_module *module)
{
	atomic_store_explicit(&module->wants_separate, true, memory_order_relaxed);
}

bool uw_module_wants_separate(const struct uw_module *module)
{
	return atomic_load_explicit(&module->wants_separate, memory_order_relaxed);
}

/* True when the half may be freed now: it is published, or it failed and may be loaded again. */
static bool drop(_Atomic int *state)
{
	int s = atomic_load_explicit(state, memory_order_acquire);

	return s == UW_MODULE_READY || s == UW_MODULE_UNREADABLE;
}

void uw_module_drop_unwind(struct uw_module *module)
{
	if (!drop(&module->unwind_state))
		return;
	module->image = uw_image_free(module->image);
	atomic_store_explicit(&module->unwind_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&module->keeps_file, false, memory_order_relaxed);
	atomic_store_explicit(&module->unwind_state, UW_MODULE_NEW, memory_order_release);
}

void uw_module_drop_symbols(struct uw_module *module)
{
	if (!drop(&module->symbol_state))
		return;
	module->symbols = uw_symbols_free(module->symbols);
	atomic_store_explicit(&module->symbol_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&module->symbol_state, UW_MODULE_NEW, memory_order_release);
}

/* ---- loading ---- */

const struct uw_image *uw_module_image(const struct uw_module *module)
{
	return uw_module_unwind_state(module) == UW_MODULE_READY ? module->image : NULL;
}

/* Publishes the result of a load: the half (consumed, NULL when @r < 0) and its state. */
static void publish_image(struct uw_module *module, struct uw_image *image, int r)
{
	if (image) {
		if (image->vm.n_heaps)
			atomic_store_explicit(&module->is_vm, true, memory_order_relaxed);
		atomic_store_explicit(&module->unwind_bytes, image->bytes, memory_order_relaxed);
		atomic_store_explicit(&module->keeps_file, image->fd >= 0, memory_order_relaxed);
	}
	module->image = image;
	publish(&module->unwind_state, r);
}

static int load_image(struct uw_module *module, struct uw_source *source,
		      struct uw_image **ret_image)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	const struct uw_layout *layout;
	int r;

	if (module->kind == UW_MODULE_JIT)
		return trace(uw_image_new_empty(ret_image));
	r = uw_elf_open(&elf, source);
	if (r < 0)
		return trace(r);
	r = check_layout(module, &elf, &layout);
	if (r < 0)
		return trace(r);
	return trace(uw_image_new(&elf, layout, module->path, source,
				  uw_module_wants_separate(module), ret_image));
}

static void publish_symbols(struct uw_module *module, struct uw_symbols *symbols, int r)
{
	if (symbols)
		atomic_store_explicit(&module->symbol_bytes, uw_symbols_bytes(symbols),
				      memory_order_relaxed);
	module->symbols = symbols;
	publish(&module->symbol_state, r);
}

/* A failure leaves the state: the caller may do without. */
static int load_vm(struct uw_module *module, struct uw_source *source)
{
	struct uw_symbols *symbols = NULL;
	struct uw_image *image = NULL;
	int r = vm_load(module, source, &image, &symbols);

	if (r < 0)
		return trace(r);
	if (uw_module_symbol_state(module) == UW_MODULE_READY)
		(void)uw_symbols_free(symbols);
	else
		publish_symbols(module, symbols, 0);
	publish_image(module, image, 0);
	return 0;
}

int uw_module_load_unwind(struct uw_module *module, struct uw_source *source)
{
	_cleanup_(uw_image_freep) struct uw_image *image = NULL;
	int r;

	if (uw_module_unwind_state(module) == UW_MODULE_READY)
		return 0;
	if (module->kind == UW_MODULE_JIT && source->vm)
		return trace(load_vm(module, source));
	if (module->kind == UW_MODULE_JIT && jitdump_is(source->fd)) {
		r = uw_module_load_symbols(module, source); /* the other half comes with them */
		if (r == -EALREADY || uw_module_unwind_state(module) == UW_MODULE_READY)
			return r == -EALREADY ? trace(r) : 0;
		if (r == -ENOMEM) { /* the dump may have some */
			publish_image(module, NULL, r);
			return trace(r);
		}
	}
	r = load_image(module, source, &image);
	publish_image(module, take(image), r);
	return trace(r);
}

/* Names, and the unwind half where there is unwinding information. */
static int load_jitdump(struct uw_module *module, struct uw_source *source,
			struct uw_symbols **ret_symbols)
{
	struct hotspot_code code = {.symbols = NULL};
	struct uw_image *image = NULL;
	int r = jitdump_load(&module->dump, source, ret_symbols, &code.sections[1]);

	if (r >= 0 && code.sections[1].size && uw_module_unwind_state(module) != UW_MODULE_READY)
		r = image_of(module, &code, &image);
	if (image) {
		publish_image(module, image, 0);
		note_jit_cfi(module);
	}
	uw_section_deinit(&code.sections[1]);
	if (r < 0)
		*ret_symbols = uw_symbols_free(*ret_symbols);
	return trace(r);
}

static int load_symbols(struct uw_module *module, struct uw_source *source,
			struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	const struct uw_layout *layout;
	int r;

	if (module->kind == UW_MODULE_JIT && jitdump_is(source->fd))
		return trace(load_jitdump(module, source, ret_symbols));
	if (module->kind == UW_MODULE_JIT)
		return trace(uw_symbols_of_perf_map(source->fd, ret_symbols));
	r = uw_elf_open(&elf, source);
	if (r < 0)
		return trace(r);
	r = check_layout(module, &elf, &layout);
	if (r < 0)
		return trace(r);
	return trace(uw_symbols_of_elf(&elf, layout, module->path, source, ret_symbols));
}

int uw_module_load_symbols(struct uw_module *module, struct uw_source *source)
{
	struct uw_symbols *symbols = NULL;
	int r;

	if (uw_module_symbol_state(module) == UW_MODULE_READY)
		return 0;
	r = load_symbols(module, source, &symbols);
	publish_symbols(module, symbols, r);
	return trace(r);
}

bool uw_module_symbol(const struct uw_module *module, uint64_t vaddr, struct uw_symbol *ret_symbol)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY &&
	       uw_symbols_find(module->symbols, vaddr, ret_symbol);
}

bool uw_module_symbol_at(const struct uw_module *module, uint64_t vaddr, uint64_t time,
			 struct uw_symbol *ret_symbol)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY &&
	       uw_symbols_find_at(module->symbols, vaddr, time, ret_symbol);
}

struct uw_extent uw_module_extent(const struct uw_module *module)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY
		       ? uw_symbols_extent(module->symbols)
		       : (struct uw_extent){.codes = 0};
}

bool uw_module_symbols_overlap(const struct uw_module *module)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY &&
	       uw_symbols_overlap(module->symbols);
}

uint64_t uw_module_symbols_until(const struct uw_module *module)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY ? uw_symbols_until(module->symbols)
								 : UINT64_MAX;
}

bool uw_module_symbols_timeless(const struct uw_module *module)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY &&
	       uw_symbols_timeless(module->symbols);
}

void uw_module_code_lasts(const struct uw_module *module, uint64_t time, uint64_t *ret_since,
			  uint64_t *ret_until)
{
	*ret_since = 0;
	*ret_until = UINT64_MAX;
	if (uw_module_symbol_state(module) == UW_MODULE_READY)
		uw_symbols_last(module->symbols, time, ret_since, ret_until);
}

bool uw_module_has_symbols(const struct uw_module *module)
{
	return uw_module_symbol_state(module) == UW_MODULE_READY &&
	       uw_symbols_full(module->symbols);
}

static void store_lines_bytes(struct uw_module *module)
{
	atomic_store_explicit(&module->lines_bytes, uw_lines_bytes(module->lines),
			      memory_order_relaxed);
}

static int load_lines(struct uw_module *module, struct uw_source *source)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	const struct uw_layout *layout;
	int r;

	r = uw_elf_open(&elf, source);
	if (r >= 0)
		r = check_layout(module, &elf, &layout);
	if (r >= 0)
		r = uw_lines_new(&elf, module->path, source, &module->lines);
	if (r < 0)
		return trace(r);
	store_lines_bytes(module);
	return 0;
}

void uw_module_drop_lines(struct uw_module *module)
{
	module->lines = uw_lines_free(module->lines);
	atomic_store_explicit(&module->lines_bytes, 0, memory_order_relaxed);
}

int uw_module_lines(struct uw_module *module, struct uw_source *source, uint64_t vaddr,
		    void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	int r;

	if (module->kind == UW_MODULE_JIT)
		return source->vm ? trace(vm_lines(module, source, vaddr, add, arg)) : 0;
	if (!module->lines) {
		r = load_lines(module, source);
		if (r < 0)
			return trace(r);
	}
	r = uw_lines_at(module->lines, vaddr, add, arg);
	if (r == -ENOMEM)
		uw_module_drop_lines(module);
	else
		store_lines_bytes(module); /* names are kept */
	return r;
}

bool uw_module_lines_span(struct uw_module *module, uint64_t vaddr, struct uw_span *ret_span)
{
	return module->lines && uw_lines_span(module->lines, vaddr, ret_span);
}

int uw_source_build_id(struct uw_source *source, struct uw_build_id *ret_id)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	int r;

	r = uw_elf_open(&elf, source);
	if (r < 0)
		return trace(r);
	uw_elf_build_id(&elf, ret_id);
	return 0;
}

/* ---- a loaded module as bytes for another process of ours (module.h) ----
 *
 *   layout      u64 1; block build id; u64 load bias; block segments      (0: none yet)
 *   unwind half u64 1; u64 arch; u64 more; three times u64 vaddr, block section; block vm; block python;
 *               block script                                              (0: not loaded)
 *   symbols     u64 1; as symbols.c packs them                            (0: not loaded)
 *
 * The process that packs has parsed a target's file, so its bytes are trusted no more than the
 * file. */

void uw_module_pack(const struct uw_module *module, struct packer *to)
{
	const struct uw_layout *layout = uw_module_layout(module);
	const struct uw_image *image = uw_module_image(module);
	bool symbols = uw_module_symbol_state(module) == UW_MODULE_READY;

	packer_u64(to, layout != NULL);
	if (layout) {
		packer_block(to, layout->build_id.bytes, layout->build_id.len);
		packer_u64(to, layout->load_bias);
		packer_block(to, layout->segments,
			     layout->n_segments * sizeof(layout->segments[0]));
	}
	packer_u64(to, image != NULL);
	if (image)
		uw_image_pack(image, to);
	packer_u64(to, symbols);
	if (symbols)
		uw_symbols_pack(module->symbols, to);
}

/* As layout_new() accepts it from a file: nothing computed from it wraps. */
static bool segment_fits(const struct uw_segment *s)
{
	return s->filesz <= s->memsz && s->offset <= UINT64_MAX / 2 && s->memsz <= UINT64_MAX / 2 &&
	       s->vaddr <= UINT64_MAX - s->memsz;
}

static int unpack_layout(struct cursor *from, struct uw_layout **ret_layout)
{
	struct uw_layout *layout = NULL;
	size_t id_len, len;
	const void *id = cursor_block(from, &id_len), *segments;
	uint64_t bias = cursor_u64(from);

	segments = cursor_block(from, &len);
	if (from->bad || id_len > UW_BUILD_ID_MAX || len % sizeof(layout->segments[0]) ||
	    len / sizeof(layout->segments[0]) > UW_ELF_PHDRS_MAX)
		return fail(-EBADMSG);
	layout = calloc(1, sizeof(*layout) + len);
	if (!layout)
		return fail(-ENOMEM);
	layout->build_id.len = (uint8_t)id_len;
	memcpy(layout->build_id.bytes, id, id_len);
	layout->load_bias = bias;
	layout->n_segments = len / sizeof(layout->segments[0]);
	memcpy(layout->segments, segments, len);
	for (size_t i = 0; i < layout->n_segments; i++) { /* a bool is 0 or 1 */
		uint8_t exec;

		memcpy(&exec, &layout->segments[i].exec, sizeof(exec));
		layout->segments[i].exec = exec != 0;
		if (!segment_fits(&layout->segments[i])) {
			free(layout);
			return fail(-EBADMSG);
		}
	}
	*ret_layout = layout;
	return 0;
}

static int unpack_unwind(struct uw_module *module, struct cursor *from,
			 const struct uw_layout *layout, int *file)
{
	struct uw_image *image = NULL;
	int r;

	if (!cursor_u64(from))
		return 0;
	r = uw_image_unpack(from, layout, &image);
	if (r < 0)
		return trace(r);
	if (module->kind == UW_MODULE_JIT && !image->vm.n_heaps && image->eh_frame.size) {
		if (uw_module_expects_vm(module)) { /* the VM describes all of its code */
			(void)uw_image_free(image);
			return 0;
		}
		note_jit_cfi(module);
	}
	if (uw_module_unwind_state(module) == UW_MODULE_READY) {
		vm_keep_image(module, image);
		return 0;
	}
	image->fd = take_fd(*file);
	publish_image(module, image, 0);
	return 0;
}

static int unpack_symbols(struct uw_module *module, struct cursor *from)
{
	struct uw_symbols *symbols = NULL;
	int r;

	if (!cursor_u64(from))
		return 0;
	r = uw_symbols_unpack(from, &symbols);
	if (r < 0)
		return trace(r);
	/* (What they continue may have been dropped.) */
	if (uw_module_symbol_state(module) == UW_MODULE_READY || uw_symbols_continue(symbols))
		vm_keep_symbols(module, symbols);
	else
		publish_symbols(module, symbols, 0);
	return 0;
}

int uw_module_unpack(struct uw_module *module, struct cursor *from, int file)
{
	_cleanup_(fd_closep) int copy = file;
	const struct uw_layout *adopted = NULL;
	struct uw_layout *layout = NULL;
	int r = 0;

	if (cursor_u64(from)) {
		r = unpack_layout(from, &layout);
		if (r >= 0)
			r = adopt_layout(module, layout, &adopted);
	}
	if (r >= 0)
		r = unpack_unwind(module, from, adopted, &copy);
	if (r >= 0)
		r = unpack_symbols(module, from);
	if (r < 0)
		return trace(r);
	return from->bad ? fail(-EBADMSG) : 0;
}
