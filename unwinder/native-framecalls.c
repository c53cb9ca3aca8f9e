/* native-framecalls.c - see frames-walk.h.  Which functions of PHP or Ruby have called which, by readings of the frames of a process after its
 * samples: from the innermost frame of that time outwards.  An earlier reading shows what a later sample may have had. */
#include "unwinder/frames-walk.h"

enum {
	NOTED_MAX = 128,    /* calls of a reading */
	NOTED_NS = 2000000, /* ... so far apart: a batch of stacks is read at one time */
	READ_MAX = 512,	    /* frames of a reading */
	UNKNOWN_MAX = 4,    /* ... that are none */
};

/* The function @callee, with its frame at @callee_at, was called by @id with its frame at @address; @key: frames_key_of_call(). */
struct call {
	uint64_t callee, callee_at, address, instruction, id, key;
	uint64_t outermost; /* 1: of a run without another one behind it */
};

uint64_t frames_id(const struct script_function *f)
{
	return f->address | (uint64_t)f->parts.sign << 48;
}

uint64_t frames_key_of_outer(uint64_t outer, uint64_t instruction)
{
	return hash_u64(outer ^ hash_u64(instruction));
}

uint64_t frames_key_of_call(uint64_t address, uint64_t id, uint64_t outer)
{
	return hash_u64(address ^ hash_u64(id ^ hash_u64(outer)));
}

/* The calls [@run, @n) are those of a run that the call @outer began.  Returns @n. */
static uint32_t end_run(struct call *calls, uint32_t run, uint32_t n, uint64_t outer)
{
	for (uint32_t i = run; i < n; i++) {
		calls[i].key = frames_key_of_call(calls[i].callee_at, calls[i].callee, outer);
		calls[i].outermost = !outer;
	}
	return n;
}

uint64_t frames_key_of_stack(uint64_t address)
{
	enum { STACK_BITS = 17 }; /* they are larger, or in pages of this size */

	return hash_u64(~(address >> STACK_BITS));
}

uint64_t frames_words(const struct frame *f)
{
	return hash_u64(f->instruction) ^ f->previous;
}

/* The frame at @address, noted, and its function; NULL: it is the interpreter's own.  false: it has none that is there. */
static bool read_noted(struct frames_walk *fw, uint64_t address, struct frame *f,
		       const struct script_function **ret_function)
{
	*ret_function = NULL;
	if (!frames_read(fw, address, f))
		return false;
	/* Stacks alone would show it only where it is a caller of theirs. */
	script_note(fw->s, fw->e, address, f->function, frames_words(f));
	if (f->function)
		*ret_function = frames_function_at(fw, f->function, f->instruction, 0);
	return *ret_function || !f->function || (fw->ruby && !f->instruction);
}

/* Which functions have called which, from the frame at @address outwards.  Returns how many.  A thread on another CPU runs on while its
 * memory is read: these are the calls of one request. */
static uint32_t find_calls(struct frames_walk *fw, uint64_t address, struct call calls[NOTED_MAX])
{
	uint32_t run = 0,
		 before = 0; /* the first call of the run in hand, and of the one inside it */
	uint32_t n = 0, n_unknown = 0;
	uint64_t callee = 0, callee_at = 0, seen[2];
	bool ended = false;

	for (uint32_t i = 0; address && i < READ_MAX && script_step(fw->s, 1); i++) {
		const struct script_function *function;
		struct frame f;
		bool known;

		if (!frames_read_at_once(fw, address, seen))
			break; /* it is of another moment */
		known = read_noted(fw, address, &f, &function);
		/* Ruby: one that begins or ends, which others are behind, or none is any more. */
		n_unknown = known ? 0 : n_unknown + 1;
		if (!known && (!fw->ruby || n_unknown > UNKNOWN_MAX))
			break;
		if (!known) {
			callee = 0;
			address += fw->l->offsets.frame_bytes;
			continue;
		}
		if (function && ended && !function->handler) {
			before = run;
			run = end_run(calls, run, n, frames_key_of_outer(address, f.instruction));
			ended = false;
		}
		if (function && callee && n < NOTED_MAX)
			calls[n++] = (struct call){
				.callee = callee,
				.callee_at = callee_at,
				.id = frames_id(frames_with_class(fw, function)),
				.address = address,
				.instruction = f.instruction,
			};
		if (function) {
			callee = frames_id(frames_with_class(fw, function));
			callee_at = address;
		}
		if (f.last && callee && n < NOTED_MAX)
			calls[n++] = (struct call){
				.callee = callee,
				.callee_at = callee_at,
				.id = FRAMES_RUN_ENDS,
				.address = f.previous,
			};
		ended |= f.last && callee;
		callee = f.last ? 0 : callee;
		address = f.previous;
	}
	/* Ruby: behind the outermost run is a frame that no code runs. */
	if (ended && n - run == 1 && run && calls[run - 1].id == FRAMES_RUN_ENDS &&
	    calls[run - 1].address == calls[run].callee_at) {
		n = run;
		run = before;
	}
	return ended && (fw->ruby ? n_unknown > UNKNOWN_MAX : !address) ? end_run(calls, run, n, 0)
									: run;
}

enum script_usual frames_usual(struct frames_walk *fw, uint64_t key, uint64_t *ret_id,
			       uint64_t *ret_address)
{
	return script_flips(fw->s, key) ? SCRIPT_UNUSUAL
					: script_usual(fw->s, fw->w, key, ret_id, ret_address);
}

/* ---- the outermost functions ---- */

static uint64_t key_of_place(uint64_t address)
{
	return hash_u64(address ^ 0x6f757465ull << 32);
}

/* The outermost frames of the stack with a frame at @address. */
static struct script_outer *outer_of(struct frames_walk *fw, uint64_t address, uint64_t *ret_key)
{
	*ret_key = frames_key_of_stack(address) ^ (uint64_t)fw->s->serial << 32;
	return &fw->s->outers[*ret_key % SCRIPT_OUTERS];
}

/* Notes the outermost frames of the stack, and which functions have them: these change seldom. */
static void note_outermost(struct frames_walk *fw, const struct call *calls, uint32_t n)
{
	uint32_t first = n - (uint32_t)min_u64(n, SCRIPT_OUTER);
	struct script_outer *outer;
	uint64_t key;

	/* (deeper stacks are not noted up to their end) */
	if (!n || !calls[n - 1].outermost || calls[n - 1].id != FRAMES_RUN_ENDS)
		return;
	while (!calls[first].outermost)
		first++;
	outer = outer_of(fw, calls[n - 1].callee_at, &key);
	*outer = (struct script_outer){.key = key, .n = n - first};
	for (uint32_t i = first; i < n; i++) {
		outer->frames[i - first] = calls[i].callee_at;
		script_note(fw->s, fw->e, key_of_place(calls[i].callee_at), calls[i].callee, 0);
	}
}

enum script_usual frames_outermost_at(struct frames_walk *fw, uint64_t address, uint64_t *ret_id)
{
	uint64_t unused;

	return frames_usual(fw, key_of_place(address), ret_id, &unused);
}

uint32_t frames_outermost(struct frames_walk *fw, uint64_t inside,
			  struct frames_known ret[SCRIPT_OUTER])
{
	uint64_t key;
	const struct script_outer *outer = outer_of(fw, inside, &key);
	uint32_t n = 0;

	for (uint32_t i = outer->key == key ? outer->n : 0; i-- > 0; n++) {
		uint64_t address = outer->frames[i];
		enum script_usual usual = frames_outermost_at(fw, address, &ret[n].id);

		if (usual == SCRIPT_UNUSUAL || (fw->ruby ? address <= inside : address >= inside))
			break;
		ret[n].proved = usual == SCRIPT_PROVED;
	}
	return n;
}

void frames_note_calls(struct frames_walk *fw)
{
	struct native_script *s = fw->s;
	struct call calls[NOTED_MAX];
	uint64_t seen[2];
	uint32_t n;

	/* A thread on another CPU runs on while its memory is read: these are the calls of one request. */
	if (!frames_read_current(fw) || !fw->current || !frames_read_at_once(fw, fw->current, seen))
		return;
	if (s->noted_serial == s->serial && s->read_at - s->noted_at < NOTED_NS)
		return;
	s->noted_serial = s->serial;
	s->noted_at = s->read_at;
	n = find_calls(fw, fw->current, calls);
	note_outermost(fw, calls, n);
	for (uint32_t i = 0; i < n; i++) {
		script_note_most(s, fw->e, calls[i].key, calls[i].id, calls[i].address);
		script_note_most(
			s, fw->e,
			frames_key_of_call(calls[i].callee_at, calls[i].callee, FRAMES_ANY_OUTER),
			calls[i].id, calls[i].address);
		if (calls[i].id != FRAMES_RUN_ENDS)
			script_note_most(s, fw->e, ~calls[i].key, calls[i].instruction, 0);
		else if (calls[i].outermost)
			script_note_most(s, fw->e, frames_key_of_stack(calls[i].callee_at),
					 calls[i].address, 0);
	}
}
