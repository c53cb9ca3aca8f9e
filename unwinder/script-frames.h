/* script-frames.h - the functions of an interpreter in place of its evaluation loop's frames: the common part.  Private to
 * unwinder/.  Thread: the engine's.
 *
 *   native-script.c   the memory of the process, the proof of what was read from it, the new list of frames
 *   native-python.c   CPython
 *   native-frames.c   PHP, Ruby
 *   native-js.c       Node.js
 *
 * The process is not trusted: one stack reads so many pages and takes so many steps at most. */
#pragma once

#include "symbols/script-sign.h"
#include "symbols/v8.h"
#include "symbols/vm-memory.h"
#include "unwinder/native.h"

enum {
	SCRIPT_RUNS_MAX = 256,	 /* frames of the loop in one stack */
	SCRIPT_PASTS = 8192,	 /* frames of functions remembered */
	SCRIPT_FUNCTIONS = 1024, /* functions remembered */
	SCRIPT_SLOTS = 256,	 /* calls of the loop remembered */
	SCRIPT_NOWHERES = 64,	 /* words searched in vain that are remembered */
	SCRIPT_HITS = 1024,	 /* words looked for among the known functions */
	/* where a function may be: two at one place would be read again for each stack */
	SCRIPT_PLACES = 16,
};

/* The words of a frame, since when they read the same, and how often. */
struct script_past {
	uint64_t frame, code, words, since, counted;
	uint32_t serial, same;
};

/* A function: its instructions are at [code, code + len). */
struct script_function {
	uint64_t address, code, len;
	uint64_t handler;	     /* in C: its first byte; 0: it has instructions */
	uint64_t sign;		     /* Python: image.h */
	uint64_t filename, qualname; /* ... strings */
	uint64_t frame;		     /* JavaScript: uw_script_frame() */
	uint64_t read_at;	     /* Python: time of the sample; PHP, Ruby: of the reading */
	uint64_t since;		     /* ... that found it first as it is now */
	uint32_t serial;	     /* of the module; 0: free */
	bool hidden;		     /* the interpreter's own, between two functions */
	bool explored;		     /* the functions that it calls were looked at */
	bool gone;		     /* PHP, Ruby: another one is there by now */
	bool lacks_class;	     /* Ruby: the iseq of a method */
	struct script_sign parts;    /* PHP, Ruby */
};

/* Python: where the loop's code behind the return address @ra has its instruction. */
struct script_slot {
	uint64_t ra;
	uint32_t serial;
	int slot; /* < 0: not known */
};

/* Python: the known function that has an instruction, or that there is none. */
struct script_hit {
	uint64_t instruction;
	uint32_t serial, learned;
	const struct script_function *function;
};

/* Python: a word that is in no function. */
struct script_nowhere {
	uint64_t word, since, searched;
	uint32_t serial;
};

struct native_script {
	struct script_slot slots[SCRIPT_SLOTS];
	struct script_nowhere nowheres[SCRIPT_NOWHERES];
	struct script_hit hits[SCRIPT_HITS];
	uint32_t learned;      /* functions that were read first, or again with other words */
	uint64_t search_after; /* time of the next search for a function */
	struct script_function functions[SCRIPT_FUNCTIONS];
	struct script_past pasts[SCRIPT_PASTS];
	uint32_t
		compiled; /* JavaScript: the module of compiled code that was seen last before its file was looked for */
	/* of the stack in hand */
	struct vm_memory memory;
	uint64_t read_at; /* no page was read before this time */
	uint32_t serial;  /* of the interpreter's module */
	uint32_t n_steps;
	uint32_t runs[SCRIPT_RUNS_MAX]; /* indexes of the loop's frames */
	uint32_t n_runs;
	uint64_t frames[UW_MAX_FRAMES]; /* the new list */
	uint32_t n;
};

/* How long (ns) a reading of an object that may move stays valid: a part of the time from @since to @read_at, during
 * which the object was the same.  Each reading is a round trip to a helper process. */
static inline uint64_t script_fresh(uint64_t since, uint64_t read_at)
{
	enum { LEAST_NS = 20000000, PART = 4 };
	const uint64_t most_ns = 10000000000;

	return min_u64(max_u64((read_at - since) / PART, LEAST_NS), most_ns);
}

/* The process wrote the stack and the frames: what is looked for in them has an end.  false: it is reached. */
bool script_step(struct native_script *s, uint32_t n);
/* The words of the frame at @frame are @code and @words.  Did it read the same before the sample, often enough to be
 * proved?  Notes that it reads so now. */
bool script_same(struct native_script *s, const struct native *e, const struct walk *w,
		 uint64_t frame, uint64_t code, uint64_t words);
/* @key (a hash) was seen with @code and @words. */
void script_note(struct native_script *s, const struct native *e, uint64_t key, uint64_t code,
		 uint64_t words);
/* What @key was seen with each time lately.  SCRIPT_UNUSUAL: too seldom, or with something else, too; SCRIPT_PROVED:
 * before the sample, and as often as a frame has to read the same. */
enum script_usual { SCRIPT_UNUSUAL, SCRIPT_USUAL, SCRIPT_PROVED };
enum script_usual script_usual(struct native_script *s, const struct walk *w, uint64_t key,
			       uint64_t *ret_code, uint64_t *ret_words);
/* The place of the function at @address in the table, by its serial and address; it may hold another one, which is to be
 * replaced. */
struct script_function *script_function_slot(struct native_script *s, uint64_t address);
static inline bool script_function_has(const struct script_function *f, uint64_t instruction)
{
	return instruction - f->code < f->len;
}
void script_push(struct native_script *s, uint64_t frame);
/* The walk's frames [@from, @to) as they are. */
void script_push_native(struct native_script *s, const struct walk *w, uint32_t from, uint32_t to);

/* In place of frames of code: @w has no loop.  Fills the new list. */
void native_js(struct native_script *s, struct native *e, struct walk *w, const struct uw_v8 *v8);
/* Each fills the new list; s->runs are the frames of the loop, at least one. */
void native_python(struct native_script *s, struct native *e, struct walk *w,
		   const struct uw_python *py);
void native_frames(struct native_script *s, struct native *e, struct walk *w,
		   const struct uw_script *layout, enum uw_language language);
