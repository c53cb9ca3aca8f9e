/* module-vm.c - the halves of a module that a Java VM or CPython describes (module.h, hotspot.h, python.h). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "symbols/hotspot.h"
#include "symbols/parts.h"
#include "symbols/python.h"
#include "symbols/symbols.h"

/* ---- loading ---- */

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

	if (!layout) { /* no segments: addresses are those of the process */
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

/* ---- CPython ---- */

static int python_of(struct uw_module *module, struct process_memory *m, uint64_t image)
{
	return module->python ? 0 : python_new(&m->memory, image, &module->python);
}

/* Names are asked for one by one: there is no list of code objects. */
static int load_python(struct uw_module *module, struct process_memory *m, uint64_t image,
		       struct uw_image **ret_image, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_image_freep) struct uw_image *empty = NULL;
	struct uw_symbols_builder none = {0};
	int r = python_of(module, m, image);

	if (r >= 0)
		r = uw_image_new_empty(&empty);
	if (r >= 0)
		r = uw_symbols_build(&none, ret_symbols);
	uw_symbols_builder_deinit(&none);
	if (r < 0)
		return trace(r);
	empty->python = *python_layout(module->python);
	*ret_image = take(empty);
	return 0;
}

bool uw_module_is_python(const struct uw_module *module)
{
	return module->is_python;
}

bool uw_path_is_python(const char *path)
{
	static const char library[] = "libpython3.", program[] = "python3";
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return !strncmp(name, library, sizeof(library) - 1) ||
	       !strncmp(name, program, sizeof(program) - 1);
}

/* ---- either ---- */

int uw_vm_load(struct uw_module *module, struct uw_source *source, struct uw_image **ret_image,
	       struct uw_symbols **ret_symbols)
{
	struct process_memory m = {.memory = {.read = read_memory}, .fd = source->fd};
	struct hotspot_code code;
	int r = 0;

	if (module->is_python)
		return trace(load_python(module, &m, source->vm, ret_image, ret_symbols));
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

int uw_vm_lines(struct uw_module *module, struct uw_source *source, uint64_t address,
		void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	struct process_memory m = {.memory = {.read = read_memory}, .fd = source->fd};
	int r = 0;

	if (module->is_python) {
		r = python_of(module, &m, source->vm);
		return r < 0 ? trace(r)
			     : trace(python_lines(module->python, &m.memory, address, add, arg));
	}
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

struct uw_renewal *uw_module_renewal(struct uw_module *module)
{
	return &module->renewal;
}

/* Of a process that is gone nothing was read: what is there stays. */
void uw_vm_keep_image(struct uw_module *module, struct uw_image *image)
{
	if (image->vm.n_heaps)
		image = atomic_exchange_explicit(&module->next_image, image, memory_order_acq_rel);
	(void)uw_image_free(image);
}

void uw_vm_keep_symbols(struct uw_module *module, struct uw_symbols *symbols)
{
	if (uw_module_is_vm(module))
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

bool uw_module_adopt_symbols(struct uw_module *module)
{
	struct uw_symbols *next =
		atomic_exchange_explicit(&module->next_symbols, NULL, memory_order_acq_rel);

	if (!next || uw_module_symbol_state(module) != UW_MODULE_READY) {
		(void)uw_symbols_free(next);
		return false;
	}
	(void)uw_symbols_free(module->symbols);
	module->symbols = next;
	atomic_store_explicit(&module->symbol_bytes, uw_symbols_bytes(next), memory_order_relaxed);
	return true;
}

void uw_vm_free(struct uw_module *module)
{
	(void)hotspot_free(module->vm);
	(void)python_free(module->python);
	(void)uw_image_free(atomic_load_explicit(&module->next_image, memory_order_relaxed));
	(void)uw_symbols_free(atomic_load_explicit(&module->next_symbols, memory_order_relaxed));
}
