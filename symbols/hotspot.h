/* hotspot.h - OpenJDK's virtual machine describes its own code: names and unwind rules of compiled Java methods, stubs
 * and the interpreter, read from the memory of its process.  Private to symbols/.  Thread: loader.
 *
 *   libjvm.so .dynsym   gHotSpotVMStructs, gHotSpotVMTypes: the offset of each field, for debuggers (jdk.hotspot.agent)
 *     -> CodeCache::_heaps -> CodeHeap -> blocks: CodeBlob, nmethod
 *          nmethod -> Method -> ConstMethod -> ConstantPool -> Klass, Symbol: the name
 *
 * The process is not trusted, and it runs on while it is read.  Each read is checked, and each list, each total and
 * each name has a limit: damaged memory gives fewer names, or none. */
#pragma once

#include "symbols/image.h"
#include "symbols/symbols.h"

struct hotspot;
/* The layout of the VM with its libjvm.so at @image.  -ENOEXEC: no VM there; -EPROTONOSUPPORT: a VM that lacks
 * fields that are needed; -ENOMEM. */
int hotspot_new(struct uw_memory *memory, uint64_t image, struct hotspot **ret_vm);
struct hotspot *hotspot_free(struct hotspot *vm);

/* All code at this moment. */
struct hotspot_code {
	struct uw_section sections[3]; /* as in uw_image_of_sections(); x86-64, else empty */
	struct uw_symbols *symbols;
	struct uw_vm_code places;
	size_t n_blobs;
};
void hotspot_code_deinit(struct hotspot_code *code);
/* -ENOTSUP: the code heaps cannot be read (yet); -ENOMEM. */
int hotspot_code(struct hotspot *vm, struct uw_memory *memory, struct hotspot_code *ret_code);

/* The Java methods at an address, innermost first, as uw_module_lines() reports them: of a Method, the method; of code
 * of a compiled method, the methods inlined there.  Returns how many. */
int hotspot_lines(struct hotspot *vm, struct uw_memory *memory, uint64_t address,
		  void (*add)(void *arg, const struct uw_line *line), void *arg);
