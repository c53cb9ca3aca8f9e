/* native-stg.c - callers in Haskell.  Private to unwinder/ (native.h).  Thread: the engine's.
 *
 * GHC's code has a stack of its own in the heap: rbp is its stack pointer (Sp), and rsp stays where StgRun has put it
 * (native-guess.c).  Each frame there begins with a return address, and before the code at that address is its info table
 * (rts/include/rts/storage/InfoTables.h with TABLES_NEXT_TO_CODE; the same since GHC 8.6):
 *
 *     Sp ──► return address ──► [layout u64][type u32][srt i32] code       frame: 1 + n words
 *            n words                                                       n: RET_SMALL, UPDATE_FRAME ..: the lowest 6 bits of layout,
 *            return address                                                   above them a bitmap of n bits
 *            ..                                                               RET_BIG: a word at layout (i32) from the code on
 *                                                                             RET_FUN: 2 + the first word of the frame
 *
 *     UNDERFLOW_FRAME leads to the next piece of the stack; Sp of that is its third word.  STOP_FRAME is the first frame of a thread.
 *
 * The stack is read as it was at the sample where a BPF program has copied it (perf/at-sample.h).  What is read from the process
 * afterwards may be another call's by then: it is shown where it read the same before the sample and after, many times, from the innermost frame on.  The frames
 * stand between GHC's code and the C code that runs it. */
#include <time.h>

#include "symbols/vm-memory.h"
#include "unwinder/native.h"
#include "unwinder/regs.h"

enum {
	RET_SMALL = 30,
	RET_BIG = 31,
	RET_FUN = 32,
	UPDATE_FRAME = 33,
	CATCH_FRAME = 34,
	UNDERFLOW_FRAME = 35,
	STOP_FRAME = 36,
	ATOMICALLY_FRAME = 55,
	CATCH_STM_FRAME = 57,
	TYPES = 64,
	TABLE_BYTES = 16,
	SIZE_BITS = 6,
	SIZE_MAX_WORDS = 1 << 20,
	CHUNK_SP = 16, /* in a StgStack */
	ARGS_MAX = 16, /* words of a call above the innermost return address */
	INFOS = 1024,
	OWN_MAX = 2048, /* bytes of the code behind a return address */
	PAGES = 8,
	READS_MAX = 32, /* pages for one stack */
	COPY_HEAD = 1,	/* words of the copy: Sp, then the stack */
	PASTS = 4096,
	SAME_MIN = 32,	   /* readings, */
	SAME_NS = 2000000, /* ... so far apart */
};

struct native_stg {
	struct vm_memory memory;
	struct stg_info {
		uint64_t address; /* 0: free */
		uint32_t key;	  /* of the space */
		uint32_t type;	  /* 0: no frame begins with it */
		uint64_t size;	  /* of the frame, bytes; RET_FUN: without the words of the call */
	} infos[INFOS];
	/* The return address at a place of a stack, since when it is the same, and how often. */
	struct stg_past {
		uint64_t sp, code, since, counted;
		uint32_t key, same;
	} pasts[PASTS];
	uint64_t frames[UW_MAX_FRAMES];
	uint32_t n;
};

struct stg_walk {
	struct native *e;
	struct walk *w;
	struct native_stg *s;
	bool late;  /* words were read from the process */
	bool ended; /* a caller is not known */
};

/* ---- words of the stack ---- */

static bool stack_word(struct stg_walk *x, uint64_t address, uint64_t *ret_word)
{
	const struct uw_snapshot *s = x->w->snapshot;
	uint64_t n = (uint64_t)s->n_python * UW_PYTHON_WORDS;
	uint64_t at = n > COPY_HEAD ? address - s->python[0] : UINT64_MAX;

	if (address & 7)
		return false;
	if (n > COPY_HEAD && at / 8 < n - COPY_HEAD) {
		*ret_word = s->python[COPY_HEAD + at / 8];
		return true;
	}
	x->late = true;
	return vm_memory_read(&x->s->memory, address, ret_word, 8);
}

/* ---- info tables ---- */

static bool is_frame_type(uint32_t type)
{
	return (type >= RET_SMALL && type <= STOP_FRAME) ||
	       (type >= ATOMICALLY_FRAME && type <= CATCH_STM_FRAME);
}

/* By the table's bytes. */
static bool parse_table(struct stg_walk *x, uint64_t code, const uint8_t *table,
			struct stg_info *info)
{
	uint64_t layout, words;
	uint32_t type;

	memcpy(&layout, table, sizeof(layout));
	memcpy(&type, table + 8, sizeof(type));
	if (!is_frame_type(type))
		return false;
	if (type == RET_FUN)
		words = 2;
	else if (type == RET_BIG &&
		 (!vm_memory_read(&x->s->memory, code + (uint64_t)(int64_t)(int32_t)layout, &words,
				  sizeof(words)) ||
		  words > SIZE_MAX_WORDS))
		return false;
	else if (type != RET_BIG) {
		words = layout & ((1 << SIZE_BITS) - 1);
		if (layout >> SIZE_BITS >> words) /* bits of words that the frame does not have */
			return false;
	}
	info->type = type;
	info->size = 8 * (1 + words);
	return true;
}

/* The frames that begin with the return address @code; NULL: none does. */
static const struct stg_info *info_of(struct stg_walk *x, uint64_t code)
{
	uint32_t key = x->w->snapshot->space->key;
	struct stg_info *info = &x->s->infos[hash_u64(code ^ key) % INFOS];
	uint8_t table[TABLE_BYTES + 1];
	const struct uw_map *map;

	if (!vm_memory_is_address(code))
		return NULL;
	if (info->address == code && info->key == key)
		return info->type ? info : NULL;
	map = uw_space_find(x->w->snapshot->space, code);
	if (!map || !map->module || code - map->start < TABLE_BYTES)
		return NULL;
	*info = (struct stg_info){.address = code, .key = key};
	if (native_code(x->w, code, TABLE_BYTES, 1, table) != sizeof(table) ||
	    !parse_table(x, code, table, info))
		return NULL;
	return info;
}

/* ---- the innermost frame ---- */

/* Is @pc in the code behind the return address @code?  Then the frame is that of the running function itself.  The code ends
 * where the next table is. */
static bool is_own(struct stg_walk *x, uint64_t code, uint64_t pc)
{
	uint64_t len = pc - code, layout;
	uint8_t bytes[OWN_MAX];
	uint32_t type;

	if (len >= OWN_MAX || native_code(x->w, code, 0, len + 1, bytes) != len + 1)
		return false;
	for (uint64_t at = 0; at + TABLE_BYTES <= len; at += 8) {
		memcpy(&layout, bytes + at, sizeof(layout));
		memcpy(&type, bytes + at + 8, sizeof(type));
		if (!(layout >> 32) && type && type < TYPES)
			return false;
	}
	return true;
}

/* From @sp on: arguments of the running function may be above its return address.  0: none is found. */
static uint64_t first_frame(struct stg_walk *x, uint64_t sp, uint64_t pc)
{
	const struct stg_info *info;
	uint64_t word;

	for (uint32_t i = 0; i < ARGS_MAX && stack_word(x, sp, &word); i++, sp += 8) {
		info = info_of(x, word);
		if (info)
			return info->type == RET_SMALL && is_own(x, word, pc) ? sp + info->size
									      : sp;
	}
	return 0;
}

/* ---- all ---- */

/* Was the return address @code at @sp before the sample, often enough to have been there all the time?  Notes that it is now. */
static bool was_there(struct stg_walk *x, uint64_t sp, uint64_t code)
{
	const struct uw_snapshot *s = x->w->snapshot;
	struct stg_past *past = &x->s->pasts[hash_u64(sp ^ s->space->key) % PASTS];
	uint64_t now = clock_ns((clockid_t)x->e->engine.settings.clock);

	if (past->sp != sp || past->key != s->space->key || past->code != code) {
		*past = (struct stg_past){
			.sp = sp, .code = code, .since = now, .counted = now, .key = s->space->key};
		return false;
	}
	if (now - past->counted >= SAME_NS) {
		past->counted = now;
		past->same++;
	}
	return past->since <= s->time && past->same >= SAME_MIN;
}

static void push_caller(struct stg_walk *x, uint32_t type, uint64_t code)
{
	/* The others are the run time system's marks. */
	if (type >= RET_SMALL && type <= RET_FUN && !x->ended)
		x->s->frames[x->s->n++] = code;
}

static void find_callers(struct stg_walk *x, uint64_t sp, uint64_t pc)
{
	uint32_t room = x->w->max - x->w->n;
	uint64_t code, word;

	sp = first_frame(x, sp, pc);
	for (uint32_t i = 0; sp && i < UW_MAX_FRAMES && x->s->n < room; i++) {
		const struct stg_info *info = stack_word(x, sp, &code) ? info_of(x, code) : NULL;

		/* No frame is shown as the caller of one that it did not call. */
		if (info && x->late && !was_there(x, sp, code))
			x->ended = true;
		if (!info || info->type == STOP_FRAME)
			return;
		push_caller(x, info->type, code);
		if (info->type == UNDERFLOW_FRAME) {
			if (!stack_word(x, sp + 8, &word) || !stack_word(x, word + CHUNK_SP, &sp))
				return;
			continue;
		}
		word = 0;
		if (info->type == RET_FUN &&
		    (!stack_word(x, sp + 8, &word) || word > SIZE_MAX_WORDS))
			return;
		sp += info->size + 8 * word;
	}
}

/* The walk's frame of GHC's code; w->n: there is none. */
static uint32_t find_code(const struct native *e, const struct walk *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		const struct rule_entry *entry =
			rule_cache_find(&e->by_pc, &w->key, uw_frame_lookup(w->frames[i]));

		if (entry && rule_kind(entry->rule) == RULE_GUESS &&
		    rule_form(entry->rule) == RULE_FORM_STG)
			return i;
	}
	return w->n;
}

static struct native_stg *stg_of(struct native *e, const struct walk *w)
{
	if (!e->stg) {
		e->stg = calloc(1, sizeof(*e->stg));
		if (e->stg && vm_memory_begin(&e->stg->memory, NULL, PAGES) < 0) {
			free(e->stg);
			e->stg = NULL;
		}
		e->no_memory |= !e->stg;
		e->stats.cache_bytes += e->stg ? sizeof(*e->stg) : 0;
	}
	if (e->stg) {
		vm_memory_again(&e->stg->memory, w->snapshot->space->memory,
				(uint64_t)READS_MAX * VM_PAGE);
		e->stg->n = 0;
	}
	return e->stg;
}

void native_stg(struct native *e, struct walk *w)
{
	struct stg_walk x = {.e = e, .w = w};
	uint32_t at = find_code(e, w);
	struct cfi_regs regs;

	if (at == w->n || w->machine->link || w->res->outcome == UW_PENDING)
		return;
	w->res->stg = true;
	if (!native_regs_of(e, w, at + 1, &regs) || !(regs.known >> DWARF_X86_RBP & 1))
		return;
	x.s = stg_of(e, w);
	if (!x.s)
		return;
	find_callers(&x, regs.r[DWARF_X86_RBP], uw_frame_pc(w->frames[at]));
	memmove(w->frames + at + 1 + x.s->n, w->frames + at + 1,
		(w->n - at - 1) * sizeof(*w->frames));
	memcpy(w->frames + at + 1, x.s->frames, x.s->n * sizeof(*w->frames));
	w->n += x.s->n;
	w->res->n_frames = w->n;
}

void native_stg_free(struct native *e)
{
	if (e->stg)
		vm_memory_end(&e->stg->memory);
	free(e->stg);
}
