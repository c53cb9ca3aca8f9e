/* frames-walk.h - one stack of PHP or Ruby, for native-frames.c, native-framecalls.c, native-functions.c and native-php.c.  Private to unwinder/.  Thread: the
 * engine's. */
#pragma once

#include "unwinder/script-frames.h"

enum {
	FRAMES_ANCHORS = 64, /* runs with registers */
	FRAMES_INNER = 16,   /* functions in C between two runs that have a frame of their code */
	FRAMES_INNER_ALL = 2 * FRAMES_INNER,
	FRAMES_USUAL = 64, /* callers of one stack that earlier readings show */
};

/* One stack. */
struct frames_walk {
	struct native *e;
	struct walk *w;
	struct native_script *s;
	const struct uw_script *l;
	bool ruby;
	struct anchor {
		uint64_t frame, next; /* 0: not known */
	} anchors[FRAMES_ANCHORS];
	struct inner {
		uint32_t behind;  /* ... so many of the walk's frames */
		uint64_t handler; /* of the function */
		uint64_t frame;
	} inner[FRAMES_INNER_ALL]; /* functions in C */
	uint32_t n_inner;
	uint64_t usual[FRAMES_USUAL]; /* frames of callers that were pushed by earlier readings */
	uint32_t n_usual;
	uint64_t current; /* the innermost frame as it is now; 0: not known */
	uint32_t exact;	  /* of the frames copied at the sample: the one that is looked for first */
	uint32_t n_again; /* readings of functions that were known */
	bool declared; /* the functions that those of the copied frames declare were looked for */
	struct script_closure late; /* what frames_closure_of() found last; serial 0: none */
};

static inline bool frames_read_word(struct frames_walk *fw, uint64_t address, uint64_t *ret_word)
{
	return vm_memory_read(&fw->s->memory, address, ret_word, sizeof(*ret_word));
}

/* ---- native-functions.c ---- */
struct frame {
	uint64_t function, instruction, previous;
	uint32_t sign; /* of the function, as of the sample; 0: not known */
	bool last;     /* of its run */
	bool exact;    /* as of the sample */
	bool delegate; /* PHP: of a generator that waits for another one, see native-php.c */
};
/* The frame at @address as the BPF program copied it at the sample (at-sample-records.h).  false: it was not copied. */
bool frames_exact(struct frames_walk *fw, uint64_t address, struct frame *ret_frame);
/* The same; where it was not copied, as it is now. */
bool frames_read(struct frames_walk *fw, uint64_t address, struct frame *ret_frame);
/* The function at @address that has @instruction (0: not known), and @sign where that is known; NULL: there is none. */
struct script_function *frames_function_at(struct frames_walk *fw, uint64_t address,
					   uint64_t instruction, uint32_t sign);
/* The known function that has @instruction, as its memory is now; NULL: none. */
struct script_function *frames_function_of(struct frames_walk *fw, uint64_t instruction);
/* The function at @address, which is known from then on; it may have been another one at the sample.  NULL: there is none. */
struct script_function *frames_learn_function(struct frames_walk *fw, uint64_t address);
/* The method entry of @f, an iseq that was found without it: the environment is read after the frame, and may be another one's. */
const struct script_function *frames_with_class(const struct frames_walk *fw,
						const struct script_function *f);
/* Reads fw->current, 0: not known.  Ruby: with the frames next to it in one request, if that can be, and the outermost of the frames
 * that were the innermost one meanwhile.  Returns its address. */
uint64_t frames_read_current(struct frames_walk *fw);
/* Ruby: was the frame at @address read in one request with fw->current?  *ret_seen: vm_memory_watched(), or 0. */
bool frames_read_at_once(struct frames_walk *fw, uint64_t address, uint64_t ret_seen[2]);
/* Was @f, which has @sign (0: not known) as of the sample, there at the sample? */
bool frames_is_proved(const struct frames_walk *fw, const struct script_function *f, uint32_t sign);
/* The function with its C code at the address of the walk's frame @index; NULL: none is known. */
const struct script_function *frames_in_c(struct frames_walk *fw, uint32_t index);

/* ---- native-framecalls.c ---- */
enum {
	FRAMES_ANY_OUTER = 1, /* in place of a run's outer call */
	FRAMES_RUN_ENDS = 1,  /* in place of a caller */
};
/* A function, by its address and sign. */
uint64_t frames_id(const struct script_function *f);
/* What a frame has apart from its function. */
uint64_t frames_words(const struct frame *f);
/* The call from the loop behind a run, of the frame at @outer with @instruction; 0: the run is the outermost one. */
uint64_t frames_key_of_outer(uint64_t outer, uint64_t instruction);
/* The call of the function @id with its frame at @address, in a run that the call @outer (frames_key_of_outer()) began.  A function that is
 * called by several ones often has its frame at one place, but in runs of other calls. */
uint64_t frames_key_of_call(uint64_t address, uint64_t id, uint64_t outer);
/* The stack of a thread or fiber that has a frame at @address. */
uint64_t frames_key_of_stack(uint64_t address);
/* Notes the calls that the process is in now. */
void frames_note_calls(struct frames_walk *fw);
/* What is noted of @key; not what often changes. */
enum script_usual frames_usual(struct frames_walk *fw, uint64_t key, uint64_t *ret_id,
			       uint64_t *ret_address);
/* The function *ret_id that is one of the outermost ones of a stack, with its frame at @address, if that one stays the same. */
enum script_usual frames_outermost_at(struct frames_walk *fw, uint64_t address, uint64_t *ret_id);
/* The outermost functions of the stack with a frame at @inside, as far as they stay the same, from the outermost on.  Returns how many. */
struct frames_known {
	uint64_t id;
	bool proved;
};
uint32_t frames_outermost(struct frames_walk *fw, uint64_t inside,
			  struct frames_known ret[SCRIPT_OUTER]);

/* ---- native-php.c: PHP ---- */
/* Notes the functions that @f declares, of which closures are copies. */
void frames_learn_declared(struct frames_walk *fw, struct script_function *f);
/* The function that the closure with @instruction and @sign is a copy of; NULL: none is known.  One that a function of a copied frame
 * declares is. */
const struct script_closure *frames_closure(struct frames_walk *fw, uint64_t instruction,
					    uint32_t sign);
/* Generators that wait (base/php-generator.h): their frames, the outermost first. */
enum { FRAMES_WAITING = 64 };
struct frames_waiting {
	uint64_t frames[FRAMES_WAITING], behind; /* behind: the frame behind them */
	uint32_t n;
	bool whole; /* these are all */
};
/* Is the frame at @address, as it is now, that of a generator? */
bool frames_is_generator(struct frames_walk *fw, uint64_t address);
/* Those that wait for the generator with its frame at @running; at @address: the frame behind it.  false: there are none. */
bool frames_find_waiting(struct frames_walk *fw, uint64_t running, uint64_t address,
			 struct frames_waiting *ret_waiting);
/* The same, if nothing but the instruction is known: the function is known from then on.  NULL: there is none. */
struct script_function *frames_closure_of(struct frames_walk *fw, uint64_t instruction);
