/* v8.c - see v8.h.
 *
 * The constants have the names of V8's tools/gen-postmortem-metadata.py.  Where versions have another name for a field, both
 * are in the table.
 *
 * ---- names ----
 *
 * A function that has run has a ScopeInfo (scope-info.tq); words behind its map:
 *
 *     [flags][number of parameters][number of locals n][n names][n descriptions]     n >= 75: one hash table for the names
 *     [name or ""][slot][name that V8 inferred, or undefined][first byte in the source][last one][the outer ScopeInfo]
 *
 * V8 exports where the locals begin; the words behind them are recognised by their kinds.  Numbers are Smis. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "symbols/v8.h"

enum {
	SMI_SHIFT_64 = 31, /* SmiShiftSize where pointers are not compressed */
	OFFSET_MAX = 1024,
	FP_MAX = 256,
	LOCALS_MAX = 1 << 16,
	LOCALS_INLINE = 75,
	POSITION_MAX = 1 << 30,
	TRIES = 3,
	PIECES_MAX = 64, /* of a string that was put together */
	SIGNS = UW_SCRIPT_NO_POSITION - 1,
	CHUNK = 16 << 10, /* characters */
	CHUNKS = 1024,
	SOURCES = 8,
	READ = 4096,
	EXTERNAL_DATA = 8, /* behind the resource of an external string: its characters */
};

/* ---- the constants ---- */

#define AT(member) offsetof(struct uw_v8, member)
static const struct constant {
	const char *name;
	size_t at;
	bool may_miss; /* or another row has it */
} constants[] = {
	{"off_fp_context", AT(fp_context), false},
	{"off_fp_function", AT(fp_function), false},
	{"off_fp_bytecode_array", AT(fp_bytecode), true},
	{"class_HeapObject__map__Map", AT(map), false},
	{"class_Map__instance_type__uint16_t", AT(instance_type), false},
	{"class_JSFunction__shared__SharedFunctionInfo", AT(shared), false},
	{"class_SharedFunctionInfo__function_data__Object", AT(data), true},
	{"class_SharedFunctionInfo__name_or_scope_info__Object", AT(name_or_scope), false},
	{"class_SharedFunctionInfo__script__Object", AT(script), true},
	{"class_SharedFunctionInfo__script__HeapObject", AT(script), true},
	{"class_SharedFunctionInfo__script_or_debug_info__Object", AT(script), true},
	{"class_SharedFunctionInfo__script_or_debug_info__HeapObject", AT(script), true},
	{"class_Code__bytecode_or_interpreter_data__HeapObject", AT(baseline), true},
	{"class_Script__name__Object", AT(script_name), true},
	{"class_Script__source__Object", AT(script_source), true},
	{"class_String__length__int32_t", AT(length), false},
	{"class_SeqOneByteString__chars__char", AT(chars), false},
	{"class_SeqTwoByteString__chars__char", AT(chars2), false},
	{"class_ConsString__first__String", AT(first), false},
	{"class_ConsString__second__String", AT(second), false},
	{"class_ThinString__actual__String", AT(actual), false},
	{"class_SlicedString__parent__String", AT(parent), false},
	{"class_SlicedString__offset__SMI", AT(offset), false},
	{"class_ExternalString__resource__Object", AT(resource), true},
	{"type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", AT(type_shared), false},
	{"type_ScopeInfo__SCOPE_INFO_TYPE", AT(type_scope), false},
	{"type_Script__SCRIPT_TYPE", AT(type_script), false},
	{"type_BytecodeArray__BYTECODE_ARRAY_TYPE", AT(type_bytecode), true},
	{"type_Code__CODE_TYPE", AT(type_code), true},
	{"FirstNonstringType", AT(not_string), false},
	{"StringRepresentationMask", AT(form_mask), false},
	{"SeqStringTag", AT(form_sequential), false},
	{"ConsStringTag", AT(form_cons), false},
	{"ExternalStringTag", AT(form_external), false},
	{"SlicedStringTag", AT(form_sliced), false},
	{"ThinStringTag", AT(form_thin), false},
	{"StringEncodingMask", AT(coding_mask), false},
	{"OneByteStringTag", AT(coding_latin1), false},
	{"scopeinfo_idx_ncontextlocals", AT(n_locals), false},
	{"scopeinfo_idx_first_vars", AT(locals), false},
};

/* Offsets for which there is no constant. */
static const struct version {
	uint32_t version;
	int16_t code, code_start, code_size;
} versions[] = {
	{0xb03, 48, 40, 56}, /* Node.js 20 */
};

static bool read_constant(struct vm_memory *m, const struct vm_exports *x, const char *name,
			  int32_t *ret_value)
{
	char text[80];
	uint64_t at;

	(void)snprintf(text, sizeof(text), "v8dbg_%s", name);
	at = vm_exports_find(m, x, text, NULL);
	return at && vm_memory_read(m, at, ret_value, sizeof(*ret_value));
}

/* A frame's words are next to its frame pointer, the others are in objects. */
static bool is_value(const struct constant *c, int32_t value)
{
	if (c->at <= AT(fp_bytecode))
		return value < 0 && value >= -FP_MAX && value % 8 == 0;
	return value >= 0 && value <= (c->at < AT(type_shared) ? OFFSET_MAX : INT16_MAX);
}

/* false: a constant that is needed is missing or out of range. */
static bool read_constants(struct vm_memory *m, const struct vm_exports *x, struct uw_v8 *v8)
{
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
		const struct constant *c = &constants[i];
		int16_t *to = (int16_t *)(void *)((char *)v8 + c->at);
		int32_t value;

		if (!read_constant(m, x, c->name, &value)) {
			if (!c->may_miss)
				return false;
			continue;
		}
		if (!is_value(c, value))
			return false;
		*to = (int16_t)value;
	}
	return v8->script != 0;
}

static uint32_t version_number(struct vm_memory *m, const struct vm_exports *x, const char *name)
{
	uint64_t at = vm_exports_find(m, x, name, NULL);
	uint32_t number;

	return at && vm_memory_read(m, at, &number, sizeof(number)) ? number & 0xff : 0;
}

int v8_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script)
{
	struct uw_script script = {.version = 0};
	struct uw_v8 *v8 = &script.v8;
	struct vm_exports x;
	int32_t shift;

	if (!vm_exports_of(m, image, &x))
		return fail(-ENOEXEC);
	v8->version = version_number(m, &x, "_ZN2v88internal7Version6major_E") << 8 |
		      version_number(m, &x, "_ZN2v88internal7Version6minor_E");
	if (!v8->version) /* another program of that name, or one without exports */
		return fail(-ENOEXEC);
	if (UW_ARCH_HOST != UW_ARCH_X86_64 || !read_constant(m, &x, "SmiShiftSize", &shift) ||
	    shift != SMI_SHIFT_64 || !read_constants(m, &x, v8))
		return fail(-ENOTSUP);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (versions[i].version != v8->version)
			continue;
		v8->code = versions[i].code;
		v8->code_start = versions[i].code_start;
		v8->code_size = versions[i].code_size;
	}
	*ret_script = script;
	return 0;
}

/* ---- objects ---- */

static uint64_t word_of(struct vm_memory *m, uint64_t object, int64_t at)
{
	uint64_t word;

	return v8_is_object(object) &&
			       vm_memory_read(m, object - 1 + (uint64_t)at, &word, sizeof(word))
		       ? word
		       : 0;
}

/* The type of the object; -1: there is none. */
static int32_t type_of(struct vm_memory *m, const struct uw_v8 *v, uint64_t object)
{
	uint64_t map = word_of(m, object, v->map);
	uint16_t type;

	return v8_is_object(map) &&
			       vm_memory_read(m, map - 1 + (uint64_t)v->instance_type, &type, 2)
		       ? type
		       : -1;
}

static bool is_type(struct vm_memory *m, const struct uw_v8 *v, uint64_t object, int16_t type)
{
	return type && type_of(m, v, object) == type;
}

static bool is_smi(uint64_t word)
{
	return !(uint32_t)word;
}

static uint32_t smi(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* A collection that has moved an object leaves its new address in place of its map. */
static uint64_t follow_move(struct vm_memory *m, const struct uw_v8 *v, uint64_t object)
{
	uint64_t map = word_of(m, object, v->map);

	return !(map & 7) && vm_memory_is_address(map) ? map + 1 : object;
}

/* ---- ScopeInfo ---- */

struct scope {
	uint64_t name, inferred; /* objects; 0: none */
	uint32_t start, end;	 /* in the source; end 0: not known */
};

static bool read_scope(struct vm_memory *m, const struct uw_v8 *v, uint64_t object,
		       struct scope *ret_scope)
{
	struct scope s = {0};
	uint64_t n, at, words[5];

	if (!is_type(m, v, object, v->type_scope))
		return false;
	n = word_of(m, object, 8 + 8 * v->n_locals);
	if (!is_smi(n) || smi(n) > LOCALS_MAX)
		return false;
	n = smi(n);
	at = 1 + (uint64_t)v->locals + n + (n < LOCALS_INLINE ? n : 1);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = word_of(m, object, (int64_t)(8 * (at + i)));
	if (v8_is_object(words[0]) && is_smi(words[1])) {
		s.name = words[0];
		s.inferred = v8_is_object(words[2]) ? words[2] : 0;
		if (s.inferred && is_smi(words[3]) && is_smi(words[4]) &&
		    smi(words[3]) < smi(words[4]) && smi(words[4]) < POSITION_MAX) {
			s.start = smi(words[3]);
			s.end = smi(words[4]);
		}
	}
	*ret_scope = s;
	return true;
}

/* From 0 on, less than UW_SCRIPT_NO_POSITION: functions of one script differ in their places. */
static uint64_t sign_of(const struct scope *s)
{
	return hash_u64((uint64_t)s->start << 32 | s->end) % SIGNS;
}

/* ---- functions ---- */

bool v8_is_bytecode(struct vm_memory *m, const struct uw_v8 *v, uint64_t object)
{
	return is_type(m, v, object, v->type_bytecode);
}

static void read_code(struct vm_memory *m, const struct uw_v8 *v, uint64_t function,
		      struct v8_function *f)
{
	uint64_t code = v->code ? word_of(m, function, v->code) : 0;
	uint32_t size;

	if (!is_type(m, v, code, v->type_code) ||
	    !vm_memory_read(m, code - 1 + (uint64_t)v->code_size, &size, sizeof(size)))
		return;
	f->code = word_of(m, code, v->code_start);
	f->code_size = size;
}

bool v8_function(struct vm_memory *m, const struct uw_v8 *v, uint64_t function,
		 struct v8_function *ret_function)
{
	uint64_t shared, data;
	struct v8_function f = {0};
	struct scope scope;

	function = follow_move(m, v, function);
	shared = word_of(m, function, v->shared);
	if (!is_type(m, v, shared, v->type_shared))
		return false;
	data = v->data ? word_of(m, shared, v->data) : 0;
	f.user = v->data ? v8_is_object(data)
			 : is_type(m, v, word_of(m, shared, v->script), v->type_script);
	if (v->baseline && is_type(m, v, data, v->type_code))
		data = word_of(m, data, v->baseline);
	if (v8_is_bytecode(m, v, data))
		f.bytecode = data;
	if (!read_scope(m, v, word_of(m, shared, v->name_or_scope), &scope)) {
		if (f.user) /* it has one: it runs */
			return false;
		scope = (struct scope){0};
	}
	f.frame = uw_script_frame(shared - 1, sign_of(&scope));
	read_code(m, v, function, &f);
	*ret_function = f;
	return true;
}

/* ---- strings ---- */

struct chars {
	uint64_t at; /* address of the first one; 0: none that can be read */
	uint32_t len;
	bool wide; /* UTF-16, else Latin-1 */
};

/* The characters of a string that is in one piece. */
static struct chars chars_of(struct vm_memory *m, const struct uw_v8 *v, uint64_t string)
{
	struct chars c = {0};
	uint64_t from = 0;
	int32_t type = -1;

	for (uint32_t i = 0; i < PIECES_MAX; i++) {
		int32_t form;
		uint32_t len;

		string = follow_move(m, v, string);
		type = type_of(m, v, string);
		form = type & v->form_mask;
		if (type < 0 || type >= v->not_string ||
		    !vm_memory_read(m, string - 1 + (uint64_t)v->length, &len, sizeof(len)))
			return c;
		c.len = i ? c.len : len;
		if (form == v->form_thin) {
			string = word_of(m, string, v->actual);
		} else if (form == v->form_sliced) {
			from += smi(word_of(m, string, v->offset));
			string = word_of(m, string, v->parent);
		} else {
			break;
		}
	}
	c.wide = (type & v->coding_mask) != v->coding_latin1;
	if ((type & v->form_mask) == v->form_sequential)
		c.at = string - 1 + (uint64_t)(c.wide ? v->chars2 : v->chars);
	else if ((type & v->form_mask) == v->form_external && v->resource)
		c.at = word_of(m, string, v->resource + EXTERNAL_DATA);
	if (c.at)
		c.at += from << c.wide;
	return c;
}

/* Text that is written, as UTF-8. */
struct text {
	char *to;
	size_t len, room;
};

static void put_char(struct text *t, uint32_t c)
{
	char bytes[4];
	size_t n = 0;

	if (c < 0x20 || c == 0x7f || (c >= 0xd800 && c < 0xe000))
		c = '?';
	if (c < 0x80) {
		bytes[n++] = (char)c;
	} else if (c < 0x800) {
		bytes[n++] = (char)(0xc0 | c >> 6);
		bytes[n++] = (char)(0x80 | (c & 0x3f));
	} else {
		bytes[n++] = (char)(0xe0 | c >> 12);
		bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		bytes[n++] = (char)(0x80 | (c & 0x3f));
	}
	if (t->len + n >= t->room)
		return;
	memcpy(t->to + t->len, bytes, n);
	t->len += n;
	t->to[t->len] = 0;
}

static bool put_chars(struct vm_memory *m, const struct chars *c, struct text *t)
{
	size_t n = min_u64(c->len, t->room);

	for (size_t i = 0; i < n; i++) {
		uint16_t one = 0;

		if (!vm_memory_read(m, c->at + (i << c->wide), &one, c->wide ? 2 : 1))
			return false;
		put_char(t, one);
	}
	return true;
}

/* Appends a string, which may be of several pieces. */
static bool put_string(struct vm_memory *m, const struct uw_v8 *v, uint64_t string, struct text *t)
{
	uint64_t rest[PIECES_MAX];
	uint32_t n = 0, pieces = 0;

	rest[n++] = string;
	while (n && pieces++ < PIECES_MAX && t->len + 1 < t->room) {
		uint64_t one = follow_move(m, v, rest[--n]);
		int32_t type = type_of(m, v, one);
		struct chars c;

		if (type < 0 || type >= v->not_string)
			return false;
		if ((type & v->form_mask) == v->form_thin) {
			rest[n++] = word_of(m, one, v->actual);
			continue;
		}
		if ((type & v->form_mask) == v->form_cons && n + 2 <= PIECES_MAX) {
			rest[n++] = word_of(m, one, v->second);
			rest[n++] = word_of(m, one, v->first);
			continue;
		}
		c = chars_of(m, v, one);
		if (c.len && (!c.at || !put_chars(m, &c, t)))
			return false;
	}
	return true;
}

/* false: no string, or an empty one. */
static bool string_text(struct vm_memory *m, const struct uw_v8 *v, uint64_t string, char *to,
			size_t room)
{
	struct text t = {.to = to, .room = room};

	*to = 0;
	return string && put_string(m, v, string, &t) && t.len;
}

/* ---- lines ---- */

struct v8_lines {
	struct source {
		uint64_t at; /* of its characters */
		uint32_t len, n;
		uint32_t before[CHUNKS]; /* newlines before each chunk, the first n */
	} sources[SOURCES];
	uint32_t oldest;
};

struct v8_lines *v8_lines_free(struct v8_lines *lines)
{
	free(lines);
	return NULL;
}

/* Newlines at [@from, @to).  UINT32_MAX: they cannot be read. */
static uint32_t count_lines(struct vm_memory *m, const struct chars *c, uint32_t from, uint32_t to)
{
	uint64_t at = c->at + ((uint64_t)from << c->wide), end = c->at + ((uint64_t)to << c->wide);
	uint8_t bytes[READ];
	uint32_t n = 0;

	while (at < end) {
		size_t len = min_u64(sizeof(bytes), end - at), step = c->wide ? 2 : 1;

		if (!vm_memory_read(m, at, bytes, len))
			return UINT32_MAX;
		for (size_t i = 0; i + step <= len; i += step)
			n += bytes[i] == '\n' && !(c->wide && bytes[i + 1]);
		at += len;
	}
	return n;
}

static struct source *source_of(struct v8_lines *lines, const struct chars *c)
{
	struct source *s;

	for (size_t i = 0; i < SOURCES; i++)
		if (lines->sources[i].at == c->at && lines->sources[i].len == c->len)
			return &lines->sources[i];
	s = &lines->sources[lines->oldest++ % SOURCES];
	s->at = c->at;
	s->len = c->len;
	s->n = 1;
	s->before[0] = 0;
	return s;
}

/* The line of a place in a source, from 1; 0: not known. */
static uint32_t line_of(struct vm_memory *m, struct v8_lines *lines, const struct chars *c,
			uint32_t position)
{
	struct source *s = source_of(lines, c);
	uint32_t chunk = position / CHUNK, n;

	if (chunk >= CHUNKS || position > c->len)
		return 0;
	while (s->n <= chunk) {
		n = count_lines(m, c, (s->n - 1) * CHUNK, s->n * CHUNK);
		if (n == UINT32_MAX)
			return 0;
		s->before[s->n] = s->before[s->n - 1] + n;
		s->n++;
	}
	n = count_lines(m, c, chunk * CHUNK, position);
	return n == UINT32_MAX ? 0 : 1 + s->before[chunk] + n;
}

/* ---- text ---- */

/* A module has a URL. */
static void plain_path(char *file)
{
	static const char url[] = "file://";
	size_t skip = sizeof(url) - 1;

	if (!strncmp(file, url, skip))
		memmove(file, file + skip, strlen(file + skip) + 1);
}

/* false: the source is there, but cannot be read. */
static bool place_text(struct vm_memory *m, const struct uw_v8 *v, struct v8_lines **lines,
		       uint64_t shared, const struct scope *scope, struct script_text *text)
{
	uint64_t script = follow_move(m, v, word_of(m, shared, v->script)), source;
	struct chars c;

	if (!is_type(m, v, script, v->type_script))
		return true;
	if (string_text(m, v, word_of(m, script, v->script_name), text->file, SCRIPT_TEXT_ROOM))
		plain_path(text->file);
	source = v->script_source ? word_of(m, script, v->script_source) : 0;
	if (!v8_is_object(source) || !scope->end)
		return true;
	if (!*lines)
		*lines = calloc(1, sizeof(**lines));
	c = chars_of(m, v, source);
	if (*lines && c.at)
		text->line = line_of(m, *lines, &c, scope->start);
	return text->line;
}

/* Functions without a name are distinguished by their place. */
static void name_by_place(struct script_text *text)
{
	const char *name = strrchr(text->file, '/');

	if (!*text->file)
		(void)snprintf(text->function, sizeof(text->function), "(anonymous)");
	else if (!text->line)
		(void)snprintf(text->function, sizeof(text->function), "(anonymous %.*s)",
			       SCRIPT_NAME_ROOM, name ? name + 1 : text->file);
	else
		(void)snprintf(text->function, sizeof(text->function), "(anonymous %.*s:%u)",
			       SCRIPT_NAME_ROOM, name ? name + 1 : text->file, text->line);
}

enum found { TEXT_NONE, TEXT_PART, TEXT_ALL };

static enum found read_text(struct vm_memory *m, const struct uw_v8 *v, struct v8_lines **lines,
			    uint64_t frame, struct script_text *ret_text)
{
	uint64_t shared = uw_script_function(frame) + 1, name;
	struct scope scope = {0};
	bool all;

	if (!is_type(m, v, shared, v->type_shared))
		return TEXT_NONE;
	name = word_of(m, shared, v->name_or_scope);
	if (read_scope(m, v, name, &scope))
		name = scope.name;
	if (sign_of(&scope) != (frame & UW_SCRIPT_NO_POSITION))
		return TEXT_NONE;
	*ret_text = (struct script_text){.line = 0};
	all = place_text(m, v, lines, shared, &scope, ret_text);
	if (!string_text(m, v, name, ret_text->function, SCRIPT_NAME_ROOM) &&
	    !string_text(m, v, scope.inferred, ret_text->function, SCRIPT_NAME_ROOM))
		name_by_place(ret_text);
	return all ? TEXT_ALL : TEXT_PART;
}

/* A collection may have moved the source since pointers to it were read. */
bool v8_text(struct vm_memory *m, const struct uw_v8 *v, struct v8_lines **lines, uint64_t frame,
	     struct script_text *ret_text)
{
	enum found found = read_text(m, v, lines, frame, ret_text);

	for (int i = 1; i < TRIES && found == TEXT_PART; i++) {
		vm_memory_again(m, m->memory, m->left);
		found = read_text(m, v, lines, frame, ret_text);
	}
	return found != TEXT_NONE;
}
