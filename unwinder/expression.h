/* expression.h - DWARF expressions, as CFI contains them.  Private to unwinder/.  Thread: the engine's. */
#pragma once

#include "symbols/cfi-table.h"
#include "unwinder/regs.h"

/* Registers of one frame, as far as known. */
struct cfi_regs {
	uint64_t r[DWARF_REGS];
	uint64_t known; /* bit by DWARF number */
};

struct cfi_memory {
	/* 1 to 8 bytes, zero-extended; false: not there. */
	bool (*read)(struct cfi_memory *memory, uint64_t address, unsigned size,
		     uint64_t *ret_value);
	uint64_t missed; /* the address of a read that failed */
};

/* Evaluates a DWARF expression of bounded length and time.  @push: the first value on the stack,
 * NULL: none. @bias: added to the operand of DW_OP_addr, for an address of the process. */
enum cfi_result cfi_evaluate(const uint8_t *expression, uint32_t len, const struct cfi_regs *regs,
			     uint64_t bias, const uint64_t *push, struct cfi_memory *memory,
			     uint64_t *ret_value);
