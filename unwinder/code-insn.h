/* code-insn.h - x86-64 instructions taken apart, as far as a walk through code needs it.  Private to
 * unwinder/.  Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_insn {
	size_t length;
	const uint8_t *op; /* the last opcode byte; ModRM behind it */
	uint8_t rex;
	bool two, vex;
	bool narrow;  /* 0x66, and no REX.W */
	bool segment; /* of fs or gs */
};
/* false: not known, or longer than @len. */
bool code_decode(struct code_insn *in, const uint8_t *code, size_t len);
/* The length of the instruction at @code, 0: not known, or longer than @len. */
size_t code_length(const uint8_t *code, size_t len);
