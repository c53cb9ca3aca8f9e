/* python-walk.h - one stack of CPython, for native-python.c and native-pycode.c.  Private to unwinder/.  Thread: the engine's. */
#pragma once

#include "unwinder/script-frames.h"

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
 * another one may have been there. */
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
