/* wait-stack.h - an entry from a stack that was read while its thread waited.  Thread: main.
 *
 * The kernel shows the stack pointer and the pc of a thread that waits, and no other register.  The frame pointer is
 * guessed: it is the first place in the stack from which frame pointers lead upwards.  Code that is unwound by the stack
 * pointer does not need it, and a wrong guess fails at a return address that follows no call. */
#pragma once

#include "session/loader/load-request.h"
#include "session/pipeline/entry.h"

/* The first word of @stack (@len bytes, from address @sp up) that is the start of a chain of frame pointers: [saved frame
 * pointer][return address].  0: there is none. */
uint64_t wait_stack_fp(const uint8_t *stack, size_t len, uint64_t sp);
/* The answer to LOAD_WAIT as an entry, with registers in @regs (room for UW_X86_COUNT) and bytes that stay the answer's.  The caller adds the process
 * and its space.  False: the stack is of no use: nothing of it was read, or another machine. */
bool wait_stack_entry(const struct load_answer *answer, uint64_t *regs, struct entry *ret_entry);
