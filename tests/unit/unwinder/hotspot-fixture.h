/* hotspot-fixture.h - the memory of a process with a Java VM, as small as the reader needs it: the image of libjvm.so
 * with its exports, code heaps with compiled methods and the interpreter, and the structures behind their names. */
#pragma once

#include <elf.h>
#include <string.h>

#include "symbols/hotspot.h"

#define FAKE_BASE 0x7f0000000000ull
enum { FAKE_BYTES = 128 << 10, FAKE_HEAP = 64 << 10, FAKE_HEAP_BYTES = 32 << 10 };

struct fake_vm {
	struct uw_memory memory;
	uint8_t bytes[FAKE_BYTES];
	size_t used;
	uint64_t reads;
	uint64_t hash_at, symbols_at, strings_at; /* of the image */
	uint64_t version_at, heaps_at, heap_at, codelets_at, queue_at;
	uint64_t method, other_method;	 /* Main.run, java.util.HashMap.get */
	uint64_t compiled, compiled_end; /* code of Main.run by C2 */
	uint64_t native, runtime_code, adapter, interpreter, entry, entry_end;
	size_t code_at; /* the next blob */
	int jdk;
};

static inline ssize_t fake_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fake_vm *f = container_of(memory, struct fake_vm, memory);

	f->reads++;
	if (address < FAKE_BASE || address - FAKE_BASE >= FAKE_BYTES)
		return -1;
	len = min_u64(len, FAKE_BYTES - (address - FAKE_BASE));
	memcpy(to, f->bytes + (address - FAKE_BASE), len);
	return (ssize_t)len;
}

static inline void *fake_at(struct fake_vm *f, uint64_t address)
{
	return f->bytes + (address - FAKE_BASE);
}

static inline uint64_t fake_alloc(struct fake_vm *f, size_t len)
{
	uint64_t address = FAKE_BASE + f->used;

	f->used += (len + 7) & ~7ul;
	if (f->used > FAKE_HEAP)
		abort();
	return address;
}

static inline void fake_set(struct fake_vm *f, uint64_t address, uint64_t value, size_t width)
{
	memcpy(fake_at(f, address), &value, width);
}

static inline uint64_t fake_text(struct fake_vm *f, const char *text)
{
	uint64_t address = fake_alloc(f, strlen(text) + 1);

	memcpy(fake_at(f, address), text, strlen(text) + 1);
	return address;
}

/* ---- the layout: offsets of our own ---- */

struct fake_field {
	int from, to; /* JDKs */
	const char *type, *name, *type_of_field;
	uint64_t offset;
};

static const struct fake_field fake_fields[] = {
	{8, 11, "GenericGrowableArray", "_len", "int", 0},
	{17, 99, "GrowableArrayBase", "_len", "int", 0},
	{8, 99, "GrowableArray<int>", "_data", "int*", 8},
	{8, 99, "CodeHeap", "_memory", "VirtualSpace", 8},
	{8, 99, "CodeHeap", "_log2_segment_size", "int", 64},
	{8, 99, "VirtualSpace", "_low_boundary", "char*", 0},
	{8, 99, "VirtualSpace", "_high_boundary", "char*", 8},
	{8, 99, "VirtualSpace", "_low", "char*", 16},
	{8, 99, "VirtualSpace", "_high", "char*", 24},
	{8, 21, "HeapBlock::Header", "_length", "size_t", 0},
	{25, 99, "HeapBlock::Header", "_length", "uint32_t", 0},
	{8, 21, "HeapBlock::Header", "_used", "bool", 8},
	{25, 99, "HeapBlock::Header", "_used", "bool", 4},
	{8, 99, "CodeBlob", "_name", "const char*", 0},
	{8, 99, "CodeBlob", "_size", "int", 8},
	{8, 99, "CodeBlob", "_frame_size", "int", 12},
	{8, 21, "CodeBlob", "_frame_complete_offset", "int", 16},
	{25, 99, "CodeBlob", "_frame_complete_offset", "int16_t", 16},
	{11, 21, "CodeBlob", "_code_begin", "address", 24},
	{11, 21, "CodeBlob", "_code_end", "address", 32},
	{8, 8, "CodeBlob", "_code_offset", "int", 24},
	{8, 8, "CodeBlob", "_data_offset", "int", 28},
	{25, 99, "CodeBlob", "_code_offset", "int", 24},
	{25, 99, "CodeBlob", "_data_offset", "int", 28},
	{8, 8, "nmethod", "_method", "Method*", 40},
	{11, 21, "CompiledMethod", "_method", "Method*", 40},
	{25, 99, "nmethod", "_method", "Method*", 40},
	{8, 21, "nmethod", "_comp_level", "int", 48},
	{25, 99, "nmethod", "_comp_level", "CompLevel", 48},
	{8, 8, "nmethod", "_scopes_data_offset", "int", 64},
	{8, 21, "nmethod", "_scopes_pcs_offset", "int", 52},
	{8, 21, "nmethod", "_dependencies_offset", "int", 56},
	{8, 21, "nmethod", "_metadata_offset", "int", 60},
	{11, 21, "CompiledMethod", "_scopes_data_begin", "address", 64},
	{25, 99, "nmethod", "_scopes_pcs_offset", "int", 52},
	{25, 99, "nmethod", "_scopes_data_offset", "int", 56},
	{25, 99, "nmethod", "_immutable_data", "address", 64},
	{25, 99, "CodeBlob", "_relocation_size", "int", 60},
	{25, 99, "CodeBlob", "_mutable_data", "address", 72},
	{8, 99, "Method", "_constMethod", "ConstMethod*", 8},
	{8, 99, "ConstMethod", "_constants", "ConstantPool*", 8},
	{8, 99, "ConstMethod", "_name_index", "u2", 16},
	{8, 99, "ConstantPool", "_pool_holder", "InstanceKlass*", 8},
	{8, 99, "Klass", "_name", "Symbol*", 8},
	{8, 11, "Symbol", "_length", "unsigned short", 4},
	{17, 99, "Symbol", "_length", "u2", 4},
	{8, 99, "Symbol", "_body", "None", 6},
	{8, 99, "StubQueue", "_stub_buffer", "address", 8},
	{8, 99, "StubQueue", "_queue_begin", "int", 16},
	{8, 99, "StubQueue", "_queue_end", "int", 20},
	{8, 99, "InterpreterCodelet", "_description", "const char*", 0},
	{8, 99, "InterpreterCodelet", "_size", "int", 8},
};
enum { FAKE_POOL_BYTES = 24, FAKE_BLOCK_BYTES = 16, FAKE_CODELET_BYTES = 16, FAKE_BLOB_BYTES = 96 };

static inline void fake_entry(struct fake_vm *f, uint64_t at, const char *type, const char *field,
			      const char *of, bool is_static, uint64_t offset, uint64_t address)
{
	fake_set(f, at, fake_text(f, type), 8);
	fake_set(f, at + 8, fake_text(f, field), 8);
	fake_set(f, at + 16, fake_text(f, of), 8);
	fake_set(f, at + 24, is_static, 4);
	fake_set(f, at + 32, offset, 8);
	fake_set(f, at + 40, address, 8);
}

static inline uint64_t fake_structs(struct fake_vm *f)
{
	uint64_t at = fake_alloc(f, 48 * (ARRAY_SIZE(fake_fields) + 4)), first = at;

	for (size_t i = 0; i < ARRAY_SIZE(fake_fields); i++) {
		const struct fake_field *field = &fake_fields[i];

		if (f->jdk < field->from || f->jdk > field->to)
			continue;
		fake_entry(f, at, field->type, field->name, field->type_of_field, false,
			   field->offset, 0);
		at += 48;
	}
	if (f->jdk == 8)
		fake_entry(f, at, "CodeCache", "_heap", "CodeHeap*", true, 0, f->heaps_at);
	else
		fake_entry(f, at, "CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", true, 0,
			   f->heaps_at);
	fake_entry(f, at + 48, "AbstractInterpreter", "_code", "StubQueue*", true, 0,
		   f->codelets_at);
	f->version_at = fake_alloc(f, 8);
	fake_set(f, f->version_at, f->jdk == 8 ? 25 : (uint64_t)f->jdk, 4);
	fake_entry(f, at + 96, "Abstract_VM_Version", "_vm_major_version", "int", true, 0,
		   f->version_at);
	return first;
}

static inline uint64_t fake_types(struct fake_vm *f)
{
	static const struct {
		const char *name;
		uint64_t size;
	} types[] = {{"ConstantPool", FAKE_POOL_BYTES},
		     {"HeapBlock", FAKE_BLOCK_BYTES},
		     {"InterpreterCodelet", FAKE_CODELET_BYTES}};
	uint64_t at = fake_alloc(f, 40 * (ARRAY_SIZE(types) + 1));

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		fake_set(f, at + 40 * i, fake_text(f, types[i].name), 8);
		fake_set(f, at + 40 * i + 32, types[i].size, 8);
	}
	return at;
}

/* ---- libjvm.so ---- */

static inline uint32_t fake_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* [Ehdr][Phdr 2] at FAKE_BASE. */
static inline void fake_image(struct fake_vm *f)
{
	static const char *const names[] = {"gHotSpotVMStructs", "gHotSpotVMTypes"};
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
			   .e_phoff = sizeof(head),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 2};
	Elf64_Phdr load = {.p_type = PT_LOAD, .p_memsz = FAKE_BYTES};
	Elf64_Phdr dynamic = {.p_type = PT_DYNAMIC};
	uint64_t at = fake_alloc(f, sizeof(head) + 2 * sizeof(load)), entries;
	uint32_t hash[4] = {1, 1, 1, 0}, one = 1;

	f->hash_at = fake_alloc(f, 16 + 8 + 4 + 4 * ARRAY_SIZE(names));
	f->symbols_at = fake_alloc(f, sizeof(Elf64_Sym) * (1 + ARRAY_SIZE(names)));
	f->strings_at = fake_alloc(f, 64);
	entries = fake_alloc(f, 4 * sizeof(Elf64_Dyn));
	dynamic.p_vaddr = entries - FAKE_BASE;
	memcpy(fake_at(f, at), &head, sizeof(head));
	memcpy(fake_at(f, at + sizeof(head)), &load, sizeof(load));
	memcpy(fake_at(f, at + sizeof(head) + sizeof(load)), &dynamic, sizeof(dynamic));
	fake_set(f, entries, DT_GNU_HASH, 8);
	fake_set(f, entries + 8, f->hash_at, 8);
	fake_set(f, entries + 16, DT_SYMTAB, 8); /* not relocated: as musl leaves it */
	fake_set(f, entries + 24, f->symbols_at - FAKE_BASE, 8);
	fake_set(f, entries + 32, DT_STRTAB, 8);
	fake_set(f, entries + 40, f->strings_at, 8);
	memcpy(fake_at(f, f->hash_at), hash, sizeof(hash));
	memcpy(fake_at(f, f->hash_at + 24), &one, 4);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t variable = fake_alloc(f, 8), name = 1 + 24 * i;
		uint32_t h = fake_hash(names[i]) & ~1u;
		Elf64_Sym symbol = {.st_name = (uint32_t)name, .st_value = variable - FAKE_BASE};

		h |= i + 1 == ARRAY_SIZE(names);
		memcpy(fake_at(f, f->hash_at + 28 + 4 * i), &h, 4);
		memcpy(fake_at(f, f->symbols_at + sizeof(symbol) * (1 + i)), &symbol,
		       sizeof(symbol));
		memcpy(fake_at(f, f->strings_at + name), names[i], strlen(names[i]) + 1);
		fake_set(f, variable, i ? fake_types(f) : fake_structs(f), 8);
	}
}

/* ---- Java ---- */

static inline uint64_t fake_symbol(struct fake_vm *f, const char *text)
{
	uint64_t at = fake_alloc(f, 6 + strlen(text));

	fake_set(f, at + 4, strlen(text), 2);
	memcpy(fake_at(f, at + 6), text, strlen(text));
	return at;
}

static inline uint64_t fake_method(struct fake_vm *f, const char *klass, const char *name)
{
	uint64_t method = fake_alloc(f, 64), code = fake_alloc(f, 64), holder = fake_alloc(f, 64);
	uint64_t pool = fake_alloc(f, FAKE_POOL_BYTES + 8 * 4);

	fake_set(f, method + 8, code, 8);
	fake_set(f, code + 8, pool, 8);
	fake_set(f, code + 16, 3, 2);
	fake_set(f, pool + 8, holder, 8);
	fake_set(f, pool + FAKE_POOL_BYTES + 8 * 3, fake_symbol(f, name), 8);
	fake_set(f, holder + 8, fake_symbol(f, klass), 8);
	return method;
}

/* Adds a blob to the code heap, in segments of 128 bytes.  Returns the address of its code. */
static inline uint64_t fake_blob(struct fake_vm *f, const char *name, const void *code, size_t len,
				 uint32_t frame_words, uint32_t complete, uint64_t method,
				 int level)
{
	uint64_t block = FAKE_BASE + FAKE_HEAP + f->code_at, blob = block + FAKE_BLOCK_BYTES;
	uint64_t begin = blob + FAKE_BLOB_BYTES;
	size_t segments = (FAKE_BLOCK_BYTES + FAKE_BLOB_BYTES + len + 127) / 128;

	fake_set(f, block, segments, f->jdk < 25 ? 8 : 4);
	fake_set(f, block + (f->jdk < 25 ? 8 : 4), 1, 1);
	fake_set(f, blob, fake_text(f, name), 8);
	fake_set(f, blob + 8, FAKE_BLOB_BYTES + len, 4);
	fake_set(f, blob + 12, frame_words, 4);
	fake_set(f, blob + 16, complete, 2);
	if (f->jdk > 8 && f->jdk < 25) {
		fake_set(f, blob + 24, begin, 8);
		fake_set(f, blob + 32, begin + len, 8);
	} else {
		fake_set(f, blob + 24, FAKE_BLOB_BYTES, 4);
		fake_set(f, blob + 28, FAKE_BLOB_BYTES + len, 4);
	}
	fake_set(f, blob + 40, method, 8);
	fake_set(f, blob + 48, (uint64_t)level, f->jdk < 25 ? 4 : 1);
	memcpy(fake_at(f, begin), code, len);
	f->code_at += segments * 128;
	return begin;
}

/* By C2 of JDK 17: 16 bytes and a frame of 48. */
static const uint8_t fake_c2[] = {
	0x89, 0x84, 0x24, 0x00, 0xc0, 0xfe, 0xff, /*  0 mov %eax,-0x14000(%rsp) */
	0x55,					  /*  7 push %rbp */
	0x48, 0x83, 0xec, 0x20,			  /*  8 sub $0x20,%rsp */
	0x90, 0x90, 0x90, 0x90,			  /* 12 */
	0x48, 0x83, 0xc4, 0x20,			  /* 16 add $0x20,%rsp */
	0x5d,					  /* 20 pop %rbp */
	0x49, 0x3b, 0xa7, 0x40, 0x03, 0x00, 0x00, /* 21 cmp 0x340(%r15),%rsp */
	0x0f, 0x87, 0x01, 0x00, 0x00, 0x00,	  /* 28 ja */
	0xc3,					  /* 34 ret */
	0x90, 0x90, 0x90, 0x90, 0x90,		  /* 35 */
};
static const uint8_t fake_native[] = {
	0x55, 0x48, 0x8b, 0xec, /*  0 push %rbp; mov %rsp,%rbp */
	0x48, 0x83, 0xec, 0x10, /*  4 sub $0x10,%rsp */
	0x90, 0x90,		/*  8 */
	0xc9, 0xc3, 0x90, 0x90, /* 10 leave; ret */
};
static const uint8_t fake_entry_code[] = {
	0x48, 0x8b, 0x53, 0x08,			  /*  0 mov 8(%rbx),%rdx */
	0x58, 0x4c, 0x8d, 0x74, 0xcc, 0xf8,	  /*  4 pop %rax; lea -8(%rsp,%rcx,8),%r14 */
	0x50, 0x55, 0x48, 0x8b, 0xec, 0x41, 0x55, /* 10 push %rax, %rbp; mov; push %r13 */
	0x68, 0x00, 0x00, 0x00, 0x00,		  /* 17 push $0 */
	0x4c, 0x8b, 0x6b, 0x08, 0x53,		  /* 22 mov 8(%rbx),%r13; push %rbx */
	0x90, 0x90, 0x90, 0x90, 0x90,		  /* 27 */
};
static const uint8_t fake_return_code[] = {
	0x90, 0x90, 0xc9, 0x41, 0x5d, 0x48,
	0x8b, 0xe3, 0x41, 0xff, 0xe5, /* 2 leave; pop %r13; mov %rbx,%rsp; jmp *%r13 */
	0x90, 0x90, 0x90, 0x90, 0x90,
};

static const uint8_t fake_adapter[] = {
	0x48, 0x8b, 0x04, 0x24, 0x4c, 0x8b, 0xdc,	/*  0 mov (%rsp),%rax; mov %rsp,%r11 */
	0x48, 0x83, 0xe4, 0xf0,				/*  7 and $-16,%rsp */
	0x50, 0x49, 0x8b, 0xc3, 0x41, 0xff, 0xe3,	/* 11 push %rax; mov %r11,%rax; jmp *%r11 */
	0x4c, 0x8b, 0xec, 0x48, 0x8b, 0x04, 0x24, 0x90, /* 18 mov %rsp,%r13; mov (%rsp),%rax */
	0x49, 0x8b, 0xe5,				/* 26 mov %r13,%rsp */
	0x58, 0x4c, 0x8b, 0xec,				/* 29 pop %rax; mov %rsp,%r13 */
	0x48, 0x83, 0xec, 0x30, 0x48, 0x89, 0x04, 0x24, /* 33 sub $0x30,%rsp; mov %rax,(%rsp) */
	0xff, 0xe1,					/* 41 jmp *%rcx */
};

static inline void fake_codelet(struct fake_vm *f, uint64_t at, const char *text, const void *code,
				size_t len)
{
	fake_set(f, at, fake_text(f, text), 8);
	fake_set(f, at + 8, 32 + len, 4);
	memcpy(fake_at(f, at + 32), code, len);
}

static inline void fake_interpreter(struct fake_vm *f)
{
	uint8_t room[256] = {0};
	uint64_t at = fake_blob(f, "Interpreter", room, sizeof(room), 0, 0, 0, 0), queue;

	at = (at + 31) & ~31ull;
	f->interpreter = at;
	fake_codelet(f, at, "method entry point (kind = zerolocals)", fake_entry_code,
		     sizeof(fake_entry_code));
	f->entry = at + 32;
	f->entry_end = at + 64;
	fake_codelet(f, at + 64, "ireturn", fake_return_code, sizeof(fake_return_code));
	queue = f->queue_at = fake_alloc(f, 64);
	fake_set(f, f->codelets_at, queue, 8);
	fake_set(f, queue + 8, at, 8);
	fake_set(f, queue + 16, 0, 4);
	fake_set(f, queue + 20, 64 + 32 + sizeof(fake_return_code), 4);
}

static inline void fake_heap(struct fake_vm *f)
{
	uint64_t list = fake_alloc(f, 16), data = fake_alloc(f, 8);

	f->heap_at = fake_alloc(f, 80);
	fake_set(f, f->heaps_at, f->jdk == 8 ? f->heap_at : list, 8);
	fake_set(f, list, 1, 4);
	fake_set(f, list + 8, data, 8);
	fake_set(f, data, f->heap_at, 8);
	fake_set(f, f->heap_at + 8, FAKE_BASE + FAKE_HEAP, 8);
	fake_set(f, f->heap_at + 16, FAKE_BASE + FAKE_HEAP + 2 * FAKE_HEAP_BYTES, 8);
	fake_set(f, f->heap_at + 24, FAKE_BASE + FAKE_HEAP, 8);
	fake_set(f, f->heap_at + 32, FAKE_BASE + FAKE_HEAP + FAKE_HEAP_BYTES, 8);
	fake_set(f, f->heap_at + 64, 7, 4);
}

/* Main.run has inlined HashMap.get before offset 16.  Behind the heap:
 * [PcDesc 3][scopes: at 1 that of HashMap.get, at 5 that of Main.run][the methods] */
static inline void fake_scopes(struct fake_vm *f)
{
	const uint64_t blob = f->compiled - FAKE_BLOB_BYTES;
	const uint64_t at = FAKE_BASE + FAKE_HEAP + FAKE_HEAP_BYTES;
	const uint64_t scopes = at + 48, methods = at + 64;
	const int32_t descs[3][4] = {{-1, 0, 0, 0}, {16, 1, 0, 0}, {1 << 20, 0, 0, 0}};
	/* JDK 21 adds one to each byte. */
	uint8_t more = f->jdk > 17, stream[] = {0, 5, 2, 9, 0, 0, 1, 7};

	for (size_t i = 0; i < sizeof(stream); i++)
		stream[i] = (uint8_t)(stream[i] + more);
	memcpy(fake_at(f, at), descs, sizeof(descs));
	memcpy(fake_at(f, scopes), stream, sizeof(stream));
	fake_set(f, methods, f->method, 8);
	fake_set(f, methods + 8, f->other_method, 8);
	if (f->jdk < 25) {
		fake_set(f, blob + 52, at - blob, 4);
		fake_set(f, blob + 56, scopes - blob, 4);
		fake_set(f, blob + 60, methods - blob, 4);
		fake_set(f, blob + 64, f->jdk == 8 ? scopes - blob : scopes, 8);
	} else {
		fake_set(f, blob + 52, 0, 4);
		fake_set(f, blob + 56, scopes - at, 4);
		fake_set(f, blob + 60, 8, 4);
		fake_set(f, blob + 64, at, 8);
		fake_set(f, blob + 72, methods - 8, 8);
	}
}

static inline void fake_vm_init(struct fake_vm *f, int jdk)
{
	memset(f, 0, sizeof(*f));
	f->memory.read = fake_read;
	f->jdk = jdk;
	f->heaps_at = FAKE_BASE + FAKE_HEAP - 16;
	f->codelets_at = FAKE_BASE + FAKE_HEAP - 8;
	fake_image(f);
	fake_heap(f);
	f->method = fake_method(f, "Main", "run");
	f->other_method = fake_method(f, "java/util/HashMap", "get");
	fake_interpreter(f);
	f->compiled = fake_blob(f, "nmethod", fake_c2, sizeof(fake_c2), 6, 12, f->method, 4);
	f->compiled_end = f->compiled + sizeof(fake_c2);
	fake_scopes(f);
	(void)fake_blob(f, "nmethod", fake_c2, sizeof(fake_c2), 6, 12, f->other_method, 3);
	f->native = fake_blob(f, "native nmethod", fake_native, sizeof(fake_native), 4, 8,
			      f->other_method, 0);
	f->adapter =
		fake_blob(f, "I2C/C2I adapters", fake_adapter, sizeof(fake_adapter), 0, 0, 0, 0);
	f->runtime_code = fake_blob(f, "_new_instance_Java", fake_c2, sizeof(fake_c2), 6, 0, 0, 0);
}
