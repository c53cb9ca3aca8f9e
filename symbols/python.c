/* python.c - see python.h.
 *
 * CPython exports no description of its structures before 3.13, and the one of 3.13 lacks the strings; so the layouts are
 * in a table by version (Include/internal/pycore_frame.h, Include/cpython/code.h and unicodeobject.h of each).  Python
 * keeps them within a minor version.
 *
 * ---- where the evaluation loop has its frame ----
 *
 * The loop notes the place of each instruction in its frame before it runs it:
 *
 *     frame->prev_instr = next_instr++        from 3.13 on: frame->instr_ptr = next_instr       a store to [frame + 56]
 *
 * Compilers keep both in registers throughout, so the most frequent `mov %X, 56(%Y)` of the function shows which: 183 to 209
 * of them, against 3 of any other.  The register of the instruction may have something else during a call; then the
 * instruction is in a slot of the loop's own stack, from which `mov M(%rsp), %X` brings it back. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/python.h"
#include "symbols/vm-memory.h"

enum {
	PAGES = 64,
	EVAL_MIN = 4096,
	EVAL_MAX = 1 << 20, /* bytes of the evaluation loop */
	NAME_CHARS = 512,   /* of a name or a path */
	NAME_ROOM = 4 * NAME_CHARS + 1,
	TYPE_OF = 8,   /* PyObject.ob_type; elsewhere without a GIL */
	UNITS_OF = 16, /* PyVarObject.ob_size */
	STORES_MIN = 32,
	LOADS_MIN = 8,
	FRAME_INSTR = 56,
};

#define OFFSETS_FROM_12(owner_at, bytecode_at)                                            \
	{                                                                                 \
		.code = 0, .previous = 8, .owner = (owner_at), .bytecode = (bytecode_at), \
		.filename = 112, .qualname = 128, .line = 68, .stack = 64, .locals = 72,  \
		.frame_words = (owner_at) < 72 ? 9 : 10                                   \
	}

/* Offsets. */
static const struct version {
	uint32_t version;
	struct uw_python_offsets offsets;
	uint16_t ascii, compact;	  /* sizes of PyASCIIObject, PyCompactUnicodeObject */
	uint16_t main_interpreter;	  /* in _PyRuntime; 0: there are debug offsets */
	struct uw_python_threads threads; /* without the address; of debug offsets, which words */
} versions[] = {
	{
		.version = 0x30b,
		.offsets = {.code = 32,
			    .previous = 48,
			    .owner = 69,
			    .is_entry = 68,
			    .bytecode = 184,
			    .filename = 112,
			    .qualname = 128,
			    .line = 72,
			    .stack = 68,
			    .locals = 76,
			    .frame_words = 9},
		.ascii = 48,
		.compact = 72,
		.main_interpreter = 48,
		.threads = {.threads = 16, .next = 8, .native = 160, .frame = 56},
	},
	{
		.version = 0x30c,
		.offsets = OFFSETS_FROM_12(70, 192),
		.ascii = 40,
		.compact = 56,
		.main_interpreter = 48,
		.threads = {.threads = 72, .next = 8, .native = 144, .frame = 56},
	},
	{
		.version = 0x30d,
		.offsets = OFFSETS_FROM_12(70, 200),
		.ascii = 40,
		.compact = 56,
		.threads = {.threads = 9, .next = 21, .native = 25, .frame = 23},
	},
	{
		.version = 0x30e,
		.offsets = OFFSETS_FROM_12(74, 208),
		.ascii = 40,
		.compact = 56,
		.threads = {.threads = 9, .next = 24, .native = 28, .frame = 26},
	},
	{
		.version = 0x30f,
		.offsets = OFFSETS_FROM_12(74, 208),
		.ascii = 40,
		.compact = 56,
		.threads = {.threads = 9, .next = 24, .native = 31, .frame = 26},
	},
};

struct python {
	struct uw_python layout;
	const struct version *version;
	uint64_t unicode_type;
	struct vm_memory memory;
};

/* ---- the evaluation loop ---- */

/* x86-64's `mov %reg, disp8(%base)` of 8 bytes: REX.W with R and B, 89, ModRM, SIB where the base is r12.  Numbers of the
 * instruction set. */
static bool store_of(const uint8_t *p, unsigned *ret_base, unsigned *ret_reg)
{
	unsigned base = p[2] & 7;
	bool sib = base == 4;

	if ((p[0] & 0xfa) != 0x48 || p[1] != 0x89 || p[2] >> 6 != 1 || p[3 + sib] != FRAME_INSTR ||
	    (sib && p[3] != 0x24))
		return false;
	*ret_base = base | (p[0] & 1u) << 3;
	*ret_reg = (p[2] >> 3 & 7u) | (p[0] & 4u) << 1;
	return *ret_base != 4; /* rsp */
}

/* DWARF's number of the instruction set's. */
static uint8_t dwarf_of(unsigned reg)
{
	static const uint8_t low[8] = {0, 2, 1, 3, 7, 6, 4, 5};

	return reg < 8 ? low[reg] : (uint8_t)reg;
}

/* The slots that register @reg (a number of the instruction set) is loaded from most. */
static void find_slots(struct uw_python *layout, const uint8_t *code, size_t len, unsigned reg)
{
	uint32_t loads[128 / 8] = {0};

	for (size_t i = 0; i + 5 <= len; i++)
		if (uw_python_load(code + i, reg) >= 0)
			loads[uw_python_load(code + i, reg) / 8]++;
	while (layout->n_slots < UW_PYTHON_SLOTS) {
		size_t best = 0;

		for (size_t i = 1; i < ARRAY_SIZE(loads); i++)
			best = loads[i] > loads[best] ? i : best;
		if (loads[best] < LOADS_MIN)
			return;
		loads[best] = 0;
		layout->slots[layout->n_slots++] = (uint8_t)(8 * best);
	}
}

static void find_registers(struct uw_python *layout, const uint8_t *code, size_t len)
{
	uint32_t bases[16] = {0}, pairs[16][16] = {{0}}, second = 0;
	unsigned base, reg, best = 0, best_reg = 0;

	for (size_t i = 0; i + 5 <= len; i++) {
		if (!store_of(code + i, &base, &reg))
			continue;
		bases[base]++;
		pairs[base][reg]++;
	}
	for (base = 1; base < 16; base++)
		best = bases[base] > bases[best] ? base : best;
	for (base = 0; base < 16; base++)
		second = base != best && bases[base] > second ? bases[base] : second;
	for (reg = 1; reg < 16; reg++)
		best_reg = pairs[best][reg] > pairs[best][best_reg] ? reg : best_reg;
	if (bases[best] < STORES_MIN || bases[best] / 4 < second)
		return;
	layout->has_frame = true;
	layout->frame = dwarf_of(best);
	layout->has_next = pairs[best][best_reg] >= bases[best] / 4 * 3;
	layout->next = dwarf_of(best_reg);
	if (layout->has_next)
		find_slots(layout, code, len, best_reg);
}

static int read_loop(struct python *py)
{
	struct uw_python *layout = &py->layout;
	size_t len = layout->eval_end - layout->eval_start;
	_cleanup_(freep) uint8_t *code = malloc(len);

	if (!code)
		return fail(-ENOMEM);
	if (UW_ARCH_HOST == UW_ARCH_X86_64 &&
	    vm_memory_read_once(&py->memory, layout->eval_start, code, len))
		find_registers(layout, code, len);
	return 0;
}

/* ---- the threads ---- */

/* From 3.13 on _PyRuntime begins with offsets for debuggers, in words (struct _Py_DebugOffsets): "xdebugpy", version,
 * free_threaded, then of the runtime state 3 .., of an interpreter 6 .., of a thread state. */
enum { DEBUG_INTERPRETERS = 5, DEBUG_WORDS = 32 };

static void find_threads(struct python *py, uint64_t runtime)
{
	const struct version *v = py->version;
	struct uw_python_threads *t = &py->layout.threads;
	uint64_t words[DEBUG_WORDS];

	if (!runtime || !v)
		return;
	if (v->main_interpreter) {
		*t = v->threads;
		t->interpreter = runtime + v->main_interpreter;
		return;
	}
	if (!vm_memory_read(&py->memory, runtime, words, sizeof(words)) ||
	    memcmp(words, "xdebugpy", 8) != 0)
		return;
	*t = v->threads;
	if ((words[DEBUG_INTERPRETERS] | words[t->threads] | words[t->next] | words[t->native] |
	     words[t->frame]) > UINT16_MAX) {
		*t = (struct uw_python_threads){0};
		return;
	}
	/* interpreters: head, main */
	*t = (struct uw_python_threads){
		.interpreter = runtime + words[DEBUG_INTERPRETERS] + 8,
		.threads = (uint16_t)words[t->threads],
		.next = (uint16_t)words[t->next],
		.native = (uint16_t)words[t->native],
		.frame = (uint16_t)words[t->frame],
	};
}

/* ---- the exports ---- */

static int read_exports(struct python *py, uint64_t image)
{
	struct uw_python *layout = &py->layout;
	uint64_t version, size = 0, type_type;
	struct vm_memory *m = &py->memory;
	struct vm_exports x;
	uint32_t hex = 0;

	if (!vm_exports_of(m, image, &x))
		return fail(-ENOEXEC);
	layout->eval_start = vm_exports_find(m, &x, "_PyEval_EvalFrameDefault", &size);
	if (!layout->eval_start)
		return fail(-ENOEXEC);
	version = vm_exports_find(m, &x, "Py_Version", NULL);
	if (!version || !vm_memory_read(m, version, &hex, sizeof(hex)))
		return fail(-ENOTSUP); /* before 3.11 */
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i].version == hex >> 16)
			py->version = &versions[i];
	layout->code_type = vm_exports_find(m, &x, "PyCode_Type", NULL);
	layout->none = vm_exports_find(m, &x, "_Py_NoneStruct", NULL);
	find_threads(py, vm_exports_find(m, &x, "_PyRuntime", NULL));
	py->unicode_type = vm_exports_find(m, &x, "PyUnicode_Type", NULL);
	type_type = vm_exports_find(m, &x, "PyType_Type", NULL);
	if (!py->version || size < EVAL_MIN || size > EVAL_MAX || !layout->code_type ||
	    !layout->none || !py->unicode_type || !type_type)
		return fail(-ENOTSUP);
	layout->eval_end = layout->eval_start + size;
	layout->version = py->version->version;
	layout->offsets = py->version->offsets;
	/* Before Py_Initialize() the types of types are not set; a build without a GIL has other offsets. */
	if (vm_word(&py->memory, layout->code_type + TYPE_OF) != type_type)
		return fail(vm_word(&py->memory, layout->code_type + TYPE_OF) ? -ENOTSUP : -EAGAIN);
	return read_loop(py);
}

int python_new(struct uw_memory *memory, uint64_t image, struct python **ret_python)
{
	struct python *py = calloc(1, sizeof(*py));
	int r = py ? vm_memory_begin(&py->memory, memory, PAGES) : fail(-ENOMEM);

	if (r >= 0)
		r = read_exports(py, image);
	if (r < 0) {
		(void)python_free(py);
		return trace(r);
	}
	vm_memory_end(&py->memory);
	*ret_python = py;
	return 0;
}

struct python *python_free(struct python *py)
{
	if (py)
		vm_memory_end(&py->memory);
	free(py);
	return NULL;
}

const struct uw_python *python_layout(const struct python *py)
{
	return &py->layout;
}

/* ---- names ---- */

/* UTF-8 of one character; controls and surrogates are replaced. */
static size_t put_char(char *to, uint32_t c)
{
	if (c < 0x20 || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		c = '?';
	return utf8_encode(c, to);
}

/* A str in its compact form: [ob_refcnt][ob_type][length][hash][state u32] .. [characters of 1, 2 or 4 bytes].
 * state: interned:2 kind:3 compact:1 ascii:1. */
static bool string_text(struct python *py, uint64_t string, char to[static NAME_ROOM])
{
	uint64_t head[5], width, n, at;
	uint32_t state;

	if (!vm_memory_read(&py->memory, string, head, sizeof(head)) || head[1] != py->unicode_type)
		return false;
	state = (uint32_t)head[4];
	width = state >> 2 & 7;
	n = min_u64(head[2], NAME_CHARS);
	if (!(state >> 5 & 1) || (width != 1 && width != 2 && width != 4))
		return false;
	at = string + (state >> 6 & 1 ? py->version->ascii : py->version->compact);
	for (uint64_t i = 0; i < n; i++, at += width) {
		uint32_t c = 0;

		if (!vm_memory_read(&py->memory, at, &c, width))
			return false;
		to += put_char(to, c);
	}
	*to = 0;
	return n > 0;
}

/* All modules' code is called <module>: the file distinguishes them, of a package its folder.  "<string>", "<stdin>" do not. */
static void name_module(const char *file, char *to, size_t size)
{
	static const char frozen[] = "<frozen ";
	const char *name = strrchr(file, '/');
	size_t len = strlen(file);

	name = name ? name + 1 : file;
	if ((!strcmp(name, "__init__.py") || !strcmp(name, "__main__.py")) && name - file > 1)
		for (name--; name > file && name[-1] != '/'; name--)
			;
	len -= (size_t)(name - file);
	if (!strncmp(file, frozen, sizeof(frozen) - 1) && file[strlen(file) - 1] == '>') {
		name = file + sizeof(frozen) - 1;
		len = strlen(name) - 1;
	} else if (*file == '<') {
		len = 0;
	}
	if (len)
		(void)snprintf(to, size, "<module %.*s>", (int)len, name);
	else
		(void)snprintf(to, size, "<module>");
}

static uint64_t sign_of(struct python *py, uint64_t code)
{
	const struct uw_python_offsets *o = &py->version->offsets;
	uint32_t minor = uw_python_minor(py->version->version);
	uint64_t qualname = vm_word(&py->memory, code + o->qualname), tail;
	struct python_name name;

	if (!vm_memory_read(&py->memory, qualname + PYTHON_NAME_AT, &name, sizeof(name)))
		return 0;
	tail = python_name_tail(&name, minor, qualname);
	return uw_python_sign(python_sign(&(struct python_content){
		.units = vm_word(&py->memory, code + UNITS_OF),
		.line = vm_half(&py->memory, code + o->line),
		.filename = vm_word(&py->memory, code + o->filename),
		.length = name.length,
		.head = python_name_head(&name, minor),
		.tail = tail ? vm_word(&py->memory, tail) : 0,
	}));
}

int python_lines(struct python *py, struct uw_memory *memory, uint64_t code,
		 void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	const struct uw_python_offsets *o = &py->version->offsets;
	char name[NAME_ROOM], file[NAME_ROOM], module[NAME_ROOM + sizeof("<module >")];
	uint64_t sign = code & UW_PYTHON_SIGN;
	uint32_t first;
	int r = vm_memory_begin(&py->memory, memory, PAGES), n = 0;
	bool has_file;

	if (r < 0)
		return trace(r);
	code &= ~UW_PYTHON_SIGN;
	first = vm_half(&py->memory, code + o->line);
	if (vm_word(&py->memory, code + TYPE_OF) == py->layout.code_type &&
	    (!sign || sign == sign_of(py, code)) &&
	    string_text(py, vm_word(&py->memory, code + o->qualname), name)) {
		has_file = string_text(py, vm_word(&py->memory, code + o->filename), file);
		name_module(has_file ? file : "", module, sizeof(module));
		add(arg, &(struct uw_line){.function = strcmp(name, "<module>") ? name : module,
					   .file = has_file ? file : NULL,
					   .line = first <= INT32_MAX ? first : 0,
					   .kind = FRAME_PYTHON});
		n = 1;
	}
	vm_memory_end(&py->memory);
	return n;
}
