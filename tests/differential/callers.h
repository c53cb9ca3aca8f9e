/* callers.h - the true stack of a program that is stepped one instruction at a time, known by its
 * calls and returns and not by any unwind information.  Thread: the one that traces it.
 *
 *   call             a node with the place and value of the return address
 *   ret              back to the parent of the node at the place that was popped, wherever that node is:
 *                    a coroutine's switch returns to a call of another stack
 *   signal           two nodes: the interrupted frame, and the trampoline that the handler returns to
 *   rt_sigreturn     behind both
 *   other returns    (an exception's landing, the first entry of a coroutine) and jumps that give
 *                    stack back (longjmp): behind all nodes with a place that is above no more */
#pragma once

#include "tests/differential/live.h"
#include "unwinder/unwinder.h"

struct caller {
	struct caller *parent, *all;
	uint64_t slot, pc; /* pc: a return address, or where a signal interrupted */
	bool signal;
};

/* What a step did to the stack, beyond plain calls and returns. */
enum callers_event { CALLERS_SAME, CALLERS_CALLED, CALLERS_RETURNED, CALLERS_SWITCHED };

struct callers {
	struct caller *top;   /* NULL: the outermost function */
	bool other_stack;     /* and not of the first stack */
	struct caller *all;   /* every node, for the end */
	struct table by_slot; /* slot -> the last node there */
	uint8_t code[16];     /* the instruction about to be executed */
	uint64_t sp;	      /* before it */
};

void callers_deinit(struct callers *callers);
/* A return address from before the first step, at an unknown place; outermost first. */
int callers_begin(struct callers *callers, uint64_t pc);
/* Before an instruction at a stack pointer of @sp. */
void callers_before(struct callers *callers, const uint8_t code[16], uint64_t sp);
/* After it.  < 0: -ENOMEM. */
int callers_after(struct callers *callers, struct live *live, uint64_t pc, uint64_t sp,
		  enum callers_event *ret_event);
/* A signal arrived: its handler is about to begin. */
int callers_signal(struct callers *callers, struct live *live, uint64_t interrupted, uint64_t sp);
/* Is the instruction before which we stand a system call? */
bool callers_at_syscall(const struct callers *callers);
/* The frames at @pc, innermost first.  Returns how many. */
uint32_t callers_frames(const struct callers *callers, uint64_t pc, uint64_t *frames, uint32_t max);
