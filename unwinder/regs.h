/* regs.h - register numbers: DWARF's, and where perf's order has them.  Private to unwinder/.
 * Thread: any.
 *
 * The one place that knows them by architecture.  DWARF numbers: System V psABI x86-64,
 * figure 3.36. */
#pragma once

#include "unwinder/unwinder.h"

enum {
	DWARF_X86_RAX,
	DWARF_X86_RDX,
	DWARF_X86_RCX,
	DWARF_X86_RBX,
	DWARF_X86_RSI,
	DWARF_X86_RDI,
	DWARF_X86_RBP,
	DWARF_X86_RSP,
	DWARF_X86_R8,
	DWARF_X86_R12 = 12,
	DWARF_X86_R15 = 15,
	DWARF_X86_RIP, /* the return address column */
	DWARF_X86_COUNT,
};

/* Registers that a frame's rules are kept for.  Higher numbers (vectors, x87) never matter to a
 * walk. */
enum { DWARF_REGS = DWARF_X86_COUNT };

/* What a called function hands back unchanged when its CFI says nothing: rbx, rbp, r12..r15. */
#define DWARF_X86_PRESERVED (1u << DWARF_X86_RBX | 1u << DWARF_X86_RBP | 0xfu << DWARF_X86_R12)

/* DWARF number -> place in UW_REGS_MASK_X86_64 order. */
static const uint8_t dwarf_x86_to_perf[DWARF_REGS] = {
	UW_X86_AX,     UW_X86_DX,     UW_X86_CX,     UW_X86_BX,	    UW_X86_SI,	   UW_X86_DI,
	UW_X86_BP,     UW_X86_SP,     UW_X86_R8,     UW_X86_R8 + 1, UW_X86_R8 + 2, UW_X86_R8 + 3,
	UW_X86_R8 + 4, UW_X86_R8 + 5, UW_X86_R8 + 6, UW_X86_R15,    UW_X86_IP,
};
