/* python-walk.h - one stack of CPython, for native-python.c, native-pycalls.c and native-pycode.c.  Private to unwinder/.  Thread: the engine's. */
#pragma once

#include "unwinder/script-frames.h"

enum {
	PYTHON_CHUNK_BEGIN =
		32, /* bytes before the first frame of a piece of CPython's stack, at a page's begin */
	PYTHON_RUN_ENDS = 1, /* in place of a caller's code */
};

/* A frame. */
struct python_frame {
	uint64_t address, code, previous;
	bool entry;    /* the last of its run */
	bool exact;    /* copied at the sample */
	bool same;     /* its words read the same before the sample and after */
	bool proved;   /* the function */
	bool calling;  /* it waits for a function that it called */
	uint64_t sign; /* of its code object as of the sample (symbols/image.h); 0: not known */
	bool hidden;   /* the same: the interpreter's own */
	bool there; /* the words are those of the function that it has at the sample, as far as known */
};

/* One stack. */
struct python_walk {
	struct native *e;
	struct walk *w;
	struct native_script *s;
	const struct uw_python *py;
	struct cfi_regs regs; /* of the innermost run, once has_regs */
	bool has_regs;
	uint32_t exact;	 /* of the frames copied at the sample: the one that is looked for first */
	uint64_t state;	 /* of the thread, frames that are read late; 0: not known */
	uint64_t cursor; /* the copy is searched from here on */
	struct script_function seen; /* python_code_of() */
};

static inline bool in_copy(const struct walk *w, uint64_t address, size_t len)
{
	uint64_t at = address - w->base;

	return at < w->snapshot->stack_len && len <= w->snapshot->stack_len - at;
}

static inline bool read_copy(const struct walk *w, uint64_t address, void *to, size_t len)
{
	if (!in_copy(w, address, len))
		return false;
	memcpy(to, w->stack + (address - w->base), len);
	return true;
}

/* From the process, as it is now. */
static inline bool read_late(struct python_walk *pw, uint64_t address, void *to, size_t len)
{
	return vm_memory_read(&pw->s->memory, address, to, len);
}

static inline uint64_t half_of(const uint8_t *bytes, size_t at)
{
	uint32_t half;

	memcpy(&half, bytes + at, sizeof(half));
	return half;
}

/* A function's id for the calls that are remembered. */
static inline uint64_t id_of(const struct script_function *code)
{
	return code->address | code->sign;
}

/* ---- native-pycode.c ---- */
/* The code object at @address; NULL: there is none.  One that was freed is replaced when another is at its address. */
const struct script_function *python_code_at(struct python_walk *pw, uint64_t address);
/* May the function with this id be proved?  Only if its code object was read before the sample, too: where it was found first after that,
 * another one may have been there.  Where objects replace each other one may have been there between two readings of another one: nothing
 * is proved for a while. */
bool python_is_known(const struct python_walk *pw, uint64_t id);
/* The code object of @f: with the sign that it had at the sample, where that is known, whatever is there by now; it is valid up to the
 * next call.  Else the same as python_code_at(). */
const struct script_function *python_code_of(struct python_walk *pw, const struct python_frame *f);
/* The known code object that has @instruction; NULL: none. */
const struct script_function *python_known_code(struct python_walk *pw, uint64_t instruction);
/* The same, with a search of the memory before the instruction.  The word of a register may be any object's: the search for one
 * that was searched in vain is repeated no sooner than a function is read again. */
const struct script_function *python_find_code(struct python_walk *pw, uint64_t instruction);
/* Is the instruction in the loop's frame alone, as that has changed to the caller's of a function that ends?  @run: index of the loop,
 * which has @regs. */
bool python_takes_from_frame(struct python_walk *pw, uint32_t run, const struct cfi_regs *regs);
/* The function of the loop at index @run, which has @regs, by what its code behind the call shows.  NULL: not known. */
const struct script_function *python_function_of_slots(struct python_walk *pw, uint32_t run,
						       const struct cfi_regs *regs);

/* ---- native-python.c ---- */
/* The Python frame at @address.  false: it does not look like one. */
bool python_read_frame(struct python_walk *pw, uint64_t address, struct python_frame *ret_frame);

/* ---- native-pycalls.c ---- */
/* Is @f the first frame of its run? */
bool python_ends_run(const struct python_walk *pw, const struct python_frame *f);
/* Under which the caller of the function @code with its frame at @frame is noted (script_note()): its code and frame. */
uint64_t python_key_of_call(uint64_t frame, uint64_t code);
/* The same of the thread's outermost frame: its address. */
uint64_t python_key_of_root(const struct python_walk *pw);
/* Is @address on the thread's C stack, as far as that is known? */
bool python_is_on_c_stack(const struct python_walk *pw, uint64_t address);
/* Notes which function has called which, as the list of run @k from @first on reads now. */
void python_note_calls(struct python_walk *pw, uint32_t k, const struct python_frame *first);
/* The same of the frames that the thread has now.  Before python_note_calls() of the stack. */
void python_note_current(struct python_walk *pw);
