/* regs.h - machines: register numbers, DWARF's and perf's, and what a return address is.  Private
 * to unwinder/.  Thread: any.
 *
 * The only place that depends on the architecture.  DWARF numbers: System V psABI x86-64, figure
 * 3.36; DWARF for the Arm 64-bit Architecture, 4.1 (aadwarf64).  A snapshot has its architecture,
 * so samples of another machine can be unwound, too: nothing here depends on the host. */
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

	DWARF_ARM64_X0 = 0,
	DWARF_ARM64_X3 = 3,
	DWARF_ARM64_X19 = 19,
	DWARF_ARM64_FP = 29,
	DWARF_ARM64_LR, /* x30, mostly the return address column */
	DWARF_ARM64_SP,
	DWARF_ARM64_PC,
	DWARF_ARM64_COUNT,
};

/* Registers that a frame's rules are kept for, of any machine.  Higher numbers (vectors, x87) never
 * matter to a walk. */
enum { DWARF_REGS = DWARF_ARM64_COUNT };

struct uw_machine {
	enum uw_arch arch;
	uint8_t n_regs;	    /* of DWARF_REGS */
	uint8_t fp, sp, pc; /* DWARF numbers */
	uint64_t preserved; /* registers that a called function restores when its CFI has no rule */
	const uint8_t *perf; /* DWARF number -> place in UW_REGS_MASK_* order */
	bool link;	     /* a call leaves the return address in a register */
	/* A signal trampoline's stack pointer is this far below the interrupted registers ... */
	uint16_t signal_regs;
	const uint8_t *signal; /* ... and the place of each register there, in words */
};

/* rbx, rbp, r12..r15.  [rsp] is a struct ucontext, its gregs are at 40: R8..R15 RDI RSI RBP RBX RDX
 * RAX RCX RSP RIP (x86's asm/ucontext.h, asm/sigcontext.h). */
static const struct uw_machine machine_x86_64 = {
	.arch = UW_ARCH_X86_64,
	.n_regs = DWARF_X86_COUNT,
	.fp = DWARF_X86_RBP,
	.sp = DWARF_X86_RSP,
	.pc = DWARF_X86_RIP,
	.preserved = 1u << DWARF_X86_RBX | 1u << DWARF_X86_RBP | 0xfu << DWARF_X86_R12,
	.perf = (const uint8_t[]){UW_X86_AX, UW_X86_DX, UW_X86_CX, UW_X86_BX, UW_X86_SI, UW_X86_DI,
				  UW_X86_BP, UW_X86_SP, UW_X86_R8, UW_X86_R8 + 1, UW_X86_R8 + 2,
				  UW_X86_R8 + 3, UW_X86_R8 + 4, UW_X86_R8 + 5, UW_X86_R8 + 6,
				  UW_X86_R15, UW_X86_IP},
	.signal_regs = 40,
	.signal = (const uint8_t[]){13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16},
};

/* x19..x30: a leaf keeps its return address where the call put it.  perf's order is x0..x29, lr,
 * sp, pc (arm64's asm/perf_regs.h), which is DWARF's; so is a signal frame's: [sp] is a siginfo of
 * 128 bytes and a struct ucontext: its regs[31], sp, pc are at 184 (arm64's asm/ucontext.h,
 * asm/sigcontext.h). */
static const struct uw_machine machine_aarch64 = {
	.arch = UW_ARCH_AARCH64,
	.n_regs = DWARF_ARM64_COUNT,
	.fp = DWARF_ARM64_FP,
	.sp = DWARF_ARM64_SP,
	.pc = DWARF_ARM64_PC,
	.preserved = 0xfffu << DWARF_ARM64_X19,
	.perf = (const uint8_t[]){0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
				  11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
				  22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32},
	.link = true,
	.signal_regs = 128 + 184,
	.signal = (const uint8_t[]){0,	1,  2,	3,  4,	5,  6,	7,  8,	9,  10,
				    11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
				    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32},
};

static inline const struct uw_machine *uw_machine_of(enum uw_arch arch)
{
	return arch == UW_ARCH_AARCH64 ? &machine_aarch64 : &machine_x86_64;
}

/* Pointer authentication (aarch64) signs a return address in its bits 54 down to the size of an
 * address, which depends on the kernel and stands in no sample.  No mapping ends above that size,
 * and a return address lies in a mapping: all bits above the highest mapping's are the signature's.
 * 0: none. */
static inline uint64_t uw_machine_pac_mask(const struct uw_machine *machine,
					   const struct uw_space *space, uint64_t sp)
{
	uint64_t top = sp, bits;

	if (!machine->link)
		return 0;
	if (space->n_maps)
		top = max_u64(top, uw_space_end(space) - 1);
	/* 39 bits: the smallest address size of a kernel for processors that sign. */
	bits = 64 - (uint64_t)__builtin_clzll(top | 1ull << 38);
	return bits < 55 ? (1ull << 55) - (1ull << bits) : 0;
}
