/* image.h - the unwind half of a loaded module. For symbols/ and unwinder/. Thread: filled by the
 * loader, then immutable and read by the engines. */
#pragma once

#include "base/python-sign.h"
#include "symbols/module.h"

struct uw_section {
	uint8_t *data; /* our copy; NULL: not there */
	size_t size;
	uint64_t vaddr;
	bool unshared; /* `data` is of base/unshared.h */
};

struct uw_segment { /* PT_LOAD */
	uint64_t offset, vaddr, filesz, memsz;
	bool exec;
};

/* The search table in .eh_frame_hdr, of the usual form: pairs of int32, both relative to the
 * section, sorted by the first. */
struct uw_table {
	const uint8_t *entries; /* in the section's data; NULL: none, or of another form */
	size_t n;
	/* Where a search begins, one more than n_slices; NULL: binary search of the whole table. */
	uint32_t *slices;
	size_t n_slices;
	unsigned shift;
};

/* Code of a Java VM (hotspot.h). */
enum { UW_VM_HEAPS = 8 };
struct uw_vm_code {
	struct uw_vm_range {
		uint64_t start, end;
	} heaps[UW_VM_HEAPS];		/* new code can appear in them at any time */
	uint32_t n_heaps;		/* 0: no VM */
	uint32_t n_blobs;		/* pieces of code at the time of reading */
	struct uw_vm_range interpreter; /* a frame there has its Method at rbp + method */
	int64_t method;
};

/* CPython's frames (python.h): addresses of one process, offsets in bytes.
 *
 *   struct _PyInterpreterFrame   code ──► PyCodeObject, which has its bytecode at the end
 *                                previous ──► the caller's */
struct uw_python_offsets {
	uint16_t code, previous, owner;
	uint16_t
		is_entry; /* 3.11: set in the first frame that a run of the loop has; 0: 3.12 on, see native-python.c */
	uint16_t bytecode; /* in PyCodeObject; its length is in ob_size, in units of 2 bytes */
	uint16_t filename, qualname, line; /* in PyCodeObject: two pointers, i32 */
	uint16_t stack, locals;		   /* the same: words of its frame for each, i32 */
	uint16_t frame_words;		   /* of a frame before these */
};
/* The memory of a code object that was freed is used for others, as is that of its name, so addresses alone do not name a
 * function.  A sign of its content, never 0, is in the bits that an object's address does not have: 55 to 47, 2 to 0. */
#define UW_PYTHON_SIGN (0x1ffull << 47 | 7)
/* @sign: python_sign(). */
static inline uint64_t uw_python_sign(uint64_t sign)
{
	return (sign >> 3) << 47 | (sign & 7);
}
static inline uint32_t uw_python_minor(uint32_t version)
{
	return version & 0xff;
}
/* Bytes that are read of a frame (up to its locals), of a code object (up to its bytecode), of a frame of PHP or Ruby,
 * and of the stack behind the place where PHP's loop keeps registers.  A layout outside these is refused
 * (uw_python_fits(), uw_script_fits()). */
enum {
	UW_PYTHON_FRAME = 80,
	UW_PYTHON_CODE = 208,
	UW_PYTHON_SLOTS = 4,
	UW_SCRIPT_FRAME = 80,
	UW_SCRIPT_SAVED = 256
};
struct uw_python {
	uint32_t version; /* 0x30b for 3.11; 0: no Python */
	struct uw_python_offsets offsets;
	uint64_t eval_start, eval_end; /* _PyEval_EvalFrameDefault */
	uint64_t code_type, none;      /* PyCode_Type, None */
	/* Where its threads are: the address of the pointer to the main interpreter, and offsets of the first thread state in
	 * it, and of the next one, the kernel's id and the frame (3.11, 3.12: _PyCFrame) in a thread state. */
	struct uw_python_threads {
		uint64_t interpreter; /* 0: not known */
		uint16_t threads, next, native, frame;
	} threads;
	bool has_frame, has_next;
	uint8_t frame,
		next; /* DWARF numbers of the registers that the loop has its frame and its instruction in */
	uint8_t slots[UW_PYTHON_SLOTS],
		n_slots; /* where it keeps the instruction else: bytes above its rsp */
};

/* V8's frames and heap (v8.h), by the constants that its program exports: offsets in bytes, numbers of types.
 *
 *   frame     [fp + fp_context] a context; [fp + fp_function] JSFunction ──► SharedFunctionInfo ──► ScopeInfo, Script
 *             [fp + fp_bytecode] interpreted: BytecodeArray
 *
 * A pointer has its lowest two bits 01, a small integer (Smi) is in the upper half of its word. */
struct uw_v8 {
	uint32_t version; /* 0xb03 for 11.3; 0: no V8 */
	int16_t fp_context, fp_function, fp_bytecode;
	int16_t map, instance_type;	     /* in each object; in its map, u16 */
	int16_t shared;			     /* in a JSFunction */
	int16_t data, name_or_scope, script; /* in a SharedFunctionInfo */
	int16_t baseline;		     /* in a Code: its BytecodeArray */
	int16_t script_name, script_source;  /* in a Script */
	int16_t length, chars, chars2;	     /* in a String: u32; in a sequential one */
	int16_t first, second, actual, parent, offset, resource; /* in the other ones */
	int16_t type_shared, type_scope, type_script, type_bytecode, type_code;
	int16_t not_string; /* the first type that is none */
	int16_t form_mask, form_sequential, form_cons, form_external, form_sliced, form_thin;
	int16_t coding_mask, coding_latin1;
	int16_t n_locals, locals; /* words of a ScopeInfo, from the one behind its map on */
	/* By the version, 0: not known: in a JSFunction; in a Code: its first byte, and its bytes, u32. */
	int16_t code, code_start, code_size;
};

/* The frames of PHP's and Ruby's functions (php.h, ruby.h): addresses of one process, offsets in bytes.
 *
 *   frame of the interpreter     function ──► op_array or iseq ──► instructions [code, code + unit * len)
 *                                instruction
 *                                the caller's frame: `previous` points to it (PHP), or it lies behind (Ruby)
 *
 * The evaluation loop has its frame and its next instruction in two registers that calls preserve, so each run of the loop on the
 * stack shows both. */
enum { UW_SCRIPT_DECLARED = 12, UW_SCRIPT_CLASS = 16 };
struct uw_script {
	uint32_t version;	       /* PHP: 0x802 for 8.2; Ruby: 0x301; 0: none */
	uint64_t eval_start, eval_end; /* the evaluation loop */
	/* PHP: the address of the pointer to the innermost frame; Ruby: that to the VM, and offsets of its main thread, of the next
	 * thread and the kernel's id in a thread (`through` is not 0: that of a pointer to where the id is), of its context, and of the innermost frame in that.  0: not known. */
	uint64_t current;
	uint16_t thread, next_thread, native, through, context, innermost;
	uint64_t names;	   /* Ruby: for ruby.c */
	uint32_t searches; /* ... in vain, one after another */
	struct uw_v8 v8;   /* Node.js, which has no evaluation loop */
	struct uw_script_offsets {
		uint16_t frame_bytes, instruction, function, previous;
		uint16_t
			flags; /* in the frame; Ruby: of the pointer to its environment, which begins with them */
		uint32_t last; /* the flag of the first frame that a run of the loop has */
		uint16_t body; /* Ruby: in the iseq */
		uint16_t code, len,
			handler;     /* in the op_array or the body; handler: of a function in C */
		uint16_t unit;	     /* bytes of an instruction, or of its words */
		uint16_t definition; /* Ruby: in the method entry */
		uint16_t cache,
			cache_len; /* PHP: the run-time cache, in the frame; its bytes, in the op_array */
		uint16_t filename; /* PHP: in the op_array; the first line follows */
		uint16_t
			declared; /* PHP: the same: how many functions it declares, u32; their list is UW_SCRIPT_DECLARED bytes on */
		bool sizes; /* Ruby: see ruby.c */
	} offsets;
	uint8_t frame, next; /* DWARF numbers of the registers */
	/* PHP: where the loop keeps both of its caller, from its stack pointer on.  0: unwind information shows them. */
	uint8_t saved_frame, saved_next;
};
/* x86-64's `mov disp8(%rsp), %reg` of 8 bytes, where @reg has the instruction set's number: REX.W with R, 8b, ModRM,
 * SIB.  The slot; < 0: the 5 bytes at @p are something else. */
static inline int uw_python_load(const uint8_t *p, unsigned reg)
{
	bool is = p[0] == (0x48 | (reg & 8) >> 1) && p[1] == 0x8b &&
		  p[2] == (0x44 | (reg & 7) << 3) && p[3] == 0x24 && p[4] < 0x80 && !(p[4] & 7);

	return is ? p[4] : -1;
}
/* Do the offsets lie in what the engine reads, and the registers in a machine's?  The process that found them has parsed
 * the memory of a target.  A layout with version 0 is not used. */
static inline bool uw_python_fits(const struct uw_python *p)
{
	const struct uw_python_offsets *o = &p->offsets;

	return !p->version || (o->code <= UW_PYTHON_FRAME - 8 &&
			       o->previous <= UW_PYTHON_FRAME - 8 && o->owner < UW_PYTHON_FRAME &&
			       o->is_entry < UW_PYTHON_FRAME && o->filename <= UW_PYTHON_CODE - 8 &&
			       o->qualname <= UW_PYTHON_CODE - 8 && o->line <= UW_PYTHON_CODE - 4 &&
			       o->stack <= UW_PYTHON_CODE - 4 && o->locals <= UW_PYTHON_CODE - 4 &&
			       p->frame < 16 && p->next < 16 && p->n_slots <= UW_PYTHON_SLOTS);
}
/* Words of the stack are near the frame pointer, the others in objects. */
static inline bool uw_v8_fits(const struct uw_v8 *v)
{
	enum { NEAR = 256 };

	return !v->version ||
	       (v->fp_context < 0 && v->fp_context >= -NEAR && v->fp_function < 0 &&
		v->fp_function >= -NEAR && v->fp_bytecode <= 0 && v->fp_bytecode >= -NEAR &&
		v->map >= 0 && v->instance_type >= 0 && v->shared >= 0 && v->data >= 0 &&
		v->name_or_scope >= 0 && v->baseline >= 0 && v->code >= 0 && v->code_start >= 0 &&
		v->code_size >= 0 && v->n_locals >= 0 && v->locals >= 0);
}
static inline bool uw_script_fits(const struct uw_script *s)
{
	const struct uw_script_offsets *o = &s->offsets;
	uint16_t last = o->frame_bytes - 8;

	if (!uw_v8_fits(&s->v8))
		return false;
	return !s->version ||
	       (o->frame_bytes >= 8 && o->frame_bytes <= UW_SCRIPT_FRAME &&
		o->instruction <= last && o->function <= last && o->previous <= last &&
		o->flags <= last && o->unit && s->frame < 16 && s->next < 16 &&
		s->saved_frame <= UW_SCRIPT_SAVED - 8 && s->saved_next <= UW_SCRIPT_SAVED - 8);
}
enum { UW_SCRIPT_POSITION_BITS = 12, UW_SCRIPT_NO_POSITION = (1 << UW_SCRIPT_POSITION_BITS) - 1 };
enum { UW_SCRIPT_ADDRESS_BITS = 56 }; /* and bits of the sign above, see uw_script_place() */
/* The address in the module of an interpreter that stands for a place in a function: @function is aligned to 8 bytes and
 * below 1 << 47, @position is the number of the instruction, cut at UW_SCRIPT_NO_POSITION. */
static inline uint64_t uw_script_frame(uint64_t function, uint64_t position)
{
	return function >> 3 << UW_SCRIPT_POSITION_BITS |
	       (position < UW_SCRIPT_NO_POSITION ? position : UW_SCRIPT_NO_POSITION);
}
/* The same with a part of the @sign of the function's content (script-sign.h), as the memory of a function that was freed is used for
 * others.  62 bits; the upper six are 0 without a sign:
 *
 *     1 sssssssss ttt a..a sssspppppppp   thirteen bits of the sign, and a position below 255, which stands for none
 *     0 sssssssss ttt a..a pppppppppppp   a number from 16 on that the sign gives, with any position
 *
 * t is the number of the address's upper seven bits in the table; a are its lower 40 without the last three. */
enum { UW_SCRIPT_SHORT = 255, UW_SCRIPT_LONG_SIGN = 512 - 16 };
enum { UW_SCRIPT_TOP_BITS = 3, UW_SCRIPT_LOW_BITS = 37 };
/* x86-64: of a program, which may be loaded anywhere; of other mappings, in either layout. */
static inline uint64_t uw_script_top(uint64_t number)
{
	static const uint8_t tops[1 << UW_SCRIPT_TOP_BITS] = {0,    0x55, 0x56, 0x2a,
							      0x7c, 0x7d, 0x7e, 0x7f};

	return (uint64_t)tops[number & ((1 << UW_SCRIPT_TOP_BITS) - 1)] << 40;
}
static inline bool uw_script_is_signed(uint64_t place)
{
	return place >> UW_SCRIPT_ADDRESS_BITS;
}
/* Without a sign where the table has not the address's upper bits. */
static inline uint64_t uw_script_place(uint64_t function, uint64_t position, uint32_t sign)
{
	const uint64_t low = (1ull << UW_SCRIPT_LOW_BITS) - 1;
	bool none = position >= UW_SCRIPT_NO_POSITION;
	uint64_t high = 16 + sign % UW_SCRIPT_LONG_SIGN, top = 0;

	while (top < 1 << UW_SCRIPT_TOP_BITS && uw_script_top(top) != function >> 40 << 40)
		top++;
	if (!sign || top == 1 << UW_SCRIPT_TOP_BITS)
		return uw_script_frame(function, position);
	if (none || position < UW_SCRIPT_SHORT) {
		position = (sign & 15) << 8 | (none ? UW_SCRIPT_SHORT : position);
		high = 0x200 | (sign >> 4 & 0x1ff);
	}
	return ((high << UW_SCRIPT_TOP_BITS | top) << UW_SCRIPT_LOW_BITS | (function >> 3 & low))
		       << UW_SCRIPT_POSITION_BITS |
	       position;
}
static inline uint64_t uw_script_function(uint64_t frame)
{
	uint64_t at = frame >> UW_SCRIPT_POSITION_BITS;

	return uw_script_is_signed(frame) ? uw_script_top(at >> UW_SCRIPT_LOW_BITS) |
						    (at & ((1ull << UW_SCRIPT_LOW_BITS) - 1)) << 3
					  : at << 3;
}
static inline bool uw_script_is_short(uint64_t place)
{
	return place >> (UW_SCRIPT_ADDRESS_BITS + 5);
}
/* UW_SCRIPT_NO_POSITION: none. */
static inline uint32_t uw_script_position(uint64_t place)
{
	uint32_t position = place & UW_SCRIPT_NO_POSITION;

	if (!uw_script_is_short(place))
		return position;
	position &= UW_SCRIPT_SHORT;
	return position == UW_SCRIPT_SHORT ? (uint32_t)UW_SCRIPT_NO_POSITION : position;
}
/* What places of one function have in common: @place without its position.  (Of one with a sign those below UW_SCRIPT_SHORT and those
 * above differ.) */
static inline uint64_t uw_script_without_position(uint64_t place)
{
	return place &
	       ~(uint64_t)(uw_script_is_short(place) ? UW_SCRIPT_SHORT : UW_SCRIPT_NO_POSITION);
}
/* Is @place in a function with this sign, as far as it has bits of it? */
static inline bool uw_script_has_sign(uint64_t place, uint32_t sign)
{
	return !uw_script_is_signed(place) ||
	       uw_script_place(uw_script_function(place), uw_script_position(place), sign) == place;
}

struct uw_image {
	enum uw_arch arch;
	struct uw_vm_code vm;
	struct uw_python python;
	struct uw_script script;
	struct uw_segment *segments;
	size_t n_segments;
	struct uw_section eh_frame_hdr, eh_frame, debug_frame;
	struct uw_table table;
	uint64_t load_bias;
	/* A duplicate of the file's descriptor for libdw (engine and lines), -1: none.  pread only.
	 */
	int fd;
	size_t bytes;
	/* There is a separate debug file, but its .debug_frame was not read (module.h). */
	bool has_separate;
};

/* Adds to the bytes of a module's unwind half, until it is dropped: memory that an engine keeps for
 * it.  Thread: unwinder. */
void uw_module_count_unwind(struct uw_module *module, size_t bytes);
/* The image of a module with its unwind half READY, else NULL. */
const struct uw_image *uw_module_image(const struct uw_module *module);
