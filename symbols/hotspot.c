/* hotspot.c - see hotspot.h.  The layout of the VM's structures, names of methods, and the walk through the code heaps.
 *
 *   CodeHeap   [block][block][block] ...                      up to VirtualSpace::_high
 *   block      [HeapBlock::Header length, used][CodeBlob ...]  length in segments
 *   CodeBlob   [header][relocations][code][data]
 *
 * A block is read while the VM may write it: a length that leads nowhere ends the walk of its heap, and the rest is
 * read the next time. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/hotspot.h"
#include "symbols/hotspot-cfi.h"
#include "symbols/vm-memory.h"

/* Fields of the VM's structures, and what each is an offset of. */
enum vm_field {
	VM_HEAPS, /* static: its address */
	VM_HEAP,  /* the same: JDK 8 has one */
	VM_LIST_LEN,
	VM_LIST_DATA,
	VM_HEAP_MEMORY,
	VM_HEAP_LOG2,
	VM_SPACE_LOW,
	VM_SPACE_HIGH,
	VM_SPACE_BOUNDARY_LOW,
	VM_SPACE_BOUNDARY_HIGH,
	VM_BLOCK_LENGTH,
	VM_BLOCK_USED,
	VM_BLOB_NAME,
	VM_BLOB_SIZE,
	VM_BLOB_COMPLETE,
	VM_BLOB_FRAME,
	VM_BLOB_BEGIN,
	VM_BLOB_END,
	VM_BLOB_CODE_OFFSET, /* JDK 23 on, instead of BEGIN and END */
	VM_BLOB_DATA_OFFSET,
	VM_NMETHOD_METHOD,
	VM_NMETHOD_LEVEL,
	VM_NMETHOD_SCOPES_DATA, /* an address */
	VM_NMETHOD_PCS,		/* offsets from the blob */
	VM_NMETHOD_DEPENDENCIES,
	VM_NMETHOD_METADATA,
	VM_NMETHOD_IMMUTABLE, /* JDK 25 on: the address of scopes and of records of calls */
	VM_NMETHOD_SCOPES,    /* an offset from there, behind the records; JDK 8: from the blob */
	VM_BLOB_MUTABLE,      /* the address of relocations and, behind these, Methods */
	VM_BLOB_RELOCATIONS,  /* bytes */
	VM_METHOD_CONST,
	VM_CONST_POOL,
	VM_CONST_NAME,
	VM_POOL_HOLDER,
	VM_KLASS_NAME,
	VM_SYMBOL_LENGTH,
	VM_SYMBOL_BODY,
	VM_CODELETS, /* static: the address of its StubQueue */
	VM_QUEUE_BUFFER,
	VM_QUEUE_BEGIN,
	VM_QUEUE_END,
	VM_CODELET_SIZE,
	VM_CODELET_TEXT,
	VM_MAJOR_VERSION, /* static: its address */
	VM_FIELDS,
};

enum {
	VM_PAGES = 1024, /* kept of one request for all code, */
	VM_INLINED_MAX = 48,
	VM_LINE_PAGES = 64, /* ... for one address */
	VM_TEXT_MAX = 512,  /* bytes of a class name or of a method name */
	VM_BLOBS_MAX = 1 << 18,
	VM_HEAPS_MAX = UW_VM_HEAPS,
	VM_CODE_MAX = 64 << 20, /* bytes of code that are looked at in one request */
};

struct hotspot {
	uint64_t offset[VM_FIELDS];
	uint8_t width[VM_FIELDS]; /* bytes; 0: the VM lacks the field */
	uint64_t pool_size;	  /* of a ConstantPool: its entries are behind */
	uint64_t block_size;	  /* of a HeapBlock: the blob is behind */
	uint64_t codelet_size;
	bool dense_numbers; /* JDK 20 on: numbers in streams have no byte 0 */
	struct vm_blob {
		uint64_t start, end, blob;
	} * blobs; /* compiled methods of the last hotspot_code(), ascending */
	size_t n_blobs, blobs_room;
	/* of the request in hand */
	struct vm_memory memory;
};

enum {
	LOG2_MIN = 4,
	LOG2_MAX = 16,
	BLOB_MAX = 16 << 20,
	CODELETS_MAX = 4096,
	FRAME_MAX = 1 << 20,
	NAME_ROOM = 2 * VM_TEXT_MAX + 2,
};

struct reading {
	struct hotspot *vm;
	struct vm_cfi cfi;
	struct uw_symbols_builder symbols;
	struct hotspot_code *code;
	uint8_t *bytes; /* of the code in hand */
	size_t room;
	uint64_t code_left;
	/* Virtual threads: the stubs that bring frames back, and the bytes of the frame that they end in. */
	struct vm_code barrier;
	uint32_t entered;
	int error; /* -ENOMEM */
};

/* ---- the interface for debuggers ----
 *
 * libjvm.so's exports are the VM's interface for debuggers (src/hotspot/share/runtime/vmStructs.hpp): arrays of
 *
 *   VMStructEntry  { const char *type, *field, *type_of_field; i32 is_static; u64 offset; void *address; }
 *   VMTypeEntry    { const char *type, *superclass; i32 is_oop, is_integer, is_unsigned; u64 size; }
 *
 * ended by an entry without a type.  The image is read as it lies in memory, so the file is not needed. */

enum {
	ENTRIES_MAX = 1 << 14,
	ENTRY_SIZE = 48,
	TYPE_SIZE = 40,
	FIELD_ROOM = 64,
};

/* ---- memory ---- */

/* false: not all of it can be read. */
static bool vm_read(struct hotspot *vm, uint64_t address, void *to, size_t len)
{
	return vm_memory_read(&vm->memory, address, to, len);
}

static uint64_t get(struct hotspot *vm, uint64_t address, size_t width)
{
	uint64_t value = 0;

	return width <= sizeof(value) && vm_read(vm, address, &value, width) ? value : 0;
}

/* A field of the structure at @base, unsigned or (vm_get_signed()) sign-extended from its width; 0: the VM has none, or
 * it cannot be read. */
static uint64_t vm_get(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	return vm->width[field] ? get(vm, base + vm->offset[field], vm->width[field]) : 0;
}

static int64_t vm_get_signed(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	unsigned unused = 64 - 8u * vm->width[field];

	return vm->width[field] ? (int64_t)(vm_get(vm, base, field) << unused) >> unused : 0;
}

/* A pointer that leads into the process, or 0. */
static uint64_t vm_pointer(struct hotspot *vm, uint64_t base, enum vm_field field)
{
	uint64_t value = vm->width[field] == 8 ? vm_get(vm, base, field) : 0;

	return vm_memory_is_address(value) ? value : 0;
}

/* The text at @address with its NUL, cut at @room - 1; false: none. */
static bool vm_text(struct hotspot *vm, uint64_t address, char *to, size_t room)
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
	{VM_HEAPS, false, "CodeCache", "_heaps"},
	{VM_HEAP, false, "CodeCache", "_heap"},
	{VM_LIST_LEN, true, "GrowableArrayBase", "_len"},
	{VM_LIST_LEN, true, "GenericGrowableArray", "_len"}, /* JDK 8, 11 */
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
	{VM_NMETHOD_IMMUTABLE, false, "nmethod", "_immutable_data"},
	{VM_NMETHOD_SCOPES, false, "nmethod", "_scopes_data_offset"},
	{VM_BLOB_MUTABLE, false, "CodeBlob", "_mutable_data"},
	{VM_BLOB_RELOCATIONS, false, "CodeBlob", "_relocation_size"},
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
		{"int", 4},	     {"jint", 4},
		{"uint", 4},	     {"juint", 4},
		{"unsigned int", 4}, {"u2", 2},
		{"jushort", 2},	     {"short", 2},
		{"int16_t", 2},	     {"uint16_t", 2},
		{"u1", 1},	     {"bool", 1},
		{"int8_t", 1},	     {"signed char", 1},
		{"CompLevel", 1},    {"uint8_t", 1},
		{"uint32_t", 4},     {"int32_t", 4},
		{"u4", 4},	     {"unsigned short", 2},
		{"jbyte", 1},	     {"unsigned char", 1},
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
		bool is_static = k->field == VM_HEAPS || k->field == VM_HEAP ||
				 k->field == VM_CODELETS || k->field == VM_MAJOR_VERSION;

		if (vm->width[k->field] || strcmp(type, k->type) != 0 ||
		    strcmp(field, k->name) != 0)
			continue;
		vm->offset[k->field] = is_static ? address : offset;
		vm->width[k->field] = width_of(type_of_field);
	}
}

static void read_fields(struct hotspot *vm, uint64_t at)
{
	char type[FIELD_ROOM], field[FIELD_ROOM], type_of_field[FIELD_ROOM];

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
	char type[FIELD_ROOM];

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
	return vm->pool_size && vm->block_size && (vm->width[VM_HEAPS] || vm->width[VM_HEAP]) &&
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
	/* JDK 8 counts its VM's versions apart: 25. */
	vm->dense_numbers = !vm->width[VM_HEAP] && vm_get(vm, 0, VM_MAJOR_VERSION) >= 20;
	return is_known(vm) ? 0 : fail(-EPROTONOSUPPORT);
}

int hotspot_new(struct uw_memory *memory, uint64_t image, struct hotspot **ret_vm)
{
	struct hotspot *vm = calloc(1, sizeof(*vm));
	int r = vm ? vm_memory_begin(&vm->memory, memory, VM_PAGES) : fail(-ENOMEM);

	if (r >= 0)
		r = read_layout(vm, image);
	if (r < 0) {
		(void)hotspot_free(vm);
		return trace(r);
	}
	vm_memory_end(&vm->memory);
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

/* ---- names of methods, inlined methods ----
 *
 *   nmethod   [PcDesc: pc, scope] ...          of each call and safepoint, ascending; pc: behind it
 *   scope     caller's scope, Method, bci      numbers of 1 to 5 bytes (utilities/unsigned5.hpp) */

/* A Symbol: a length and that many bytes of modified UTF-8.  Returns the length, 0: none. */
static size_t symbol_text(struct hotspot *vm, uint64_t symbol, char *to, size_t room)
{
	size_t len = vm_get(vm, symbol, VM_SYMBOL_LENGTH);

	len = min_u64(len, room);
	if (!symbol || !len || !vm_read(vm, symbol + vm->offset[VM_SYMBOL_BODY], to, len))
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((uint8_t)to[i] < ' ' || to[i] == 0x7f)
			return 0;
	return len;
}

/* "java/util/HashMap" as source code has it.  A hidden class has its address behind its name, which differs in each
 * run: "Main$$Lambda$14+0x0000000800c03000". */
static size_t as_written(char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((name[i] == '/' || name[i] == '+') && i + 2 < len && name[i + 1] == '0' &&
		    name[i + 2] == 'x')
			return i;
		if (name[i] == '/')
			name[i] = '.';
	}
	return len;
}

/* "package.Class.method" of a Method; the length, 0: it is none. */
static size_t vm_method_name(struct hotspot *vm, uint64_t method, char *to, size_t room)
{
	uint64_t code = method ? vm_pointer(vm, method, VM_METHOD_CONST) : 0;
	uint64_t pool = code ? vm_pointer(vm, code, VM_CONST_POOL) : 0;
	uint64_t index = code ? vm_get(vm, code, VM_CONST_NAME) : 0, name = 0, klass;
	size_t len, more;

	if (!pool || room < 2 * VM_TEXT_MAX + 2 ||
	    !vm_read(vm, pool + vm->pool_size + 8 * index, &name, sizeof(name)))
		return 0;
	klass = vm_pointer(vm, pool, VM_POOL_HOLDER);
	len = klass ? symbol_text(vm, vm_pointer(vm, klass, VM_KLASS_NAME), to, VM_TEXT_MAX) : 0;
	if (!len)
		return 0;
	len = as_written(to, len);
	to[len++] = '.';
	more = symbol_text(vm, name, to + len, VM_TEXT_MAX);
	if (!more)
		return 0;
	len += more;
	to[len] = 0;
	return len;
}

/* FRAME_NATIVE: the wrapper of a native method. */
static enum frame_kind vm_tier(struct hotspot *vm, uint64_t blob)
{
	uint64_t level = vm_get(vm, blob, VM_NMETHOD_LEVEL);

	return level >= 1 && level <= 3 ? FRAME_JAVA_C1 : level == 4 ? FRAME_JAVA_C2 : FRAME_NATIVE;
}

/* ---- inlined methods ---- */

enum { PC_DESC = 16, NUMBER_MAX = 5 };

struct vm_pc_desc {
	int32_t pc, scope, objects, flags;
};
_Static_assert(sizeof(struct vm_pc_desc) == PC_DESC, "as in code/pcDesc.hpp");

/* UNSIGNED5: a byte below 192 is the last one; from JDK 20 on each byte is one more. */
static bool read_number(struct hotspot *vm, uint64_t *at, uint64_t *ret_value)
{
	uint8_t less = vm->dense_numbers ? 1 : 0, low = (uint8_t)(192 - less), byte;
	uint64_t value = 0;

	for (unsigned i = 0; i < NUMBER_MAX; i++) {
		if (!vm_read(vm, (*at)++, &byte, 1) || byte < less)
			return false;
		byte = (uint8_t)(byte - less);
		value += (uint64_t)byte << (6 * i);
		if (byte < low)
			break;
	}
	*ret_value = (uint32_t)value;
	return true;
}

struct vm_tables {
	uint64_t pcs, pcs_end, scopes, metadata;
};

/* The records before and behind the code at @pc. */
struct vm_pc_descs {
	uint64_t before, behind; /* scopes; 0: none */
	uint64_t before_pc, behind_pc;
	bool exact; /* @pc is a call: that of `behind` */
};

/* Where a compiled method's tables are; false: the VM does not describe them. */
static bool find_tables(struct hotspot *vm, uint64_t blob, struct vm_tables *ret)
{
	uint64_t apart = vm_pointer(vm, blob, VM_NMETHOD_IMMUTABLE), metadata;

	if (!vm->width[VM_NMETHOD_PCS])
		return false;
	if (vm->width[VM_BLOB_MUTABLE]) {
		metadata = vm_pointer(vm, blob, VM_BLOB_MUTABLE);
		ret->pcs = apart + vm_get(vm, blob, VM_NMETHOD_PCS);
		ret->scopes = ret->pcs_end = apart + vm_get(vm, blob, VM_NMETHOD_SCOPES);
		ret->metadata = metadata + vm_get(vm, blob, VM_BLOB_RELOCATIONS);
		return apart && metadata && vm->width[VM_NMETHOD_SCOPES] &&
		       vm->width[VM_BLOB_RELOCATIONS];
	}
	ret->pcs = blob + vm_get(vm, blob, VM_NMETHOD_PCS);
	ret->pcs_end = blob + vm_get(vm, blob, VM_NMETHOD_DEPENDENCIES);
	ret->scopes = vm->width[VM_NMETHOD_SCOPES_DATA]
			      ? vm_pointer(vm, blob, VM_NMETHOD_SCOPES_DATA)
			      : blob + vm_get(vm, blob, VM_NMETHOD_SCOPES);
	ret->metadata = blob + vm_get(vm, blob, VM_NMETHOD_METADATA);
	return ret->scopes && vm->width[VM_NMETHOD_DEPENDENCIES] && vm->width[VM_NMETHOD_METADATA];
}

static bool find_scopes(struct hotspot *vm, const struct vm_tables *tables, uint64_t pc,
			struct vm_pc_descs *ret)
{
	uint64_t first = tables->pcs, end = tables->pcs_end;
	uint64_t low = 0, high = end > first ? (end - first) / PC_DESC : 0, n = high;
	struct vm_pc_desc desc;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (!vm_read(vm, first + mid * PC_DESC, &desc, sizeof(desc)))
			return false;
		if (desc.pc > 0 && (uint64_t)desc.pc > pc)
			high = mid;
		else
			low = mid + 1;
	}
	*ret = (struct vm_pc_descs){0};
	/* The first and the last one are marks. */
	if (low > 1 && vm_read(vm, first + (low - 1) * PC_DESC, &desc, sizeof(desc)) &&
	    desc.scope > 0) {
		ret->before = (uint64_t)desc.scope;
		ret->before_pc = (uint64_t)desc.pc;
	}
	if (low + 1 < n && vm_read(vm, first + low * PC_DESC, &desc, sizeof(desc)) &&
	    desc.scope > 0) {
		ret->behind = (uint64_t)desc.scope;
		ret->behind_pc = (uint64_t)desc.pc;
		ret->exact = (uint64_t)desc.pc == pc + 1;
	}
	return true;
}

/* The Method of number @index, from 1. */
static uint64_t metadata_at(struct hotspot *vm, uint64_t table, uint64_t index)
{
	uint64_t method = 0;

	return index && vm_read(vm, table + 8 * (index - 1), &method, sizeof(method)) ? method : 0;
}

/* The methods of @scope, innermost first; 0: the memory is not what it was, other code is there by now. */
static size_t read_scope(struct hotspot *vm, uint64_t blob, const struct vm_tables *tables,
			 uint64_t scope, uint64_t *methods, size_t max)
{
	uint64_t number;
	size_t n = 0;

	while (scope && n < max) {
		uint64_t at = tables->scopes + scope;

		if (!read_number(vm, &at, &scope) || !read_number(vm, &at, &number))
			return 0;
		methods[n] = metadata_at(vm, tables->metadata, number);
		if (!methods[n])
			return 0;
		n++;
	}
	return !scope && n && methods[n - 1] == vm_pointer(vm, blob, VM_NMETHOD_METHOD) ? n : 0;
}

/* ---- loops ----
 *
 * The compilers put a safepoint, which has a record, at the end of a loop without calls, and jump back shortly behind it:
 *
 *     to    ...                      the loop, of the method that the record names
 *     poll  test %eax,(%r10)
 *           cmp $60000,%edi
 *           jl to
 *
 * So all code from there on, up to the jump, is in that method. */

enum { LOOP_END_MAX = 64 /* bytes from a safepoint to the jump back */ };

/* The length of ModRM, SIB and displacement. */
static size_t operand_length(const uint8_t *p)
{
	unsigned mod = p[0] >> 6;
	bool sib = mod != 3 && (p[0] & 7) == 4;
	size_t n = sib ? 2 : 1;

	if (mod == 1)
		return n + 1;
	return mod == 2 || (!mod && (p[sib] & 7) == 5) ? n + 4 : n;
}

/* The bytes of an instruction as compilers put between a safepoint and the jump back; 0: another one. */
static size_t simple_length(const uint8_t *p)
{
	static const uint8_t plain[] = {0x01, 0x03, 0x09, 0x0b, 0x21, 0x23, 0x29, 0x2b, 0x31, 0x33,
					0x39, 0x3b, 0x63, 0x85, 0x89, 0x8b, 0x8d, 0xd1, 0xd3, 0xff};
	size_t rex = (p[0] & 0xf0) == 0x40;
	const uint8_t *op = p + rex;

	if (memchr(plain, op[0], sizeof(plain)))
		return rex + 1 + operand_length(op + 1);
	if (op[0] == 0x83 || op[0] == 0xc1)
		return rex + 2 + operand_length(op + 1);
	if (op[0] == 0x81 || op[0] == 0xc7)
		return rex + 5 + operand_length(op + 1);
	if ((op[0] & 0xf8) == 0xb8)
		return rex + (rex && p[0] & 8 ? 9 : 5);
	if (op[0] == 0x0f && ((op[1] & 0xf0) == 0x40 || op[1] == 0xaf))
		return rex + 2 + operand_length(op + 2);
	return 0;
}

/* Of a jump at @p, its bytes and where it leads to, from its end on; 0: another instruction. */
static size_t jump_length(const uint8_t *p, int32_t *ret_to)
{
	size_t at = p[0] == 0xe9 ? 1 : p[0] == 0x0f && (p[1] & 0xf0) == 0x80 ? 2 : 0;

	if (p[0] == 0xeb || (p[0] & 0xf0) == 0x70) {
		*ret_to = (int8_t)p[1];
		return 2;
	}
	if (at)
		memcpy(ret_to, p + at, sizeof(*ret_to));
	return at ? at + sizeof(*ret_to) : 0;
}

/* Is @pc in the loop with the safepoint @poll, which begins behind @after, the record before?  Offsets in the code. */
static bool is_in_loop(struct hotspot *vm, const struct vm_blob *b, uint64_t poll, uint64_t after,
		       uint64_t pc)
{
	uint8_t code[LOOP_END_MAX + 16] = {0};
	size_t rex, len;
	int32_t to;

	if (!poll || poll >= b->end - b->start ||
	    !vm_read(vm, b->start + poll, code, min_u64(LOOP_END_MAX, b->end - b->start - poll)))
		return false;
	rex = (code[0] & 0xf0) == 0x40;
	if (code[rex] != 0x85 || code[rex + 1] >> 6) /* test %eax,(...) */
		return false;
	for (size_t at = 0; at < LOOP_END_MAX; at += len) {
		len = jump_length(code + at, &to);
		if (len && to < 0) {
			uint64_t begin = poll + at + len + (uint64_t)(int64_t)to;

			return begin > after && begin <= pc && pc <= poll + at;
		}
		len = len ? len : simple_length(code + at);
		if (!len)
			return false;
	}
	return false;
}

/* The methods at @address of compiled code, innermost first; returns how many, at most @max. */
static size_t vm_inlined(struct hotspot *vm, const struct vm_blob *b, uint64_t address,
			 uint64_t *methods, size_t max)
{
	uint64_t others[VM_INLINED_MAX];
	struct vm_pc_descs found;
	struct vm_tables tables;
	size_t n, n_others, same = 0;
	uint64_t pc = address - b->start;

	if (max > VM_INLINED_MAX || !find_tables(vm, b->blob, &tables) ||
	    !find_scopes(vm, &tables, pc, &found))
		return 0;
	if (found.before && !found.exact && is_in_loop(vm, b, found.before_pc, 0, pc))
		return read_scope(vm, b->blob, &tables, found.before, methods, max);
	if (!found.behind)
		return 0;
	n = read_scope(vm, b->blob, &tables, found.behind, methods, max);
	if (!n || found.exact || is_in_loop(vm, b, found.behind_pc, found.before_pc, pc))
		return n;
	/* Between two calls: the methods that both are in.  Which others the code there belongs to is not recorded. */
	n_others = found.before
			   ? read_scope(vm, b->blob, &tables, found.before, others, VM_INLINED_MAX)
			   : 0;
	while (same < n && same < n_others && methods[n - 1 - same] == others[n_others - 1 - same])
		same++;
	same = same ? same : 1;
	memmove(methods, methods + n - same, same * sizeof(*methods));
	return same;
}

/* ---- code ---- */

/* The bytes of a piece of code, until the next call; NULL: not readable, enough was read, or no memory (an error). */
static const uint8_t *bytes_of(struct reading *rd, uint64_t start, uint64_t end)
{
	size_t len = end - start;

	if (len > rd->code_left)
		return NULL;
	rd->code_left -= len;
	if (len > rd->room) {
		free(take(rd->bytes));
		rd->bytes = malloc(len);
		rd->room = rd->bytes ? len : 0;
		if (!rd->bytes)
			rd->error = fail(-ENOMEM);
	}
	return rd->bytes && vm_memory_read_once(&rd->vm->memory, start, rd->bytes, len) ? rd->bytes
											: NULL;
}

static void add_symbol(struct reading *rd, uint64_t start, uint64_t end, const char *name,
		       enum frame_kind kind)
{
	int r = uw_symbols_add_kind(&rd->symbols, start, end - start, name, strlen(name),
				    UW_RANK_GLOBAL, kind);

	rd->error = r < 0 ? r : rd->error;
}

/* ---- the interpreter ---- */

static void add_interpreter(struct reading *rd)
{
	struct hotspot *vm = rd->vm;
	uint64_t queue = vm_pointer(vm, 0, VM_CODELETS), at, end;
	uint64_t buffer = queue ? vm_pointer(vm, queue, VM_QUEUE_BUFFER) : 0;
	char text[64];

	/* A VM has one.  A process that has made many blobs of this name is read once. */
	if (!buffer || !vm->codelet_size || rd->code->places.interpreter.start)
		return;
	at = buffer + vm_get(vm, queue, VM_QUEUE_BEGIN);
	end = buffer + vm_get(vm, queue, VM_QUEUE_END);
	if (end <= at || end - at > BLOB_MAX)
		return;
	rd->code->places.interpreter = (struct uw_vm_range){at, end};
	rd->code->places.method = -24;
	for (size_t i = 0; i < CODELETS_MAX && at < end; i++) {
		uint64_t size = vm_get(vm, at, VM_CODELET_SIZE);
		uint64_t description = vm_pointer(vm, at, VM_CODELET_TEXT);
		/* Code is aligned to 32 bytes: AbstractInterpreter's CodeEntryAlignment. */
		struct vm_code c = {.kind = VM_INTERPRETER,
				    .start = (at + vm->codelet_size + 31) & ~31ull,
				    .end = at + size};
		bool entry;

		if (size <= vm->codelet_size || size > end - at)
			return;
		entry = description && vm_text(vm, description, text, sizeof(text)) &&
			!strncmp(text, "method entry point", 18);
		/* A return address made by hand can be the first byte: it is looked up by the one before. */
		if (!entry)
			c.start = at;
		c.bytes = c.end > c.start ? bytes_of(rd, c.start, c.end) : NULL;
		if (c.bytes)
			vm_cfi_add_codelet(&rd->cfi, &c, entry);
		at += size;
	}
}

/* ---- blobs ---- */

/* For hotspot_lines(). */
static void keep_blob(struct reading *rd, uint64_t blob, const struct vm_code *c)
{
	struct hotspot *vm = rd->vm;

	if (vm->n_blobs == vm->blobs_room && !array_grow(vm->blobs, vm->blobs_room, 1024)) {
		rd->error = fail(-ENOMEM);
		return;
	}
	vm->blobs[vm->n_blobs++] = (struct vm_blob){c->start, c->end, blob};
}

static int by_start(const void *left, const void *right)
{
	const struct vm_blob *a = left, *b = right;

	return ascend(a->start, b->start);
}

/* What is known of a blob by its name. */
static enum vm_kind kind_of(const char *name, uint32_t frame)
{
	if (!strcmp(name, "nmethod") || !strcmp(name, "native nmethod"))
		return VM_COMPILED;
	if (frame >= 16)
		return VM_STUB;
	if (!strcmp(name, "I2C/C2I adapters"))
		return VM_ADAPTER;
	if (strstr(name, "vtable") || strstr(name, "MethodHandles") || strstr(name, "signature"))
		return VM_LEAF;
	return strstr(name, "continuation") ? VM_BARRIER : VM_FP;
}

static void name_blob(struct reading *rd, uint64_t blob, const struct vm_code *c, const char *text)
{
	char name[NAME_ROOM];
	size_t len = 0;

	if (c->kind == VM_COMPILED)
		len = vm_method_name(rd->vm, vm_pointer(rd->vm, blob, VM_NMETHOD_METHOD), name,
				     sizeof(name));
	if (len && c->native && !strcmp(name, "jdk.internal.vm.Continuation.enterSpecial"))
		rd->entered = c->frame;
	add_symbol(rd, c->start, c->end, len ? name : text,
		   len ? vm_tier(rd->vm, blob) : FRAME_NATIVE);
}

static void add_barrier(struct reading *rd)
{
	struct vm_code *c = &rd->barrier;

	c->bytes = bytes_of(rd, c->start, c->end);
	c->frame = rd->entered;
	if (c->end)
		vm_cfi_add(&rd->cfi, c);
}

static bool code_range(struct hotspot *vm, uint64_t blob, uint64_t end, struct vm_code *c)
{
	if (vm->width[VM_BLOB_BEGIN] && vm->width[VM_BLOB_END]) {
		c->start = vm_get(vm, blob, VM_BLOB_BEGIN);
		c->end = vm_get(vm, blob, VM_BLOB_END);
	} else {
		c->start = blob + vm_get(vm, blob, VM_BLOB_CODE_OFFSET);
		c->end = blob + vm_get(vm, blob, VM_BLOB_DATA_OFFSET);
	}
	return c->start > blob && c->end > c->start && c->end <= end;
}

static void add_blob(struct reading *rd, uint64_t blob, uint64_t end)
{
	struct hotspot *vm = rd->vm;
	uint64_t frame = 8 * (uint64_t)max_u64(0, vm_get(vm, blob, VM_BLOB_FRAME));
	uint64_t name = vm_pointer(vm, blob, VM_BLOB_NAME);
	int64_t complete = vm_get_signed(vm, blob, VM_BLOB_COMPLETE);
	struct vm_code c = {.frame = frame <= FRAME_MAX ? (uint32_t)frame : 0};
	char text[64];

	if (!name || !vm_text(vm, name, text, sizeof(text)) || !code_range(vm, blob, end, &c))
		return;
	rd->code->n_blobs++;
	c.kind = kind_of(text, c.frame);
	c.native = !strcmp(text, "native nmethod");
	c.complete = complete >= 0 && complete <= INT32_MAX ? (uint32_t)complete : 0;
	if (!strcmp(text, "Interpreter")) {
		add_interpreter(rd);
	} else if (c.kind == VM_BARRIER) {
		rd->barrier = c;
	} else {
		if (c.kind == VM_ADAPTER)
			c.bytes = bytes_of(rd, c.start, c.end);
		if (c.kind == VM_COMPILED) {
			c.bytes = bytes_of(rd, c.start, c.end);
			keep_blob(rd, blob, &c);
		}
		vm_cfi_add(&rd->cfi, &c);
	}
	name_blob(rd, blob, &c, text);
}

static void add_heap(struct reading *rd, uint64_t heap)
{
	struct hotspot *vm = rd->vm;
	uint64_t space = heap + vm->offset[VM_HEAP_MEMORY];
	uint64_t at = vm_pointer(vm, space, VM_SPACE_LOW);
	uint64_t end = vm_pointer(vm, space, VM_SPACE_HIGH);
	uint64_t shift = vm_get(vm, heap, VM_HEAP_LOG2);
	struct uw_vm_code *places = &rd->code->places;

	if (!at || end <= at || shift < LOG2_MIN || shift > LOG2_MAX)
		return;
	places->heaps[places->n_heaps++] = (struct uw_vm_range){
		vm_pointer(vm, space, VM_SPACE_BOUNDARY_LOW),
		vm_pointer(vm, space, VM_SPACE_BOUNDARY_HIGH),
	};
	while (at < end && rd->code->n_blobs < VM_BLOBS_MAX && rd->error >= 0) {
		uint64_t length = vm_get(vm, at, VM_BLOCK_LENGTH);

		if (!length || length > (end - at) >> shift)
			return;
		if (vm_get(vm, at, VM_BLOCK_USED) & 1)
			add_blob(rd, at + vm->block_size, at + (length << shift));
		at += length << shift;
	}
}

static uint64_t lowest(struct hotspot *vm, const uint64_t *heaps, size_t n)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		uint64_t space = heaps[i] + vm->offset[VM_HEAP_MEMORY];
		uint64_t low = heaps[i] ? vm_pointer(vm, space, VM_SPACE_BOUNDARY_LOW) : 0;

		least = low ? min_u64(least, low) : least;
	}
	return least;
}

/* The list of heaps: GrowableArray<CodeHeap *>, or the one heap. */
static size_t heaps_of(struct hotspot *vm, uint64_t heaps[static VM_HEAPS_MAX])
{
	uint64_t list, data, n;

	heaps[0] = vm_pointer(vm, 0, VM_HEAP);
	if (heaps[0])
		return 1;
	list = vm_pointer(vm, 0, VM_HEAPS);
	data = list ? vm_pointer(vm, list, VM_LIST_DATA) : 0;
	n = data ? min_u64(vm_get(vm, list, VM_LIST_LEN), VM_HEAPS_MAX) : 0;
	return n && vm_read(vm, data, heaps, n * sizeof(*heaps)) ? n : 0;
}

static int read_all(struct reading *rd)
{
	uint64_t heaps[VM_HEAPS_MAX] = {0}, base;
	size_t n = heaps_of(rd->vm, heaps);
	int r;

	base = lowest(rd->vm, heaps, n);
	if (base == UINT64_MAX)
		return fail(-ENOTSUP);
	vm_cfi_init(&rd->cfi, base);
	rd->vm->n_blobs = 0;
	for (size_t i = 0; i < n; i++)
		if (heaps[i])
			add_heap(rd, heaps[i]);
	add_barrier(rd);
	if (rd->error < 0)
		return rd->error;
	if (!rd->code->n_blobs)
		return fail(-ENOTSUP);
	if (rd->vm->n_blobs)
		qsort(rd->vm->blobs, rd->vm->n_blobs, sizeof(*rd->vm->blobs), by_start);
	rd->code->places.n_blobs = (uint32_t)rd->code->n_blobs;
	r = vm_cfi_finish(&rd->cfi, rd->code->sections);
	rd->symbols.full = true;
	return r < 0 ? trace(r) : trace(uw_symbols_build(&rd->symbols, &rd->code->symbols));
}

int hotspot_code(struct hotspot *vm, struct uw_memory *memory, struct hotspot_code *ret_code)
{
	struct hotspot_code code = {.n_blobs = 0};
	struct reading rd = {.vm = vm, .code = &code, .code_left = VM_CODE_MAX};
	int r = vm_memory_begin(&vm->memory, memory, VM_PAGES);

	if (r >= 0)
		r = read_all(&rd);
	vm_memory_end(&vm->memory);
	vm_cfi_deinit(&rd.cfi);
	uw_symbols_builder_deinit(&rd.symbols);
	free(rd.bytes);
	if (r < 0) {
		hotspot_code_deinit(&code);
		return trace(r);
	}
	*ret_code = code;
	return 0;
}

void hotspot_code_deinit(struct hotspot_code *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(code->sections); i++)
		free(take(code->sections[i].data));
	code->symbols = uw_symbols_free(code->symbols);
}

/* ---- names of one address ---- */

static const struct vm_blob *blob_at(const struct hotspot *vm, uint64_t address)
{
	size_t low = bisect(i, vm->n_blobs, vm->blobs[i].start <= address);

	return low && address < vm->blobs[low - 1].end ? &vm->blobs[low - 1] : NULL;
}

int hotspot_lines(struct hotspot *vm, struct uw_memory *memory, uint64_t address,
		  void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	const struct vm_blob *blob = blob_at(vm, address);
	uint64_t methods[VM_INLINED_MAX] = {address};
	enum frame_kind kind = FRAME_JAVA_INTERPRETED;
	char name[NAME_ROOM];
	int r = vm_memory_begin(&vm->memory, memory, VM_LINE_PAGES), n_named = 0;
	size_t n = 1;

	if (r < 0)
		return trace(r);
	if (blob) {
		n = vm_inlined(vm, blob, address, methods, VM_INLINED_MAX);
		kind = vm_tier(vm, blob->blob);
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = vm_method_name(vm, methods[i], name, sizeof(name));

		if (!len)
			break;
		add(arg, &(struct uw_line){.function = name, .kind = kind});
		n_named++;
	}
	vm_memory_end(&vm->memory);
	return n_named;
}
