/* hotspot-vm.c - see hotspot-private.h.  The exports of libjvm.so, and the layout that they give.
 *
 * The exports are the VM's interface for debuggers (src/hotspot/share/runtime/vmStructs.hpp): arrays of
 *
 *   VMStructEntry  { const char *type, *field, *type_of_field; i32 is_static; u64 offset; void *address; }
 *   VMTypeEntry    { const char *type, *superclass; i32 is_oop, is_integer, is_unsigned; u64 size; }
 *
 * ended by an entry without a type.  The image is read as it lies in memory, so the file is not needed. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/hotspot-private.h"

enum {
	ENTRIES_MAX = 1 << 14,
	ENTRY_SIZE = 48,
	TYPE_SIZE = 40,
	NAME_ROOM = 64,
};

/* ---- memory ---- */

int vm_begin(struct hotspot *vm, struct uw_memory *memory, size_t n_pages)
{
	return trace(vm_memory_begin(&vm->memory, memory, n_pages));
}

void vm_end(struct hotspot *vm)
{
	vm_memory_end(&vm->memory);
}

bool vm_read(struct hotspot *vm, uint64_t address, void *to, size_t len)
{
	return vm_memory_read(&vm->memory, address, to, len);
}

bool vm_read_code(struct hotspot *vm, uint64_t address, void *to, size_t len)
{
	return vm_memory_read_once(&vm->memory, address, to, len);
}

static uint64_t get(struct hotspot *vm, uint64_t address, size_t width)
{
	uint64_t value = 0;

	return width <= sizeof(value) && vm_read(vm, address, &value, width) ? value : 0;
}

uint64_t vm_get(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	return vm->width[field] ? get(vm, base + vm->offset[field], vm->width[field]) : 0;
}

int64_t vm_get_signed(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	unsigned unused = 64 - 8u * vm->width[field];

	return vm->width[field] ? (int64_t)(vm_get(vm, base, field) << unused) >> unused : 0;
}

uint64_t vm_pointer(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	uint64_t value = vm->width[field] == 8 ? vm_get(vm, base, field) : 0;

	return vm_memory_is_address(value) ? value : 0;
}

bool vm_text(struct hotspot *vm, uint64_t address, char *to, size_t room)
{
	return vm_memory_text(&vm->memory, address, to, room);
}

/* ---- libjvm.so's exports ---- */

/* The array that an export points to. */
static uint64_t find_array(struct hotspot *vm, const struct vm_exports *x, const char *name)
{
	uint64_t at = vm_exports_find(&vm->memory, x, name, NULL);

	return at ? get(vm, at, 8) : 0;
}

/* ---- the layout ---- */

static const struct known_field {
	enum vm_field field;
	bool needed;
	const char *type, *name;
} known_fields[] = {
	{VM_HEAPS, true, "CodeCache", "_heaps"},
	{VM_LIST_LEN, true, "GrowableArrayBase", "_len"},
	{VM_LIST_LEN, true, "GenericGrowableArray", "_len"}, /* JDK 11 */
	{VM_LIST_DATA, true, "GrowableArray<int>", "_data"},
	{VM_HEAP_MEMORY, true, "CodeHeap", "_memory"},
	{VM_HEAP_LOG2, true, "CodeHeap", "_log2_segment_size"},
	{VM_SPACE_LOW, true, "VirtualSpace", "_low"},
	{VM_SPACE_HIGH, true, "VirtualSpace", "_high"},
	{VM_SPACE_BOUNDARY_LOW, true, "VirtualSpace", "_low_boundary"},
	{VM_SPACE_BOUNDARY_HIGH, true, "VirtualSpace", "_high_boundary"},
	{VM_BLOCK_LENGTH, true, "HeapBlock::Header", "_length"},
	{VM_BLOCK_USED, true, "HeapBlock::Header", "_used"},
	{VM_BLOB_NAME, true, "CodeBlob", "_name"},
	{VM_BLOB_SIZE, true, "CodeBlob", "_size"},
	{VM_BLOB_COMPLETE, true, "CodeBlob", "_frame_complete_offset"},
	{VM_BLOB_FRAME, true, "CodeBlob", "_frame_size"},
	{VM_BLOB_BEGIN, false, "CodeBlob", "_code_begin"},
	{VM_BLOB_END, false, "CodeBlob", "_code_end"},
	{VM_BLOB_CODE_OFFSET, false, "CodeBlob", "_code_offset"},
	{VM_BLOB_DATA_OFFSET, false, "CodeBlob", "_data_offset"},
	{VM_NMETHOD_METHOD, true, "CompiledMethod", "_method"},
	{VM_NMETHOD_METHOD, true, "nmethod", "_method"}, /* JDK 8 to 11, and 23 on */
	{VM_NMETHOD_LEVEL, false, "nmethod", "_comp_level"},
	{VM_NMETHOD_SCOPES_DATA, false, "CompiledMethod", "_scopes_data_begin"},
	{VM_NMETHOD_PCS, false, "nmethod", "_scopes_pcs_offset"},
	{VM_NMETHOD_DEPENDENCIES, false, "nmethod", "_dependencies_offset"},
	{VM_NMETHOD_METADATA, false, "nmethod", "_metadata_offset"},
	{VM_METHOD_CONST, true, "Method", "_constMethod"},
	{VM_CONST_POOL, true, "ConstMethod", "_constants"},
	{VM_CONST_NAME, true, "ConstMethod", "_name_index"},
	{VM_POOL_HOLDER, true, "ConstantPool", "_pool_holder"},
	{VM_KLASS_NAME, true, "Klass", "_name"},
	{VM_SYMBOL_LENGTH, true, "Symbol", "_length"},
	{VM_SYMBOL_BODY, true, "Symbol", "_body"},
	{VM_SYMBOL_BODY, true, "Symbol", "_body[0]"},
	{VM_CODELETS, false, "AbstractInterpreter", "_code"},
	{VM_QUEUE_BUFFER, false, "StubQueue", "_stub_buffer"},
	{VM_QUEUE_BEGIN, false, "StubQueue", "_queue_begin"},
	{VM_QUEUE_END, false, "StubQueue", "_queue_end"},
	{VM_CODELET_SIZE, false, "InterpreterCodelet", "_size"},
	{VM_CODELET_TEXT, false, "InterpreterCodelet", "_description"},
	{VM_MAJOR_VERSION, false, "Abstract_VM_Version", "_vm_major_version"},
};

/* Bytes of a field, by the name of its type. */
static uint8_t width_of(const char *type)
{
	static const struct {
		const char *name;
		uint8_t width;
	} types[] = {
		{"int", 4},	     {"jint", 4},	 {"uint", 4},	   {"juint", 4},
		{"unsigned int", 4}, {"u2", 2},		 {"jushort", 2},   {"short", 2},
		{"int16_t", 2},	     {"uint16_t", 2},	 {"u1", 1},	   {"bool", 1},
		{"int8_t", 1},	     {"signed char", 1}, {"CompLevel", 1}, {"uint8_t", 1},
	};

	if (!strncmp(type, "volatile ", 9))
		type += 9;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(type, types[i].name))
			return types[i].width;
	return 8;
}

static void note_field(struct hotspot *vm, const char *type, const char *field,
		       const char *type_of_field, uint64_t offset, uint64_t address)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++) {
		const struct known_field *k = &known_fields[i];
		bool is_static = k->field == VM_HEAPS || k->field == VM_CODELETS ||
				 k->field == VM_MAJOR_VERSION;

		if (vm->width[k->field] || strcmp(type, k->type) != 0 ||
		    strcmp(field, k->name) != 0)
			continue;
		vm->offset[k->field] = is_static ? address : offset;
		vm->width[k->field] = width_of(type_of_field);
	}
}

static void read_fields(struct hotspot *vm, uint64_t at)
{
	char type[NAME_ROOM], field[NAME_ROOM], type_of_field[NAME_ROOM];

	for (size_t i = 0; i < ENTRIES_MAX; i++, at += ENTRY_SIZE) {
		uint64_t entry[ENTRY_SIZE / 8];

		if (!vm_read(vm, at, entry, sizeof(entry)) || !entry[0])
			return;
		if (!vm_text(vm, entry[0], type, sizeof(type)) ||
		    !vm_text(vm, entry[1], field, sizeof(field)))
			continue;
		if (!vm_text(vm, entry[2], type_of_field, sizeof(type_of_field)))
			type_of_field[0] = 0;
		note_field(vm, type, field, type_of_field, entry[4], entry[5]);
	}
}

static void read_types(struct hotspot *vm, uint64_t at)
{
	char type[NAME_ROOM];

	for (size_t i = 0; i < ENTRIES_MAX; i++, at += TYPE_SIZE) {
		uint64_t entry[TYPE_SIZE / 8];

		if (!vm_read(vm, at, entry, sizeof(entry)) || !entry[0])
			return;
		if (!vm_text(vm, entry[0], type, sizeof(type)) || entry[4] > VM_PAGE)
			continue;
		if (!strcmp(type, "ConstantPool"))
			vm->pool_size = entry[4];
		else if (!strcmp(type, "HeapBlock"))
			vm->block_size = entry[4];
		else if (!strcmp(type, "InterpreterCodelet"))
			vm->codelet_size = entry[4];
	}
}

static bool is_known(const struct hotspot *vm)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++)
		if (known_fields[i].needed && !vm->width[known_fields[i].field])
			return false;
	return vm->pool_size && vm->block_size &&
	       (vm->width[VM_BLOB_BEGIN] || vm->width[VM_BLOB_CODE_OFFSET]);
}

static int read_layout(struct hotspot *vm, uint64_t image)
{
	struct vm_exports x;
	uint64_t fields, types;

	if (!vm_exports_of(&vm->memory, image, &x))
		return fail(-ENOEXEC);
	fields = find_array(vm, &x, "gHotSpotVMStructs");
	types = find_array(vm, &x, "gHotSpotVMTypes");
	if (!fields || !types)
		return fail(-ENOEXEC);
	read_fields(vm, fields);
	read_types(vm, types);
	vm->dense_numbers = vm_get(vm, 0, VM_MAJOR_VERSION) >= 20;
	return is_known(vm) ? 0 : fail(-ENOTSUP);
}

int hotspot_new(struct uw_memory *memory, uint64_t image, struct hotspot **ret_vm)
{
	struct hotspot *vm = calloc(1, sizeof(*vm));
	int r = vm ? vm_begin(vm, memory, VM_PAGES) : fail(-ENOMEM);

	if (r >= 0)
		r = read_layout(vm, image);
	if (r < 0) {
		(void)hotspot_free(vm);
		return trace(r);
	}
	vm_end(vm);
	*ret_vm = vm;
	return 0;
}

struct hotspot *hotspot_free(struct hotspot *vm)
{
	if (vm) {
		vm_memory_end(&vm->memory);
		free(vm->blobs);
	}
	free(vm);
	return NULL;
}
