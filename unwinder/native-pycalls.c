/* native-pycalls.c - see python-walk.h.  Which of CPython's functions have called which, learned from frames that are read late.
 *
 * Two lists of frames are read with each stack: the one of the sample, from the first frames of its runs on, and the one that the
 * thread has by then, from its thread state on.  The words of the first may be left from calls that are over; those of a frame on
 * CPython's stack have to fit the frame inside it, but a generator's frame is in the heap, where another generator's may have taken its
 * place.  So what calls from generators is learned from the second alone, where the thread state is known. */
#include "unwinder/python-walk.h"

enum {
	NOTED_MAX = 64, /* frames of a run */
	RUNS_MAX = 16,
	STATES_MAX = 64,    /* threads of a process that are looked through */
	APART_NS = 2000000, /* between two readings of thread states: those of a batch are one */
	C_STACK = 1 << 20,  /* bytes below the sample's stack pointer that a later stack may have */
	CFRAME_TO_FRAME = 13, /* 3.x: before it a thread state leads to a _PyCFrame, */
	CFRAME_TRACING = 12,  /* ... the first word of which is use_tracing before this one */
};

bool python_ends_run(const struct python_walk *pw, const struct python_frame *f)
{
	return f->entry ||
	       (!pw->py->offsets.is_entry && in_copy(pw->w, f->previous, UW_PYTHON_FRAME));
}

uint64_t python_key_of_call(uint64_t frame, uint64_t code)
{
	return hash_u64(frame ^ hash_u64(code));
}

uint64_t python_key_of_root(const struct python_walk *pw)
{
	return hash_u64(pw->w->snapshot->thread ^ 0x726f6f74ull << 32);
}

bool python_is_on_c_stack(const struct python_walk *pw, uint64_t address)
{
	return address - pw->w->base + C_STACK < C_STACK + pw->w->snapshot->stack_len;
}

/* ---- a list ---- */

/* What is noted of a list of frames: @f, the function @code; *top: the innermost frame so far on CPython's stack, 0: not known. */
struct noted_frame {
	struct python_frame f;
	struct script_function code; /* address 0: not known */
	uint64_t top;
};

/* Does the function of @g, which is now in the frame that has called @f, fit there?  Of the sample's list, not @current, a generator's does
 * not. */
static bool fits(const struct python_walk *pw, const struct noted_frame *f,
		 const struct noted_frame *g, const struct script_function *code, bool current)
{
	bool begins = (f->top & (VM_PAGE - 1)) <= PYTHON_CHUNK_BEGIN;

	if (!code->size)
		return current || !pw->state;
	return !f->top || begins || g->f.address + code->size == f->top;
}

/* Notes that @g, where its words fit, has called @f. */
static void note_caller(struct python_walk *pw, const struct noted_frame *f, struct noted_frame *g,
			bool current)
{
	const struct script_function *code = python_code_at(pw, g->f.code);

	g->top = f->top;
	if (!code)
		return;
	if (code->size)
		g->top = g->f.address;
	if (!fits(pw, f, g, code, current))
		return; /* it is not the caller's frame by now */
	g->code = *code;
	if (code->size)
		script_frame_note(pw->s, id_of(code), g->top);
	/* (what 3.11 has on that stack of a generator is the call that makes it: C code runs it) */
	if (f->code.address && (f->code.size || !pw->py->offsets.is_entry))
		script_call_note(pw->s, id_of(&f->code), f->code.size,
				 &(struct script_caller){.id = id_of(code),
							 .size = code->size,
							 .hidden = code->hidden});
}

/* Notes that @f is the first frame of its run; @outermost: the thread's. */
static void note_end(struct python_walk *pw, const struct noted_frame *f, uint64_t key,
		     bool outermost)
{
	/* (a generator that waits leads to nothing) */
	script_note(pw->s, pw->e, key, PYTHON_RUN_ENDS, f->f.entry ? 0 : f->f.previous);
	if (!f->code.address)
		return;
	script_call_note(pw->s, id_of(&f->code), f->code.size,
			 &(struct script_caller){.id = SCRIPT_RUN_ENDS});
	if (outermost && f->code.size && (f->f.address & (VM_PAGE - 1)) == PYTHON_CHUNK_BEGIN)
		script_note(pw->s, pw->e, python_key_of_root(pw), f->f.address, 0);
}

/* Was the frame at @address read in one request with the thread state?  Memory of another moment may be another generator's. */
static bool is_at_once(struct python_walk *pw, uint64_t address)
{
	struct vm_memory *memory = &pw->s->memory;
	uint64_t seen[2];

	return !memory->memory || !memory->memory->read_ranges ||
	       vm_memory_watched(memory, address, seen);
}

/* Notes the calls in the list from @first on, up to the end of its run.  Returns the address behind that; 0: the list does not lead
 * there, or is known from there on. */
static uint64_t note_list(struct python_walk *pw, struct python_frame first, bool outermost,
			  bool current)
{
	struct noted_frame f = {.f = first}, g;
	const struct script_function *code = f.f.there ? python_code_at(pw, first.code) : NULL;

	if (code) {
		f.code = *code;
		f.top = code->size ? first.address : 0;
	}
	for (uint32_t i = 0; i < NOTED_MAX && f.f.there && script_step(pw->s, 1); i++, f = g) {
		uint64_t key = python_key_of_call(f.f.address, f.f.code);

		g = (struct noted_frame){.top = 0};
		if (python_ends_run(pw, &f.f) || python_is_on_c_stack(pw, f.f.previous)) {
			note_end(pw, &f, key, outermost);
			return f.f.previous;
		}
		if (python_read_frame(pw, f.f.previous, &g.f) && g.f.calling &&
		    (!current || is_at_once(pw, g.f.address))) {
			script_note(pw->s, pw->e, key, g.f.code, g.f.address);
			note_caller(pw, &f, &g, current);
		} else {
			g.f.there = false;
		}
		if (f.f.same && g.f.same) /* and so are those outwards, mostly */
			return 0;
	}
	return 0;
}

void python_note_calls(struct python_walk *pw, uint32_t k, const struct python_frame *first)
{
	(void)note_list(pw, *first, k + 1 == pw->s->n_runs, false);
}

/* ---- the frames that a thread has by now ---- */

static bool late_word(struct python_walk *pw, uint64_t address, uint64_t *ret_word)
{
	return !(address & 7) && read_late(pw, address, ret_word, sizeof(*ret_word));
}

static bool is_state_of(struct python_walk *pw, uint64_t state, uint64_t thread)
{
	uint64_t native;

	return state && late_word(pw, state + pw->py->threads.native, &native) && native == thread;
}

/* The state of the sample's thread, 0: not known. */
static uint64_t find_state(struct python_walk *pw)
{
	const struct uw_python_threads *t = &pw->py->threads;
	uint64_t thread = pw->w->snapshot->thread, state;

	if (!t->interpreter || !late_word(pw, t->interpreter, &state) ||
	    !late_word(pw, state + t->threads, &state))
		return 0;
	for (uint32_t i = 0; i < STATES_MAX && state; i++) {
		if (is_state_of(pw, state, thread))
			return state;
		if (!late_word(pw, state + t->next, &state))
			return 0;
	}
	return 0;
}

/* The innermost frame of the thread with @state. */
static bool current_frame(struct python_walk *pw, uint64_t state, uint64_t *ret_address)
{
	uint32_t minor = uw_python_minor(pw->py->version);

	return late_word(pw, state + pw->py->threads.frame, ret_address) &&
	       (minor >= CFRAME_TO_FRAME ||
		late_word(pw, *ret_address + (minor < CFRAME_TRACING ? 8 : 0), ret_address));
}

void python_note_current(struct python_walk *pw)
{
	struct native_script *s = pw->s;
	uint64_t thread = pw->w->snapshot->thread, at;
	struct script_state *known =
		&s->states[hash_u64(thread ^ (uint64_t)s->serial << 32) % SCRIPT_STATES];
	struct python_frame f;

	if (known->serial != s->serial || known->thread != thread)
		*known = (struct script_state){.thread = thread, .serial = s->serial};
	pw->state = known->state;
	if (s->read_at - known->read_at < APART_NS)
		return;
	known->read_at = s->read_at;
	if (!is_state_of(pw, known->state, thread))
		pw->state = known->state = find_state(pw);
	if (!pw->state)
		return;
	vm_memory_watch(&s->memory, pw->state + pw->py->threads.frame);
	if (!current_frame(pw, pw->state, &at))
		return;
	for (uint32_t i = 0; i < RUNS_MAX && at; i++) {
		/* 3.12 on: the entry frame of a run, on the C stack. */
		if (!pw->py->offsets.is_entry && python_is_on_c_stack(pw, at) &&
		    !late_word(pw, at + pw->py->offsets.previous, &at))
			return;
		at = python_read_frame(pw, at, &f) && is_at_once(pw, at)
			     ? note_list(pw, f, false, true)
			     : 0;
	}
}
