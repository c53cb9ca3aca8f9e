/* code.h - frames by instruction bytes, where there is no CFI.  Private to unwinder/.  Thread: any.
 */
#pragma once

#include "unwinder/rule.h"
#include "unwinder/unwinder.h"

enum {
	CODE_BEFORE = 8, /* bytes wanted before an address */
	CODE_AFTER = 16, /* and from it on */
	CODE_SCAN = 512, /* aarch64: before an interrupted one, at most */
};

/* @code: the bytes up to a return address, @len of them (the last is the one before it).  Do they
 * end in a call? */
bool code_ends_in_call(enum uw_arch arch, const uint8_t *code, size_t len);
/* x86-64: in a call through a pointer, as code that was made at run time is called? */
bool code_ends_in_indirect_call(const uint8_t *code, size_t len);
/* How the frame of a function that was interrupted at @code + @before is found.  @len bytes in all.
 * aarch64: both addresses are multiples of 4, so is @before. */
enum rule_form code_form(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* Is the return address @code + @before, of @len bytes in all, that of Go's runtime.goexit?  A new
 * goroutine is made as if called from behind goexit's first instruction: nop; call goexit1; nop. */
bool code_is_goexit(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* The function of Go's runtime that a return address, given in the same way, is in: behind the call that it makes on the
 * thread's own stack (g0), of which it is the first frame.  The words behind it there are stale. */
enum code_go {
	CODE_GO_NONE,
	CODE_GO_MCALL,	     /* the goroutine waits from then on: it has no part in the stack */
	CODE_GO_MORESTACK,   /* g.sched is the goroutine's function that needs a larger stack */
	CODE_GO_SYSTEMSTACK, /* g.sched.sp is where the goroutine's stack was left */
	/* asmcgocall: the words at rsp + 48 (of 1.22 on: rsp + 8) and 8 below are the goroutine, and the distance from the end of its stack
	 * to where that was left */
	CODE_GO_CGO_64,
	CODE_GO_CGO_16,
};
enum code_go code_go_switch(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* Of the runtime's structures (runtime/runtime2.go): bytes; multiples of 8 below CODE_GO_OFFSET_MAX. */
enum { CODE_GO_OFFSET_MAX = 1024, CODE_GO_AFTER = 48 };
struct code_go_offsets {
	uint32_t m;    /* of g.m; g begins with the bounds of its stack, m with its g0 */
	uint32_t curg; /* of m.curg */
	uint32_t sp;   /* of g.sched.sp; the pc is behind it */
};
/* @code: CODE_GO_AFTER bytes or more behind the call in systemstack, which leads back to the goroutine.  false: other code. */
bool code_go_offsets(const uint8_t *code, size_t len, struct code_go_offsets *ret_offsets);

/* OCaml's raise (native-ocaml.c) that was interrupted at @code + @before, of @len bytes in all: the words from rsp to the one with the
 * handler's address. */
enum {
	CODE_RAISE_NONE = -1,
	CODE_RAISE_R11 = -2, /* the address is in r11, and rsp is the handler's */
	CODE_RAISE_BEFORE = 12,
	CODE_RAISE_AFTER = 12,
};
int code_raise(const uint8_t *code, size_t before, size_t len);
/* @code: a function of x86-64 from its first byte on.  The offset of the first conditional jump to @to; @to: there is none before it, or an
 * instruction is not known. */
size_t code_branch_to(const uint8_t *code, size_t to);

enum {
	CODE_WALK_BEFORE = 64, /* bytes wanted before an address: loops jump back */
	CODE_WALK_AFTER = 640,
	CODE_WALK_MAX = 4096, /* the largest distance from rsp that is reported */
	CODE_SOURCE_MAX = 2047 * 8,
};

/* The later content of a register: the present content of @reg, or the memory at @reg plus @offset
 * (a multiple of 8, up to CODE_SOURCE_MAX). */
struct code_source {
	uint8_t reg; /* DWARF's number */
	bool memory;
	uint32_t offset;
};

enum code_way_kind {
	CODE_WAY_STACK, /* the return address is @ra bytes above rsp, a multiple of 8 */
	CODE_WAY_FP,	/* rbp is the frame's: [rbp] and [rbp + 8] */
	/* It is not on this stack yet: it will be pushed to where rsp is. Code that switches stacks
	 * ends this way: glibc's swapcontext(). */
	CODE_WAY_PUSHES,
};

struct code_way {
	enum code_way_kind kind;
	bool returns; /* by a ret; false: by a jump to an address out of a register or memory */
	uint32_t ra;  /* CODE_WAY_STACK */
	int32_t bp;   /* the place of the caller's rbp; -1: it is in rbp */
	struct code_source from,
		bp_from; /* CODE_WAY_PUSHES: the return address, the caller's rbp */
};
/* @code: @len bytes of x86-64 code, the walk begins at @at.  false: the walk met no end that gives
 * an answer. */
bool code_walk(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way);
enum {
	CODE_PROLOGUE_STEP = 4096,    /* bytes that are searched at a time */
	CODE_PROLOGUE_MAX = 64 << 10, /* in all */
	CODE_PROLOGUE_BYTES = 48,     /* of the longest one, and more */
};
/* The same by the prologue that is nearest before @code + @at, or that @at is in: pushes, moves, a subtraction from rsp.  A function
 * that moves rsp afterwards has another frame than this one.  false: there is none. */
bool code_prologue(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way);
/* The end of straight code. It has no call and no branch but jumps that are always taken, so it is
 * certain to run. */
enum code_exit_kind {
	CODE_EXIT_RETURN,
	CODE_EXIT_JUMP,	   /* to @to, outside of the code */
	CODE_EXIT_POINTER, /* jumps to an address out of a register or memory */
};
struct code_exit {
	enum code_exit_kind kind;
	bool pops;  /* a register of the caller was popped before the end */
	int64_t sp; /* rsp at the end, from where it is now */
	int64_t bp; /* where the caller's rbp is, from there, too; -1: in rbp */
	int64_t to; /* CODE_EXIT_JUMP: from @code */
};
/* false: it ends in another way, or has an unknown instruction. */
bool code_exits(const uint8_t *code, size_t at, size_t len, struct code_exit *ret_exit);
/* @code: a function from its first byte on.  The offset of the first instruction that moves rsp
 * other than by calling, in the order of addresses, or that is not known and may, or is cut by the
 * end; @len: none. */
size_t code_moves_sp(const uint8_t *code, size_t len);

/* The jumps of a function of x86-64, @len bytes at @code, in the order of addresses: the next one from *at on, which becomes the
 * place behind it.  *ret_to: where it leads, from @code.  false: there is none. */
#define CODE_TO_POINTER \
	INT64_MIN /* to an address out of a register or memory; or an instruction is not known */
bool code_next_jump(const uint8_t *code, size_t len, size_t *at, int64_t *ret_to);

/* An x86-64 instruction taken apart, as far as a walk through code needs it. */
struct code_insn {
	size_t length;
	const uint8_t *op; /* the last opcode byte; ModRM behind it */
	uint8_t rex;
	bool two, vex;
	bool narrow;  /* 0x66, and no REX.W */
	bool segment; /* of fs or gs */
};
/* A conditional jump by four bytes.  Opcodes behind 0f 38 and 0f 3a have ModRM. */
static inline bool code_is_long_branch(const struct code_insn *in)
{
	return in->two && in->op[-1] == 0x0f && (*in->op & 0xf0) == 0x80;
}
/* false: not known, or longer than @len. */
bool code_decode(struct code_insn *in, const uint8_t *code, size_t len);
