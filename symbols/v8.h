/* v8.h - V8 describes itself: its program exports the layout of its frames and objects (v8dbg_*, for debuggers), and the names of
 * functions are in the heap of its process.  Private to symbols/ and unwinder/.  Thread: any.
 *
 *   node or libnode.so, .dynsym   v8dbg_*, the version of V8
 *
 * Objects move: a young one at most collections, an old one rarely (SharedFunctionInfo).  Each pointer is followed only where the
 * type of the object is the expected one. */
#pragma once

#include "symbols/image.h"
#include "symbols/script-text.h"

/* Where the lines of sources begin, as far as they were counted.  Of one process. */
struct v8_lines;
struct v8_lines *v8_lines_free(struct v8_lines *lines);

/* The V8 in the program or library at @image; errors as interpreter_load(). */
int v8_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script);

/* Is this word a pointer to an object of the heap? */
static inline bool v8_is_object(uint64_t word)
{
	return (word & 3) == 1;
}
struct v8_function {
	uint64_t
		frame; /* uw_script_frame() of its SharedFunctionInfo: the position is a sign of its content */
	uint64_t bytecode;	  /* its BytecodeArray; 0: none that is known */
	bool user;		  /* of a script; false: V8's own */
	uint64_t code, code_size; /* what runs when it is called; code_size 0: not known */
};
/* What the JSFunction @function runs.  false: there is none. */
bool v8_function(struct vm_memory *m, const struct uw_v8 *v, uint64_t function,
		 struct v8_function *ret_function);
/* Is a BytecodeArray at @object? */
bool v8_is_bytecode(struct vm_memory *m, const struct uw_v8 *v, uint64_t object);

/* The function that @frame stands for, and where it begins.  *lines: NULL at first.  false: there is none, or memory is used for
 * another by now. */
bool v8_text(struct vm_memory *m, const struct uw_v8 *v, struct v8_lines **lines, uint64_t frame,
	     struct script_text *ret_text);
