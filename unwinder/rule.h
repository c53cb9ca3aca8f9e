/* rule.h - how one pc is unwound, in 48 bits, and the cache of rules.  Private to unwinder/.
 * Thread: the engine's.
 *
 *   63        48 47           28 27            8 7  6 5   4 3    0
 *   [ the cache ][ M            ][ N            ][ why][call][ kind ]
 *                                                 [link]
 *
 * RULE_SP, RULE_FP: CFA = rsp|rbp + 8 N (N signed), return address at CFA - 8, rbp saved at CFA - 8
 * M, or kept when M is all ones.  Offsets in units of 8: frames of 90,304 bytes were met, so 16-bit
 * bytes are too few. These two cover all but a few frames in a million; the rest is RULE_SLOW.
 * RULE_CHAIN is RULE_FP with N = M = 2, without CFI: a caller in JIT code.  The kinds are numbered
 * for the walk: one bit each for "a frame", "by rbp" and "guessed".
 *
 * aarch64: sp and x29 for rsp and rbp, and the link is the place of the return address (enum
 * rule_link).  A rule is of one machine: its module's.
 *
 * The cache: a line of 64 bytes is a set of four entries.  An entry is looked for at the place its
 * hash names and then in the other three, so a hit is one line and mostly one compare.  The key is
 * exact: 48 bits of address and 32 of key (16 above the address, 16 above the rule).  An empty
 * entry is all ones, which no user address gives: a lookup needs no test for it. */
#pragma once

#include "base/util.h"

enum rule_kind {
	RULE_NONE,
	RULE_ROOT,  /* the return address is undefined: the outermost frame */
	RULE_GUESS, /* no CFI: frame pointer.  Has rule_why and rule_form */
	RULE_SLOW,  /* full registers.  Has rule_fde */
	RULE_BAD,   /* damaged or unsupported CFI */

	RULE_BY_FP = 1,
	RULE_GUESSED = 2,
	RULE_FRAME = 8,
	RULE_SP = RULE_FRAME,
	RULE_FP = RULE_FRAME | RULE_BY_FP,
	/* a guess that is already made: the frame is marked, and must follow a call. Has rule_why
	 */
	RULE_CHAIN = RULE_FRAME | RULE_BY_FP | RULE_GUESSED,
};

enum rule_why {
	RULE_NO_CFI,
	RULE_NO_FILE, /* JIT, anonymous */
	RULE_NOT_READABLE,
	RULE_CFI_WRONG, /* the code returns in another way than its CFI (native-rule.c) */
};

/* The form of a frame by the code at a pc without CFI (code.h); RULE_FORM_UNKNOWN: not read yet. */
enum rule_form {
	RULE_FORM_UNKNOWN,
	RULE_FORM_FP,	  /* [rbp] is the caller's rbp, [rbp + 8] the return address */
	RULE_FORM_ENTRY,  /* [rsp] is the return address: before push rbp, at ret, in a PLT entry.
			     aarch64: x30 is it, rsp stays as it is */
	RULE_FORM_PUSHED, /* [rsp] is the caller's rbp, [rsp + 8] the return address */
	RULE_FORM_PLT, /* [rsp + 8] is the return address, rbp is live: a PLT entry after its push */
	RULE_FORM_SIGRETURN, /* the interrupted registers are above rsp (regs.h) */
	RULE_FORM_ROOT,	     /* the first frame of a stack made by makecontext() */
	RULE_FORM_WALKED,    /* x86-64: by a walk through the code (code.h); has rule_way_* */
	RULE_FORM_OWN_STACK, /* x86-64: as FP where rbp leads into this stack, else as GO by rbp */
	RULE_FORM_STG, /* x86-64: GHC's code; the word above the form is 1 where rsp is 8 bytes lower (native-guess.c) */
	RULE_FORM_GO, /* x86-64: the first frame of a thread's own stack, which a goroutine went to (native-go.c) */
	RULE_FORM_HANDLER, /* x86-64: OCaml's raise; rule_way_ra: where the handler's address is (native-ocaml.c) */
	RULE_FORM_PUSHES, /* x86-64: the code is switching to another stack; has rule_source_* */
};

/* Does the address after this one follow a call instruction?  Read for guessed frames only. Where
 * code cannot be read there is no answer; the lowest bit means that the frame is accepted. */
enum rule_call { RULE_CALL_UNKNOWN, RULE_CALL_YES, RULE_CALL_NO, RULE_CALL_UNREADABLE };

/* aarch64, RULE_SP and RULE_FP: x29 and the return address are saved side by side, as every frame
 * record has them; or only the latter is; or both are in their registers still. */
enum rule_link {
	RULE_LINK_PAIR, /* x29 at CFA - 8 M, the return address above it */
	RULE_LINK_ONLY, /* the return address at CFA - 8 M, x29 kept */
	RULE_LINK_LIVE, /* x30, x29 kept */
};

typedef uint64_t rule_t; /* a packed number, like a pte_t */

enum { RULE_BITS = 48, RULE_N_BITS = 20 };
#define RULE_MASK ((1ull << RULE_BITS) - 1)
#define RULE_N_MAX ((1ll << (RULE_N_BITS - 1)) - 1)
#define RULE_M_KEPT ((1ull << RULE_N_BITS) - 1)
#define RULE_M_MAX ((int64_t)RULE_M_KEPT - 1)

static inline rule_t rule_simple(enum rule_kind kind)
{
	return kind;
}

/* @n and @m in units of 8, within RULE_N_MAX and RULE_M_MAX.  @m 0: rbp is kept. */
static inline rule_t rule_frame(enum rule_kind kind, int64_t n, uint64_t m)
{
	return kind | ((uint64_t)n & ((1ull << RULE_N_BITS) - 1)) << 8 |
	       (m ? m : RULE_M_KEPT) << 28;
}

static inline rule_t rule_frame_link(enum rule_kind kind, int64_t n, uint64_t m,
				     enum rule_link link)
{
	return rule_frame(kind, n, m) | (uint64_t)link << 6;
}

static inline rule_t rule_guess(enum rule_why why, enum rule_form form)
{
	return RULE_GUESS | (uint64_t)why << 6 | (uint64_t)form << 12;
}

static inline rule_t rule_chain(enum rule_why why)
{
	return rule_frame(RULE_CHAIN, 2, 2) | (uint64_t)why << 6;
}

static inline rule_t rule_slow(uint32_t fde, bool debug_frame)
{
	return RULE_SLOW | (uint64_t)fde << 8 | (uint64_t)debug_frame << 40;
}

static inline enum rule_kind rule_kind(rule_t rule)
{
	return (enum rule_kind)(rule & 15);
}

/* RULE_GUESS: no prologue (code.h) was found before the address. */
#define RULE_NO_PROLOGUE (1ull << 8)

static inline bool rule_is_frame(rule_t rule)
{
	return rule & RULE_FRAME;
}

static inline int64_t rule_cfa(rule_t rule) /* bytes above rsp or rbp */
{
	return ((int64_t)(rule << 36) >> 44) * 8;
}

/* rbp, bytes below the CFA; where it is kept, more than any stack has (NATIVE_ROOM_MAX). */
static inline uint64_t rule_saved_or_far(rule_t rule)
{
	return rule >> 25 & RULE_M_KEPT << 3;
}

static inline uint64_t rule_saved(rule_t rule) /* the same; 0: kept */
{
	uint64_t saved = rule_saved_or_far(rule);

	return saved == RULE_M_KEPT << 3 ? 0 : saved;
}

static inline enum rule_why rule_why(rule_t rule)
{
	return (enum rule_why)(rule >> 6 & 3);
}

static inline enum rule_link rule_link(rule_t rule)
{
	return rule_kind(rule) == RULE_CHAIN ? RULE_LINK_PAIR : (enum rule_link)(rule >> 6 & 3);
}

static inline enum rule_form rule_form(rule_t rule)
{
	return (enum rule_form)(rule >> 12 & 15);
}

static inline rule_t rule_with_form(rule_t rule, enum rule_form form)
{
	return (rule & ~(15ull << 12)) | (uint64_t)form << 12;
}

/* RULE_FORM_WALKED: the return address in units of 8 above rsp, or RULE_WAY_BY_FP; the caller's rbp
 * in these units plus one, 0: it is live; did the walk end at a ret? */
enum { RULE_WAY_BITS = 12, RULE_WAY_BY_FP = (1 << RULE_WAY_BITS) - 1 };
#define RULE_WAY_RETURNS (1ull << (16 + 2 * RULE_WAY_BITS))
static inline rule_t rule_with_way(rule_t rule, uint32_t ra, uint32_t bp)
{
	return rule_with_form(rule, RULE_FORM_WALKED) | (uint64_t)ra << 16 |
	       (uint64_t)bp << (16 + RULE_WAY_BITS);
}

static inline uint32_t rule_way_ra(rule_t rule)
{
	return rule >> 16 & RULE_WAY_BY_FP;
}

static inline uint32_t rule_way_bp(rule_t rule)
{
	return rule >> (16 + RULE_WAY_BITS) & RULE_WAY_BY_FP;
}

/* RULE_FORM_PUSHES: where the return address and the caller's rbp will come from. */
enum { RULE_SOURCE_BITS = 16 };
struct rule_source {
	uint32_t reg;	 /* DWARF's number, below 16 */
	bool memory;	 /* the word at the register and @offset, else the register itself */
	uint32_t offset; /* a multiple of 8, below 8 << 11 */
};

static inline uint64_t rule_source_word(struct rule_source source)
{
	return source.reg | (uint64_t)source.memory << 4 | (uint64_t)(source.offset / 8) << 5;
}

static inline rule_t rule_with_sources(rule_t rule, struct rule_source ra, struct rule_source bp)
{
	return rule_with_form(rule, RULE_FORM_PUSHES) | rule_source_word(ra) << 16 |
	       rule_source_word(bp) << (16 + RULE_SOURCE_BITS);
}

static inline struct rule_source rule_source(rule_t rule, bool bp)
{
	uint32_t word = rule >> (bp ? 16 + RULE_SOURCE_BITS : 16) & 0xffff;

	return (struct rule_source){word & 15, word >> 4 & 1, (word >> 5) * 8};
}

static inline uint32_t rule_fde(rule_t rule)
{
	return (uint32_t)(rule >> 8);
}

static inline bool rule_fde_in_debug_frame(rule_t rule)
{
	return rule >> 40 & 1;
}

static inline enum rule_call rule_call(rule_t rule)
{
	return (enum rule_call)(rule >> 4 & 3);
}

static inline bool rule_call_is_taken(rule_t rule)
{
	return rule >> 4 & 1;
}

static inline rule_t rule_with_call(rule_t rule, enum rule_call call)
{
	return (rule & ~(3ull << 4)) | (uint64_t)call << 4;
}

enum { RULE_CACHE_BITS = 16, RULE_CACHE_ENTRIES = 1 << RULE_CACHE_BITS };

struct rule_entry {
	uint64_t address; /* and the key's low 16 bits above 48 */
	uint64_t rule;	  /* and the key's high 16 bits above 48 */
};

struct rule_cache {
	struct rule_entry *entries; /* 64-aligned */
	uint32_t victim;
};

/* The parts of a key for each word, computed once a stack. */
struct rule_key {
	uint64_t low, high, hash;
};

static inline struct rule_key rule_key(uint32_t key)
{
	return (struct rule_key){
		.low = (uint64_t)key << 48,
		.high = key >> 16,
		.hash = key * 0x9e3779b97f4a7c15ull,
	};
}

static inline size_t rule_cache_place(const struct rule_key *key, uint64_t address)
{
	return (address ^ key->hash) * 0xd6e8feb86659fd93ull >> (64 - RULE_CACHE_BITS);
}

static inline bool rule_entry_is(const struct rule_entry *entry, const struct rule_key *key,
				 uint64_t address)
{
	return entry->address == (address | key->low) && entry->rule >> 48 == key->high;
}

static inline bool rule_entry_is_empty(const struct rule_entry *entry)
{
	return entry->address == UINT64_MAX;
}

static inline void rule_cache_prefetch(const struct rule_cache *cache, const struct rule_key *key,
				       uint64_t address)
{
	__builtin_prefetch(&cache->entries[rule_cache_place(key, address)]);
}

/* The entry of @address (below 2^48), or NULL. */
static inline struct rule_entry *rule_cache_find(const struct rule_cache *cache,
						 const struct rule_key *key, uint64_t address)
{
	size_t place = rule_cache_place(key, address);
	struct rule_entry *entry = &cache->entries[place];

	if (__builtin_expect(rule_entry_is(entry, key, address), 1))
		return entry;
	for (size_t way = 1; way < 4; way++) {
		entry = &cache->entries[place ^ way];
		if (rule_entry_is(entry, key, address))
			return entry;
	}
	return NULL;
}

/* The rule of @address where it stands in its first place, @entry, nearly always.  Above RULE_BITS
 * it has what the cache keeps there. */
static inline bool rule_cache_at(const struct rule_entry *entry, const struct rule_key *key,
				 uint64_t address, rule_t *ret_rule)
{
	*ret_rule = entry->rule;
	return !((entry->address ^ (address | key->low)) | (entry->rule >> 48 ^ key->high));
}

/* @n caches, side by side in one piece of memory (huge pages where the kernel has some).  -ENOMEM.
 */
int rule_caches_init(struct rule_cache *const caches[], size_t n);
/* @first of the @n that were made together; fine when it was never made. */
void rule_caches_deinit(struct rule_cache *first, size_t n);
void rule_cache_clear(struct rule_cache *cache);
/* Adds @address (below 2^48 - 1), which is not in. */
void rule_cache_add(struct rule_cache *cache, const struct rule_key *key, uint64_t address,
		    rule_t rule);
/* Adds it, or replaces its rule. */
void rule_cache_put(struct rule_cache *cache, const struct rule_key *key, uint64_t address,
		    rule_t rule);
