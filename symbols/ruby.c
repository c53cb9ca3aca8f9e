/* ruby.c - see ruby.h.
 *
 * The layouts are in a table by version (vm_core.h, iseq.h, method.h, include/ruby/internal/core/rstring.h and rarray.h).  Ruby keeps
 * them within a minor version.
 *
 * ---- the evaluation loop ----
 *
 * vm_exec_core() is static.  vm_exec.c names two registers for GCC: r14 has the next instruction, r15 the frame.  Each instruction of
 * the VM begins with a note of the next one in the frame:
 *
 *     mov %r14, (%r15)     a hundred in the loop, two in any other function
 *
 * ---- lines ----
 *
 * The places of an iseq that have line information are bits of a table with ranks (struct succ_index_table, iseq.c):
 *
 *     [6 words: of 54 positions, 9 a word, the number of places up to each in 7 bits]
 *     then of 512 positions each: [number before u32][pad][numbers of 7 further words, 9 bits each][8 words of bits] */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/ruby.h"
#include "symbols/script-sign.h"

enum {
	LOOP_MIN = 8 << 10,
	LOOP_MAX = 1 << 20, /* bytes of the evaluation loop */
	STORES_MIN = 32,    /* in it */
	FDES_MAX = 1 << 17,
	FDE_HEAD = 16,
	PROLOGUE = 64,
	DWARF_R14 = 14,
	DWARF_R15 = 15,
	TYPE_MASK = 0x1f, /* RBasic.flags; T_* of value_type.h */
	T_CLASS = 2,
	T_MODULE = 3,
	T_STRING = 5,
	T_ARRAY = 7,
	T_IMEMO = 0x1a,
	IMEMO_AT = 12,
	IMEMO_METHOD = 6,
	IMEMO_ISEQ = 7,
	METHOD_OF_ISEQ = 0,	/* rb_method_type_t, 4 bits; the iseq follows */
	NOT_EMBEDDED = 1 << 13, /* of a string; of an array the reverse */
	EMBEDDED_AT = 16,
	EMBEDDED_LEN_AT = 14, /* a string's length, 5 bits of the flags */
	HEAP_LEN = 16,	      /* with .sizes of an embedded string, too */
	STRING_HEAP = 24,
	ARRAY_HEAP = 32,
	ARRAY_LEN_AT = 15, /* of an embedded one, in the flags */
	PATH = 64,	   /* in the body of an iseq */
	LABEL = 80,
	FIRST_LINE = 88,
	METHOD_ID = 24, /* in a method entry: called_id */
	OWNER = 32,
	KLASS = 8,	  /* of an object */
	CLASS_REST = 24,  /* of a class: up to 3.1 a pointer to the rest, then the rest itself */
	CLASS_WORDS = 17, /* of the rest, in a slot of 160 bytes */
	CLASS_VALUES = 4, /* 3.2: that many of an array are looked at */
	IVARS = 8,	  /* in the rest: a table of values */
	IVARS_BOUND = 40, /* in a table: entries used; entries, of hash, key and value */
	IVARS_ENTRIES = 48,
	IVARS_MAX = 64,
	IVAR_BYTES = 24,
	IVAR_VALUE = 16,
	THREAD = 40, /* image.h */
	NEXT_THREAD = 0,
	THREAD_VM = 32, /* in a thread */
	INNERMOST = 16,
	ID_SCOPE = 4,
	ID_UNIT = 512,
	SEARCHES_MAX = 16,
	IMMEDIATE = 54,
	IMMEDIATE_WORD = 9,
	BLOCK = 512,
	BLOCK_BYTES = 80,
};

/* Offsets. */
static const struct version {
	uint32_t version;
	uint16_t frame_bytes;
	uint16_t lines, n_lines, places; /* in the body of an iseq; insns_info */
	uint16_t line_bytes; /* of an entry with line information, which begins with the line */
	uint16_t native, through,
		context;       /* image.h; before 3.1 a thread has no id of the kernel */
	uint8_t last_operator; /* tLAST_OP_ID; numbers behind it have 4 bits of scope */
	/* Objects have many sizes: an embedded string has its length in front of its characters, an embedded array up to
	 * 127 elements.  The first line of an iseq is an int. */
	bool sizes;
} versions[] = {
	{0x300, 56, 120, 136, 144, 8, 0, 0, 40, 168, false},
	{0x301, 64, 120, 136, 144, 12, 88, 0, 40, 169, false},
	{0x302, 64, 112, 128, 136, 12, 24, 40, 48, 169, true},
	{0x303, 56, 112, 128, 136, 12, 24, 40, 48, 169, true},
	{0x304, 56, 112, 128, 136, 12, 24, 40, 48, 170, true},
};

static const struct version *version_of(uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i].version == version)
			return &versions[i];
	return NULL;
}

/* ---- the evaluation loop ---- */

/* Numbers of the instruction set. */
static uint32_t count_stores(const uint8_t *code, size_t len)
{
	uint32_t n = 0;

	for (size_t i = 0; i + 3 <= len; i++)
		n += code[i] == 0x4d && code[i + 1] == 0x89 && code[i + 2] == 0x37;
	return n;
}

/* Is the function at [@start, @start + @len) the loop?  < 0: -ENOMEM. */
static int is_loop(struct vm_memory *m, uint64_t start, size_t len)
{
	_cleanup_(freep) uint8_t *code = malloc(len);

	if (!code)
		return fail(-ENOMEM);
	return vm_memory_read_once(m, start, code, len) && count_stores(code, len) >= STORES_MIN;
}

/* Large functions, by the search table of .eh_frame_hdr: [1 1b 03 3b][.eh_frame i32][n u32], then of each function, ascending
 * [its first byte i32][its FDE i32], from the table's begin.  FDE: [length u32][CIE u32][first byte, from here i32][bytes u32]. */
static int find_loop(struct vm_memory *m, uint64_t table, struct uw_script *script)
{
	uint32_t head[3], n;
	int32_t entry[2], next;
	int r;

	if (!table || !vm_memory_read(m, table, head, sizeof(head)) || head[0] != 0x3b031b01)
		return fail(-ENOTSUP);
	n = (uint32_t)min_u64(head[2], FDES_MAX);
	for (uint32_t i = 0; i + 1 < n; i++) {
		uint64_t at = table + sizeof(head) + 8ull * i, start;
		uint32_t fde[FDE_HEAD / 4];

		if (!vm_memory_read(m, at, entry, sizeof(entry)) ||
		    !vm_memory_read(m, at + sizeof(entry), &next, sizeof(next)))
			return fail(-ENOTSUP);
		if ((int64_t)next - entry[0] < LOOP_MIN ||
		    !vm_memory_read(m, table + (uint64_t)(int64_t)entry[1], fde, sizeof(fde)) ||
		    fde[3] < LOOP_MIN || fde[3] > LOOP_MAX)
			continue;
		start = table + (uint64_t)(int64_t)entry[0];
		r = is_loop(m, start, fde[3]);
		if (r < 0)
			return trace(r);
		if (r) {
			script->eval_start = start;
			script->eval_end = start + fde[3];
			return 0;
		}
	}
	return fail(-ENOTSUP);
}

/* The address of the pointer to the VM.  From 3.3 on no export has it, but ruby_vm_at_exit() begins with its load:
 *
 *     mov n(%rip), %register     [48 or 4c] 8b [00 register 101] [n i32] */
static uint64_t find_vm(struct vm_memory *m, const struct vm_exports *x)
{
	uint64_t at = vm_exports_find(m, x, "ruby_current_vm_ptr", NULL), vm;
	uint8_t code[PROLOGUE];
	int32_t n;

	if (at)
		return at;
	at = vm_exports_find(m, x, "ruby_vm_at_exit", NULL);
	if (!at || !vm_memory_read(m, at, code, sizeof(code)))
		return 0;
	for (size_t i = 0; i + 7 <= sizeof(code); i++) {
		if ((code[i] & ~4) != 0x48 || code[i + 1] != 0x8b || (code[i + 2] & 0xc7) != 5)
			continue;
		memcpy(&n, code + i + 3, sizeof(n));
		at += i + 7 + (uint64_t)(int64_t)n;
		vm = vm_word(m, at);
		/* 0: the VM has not started.  Its main thread leads back to it. */
		return at >= x->data.start && at < x->data.end &&
				       (!vm ||
					vm_word(m, vm_word(m, vm + THREAD) + THREAD_VM) == vm)
			       ? at
			       : 0;
	}
	return 0;
}

int ruby_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script)
{
	struct uw_script script = {.frame = DWARF_R15, .next = DWARF_R14};
	const struct version *version;
	struct vm_exports x;
	char text[8];
	uint64_t at;
	int r;

	if (!vm_exports_of(m, image, &x))
		return fail(-ENOEXEC);
	at = vm_exports_find(m, &x, "ruby_version", NULL);
	if (!at)
		return fail(-ENOEXEC);
	if (UW_ARCH_HOST != UW_ARCH_X86_64 || !vm_memory_text(m, at, text, sizeof(text)) ||
	    text[0] < '0' || text[0] > '9' || text[1] != '.' || text[2] < '0' || text[2] > '9' ||
	    text[3] != '.')
		return fail(-ENOTSUP);
	version = version_of((uint32_t)(text[0] - '0') << 8 | (uint32_t)(text[2] - '0'));
	if (!version)
		return fail(-ENOTSUP);
	r = find_loop(m, x.eh_frame_hdr, &script);
	if (r < 0)
		return trace(r);
	script.current = find_vm(m, &x);
	script.thread = THREAD;
	script.next_thread = NEXT_THREAD;
	script.native = version->native;
	script.through = version->through;
	script.context = version->context;
	script.innermost = INNERMOST;
	script.version = version->version;
	script.offsets = (struct uw_script_offsets){
		.frame_bytes = version->frame_bytes,
		.instruction = 0,
		.function = 16,
		.flags = 32,
		.last = 0x20, /* VM_FRAME_FLAG_FINISH */
		.body = 16,
		.len = 4,
		.code = 8,
		.unit = 8,
		.definition = 16,
		.handler = 8,
		.sizes = version->sizes,
	};
	*ret_script = script;
	return 0;
}

/* ---- names ---- */

static bool string_text(struct vm_memory *m, const struct version *v, uint64_t string, char *to,
			size_t room)
{
	uint64_t flags = vm_word(m, string), len, at = string + EMBEDDED_AT;

	if (string & 7 || (flags & TYPE_MASK) != T_STRING)
		return false;
	len = flags >> EMBEDDED_LEN_AT & 0x1f;
	if (v->sizes || flags & NOT_EMBEDDED) {
		len = vm_word(m, string + HEAP_LEN);
		at = string + STRING_HEAP;
	}
	if (flags & NOT_EMBEDDED)
		at = vm_word(m, at);
	return vm_memory_name(m, at, len, to, room);
}

/* A path is a string, or [path, real path]. */
static bool path_text(struct vm_memory *m, const struct version *v, uint64_t path, char *to,
		      size_t room)
{
	uint64_t flags = vm_word(m, path);

	if ((flags & TYPE_MASK) == T_ARRAY)
		path = vm_word(m, flags & NOT_EMBEDDED ? path + EMBEDDED_AT
						       : vm_word(m, path + ARRAY_HEAP));
	return string_text(m, v, path, to, room);
}

/* How many places with line information there are up to @position. */
static uint32_t rank_of(struct vm_memory *m, uint64_t table, uint32_t position)
{
	uint64_t block, bits, before = 0;
	uint32_t in;

	if (position < IMMEDIATE)
		return (uint32_t)(vm_word(m, table + 8ull * (position / IMMEDIATE_WORD)) >>
				  (position % IMMEDIATE_WORD * 7)) &
		       0x7f;
	position -= IMMEDIATE;
	block = table + 8ull * (IMMEDIATE / IMMEDIATE_WORD) +
		(uint64_t)BLOCK_BYTES * (position / BLOCK);
	in = position % BLOCK;
	if (in / 64)
		before = vm_word(m, block + 8) >> ((in / 64 - 1) * 9) & 0x1ff;
	bits = vm_word(m, block + 16 + 8ull * (in / 64)) << (63 - in % 64);
	return vm_half(m, block) + (uint32_t)before + (uint32_t)__builtin_popcountll(bits);
}

/* The line of the instruction that ends at @position; 0: not known. */
static uint32_t line_of(struct vm_memory *m, const struct version *v, uint64_t body,
			uint32_t position)
{
	uint64_t lines = vm_word(m, body + v->lines), places = vm_word(m, body + v->places);
	uint32_t n = vm_half(m, body + v->n_lines), rank = 1;

	if (!lines || !n)
		return 0;
	if (n > 1 && !places)
		return 0;
	if (n > 1)
		rank = rank_of(m, places, position ? position - 1 : 0);
	return rank && rank <= n ? vm_half(m, lines + (uint64_t)v->line_bytes * (rank - 1)) : 0;
}

/* ---- names of methods in C ----
 *
 * A method's frame leads to its method entry (struct rb_method_entry_struct), and that by its definition to the C function or the iseq.
 * A method entry has the number of its name (ID).  The strings are in arrays of arrays that a structure in the library's
 * data leads to, which no export names (symbol.c):
 *
 *     ruby_global_symbols   [last number u32][pad][table][array of arrays][hash]
 *     array                 512 times: string, symbol */

static uint64_t array_len(struct vm_memory *m, const struct version *v, uint64_t array,
			  uint64_t *ret_elements)
{
	uint64_t flags = vm_word(m, array), most = v->sizes ? 0x7f : 3;

	if (!array || array & 7 || (flags & TYPE_MASK) != T_ARRAY)
		return 0;
	*ret_elements = flags & NOT_EMBEDDED ? array + EMBEDDED_AT : vm_word(m, array + ARRAY_HEAP);
	return flags & NOT_EMBEDDED ? flags >> ARRAY_LEN_AT & most : vm_word(m, array + HEAP_LEN);
}

static uint64_t element(struct vm_memory *m, const struct version *v, uint64_t array,
			uint64_t index)
{
	uint64_t elements, len = array_len(m, v, array, &elements);

	/* No array in memory is as long: the sum cannot wrap. */
	return index < min_u64(len, VM_ADDRESS_MAX / 8) ? vm_word(m, elements + 8 * index) : 0;
}

static uint64_t id_string(struct vm_memory *m, const struct version *v, uint64_t ids, uint64_t id)
{
	uint64_t number = id > v->last_operator ? id >> ID_SCOPE : id;

	return element(m, v, element(m, v, ids, number / ID_UNIT), number % ID_UNIT * 2);
}

/* Do the strings of @ids have the name of the operator `+`, by its character? */
static bool are_ids(struct vm_memory *m, const struct version *v, uint64_t ids)
{
	char name[SCRIPT_NAME_ROOM];

	return string_text(m, v, id_string(m, v, ids, '+'), name, sizeof(name)) &&
	       !strcmp(name, "+");
}

/* The array of arrays; 0: not found. */
static uint64_t find_ids(struct vm_memory *m, const struct version *v, uint64_t image)
{
	struct vm_exports x;
	uint64_t words[4];

	if (!vm_exports_of(m, image, &x))
		return 0;
	for (uint64_t at = x.data.start; x.data.end - at >= sizeof(words); at += 8)
		if (vm_memory_read(m, at, words, sizeof(words)) && (uint32_t)words[0] &&
		    vm_memory_is_address(words[1]) && vm_memory_is_address(words[2]) &&
		    vm_memory_is_address(words[3]) && are_ids(m, v, words[2]))
			return words[2];
	return 0;
}

/* ---- names of classes ----
 *
 * The name of a class is a string among its values: up to 3.1 in a table of them (st.h), in 3.2 in an array, later in the
 * class itself. A singleton class has none, but its object there, the one that has it for class. */

/* The value at number @i of @class; 0: none. */
static uint64_t class_value(struct vm_memory *m, const struct version *v, uint64_t class,
			    uint32_t i)
{
	uint64_t rest = class + CLASS_REST, table;

	if (v->version == 0x302)
		return i < CLASS_VALUES ? vm_word(m, vm_word(m, rest + IVARS) + 8ull * i) : 0;
	if (v->sizes)
		return i < CLASS_WORDS ? vm_word(m, rest + 8ull * i) : 0;
	table = vm_word(m, vm_word(m, rest) + IVARS);
	if (!table || i >= min_u64(vm_word(m, table + IVARS_BOUND), IVARS_MAX))
		return 0;
	return vm_word(m,
		       vm_word(m, table + IVARS_ENTRIES) + (uint64_t)IVAR_BYTES * i + IVAR_VALUE);
}

static bool is_class(struct vm_memory *m, uint64_t object)
{
	uint64_t type =
		vm_memory_is_address(object) && !(object & 7) ? vm_word(m, object) & TYPE_MASK : 0;

	return type == T_CLASS || type == T_MODULE;
}

/* Outer::Inner */
static bool is_class_name(const char *name)
{
	return *name >= 'A' && *name <= 'Z' &&
	       !name[strspn(name,
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:")];
}

static bool class_name(struct vm_memory *m, const struct version *v, uint64_t class,
		       char to[static SCRIPT_NAME_ROOM])
{
	for (uint32_t i = 0; is_class(m, class) && i < IVARS_MAX; i++) {
		uint64_t value = class_value(m, v, class, i);

		if (vm_memory_is_address(value) && string_text(m, v, value, to, SCRIPT_NAME_ROOM) &&
		    is_class_name(to))
			return true;
	}
	return false;
}

/* The class or module with the singleton class @class; 0: none. */
static uint64_t singleton_of(struct vm_memory *m, const struct version *v, uint64_t class)
{
	for (uint32_t i = 0; is_class(m, class) && i < IVARS_MAX; i++) {
		uint64_t value = class_value(m, v, class, i);

		if (is_class(m, value) && vm_word(m, value + KLASS) == class)
			return value;
	}
	return 0;
}

/* @script->names is the array, once it is found.  All data of the library is searched, so not for each method in vain. */
static bool has_ids(struct vm_memory *m, struct uw_script *script, const struct version *v,
		    uint64_t image)
{
	if (are_ids(m, v, script->names))
		return true;
	if (script->searches >= SEARCHES_MAX)
		return false;
	script->names = find_ids(m, v, image);
	script->searches = script->names ? 0 : script->searches + 1;
	return script->names != 0;
}

/* Integer#times, Math.sqrt; without a class's name that of the method. */
static void put_class(struct vm_memory *m, const struct version *v, uint64_t method,
		      const char *name, struct script_text *ret_text)
{
	uint64_t owner = vm_word(m, method + OWNER);
	char class[SCRIPT_NAME_ROOM];

	if (class_name(m, v, owner, class))
		(void)snprintf(ret_text->function, SCRIPT_TEXT_ROOM, "%s#%s", class, name);
	else if (class_name(m, v, singleton_of(m, v, owner), class))
		(void)snprintf(ret_text->function, SCRIPT_TEXT_ROOM, "%s.%s", class, name);
	else
		(void)snprintf(ret_text->function, SCRIPT_TEXT_ROOM, "%s", name);
}

static bool method_in_c(struct vm_memory *m, struct uw_script *script, const struct version *v,
			uint64_t image, uint64_t method, struct script_text *ret_text)
{
	char name[SCRIPT_NAME_ROOM];

	if (!has_ids(m, script, v, image) ||
	    !string_text(m, v, id_string(m, v, script->names, vm_word(m, method + METHOD_ID)), name,
			 sizeof(name)))
		return false;
	put_class(m, v, method, name, ret_text);
	return true;
}

/* @method: of the iseq; 0: a block, or the code of a file or of a class. */
static bool iseq_text(struct vm_memory *m, const struct uw_script *script, const struct version *v,
		      uint64_t iseq, uint64_t method, uint32_t position,
		      struct script_text *ret_text)
{
	uint64_t body = vm_word(m, iseq + script->offsets.body), first;
	char label[SCRIPT_NAME_ROOM];

	if (!body || !string_text(m, v, vm_word(m, body + LABEL), label, sizeof(label)))
		return false;
	/* Another function is there by now. */
	if (position != UW_SCRIPT_NO_POSITION && position > vm_half(m, body + script->offsets.len))
		return false;
	if (method)
		put_class(m, v, method, label, ret_text);
	else
		(void)snprintf(ret_text->function, SCRIPT_TEXT_ROOM, "%s", label);
	(void)path_text(m, v, vm_word(m, body + PATH), ret_text->file, SCRIPT_TEXT_ROOM);
	first = vm_word(m, body + FIRST_LINE);
	if (position != UW_SCRIPT_NO_POSITION)
		ret_text->line = line_of(m, v, body, position);
	if (!ret_text->line && (v->sizes || first & 1)) /* a Fixnum */
		ret_text->line = (uint32_t)(v->sizes ? first : first >> 1);
	return true;
}

bool ruby_text(struct vm_memory *m, struct uw_script *script, uint64_t image, uint64_t frame,
	       struct script_text *ret_text)
{
	const struct version *v = version_of(script->version);
	uint64_t function = uw_script_function(frame), flags = vm_word(m, function), definition;
	uint64_t head[2];
	uint32_t position = uw_script_position(frame);

	if (!v || (flags & TYPE_MASK) != T_IMEMO || !script_sign_fits(m, script, true, frame))
		return false;
	*ret_text = (struct script_text){.line = 0};
	switch (flags >> IMEMO_AT & 0xf) {
	case IMEMO_ISEQ:
		return iseq_text(m, script, v, function, 0, position, ret_text);
	case IMEMO_METHOD:
		break;
	default:
		return false;
	}
	definition = vm_word(m, function + script->offsets.definition);
	if (!vm_memory_read(m, definition, head, sizeof(head)))
		return false;
	if ((head[0] & 0xf) != METHOD_OF_ISEQ)
		return method_in_c(m, script, v, image, function, ret_text);
	return iseq_text(m, script, v, head[1], function, position, ret_text);
}
