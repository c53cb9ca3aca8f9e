/* frames-walk.h - one stack of PHP or Ruby, for native-frames.c and native-functions.c.  Private to unwinder/.  Thread: the
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
};

static inline bool frames_read_word(struct frames_walk *fw, uint64_t address, uint64_t *ret_word)
{
	return vm_memory_read(&fw->s->memory, address, ret_word, sizeof(*ret_word));
}

/* ---- native-functions.c ---- */
enum frames_imemo { FRAMES_SVAR = 2, FRAMES_METHOD = 6, FRAMES_ISEQ = 7 }; /* enum imemo_type */
/* Ruby: is the object at @address of the interpreter's own kind @type? */
bool frames_is_ruby(struct frames_walk *fw, uint64_t address, enum frames_imemo type);
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
