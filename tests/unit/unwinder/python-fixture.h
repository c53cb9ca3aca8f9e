/* python-fixture.h - the memory of a process with CPython, as small as the reader needs it: the exports of its library,
 * its evaluation loop, code objects and frames.
 *
 *   PY_BASE   image, exports, types      PY_LOOP   the loop's code      PY_HEAP   code objects, strings, frames */
#pragma once

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/python.h"

#define PY_BASE 0x7f0000000000ull
enum { PY_BYTES = 64 << 10, PY_LOOP_AT = 16 << 10, PY_LOOP_BYTES = 8 << 10, PY_HEAP_AT = 32 << 10 };
#define PY_LOOP (PY_BASE + PY_LOOP_AT)
#define PY_HEAP (PY_BASE + PY_HEAP_AT)

struct py_process {
	struct uw_memory memory;
	uint8_t bytes[PY_BYTES];
	size_t used, heap;
	uint64_t reads, range_reads, page_reads, version_at, code_type, unicode_type, type_type,
		none, trampoline;
	int minor;
};

static inline ssize_t py_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct py_process *p = container_of(memory, struct py_process, memory);

	p->reads++;
	if (address < PY_BASE || address - PY_BASE >= PY_BYTES)
		return -1;
	len = min_u64(len, PY_BYTES - (address - PY_BASE));
	memcpy(to, p->bytes + (address - PY_BASE), len);
	return (ssize_t)len;
}

static inline bool py_read_ranges(struct uw_memory *memory, const struct uw_range *ranges, size_t n,
				  void *to)
{
	struct py_process *p = container_of(memory, struct py_process, memory);
	uint8_t *at = to;

	p->range_reads += ranges[0].len != 4096;
	p->page_reads += ranges[0].len == 4096;
	for (size_t i = 0; i < n; at += ranges[i++].len) {
		memset(at, 0, ranges[i].len);
		if (ranges[i].address >= PY_BASE && ranges[i].address - PY_BASE < PY_BYTES)
			memcpy(at, p->bytes + (ranges[i].address - PY_BASE),
			       min_u64(ranges[i].len, PY_BYTES - (ranges[i].address - PY_BASE)));
	}
	return true;
}

static inline void py_set(struct py_process *p, uint64_t address, uint64_t value, size_t width)
{
	memcpy(p->bytes + (address - PY_BASE), &value, width);
}

static inline uint64_t py_alloc(struct py_process *p, size_t len)
{
	uint64_t at = PY_BASE + p->used;

	p->used += (len + 7) & ~7ul;
	if (p->used > PY_LOOP_AT)
		abort();
	return at;
}

static inline uint64_t py_heap(struct py_process *p, size_t len)
{
	uint64_t at = PY_HEAP + p->heap;

	p->heap += (len + 15) & ~15ul;
	if (PY_HEAP_AT + p->heap > PY_BYTES)
		abort();
	return at;
}

/* ---- the image ---- */

static inline uint32_t py_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static inline void py_exports(struct py_process *p)
{
	const struct {
		const char *name;
		uint64_t at, size;
	} names[] = {
		{"_PyEval_EvalFrameDefault", PY_LOOP, PY_LOOP_BYTES},
		{"Py_Version", p->version_at, 4},
		{"PyCode_Type", p->code_type, 8},
		{"PyUnicode_Type", p->unicode_type, 8},
		{"PyType_Type", p->type_type, 8},
		{"_Py_NoneStruct", p->none, 8},
		{"_PyRuntime", p->version_at, 8},
	};
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
			   .e_phoff = sizeof(head),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 2};
	Elf64_Phdr load = {.p_type = PT_LOAD, .p_memsz = PY_BYTES};
	Elf64_Phdr dynamic = {.p_type = PT_DYNAMIC};
	uint64_t hash = py_alloc(p, 28 + 4 * ARRAY_SIZE(names));
	uint64_t symbols = py_alloc(p, sizeof(Elf64_Sym) * (1 + ARRAY_SIZE(names)));
	uint64_t strings = py_alloc(p, 32 * (1 + ARRAY_SIZE(names)));
	const Elf64_Dyn entries[4] = {{.d_tag = DT_GNU_HASH, .d_un.d_ptr = hash},
				      {.d_tag = DT_SYMTAB, .d_un.d_ptr = symbols},
				      {.d_tag = DT_STRTAB, .d_un.d_ptr = strings}};
	uint64_t at = py_alloc(p, sizeof(entries));

	dynamic.p_vaddr = at - PY_BASE;
	memcpy(p->bytes, &head, sizeof(head));
	memcpy(p->bytes + sizeof(head), &load, sizeof(load));
	memcpy(p->bytes + sizeof(head) + sizeof(load), &dynamic, sizeof(dynamic));
	memcpy(p->bytes + (at - PY_BASE), entries, sizeof(entries));
	for (size_t i = 0; i < 3;
	     i++) /* one bucket, from symbol 1 on; one word of the bloom filter */
		py_set(p, hash + 4 * i, 1, 4);
	py_set(p, hash + 24, 1, 4);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Sym symbol = {.st_name = (uint32_t)(32 * (1 + i)),
					  .st_value = names[i].at - PY_BASE,
					  .st_size = names[i].size};

		py_set(p, hash + 28 + 4 * i,
		       (py_hash(names[i].name) & ~1u) | (i + 1 == ARRAY_SIZE(names)), 4);
		memcpy(p->bytes + (symbols - PY_BASE) + sizeof(symbol) * (1 + i), &symbol,
		       sizeof(symbol));
		memcpy(p->bytes + (strings - PY_BASE) + symbol.st_name, names[i].name,
		       strlen(names[i].name) + 1);
	}
}

/* A loop that has its frame in rbx and its next instruction in r12, once another store of the kind, and the instruction
 * in two slots meanwhile. */
static inline void py_loop(struct py_process *p)
{
	static const uint8_t store[] = {0x4c, 0x89, 0x63, 0x38},
			     other[] = {0x49, 0x89, 0x44, 0x24, 0x38},
			     load[] = {0x4c, 0x8b, 0x64, 0x24};

	memset(p->bytes + PY_LOOP_AT, 0x90, PY_LOOP_BYTES);
	for (size_t i = 0; i < 100; i++)
		memcpy(p->bytes + PY_LOOP_AT + 16 * i, store, sizeof(store));
	memcpy(p->bytes + PY_LOOP_AT + 8, other, sizeof(other));
	for (size_t i = 0; i < 20; i++) {
		uint8_t *at = p->bytes + PY_LOOP_AT + 0x1000 + 16 * i;

		memcpy(at, load, sizeof(load));
		at[4] = i < 12 ? 0x10 : 0x08;
	}
}

/* ---- objects ---- */

/* A str of characters of 1 byte, or of 2 where @wide. */
static inline uint64_t py_string(struct py_process *p, const char *text, bool wide)
{
	size_t ascii = p->minor == 11 ? 48 : 40, compact = p->minor == 11 ? 72 : 56,
	       n = strlen(text);
	uint64_t at = py_heap(p, compact + 2 * n);

	py_set(p, at + 8, p->unicode_type, 8);
	py_set(p, at + 16, n, 8);
	py_set(p, at + 24, py_hash(text), 8);
	py_set(p, at + 32, wide ? 2 << 2 | 1 << 5 : 1 << 2 | 1 << 5 | 1 << 6, 4);
	for (size_t i = 0; i < n; i++)
		py_set(p, at + (wide ? compact + 2 * i : ascii + i),
		       wide ? (uint8_t)text[i] + 0x300u : (uint8_t)text[i], wide ? 2 : 1);
	return at;
}

static inline uint64_t py_bytecode(const struct py_process *p, uint64_t code)
{
	return code + (p->minor == 11 ? 184 : p->minor == 12 ? 192 : p->minor == 13 ? 200 : 208);
}

/* A code object with 32 instructions. */
static inline uint64_t py_code(struct py_process *p, uint64_t qualname, uint64_t filename,
			       uint32_t line)
{
	uint64_t at = py_heap(p, 272);

	py_set(p, at + 8, p->code_type, 8);
	py_set(p, at + 16, 32, 8);
	py_set(p, at + 112, filename, 8);
	py_set(p, at + 128, qualname, 8);
	py_set(p, at + (p->minor == 11 ? 72 : 68), line, 4);
	return at;
}

static inline uint64_t py_word(const struct py_process *p, uint64_t address)
{
	uint64_t word;

	memcpy(&word, p->bytes + (address - PY_BASE), sizeof(word));
	return word;
}

static inline uint64_t py_sign_number(const struct py_process *p, uint64_t code)
{
	uint64_t name = py_word(p, code + 128), length = py_word(p, name + 16);
	uint64_t chars = name + (p->minor == 11 ? 48 : 40);
	bool ascii = py_word(p, name + 32) & 1 << 6;
	struct python_content content = {
		.units = py_word(p, code + 16),
		.line = (uint32_t)py_word(p, code + (p->minor == 11 ? 72 : 68)),
		.filename = py_word(p, code + 112),
		.length = length,
	};

	if (ascii)
		memcpy(&content.head, p->bytes + (chars - PY_BASE), min_u64(length, 8));
	if (ascii && length > 8)
		content.tail = py_word(p, chars + length - 8);
	return python_sign(&content);
}

static inline uint64_t py_sign(const struct py_process *p, uint64_t code)
{
	return uw_python_sign(py_sign_number(p, code));
}

static inline size_t py_owner(const struct py_process *p)
{
	return p->minor == 11 ? 69 : p->minor < 14 ? 70 : 74;
}

/* Writes a frame of 80 bytes to @to.  @owner: 3 is the C stack's; @entry: 3.11's is_entry. */
static inline void py_frame_put(const struct py_process *p, uint8_t to[static 80], uint64_t code,
				uint64_t previous, uint8_t owner, bool entry)
{
	bool old = p->minor == 11;

	memset(to, 0, 80);
	code |= p->minor >= 14; /* a tag */
	memcpy(to + (old ? 32 : 0), &code, 8);
	memcpy(to + (old ? 48 : 8), &previous, 8);
	to[py_owner(p)] = owner;
	to[64] = p->minor >= 14; /* it has called another one */
	if (old)
		to[68] = entry;
}

static inline uint64_t py_frame(struct py_process *p, uint64_t code, uint64_t previous, bool entry)
{
	uint64_t at = py_heap(p, 96); /* (not one directly behind the other: test-python-calls.c) */

	py_frame_put(p, p->bytes + (at - PY_BASE), code, previous, 0, entry);
	return at;
}

/* The same, of a thread's outermost function: behind the head of a piece of CPython's stack. */
static inline uint64_t py_root_frame(struct py_process *p, uint64_t code, uint64_t previous)
{
	p->heap = ((p->heap + 4095) & ~4095ul) + 32;
	return py_frame(p, code, previous, true);
}

static inline void py_process_init(struct py_process *p, int minor)
{
	*p = (struct py_process){.memory = {.read = py_read, .read_ranges = py_read_ranges},
				 .minor = minor};
	p->used = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
	p->version_at = py_alloc(p, 8);
	p->code_type = py_alloc(p, 32);
	p->unicode_type = py_alloc(p, 32);
	p->type_type = py_alloc(p, 32);
	p->none = py_alloc(p, 16);
	py_set(p, p->version_at, 3u << 24 | (uint32_t)minor << 16 | 7 << 8 | 0xf0, 4);
	py_set(p, p->code_type + 8, p->type_type, 8);
	py_exports(p);
	py_loop(p);
}

/* ---- names ---- */

struct noted {
	char name[64], file[64];
	uint32_t line;
};

static inline void note(void *arg, const struct uw_line *line)
{
	struct noted *s = arg;

	if (line->kind != FRAME_PYTHON)
		abort();
	(void)snprintf(s->name, sizeof(s->name), "%s", line->function);
	(void)snprintf(s->file, sizeof(s->file), "%s", line->file ? line->file : "");
	s->line = line->line;
}
