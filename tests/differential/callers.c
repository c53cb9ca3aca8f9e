/* callers.c - see callers.h.  Instructions: Intel SDM volume 2. */
#include "tests/differential/callers.h"

#include <errno.h>
#include <string.h>

enum { NEAR = 1 << 20 }; /* bytes that one stack's switchless jumps may give back */

void callers_deinit(struct callers *callers)
{
	while (callers->all) {
		struct caller *next = callers->all->all;

		free(callers->all);
		callers->all = next;
	}
	table_deinit(&callers->by_slot);
}

static int push(struct callers *callers, uint64_t slot, uint64_t pc, bool signal)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller)
		return -ENOMEM;
	*caller = (struct caller){callers->top, callers->all, slot, pc, signal};
	callers->top = callers->all = caller;
	return table_put(&callers->by_slot, slot, (uint64_t)(uintptr_t)caller);
}

int callers_begin(struct callers *callers, uint64_t pc)
{
	return push(callers, 0, pc, false);
}

/* The opcode, behind prefixes. */
static const uint8_t *opcode(const uint8_t code[16])
{
	const uint8_t *at = code, *end = code + 13;

	while (at < end && strchr("\x66\xf2\xf3\x2e\x3e\x36\x26\x64\x65\x67", *at) && *at)
		at++;
	if (at < end && (*at & 0xf0) == 0x40)
		at++;
	return at;
}

enum kind { OTHER, CALL, RET, JUMP };

static enum kind kind_of(const uint8_t code[16])
{
	const uint8_t *at = opcode(code);

	if (at[0] == 0xe8 || (at[0] == 0xff && (at[1] >> 3 & 7) == 2))
		return CALL;
	if (at[0] == 0xc3 || at[0] == 0xc2)
		return RET;
	return at[0] == 0xff && (at[1] >> 3 & 7) == 4 ? JUMP : OTHER;
}

bool callers_at_syscall(const struct callers *callers)
{
	return callers->code[0] == 0x0f && callers->code[1] == 0x05;
}

void callers_before(struct callers *callers, const uint8_t code[16], uint64_t sp)
{
	memcpy(callers->code, code, sizeof(callers->code));
	callers->sp = sp;
}

/* Gives back what lies below @sp on its stack.  true: something did. */
static bool pop_below(struct callers *callers, uint64_t sp)
{
	struct caller *was = callers->top;

	while (callers->top && callers->top->slot && callers->top->slot < sp &&
	       sp - callers->top->slot < NEAR)
		callers->top = callers->top->parent;
	return callers->top != was;
}

/* A return without a call: a stack's first function, with the caller at the address that its maker put
 * there. */
static int begin_stack(struct callers *callers, struct live *live, uint64_t sp)
{
	uint64_t word = 0;

	callers->top = NULL;
	return live_read(live, sp, &word, sizeof(word)) == sizeof(word) && word &&
			       live_area(live, word)
		       ? push(callers, sp, word, false)
		       : 0;
}

static int returned(struct callers *callers, struct live *live, uint64_t pc, uint64_t sp,
		    enum callers_event *ret_event)
{
	struct caller *to = table_pointer(&callers->by_slot, callers->sp);
	const struct live_area *area = live_area(live, sp);

	*ret_event = callers->top && to == callers->top ? CALLERS_RETURNED : CALLERS_SWITCHED;
	if (to && to->pc == pc) {
		callers->top = to->parent;
		return 0;
	}
	if (callers->top && !callers->top->slot && callers->top->pc == pc) {
		callers->top = callers->top->parent;
		*ret_event = CALLERS_RETURNED;
		return 0;
	}
	*ret_event = CALLERS_SWITCHED;
	if (callers->top && area && callers->top->slot >= area->start &&
	    callers->top->slot < area->end) {
		(void)pop_below(callers, sp);
		return 0;
	}
	return begin_stack(callers, live, sp);
}

int callers_after(struct callers *callers, struct live *live, uint64_t pc, uint64_t sp,
		  enum callers_event *ret_event)
{
	const struct live_area *area;
	const struct caller *to;
	uint64_t word;

	*ret_event = CALLERS_SAME;
	switch (kind_of(callers->code)) {
	case CALL:
		if (live_read(live, sp, &word, sizeof(word)) != sizeof(word))
			return -EFAULT;
		*ret_event = CALLERS_CALLED;
		return push(callers, sp, word, false);
	case RET:
		return returned(callers, live, pc, sp, ret_event);
	case JUMP:
		/* pop %rax; jmp *%rax: another stack's return in other words. */
		to = table_pointer(&callers->by_slot, sp - 8);
		if (to && to != callers->top && to->pc == pc) {
			callers->top = to->parent;
			*ret_event = CALLERS_SWITCHED;
			return 0;
		}
		area = live_area(live, sp);
		if (callers->top && callers->top->slot && area &&
		    (callers->top->slot < area->start || callers->top->slot >= area->end)) {
			*ret_event = CALLERS_SWITCHED; /* to a stack's first function */
			return begin_stack(callers, live, sp);
		}
		if (pop_below(callers, sp))
			*ret_event = CALLERS_SWITCHED;
		return 0;
	default:
		/* rt_sigreturn: the only other way to a far stack pointer that ends in a system
		 * call. */
		if (callers_at_syscall(callers) && sp != callers->sp && callers->top &&
		    callers->top->signal) {
			callers->top = callers->top->parent;
			*ret_event = CALLERS_RETURNED;
		}
		return 0;
	}
}

int callers_signal(struct callers *callers, struct live *live, uint64_t interrupted, uint64_t sp)
{
	uint64_t word = 0;
	int r = push(callers, sp + 1, interrupted, true); /* no return address has that place */

	if (r < 0 || live_read(live, sp, &word, sizeof(word)) != sizeof(word))
		return r < 0 ? r : -EFAULT;
	return push(callers, sp, word, false);
}

uint32_t callers_frames(const struct callers *callers, uint64_t pc, uint64_t *frames, uint32_t max)
{
	uint32_t n = 0;

	frames[n++] = pc;
	for (const struct caller *c = callers->top; c && n < max; c = c->parent) {
		/* The trampoline was not the caller of the handler: its own address counts. */
		if (c->signal && n > 1)
			frames[n - 1] &= ~UW_FRAME_CALLER;
		frames[n++] = c->pc | (c->signal ? UW_FRAME_SIGNAL : UW_FRAME_CALLER);
	}
	return n;
}
