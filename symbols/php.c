/* php.c - see php.h.
 *
 * The layouts are in a table by version (Zend/zend_compile.h, zend.h and zend_globals.h of each).  PHP keeps them within a minor
 * version.
 *
 * ---- the evaluation loop ----
 *
 * execute_ex() has its frame in r14 and its instruction (opline) in r15: Zend/zend_execute.c names both registers for GCC, as global
 * variables.  It begins with notes of its caller's, which unwind information does not describe:
 *
 *     mov %r14, n(%rsp)     mov %r15, m(%rsp)     (%rbp: in a build with frame pointers)
 *
 * A build without them (clang) has its opline in memory around calls only: its layout is not known.
 *
 * ---- the version ----
 *
 * No export has it, but PHP checks that of its extensions: its read-only data has "API20220829,NTS", the number of the headers (8.2)
 * and whether there are threads. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/php.h"
#include "symbols/script-sign.h"

enum {
	LOOP_MIN = 4096,
	LOOP_MAX = 4 << 20, /* bytes of the evaluation loop */
	DWARF_R14 = 14,
	DWARF_R15 = 15,
	PROLOGUE = 96,
	SAVED_MAX = 1 << 16, /* bytes of the loop's frame */
	API_BYTES = 16,
	INTERNAL = 1, /* zend_function.type */
	STRING_LEN = 16,
	STRING_TEXT = 24,
	NAME = 8, /* of a zend_function */
	SCOPE = UW_SCRIPT_CLASS,
	CLASS_NAME = 8, /* of a zend_class_entry */
	OPLINE_LINE = 24,
};

/* Offsets. */
static const struct version {
	uint32_t version, api; /* ZEND_MODULE_API_NO */
	uint16_t current;      /* in executor_globals */
	uint16_t handler;      /* of a zend_internal_function */
	uint16_t cache_len;    /* of a zend_op_array, as the rest */
	uint16_t len, code;
	uint16_t filename, line; /* line: the first one */
	uint16_t declared;	 /* num_dynamic_func_defs */
} versions[] = {
	{0x801, 20210902, 488, 56, 56, 68, 72, 144, 152, 172},
	{0x802, 20220829, 488, 72, 72, 80, 88, 152, 160, 180},
	{0x803, 20230831, 488, 72, 68, 76, 80, 144, 152, 172},
	{0x804, 20240924, 488, 88, 88, 96, 104, 168, 176, 188},
	{0x805, 20250925, 512, 88, 88, 96, 104, 168, 176, 188},
};

/* By one of both numbers, the other is 0. */
static const struct version *version_of(uint32_t version, uint32_t api)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i].version == version || versions[i].api == api)
			return &versions[i];
	return NULL;
}

/* ---- the version ---- */

/* "APIyyyymmdd,NTS" with its NUL, in @data: the number; 0: it is not there. */
static uint32_t api_in(const char *data, size_t len)
{
	static const char mark[] = "API", behind[] = ",NTS";

	for (const char *at = data, *end = data + len;
	     (at = memmem(at, (size_t)(end - at), mark, 3)) && end - at >= API_BYTES; at++) {
		uint32_t number = 0;
		size_t i = 3;

		for (; i < API_BYTES - sizeof(behind) && at[i] >= '0' && at[i] <= '9'; i++)
			number = number * 10 + (uint32_t)(at[i] - '0');
		if (i == API_BYTES - sizeof(behind) && !memcmp(at + i, behind, sizeof(behind)))
			return number;
	}
	return 0;
}

/* Pieces that overlap, of the segments of read-only data.  *ret_api 0: none is there. */
static int read_api(struct vm_memory *m, const struct vm_exports *x, uint32_t *ret_api)
{
	static const size_t piece = 64 << 10;
	_cleanup_(freep) char *data = malloc(piece);
	uint32_t api = 0;

	if (!data)
		return fail(-ENOMEM);
	for (size_t k = 0; k < x->n_constants && !api; k++)
		for (uint64_t at = x->constants[k].start; at < x->constants[k].end && !api;
		     at += piece - API_BYTES) {
			size_t len = min_u64(piece, x->constants[k].end - at);

			if (!vm_memory_read_once(m, at, data, len))
				break;
			api = api_in(data, len);
		}
	*ret_api = api;
	return 0;
}

/* ---- the exports ---- */

/* How far the stack pointer is below rbp, from [mov %rsp, %rbp] [push] ... [sub n, %rsp] on; 0: the code is another. */
static uint32_t depth_of(const uint8_t *code, size_t len)
{
	uint32_t depth = 0, n;
	size_t i = 3;

	if (len < 3 || code[0] != 0x48 || code[1] != 0x89 || code[2] != 0xe5)
		return 0;
	for (; i + 7 <= len; i++) {
		if (code[i] == 0x41) /* r8 to r15 */
			continue;
		if ((code[i] & 0xf8) != 0x50)
			break;
		depth += 8;
	}
	if (i + 7 > len || code[i] != 0x48 || code[i + 2] != 0xec)
		return 0;
	if (code[i + 1] == 0x83)
		return depth + code[i + 3];
	memcpy(&n, code + i + 3, sizeof(n));
	return code[i + 1] == 0x81 && n < SAVED_MAX ? depth + n : 0;
}

/* mov %r14 or %r15, disp8(%rsp) or disp8(%rbp): numbers of the instruction set. */
static bool find_saved(struct vm_memory *m, struct uw_script *script)
{
	uint8_t code[PROLOGUE];
	uint32_t depth = 0;

	if (!vm_memory_read(m, script->eval_start, code, sizeof(code)))
		return false;
	for (size_t i = 0; i + 5 <= sizeof(code); i++) {
		bool next = code[i + 2] & 8;
		uint8_t *saved = next ? &script->saved_next : &script->saved_frame;
		uint32_t at;

		if (!depth)
			depth = depth_of(code + i, sizeof(code) - i);
		if (code[i] != 0x4c || code[i + 1] != 0x89 || *saved)
			continue;
		if ((code[i + 2] & ~8) == 0x74 && code[i + 3] == 0x24)
			at = code[i + 4];
		else if ((code[i + 2] & ~8) == 0x75 && depth)
			at = (uint32_t)((int)depth + (int8_t)code[i + 3]);
		else
			continue;
		if (at <= UW_SCRIPT_SAVED - 8)
			*saved = (uint8_t)at;
	}
	return script->saved_frame && script->saved_next;
}

int php_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script)
{
	struct uw_script script = {.frame = DWARF_R14, .next = DWARF_R15};
	const struct version *version;
	uint64_t size = 0, globals;
	struct vm_exports x;
	uint32_t api = 0;
	int r;

	if (!vm_exports_of(m, image, &x))
		return fail(-ENOEXEC);
	script.eval_start = vm_exports_find(m, &x, "execute_ex", &size);
	if (!script.eval_start)
		return fail(-ENOEXEC);
	globals = vm_exports_find(m, &x, "executor_globals", NULL); /* ZTS has none */
	r = read_api(m, &x, &api);
	if (r < 0)
		return trace(r);
	version = version_of(0, api);
	if (UW_ARCH_HOST != UW_ARCH_X86_64 || !version || !globals || size < LOOP_MIN ||
	    size > LOOP_MAX || !find_saved(m, &script))
		return fail(-ENOTSUP);
	script.eval_end = script.eval_start + size;
	script.current = globals + version->current;
	script.version = version->version;
	script.offsets = (struct uw_script_offsets){
		.frame_bytes = 80,
		.instruction = 0,
		.function = 24,
		.previous = 48,
		.flags = 40,
		.last = 1 << 17, /* ZEND_CALL_TOP */
		.len = version->len,
		.code = version->code,
		.handler = version->handler,
		.cache = 64,
		.cache_len = version->cache_len,
		.filename = version->filename,
		.declared = version->declared,
		.unit = 32,
	};
	*ret_script = script;
	return 0;
}

/* ---- names ---- */

/* zend_string: [..][length u64 at 16][characters].  The name of an anonymous class has its place behind a NUL, which PHP does not
 * print: "class@anonymous". */
static bool string_text(struct vm_memory *m, uint64_t string, char *to, size_t room)
{
	size_t n;

	if (!string || string & 7)
		return false;
	n = min_u64(vm_word(m, string + STRING_LEN), room - 1);
	if (!n || !vm_memory_read(m, string + STRING_TEXT, to, n))
		return false;
	return vm_memory_name(m, string + STRING_TEXT, strnlen(to, n), to, room);
}

/* The code of a file has no name.  @scope: its class, 0: none. */
static void function_text(struct vm_memory *m, uint64_t function, uint64_t scope,
			  char to[static SCRIPT_TEXT_ROOM])
{
	char name[SCRIPT_NAME_ROOM] = "{main}", class[SCRIPT_NAME_ROOM];
	bool named = string_text(m, vm_word(m, function + NAME), name, sizeof(name));

	if (named && scope && string_text(m, vm_word(m, scope + CLASS_NAME), class, sizeof(class)))
		(void)snprintf(to, SCRIPT_TEXT_ROOM, "%s::%s", class, name);
	else
		(void)snprintf(to, SCRIPT_TEXT_ROOM, "%s", name);
}

/* ---- closures ----
 *
 * The function that a closure is a copy of has the class of the closure that was made first, or none (opcache); closures of a trait
 * have several.  It is that of the function that declares them. */

/* The class that the function which @place is in had at the sample.  false: another function is there. */
static bool scope_of(struct vm_memory *m, const struct uw_script *script,
		     const struct php_declared *declared, uint64_t place, uint64_t *ret_scope)
{
	uint64_t function = uw_script_function(place);
	uint32_t sign;

	*ret_scope = vm_word(m, function + SCOPE);
	if (script_sign_fits(m, script, false, place))
		return true;
	for (uint32_t i = 0; i < ARRAY_SIZE(declared->of); i++) {
		*ret_scope = declared->of[i].scope;
		if (declared->of[i].function == function &&
		    script_sign_in_class(m, script, function, *ret_scope, &sign) &&
		    uw_script_has_sign(place, sign))
			return true;
	}
	return false;
}

static void note_declared(struct php_declared *declared, uint64_t function, uint64_t scope)
{
	uint32_t next = declared->n % ARRAY_SIZE(declared->of);

	for (uint32_t i = 0; i < ARRAY_SIZE(declared->of); i++)
		if (declared->of[i].function == function && declared->of[i].scope == scope)
			return;
	declared->of[next].function = function;
	declared->of[next].scope = scope;
	declared->n++;
}

void php_declare(struct vm_memory *m, const struct uw_script *script, struct php_declared *declared,
		 uint64_t place)
{
	enum { MAX = 64 };
	uint64_t function = uw_script_function(place), scope, list, at;
	uint8_t type;
	uint32_t n;

	if (!vm_memory_read(m, function, &type, sizeof(type)) || type == INTERNAL ||
	    !scope_of(m, script, declared, place, &scope) || !scope)
		return;
	n = vm_half(m, function + script->offsets.declared);
	list = vm_word(m, function + script->offsets.declared + UW_SCRIPT_DECLARED);
	for (uint32_t i = 0; i < n && i < MAX && vm_memory_read(m, list + 8ul * i, &at, 8); i++)
		note_declared(declared, at, scope);
}

bool php_text(struct vm_memory *m, const struct uw_script *script,
	      const struct php_declared *declared, uint64_t frame, struct script_text *ret_text)
{
	const struct version *v = version_of(script->version, 0);
	uint64_t function = uw_script_function(frame), code, scope;
	uint32_t position = uw_script_position(frame);
	uint8_t type;

	if (!v || !scope_of(m, script, declared, frame, &scope) ||
	    !vm_memory_read(m, function, &type, sizeof(type)))
		return false;
	*ret_text = (struct script_text){.line = 0};
	function_text(m, function, scope, ret_text->function);
	if (type == INTERNAL)
		return true;
	if (!string_text(m, vm_word(m, function + v->filename), ret_text->file, SCRIPT_TEXT_ROOM))
		return false;
	code = vm_word(m, function + v->code);
	/* Another function is there by now. */
	if (position < UW_SCRIPT_NO_POSITION && position >= vm_half(m, function + v->len))
		return false;
	if (position < UW_SCRIPT_NO_POSITION)
		ret_text->line =
			vm_half(m, code + (uint64_t)position * script->offsets.unit + OPLINE_LINE);
	if (!ret_text->line)
		ret_text->line = vm_half(m, function + v->line);
	return true;
}
