/* v8-fixture.h - the memory of a process with V8 11.3 (Node.js 20), as small as the reader needs it: the exports of its program, and
 * objects of its heap.  A pointer to an object is its address plus one. */
#pragma once

#include "symbols/v8.h"
#include "tests/unit/unwinder/script-fixture.h"

/* As `nm -D` and the data of node 20.20 show them. */
static const struct v8_constant {
	const char *name;
	int32_t value;
} v8_constants[] = {
	{"_ZN2v88internal7Version6major_E", 11},
	{"_ZN2v88internal7Version6minor_E", 3},
	{"v8dbg_SmiShiftSize", 31},
	{"v8dbg_off_fp_context", -8},
	{"v8dbg_off_fp_function", -16},
	{"v8dbg_off_fp_bytecode_array", -32},
	{"v8dbg_class_HeapObject__map__Map", 0},
	{"v8dbg_class_Map__instance_type__uint16_t", 12},
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", 24},
	{"v8dbg_class_SharedFunctionInfo__function_data__Object", 8},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", 16},
	{"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", 32},
	{"v8dbg_class_Code__bytecode_or_interpreter_data__HeapObject", 16},
	{"v8dbg_class_Script__name__Object", 16},
	{"v8dbg_class_Script__source__Object", 8},
	{"v8dbg_class_String__length__int32_t", 12},
	{"v8dbg_class_SeqOneByteString__chars__char", 16},
	{"v8dbg_class_SeqTwoByteString__chars__char", 16},
	{"v8dbg_class_ConsString__first__String", 16},
	{"v8dbg_class_ConsString__second__String", 24},
	{"v8dbg_class_ThinString__actual__String", 16},
	{"v8dbg_class_SlicedString__parent__String", 16},
	{"v8dbg_class_SlicedString__offset__SMI", 24},
	{"v8dbg_class_ExternalString__resource__Object", 16},
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 262},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", 261},
	{"v8dbg_type_Script__SCRIPT_TYPE", 167},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", 191},
	{"v8dbg_type_Code__CODE_TYPE", 245},
	{"v8dbg_FirstNonstringType", 128},
	{"v8dbg_StringRepresentationMask", 7},
	{"v8dbg_SeqStringTag", 0},
	{"v8dbg_ConsStringTag", 1},
	{"v8dbg_ExternalStringTag", 2},
	{"v8dbg_SlicedStringTag", 3},
	{"v8dbg_ThinStringTag", 5},
	{"v8dbg_StringEncodingMask", 8},
	{"v8dbg_OneByteStringTag", 8},
	{"v8dbg_scopeinfo_idx_ncontextlocals", 2},
	{"v8dbg_scopeinfo_idx_first_vars", 3},
};
enum {
	V8_CONSTANTS = ARRAY_SIZE(v8_constants),
	V8_LATIN1 = 40,
	V8_WIDE = 32,
	V8_CONS = 41,
	V8_EXTERNAL = 42,
	V8_SLICED = 43,
	V8_THIN = 37,
	V8_SCRIPT = 167,
	V8_ODDBALL = 131,
	V8_BYTECODE = 191,
	V8_CODE = 245,
	V8_SCOPE = 261,
	V8_SHARED = 262,
	V8_JS_FUNCTION = 2066,
};

/* @without: this constant is not exported; NULL: all are. */
static inline void v8_process_init(struct sc_process *p, const char *without)
{
	struct sc_name names[V8_CONSTANTS];
	uint64_t dynamic;
	size_t n = 0;

	sc_init(p, false);
	p->version_at = sc_alloc(p, 8ul * V8_CONSTANTS);
	for (size_t i = 0; i < V8_CONSTANTS; i++) {
		uint64_t at = p->version_at + 8 * i;

		sc_set(p, at, (uint32_t)v8_constants[i].value, 4);
		if (!without || strcmp(v8_constants[i].name, without) != 0)
			names[n++] = (struct sc_name){v8_constants[i].name, at, 4};
	}
	dynamic = sc_exports(p, names, n);
	sc_head(p, p->version_at, p->version_at, p->version_at, dynamic);
}

/* Where the value of a constant is. */
static inline uint64_t v8_constant_at(const struct sc_process *p, const char *name)
{
	for (size_t i = 0; i < V8_CONSTANTS; i++)
		if (!strcmp(v8_constants[i].name, name))
			return p->version_at + 8 * i;
	abort();
}

/* ---- objects ---- */

static inline uint64_t v8_smi(uint32_t value)
{
	return (uint64_t)value << 32;
}

/* An object of @n words behind its map. */
static inline uint64_t v8_object(struct sc_process *p, uint16_t type, const uint64_t *words,
				 size_t n)
{
	uint64_t map = sc_heap(p, 16), at = sc_heap(p, 8 * (1 + n));

	sc_set(p, map + 12, type, 2);
	sc_set(p, at, map + 1, 8);
	for (size_t i = 0; i < n; i++)
		sc_set(p, at + 8 * (1 + i), words[i], 8);
	return at + 1;
}
#define V8_OBJECT(p, type, ...)                             \
	v8_object(p, type, (const uint64_t[]){__VA_ARGS__}, \
		  sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static inline uint64_t v8_string(struct sc_process *p, const char *text)
{
	size_t len = strlen(text), n = 1 + (len + 7) / 8;
	uint64_t words[64] = {(uint64_t)len << 32};

	if (n > ARRAY_SIZE(words))
		abort();
	memcpy(&words[1], text, len);
	return v8_object(p, V8_LATIN1, words, n);
}

/* A function of a script with a name (an object), from @start to @end of its source.  Returns its SharedFunctionInfo. */
static inline uint64_t v8_shared(struct sc_process *p, uint64_t script, uint64_t name,
				 uint64_t inferred, uint32_t start, uint32_t end)
{
	uint64_t local = v8_string(p, "local");
	uint64_t scope =
		V8_OBJECT(p, V8_SCOPE, v8_smi(7), v8_smi(2), v8_smi(1), local, v8_smi(9), name,
			  v8_smi(UINT32_MAX), inferred, v8_smi(start), v8_smi(end), 0);
	uint64_t bytecode = V8_OBJECT(p, V8_BYTECODE, v8_smi(64), 0);

	return V8_OBJECT(p, V8_SHARED, bytecode, scope, 0, script, 0, 0, 0);
}

static inline uint64_t v8_word(const struct sc_process *p, uint64_t object, size_t at)
{
	uint64_t word;

	memcpy(&word, p->bytes + (object - 1 + at - SC_BASE), 8);
	return word;
}

/* A JSFunction of it, with its code at [@code, @code + @len). */
static inline uint64_t v8_js_function(struct sc_process *p, uint64_t shared, uint64_t code,
				      uint32_t len)
{
	return V8_OBJECT(p, V8_JS_FUNCTION, 0, 0, shared, 0, 0,
			 V8_OBJECT(p, V8_CODE, 0, 0, 0, 0, code, 0, len), 0);
}
