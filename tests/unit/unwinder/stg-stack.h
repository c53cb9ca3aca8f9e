/* stg-stack.h - the C stack below code of GHC, and its info tables. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { STG_WORDS = 2200, STG_RBP = 2049, STG_RETURN = 2054 }; /* in words from rsp on */

/* At @code, which is at @at: a call of StgRun at @runs; the stack at @sp has its return address far above, and then @root. */
static inline void stg_stack(uint8_t *code, uint64_t at, uint64_t runs, uint64_t *stack,
			     uint64_t sp, uint64_t root)
{
	int32_t call = (int32_t)(runs - (at + 0x25));

	memset(stack, 0, STG_WORDS * sizeof(*stack));
	memset(code, 0x90, 0x100);
	code[0x20] = 0xe8;
	memcpy(code + 0x21, &call, sizeof(call));
	stack[STG_RBP] = sp + 8 * (STG_RETURN + 20);
	stack[STG_RETURN] = at + 0x25;
	stack[STG_RETURN + 3] = root;
}

/* In front of a return address. */
static inline void stg_table(uint8_t *to, uint32_t type, uint64_t layout)
{
	memcpy(to, &layout, sizeof(layout));
	memcpy(to + 8, &type, sizeof(type));
	memset(to + 12, 0, 4);
}
