/* interpreter-stacks.h - stacks of a process with an interpreter, which are unwound as they are and with changes on the stack, in
 * registers and in frames that a BPF program copied.  Each stack reads so many pages at most. */
#pragma once

#include <stdlib.h>

#include "tests/fuzz/changes.h"
#include "tests/unit/unwinder/interpreter-module.h"
#include "unwinder/unwinder.h"

enum { WORDS = 128, FRAMES = 100, EXACT = 8, LOOP_STEP = 16 };
#define TEXT 0x400000ull
#define STACK 0x7fff00000000ull

struct world {
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], exact[EXACT * UW_PYTHON_WORDS];
	uint64_t time, step; /* ns: the first sample, from one to the next */
	uint64_t reads_max;  /* by one stack */
	bool copied;	     /* the changes reach @exact, too */
};

static inline void world_begin(struct world *w, const struct uw_map *maps, size_t n,
			       struct changing *c, struct uw_module *script)
{
	if (!script || uw_space_new(maps, n, 7, &c->memory, &w->space) < 0 ||
	    uw_engine_new(UW_ENGINE_NATIVE, &w->engine) < 0)
		abort();
	uw_space_set_script(w->space, script);
}

/* The innermost frame is that of code with frame pointers at @pc, its frame pointer at word @bp of the stack. */
static inline void world_registers(struct world *w, uint64_t pc, size_t bp)
{
	w->regs[UW_X86_IP] = pc;
	w->regs[UW_X86_SP] = STACK;
	w->regs[UW_X86_BP] = STACK + 8 * bp;
}

/* Returns how many functions there are. */
static inline size_t world_unwind(struct world *w, const struct changing *c, uint32_t n_exact)
{
	uint64_t frames[FRAMES], before = *c->reads;
	struct uw_snapshot snapshot = {.space = w->space,
				       .regs = w->regs,
				       .arch = UW_ARCH_X86_64,
				       .stack_len = sizeof(w->stack),
				       .stack = (const uint8_t *)w->stack,
				       .time = w->time += w->step,
				       .python = w->exact,
				       .n_python = n_exact};
	struct uw_result res = {.frames = frames, .max_frames = FRAMES};
	size_t n = 0;

	if (uw_unwind_batch(w->engine, &snapshot, 1, &res) < 0 || res.n_frames > FRAMES ||
	    *c->reads - before > w->reads_max)
		abort();
	for (uint32_t i = 0; i < res.n_frames; i++) {
		n += (frames[i] & UW_FRAME_SCRIPT) != 0;
		if (!(frames[i] & UW_FRAME_SCRIPT) && uw_frame_pc(frames[i]) >> 48)
			abort();
	}
	return n;
}

static inline void world_change(struct world *w, const struct changing *c, size_t i)
{
	uint64_t *const places[] = {w->stack, w->regs, w->exact, w->stack};
	static const size_t sizes[] = {WORDS, UW_X86_COUNT, EXACT * UW_PYTHON_WORDS, WORDS};
	const uint8_t *change = changing_nth(c, i);
	size_t place = change[0] % (w->copied ? 4u : 2u), at = change[1] % sizes[place];

	if (place != 1 || (at != UW_X86_SP && at != UW_X86_IP))
		memcpy(&places[place][at], changing_value(c, i), 8);
}

/* Without changes there are functions. */
static inline void world_run(struct world *w, const struct changing *c)
{
	if (!world_unwind(w, c, 0) && !c->n)
		abort();
	if (w->copied)
		(void)world_unwind(w, c, EXACT);
	for (size_t i = 0; i < c->n; i++) {
		world_change(w, c, i);
		(void)world_unwind(w, c, w->copied ? (uint32_t)i % (EXACT + 1) : 0);
	}
}

static inline void world_end(struct world *w)
{
	(void)uw_engine_free(w->engine);
	(void)uw_space_unref(w->space);
}
