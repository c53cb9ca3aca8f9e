/* script-frames.h - the functions of an interpreter in place of its evaluation loop's frames: the common part.  Private to
 * unwinder/.  Thread: the engine's.
 *
 *   native-script.c   the memory of the process, the proof of what was read from it, the new list of frames
 *   native-python.c   CPython
 *   native-pycalls.c  which of its functions have called which
 *   native-pycode.c   its code objects
 *   native-loop.c     where its evaluation loop keeps the next instruction during a call
 *   native-calls.c    the callers of a Python function, by the sizes of frames
 *   native-frames.c   PHP, Ruby
 *   native-framecalls.c   which of their functions have called which
 *   native-php.c      closures and generators of PHP
 *   native-js.c       Node.js
 *
 * The process is not trusted: one stack reads so many pages and takes so many steps at most.  Frames that are read after the sample
 * take a bounded part of the time, all processes together. */
#pragma once

#include "symbols/script-sign.h"
#include "symbols/v8.h"
#include "symbols/vm-memory.h"
#include "unwinder/native.h"

enum {
	SCRIPT_RUNS_MAX = 256,	 /* frames of the loop in one stack */
	SCRIPT_PASTS = 8192,	 /* frames of functions remembered */
	SCRIPT_FUNCTIONS = 1024, /* functions remembered */
	SCRIPT_SLOTS = 512,	 /* calls of the loop remembered */
	SCRIPT_WHERES = 6,
	SCRIPT_NOWHERES = 64, /* words searched in vain that are remembered */
	SCRIPT_HITS = 1024,   /* words looked for among the known functions */
	/* where a function may be: two at one place would be read again for each stack */
	SCRIPT_PLACES = 16,
	SCRIPT_HANDLERS = 2 * SCRIPT_FUNCTIONS,
	SCRIPT_CALLEES = 1024, /* Python: functions with callers that are remembered */
	SCRIPT_CALLERS = 8,
	SCRIPT_PATH = 128,  /* callers of one run */
	SCRIPT_OUTERS = 64, /* runs with a list that is remembered */
	SCRIPT_OUTER = 16,
	SCRIPT_NODES = 1024,
	SCRIPT_NODE_PLACES = 2048,
	SCRIPT_VAIN = 256,
	SCRIPT_STATES = 64,
	SCRIPT_CLOSURES = 1024, /* PHP: functions that closures are copies of */
	SCRIPT_LATELY = 4096,
	SCRIPT_CALLERS_ALL = 1024, /* ... of one stack */
	SCRIPT_RUN_ENDS = 1,	   /* in place of a caller: C code */
	SCRIPT_SHARES = 256,
};

/* Python: which functions have called which; an id is the address of the code object with its sign. */
struct script_caller {
	uint64_t id;
	uint32_t size; /* bytes of its frame on CPython's stack; 0: it is elsewhere */
	bool hidden;
	bool twin;	  /* it calls another function with a frame as large, too */
	uint32_t seen;	  /* readings that show it, */
	uint64_t counted; /* ... the last one */
};
struct script_callee {
	uint64_t id, counted;
	uint32_t serial, seen; /* readings */
	uint32_t n, size;      /* callers; bytes of its own frame */
	bool crowded;	       /* it has more callers */
	struct script_caller callers[SCRIPT_CALLERS];
};
/* The room that the callers of a function fill. */
struct script_room {
	uint64_t id;	/* the innermost function */
	uint64_t top;	/* its frame on that stack; 0: it is elsewhere */
	uint64_t end;	/* where the outer function's frame ends; 0: not known */
	uint64_t outer; /* that function, or SCRIPT_RUN_ENDS */
	bool root;	/* the outermost caller is the thread's: no generator */
};
struct script_caller_frame {
	uint64_t id, top, end; /* (top: its frame, or the one inside it; end: of the list so far) */
	bool hidden, proved;
};
struct script_callers {
	struct script_caller_frame path[SCRIPT_PATH]; /* from the run's first function inwards */
	uint32_t n;
	bool whole; /* up to the innermost function; else what is between is not known */
	bool proved, anchored;
	bool doubtful; /* a function that may be there has callers that are not known */
	uint64_t room; /* bytes of their frames */
};

/* The words of a frame, since when they read the same, and how often. */
struct script_past {
	uint64_t frame, code, words, since, counted;
	uint32_t serial, same;
	uint32_t
		flips; /* readings that differed from the one before, the older the less (native-script.c) */
};

/* A function: its instructions are at [code, code + len). */
struct script_function {
	uint64_t address, code, len;
	uint64_t handler;	     /* in C: its first byte; 0: it has instructions */
	uint64_t sign;		     /* Python: image.h */
	uint64_t filename, qualname; /* ... strings */
	uint64_t tail;		     /* ... python_name_tail() */
	uint64_t found;		     /* ... time of the first reading that found it as it is now */
	uint64_t
		changed; /* ... of the last one that found another one than before, or none; 0: never */
	uint64_t frame;	  /* JavaScript: uw_script_frame() */
	uint64_t read_at; /* Python: time of the sample; PHP, Ruby: of the reading */
	uint64_t since;	  /* ... that found it first as it is now */
	uint64_t used_at; /* PHP, Ruby: ... of the last stack that was looked at for it */
	uint32_t serial;  /* of the module; 0: free */
	uint32_t size;	  /* Python: bytes of its frame; 0: not on CPython's stack (a generator) */
	bool hidden;	  /* the interpreter's own, between two functions */
	bool explored;	  /* the functions that it calls were looked at */
	bool gone;	  /* PHP, Ruby: another one is there by now */
	bool lacks_class; /* Ruby: the iseq of a method */
	bool closure;	  /* PHP: freed with the closure that it is in */
	uint8_t searches; /* PHP: for the functions that it declares: how many are left */
	struct script_sign parts; /* PHP, Ruby */
};

/* PHP: the function that closures with this sign and code are copies of. */
struct script_closure {
	uint64_t function, code, len;
	uint64_t noted; /* time of the reading */
	uint32_t sign, serial;
};

/* Python: where the loop's code behind the return address @ra has its instruction: the places in the order of the code. */
enum script_where_kind { SCRIPT_IN_SLOT, SCRIPT_IN_REGISTER, SCRIPT_IN_FRAME };
struct script_slot {
	uint64_t ra;
	uint32_t serial;
	uint32_t n;
	struct script_where {
		uint8_t kind;
		int32_t at; /* bytes above rsp; a register (of the frame's address) */
	} where[SCRIPT_WHERES];
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

/* Python: the state of a thread. */
struct script_state {
	uint64_t thread, state; /* state 0: not known */
	uint64_t read_at;	/* the last reading of it */
	uint32_t serial;
};

/* A function that may be between, in a search for callers. */
struct script_node {
	uint64_t id,
		top; /* its frame begins here, if it is on that stack; else the one inside it */
	uint32_t parent;
	uint32_t seen;	 /* readings that show the rarest call up to here */
	uint32_t likely; /* frames up to here that were seen there last */
	bool anchored;	 /* top is an address: else only differences are known */
	bool hidden;
	bool guess; /* another caller was seen once */
	bool many;  /* several sequences lead here */
	bool loops; /* one leads from here to here again */
};

/* Python: the first function of a run that is read late, and its callers. */
struct script_start {
	uint64_t frame; /* 0: not known */
	uint64_t end;	/* of the run's innermost frame on CPython's stack; 0: not known */
	bool forgotten; /* a guess that did not fit */
	bool unseen;	/* callers may be there that were not seen */
	struct script_function code, other; /* other: what the frame has by now */
	bool known, proved;		    /* the function */
	bool late;			    /* other is known */
	bool there;			    /* the frame's words are still the function's */
	bool whole;			    /* the callers: all are known; else the outer ones */
	uint32_t at, n;			    /* in native_script.callers */
};

/* Python: the outer frames of a run as they were read last, from the innermost on. */
struct script_outer {
	uint64_t key; /* 0: free */
	uint32_t n;
	uint64_t frames[SCRIPT_OUTER];
};

/* What reading the frames of processes has cost in a tick, in ns of CPU time. */
struct script_costs {
	uint64_t tick;			 /* in which the latest sample was taken */
	uint64_t all, of[SCRIPT_SHARES]; /* by process; two at one place share what one has */
	uint32_t n, n_before;		 /* processes in this tick and the one before */
};

struct native_script {
	struct script_costs costs;
	struct script_outer outers[SCRIPT_OUTERS];
	struct script_slot slots[SCRIPT_SLOTS];
	struct script_nowhere nowheres[SCRIPT_NOWHERES];
	struct script_hit hits[SCRIPT_HITS];
	uint32_t learned;      /* functions that were read first, or again with other words */
	uint64_t search_after; /* time of the next search for a function */
	struct script_function functions[SCRIPT_FUNCTIONS];
	uint16_t handlers
		[SCRIPT_HANDLERS]; /* numbers from 1 of those in C, by their code; 0: free */
	struct script_closure closures[SCRIPT_CLOSURES];
	struct script_past pasts[SCRIPT_PASTS];
	struct script_callee callees[SCRIPT_CALLEES];
	struct script_state states[SCRIPT_STATES];
	uint64_t noted_at;     /* PHP, Ruby: the last reading with calls that were noted, */
	uint32_t noted_serial; /* ... of this interpreter */
	uint32_t n_calls;      /* pairs of functions that were noted, and those that were often */
	uint64_t lately[SCRIPT_LATELY]; /* which function had its frame where */
	uint64_t vain[SCRIPT_VAIN];	/* searches without a result, by what was noted then */
	struct script_node nodes[SCRIPT_NODES];
	uint16_t node_places[SCRIPT_NODE_PLACES];
	uint32_t
		compiled; /* JavaScript: the module of compiled code that was seen last before its file was looked for */
	/* of the stack in hand */
	struct vm_memory memory;
	uint64_t read_at; /* no page was read before this time */
	uint64_t sampled; /* of the sample */
	uint32_t serial;  /* of the interpreter's module */
	uint32_t n_steps;
	uint32_t runs[SCRIPT_RUNS_MAX]; /* indexes of the loop's frames */
	uint32_t n_runs;
	struct script_start starts[SCRIPT_RUNS_MAX]; /* of the runs */
	uint64_t cframes[SCRIPT_RUNS_MAX];
	struct script_caller_frame callers[SCRIPT_CALLERS_ALL];
	uint32_t n_callers;
	uint64_t frames[UW_MAX_FRAMES]; /* the new list */
	uint32_t n;
};

static inline uint64_t word_of(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

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
/* At most once for a stack: half of the steps are left again. */
void script_steps_again(struct native_script *s);
/* The words of the frame at @frame are @code and @words.  Did it read the same before the sample, often enough to be
 * proved?  Notes that it reads so now. */
bool script_same(struct native_script *s, const struct native *e, const struct walk *w,
		 uint64_t frame, uint64_t code, uint64_t words);
/* Is another function's frame often at this address? */
bool script_flips(struct native_script *s, uint64_t frame);
/* After script_same(): did it read the same before the sample, and does it seldom change? */
bool script_held(struct native_script *s, const struct walk *w, uint64_t frame);
/* @key (a hash) was seen with @code and @words. */
void script_note(struct native_script *s, const struct native *e, uint64_t key, uint64_t code,
		 uint64_t words);
/* The same where some readings are wrong, as the process ran on meanwhile: one that differs takes at least half of the evidence. */
void script_note_most(struct native_script *s, const struct native *e, uint64_t key, uint64_t code,
		      uint64_t words);
/* What @key was seen with each time lately.  SCRIPT_UNUSUAL: too seldom, or with something else, too; SCRIPT_PROVED:
 * before the sample, and as often as a frame has to read the same. */
enum script_usual { SCRIPT_UNUSUAL, SCRIPT_USUAL, SCRIPT_PROVED };
enum script_usual script_usual(struct native_script *s, const struct walk *w, uint64_t key,
			       uint64_t *ret_code, uint64_t *ret_words);
/* ---- native-loop.c ---- */
/* Adds to @s what the @len bytes of code at @address show.  @next: the register of the next instruction.  Returns where the code
 * goes on; 0: not known. */
uint64_t script_loop_slots(struct script_slot *s, const uint8_t *code, size_t len, uint64_t address,
			   unsigned next);
/* ---- native-calls.c ---- */
/* The function @callee, which has a frame of @size bytes (0: not on CPython's stack), was seen with this caller, or
 * (SCRIPT_RUN_ENDS) called by C code. */
void script_call_note(struct native_script *s, uint64_t callee, uint32_t size,
		      const struct script_caller *caller);
/* @inner was called by @id, and that by @outer.  Was another function with a frame as large seen between these two? */
bool script_call_has_twin(struct native_script *s, uint64_t inner, uint64_t id, uint64_t outer);
/* A frame of the function @id was at @top. */
void script_frame_note(struct native_script *s, uint64_t id, uint64_t top);
/* The callers in @room.  false: not known. */
bool script_call_search(struct native_script *s, const struct script_room *room,
			struct script_callers *ret);

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
