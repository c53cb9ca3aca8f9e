/* script-fixture.h - the memory of a process with PHP or Ruby, as small as the reader needs it: the exports of its program,
 * its evaluation loop, functions and frames.
 *
 *   SC_BASE   image, exports, read-only data      SC_LOOP   the loop's code      SC_HEAP   functions, strings, frames */
#pragma once

#include <elf.h>
#include <string.h>

#include "symbols/php.h"
#include "symbols/ruby.h"

#define SC_BASE 0x7f0000000000ull
enum { SC_BYTES = 64 << 10, SC_LOOP_AT = 16 << 10, SC_LOOP_BYTES = 9 << 10, SC_HEAP_AT = 32 << 10 };
#define SC_LOOP (SC_BASE + SC_LOOP_AT)
#define SC_HEAP (SC_BASE + SC_HEAP_AT)
enum { SC_NAME_ROOM = 96 /* of an export */ };
enum { SC_SAVED_FRAME = 0x48, SC_SAVED_NEXT = 0x40, SC_CODE = 32 /* instructions of a function */ };

struct sc_process {
	struct uw_memory memory;
	uint8_t bytes[SC_BYTES];
	size_t used, heap;
	uint64_t reads, globals, version_at, symbols_at;
	bool ruby, sizes; /* sizes: Ruby 3.2's objects */
};

static inline ssize_t sc_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct sc_process *p = container_of(memory, struct sc_process, memory);

	p->reads++;
	if (address < SC_BASE || address - SC_BASE >= SC_BYTES)
		return -1;
	len = min_u64(len, SC_BYTES - (address - SC_BASE));
	memcpy(to, p->bytes + (address - SC_BASE), len);
	return (ssize_t)len;
}

static inline void sc_set(struct sc_process *p, uint64_t address, uint64_t value, size_t width)
{
	memcpy(p->bytes + (address - SC_BASE), &value, width);
}

static inline uint64_t sc_alloc(struct sc_process *p, size_t len)
{
	uint64_t at = SC_BASE + p->used;

	p->used += (len + 7) & ~7ul;
	if (p->used > SC_LOOP_AT)
		abort();
	return at;
}

static inline uint64_t sc_heap(struct sc_process *p, size_t len)
{
	uint64_t at = SC_HEAP + p->heap;

	p->heap += (len + 15) & ~15ul;
	if (SC_HEAP_AT + p->heap > SC_BYTES)
		abort();
	return at;
}

/* ---- the image ---- */

static inline uint32_t sc_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

struct sc_name {
	const char *name;
	uint64_t at, size;
};

/* .gnu.hash with one bucket, from symbol 1 on, and one word of the bloom filter.  Returns .dynamic. */
static inline uint64_t sc_exports(struct sc_process *p, const struct sc_name *names, size_t n)
{
	uint64_t hash = sc_alloc(p, 28 + 4 * n), symbols = sc_alloc(p, sizeof(Elf64_Sym) * (1 + n));
	uint64_t strings = sc_alloc(p, SC_NAME_ROOM * (1 + n));
	const Elf64_Dyn entries[4] = {{.d_tag = DT_GNU_HASH, .d_un.d_ptr = hash},
				      {.d_tag = DT_SYMTAB, .d_un.d_ptr = symbols},
				      {.d_tag = DT_STRTAB, .d_un.d_ptr = strings}};
	uint64_t at = sc_alloc(p, sizeof(entries));

	memcpy(p->bytes + (at - SC_BASE), entries, sizeof(entries));
	for (size_t i = 0; i < 3; i++)
		sc_set(p, hash + 4 * i, 1, 4);
	sc_set(p, hash + 24, 1, 4);
	for (size_t i = 0; i < n; i++) {
		const Elf64_Sym symbol = {.st_name = (uint32_t)(SC_NAME_ROOM * (1 + i)),
					  .st_value = names[i].at - SC_BASE,
					  .st_size = names[i].size};

		sc_set(p, hash + 28 + 4 * i, (sc_hash(names[i].name) & ~1u) | (i + 1 == n), 4);
		memcpy(p->bytes + (symbols - SC_BASE) + sizeof(symbol) * (1 + i), &symbol,
		       sizeof(symbol));
		memcpy(p->bytes + (strings - SC_BASE) + symbol.st_name, names[i].name,
		       strlen(names[i].name) + 1);
	}
	return at;
}

/* The segments: all; read-only data and data that is written, one page each, from @data on; .eh_frame_hdr; .dynamic. */
static inline void sc_head(struct sc_process *p, uint64_t constants, uint64_t data, uint64_t hdr,
			   uint64_t dynamic)
{
	const Elf64_Phdr segments[5] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = SC_BYTES},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_vaddr = constants - SC_BASE,
		 .p_filesz = 64,
		 .p_memsz = 64},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W,
		 .p_vaddr = data - SC_BASE,
		 .p_memsz = 64},
		{.p_type = PT_GNU_EH_FRAME, .p_vaddr = hdr - SC_BASE},
		{.p_type = PT_DYNAMIC, .p_vaddr = dynamic - SC_BASE},
	};
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_phoff = sizeof(head),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = 5};

	memcpy(p->bytes, &head, sizeof(head));
	memcpy(p->bytes + sizeof(head), segments, sizeof(segments));
}

static inline void sc_init(struct sc_process *p, bool ruby)
{
	*p = (struct sc_process){.memory = {.read = sc_read}, .ruby = ruby};
	p->used = sizeof(Elf64_Ehdr) + 5 * sizeof(Elf64_Phdr);
	memset(p->bytes + SC_LOOP_AT, 0x90, SC_LOOP_BYTES);
}

static inline void sc_php_init(struct sc_process *p)
{
	static const uint8_t prologue[] = {0x4c, 0x89, 0x74, 0x24, SC_SAVED_FRAME, 0x49, 0x89, 0xfe,
					   0x4c, 0x89, 0x7c, 0x24, SC_SAVED_NEXT};

	sc_init(p, false);
	p->globals = sc_alloc(p, 512);
	p->version_at = sc_alloc(p, 64);
	memcpy(p->bytes + (p->version_at - SC_BASE), "xAPI420220829,NTS\0API20220829,NTS", 33);
	memcpy(p->bytes + SC_LOOP_AT + 10, prologue, sizeof(prologue));
	sc_head(p, p->version_at, p->globals, p->globals,
		sc_exports(p,
			   (const struct sc_name[]){{"execute_ex", SC_LOOP, SC_LOOP_BYTES},
						    {"executor_globals", p->globals, 512}},
			   2));
}

static inline void sc_ruby_init(struct sc_process *p)
{
	static const uint8_t store[] = {0x4d, 0x89, 0x37};
	uint64_t hdr, fde;

	sc_init(p, true);
	p->version_at = sc_alloc(p, 8);
	memcpy(p->bytes + (p->version_at - SC_BASE), "3.1.7", 6);
	p->symbols_at = sc_alloc(p, 64);
	hdr = sc_alloc(p, 12 + 3 * 8);
	fde = sc_alloc(p, 16);
	sc_set(p, hdr, 0x3b031b01, 4);
	sc_set(p, hdr + 8, 3, 4);
	sc_set(p, hdr + 12, (uint32_t)(SC_BASE - hdr), 4);
	sc_set(p, hdr + 20, (uint32_t)(SC_LOOP - hdr), 4);
	sc_set(p, hdr + 24, (uint32_t)(fde - hdr), 4);
	sc_set(p, hdr + 28, (uint32_t)(SC_LOOP + SC_LOOP_BYTES - hdr), 4);
	sc_set(p, fde + 12, SC_LOOP_BYTES, 4);
	for (size_t i = 0; i < 64; i++)
		memcpy(p->bytes + SC_LOOP_AT + 16 * i, store, sizeof(store));
	sc_head(p, p->version_at, p->symbols_at, hdr,
		sc_exports(p,
			   (const struct sc_name[]){{"ruby_version", p->version_at, 6},
						    {"ruby_vm_at_exit", SC_LOOP + 16, 64}},
			   2));
}

/* ---- functions: each has SC_CODE instructions; that with number i is in line @line + i / 2 ---- */

static inline uint64_t sc_string(struct sc_process *p, const char *text)
{
	size_t len = strlen(text);
	uint64_t at = sc_heap(p, 24 + len + 1);

	if (p->ruby && !p->sizes) { /* embedded: T_STRING, its length in the flags */
		sc_set(p, at, 5 | len << 14, 8);
		memcpy(p->bytes + (at - SC_BASE) + 16, text, len);
		return at;
	}
	if (p->ruby)
		sc_set(p, at, 5, 8);
	sc_set(p, at + 16, len, 8);
	memcpy(p->bytes + (at - SC_BASE) + 24, text, len);
	return at;
}

static inline uint64_t sc_php_function(struct sc_process *p, uint64_t class, const char *name,
				       uint64_t file, uint32_t line)
{
	uint64_t at = sc_heap(p, 240), code = sc_heap(p, 32 * SC_CODE);

	sc_set(p, at, 2, 1);
	sc_set(p, at + 8, name ? sc_string(p, name) : 0, 8);
	sc_set(p, at + 16, class, 8);
	sc_set(p, at + 80, SC_CODE, 4);
	sc_set(p, at + 88, code, 8);
	sc_set(p, at + 152, file, 8);
	sc_set(p, at + 160, line, 4);
	for (uint32_t i = 0; i < SC_CODE; i++)
		sc_set(p, code + 32ull * i + 24, line + i / 2, 4);
	return at;
}

static inline uint64_t sc_php_internal(struct sc_process *p, const char *name, uint64_t handler)
{
	uint64_t at = sc_heap(p, 160);

	sc_set(p, at, 1, 1);
	sc_set(p, at + 8, sc_string(p, name), 8);
	sc_set(p, at + 72, handler, 8);
	return at;
}

/* The lines: places 0, 2, 4 .. have information, as bits from place 54 on, as numbers before. */
static inline uint64_t sc_ruby_function(struct sc_process *p, const char *label, uint64_t file,
					uint32_t line, uint32_t len)
{
	uint64_t at = sc_heap(p, 40), body = sc_heap(p, 160),
		 lines = sc_heap(p, 12ul * (len / 2 + 1));
	uint64_t places = sc_heap(p, 48 + 80), word;

	sc_set(p, at, 0x1a | 7 << 12, 8);
	sc_set(p, at + 16, body, 8);
	sc_set(p, body + 4, len, 4);
	sc_set(p, body + 8, sc_heap(p, 8ul * len), 8);
	sc_set(p, body + 64, file, 8);
	sc_set(p, body + 80, sc_string(p, label), 8);
	sc_set(p, body + 88, p->sizes ? line : line << 1 | 1, 8);
	sc_set(p, body + (p->sizes ? 112 : 120), lines, 8);
	sc_set(p, body + (p->sizes ? 128 : 136), len / 2, 4);
	sc_set(p, body + (p->sizes ? 136 : 144), places, 8);
	for (uint32_t i = 0; i < len / 2; i++)
		sc_set(p, lines + 12ull * i, line + i, 4);
	for (uint64_t k = 0; k < 6; k++) {
		word = 0;
		for (uint64_t j = 0; j < 9; j++)
			word |= ((9 * k + j) / 2 + 1) << (7 * j);
		sc_set(p, places + 8 * k, word, 8);
	}
	sc_set(p, places + 48, 27, 4);
	word = 0;
	for (uint64_t k = 1; k < 8; k++)
		word |= 32 * k << (9 * (k - 1));
	sc_set(p, places + 56, word, 8);
	for (uint64_t k = 0; k < 8; k++)
		sc_set(p, places + 64 + 8 * k, 0x5555555555555555, 8);
	return at;
}

/* A method entry: its definition is of C code (rb_method_type_t 1) at @handler, or of an iseq (0). */
static inline uint64_t sc_ruby_method(struct sc_process *p, uint32_t type, uint64_t handler)
{
	uint64_t at = sc_heap(p, 40), definition = sc_heap(p, 48);

	sc_set(p, at, 0x1a | 6 << 12, 8);
	sc_set(p, at + 16, definition, 8);
	sc_set(p, definition, type, 4);
	sc_set(p, definition + 8, handler, 8);
	return at;
}
static inline uint64_t sc_code(const struct sc_process *p, uint64_t function)
{
	uint64_t at = function + 88, code;

	if (p->ruby) {
		memcpy(&at, p->bytes + (function + 16 - SC_BASE), 8);
		at += 8;
	}
	if (at - SC_BASE > SC_BYTES - 8) /* a fuzzer has changed the function */
		return 0;
	memcpy(&code, p->bytes + (at - SC_BASE), 8);
	return code;
}

/* ---- frames ---- */

static inline uint64_t sc_php_frame(struct sc_process *p, uint64_t function, uint64_t instruction,
				    uint64_t previous, bool last)
{
	uint64_t at = sc_heap(p, 80);

	sc_set(p, at, instruction, 8);
	sc_set(p, at + 24, function, 8);
	sc_set(p, at + 40, last ? 1 << 17 : 0, 4);
	sc_set(p, at + 48, previous, 8);
	return at;
}

/* @n frames, innermost first: room for them; the environment of each is at its frame + 1024. */
static inline uint64_t sc_ruby_frames(struct sc_process *p)
{
	return sc_heap(p, 2048);
}

static inline void sc_ruby_frame(struct sc_process *p, uint64_t at, uint64_t function,
				 uint64_t instruction, uint64_t flags)
{
	sc_set(p, at, instruction, 8);
	sc_set(p, at + 16, function, 8);
	sc_set(p, at + 32, at + 1024, 8);
	sc_set(p, at + 1024, flags, 8);
}

/* The layout of the interpreter with its image at @image. */
static inline int sc_find(struct sc_process *p, bool ruby, uint64_t image, struct uw_script *script)
{
	struct vm_memory m;
	int r = vm_memory_begin(&m, &p->memory, 8);

	if (r < 0)
		return r;
	r = ruby ? ruby_new(&m, image, script) : php_new(&m, image, script);
	vm_memory_end(&m);
	return r;
}
