/* native.h - the inside of the native engine.  Private to unwinder/.  Thread: the engine's.
 *
 *   native.c       the batch: sixteen walks side by side, packed rules only; the outer frames that
 *                  a stack shares with an earlier one of its thread
 *   native-rule.c  the rule of an address: a miss in the rule cache, CFI, memory of the process
 *   native-step.c  one frame on, where no packed rule applies
 *   native-guess.c the same without CFI
 *   native-chain.c engine fp: the kernel's callchain, checked against CFI
 *   native-deep.c  beyond the copy: the memory of the process, and the proof of what was read
 *   native-edge.c  beyond the copy: does a call lead to the function inside of it?
 *   native-go.c    Go: from the thread's own stack to the goroutine's
 *   native-ocaml.c OCaml: raises, and calls behind a function's code
 *   native-hole.c  across a frame that the end of the copy cuts in two
 *   native-script.c the functions that an interpreter runs, in place of its evaluation loop's frames
 *
 * A walk stands on the frame that it pushed last.  The rule of that frame was found and applied, so
 * the next visit starts with a load from a cache line that was prefetched a round ago. */
#pragma once

#include "base/table.h"
#include "unwinder/cfi.h"
#include "unwinder/code.h"
#include "unwinder/engine.h"
#include "unwinder/expression.h"

enum {
	NATIVE_CHUNK = 64 << 10,    /* process memory is read in pieces of this size */
	NATIVE_CHUNK_MAX = 1 << 20, /* where the root of the thread is known */
	NATIVE_DEEP_MAX = 8 << 20,
	NATIVE_OVERLAP = 256,
	NATIVE_ROOM_MAX =
		4 << 20, /* bytes of a copy that plain rules use; RULE_M_KEPT is farther */
};

enum { NATIVE_ONE_ROW = 256 };

/* A function with CFI of one row, CFA = rsp + 8 (native-rule.c). */
struct native_one_row {
	uint64_t key;	/* its module's serial above 32, its FDE's offset plus one */
	uint32_t seen;	/* bytes of its code that were read */
	uint32_t moves; /* offset of the first instruction that moves rsp; @seen: none so far */
};

/* With 1,024 rows CPython's frames displaced each other: 1.4 runs of CFI a stack, 0.4 with these. */
enum { NATIVE_PLAIN_ROWS = 8192, NATIVE_PLAIN_REGS = 6 };

/* x86-64: a row of CFI as most are: CFA = register + cfa, saved registers at CFA + 8 * at, 0: kept (native-step.c). */
struct native_plain_row {
	uint64_t address;
	uint32_t key; /* of the space; 0: a free place */
	int32_t cfa;
	int16_t ra, at[NATIVE_PLAIN_REGS];
	uint8_t cfa_register;
};

/* As many as the code of an interpreter has, for the leaves of a minute; only places in use have memory. */
enum { NATIVE_CODE_PAGES = 256, NATIVE_CODE_PAGE = 4096 };

/* Code of files, as it was read of a process (native-rule.c). */
struct native_code_page {
	uint64_t address;
	uint32_t key; /* of the space; 0: a free place */
	uint32_t len;
	uint8_t bytes[NATIVE_CODE_PAGE];
};

enum { NATIVE_USERS = 256, NATIVE_ROOTS = 256 };

enum {
	NATIVE_TAILS = 16,
	NATIVE_WAYS = 64,
	NATIVE_WAYS_OF_ONE = 4, /* of a function */
	NATIVE_WAY_STEPS = 24,
	NATIVE_WAY_SAME = 8, /* frames, which ways of a function differ in */
};

/* The frames that a thread had in its copy and beyond it, with their stack pointers, ascending, the last is the root
 * (native-deep.c). */
struct native_tail {
	uint32_t thread, key;
	uint32_t n;
	bool older;    /* than the thread's other one, and deeper */
	uint64_t used; /* native.tails_used, for the least recently used */
	uint64_t time; /* of the reading, as uw_snapshot.time */
	struct native_tail_step {
		uint64_t sp, frame;
	} steps[UW_MAX_FRAMES];
};

/* The callers of a function, with their stack pointers counted from that of the first (native-deep.c). */
struct native_way {
	uint64_t begin; /* of the function */
	uint32_t key;	/* 0: a free place */
	uint32_t n;
	uint64_t kept; /* native.ways_kept */
	struct native_tail_step steps[NATIVE_WAY_STEPS];
};

/* A function without a way that a copy ended in (native-deep.c). */
struct native_want {
	uint64_t begin;
	uint32_t key;  /* 0: none */
	uint32_t left; /* how many stacks of the process are searched yet */
	uint32_t age;  /* stacks of all processes since */
};

/* Where the stacks of a thread end (native-deep.c). */
struct native_root {
	uint32_t thread, key; /* 0: a free place */
	uint64_t sp;
};

/* The processes that have used a module (native-rule.c). */
struct native_user {
	uint32_t serial; /* 0: none yet */
	uint32_t key;	 /* of the only space so far, 0: several, or one without a key */
};

enum { NATIVE_MARKS = 64, NATIVE_TRAILS = 64, NATIVE_TRAIL_STEPS = 256 };
enum {
	NATIVE_HOLES = 16,
	NATIVE_CALLS = 256,
	NATIVE_OPEN = 8,
	NATIVE_STALE = 64,
	NATIVE_SITES = 64,
	NATIVE_ENDS = 64
};

/* A frame of a trail, and the stack words that its caller was found by (native.c). */
struct native_trail_step {
	uint64_t frame, sp, bp;
	uint64_t slot;	/* where the caller's rbp was read; 0: no frame depends on it */
	uint32_t saved; /* the first of the trail's saved words that this or an outer frame needs */
	bool by_bp;	/* this or an outer frame depends on bp */
};
/* Where a function calls another one of its module (native-hole.c).  vaddrs of the module. */
struct native_call {
	uint64_t begin, to; /* first bytes of caller and callee; begin 0: any caller */
	uint64_t ra;	    /* behind the only call; 0: there is none, or several */
	uint32_t serial;    /* of the module; 0: a free place */
};
struct native_saved {
	uint64_t address, bp;
};
struct native_trail {
	uint32_t marks[NATIVE_MARKS];  /* the low half of a step's sp, at native_mark_at() */
	uint16_t marked[NATIVE_MARKS]; /* that step */
	uint32_t thread, key, n, n_saved;
	uint32_t unused, wait; /* stacks in a row that had no use for it, and their limit */
	/* Of the steps; ascending, the last is the root.  Apart, as a walk that meets it reads these of all steps. */
	uint64_t sps[NATIVE_TRAIL_STEPS], frames[NATIVE_TRAIL_STEPS];
	struct native_saved saved[NATIVE_TRAIL_STEPS];
	struct native_trail_step steps[NATIVE_TRAIL_STEPS];
};

/* The mapping of an address, and the unwind data of its module. */
struct native_place {
	const struct uw_map *map;
	const struct uw_image *image; /* NULL: none, see @why */
	enum rule_why why;
	uint64_t vaddr;
	uint32_t fde; /* offset from the search table, plus one; 0: not looked up */
};

/* Code without a file: its rule led to no caller (native-guess.c). */
struct native_stale {
	uint64_t address;
	uint32_t key, failures;
};

/* Does the call before a return address lead through a pointer (native-guess.c)? */
struct native_site {
	uint64_t ra;
	uint32_t key; /* of the space; 0: a free place */
	bool indirect;
};

/* Where callchains end (native-chain.c). */
struct native_end {
	uint64_t vaddr;
	uint32_t serial; /* of the module; 0: a free place */
};

enum {
	WALK_LEAF = 1,	  /* it stands on its leaf, with a rule that was prefetched */
	WALK_MET = 2,	  /* it has met its trail, see walk.met */
	WALK_GUESSED = 4, /* the frame behind the last one is a guess */
};

struct walk {
	/* the frame pushed last */
	uint64_t sp;
	uint64_t cfa; /* its rule, applied */
	uint64_t bp;
	const uint8_t *ra_at; /* where the return address is: in the copy, or lr below */
	const uint8_t *bp_at; /* where the caller's rbp is: in the copy, or the member above */

	const uint8_t *stack; /* the copy */
	uint64_t base;	      /* its first address */
	uint64_t shift;	      /* from an address to where the copy has it */
	uint64_t room;	      /* words can be read at its offsets [0, room) */

	uint64_t *frames;
	uint32_t n, max;
	struct rule_key key;
	uint32_t
		slow; /* WALK_*: what is not as at the most frames; 0: the next visit is a plain one */
	uint64_t address; /* of the leaf: the key of its rule */

	/* The place of a leaf without a cached rule, found in advance (native_prefetch); 0: not. */
	uint64_t ahead_address;
	struct native_place ahead; /* has an image */

	const uint32_t *marks; /* of the thread's trail */
	uint32_t met;	       /* the frame is this one of the trail, from 1 */
	uint32_t reused;       /* frames that came from it */
	/* The frame behind the last that was not plain: its number from 1, its registers. */
	uint32_t plain_n;
	uint64_t plain_sp, plain_bp;

	uint64_t lr;	   /* aarch64: x30 of an interrupted frame */
	uint64_t pac_mask; /* aarch64: the signature bits of a return address */
	const struct uw_machine *machine;
	const struct uw_snapshot *snapshot;
	struct uw_result *res;
	uint64_t deep_flags;	     /* of frames found in the process without a comparison */
	uint64_t deep_read;	     /* bytes of stack read from the process so far */
	bool deep_failed;	     /* the copy no longer matches, or the process cannot be read */
	uint32_t seam;		     /* frames that come from the copy; 0: all */
	uint64_t seam_sp;	     /* of the last frame of this kind */
	uint64_t seam_from, seam_to; /* addresses of the bytes that were compared; to 0: none */
	bool seam_checked;	     /* ... again, after the last read */
	bool go;	    /* the frames behind the seam are those of a goroutine (native-go.c) */
	uint64_t go_copied; /* bytes of deep_read that were copied at the sample */
	uint64_t go_key;    /* of what native-go.c keeps; 0: none */
	uint64_t go_bp_key; /* the same by rbp */
	uint64_t go_from;   /* the stack pointer at the switch */
	uint64_t go_top;    /* the end of the goroutine's stack; 0: not known */
	uint64_t far_cfa;   /* x86-64: begin of the caller that cannot be read; 0: none */
	/* Frames of JIT code with an address that follows no call (native-guess.c). */
	uint32_t n_open;
	uint32_t open_first, open_last; /* their numbers, from 1 */
	uint64_t open[NATIVE_OPEN];	/* addresses of the last ones, as they are looked up */
	/* Interpreted frames of a Java VM: their number from 0, and their Method. */
	struct native_method {
		uint64_t method;
		uint32_t frame;
	} * methods; /* UW_MAX_FRAMES; allocated at first use */
	uint32_t n_methods;
	/* The registers of frame full_at, for native_step(): all registers when full_whole. */
	uint32_t full_at;
	bool full_whole;
	struct cfi_regs full;
};

struct native {
	struct uw_engine engine;
	struct rule_cache by_pc;	   /* (space key, address) */
	struct rule_cache by_vaddr;	   /* (module serial, vaddr): survives processes */
	struct native_place last;	   /* of a miss; valid while last_space is not NULL */
	const struct uw_space *last_space; /* of this batch */
	struct cfi_cies cies;
	struct table indexes; /* serial * 2 + debug_frame -> struct cfi_index */
	struct native_one_row one_row[NATIVE_ONE_ROW];
	struct native_plain_row plain_rows[NATIVE_PLAIN_ROWS];
	struct native_code_page code_pages[NATIVE_CODE_PAGES];
	struct native_user users[NATIVE_USERS];
	struct uw_engine_stats stats;
	bool no_memory;	   /* an allocation failed: the batch returns -ENOMEM */
	bool not_readable; /* by_pc has guesses for modules that could not be read */
	struct walk walks[UW_BATCH];
	struct native_trail *trails[NATIVE_TRAILS]; /* by thread and space key; NULL: none yet */
	struct native_hole *holes[NATIVE_HOLES];    /* of threads that need them */
	size_t n_holes;
	uint64_t holes_used, hole_files; /* bytes of files searched */
	uint64_t hole_scans;		 /* of functions */
	struct native_call calls[NATIVE_CALLS];
	struct native_stale stale[NATIVE_STALE];
	struct native_site sites[NATIVE_SITES];
	struct native_root roots[NATIVE_ROOTS];
	struct native_tail *tails[NATIVE_TAILS]; /* of threads with deep stacks; NULL: none yet */
	struct native_tail *tail;		 /* of the walk that is beyond its copy */
	const struct walk *tail_owner;
	uint64_t tails_used;
	struct native_way *ways; /* NATIVE_WAYS; NULL: none yet */
	uint64_t *edges;   /* calls that were seen or proved (native-edge.c); NULL: none yet */
	uint32_t next_way; /* the place that was taken first */
	struct native_want want;
	uint64_t ways_kept;
	struct native_end ends[NATIVE_ENDS];
	struct native_script *script; /* NULL: not needed so far */
	bool script_renew; /* another batch: what its stacks need is read after the samples of all of these */
	struct native_stg *stg; /* the same */
	struct native_go *go;	/* the same */
	bool has_stg;		/* there was code of GHC */

	/* The piece of stack that was read last from the process, for one walk. */
	const struct walk *chunk_owner;
	uint64_t chunk_start, chunk_len;
	uint8_t *chunk; /* native_chunk() */
};

enum step {
	STEP_ENDED, /* see w->res */
	STEP_FRAME, /* one frame pushed; w->sp and w->bp are its registers */
};

static inline enum step walk_end(struct walk *w, enum uw_outcome outcome, enum uw_reason reason,
				 uint64_t at)
{
	uw_result_end(w->res, outcome, reason, at);
	return STEP_ENDED;
}

/* Of @n steps with ascending stack pointers: the step at @sp, or @n.  @first: the stack pointer of the first step; @stride:
 * bytes from one step to the next. */
static inline uint32_t native_step_at(const uint64_t *first, size_t stride, uint32_t n, uint64_t sp)
{
	const char *steps = (const char *)first;
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (*(const uint64_t *)(const void *)(steps + mid * stride) < sp)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && *(const uint64_t *)(const void *)(steps + low * stride) == sp ? low : n;
}

/* The word at @address, which is known to be in the copy. */
static inline uint64_t walk_word(const struct walk *w, uint64_t address)
{
	uint64_t word;

	memcpy(&word, (const void *)(uintptr_t)(address + w->shift), sizeof(word));
	return word;
}

/* The address by which the rule of the last frame is looked up. */
static inline uint64_t walk_lookup(const struct walk *w)
{
	return uw_frame_lookup(w->frames[w->n - 1]);
}

/* Interrupted by the kernel, not by a call: registers that calls clobber have their values. */
static inline bool walk_is_interrupted(const struct walk *w)
{
	return !(w->frames[w->n - 1] & UW_FRAME_CALLER);
}

/* ---- native-rule.c ---- */
/* The rule of @address, through both caches.  RULE_NONE: the walk has ended. */
rule_t native_rule(struct native *e, struct walk *w, uint64_t address);
/* For walks that have just begun: prefetches all that is read to find the rules that are not in the
 * cache. */
void native_prefetch(struct native *e, struct walk *const *walks, size_t n);

enum native_where { NATIVE_PLACE, NATIVE_NO_MAP, NATIVE_PENDING };
enum native_where native_place(const struct walk *w, uint64_t address,
			       struct native_place *ret_place);
/* The row that a rule of kind SLOW names; looked up again when @rule is 0. */
enum cfi_result native_row(struct native *e, const struct native_place *place, rule_t rule,
			   struct cfi_fde *ret_fde, struct cfi_row *ret_row);
/* Where the function at a place begins and ends, by its CFI: vaddrs. */
bool native_function(struct native *e, const struct native_place *place, uint64_t *ret_begin,
		     uint64_t *ret_end);
/* The rule of an address, by CFI alone.  *ret_ends: as cfi_quick_rule() sets it, else true. */
enum cfi_result native_find_row(struct native *e, const struct native_place *place, bool *ret_ends,
				rule_t *ret_rule, struct cfi_fde *ret_fde);
/* Go's linker wrote the FDE: it states where the return address is, and nothing of rbp. */
bool native_is_by_go(const struct cfi_fde *fde);
/* Frees the sorted indexes of @module, NULL: of all. */
void native_forget_indexes(struct native *e, const struct uw_module *module);

/* Code at [@address - @before, @address + @after): from the process, or from its file where there is
 * no process (an import).  Returns the bytes read, 0: none. */
size_t native_code(const struct walk *w, uint64_t address, size_t before, size_t after,
		   uint8_t *to);
/* The same of a file's code in @map, which does not change: read by pages, as each read takes two context switches. */
size_t native_file_code(struct native *e, const struct walk *w, const struct uw_map *map,
			uint64_t address, size_t before, size_t after, uint8_t *to);
/* Is there a source of code bytes? */
bool native_has_code(const struct walk *w, uint64_t address);

/* ---- native-deep.c ---- */
/* @len bytes at @address of the walk's stack: from the copy, else from the process.  Leaves the walk's result. */
bool native_bytes(struct native *e, struct walk *w, uint64_t address, void *to, size_t len);
/* NATIVE_CHUNK_MAX bytes for what is read; NULL: no memory. */
uint8_t *native_chunk(struct native *e);
/* The @len bytes at @address of the walk's stack are in native_chunk(), and the bytes at the seam are proved.  @read: from the process,
 * right now. */
void native_deep_take(struct native *e, struct walk *w, uint64_t address, uint64_t len, bool read);
/* Is there a direct call of the function at the walk's pc before @ra? */
bool native_calls_this(struct native *e, struct walk *w, uint64_t ra);
/* The walk stands on a frame with its return address at @ra_at, outside the copy, and the process no
 * longer has the bytes of the copy.  x86-64: is that frame still there?  true: its words can be
 * read. */
bool native_same_frame(struct native *e, struct walk *w, uint64_t ra_at);
/* After a step from the frame at @from: notes where the walk has left the copy, and the frames beyond. */
void native_deep_seam(struct native *e, struct walk *w, uint64_t from);
/* The same after a step that has ended the walk, as the word beyond the copy leads to no frame. */
void native_deep_end(struct walk *w, uint64_t from);
void native_tails_clear(struct native *e);
void native_tails_free(struct native *e);
/* A walk has ended: frames that were read from the process stand if they are proved; else the stack ends
 * at the seam. */
void native_deep_settle(struct native *e, struct walk *w);

/* ---- native-edge.c ---- */
/* May each frame from number @first, from 0, have called the one inside of it? */
bool native_edges_hold(struct native *e, struct walk *w, uint32_t first);
/* The first @n frames of the walk are those of its copy: notes their calls. */
void native_edges_note(struct native *e, const struct walk *w, uint32_t n);

/* ---- native-step.c ---- */
/* One frame on, by a @rule that walk_apply() could not apply. */
enum step native_step(struct native *e, struct walk *w, rule_t rule);
/* One frame on, by the row of all registers. */
enum step native_slow(struct native *e, struct walk *w, rule_t rule);
/* One frame on, from a signal frame: to the interrupted function. */
enum step native_signal(struct native *e, struct walk *w);
/* aarch64: does the walk stand on a signal frame, by the words on the stack? */
bool native_is_signal(struct native *e, struct walk *w);
/* The known registers of the frame that the walk stands on; true: all are known. */
bool native_regs(const struct walk *w, struct cfi_regs *regs);
/* The registers of frame @n, from 1 for the leaf, of a walk that has ended, by a second walk.  false: not known. */
bool native_regs_of(struct native *e, struct walk *w, uint32_t n, struct cfi_regs *ret_regs);

/* ---- native-guess.c ---- */
/* One frame on, without CFI. */
enum step native_guess(struct native *e, struct walk *w, rule_t rule);
/* The walk stands on a guessed frame with the rule @rule: does its address follow a call, or may it
 * be a return address without one?  STEP_ENDED: neither. */
enum step native_prove(struct native *e, struct walk *w, rule_t rule);
/* Does @ra follow a call, as far as can be known?  @rule is that of @ra - 1; the answer is noted. */
bool native_follows_call(struct native *e, struct walk *w, uint64_t ra, rule_t rule);
/* A walk with open frames has ended: are they on a callchain that reaches code with CFI?  If not, the
 * walk fails at the first one. */
void native_settle(struct native *e, struct walk *w);

/* ---- native.c ---- */
/* Pushes the frame at @pc with @flags.  STEP_ENDED: root or full. */
enum step native_push(struct walk *w, uint64_t pc, uint64_t flags);
/* One step of a second walk, from @s: the registers of the caller.  1: there is one, its return
 * address is in the copy; 0: this is the root; < 0: not a plain frame. */
int native_trail_step(const struct native *e, const struct walk *w, struct native_trail_step *s,
		      struct native_trail_step *ret_next);

/* ---- native-script.c ---- */
/* A walk of a process with an interpreter has ended: puts the functions in place of the evaluation loop's frames.  The result
 * becomes PENDING where the layout of the interpreter is not loaded yet. */
void native_script(struct native *e, struct walk *w);
/* A walk has ended: GHC's code in it has the callers of its own stack behind it (native-stg.c). */
void native_stg(struct native *e, struct walk *w);
void native_stg_free(struct native *e);
void native_script_free(struct native *e);

/* ---- native-ocaml.c ---- */
/* *rule is that of the code at @address, at @place, by CFI: replaces it where OCaml's CFI does not hold.  false: the code cannot be read
 * now. */
bool native_ocaml_rule(struct native *e, const struct walk *w, const struct native_place *place,
		       uint64_t address, bool leaf, const struct cfi_fde *fde, rule_t *rule);
/* One frame on, from a raise: to the handler's function. */
enum step native_ocaml_handler(struct native *e, struct walk *w, rule_t rule);

/* ---- native-go.c ---- */
/* One frame on, from the first frame of the thread's own stack to the goroutine that went there. */
enum step native_go(struct native *e, struct walk *w);
/* Is the instruction at @pc one of systemstack that runs on the thread's own stack, before its call or behind it? */
bool native_go_leaf(const struct walk *w, uint64_t pc);
/* The same as native_go() from a function that calls the vDSO there. */
enum step native_go_clock(struct native *e, struct walk *w);
/* Does the walk end where a goroutine's stack ends, or is it too deep? */
bool native_go_ends(const struct walk *w);
/* Had an earlier sample the same goroutine's frames, read before this one?  Notes them as read @read_at. */
bool native_go_confirms(struct native *e, const struct walk *w, uint64_t read_at);
/* The walk has failed behind the seam: joins the frames of an earlier sample as guesses.  false: there are none. */
bool native_go_join(struct native *e, struct walk *w);
void native_go_free(struct native *e);

/* ---- native-chain.c ---- */
/* As uw_engine_ops.unwind, for engine fp. */
int native_chains(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		  struct uw_result *results);

/* ---- native-hole.c ---- */
/* The walk, which has failed for want of memory, stands on a frame with its caller at @cfa.
 * Ends it WHOLE by the frames that earlier stacks of the thread had there, or leaves it as it is. */
void native_hole_cross(struct native *e, struct walk *w, uint64_t cfa);
/* Where the only call in the function at @from of the one at @to, in the same module, returns to: an address.  0: there is none, or
 * several, or the code cannot be read. */
uint64_t native_only_call(struct native *e, const struct walk *w, uint64_t from, uint64_t to);
/* A walk has ended: notes its frames, if its thread has a hole.  @e has some. */
void native_hole_note(struct native *e, const struct walk *w);
void native_holes_clear(struct native *e);
void native_holes_free(struct native *e);
