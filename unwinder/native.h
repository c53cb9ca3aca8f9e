/* native.h - the inside of the native engine.  Private to unwinder/.  Thread: the engine's.
 *
 *   native.c         the batch: sixteen walks side by side, packed rules only
 *   native-miss.c    a miss in the rule cache: map, module, second cache
 *   native-rule.c    what the CFI says
 *   native-exit.c    does the code leave its function as the CFI says?
 *   native-slow.c    one frame with full registers
 *   native-guess.c   one frame without CFI
 *   native-signal.c  one signal frame without CFI
 *   native-trail.c   the outer frames that a stack shares with an earlier one of its thread
 *   native-hole.c    across a frame in whose midst the copy ends
 *   native-memory.c  stack beyond the copy, and code bytes, out of the process
 *
 * A walk stands on the frame that it pushed last; its rule was found and applied, so that the next
 * visit starts with a load whose cache line was asked for a round ago. */
#pragma once

#include "base/table.h"
#include "unwinder/cfi.h"
#include "unwinder/code.h"
#include "unwinder/engine.h"

enum {
	NATIVE_CHUNK = 64 << 10, /* process memory is read in such pieces */
	NATIVE_DEEP_MAX = 8 << 20,
	NATIVE_OVERLAP = 256,
	NATIVE_ROOM_MAX = 4 << 20, /* of a copy, by the fast road; RULE_M_KEPT is farther */
};

enum { NATIVE_STILL = 256 };

/* A function whose CFI says that it never moves rsp (native-rule.c). */
struct native_still {
	uint64_t key;	/* its module's serial above 32, its FDE's offset plus one */
	uint32_t seen;	/* bytes of its code that were looked at */
	uint32_t moves; /* where it does, from its first byte; @seen: nowhere so far */
};

enum { NATIVE_USERS = 256 };

/* Who has met a module (native-miss.c). */
struct native_user {
	uint32_t serial; /* 0: nobody yet */
	uint32_t key;	 /* the only space so far, 0: several, or one of no key */
};

enum { NATIVE_MARKS = 64, NATIVE_TRAILS = 64, NATIVE_TRAIL_STEPS = 256 };
enum { NATIVE_HOLES = 16, NATIVE_CALLS = 256 };

/* A frame of a stack that was walked, and what its caller came from (native-trail.c). */
struct native_step {
	uint64_t frame, sp, bp;
	uint64_t slot;	/* where the caller's rbp was read, if that matters; 0: not */
	uint32_t saved; /* the first of the trail's saved words that this or an outer frame needs */
	bool by_bp;	/* this or an outer frame stands on bp */
};
/* Where a function calls another of its module (native-hole.c).  Module's vaddrs. */
struct native_call {
	uint64_t begin, to; /* where both begin; begin 0: anywhere in the module */
	uint64_t ra;	    /* behind the one call; 0: there is none, or several */
	uint32_t serial;    /* of the module; 0: a free place */
};
struct native_saved {
	uint64_t address, bp;
};
struct native_trail {
	uint32_t marks[NATIVE_MARKS]; /* the low half of a step's sp, where native_mark() says */
	uint32_t thread, key, n, n_saved;
	uint32_t unused, wait; /* stacks in a row that had no use for it; the most of them */
	struct native_step steps[NATIVE_TRAIL_STEPS]; /* ascending, the last is the root */
	struct native_saved saved[NATIVE_TRAIL_STEPS];
};

/* Where an address stands, and what its module can tell. */
struct native_place {
	const struct uw_map *map;
	const struct uw_image *image; /* NULL: none, @why */
	enum rule_why why;
	uint64_t vaddr;
	uint32_t fde; /* what the search table has for it, plus one; 0: not looked up */
};

struct walk {
	/* the frame pushed last */
	uint64_t sp;
	uint64_t cfa; /* its rule, applied */
	uint64_t bp;
	const uint8_t *ra_at; /* where the return address is: in the copy, or lr below */
	const uint8_t *bp_at; /* where the caller's rbp is: in the copy, or the member above */
	uint64_t flags;	      /* of the caller's frame */

	const uint8_t *stack; /* the copy */
	uint64_t base;	      /* its first address */
	uint64_t shift;	      /* from an address to where the copy has it */
	uint64_t room;	      /* words can be read at [0, room) in it */

	uint64_t *frames;
	uint32_t n, max;
	struct rule_key key;
	uint64_t address; /* of the frame: what its rule is looked up by, and where */
	const struct rule_entry *entry;

	/* Where a leaf without a rule stands, found out before its turn (native_ahead); 0: not. */
	uint64_t ahead_address;
	struct native_place ahead; /* has an image */

	const uint32_t *marks; /* of the thread's trail */
	uint32_t met;	       /* the frame is the trail's of this number, from 1 */
	uint32_t reused;       /* frames that came from it */
	/* The frame behind the last that was not plain: its number from 1, its registers. */
	uint32_t plain_n;
	uint64_t plain_sp, plain_bp;

	uint64_t lr;	   /* aarch64: x30 of an interrupted frame */
	uint64_t pac_mask; /* aarch64: bits of a return address that are its signature's */
	const struct uw_machine *machine;
	const struct uw_snapshot *snapshot;
	struct uw_result *res;
	uint64_t deep_flags; /* of frames found in the process, where nothing was compared */
	uint64_t deep_read;  /* bytes of stack read from the process so far */
	bool deep_failed;    /* and why not: the copy no longer matches, or it cannot be read */
	/* Registers for the slow road, good when full_at is n: all of them when full_whole. */
	uint32_t full_at;
	bool full_whole;
	struct cfi_regs full;
};

struct native {
	struct uw_engine engine;
	struct rule_cache by_pc;	   /* (space key, address) */
	struct rule_cache by_vaddr;	   /* (module serial, vaddr): survives processes */
	struct native_place last;	   /* of a miss; good while last_space is not NULL */
	const struct uw_space *last_space; /* of this batch */
	struct cfi_cies cies;
	struct table indexes; /* serial * 2 + debug_frame -> struct cfi_index */
	struct native_still still[NATIVE_STILL];
	struct native_user users[NATIVE_USERS];
	struct uw_engine_stats stats;
	bool no_memory;	   /* an allocation failed: the batch returns -ENOMEM */
	bool not_readable; /* by_pc has guesses for want of a module's file */
	struct walk walks[UW_BATCH];
	struct native_trail *trails[NATIVE_TRAILS]; /* by thread and space key; NULL: none yet */
	struct native_hole *holes[NATIVE_HOLES];    /* of threads with such stacks */
	size_t n_holes;
	uint64_t holes_used, hole_files; /* bytes of files looked through */
	struct native_call calls[NATIVE_CALLS];

	/* The piece of stack read last from the process, for one walk. */
	const struct walk *chunk_owner;
	uint64_t chunk_start, chunk_len;
	uint8_t *chunk; /* NATIVE_CHUNK; made at first need */
};

enum step {
	STEP_ENDED, /* w->res says how */
	STEP_FRAME, /* one frame pushed; w->sp and w->bp are its registers */
};

static inline enum step walk_end(struct walk *w, enum uw_outcome outcome, enum uw_reason reason,
				 uint64_t at)
{
	uw_result_end(w->res, outcome, reason, at);
	return STEP_ENDED;
}

/* The word at @address, which is known to be in the copy. */
static inline uint64_t walk_word(const struct walk *w, uint64_t address)
{
	uint64_t word;

	memcpy(&word, (const void *)(uintptr_t)(address + w->shift), sizeof(word));
	return word;
}

/* The address to look rules up by, of the frame pushed last. */
static inline uint64_t walk_lookup(const struct walk *w)
{
	return uw_frame_lookup(w->frames[w->n - 1]);
}

/* Called by nobody but the kernel: registers that calls clobber are as they were. */
static inline bool walk_is_interrupted(const struct walk *w)
{
	return !(w->frames[w->n - 1] & UW_FRAME_CALLER);
}

/* ---- native-miss.c ---- */
/* The rule of @address, through both caches.  RULE_NONE: the walk has ended. */
rule_t native_rule(struct native *e, struct walk *w, uint64_t address);
/* Walks that have just begun: of those whose rule is not in the cache asks for all that finding it will
 * read. */
void native_ahead(struct native *e, struct walk *const *walks, size_t n);
/* Notes what was found out about @address later. */
void native_note(struct native *e, struct walk *w, uint64_t address, rule_t rule);

/* ---- native-rule.c ---- */
enum native_where { NATIVE_PLACE, NATIVE_NO_MAP, NATIVE_PENDING };
enum native_where native_place(const struct walk *w, uint64_t address,
			       struct native_place *ret_place);
/* The rule of @address, at @place in an image, for the frame that the walk stands on.  *ret_kept is
 * false where it is not for other processes.  RULE_NONE: more of the module has to be loaded. */
rule_t native_compile(struct native *e, const struct walk *w, const struct native_place *place,
		      uint64_t address, bool *ret_kept);
/* The row that a rule of kind SLOW names; found anew when @rule is 0. */
enum cfi_result native_row(struct native *e, const struct native_place *place, rule_t rule,
			   struct cfi_fde *ret_fde, struct cfi_row *ret_row);
/* Where the function at a place begins and ends, by its CFI: vaddrs. */
bool native_function(struct native *e, const struct native_place *place, uint64_t *ret_begin,
		     uint64_t *ret_end);
/* The rule of an address, by CFI alone.  *ret_ends: as cfi_quick_rule() has it,
 * true where that does not say. */
enum cfi_result native_find_row(struct native *e, const struct native_place *place, bool *ret_ends,
				rule_t *ret_rule, struct cfi_fde *ret_fde);
void native_forget_index(struct native *e, uint32_t serial);
void native_forget_indexes(struct native *e);

/* ---- native-exit.c ---- */
/* The walk stands on an interrupted frame at @address, whose CFI (@fde) says *rule and tells of no
 * epilogue from there on.  Where the code shows that it returns in another way *rule becomes that,
 * as a guess.  false: the code cannot be read now. */
bool native_exit(struct native *e, const struct walk *w, const struct native_place *place,
		 uint64_t address, const struct cfi_fde *fde, rule_t *rule);

/* ---- native-trail.c ---- */
extern const uint32_t native_no_marks[NATIVE_MARKS];
/* Where a stack pointer's mark is: a hit is nearly always a step of the trail. */
static inline uint32_t *native_mark(uint32_t *marks, uint64_t sp)
{
	return &marks[sp >> 4 & (NATIVE_MARKS - 1)];
}
static inline bool native_is_marked(const uint32_t *marks, uint64_t sp)
{
	return marks[sp >> 4 & (NATIVE_MARKS - 1)] == (uint32_t)sp;
}
/* A walk begins: which trail it may meet. */
void native_trail_begin(struct native *e, struct walk *w);
/* The walk comes to a frame whose sp is marked: is it the trail's?  Asks for the words that the rest
 * of the trail stands on. */
void native_trail_meet(struct walk *w);
/* It is, and the words are there.  true: the walk ended, by the trail. */
bool native_trail_end(struct native *e, struct walk *w);
/* A walk has ended: makes a trail of it where the old one serves no more. */
void native_trail_note(struct native *e, struct walk *w);
void native_trails_clear(struct native *e);
void native_trails_free(struct native *e);
/* One step of a second walk, from @s: the registers of the caller.  1: there is one, its return
 * address is in the copy; 0: this is the root; < 0: not a plain frame. */
int native_trail_step(const struct native *e, const struct walk *w, struct native_step *s,
		      struct native_step *ret_next);

/* ---- native-hole.c ---- */
/* The walk, which has failed for want of memory, stands on a frame whose caller begins at @cfa: ends
 * it WHOLE by what earlier stacks of the thread had there, or leaves it as it is. */
void native_hole_cross(struct native *e, struct walk *w, uint64_t cfa);
/* A walk has ended: of a thread with such stacks.  @e has some. */
void native_hole_note(struct native *e, const struct walk *w);
void native_holes_clear(struct native *e);
void native_holes_free(struct native *e);

/* ---- native-memory.c ---- */
/* The word at @address of the walk's stack: the copy, else the process.  false: not there, the
 * walk's result says so already. */
bool native_word(struct native *e, struct walk *w, uint64_t address, uint64_t *ret_word);
/* The walk stands on a frame whose return address is at @ra_at, outside the copy, and the copy no
 * longer reads the same: x86-64, is that frame still there?  Its words can be read then. */
bool native_same_frame(struct native *e, struct walk *w, uint64_t ra_at);
/* The same for any size and without a verdict. */
bool native_bytes(struct native *e, struct walk *w, uint64_t address, void *to, size_t len);
/* Code at [@address - @before, @address + @after): out of the process, or where that is not at hand
 * (an import) out of its file.  Returns the bytes got, 0: none. */
size_t native_code(const struct walk *w, uint64_t address, size_t before, size_t after,
		   uint8_t *to);
/* Is there anything to read it from? */
bool native_has_code(const struct walk *w, uint64_t address);

/* ---- native-guess.c, native-slow.c: one frame on, by a rule that is not a plain one ---- */
enum step native_guess(struct native *e, struct walk *w, rule_t rule);
/* The walk stands on a frame found by a guess, of rule @rule: does it follow a call?  STEP_ENDED:
 * it does not. */
enum step native_prove(struct native *e, struct walk *w, rule_t rule);
enum step native_slow(struct native *e, struct walk *w, rule_t rule);
/* What the walk knows of the frame it stands on; true: all of it. */
bool native_regs(const struct walk *w, struct cfi_regs *ret_regs);
/* A plain rule whose words lie outside the copy, or that makes no progress. */
enum step native_far(struct native *e, struct walk *w, rule_t rule);
/* Pushes the frame at @pc with @flags.  STEP_ENDED: root or full. */
enum step native_push(struct walk *w, uint64_t pc, uint64_t flags);
/* Takes the walk to the caller whose registers are @regs: all of them when @whole.  @signal: it was
 * interrupted. */
enum step native_arrive(struct walk *w, const struct cfi_regs *regs, bool whole, bool signal);

/* ---- native-signal.c ---- */
/* All registers of the interrupted function, out of a signal frame with its stack pointer at @sp.
 * false: not there. */
bool native_signal_regs(struct native *e, struct walk *w, uint64_t sp, struct cfi_regs *ret_regs);
/* aarch64: does the walk stand on a signal frame, by what is on the stack? */
bool native_is_signal(struct native *e, struct walk *w);
/* One frame on, from there. */
enum step native_signal(struct native *e, struct walk *w);
